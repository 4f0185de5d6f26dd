"""A search for the members of a sorted set whose places are in a shape: options, result, and what is stored."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

from ...protocol.encoder import ENCODERS
from ...protocol.replies import Reply
from ...store.companions.sorted_set_value import SortedSetValue
from ...store.errors import GenericError, shown
from ...store.events import DEL, Event
from ..core.long_replies import encoded
from ..core.numbers import integer
from ..core.sorted_runs import sort_in_steps
from ..execution.context import Context
from ..execution.sliced_work import Steps
from ..execution.slices import STEP_COUNT, carried_out, free_in_steps, is_awaited, result_of
from ..sorting.partial_sort import sort_part
from .arguments import number, place, unit
from .shapes import Shape

try:
    from .nearby import add_nearby, cell_ranges, place_of, shown_distance
except ImportError:  # there was no C compiler at installation
    from .nearby_plain import add_nearby, cell_ranges, place_of, shown_distance

NOT_A_PLACE: Final = b"could not decode requested zset member"
# Members that are read at once.
BATCH_COUNT: Final = 1_000
# Members that are read at once, in addition to twice as many as are wanted.
FEW_BATCH_COUNT: Final = 16

# Compiled code calls these in less time than names that are imported, which it looks up at each call.
_add_nearby: Final = add_nearby
_cell_ranges: Final = cell_ranges
_place_of: Final = place_of
_shown_distance: Final = shown_distance

# The ranks from and before which members are.
Range = tuple[int, int]


class Found:
    """The members in the shape, with their scores and their distances in meters."""

    __slots__ = ("distances", "members", "scores")

    def __init__(self) -> None:
        self.members: Final[list[bytes]] = []
        self.scores: Final[list[float]] = []
        self.distances: Final[list[float]] = []

    def __len__(self) -> int:
        return len(self.members)


class Search:
    """One request. The options of a kind that is given again replace those before."""

    __slots__ = (
        "any", "count", "destination", "has_shape", "is_ascending", "is_sorted", "place_option", "shape",
        "stores_distance", "value", "with_coordinates", "with_distance", "with_hash",
    )  # fmt: skip

    def __init__(self, value: SortedSetValue | None) -> None:
        # What is searched; None if the key is missing.
        self.value = value
        self.shape = Shape()
        # FROMMEMBER or FROMLONLAT, and whether there is BYRADIUS or BYBOX.
        self.place_option = b""
        self.has_shape = False
        self.is_sorted = False
        self.is_ascending = True
        # Most members of the result; 0 for all. With `any`, the search ends when there are so many.
        self.count = 0
        self.any = False
        self.with_distance = False
        self.with_hash = False
        self.with_coordinates = False
        # Where the result is stored, with distances or geohashes as scores; None if it is returned.
        self.destination: bytes | None = None
        self.stores_distance = False

    # -- arguments -------------------------------------------------------------------------------

    def start_at(self, longitude: bytes, latitude: bytes) -> None:
        """Search around a place. Raises GenericError."""
        self.shape.longitude, self.shape.latitude = place(longitude, latitude)

    def start_at_member(self, member: bytes) -> None:
        """Search around the place of a member, if there is a sorted set. Raises GenericError."""
        if self.value is None:
            return
        score = self.value.score(member)
        if score is None:
            raise GenericError(NOT_A_PLACE)
        self.shape.longitude, self.shape.latitude = place_of(score)

    def take_radius(self, radius: bytes, unit_name: bytes) -> None:
        """Search in a circle. Raises GenericError."""
        size = number(radius, b"need numeric radius")
        if size < 0:
            raise GenericError(b"radius cannot be negative")
        self.shape.meters, self.shape.radius = unit(unit_name), size

    def take_box(self, width: bytes, height: bytes, unit_name: bytes) -> None:
        """Search in a box. Raises GenericError."""
        columns, rows = number(width, b"need numeric width"), number(height, b"need numeric height")
        if columns < 0 or rows < 0:
            raise GenericError(b"height or width cannot be negative")
        self.shape.meters, self.shape.radius = unit(unit_name), None
        self.shape.width, self.shape.height = columns, rows

    def take_option(self, argv: list[bytes], index: int) -> int:
        """Take the option at this index that all searches have. Returns how many words it has; 0 if it is another.
        Raises GenericError."""
        word = argv[index].upper()
        if word == b"WITHDIST":
            self.with_distance = True
        elif word == b"WITHHASH":
            self.with_hash = True
        elif word == b"WITHCOORD":
            self.with_coordinates = True
        elif word == b"ANY":
            self.any = True
        elif word in (b"ASC", b"DESC"):
            self.is_sorted, self.is_ascending = True, word == b"ASC"
        elif word == b"COUNT" and index + 1 < len(argv):
            self.count = integer(argv[index + 1])
            if self.count <= 0:
                raise GenericError(b"COUNT must be > 0")
            return 2
        else:
            return 0
        return 1

    def take_store(self, argv: list[bytes], index: int) -> int:
        """Take STORE or STOREDIST of GEORADIUS at this index. Returns how many words it has; 0 if it is another."""
        word = argv[index].upper()
        if word not in (b"STORE", b"STOREDIST") or index + 1 >= len(argv):
            return 0
        self.destination, self.stores_distance = argv[index + 1], word == b"STOREDIST"
        return 2

    def take_area(self, argv: list[bytes], index: int) -> int:
        """Take an option of GEOSEARCH at this index: the place or the shape. Returns how many words it has; 0 if it is
        another. Raises GenericError."""
        word, left = argv[index].upper(), len(argv) - index - 1
        if word == b"FROMMEMBER" and left >= 1 and self.place_option != b"FROMLONLAT":
            self.start_at_member(argv[index + 1])
            self.place_option = word
            return 2
        if word == b"FROMLONLAT" and left >= 2 and self.place_option != b"FROMMEMBER":
            self.start_at(argv[index + 1], argv[index + 2])
            self.place_option = word
            return 3
        is_box = self.has_shape and self.shape.radius is None
        if word == b"BYRADIUS" and left >= 2 and not is_box:
            self.take_radius(argv[index + 1], argv[index + 2])
            self.has_shape = True
            return 3
        if word == b"BYBOX" and left >= 3 and (is_box or not self.has_shape):
            self.take_box(argv[index + 1], argv[index + 2], argv[index + 3])
            self.has_shape = True
            return 4
        return 0

    def check_options(self, store_name: bytes) -> None:
        """Check options that exclude or need each other. Raises GenericError."""
        if self.destination is not None and self._has_parts:
            raise GenericError(b"%b is not compatible with WITHDIST, WITHHASH and WITHCOORD options" % store_name)

    def check_area(self, command_word: bytes) -> None:
        """Check that GEOSEARCH has a place and a shape. Raises GenericError."""
        if not self.place_option:
            raise GenericError(b"exactly one of FROMMEMBER or FROMLONLAT can be specified for %b" % shown(command_word))
        if not self.has_shape:
            raise GenericError(b"exactly one of BYRADIUS and BYBOX can be specified for %b" % shown(command_word))

    def check_any(self) -> None:
        """Check that ANY has a COUNT. Raises GenericError."""
        if self.any and not self.count:
            raise GenericError(b"the ANY argument requires COUNT argument")

    # -- results ---------------------------------------------------------------------------------

    def run(self, context: Context, argv: list[bytes], event: Event) -> Reply:
        """Search. Returns the members, or how many were stored; Blocked or POSTPONED while many are looked at."""
        value, found = self.value, Found()
        if value is not None and not self._find_few(value, found):
            steps = self._steps(context, value)
            return self._finished(context, argv, event, carried_out(context, argv, len(value), steps))
        if not self._is_ordered and self.destination is None and not self._has_parts:
            return found.members
        indexes = self._order(found)
        if self.destination is None:
            if not self._has_parts:
                return [found.members[index] for index in indexes]
            return [self._shown(found, index) for index in indexes]
        stored = self._empty(context)
        self._put(stored, found, indexes)
        return self._store(context, argv, self.destination, stored, len(indexes), event)

    def _ranges(self, value: SortedSetValue) -> list[Range]:
        """The ranks from and before which the members of each cell are, without cells that have none."""
        shape = self.shape
        radius = -1.0 if shape.radius is None else shape.radius
        return value.score_ranks(
            _cell_ranges(shape.longitude, shape.latitude, shape.meters, radius, shape.width, shape.height)
        )

    @property
    def _limit(self) -> int:
        """The number of members that ends a search; 0 if all are wanted."""
        return self.count if self.any else 0

    def _find_few(self, value: SortedSetValue, found: Found) -> bool:
        """Find the members in the shape, in the order of the cells and their scores. Returns False if many have to be
        looked at.
        """
        ranges = self._ranges(value)
        is_long = len(value) > STEP_COUNT and not self.any
        if is_long and sum([stop - start for start, stop in ranges]) > STEP_COUNT:
            return False
        limit, left = self._limit, STEP_COUNT
        batch = min(2 * limit + FEW_BATCH_COUNT, BATCH_COUNT) if limit else BATCH_COUNT
        for start, stop in ranges:
            for begin in range(start, stop, batch):
                if left <= 0:
                    return False
                end = min(begin + batch, stop)
                self._add_members(value.scored(begin, end), found, limit)
                if limit and len(found) >= limit:
                    return True
                left -= end - begin
        return True

    def _find_in_steps(self, value: SortedSetValue, found: Found) -> Generator[None, None, None]:
        """Like `_find_few`, among many members."""
        limit = self._limit
        for start, stop in self._ranges(value):
            for begin in range(start, stop, BATCH_COUNT):
                self._add_members(value.scored(begin, min(begin + BATCH_COUNT, stop)), found, limit)
                if limit and len(found) >= limit:
                    return
                yield

    def _steps(self, context: Context, value: SortedSetValue) -> Steps:
        """The work of a search among many members. Returns their number, and a sorted set to store or the encoded
        elements of the reply."""
        found = Found()
        yield from self._find_in_steps(value, found)
        ordered: list[int] | None = None
        if self._is_ordered:
            ordered = yield from self._order_in_steps(found)
        count = len(found) if ordered is None else len(ordered)
        stored = None if self.destination is None else self._empty(context)
        encode = ENCODERS[context.client.protocol]
        pieces: list[bytes] = []
        for start in range(0, count, BATCH_COUNT):
            stop = min(start + BATCH_COUNT, count)
            indexes = list(range(start, stop)) if ordered is None else ordered[start:stop]
            if stored is not None:
                self._put(stored, found, indexes)
            else:
                words: list[bytes] = []
                for index in indexes:
                    encode(self._shown(found, index), words)
                pieces.append(b"".join(words))
            yield
        for items in (found.members, found.scores, found.distances, ordered or []):
            yield from free_in_steps(items)
        return (count, pieces) if stored is None else (count, stored)

    def _finished(self, context: Context, argv: list[bytes], event: Event, result: Any) -> Reply:
        """The reply with the result of the steps."""
        if is_awaited(result):
            return result
        count, content = result
        if self.destination is None:
            return encoded(count, content)
        return self._store(context, argv, self.destination, content, count, event)

    def _add_members(self, scored: list[tuple[bytes, float]], found: Found, limit: int) -> None:
        """Add those of the members that are in the shape, until there are as many as `limit`, unless 0."""
        shape = self.shape
        radius, half_width, half_height = shape.sizes()
        _add_nearby(
            scored, shape.longitude, shape.latitude, radius, half_width, half_height,
            found.members, found.scores, found.distances, limit,
        )  # fmt: skip

    @property
    def _is_ordered(self) -> bool:
        """Whether the members are in the order of their distances. With COUNT and without ANY, the nearest ones are
        looked for."""
        return self.is_sorted or (self.count > 0 and not self.any)

    def _order(self, found: Found) -> list[int]:
        """The indexes of the members of the result in its order."""
        indexes = list(range(len(found)))
        if not self._is_ordered:
            return indexes
        count = min(self.count, len(found)) if self.count else len(found)
        distances = found.distances
        if count < len(found):
            if len(set(distances)) == len(found):
                indexes = self._nearest(distances, indexes, count)
            else:
                ranks = {size: rank for rank, size in enumerate(sorted(set(distances), reverse=not self.is_ascending))}
                result_of(sort_part([ranks[size] for size in distances], indexes, 0, count))
                return indexes[:count]
        indexes.sort(key=distances.__getitem__, reverse=not self.is_ascending)
        return indexes[:count]

    def _nearest(self, distances: list[float], indexes: list[int], count: int) -> list[int]:
        """The indexes of so many different distances that are first in the order, or all of them."""
        last = sorted(distances, reverse=not self.is_ascending)[count - 1]
        if self.is_ascending:
            nearest = [index for index in indexes if distances[index] <= last]
        else:
            nearest = [index for index in indexes if distances[index] >= last]
        # What is no number has no place among others.
        return nearest if len(nearest) == count else indexes

    def _order_in_steps(self, found: Found) -> Generator[None, None, list[int]]:
        """Like `_order`, of many members."""
        count = min(self.count, len(found)) if self.count else len(found)
        distances = found.distances
        unsorted: list[int] = []
        for start in range(0, len(found), STEP_COUNT):
            unsorted.extend(range(start, min(start + STEP_COUNT, len(found))))
            yield
        indexes = yield from sort_in_steps(unsorted, distances.__getitem__, reverse=not self.is_ascending)
        if count < len(found):
            # Of one distance are those that Redis' algorithm puts first.
            keys = [0] * len(found)
            rank = 0
            for position, index in enumerate(indexes):
                rank += position > 0 and distances[index] != distances[indexes[position - 1]]
                keys[index] = rank
                if not position % STEP_COUNT:
                    yield
            if rank + 1 < len(found):
                yield from sort_part(keys, unsorted, 0, count)
                indexes, unsorted = unsorted, indexes
            nearest = indexes[:count]
            for numbers in (keys, unsorted, indexes):
                yield from free_in_steps(numbers)
            return nearest
        return indexes

    @property
    def _has_parts(self) -> bool:
        """Whether the reply has more than the members."""
        return self.with_distance or self.with_hash or self.with_coordinates

    def _shown(self, found: Found, index: int) -> Reply:
        """A member as the reply has it: alone, or with its distance, its score and its place."""
        member = found.members[index]
        if not self._has_parts:
            return member
        shown_parts: list[Reply] = [member]
        if self.with_distance:
            shown_parts.append(_shown_distance(found.distances[index] / self.shape.meters))
        if self.with_hash:
            shown_parts.append(int(found.scores[index]))
        if self.with_coordinates:
            shown_parts.append(list(_place_of(found.scores[index])))
        return shown_parts

    def _empty(self, context: Context) -> SortedSetValue:
        """Where the members are stored."""
        stored = SortedSetValue(context.limits)
        stored.become_skiplist()
        return stored

    def _put(self, stored: SortedSetValue, found: Found, indexes: list[int]) -> None:
        """Add the members at these indexes."""
        if self.stores_distance:
            scores = [found.distances[index] / self.shape.meters for index in indexes]
        else:
            scores = [found.scores[index] for index in indexes]
        members = [found.members[index] for index in indexes]
        # In a coarse grid a cell may be searched twice.
        if len(set(members)) == len(members):
            stored.add_different(members, scores)
        else:
            for member, score in zip(members, scores, strict=True):
                stored.put(member, score)

    def _store(
        self, context: Context, argv: list[bytes], key: bytes, stored: SortedSetValue, count: int, event: Event
    ) -> int:
        """Stores the sorted set of so many members that were found; without any, the key is removed. Returns their
        number."""
        db = context.db
        if not count:
            if db.delete(key, DEL):
                context.log_words(argv)
            return 0
        stored.shrink()
        db.overwrite(key, stored, event, context.now_ms)
        context.log_words(argv, count)
        return count
