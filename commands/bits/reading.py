"""Commands that read ranges of bits: BITCOUNT, BITPOS."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import Reply
from ...store.errors import GenericError, syntax_error
from ..core.numbers import integer
from ..core.table import Argument, Flag, command
from ..execution.context import Context
from ..strings.values import KEY_ARGUMENT, READ_KEY
from .ranges import count_bits, find_bit

UNIT_ARGUMENT: Final = Argument(
    "unit",
    "oneof",
    optional=True,
    since="7.0.0",
    arguments=(Argument("byte", "pure-token", token="BYTE"), Argument("bit", "pure-token", token="BIT")),
)
HISTORY: Final = (("7.0.0", "Added the unit, `BYTE` or `BIT`."),)


class BitRange:
    """A range as it was asked for: indexes below 0 count from the end of the string."""

    __slots__ = ("end", "in_bits", "start")

    def __init__(self, start: int, end: int | None, in_bits: bool) -> None:
        self.start: Final = start
        # None for the end of the string.
        self.end: Final = end
        self.in_bits: Final = in_bits

    def within(self, size: int) -> tuple[int, int] | None:
        """Returns the first and the last bit of the range in a string of `size` bytes; None if the range is empty."""
        length = 8 * size if self.in_bits else size
        start = max(0, self.start + length if self.start < 0 else self.start)
        end = length - 1 if self.end is None else self.end
        end = min(max(0, end + length if end < 0 else end), length - 1)
        if start > end:
            return None
        return (start, end) if self.in_bits else (8 * start, 8 * end + 7)


def _is_in_bits(unit: bytes) -> bool:
    """Whether a range is given in bits. Raises GenericError for an unknown unit."""
    word = unit.upper()
    if word not in (b"BIT", b"BYTE"):
        raise syntax_error()
    return word == b"BIT"


@command(
    "BITCOUNT",
    arity=-2,
    flags=Flag.READONLY,
    keys=READ_KEY,
    categories=("bitmap",),
    group="bitmap",
    since="2.6.0",
    summary="Counts the ones in a string or in part of it.",
    complexity="O(N) in the length of the range.",
    arguments=(
        KEY_ARGUMENT,
        Argument(
            "range",
            "block",
            optional=True,
            arguments=(Argument("start", "integer"), Argument("end", "integer"), UNIT_ARGUMENT),
        ),
    ),
    history=HISTORY,
)
def bitcount(context: Context, argv: list[bytes]) -> Reply:
    """BITCOUNT key [start end [BYTE | BIT]]

    Both ends of the range are included; negative indexes count from the end of the string. Returns the number of ones,
    0 if the key is missing. Raises WrongType, GenericError. Source: redis.io/commands/bitcount, Redis 7.0.
    """
    asked = BitRange(0, None, False)
    if len(argv) in (4, 5):
        start, end = integer(argv[2]), integer(argv[3])
        asked = BitRange(start, end, len(argv) == 5 and _is_in_bits(argv[4]))
    elif len(argv) != 2:
        raise syntax_error()
    text = context.db.read_string(argv[1], context.now_ms)
    if not text or (asked.end is not None and asked.start < 0 and asked.end < 0 and asked.start > asked.end):
        return 0
    bits = asked.within(len(text))
    return 0 if bits is None else count_bits(text, *bits)


@command(
    "BITPOS",
    arity=-3,
    flags=Flag.READONLY,
    keys=READ_KEY,
    categories=("bitmap",),
    group="bitmap",
    since="2.8.7",
    summary="Finds the first 1 or the first 0 in a string or in part of it.",
    complexity="O(N) in the length of the range.",
    arguments=(
        KEY_ARGUMENT,
        Argument("bit", "integer"),
        Argument(
            "range",
            "block",
            optional=True,
            arguments=(
                Argument("start", "integer"),
                Argument(
                    "end-unit-block",
                    "block",
                    optional=True,
                    arguments=(Argument("end", "integer"), UNIT_ARGUMENT),
                ),
            ),
        ),
    ),
    history=HISTORY,
)
def bitpos(context: Context, argv: list[bytes]) -> Reply:
    """BITPOS key bit [start [end [BYTE | BIT]]]

    Both ends of the range are included; negative indexes count from the end of the string. Returns the index of the bit
    from the start of the string, -1 if there is none. Without an end, zeros follow the string, so that a search for a 0
    finds one. A missing key is all zeros. Raises WrongType, GenericError.
    Source: redis.io/commands/bitpos, Redis 7.0.
    """
    bit = integer(argv[2])
    if bit not in (0, 1):
        raise GenericError(b"The bit argument must be 1 or 0.")
    if len(argv) > 6:
        raise syntax_error()
    start = integer(argv[3]) if len(argv) > 3 else 0
    in_bits = len(argv) == 6 and _is_in_bits(argv[5])
    end = integer(argv[4]) if len(argv) > 4 else None
    text = context.db.read_string(argv[1], context.now_ms)
    if text is None:
        return -bit
    bits = BitRange(start, end, in_bits).within(len(text))
    if bits is None:
        return -1
    found = find_bit(text, bit, *bits)
    if found is not None:
        return found
    return -1 if bit or end is not None else 8 * len(text)
