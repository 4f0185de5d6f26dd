"""The types of the integers that BITFIELD keeps in strings, and what happens to a number that does not fit."""

from __future__ import annotations

from typing import Final

from ...store.errors import GenericError
from ..core.numbers import INT64_MAX

WRAP: Final = b"WRAP"
SAT: Final = b"SAT"
FAIL: Final = b"FAIL"
OVERFLOWS: Final = (WRAP, SAT, FAIL)

SIGNED_SIZE_MAX: Final = 64
# Redis replies with signed numbers of 64 bits.
UNSIGNED_SIZE_MAX: Final = 63


class FieldType:
    """An integer type, for example i16 or u8."""

    __slots__ = ("highest", "is_signed", "lowest", "mask", "size")

    def __init__(self, is_signed: bool, size: int) -> None:
        self.is_signed = is_signed
        # Number of bits.
        self.size = size
        # One bit for each of the type.
        self.mask = (1 << size) - 1
        # The smallest and the largest number of the type.
        self.lowest = -1 << (size - 1) if is_signed else 0
        self.highest = self.mask >> 1 if is_signed else self.mask

    def from_bits(self, bits: int) -> int:
        """Returns the number that is written with these bits. Bits beyond those of the type are ignored."""
        number = bits & self.mask
        return number - self.mask - 1 if number > self.highest else number

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


# The types by their names.
TYPES: Final = {
    **{b"i%d" % size: FieldType(True, size) for size in range(1, SIGNED_SIZE_MAX + 1)},
    **{b"u%d" % size: FieldType(False, size) for size in range(1, UNSIGNED_SIZE_MAX + 1)},
}


def parse_type(token: bytes) -> FieldType:
    """Returns the type that `token` names: i1 to i64, u1 to u63. Raises GenericError."""
    kind = TYPES.get(token)
    if kind is None:
        raise GenericError(
            b"Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is."
        )
    return kind
