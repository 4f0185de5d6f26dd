"""Places of members, in the order of their scores: see `places_plain`.

Few are in a list, many in a `SortedList`, which finds ranks in logarithmic time. The specification of `score_order`,
which holds places in a fifth of the memory, and its replacement where there is no C compiler.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Any, Final

from sortedcontainers import SortedList

try:
    from .places import pack_score, place_of, score_bytes, unpack_score, words_of
except ImportError:  # there was no C compiler at installation
    from .places_plain import pack_score, place_of, score_bytes, unpack_score, words_of

# Places that are in a list at most.
FEW_MAX: Final = 512
# Bytes that a place takes besides its own: those of its object, its reference, and its part of the index.
PLACE_SIZE: Final = 60


class ScoreOrder:
    """Places, ascending. No two are alike."""

    __slots__ = ("_few", "_many", "_size")

    def __init__(self) -> None:
        self._few: list[bytes] = []
        # None while there are few.
        self._many: Any = None
        # Bytes of the places.
        self._size = 0

    def __len__(self) -> int:
        return len(self._few) if self._many is None else len(self._many)

    def add(self, place: bytes) -> None:
        """Add a new place."""
        self._size += len(place)
        if self._many is not None:
            self._many.add(place)
            return
        insort(self._few, place)
        if len(self._few) > FEW_MAX:
            self._many = SortedList(self._few)
            self._few = []

    def remove(self, place: bytes) -> None:
        """Remove an existing place. Raises ValueError."""
        if self._many is not None:
            self._many.remove(place)
        else:
            self._few.remove(place)
        self._size -= len(place)

    def put(self, member: bytes, score: float, old: bytes | None) -> bytes:
        """Give a member its first score, or another one than `old`, which is as `pack_score` returns it.

        Returns the bytes of the score, or `old` itself if that is the same score, as both zeros are. Raises ValueError
        if the member does not have the old score.
        """
        if old is not None:
            old_score = unpack_score(old)
            if old_score == score:
                return old
            self.remove(place_of(old_score, member))
        self.add(place_of(score, member))
        return pack_score(score)

    def put_new(self, members: list[bytes], scores: list[float]) -> list[bytes]:
        """Give new members their first scores. Returns the members, each with the bytes of its score after it."""
        # An order that gets its places ascending is faster.
        for place in sorted([place_of(score, member) for score, member in zip(scores, members, strict=True)]):
            self.add(place)
        return [word for pair in zip(members, map(pack_score, scores), strict=True) for word in pair]

    def rank(self, place: bytes) -> int:
        """The number of places before this one, whether it is there or not."""
        return bisect_left(self._few, place) if self._many is None else int(self._many.bisect_left(place))

    def score_ranks(self, ranges: list[tuple[float, float]]) -> list[tuple[int, int]]:
        """The ranks from and before which the scores are that are from the first number of a range on and before the
        second, without ranges that have no place."""
        ranks = [(self.rank(score_bytes(first)), self.rank(score_bytes(after))) for first, after in ranges]
        return [(start, stop) for start, stop in ranks if start < stop]

    def between(self, start: int, stop: int, skip: int = 0) -> list[bytes]:
        """The places from rank `start` on, before rank `stop`, without the first `skip` bytes of each."""
        return [place[skip:] for place in (self._few if self._many is None else self._many)[start:stop]]

    def words(self, start: int, stop: int, reverse: bool) -> list[bytes | float]:
        """The members from rank `start` on, before rank `stop`, ascending or descending, each with its score after
        it. Raises ValueError for a place without a score."""
        places = self.between(start, stop)
        return words_of(places[::-1] if reverse else places)

    def array(self, start: int, stop: int, skip: int, reverse: bool) -> bytes:
        """The reply with what `between` returns, ascending or descending: an array of bulk strings."""
        texts = self.between(start, stop, skip)
        if reverse:
            texts.reverse()
        return b"*%d\r\n%b" % (len(texts), b"".join([b"$%d\r\n%b\r\n" % (len(text), text) for text in texts]))

    def remove_range(self, start: int, stop: int) -> None:
        """Remove the places from rank `start` on, before rank `stop`."""
        self._size -= sum(map(len, self.between(start, stop)))
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
        twin._size = self._size
        return twin

    @property
    def memory_size(self) -> int:
        """Bytes of the places and of what holds them."""
        return PLACE_SIZE * len(self) + self._size

    def check(self) -> None:
        """Assert that the parts agree. Raises AssertionError."""
        places = list(self)
        assert places == sorted(set(places))
        assert self._size == sum(map(len, places))
