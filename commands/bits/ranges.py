"""Counting and finding bits in a range of a string. Bit 0 is the highest bit of the first byte."""

from __future__ import annotations

try:
    from .bit_codec import byte_other_than, count_ones
except ImportError:  # there was no C compiler at installation
    from .bit_codec_plain import byte_other_than, count_ones


def count_bits(text: bytes, first: int, last: int) -> int:
    """Returns the number of ones from bit `first` to bit `last`, both of which `text` has."""
    first_byte, last_byte = first >> 3, last >> 3
    count = count_ones(text, first_byte, last_byte + 1)
    # The bits of the first and the last byte that are out of the range.
    count -= (text[first_byte] >> (8 - (first & 7))).bit_count()
    return count - (text[last_byte] & ((0x80 >> (last & 7)) - 1)).bit_count()


def find_bit(text: bytes, bit: int, first: int, last: int) -> int | None:
    """Returns the index of the first bit of this value from bit `first` to bit `last`, both of which `text` has.

    Returns None if there is none.
    """
    # A byte whose bits all have the other value.
    without = 0x00 if bit else 0xFF
    index, end = first >> 3, (last >> 3) + 1
    # Of the first byte, only the bits from `first` on.
    wanted = (text[index] ^ without) & (0xFF >> (first & 7))
    if not wanted:
        index = byte_other_than(without, text, index + 1, end)
        if index == end:
            return None
        wanted = text[index] ^ without
    found = 8 * index + 8 - wanted.bit_length()
    return found if found <= last else None
