"""Places of members, in the order of their scores: see `places_plain`.

Few are in a list, many in a `SortedList`, which finds ranks in logarithmic time.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import Any, Final

from sortedcontainers import SortedList

# Places that are in a list at most.
FEW_MAX: Final = 512
# Bytes that a place of many takes besides itself: its reference, and its part of the index.
PLACE_SIZE: Final = 12


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

    def between(self, start: int, stop: int) -> list[bytes]:
        """The places from rank `start` on, before rank `stop`."""
        return self._few[start:stop] if self._many is None else list(self._many[start:stop])

    def remove_range(self, start: int, stop: int) -> None:
        """Remove the places from rank `start` on, before rank `stop`."""
        if self._many is None:
            del self._few[start:stop]
        else:
            del self._many[start:stop]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._few) if self._many is None else iter(self._many)

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
