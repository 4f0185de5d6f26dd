"""XNACK: consumers release pending entries."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import Reply
from ...store.errors import GenericError, NoGroup, shown
from ...store.ids import StreamID, parse_ids
from ...store.pending import DELIVERY_COUNT_MAX, Delivery
from ..core.numbers import integer, parse_integer
from ..core.table import Argument, Flag, command
from ..execution.context import Context
from .entries import IDS_ARGUMENT, KEY_ARGUMENT
from .pending import GROUP_ARGUMENT, WRITE_KEY, with_group

NUMIDS_MAX: Final = 2**31 - 1


class NackRequest:
    """XNACK's arguments after the mode word."""

    __slots__ = ("force", "ids", "retry_count")

    def __init__(self, ids: list[StreamID], retry_count: int | None, force: bool) -> None:
        self.ids: Final = ids
        self.retry_count: Final = retry_count
        self.force: Final = force


def _parse_nack(argv: list[bytes]) -> NackRequest:
    if argv[4] == b"IDS" and parse_integer(argv[5]) == len(argv) - 6:
        return NackRequest(parse_ids(argv, 6), None, False)  # the usual form (benchmark row XNACK)
    tokens: list[bytes] | None = None
    retry_count: int | None = None
    force = False
    index = 4
    while index < len(argv):
        word = argv[index].upper()
        more = len(argv) - 1 - index
        if word == b"IDS" and more:
            count = _parse_numids(argv[index + 1])
            if count > more - 1:
                raise GenericError(b"number of IDs doesn't match numids")
            tokens = argv[index + 2 : index + 2 + count]
            index += 2 + count
        elif word == b"RETRYCOUNT" and more:
            retry_count = integer(argv[index + 1])
            if retry_count < 0:
                raise GenericError(b"Invalid RETRYCOUNT value, must be >= 0")
            index += 2
        elif word == b"FORCE":
            force = True
            index += 1
        else:
            raise GenericError(b"Unrecognized XNACK option '%b'" % shown(argv[index]))
    if tokens is None:
        raise GenericError(b"syntax error, expected IDS keyword")
    return NackRequest(parse_ids(tokens), retry_count, force)


def _parse_numids(token: bytes) -> int:
    message = b"numids must be a positive integer"
    try:
        count = integer(token)
    except GenericError:
        raise GenericError(message) from None
    if not 1 <= count <= NUMIDS_MAX:
        raise GenericError(message)
    return count


def _released_count(mode: bytes, request: NackRequest, delivery: Delivery | None) -> int:
    """Returns the delivery count of an entry after its release. `delivery` is None if FORCE makes the entry pending."""
    if request.retry_count is not None:
        return request.retry_count
    if mode == b"FATAL":
        return DELIVERY_COUNT_MAX
    if delivery is None:
        return 0
    return max(delivery.count - 1, 0) if mode == b"SILENT" else delivery.count


@command(
    "XNACK",
    arity=-7,
    flags=Flag.WRITE | Flag.FAST,
    keys=WRITE_KEY,
    categories=("stream",),
    group="stream",
    since="8.8.0",
    summary="Releases pending entries: no consumer owns them, and any consumer may claim them at once.",
    complexity="O(1) for each ID.",
    arguments=(
        KEY_ARGUMENT,
        GROUP_ARGUMENT,
        Argument(
            "mode",
            "oneof",
            arguments=(
                Argument("silent", "pure-token", token="SILENT"),
                Argument("fail", "pure-token", token="FAIL"),
                Argument("fatal", "pure-token", token="FATAL"),
            ),
        ),
        IDS_ARGUMENT,
        Argument("count", "integer", token="RETRYCOUNT", optional=True),
        Argument("force", "pure-token", token="FORCE", optional=True),
    ),
)
def xnack(context: Context, argv: list[bytes]) -> Reply:
    """XNACK key group <SILENT | FAIL | FATAL> IDS numids id [id ...] [RETRYCOUNT count] [FORCE]

    Releases pending entries to the group. SILENT lowers the delivery count by one, FAIL keeps it, FATAL sets it to
    DELIVERY_COUNT_MAX. Released entries form a FIFO queue, which XREADGROUP CLAIM serves first.

    Returns the number of entries released. Raises WrongType, NoGroup, GenericError.
    Source: redis.io/commands/xnack, Redis 8.8.
    """
    key = argv[1]
    found = with_group(context.db.get_stream(key, context.now_ms), argv[2])
    if found is None:
        raise NoGroup.for_key(key, argv[2])
    stream, group = found
    mode = argv[3].upper()
    if mode not in (b"SILENT", b"FAIL", b"FATAL"):
        raise GenericError(b"mode must be SILENT, FAIL, or FATAL")
    request = _parse_nack(argv)
    released = 0
    for entry_id in request.ids:
        delivery = group.pending.get(entry_id)
        if delivery is None and not (request.force and entry_id in stream.log):
            continue
        group.release(entry_id, count=_released_count(mode, request, delivery))
        released += 1
    if released:
        group.pending.released_total += released
        if mode == b"FATAL":
            group.pending.fatal_released_total += released
        context.db.signal_ready(key)
        context.log_words(argv, released)
    return released
