"""A sorted set: its members with their scores, and the encoding that Redis would have chosen for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from ..class_marks import mypyc_attr
from ..limits import Limits
from ..object_sizes import COLLECTOR_SIZE
from .companion import Companion
from .scores import FewScores, ManyScores, Scores

try:
    from .places import place_of
except ImportError:  # there was no C compiler at installation
    from .places_plain import place_of

LISTPACK: Final = b"listpack"
SKIPLIST: Final = b"skiplist"

# Bytes of the object and its attributes.
SORTED_SET_SIZE: Final = 80 + COLLECTOR_SIZE
# Members that are copied or read at a time.
MEMBERS_AT_ONCE: Final = 256


@mypyc_attr(acyclic=True)
class SortedSetValue(Companion):
    """A sorted set. `limits` decide when it is no longer small."""

    __slots__ = ("_scores",)

    type_name: ClassVar[bytes] = b"zset"
    type_number: ClassVar[int] = 3

    def __init__(self, limits: Limits, scores: Scores | None = None) -> None:
        super().__init__(limits)
        # Of a listpack, `FewScores`.
        self._scores: Scores = FewScores() if scores is None else scores

    def __len__(self) -> int:
        return len(self._scores)

    def __contains__(self, member: bytes) -> bool:
        return self._scores.get(member) is not None

    @property
    def encoding(self) -> bytes:
        return LISTPACK if self._is_listpack else SKIPLIST

    @property
    def _is_listpack(self) -> bool:
        return type(self._scores) is FewScores

    @property
    def memory_size(self) -> int:
        return SORTED_SET_SIZE + self._scores.memory_size

    # -- reading ---------------------------------------------------------------------------------

    def score(self, member: bytes) -> float | None:
        """The score of a member; None if there is no such member."""
        return self._scores.get(member)

    def scores(self, members: list[bytes]) -> list[float | None]:
        """Like `score`, for many members."""
        return self._scores.get_all(members)

    def having(self, members: list[bytes]) -> list[bytes]:
        """Those of the members that are there."""
        return self._scores.having(members)

    def rank(self, member: bytes) -> int | None:
        """The number of members before this one; None if there is no such member."""
        score = self._scores.get(member)
        return None if score is None else self._scores.rank(place_of(score, member))

    def rank_of_place(self, place: bytes) -> int:
        """The number of members before a place."""
        return self._scores.rank(place)

    def score_ranks(self, ranges: list[tuple[float, float]]) -> list[tuple[int, int]]:
        """The ranks from and before which the scores are that are from the first number of a range on and before the
        second, without ranges that have no member."""
        return self._scores.score_ranks(ranges)

    def members(self, start: int, stop: int, *, reverse: bool = False) -> list[bytes]:
        """The members from rank `start` on, before rank `stop`, ascending or descending."""
        found = self._scores.members(start, stop) if start < stop else []
        return found[::-1] if reverse else found

    def array(self, start: int, stop: int, *, reverse: bool = False) -> bytes | None:
        """The reply with what `members` returns; None if it takes no less time to encode that."""
        return self._scores.array(start, stop, reverse) if start < stop else None

    def scored(self, start: int, stop: int, *, reverse: bool = False) -> list[tuple[bytes, float]]:
        """Like `members`, with their scores."""
        found = self._scores.scored(start, stop) if start < stop else []
        return found[::-1] if reverse else found

    def words(self, start: int, stop: int, *, reverse: bool = False) -> list[bytes | float]:
        """Like `scored`, with the scores after the members."""
        return self._scores.words(start, stop, reverse) if start < stop else []

    def places(self) -> list[bytes]:
        """The places of all members of a listpack: see `places_plain`."""
        scores = self._scores
        assert isinstance(scores, FewScores)
        return scores.places()

    def joined_places(self) -> bytes | None:
        """The places of all members of a listpack in one piece, unless the caller must join `places`: see
        `PackedTexts.joined`."""
        scores = self._scores
        assert isinstance(scores, FewScores)
        return scores.joined_places()

    def items(self) -> Iterator[tuple[bytes, float]]:
        """Yield the members with their scores, ascending. They must not change meanwhile."""
        for start in range(0, len(self), MEMBERS_AT_ONCE):
            yield from self.scored(start, min(start + MEMBERS_AT_ONCE, len(self)))

    def at(self, index: int) -> bytes:
        """The member at an index, in an order that lasts until a member comes or goes."""
        return self._scores.at(index)

    def at_each(self, indexes: list[int]) -> list[bytes]:
        """Like `at`, for many indexes at once."""
        return self._scores.at_each(indexes)

    def words_at(self, indexes: list[int]) -> list[bytes | float]:
        """Like `at_each`, each member with its score after it."""
        return self._scores.words_at(indexes)

    def place_at(self, rank: int) -> bytes:
        """The place of the member of a rank: see `places_plain`."""
        return self._scores.place_at(rank)

    def scan(self, cursor: int, count: int) -> tuple[list[bytes], int]:
        """See `Members.scan`; few members are in the order of their scores."""
        return self._scores.scan(cursor, count)

    # -- changing --------------------------------------------------------------------------------

    def expect(self, count: int, size_max: int) -> None:
        """Take the encoding for so many members, of at most `size_max` bytes, that are added to an empty set."""
        if count > self.limits.sorted_set_entries_max or size_max > self.limits.sorted_set_value_max:
            self.become_skiplist()

    def expect_more(self, count: int) -> None:
        """Take the encoding for so many members that are added now."""
        if count > self.limits.sorted_set_entries_max:
            self.become_skiplist()

    def put(self, member: bytes, score: float) -> int:
        """Add a member, or change its score. Returns `SAME`, `CHANGED` or `NEW`. Both zeros are the same score."""
        if self._is_listpack:
            limits = self.limits
            if len(member) > limits.sorted_set_value_max or (
                len(self._scores) >= limits.sorted_set_entries_max and member not in self
            ):
                self.become_skiplist()
        return self._scores.put(member, score)

    def add_new(self, members: list[bytes], scores: list[float]) -> int:
        """Add members to a skiplist, all of which are new. Returns how many were; if these are fewer, the sorted set is
        of no use."""
        assert not self._is_listpack
        return self._scores.add_new(members, scores)

    def add_different(self, members: list[bytes], scores: list[float]) -> None:
        """Add members that are new and all different, in the encoding that follows from one after the other."""
        index = 0
        while self._is_listpack and index < len(members):
            self.put(members[index], scores[index])
            index += 1
        if index < len(members):
            self._scores.add_new(members[index:] if index else members, scores[index:] if index else scores)

    def fill(self, members: list[bytes], scores: list[float]) -> int:
        """Add members to a new set from a listpack of any sizes. Returns how many are new; if these are fewer, the
        sorted set must be dropped."""
        if len(members) > self.limits.sorted_set_entries_max:
            self.become_skiplist()
        return self._scores.add_new(members, scores)

    def load_listpack(self, listpack: bytes) -> bool:
        """Take over the members of a listpack with their scores, in an empty set. Returns False if the caller must read
        them: see `PackedTexts.load_scored`."""
        scores = self._scores
        if not isinstance(scores, FewScores) or not scores.load(listpack):
            return False
        if len(scores) > self.limits.sorted_set_entries_max:
            self.become_skiplist()
        return True

    def discard(self, member: bytes) -> bool:
        """Remove a member. Returns whether it was there."""
        return self._scores.discard(member)

    def remove_range(self, start: int, stop: int) -> int:
        """Remove the members from rank `start` on, before rank `stop`. Returns how many there were."""
        return self._scores.remove_range(start, stop) if start < stop else 0

    def take_all(self) -> SortedSetValue:
        """Another sorted set, which has the members from now on. This one is empty."""
        taken = SortedSetValue(self.limits)
        taken._scores, self._scores = self._scores, taken._scores
        return taken

    # -- keeping ---------------------------------------------------------------------------------

    def become_skiplist(self) -> None:
        """Be a skiplist from now on."""
        if self._is_listpack:
            self._take(ManyScores())

    def _take(self, scores: Scores) -> None:
        """Have the members in this form from now on."""
        for member, score in self.items():
            scores.put(member, score)
        self._scores = scores

    def shrink(self) -> None:
        """Take the encoding that follows from the members: that of a result."""
        limits = self.limits
        is_small = len(self) <= limits.sorted_set_entries_max
        if is_small and all(len(name) <= limits.sorted_set_value_max for name in self.members(0, len(self))):
            self._take(FewScores())

    def copy(self) -> SortedSetValue:
        return SortedSetValue(self.limits, self._scores.copy())

    def heaps(self) -> list[Any]:
        return self._scores.heaps()

    def check(self) -> None:
        self._scores.check()
