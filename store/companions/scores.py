"""The members of a sorted set with their scores: few in one block of memory, many in a table and in an order."""

from __future__ import annotations

from typing import Any, Final

from ..class_marks import mypyc_attr
from ..object_sizes import COLLECTOR_SIZE
from .members import INDEXED_SHARE, Members

try:
    from .packed_texts import PackedTexts
    from .places import pack_score, place_of, score_of, scored_of, unpack_score, unpack_scores, words_of
    from .score_order import ScoreOrder
except ImportError:  # there was no C compiler at installation
    from .packed_texts_plain import PackedTexts  # type: ignore[assignment]
    from .places_plain import (
        pack_score,
        place_of,
        score_of,
        scored_of,
        unpack_score,
        unpack_scores,
        words_of,
    )
    from .score_order_plain import ScoreOrder  # type: ignore[assignment]

SCORE_SIZE: Final = 8
# Members of an array in one piece: a longer one would need much memory at once.
ARRAY_MAX: Final = 1_000
# Bytes of the objects.
FEW_SIZE: Final = 80 + COLLECTOR_SIZE
MANY_SIZE: Final = 96 + 2 * COLLECTOR_SIZE

# What happens to a member that is put: nothing, or it gets another score, or it is new. See `PackedTexts.put_sorted`.
SAME: Final = 0
CHANGED: Final = 1
NEW: Final = 2

_NEGATIVE_ZERO: Final = pack_score(-0.0)
# Compiled code calls this in less time than a name that is imported, which it looks up at each call.
_place_of: Final = place_of


@mypyc_attr(acyclic=True)
class Scores:
    """Members by rank: ascending by score, then by their bytes."""

    __slots__ = ()

    def __len__(self) -> int:
        """Number of members."""
        raise NotImplementedError

    @property
    def memory_size(self) -> int:
        """Bytes of the members and scores."""
        raise NotImplementedError

    def get(self, member: bytes) -> float | None:
        """The score of a member; None if there is no such member."""
        raise NotImplementedError

    def get_all(self, members: list[bytes]) -> list[float | None]:
        """Like `get`, for many members."""
        raise NotImplementedError

    def having(self, members: list[bytes]) -> list[bytes]:
        """Those of the members that are there."""
        raise NotImplementedError

    def put(self, member: bytes, score: float) -> int:
        """Add a member, or change its score. Returns `SAME`, `CHANGED` or `NEW`."""
        raise NotImplementedError

    def add_new(self, members: list[bytes], scores: list[float]) -> int:
        """Add members, all of which are new. Returns how many were; if these are fewer, the scores are of no use."""
        raise NotImplementedError

    def discard(self, member: bytes) -> bool:
        """Remove a member. Returns whether it was there."""
        raise NotImplementedError

    def remove_range(self, start: int, stop: int) -> int:
        """Remove the members from rank `start` on, before rank `stop`. Returns how many there were."""
        raise NotImplementedError

    def rank(self, place: bytes) -> int:
        """The number of members before a place, whether it is there or not."""
        raise NotImplementedError

    def score_ranks(self, ranges: list[tuple[float, float]]) -> list[tuple[int, int]]:
        """See `ScoreOrder.score_ranks`."""
        raise NotImplementedError

    def members(self, start: int, stop: int) -> list[bytes]:
        """The members from rank `start` on, before rank `stop`."""
        raise NotImplementedError

    def array(self, start: int, stop: int, reverse: bool) -> bytes | None:
        """The reply with the members from rank `start` on, before rank `stop`, ascending or descending; None if it
        takes no less time to encode them."""
        raise NotImplementedError

    def scored(self, start: int, stop: int) -> list[tuple[bytes, float]]:
        """Like `members`, with their scores."""
        raise NotImplementedError

    def words(self, start: int, stop: int, reverse: bool) -> list[bytes | float]:
        """The members from rank `start` on, before rank `stop`, ascending or descending, each with its score."""
        raise NotImplementedError

    def at(self, index: int) -> bytes:
        """The member at an index, in an order that lasts until a member comes or goes."""
        raise NotImplementedError

    def at_each(self, indexes: list[int]) -> list[bytes]:
        """Like `at`, for many indexes at once."""
        raise NotImplementedError

    def words_at(self, indexes: list[int]) -> list[bytes | float]:
        """Like `at_each`, each member with its score after it."""
        raise NotImplementedError

    def place_at(self, rank: int) -> bytes:
        """The place of the member of a rank."""
        raise NotImplementedError

    def scan(self, cursor: int, count: int) -> tuple[list[bytes], int]:
        """See `Members.scan`; few members are in the order of their scores."""
        raise NotImplementedError

    def copy(self) -> Scores:
        """Other members that are alike."""
        raise NotImplementedError

    def heaps(self) -> list[Any]:
        """What `Garbage` frees a little at a time."""
        raise NotImplementedError

    def check(self) -> None:
        """Assert that the parts agree. Raises AssertionError."""
        raise NotImplementedError


