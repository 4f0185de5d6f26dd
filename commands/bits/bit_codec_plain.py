"""Counting, finding and combining the bits of long strings, without a C compiler. `bit_codec` is alike, in C.

Long strings are worked on in pieces, so that no more than a piece is copied at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import and_, or_, xor
from typing import Final

# Bytes that are worked on at once, most often as one integer. The processor's cache holds several of these.
PIECE_SIZE: Final = 1 << 16


def count_ones(text: bytes, start: int, stop: int) -> int:
    """The number of ones in the bytes from `start` on, before `stop`. Raises IndexError if the text has not all."""
    if not 0 <= start <= stop <= len(text):
        raise IndexError("no such bytes")
    pieces = range(start, stop, PIECE_SIZE)
    return sum([int.from_bytes(text[begin : min(begin + PIECE_SIZE, stop)], "big").bit_count() for begin in pieces])


def byte_other_than(byte: int, text: bytes, start: int, stop: int) -> int:
    """The index of the first byte from `start` on, before `stop`, that is another; `stop` if there is none.

    Raises IndexError if the text has not all.
    """
    if not 0 <= start <= stop <= len(text):
        raise IndexError("no such bytes")
    alone = bytes((byte,))
    for begin in range(start, stop, PIECE_SIZE):
        end = min(begin + PIECE_SIZE, stop)
        rest = text[begin:end].lstrip(alone)
        if rest:
            return end - len(rest)
    return stop


def combined(operation: bytes, texts: list[bytes]) -> bytes:
    """The result of an operation of BITOP, in capitals, on one text for NOT, on two or more for DIFF, DIFF1 and ANDOR.
    Zeros follow the shorter texts."""
    if operation == b"NOT":
        return texts[0].translate(_INVERTED)
    combine = _COMBINATIONS[operation]
    size = max(map(len, texts))
    pieces: list[bytes] = []
    for begin in range(0, size, PIECE_SIZE):
        end = min(begin + PIECE_SIZE, size)
        # Low bytes first: then bytes that a text does not have are zeros of its integer.
        numbers = [int.from_bytes(text[begin:end], "little") for text in texts]
        pieces.append(combine(numbers).to_bytes(end - begin, "little"))
    return b"".join(pieces)


def _all(numbers: list[int]) -> int:
    return reduce(and_, numbers)


def _any(numbers: list[int]) -> int:
    return reduce(or_, numbers)


def _odd(numbers: list[int]) -> int:
    return reduce(xor, numbers)


def _only_in_first(numbers: list[int]) -> int:
    return numbers[0] & ~_any(numbers[1:])


def _only_in_others(numbers: list[int]) -> int:
    return _any(numbers[1:]) & ~numbers[0]


def _in_first_and_others(numbers: list[int]) -> int:
    return numbers[0] & _any(numbers[1:])


def _in_one(numbers: list[int]) -> int:
    """The bits that exactly one number has."""
    once = several = 0
    for number in numbers:
        several |= once & number
        once |= number
    return once & ~several


# What makes one integer of those of the texts.
_COMBINATIONS: Final[dict[bytes, Callable[[list[int]], int]]] = {
    b"AND": _all,
    b"OR": _any,
    b"XOR": _odd,
    b"DIFF": _only_in_first,
    b"DIFF1": _only_in_others,
    b"ANDOR": _in_first_and_others,
    b"ONE": _in_one,
}
_INVERTED: Final = bytes(range(255, -1, -1))
