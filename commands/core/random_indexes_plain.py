"""Random numbers below a size, for installations without a C compiler: `random_indexes` does the same in C."""

from __future__ import annotations

import random
from typing import Final

# Numbers that are at least this part of all are found by a look at all. Redis removes others from a copy then.
MANY_PART: Final = 3
# Compiled code calls this in less time than an attribute of a module.
_draw: Final = random.random


def distinct_indexes(size: int, count: int) -> list[int]:
    """`count` different numbers below `size`; if these are many of them, ascending, else in random order. Raises
    ValueError if there are not so many.
    """
    if not 0 <= count <= size:
        raise ValueError(count, size)
    if count * MANY_PART < size:
        drawn: set[int] = set()
        picked: list[int] = []
        while len(picked) < count:
            index = int(_draw() * size)
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
    return [int(_draw() * size) for _ in range(count)]