@mypyc_attr(acyclic=True)
class FewScores(Scores):
    """Places in one block. As in a listpack of Redis, there is no negative zero."""

    __slots__ = ("_places",)

    def __init__(self, places: PackedTexts | None = None) -> None:
        self._places = PackedTexts() if places is None else places

    def __len__(self) -> int:
        return len(self._places)

    @property
    def memory_size(self) -> int:
        return FEW_SIZE + self._places.memory_size

    def get(self, member: bytes) -> float | None:
        place = self._places.ending(member, SCORE_SIZE)
        return None if place is None else score_of(place)

    def get_all(self, members: list[bytes]) -> list[float | None]:
        return self._places.scores(members)

    def having(self, members: list[bytes]) -> list[bytes]:
        return self._places.having(members, SCORE_SIZE, True)

    def put(self, member: bytes, score: float) -> int:
        return self._places.put_sorted(_place_of(score, member), SCORE_SIZE)

    def add_new(self, members: list[bytes], scores: list[float]) -> int:
        places = self._places
        for index in range(len(members)):
            places.put_sorted(_place_of(scores[index], members[index]), SCORE_SIZE)
        return len(places)

    def places(self) -> list[bytes]:
        """The places of all members."""
        return self._places.all()

    def joined_places(self) -> bytes | None:
        """The places of all members in one piece: see `PackedTexts.joined`."""
        return self._places.joined()

    def load(self, listpack: bytes) -> bool:
        """Take over the members of a listpack with their scores, while there are none. Returns False if the caller must
        read them: see `PackedTexts.load_scored`."""
        return self._places.load_scored(listpack)

    def discard(self, member: bytes) -> bool:
        index = self._places.find(member, SCORE_SIZE)
        if index < 0:
            return False
        self._places.remove(index, index + 1)
        return True

    def remove_range(self, start: int, stop: int) -> int:
        self._places.remove(start, stop)
        return stop - start

    def rank(self, place: bytes) -> int:
        return self._places.rank(place)

    def score_ranks(self, ranges: list[tuple[float, float]]) -> list[tuple[int, int]]:
        return self._places.score_ranks(ranges)

    def members(self, start: int, stop: int) -> list[bytes]:
        return self._places.between(start, stop, SCORE_SIZE)

    def array(self, start: int, stop: int, reverse: bool) -> bytes | None:
        return None

    def scored(self, start: int, stop: int) -> list[tuple[bytes, float]]:
        return scored_of(self._places.between(start, stop))

    def words(self, start: int, stop: int, reverse: bool) -> list[bytes | float]:
        places = self._places.between(start, stop)
        return words_of(places[::-1] if reverse else places)

    def at(self, index: int) -> bytes:
        return self._places.at(index)[SCORE_SIZE:]

    def at_each(self, indexes: list[int]) -> list[bytes]:
        return [place[SCORE_SIZE:] for place in self._places_at(indexes)]

    def words_at(self, indexes: list[int]) -> list[bytes | float]:
        return words_of(self._places_at(indexes))

    def _places_at(self, indexes: list[int]) -> list[bytes]:
        places = self._places
        if len(indexes) * INDEXED_SHARE < len(places):
            return [places.at(index) for index in indexes]
        texts = places.all()
        return [texts[index] for index in indexes]

    def place_at(self, rank: int) -> bytes:
        return self._places.at(rank)

    def scan(self, cursor: int, count: int) -> tuple[list[bytes], int]:
        return self.members(0, len(self)), 0

    def copy(self) -> FewScores:
        return FewScores(self._places.copy())

    def heaps(self) -> list[Any]:
        return []

    def check(self) -> None:
        places = self._places.all()
        assert places == sorted(places)
        assert len({member for member, _ in scored_of(places)}) == len(places)


