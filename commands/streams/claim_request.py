"""The arguments of XCLAIM and XAUTOCLAIM."""

from __future__ import annotations

from os import sysconf
from typing import Final

from ...store.errors import GenericError, shown, syntax_error
from ...store.ids import StreamID, parse_id
from ..core.numbers import integer

LETTER_MIN: Final = ord("A")
AUTOCLAIM_COUNT_DEFAULT: Final = 100
AUTOCLAIM_COUNT_MAX: Final = 576460752303423487
# Redis reserves 16 bytes for each of COUNT results, and refuses the command if they are more than the machine has.
AUTOCLAIM_RESULTS_MAX: Final = sysconf("SC_PHYS_PAGES") * sysconf("SC_PAGE_SIZE") // 16


class ClaimRequest:
    """The options of XCLAIM. `time_ms` is never in the future."""

    __slots__ = ("force", "ids", "if_owned", "just_ids", "last_id", "retry_count", "time_ms")

    def __init__(
        self,
        ids: list[StreamID],
        time_ms: int,
        retry_count: int | None,
        last_id: StreamID | None,
        force: bool,
        just_ids: bool,
        if_owned: bool,
    ) -> None:
        self.ids: Final = ids
        self.time_ms: Final = time_ms
        self.retry_count: Final = retry_count
        self.last_id: Final = last_id
        self.force: Final = force
        self.just_ids: Final = just_ids
        self.if_owned: Final = if_owned

    @property
    def is_settled(self) -> bool:
        """Whether owner and delivery count are set regardless of an entry's state, as records of the log do."""
        return self.force and self.just_ids and self.retry_count is not None


def parse_min_idle(token: bytes, name: bytes) -> int:
    """Returns the minimum idle time in milliseconds of the command `name`, at least 0. Raises GenericError."""
    try:
        return max(integer(token), 0)
    except GenericError:
        raise GenericError(b"Invalid min-idle-time argument for %b" % name) from None


def parse_claim(argv: list[bytes], now_ms: int, *, is_replayed: bool) -> ClaimRequest:
    """Returns the IDs and options of XCLAIM. Raises GenericError.

    A time in the future stands for now, but not in a record (`is_replayed`): the clock of the server that wrote it, or
    this one's before it was set, may be ahead.
    """
    ids: list[StreamID] = []
    index = 5
    # No ID begins with a letter; the check avoids the cost of an exception.
    while index < len(argv) and not (argv[index] and argv[index][0] >= LETTER_MIN):
        try:
            ids.append(parse_id(argv[index]))
        except GenericError:
            break
        index += 1
    time_ms, retry_count, last_id = now_ms, None, None
    force = just_ids = if_owned = False
    while index < len(argv):
        word, has_value = argv[index].upper(), index + 1 < len(argv)
        if word == b"FORCE":
            force = True
        elif word == b"JUSTID":
            just_ids = True
        elif word == b"IFOWNED":
            if_owned = True
        elif word == b"LASTID" and has_value:
            index += 1
            last_id = parse_id(argv[index])
        elif word == b"RETRYCOUNT" and has_value:
            index += 1
            number = _option_number(word, argv[index])
            retry_count = number if number >= 0 else None
        elif word in (b"IDLE", b"TIME") and has_value:
            index += 1
            number = _option_number(word, argv[index])
            time_ms = now_ms - number if word == b"IDLE" else number
            if time_ms < 0 or (time_ms > now_ms and not is_replayed):
                time_ms = now_ms
        else:
            raise GenericError(b"Unrecognized XCLAIM option '%b'" % shown(argv[index]))
        index += 1
    return ClaimRequest(ids, time_ms, retry_count, last_id, force, just_ids, if_owned)


def _option_number(word: bytes, token: bytes) -> int:
    try:
        return integer(token)
    except GenericError:
        raise GenericError(b"Invalid %b option argument for XCLAIM" % word) from None


def require_memory(count: int) -> None:
    """Raises GenericError if XAUTOCLAIM cannot have memory for so many results."""
    if count > AUTOCLAIM_RESULTS_MAX:
        raise GenericError(b"Insufficient memory, failed allocating transient memory, COUNT too high.")


def parse_autoclaim_options(argv: list[bytes]) -> tuple[int, bool]:
    """Returns COUNT of XAUTOCLAIM, and whether it has JUSTID. Raises GenericError, ReplyError."""
    count, just_ids = AUTOCLAIM_COUNT_DEFAULT, False
    index = 6
    while index < len(argv):
        word = argv[index].upper()
        if word == b"COUNT" and index + 1 < len(argv):
            index += 1
            try:
                count = integer(argv[index])
            except GenericError:
                count = 0
            if not 1 <= count <= AUTOCLAIM_COUNT_MAX:
                raise GenericError(b"COUNT must be > 0")
        elif word == b"JUSTID":
            just_ids = True
        else:
            raise syntax_error()
        index += 1
    return count, just_ids
