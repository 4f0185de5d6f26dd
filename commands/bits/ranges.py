"""Counting and finding bits in a range of a string. Bit 0 is the highest bit of the first byte.

Long strings are searched in pieces, each as one integer, so that no more than a piece is copied at a time.
"""

from __future__ import annotations

from typing import Final

try:
    from .bit_codec import count_ones
except ImportError:  # there was no C compiler at installation
    from .bit_codec_plain import count_ones

# Bytes that are searched as one integer. The processor's cache holds several of these.
PIECE_SIZE: Final = 1 << 16
# What a search for a 0 or for a 1 skips.
_WITHOUT: Final = (b"\xff" * PIECE_SIZE, bytes(PIECE_SIZE))


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
    end_byte = (last >> 3) + 1
    for begin in range(first >> 3, end_byte, PIECE_SIZE):
        end = min(begin + PIECE_SIZE, end_byte)
        piece = text[begin:end]
        if piece == _WITHOUT[bit][: end - begin]:
            continue
        number = int.from_bytes(piece, "big")
        if not bit:
            number ^= (1 << 8 * (end - begin)) - 1
        if 8 * begin < first:
            number &= (1 << (8 * end - first)) - 1
        if number and 8 * end - number.bit_length() <= last:
            return 8 * end - number.bit_length()
    return None
