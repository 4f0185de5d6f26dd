"""Bits are counted and found in ranges that begin and end anywhere, in one piece or several."""

from __future__ import annotations

import random

import pytest

from headrace.commands.bits.bit_codec_plain import PIECE_SIZE
from headrace.commands.bits.ranges import count_bits, find_bit

LONG_SIZE = 2 * PIECE_SIZE + 5
# Each differs from the others in where the first 1 and the first 0 are.
LONG_TEXTS = [
    bytes(LONG_SIZE), b"\xff" * LONG_SIZE, bytes(PIECE_SIZE) + b"\x08" + bytes(PIECE_SIZE + 4),
    b"\xff" * (2 * PIECE_SIZE + 4) + b"\xfe", b"\x80" + bytes(LONG_SIZE - 2) + b"\x01",
]  # fmt: skip


def digits(text: bytes) -> str:
    """The bits of a string as digits."""
    return f"{int.from_bytes(text):0{8 * len(text)}b}"


def check(text: bytes, first: int, last: int) -> None:
    """Assert that both functions agree with a search of the digits."""
    part = digits(text)[first : last + 1]
    assert count_bits(text, first, last) == part.count("1")
    for bit in (0, 1):
        place = part.find(str(bit))
        assert find_bit(text, bit, first, last) == (None if place < 0 else first + place)


def test_every_range_of_short_strings() -> None:
    source = random.Random(2)
    for text in (b"\x00\x00", b"\xff\xff\xff", b"\x01\x80", b"\xfe\x7f", source.randbytes(3)):
        for first in range(8 * len(text)):
            for last in range(first, 8 * len(text)):
                check(text, first, last)


@pytest.mark.parametrize("text", LONG_TEXTS, ids=range(len(LONG_TEXTS)))
def test_ranges_of_strings_of_several_pieces(text: bytes) -> None:
    edge = 8 * PIECE_SIZE
    places = [0, 1, 7, 8, edge - 1, edge, edge + 3, edge + 4, edge + 5, 2 * edge - 1, 2 * edge, 8 * LONG_SIZE - 1]
    for first in places:
        for last in places:
            if first <= last:
                check(text, first, last)
