"""What is counted of Redis' nodes: types of the count, and sizes of the elements of a listpack."""

from __future__ import annotations

from typing import Final

# The node that is being filled: the halves of its first ID, live and total entries, size, and names of its fields.
OpenNode = tuple[int, int, int, int, int, list[bytes]]
# Number of entries that were added to the open node, and its size afterwards.
Continued = tuple[int, int]
# A new node: the row of its first entry, its number of entries, its size, and the names of its fields.
Opened = tuple[int, int, int, list[bytes]]

U64_MAX: Final = 2**64 - 1


def integer_size(number: int) -> int:
    """Bytes of an integer in a listpack, its back-length included."""
    if 0 <= number <= 127:
        return 2
    if -4096 <= number <= 4095:
        return 3
    if -(2**15) <= number < 2**15:
        return 4
    if -(2**23) <= number < 2**23:
        return 5
    if -(2**31) <= number < 2**31:
        return 6
    return 10


def string_size(text: bytes) -> int:
    """Bytes of a string in a listpack, its back-length included; canonical int64 decimals are stored as integers."""
    length = len(text)
    if length <= 20 and text[-1:].isdigit():
        digits = text[1:] if text[:1] == b"-" else text
        if digits.isdigit() and (digits[:1] != b"0" or text == b"0"):
            number = int(text)
            if -(2**63) <= number < 2**63:
                return integer_size(number)
    if length <= 63:
        return length + 2
    if length <= 4095:
        return length + (3 if length + 2 <= 127 else 4)
    return length + (7 if length + 5 < 16383 else 8)


def signed_difference(number: int, base: int) -> int:
    """`number - base` of unsigned 64-bit numbers, as the signed 64-bit number it wraps to."""
    difference = (number - base) & U64_MAX
    return difference - 2**64 if difference >= 2**63 else difference