@mypyc_attr(acyclic=True)
class ManyScores(Scores):
    """The score of each member in a table, and their places in an order."""

    __slots__ = ("_has_negative_zeros", "_members", "_order")

    def __init__(self) -> None:
        # The score of each member, as eight bytes.
        self._members = Members()
        self._order = ScoreOrder()
        # Whether a score may be a negative zero, which its place does not tell.
        self._has_negative_zeros = False

    def __len__(self) -> int:
        return len(self._members)

    @property
    def memory_size(self) -> int:
        return MANY_SIZE + self._members.memory_size + self._order.memory_size

    def get(self, member: bytes) -> float | None:
        packed = self._members.get(member)
        return None if packed is None else unpack_score(packed)

    def get_all(self, members: list[bytes]) -> list[float | None]:
        return unpack_scores(self._members.get_all(members))

    def having(self, members: list[bytes]) -> list[bytes]:
        return self._members.having(members, True)

    def put(self, member: bytes, score: float) -> int:
        old = self._members.get(member)
        packed = self._order.put(member, score, old)
        if packed is old:
            return SAME
        if packed == _NEGATIVE_ZERO:
            self._has_negative_zeros = True
        self._members.put(member, packed)
        return NEW if old is None else CHANGED

    def add_new(self, members: list[bytes], scores: list[float]) -> int:
        if not len(self):
            self._members.expect(len(members))
        if 0.0 in scores and _NEGATIVE_ZERO in map(pack_score, scores):
            self._has_negative_zeros = True
        return self._members.put_words(self._order.put_new(members, scores))

    def discard(self, member: bytes) -> bool:
        packed = self._members.pop(member)
        if packed is None:
            return False
        self._order.remove(place_of(unpack_score(packed), member))
        return True

    def remove_range(self, start: int, stop: int) -> int:
        members = self.members(start, stop)
        self._order.remove_range(start, stop)
        return self._members.discard_all(members)

    def rank(self, place: bytes) -> int:
        return self._order.rank(place)

    def score_ranks(self, ranges: list[tuple[float, float]]) -> list[tuple[int, int]]:
        return self._order.score_ranks(ranges)

    def members(self, start: int, stop: int) -> list[bytes]:
        return self._order.between(start, stop, SCORE_SIZE)

    def array(self, start: int, stop: int, reverse: bool) -> bytes | None:
        return self._order.array(start, stop, SCORE_SIZE, reverse) if stop - start <= ARRAY_MAX else None

    def scored(self, start: int, stop: int) -> list[tuple[bytes, float]]:
        pairs = scored_of(self._order.between(start, stop))
        if not self._has_negative_zeros:
            return pairs
        return [(member, score if score else self._zero(member)) for member, score in pairs]

    def words(self, start: int, stop: int, reverse: bool) -> list[bytes | float]:
        if self._has_negative_zeros:
            pairs = self.scored(start, stop)
            return [word for pair in (pairs[::-1] if reverse else pairs) for word in pair]
        return self._order.words(start, stop, reverse)

    def _zero(self, member: bytes) -> float:
        """The score of a member that has one of both zeros."""
        score = self.get(member)
        assert score is not None
        return score

    def at(self, index: int) -> bytes:
        return self._members.at(index)

    def at_each(self, indexes: list[int]) -> list[bytes]:
        return self._members.at_each(indexes)

    def words_at(self, indexes: list[int]) -> list[bytes | float]:
        words: list[bytes | float] = []
        members = self._members.at_each(indexes)
        scores = unpack_scores(self._members.get_all(members))
        for number in range(len(members)):
            score = scores[number]
            assert score is not None
            words.append(members[number])
            words.append(score)
        return words

    def place_at(self, rank: int) -> bytes:
        return self._order.between(rank, rank + 1)[0]

    def scan(self, cursor: int, count: int) -> tuple[list[bytes], int]:
        found, after = self._members.scan(cursor, count, is_packed=False)
        return (self.members(0, len(self)), 0) if len(found) == len(self) else (found, after)

    def copy(self) -> ManyScores:
        twin = ManyScores()
        twin._members, twin._order = self._members.copy(), self._order.copy()
        twin._has_negative_zeros = self._has_negative_zeros
        return twin

    def heaps(self) -> list[Any]:
        return [*self._members.heaps()]

    def check(self) -> None:
        self._members.check()
        self._order.check()
        places = list(self._order)
        scores = {member: unpack_score(packed) for member, packed in self._members.items()}
        assert {place_of(score, member) for member, score in scores.items()} == set(places)
        assert len(places) == len(scores)
