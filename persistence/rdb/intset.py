"""Intsets: `<bytes of a number: 2, 4 or 8> <count> numbers`, ascending, little-endian.

The two numbers of the header have four bytes.
"""

from __future__ import annotations

import struct
from array import array
from itertools import pairwise
from sys import byteorder
from typing import Final

from ..errors import RdbError

# Array codes of the numbers, by bytes.
_CODES: Final = {2: "h", 4: "i", 8: "q"}
_HEADER_SIZE: Final = 8


def pack_integers(numbers: list[int]) -> bytes:
    """Return the intset of ascending numbers, of which there is one at least."""
    size = next(size for size in _CODES if -(1 << 8 * size - 1) <= numbers[0] and numbers[-1] < 1 << 8 * size - 1)
    return struct.pack("<II", size, len(numbers)) + struct.pack(f"<{len(numbers)}{_CODES[size]}", *numbers)


def unpack_integers(data: bytes) -> list[int]:
    """Return the numbers of an intset. Raises RdbError."""
    if len(data) < _HEADER_SIZE:
        raise RdbError("Intset integrity check failed: too short")
    size, count = struct.unpack_from("<II", data)
    if size not in _CODES or len(data) != _HEADER_SIZE + size * count:
        raise RdbError("Intset integrity check failed: the length is not the announced one")
    numbers = array(_CODES[size])
    numbers.frombytes(data[_HEADER_SIZE:])
    if byteorder == "big":
        numbers.byteswap()
    ascending = numbers.tolist()
    if any(after <= before for before, after in pairwise(ascending)):
        raise RdbError("Intset integrity check failed: the numbers do not ascend")
    return ascending
