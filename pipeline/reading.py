"""Reading spans of streams page by page, the next page on its way while this one is decoded."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from ..store.ids import format_id, id_after, parse_id
from .connection import Connection, LostConnection, pack
from .decode import Decoder
from .errors import DataLoss
from .options import Endpoint, RangeOptions
from .page import Page, parse_page
from .spans import Expected, Span, find_unread
from .survey import key_bytes, states

logger = logging.getLogger("headrace.pipeline")

ADVICE = "option failOnDataLoss: false goes on with what is left"
"""What is said to whoever may not mind a loss."""


def read_pages(connection: Connection, span: Span, page_size: int) -> Iterator[Page]:
    """The pages of a span. A page lost with its connection is asked for again: nothing is skipped or repeated."""
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
    """What comes after a page; None at the end of the span."""
    if len(page) < page_size:
        return None
    reached = parse_id(page.last_id)
    return None if reached >= span.last else _range(span, id_after(reached), last, page_size)


def _range(span: Span, first: int, last: bytes, page_size: int) -> bytes:
    return pack(("XRANGE", key_bytes(span.stream), format_id(first), last, "COUNT", page_size))


def _start(connection: Connection, request: bytes) -> bool:
    """Ask ahead. A lost connection is no matter yet: the page is then asked for when it is needed."""
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
    """A span as RecordBatches."""
    with Connection(endpoint) as connection:
        for page in read_pages(connection, span, page_size):
            yield decoder.decode(span.stream, page)


def read_whole_span(options: RangeOptions, decoder: Decoder, span: Span, expected: Expected) -> Iterator[Any]:
    """A span as RecordBatches, and at its end a look whether all of it was there. Raises DataLoss if not, or warns."""
    with Connection(options) as connection:
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


def raise_loss(loss: object) -> None:
    """Raises DataLoss if there is one."""
    if loss is not None:
        raise DataLoss(f"{loss} ({ADVICE})")
