"""Random members: different ones, and many that may repeat."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from ...protocol.replies import Reply
from ...store.errors import GenericError
from .numbers import INT64_MAX, integer

try:
    from .random_indexes import distinct_indexes, repeated_indexes
except ImportError:  # there was no C compiler at installation
    from .random_indexes_plain import distinct_indexes, repeated_indexes

__all__ = [
    "PICKS_PER_PIECE",
    "distinct_indexes",
    "pick_count",
    "random_index",
    "repeated_indexes",
    "repeated_picks",
]

# Picks that are encoded in one piece.
PICKS_PER_PIECE: Final = 1024
# Compiled code calls this in less time than an attribute of a module.
_draw: Final = random.random

OUT_OF_RANGE: Final = b"value is out of range, value must between %d and %d" % (-INT64_MAX, INT64_MAX)


def random_index(size: int) -> int:
    """A number below `size`, in less time than by `random.randrange`."""
    return int(_draw() * size)


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
