"""Random members: different ones, and many that may repeat."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from ...protocol.replies import Reply
from ...store.errors import GenericError
from .numbers import INT64_MAX, integer

# Picks that are encoded in one piece.
PICKS_PER_PIECE: Final = 1024
# Numbers that are more than this part of all are found by leaving others out. Redis removes others from a copy then.
MOST_PART: Final = 2

OUT_OF_RANGE: Final = b"value is out of range, value must between %d and %d" % (-INT64_MAX, INT64_MAX)


def distinct_indexes(size: int, count: int) -> list[int]:
    """`count` different numbers below `size`; if these are most of them, ascending, else in random order."""
    if count * MOST_PART < size:
        return random.sample(range(size), count)
    left_out = set(random.sample(range(size), size - count))
    return [index for index in range(size) if index not in left_out]


def repeated_indexes(size: int, count: int) -> list[int]:
    """`count` numbers below `size`, which may repeat."""
    return random.choices(range(size), k=count)


def repeated_picks(members: list[bytes], count: int) -> Reply:
    """The reply with `count` members, each drawn from all. A long one is made while it is sent."""
    if count <= PICKS_PER_PIECE:
        return random.choices(members, k=count)
    return (b"*%d\r\n" % count, _pieces(members, count))


def _pieces(members: list[bytes], count: int) -> Iterator[bytes]:
    while count:
        picked = random.choices(members, k=min(count, PICKS_PER_PIECE))
        count -= len(picked)
        yield b"".join([b"$%d\r\n%b\r\n" % (len(member), member) for member in picked])


def pick_count(token: bytes) -> int:
    """The count of SRANDMEMBER or HRANDFIELD. Raises GenericError."""
    count = integer(token)
    if count < -INT64_MAX:
        raise GenericError(OUT_OF_RANGE)
    return count
