"""Reads spans of streams page by page. The next page is requested while the current one is decoded."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from ...store.ids import format_id, id_after, parse_id
from ..columns.decode import Decoder
from ..columns.page import Page, parse_page
from ..connection.client import Connection, LostConnection, ReplyError, pack
from ..connection.streams import key_bytes
from ..errors import DataLoss
from ..options.kinds import Endpoint, RangeOptions
from .spans import Expected, Span, StreamState, find_unread
from .survey import states

logger = logging.getLogger("headrace.pipeline")

# The part of a DataLoss message that says how to read on.
ADVICE = "option failOnDataLoss: false reads the entries that are left"


def read_pages(connection: Connection, span: Span, page_size: int) -> Iterator[Page]:
    """Yields the pages of a span. A page lost with its connection is requested again; no entry is lost or repeated."""
    last = format_id(span.last)
    request: bytes | None = _range(span, span.first, last, page_size)
    is_sent = False
    while request is not None:
        reply = _finish(connection) if is_sent else None
        page = parse_page(reply if reply is not None else connection.fetch(request))
        is_sent, request = False, _next_request(span, page, last, page_size)
        if request is not None:
            is_sent = _start(connection, request)
        if len(page):
            yield page


def _next_request(span: Span, page: Page, last: bytes, page_size: int) -> bytes | None:
    """Returns the request for the page after this one, or None at the end of the span."""
    if len(page) < page_size:
        return None
    reached = parse_id(page.last_id)
    return None if reached >= span.last else _range(span, id_after(reached), last, page_size)


def _range(span: Span, first: int, last: bytes, page_size: int) -> bytes:
    return pack(("XRANGE", key_bytes(span.stream), format_id(first), last, "COUNT", page_size))


def _start(connection: Connection, request: bytes) -> bool:
    """Requests a page ahead of time; False if the connection is lost, so that the page is requested when needed."""
    try:
        connection.start_fetch(request)
    except LostConnection:
        return False
    return True


def _finish(connection: Connection) -> memoryview | None:
    try:
        return connection.finish_fetch()
    except LostConnection:
        return None


def read_span(endpoint: Endpoint, decoder: Decoder, span: Span, page_size: int) -> Iterator[Any]:
    """Yields a span as RecordBatches."""
    with Connection(endpoint) as connection:
        for page in read_pages(connection, span, page_size):
            yield decoder.decode(span.stream, page)


def read_whole_span(options: RangeOptions, decoder: Decoder, span: Span, expected: Expected) -> Iterator[Any]:
    """Yields a span as RecordBatches, and then checks that no entries were missing.

    If entries were missing, it raises DataLoss, or logs a warning with `failOnDataLoss=false`.
    """
    with Connection(options, _replica_with(span) if options.read_from == "replica" else None) as connection:
        read = 0
        for page in read_pages(connection, span, options.page_size):
            read += len(page)
            yield decoder.decode(span.stream, page)
        if expected == Expected() or read == expected.count:
            return
        unread = find_unread(span, expected, read, states(connection, [span.stream])[span.stream])
        if unread and options.fail_on_data_loss:
            raise_loss(f"stream {span.stream}: {unread}")
        if unread:
            logger.warning("stream %s: %s (failOnDataLoss is false)", span.stream, unread)


def _replica_with(span: Span) -> Callable[[Connection], bool]:
    """Returns which replicas have a span that was planned at the primary: they follow it, and have got that far.

    What was the primary before may also have entries that it alone has, until it follows the present one.
    """

    def accepts(connection: Connection) -> bool:
        connection.send_all([("ROLE",), ("XINFO", "STREAM", key_bytes(span.stream))])
        role, state = connection.receive(2)
        if isinstance(role, ReplyError):
            raise connection.refused("option readFrom", str(role))
        is_following = role[0] == b"slave" and role[3] == b"connected"
        return is_following and not isinstance(state, ReplyError) and StreamState.from_reply(state).last_id >= span.last

    return accepts


def raise_loss(loss: object) -> None:
    """Raises DataLoss with `loss` as its message; does nothing if `loss` is None."""
    if loss is not None:
        raise DataLoss(f"{loss} ({ADVICE})")
