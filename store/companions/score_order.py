"""The members of a sorted set in the order of their scores.

A place is one byte string: eight bytes that are ordered as the score is, then the member. So a comparison is one of
byte strings. Few places are in a list, many in a `SortedList`, which finds ranks in logarithmic time.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from itertools import islice
from struct import Struct
from typing import Any, Final

from sortedcontainers import SortedList

SCORE_SIZE: Final = 8
# Places that are in a list at most.
FEW_MAX: Final = 512
# Bytes that a place of many takes besides itself: its reference, and its part of the index.
PLACE_SIZE: Final = 12

_DOUBLE: Final = Struct(">d")
_BITS: Final = Struct(">Q")
_SIGN: Final = 1 << 63
_MASK: Final = (1 << 64) - 1


def place_of(score: float, member: bytes) -> bytes:
    """The place of a member. Both zeros are one score."""
    return score_bytes(score) + member


def score_bytes(score: float) -> bytes:
    """Eight bytes that are ordered as the score is."""
    (bits,) = _BITS.unpack(_DOUBLE.pack(score + 0.0))
    return _BITS.pack(bits ^ _MASK if bits & _SIGN else bits | _SIGN)


class ScoreOrder:
    """Places, ascending."""

    __slots__ = ("_few", "_many")

    def __init__(self, places: Iterable[bytes] = ()) -> None:
        self._few: list[bytes] = sorted(places)
        # None while there are few.
        self._many: Any = None
        self._grow()

    def _grow(self) -> None:
        if self._many is None and len(self._few) > FEW_MAX:
            self._many = SortedList(self._few)
            self._few = []

    def __len__(self) -> int:
        return len(self._few) if self._many is None else len(self._many)

    def add(self, place: bytes) -> None:
        """Add a new place."""
        if self._many is None:
            insort(self._few, place)
            self._grow()
        else:
            self._many.add(place)

    def remove(self, place: bytes) -> None:
        """Remove an existing place."""
        if self._many is None:
            del self._few[bisect_left(self._few, place)]
        else:
            self._many.remove(place)

    def rank(self, place: bytes) -> int:
        """The number of places before this one, whether it is there or not."""
        return bisect_left(self._few, place) if self._many is None else int(self._many.bisect_left(place))

    def members(self, start: int, stop: int, *, reverse: bool = False) -> list[bytes]:
        """The members of the places from rank `start` on, before rank `stop`, ascending or descending."""
        places = self._few[start:stop] if self._many is None else self._many[start:stop]
        found = [place[SCORE_SIZE:] for place in places]
        return found[::-1] if reverse else found

    def remove_range(self, start: int, stop: int) -> None:
        """Remove the places from rank `start` on, before rank `stop`."""
        if self._many is None:
            del self._few[start:stop]
        else:
            del self._many[start:stop]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._few) if self._many is None else iter(self._many)

    def walk(self, start: int) -> Iterator[bytes]:
        """Yield the places from rank `start` on."""
        return islice(self._few, start, None) if self._many is None else iter(self._many.islice(start))

    def copy(self) -> ScoreOrder:
        """Another order with the same places."""
        twin = ScoreOrder()
        twin._few = self._few.copy()
        twin._many = None if self._many is None else self._many.copy()
        return twin

    @property
    def memory_size(self) -> int:
        """Bytes of the tables, without the places."""
        return PLACE_SIZE * len(self)

    def heaps(self) -> list[Any]:
        """What `Garbage` frees a little at a time."""
        return []
