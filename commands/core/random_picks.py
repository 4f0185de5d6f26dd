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
# Numbers that are at least this part of all are found by a look at all. Redis removes others from a copy then.
MANY_PART: Final = 3
# Compiled code calls this in less time than an attribute of a module.
_draw: Final = random.random

OUT_OF_RANGE: Final = b"value is out of range, value must between %d and %d" % (-INT64_MAX, INT64_MAX)


def random_index(size: int) -> int:
    """A number below `size`, in less time than by `random.randrange`."""
    return int(_draw() * size)


def distinct_indexes(size: int, count: int) -> list[int]:
    """`count` different numbers below `size`; if these are many of them, ascending, else in random order."""
    if count * MANY_PART < size:
        drawn: set[int] = set()
        picked: list[int] = []
        while len(picked) < count:
            index = random_index(size)
            if index not in drawn:
                drawn.add(index)
                picked.append(index)
        return picked
    # Knuth's algorithm S: a number is taken with the chance that is left.
    found: list[int] = []
    for index in range(size):
        if _draw() * (size - index) < count - len(found):
            found.append(index)
    return found


def repeated_indexes(size: int, count: int) -> list[int]:
    """`count` numbers below `size`, which may repeat."""
    return [random_index(size) for _ in range(count)]


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
