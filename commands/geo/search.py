"""A search for the members of a sorted set whose places are in a shape: options, result, and what is stored."""

from __future__ import annotations

from array import array
from collections.abc import Generator, Iterable, Iterator
from typing import Any, Final

from ...protocol.encoder import ENCODERS
from ...protocol.replies import Reply
from ...store.companions.sorted_set_value import SortedSetValue
from ...store.errors import GenericError, shown
from ...store.events import DEL, Event
from ..core.numbers import integer
from ..execution.context import Context
from ..execution.sliced_work import Steps
from ..execution.slices import STEP_COUNT, carried_out, is_awaited, result_of
from ..sorted_sets.ranges import ScoreBound, score_ranks
from ..sorting.partial_sort import sort_part
from ..sorting.sorted_runs import sort_in_steps
from .arguments import number, place, shown_distance, unit
from .geohash import Cell, place_of
from .shapes import Shape

NOT_A_PLACE: Final = b"could not decode requested zset member"
# Members that are read at once.
BATCH_COUNT: Final = 1_000

# The ranks from and before which members are.
Range = tuple[int, int]


class Found:
    """A member in the shape. Its distance is in meters."""

    __slots__ = ("distance", "latitude", "longitude", "member", "score")

    def __init__(self, member: bytes, score: float, longitude: float, latitude: float, distance: float) -> None:
        self.member: Final = member
        self.score: Final = score
        self.longitude: Final = longitude
        self.latitude: Final = latitude
        self.distance: Final = distance


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
        if self.destination is not None and (self.with_distance or self.with_hash or self.with_coordinates):
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
        value = self.value
        if value is not None and len(value) > STEP_COUNT:
            count, ranges = self._measured(value)
            if count > STEP_COUNT:
                steps = self._steps(context, value, ranges)
                return self._finished(context, argv, event, carried_out(context, argv, count, steps))
        else:
            ranges = () if value is None else self._ranges(value)
        found = [] if value is None else self._ordered(self._members(value, ranges))
        if self.destination is None:
            return [self._shown(each) for each in found]
        stored = self._empty(context)
        self._put(stored, found)
        return self._store(context, argv, self.destination, stored, len(found), event)

    def _measured(self, value: SortedSetValue) -> tuple[int, Iterable[Range]]:
        """How many members are looked at, and their ranges. With ANY these are found one by one, as in most cases the
        first ones are enough.
        """
        if self.any:
            return len(value), self._ranges(value)
        ranges = list(self._ranges(value))
        return sum([stop - start for start, stop in ranges]), ranges

    def _ranges(self, value: SortedSetValue) -> Iterator[Range]:
        """Yield the ranks from and before which the members of each cell are."""
        center, *neighbours = self.shape.cells()
        before: Cell | None = None
        for cell in (center, *neighbours):
            # In a coarse grid neighbours may be the same. As in Redis, only one after the other is noticed.
            if before is not None and cell.is_same(before):
                continue
            first, after = cell.scores()
            yield score_ranks(value, ScoreBound(first, False), ScoreBound(after, True))
            before = None if cell is center else cell

    @property
    def _limit(self) -> int:
        """The number of members that ends a search; 0 if all are wanted."""
        return self.count if self.any else 0

    def _members(self, value: SortedSetValue, ranges: Iterable[Range]) -> list[Found]:
        """The members in the shape, in the order of the cells and their scores."""
        found: list[Found] = []
        limit = self._limit
        for start, stop in ranges:
            for begin in range(start, stop, BATCH_COUNT):
                self._add_members(value, begin, min(begin + BATCH_COUNT, stop), found, limit)
                if limit and len(found) >= limit:
                    return found
        return found

    def _steps(self, context: Context, value: SortedSetValue, ranges: Iterable[Range]) -> Steps:
        """The work of a search among many members. Returns a sorted set and how many were stored in it, or the encoded
        elements of the reply and their number."""
        found: list[Found] = []
        limit = self._limit
        for start, stop in ranges:
            for begin in range(start, stop, BATCH_COUNT):
                self._add_members(value, begin, min(begin + BATCH_COUNT, stop), found, limit)
                if limit and len(found) >= limit:
                    break
                yield
            if limit and len(found) >= limit:
                break
        if self._is_ordered:
            found = yield from self._ordered_in_steps(found)
        count = len(found)
        stored = None if self.destination is None else self._empty(context)
        encode = ENCODERS[context.client.protocol]
        pieces: list[bytes] = []
        # What was found is freed in the steps.
        found.reverse()
        while found:
            part = found[: -BATCH_COUNT - 1 : -1]
            del found[-BATCH_COUNT:]
            if stored is not None:
                self._put(stored, part)
            else:
                words: list[bytes] = []
                for each in part:
                    encode(self._shown(each), words)
                pieces.append(b"".join(words))
            yield
        return (count, pieces) if stored is None else (count, stored)

    def _finished(self, context: Context, argv: list[bytes], event: Event, result: Any) -> Reply:
        """The reply with the result of the steps."""
        if is_awaited(result):
            return result
        count, content = result
        if self.destination is None:
            return (b"*%d\r\n" % count, _sent(content))
        return self._store(context, argv, self.destination, content, count, event)

    def _add_members(self, value: SortedSetValue, start: int, stop: int, found: list[Found], limit: int) -> None:
        """Add the members between two ranks that are in the shape, until there are as many as `limit`, unless 0."""
        for member, score in value.scored(start, stop):
            longitude, latitude = place_of(score)
            size = self.shape.distance_within(longitude, latitude)
            if size is not None:
                found.append(Found(member, score, longitude, latitude, size))
                if len(found) == limit:
                    return

    @property
    def _is_ordered(self) -> bool:
        """Whether the members are in the order of their distances. With COUNT and without ANY, the nearest ones are
        looked for."""
        return self.is_sorted or (self.count > 0 and not self.any)

    def _ordered(self, found: list[Found]) -> list[Found]:
        """The members of the result in its order."""
        if not self._is_ordered:
            return found
        count = min(self.count, len(found)) if self.count else len(found)
        distances = [each.distance for each in found]
        ranks = {size: rank for rank, size in enumerate(sorted(set(distances), reverse=not self.is_ascending))}
        keys = [ranks[size] for size in distances]
        places = list(range(len(found)))
        if count < len(found) and len(ranks) < len(found):
            result_of(sort_part(keys, places, 0, count))
        else:
            places.sort(key=keys.__getitem__)
        return [found[index] for index in places[:count]]

    def _ordered_in_steps(self, found: list[Found]) -> Generator[None, None, list[Found]]:
        """Like `_ordered`, of many members."""
        count = min(self.count, len(found)) if self.count else len(found)
        distances = array("d")
        unsorted: list[int] = []
        for start in range(0, len(found), STEP_COUNT):
            distances.extend([each.distance for each in found[start : start + STEP_COUNT]])
            unsorted.extend(range(start, len(distances)))
            yield
        places = yield from sort_in_steps(unsorted, distances.__getitem__, reverse=not self.is_ascending)
        if count < len(found):
            # Members of one distance are as Redis' algorithm leaves them.
            keys = [0] * len(found)
            rank = 0
            for index, place in enumerate(places):
                rank += index > 0 and distances[place] != distances[places[index - 1]]
                keys[place] = rank
                if not index % STEP_COUNT:
                    yield
            if rank + 1 < len(found):
                places = unsorted
                yield from sort_part(keys, places, 0, count)
        ordered: list[Found] = []
        for start in range(0, count, STEP_COUNT):
            ordered += [found[place] for place in places[start : min(start + STEP_COUNT, count)]]
            yield
        return ordered

    def _shown(self, each: Found) -> Reply:
        """A member as the reply has it: alone, or with its distance, its score and its place."""
        if not (self.with_distance or self.with_hash or self.with_coordinates):
            return each.member
        shown_parts: list[Reply] = [each.member]
        if self.with_distance:
            shown_parts.append(shown_distance(each.distance / self.shape.meters))
        if self.with_hash:
            shown_parts.append(int(each.score))
        if self.with_coordinates:
            shown_parts.append([each.longitude, each.latitude])
        return shown_parts

    def _empty(self, context: Context) -> SortedSetValue:
        """Where the members are stored."""
        stored = SortedSetValue(context.limits)
        stored.become_skiplist()
        return stored

    def _put(self, stored: SortedSetValue, found: list[Found]) -> None:
        for each in found:
            stored.put(each.member, each.distance / self.shape.meters if self.stores_distance else each.score)

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


def _sent(pieces: list[bytes]) -> Iterator[bytes]:
    """The pieces, which are freed one by one."""
    pieces.reverse()
    while pieces:
        yield pieces.pop()
