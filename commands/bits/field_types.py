"""The types of the integers that BITFIELD keeps in strings, and what happens to a number that does not fit."""

from __future__ import annotations

from typing import Final

from ...store.errors import GenericError
from ..core.numbers import INT64_MAX, parse_integer

WRAP: Final = b"WRAP"
SAT: Final = b"SAT"
FAIL: Final = b"FAIL"
OVERFLOWS: Final = (WRAP, SAT, FAIL)

SIGNED_SIZE_MAX: Final = 64
# Redis replies with signed numbers of 64 bits.
UNSIGNED_SIZE_MAX: Final = 63


class FieldType:
    """An integer type, for example i16 or u8."""

    __slots__ = ("is_signed", "size")

    def __init__(self, is_signed: bool, size: int) -> None:
        self.is_signed: Final = is_signed
        # Number of bits.
        self.size: Final = size

    @property
    def lowest(self) -> int:
        """The smallest number of the type."""
        return -1 << (self.size - 1) if self.is_signed else 0

    @property
    def highest(self) -> int:
        """The largest number of the type."""
        return (1 << (self.size - 1 if self.is_signed else self.size)) - 1

    def from_bits(self, bits: int) -> int:
        """Returns the number that is written with these bits. Bits beyond those of the type are ignored."""
        number = bits & ((1 << self.size) - 1)
        return number - (1 << self.size) if self.is_signed and number > self.highest else number

    def fitted(self, number: int, overflow: bytes, *, is_set: bool) -> int | None:
        """Returns `number` as it is kept, None if it does not fit and `overflow` is FAIL.

        SAT keeps the nearest number of the type. WRAP drops the bits beyond those of the type.
        """
        if not self.is_signed and is_set and number < 0:
            # Redis takes a negative number that is set, not added, for one above 2^63.
            number += 1 << 64
        lowest, highest = self.lowest, self.highest
        if lowest <= number <= highest:
            return number
        if overflow == FAIL:
            return None
        if overflow == WRAP:
            return self.from_bits(number)
        # The distance to the highest number overflows in Redis for numbers near -2^63 that are set: it takes these for
        # numbers that are too large.
        return highest if number > highest or (is_set and highest - number > INT64_MAX) else lowest


def parse_type(token: bytes) -> FieldType:
    """Returns the type that `token` names: i1 to i64, u1 to u63. Raises GenericError."""
    kind = TYPES.get(token)
    return _parsed(token) if kind is None else kind


def _parsed(token: bytes) -> FieldType:
    is_signed = token[:1] == b"i"
    size = parse_integer(token[1:]) if is_signed or token[:1] == b"u" else None
    if size is None or not 1 <= size <= (SIGNED_SIZE_MAX if is_signed else UNSIGNED_SIZE_MAX):
        raise GenericError(
            b"Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is."
        )
    return FieldType(is_signed, size)


TYPES: Final = {
    b"%b%d" % (letter, size): FieldType(letter == b"i", size)
    for letter, size_max in ((b"i", SIGNED_SIZE_MAX), (b"u", UNSIGNED_SIZE_MAX))
    for size in range(1, size_max + 1)
}
