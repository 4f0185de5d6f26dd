"""A sorted set: its members with their scores, and the encoding that Redis would have chosen for them."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any, ClassVar, Final

from ..limits import Limits
from .companion import Companion
from .members import Members
from .score_order import SCORE_SIZE, ScoreOrder, place_of

LISTPACK: Final = b"listpack"
SKIPLIST: Final = b"skiplist"

# Bytes of the object and its attributes, and of a place without its member.
SORTED_SET_SIZE: Final = 160
PLACE_HEADER_SIZE: Final = 48

_DOUBLE: Final = Struct(">d")


class SortedSetValue(Companion):
    """A sorted set. `limits` decide when it is no longer small."""

    __slots__ = ("_encoding", "_members", "_names_size", "_order")

    type_name: ClassVar[bytes] = b"zset"
    type_number: ClassVar[int] = 3

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._encoding = LISTPACK
        # The score of each member, as eight bytes.
        self._members = Members()
        self._order = ScoreOrder()
        # Bytes of all members, which are in the places too.
        self._names_size = 0

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, member: bytes) -> bool:
        return member in self._members

    @property
    def encoding(self) -> bytes:
        return self._encoding

    @property
    def memory_size(self) -> int:
        places_size = self._names_size + PLACE_HEADER_SIZE * len(self._members)
        return SORTED_SET_SIZE + self._members.memory_size + self._order.memory_size + places_size

    # -- reading ---------------------------------------------------------------------------------

    def score(self, member: bytes) -> float | None:
        """The score of a member; None if there is no such member."""
        packed = self._members.get(member)
        return None if packed is None else float(_DOUBLE.unpack(packed)[0])

    def scores(self, members: list[bytes]) -> list[float]:
        """The scores of members, which are there."""
        packed = b"".join([self._members.get(member) or b"" for member in members])
        return [score for (score,) in _DOUBLE.iter_unpack(packed)]

    def rank(self, member: bytes) -> int | None:
        """The number of members before this one; None if there is no such member."""
        score = self.score(member)
        return None if score is None else self._order.rank(place_of(score, member))

    def rank_of_place(self, place: bytes) -> int:
        """The number of members before a place."""
        return self._order.rank(place)

    def members(self, start: int, stop: int, *, reverse: bool = False) -> list[bytes]:
        """The members from rank `start` on, before rank `stop`."""
        return self._order.members(start, stop, reverse=reverse)

    def items(self) -> Iterator[tuple[bytes, float]]:
        """Yield the members with their scores, ascending. They must not change meanwhile."""
        for place in self._order:
            member = place[SCORE_SIZE:]
            score = self.score(member)
            assert score is not None
            yield member, score

    def at(self, index: int) -> bytes:
        """The member at an index, in an order that lasts until a member comes or goes."""
        return self._members.at(index)

    def scan(self, cursor: int, count: int) -> tuple[list[bytes], int]:
        """See `Members.scan`; few members are in the order of their scores."""
        found, after = self._members.scan(cursor, count)
        return (self.members(0, len(self)), 0) if len(found) == len(self) else (found, after)

    # -- changing --------------------------------------------------------------------------------

    def expect(self, count: int, size_max: int) -> None:
        """Take the encoding for so many members, of at most `size_max` bytes, that are added to an empty set."""
        if count > self.limits.sorted_set_entries_max or size_max > self.limits.sorted_set_value_max:
            self._encoding = SKIPLIST

    def expect_more(self, count: int) -> None:
        """Take the encoding for so many members that are added now."""
        if count > self.limits.sorted_set_entries_max:
            self._encoding = SKIPLIST

    def put(self, member: bytes, score: float) -> bool:
        """Add a member, or change its score. Returns whether it is new."""
        if self._encoding == LISTPACK:
            limits = self.limits
            if len(member) > limits.sorted_set_value_max or (
                len(self._members) >= limits.sorted_set_entries_max and member not in self._members
            ):
                self._encoding = SKIPLIST
        if self._encoding == LISTPACK:
            # A listpack has no negative zero.
            score += 0.0
        old = self._members.get(member)
        packed = _DOUBLE.pack(score)
        if packed == old:
            return False
        if old is not None:
            self._order.remove(place_of(_DOUBLE.unpack(old)[0], member))
        else:
            self._names_size += len(member)
        self._members.put(member, packed)
        self._order.add(place_of(score, member))
        return old is None

    def discard(self, member: bytes) -> bool:
        """Remove a member. Returns whether it was there."""
        packed = self._members.pop(member)
        if packed is None:
            return False
        self._order.remove(place_of(_DOUBLE.unpack(packed)[0], member))
        self._names_size -= len(member)
        return True

    def remove_range(self, start: int, stop: int) -> int:
        """Remove the members from rank `start` on, before rank `stop`. Returns how many there were."""
        members = self._order.members(start, stop)
        self._order.remove_range(start, stop)
        for member in members:
            self._members.pop(member)
            self._names_size -= len(member)
        return len(members)

    # -- keeping ---------------------------------------------------------------------------------

    def become_skiplist(self) -> None:
        """Be a skiplist from now on."""
        self._encoding = SKIPLIST

    def shrink(self) -> None:
        """Take the encoding that follows from the members: that of a result."""
        limits = self.limits
        is_small = len(self) <= limits.sorted_set_entries_max
        if is_small and all(len(name) <= limits.sorted_set_value_max for name in self._members.names()):
            self._encoding = LISTPACK

    def copy(self) -> SortedSetValue:
        twin = SortedSetValue(self.limits)
        twin._encoding = self._encoding
        twin._members = self._members.copy()
        twin._order = self._order.copy()
        twin._names_size = self._names_size
        return twin

    def heaps(self) -> list[Any]:
        return [*self._members.heaps(), *self._order.heaps()]

    def check(self) -> None:
        self._members.check()
        places = list(self._order)
        assert places == sorted(places)
        scores = {member: _DOUBLE.unpack(packed)[0] for member, packed in self._members.items()}
        assert {place_of(score, member) for member, score in scores.items()} == set(places)
        assert len(places) == len(scores)
        assert self._names_size == sum(map(len, scores))
