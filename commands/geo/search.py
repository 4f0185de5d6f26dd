"""A search for the members of a sorted set whose places are in a shape: options, result, and what is stored."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import Reply
from ...store.companions.sorted_set_value import SortedSetValue
from ...store.errors import GenericError, shown
from ...store.events import DEL, Event
from ..core.numbers import integer
from ..execution.context import Context
from ..sorted_sets.ranges import ScoreBound, score_ranks
from ..sorting.partial_sort import sort_part
from .arguments import number, place, shown_distance, unit
from .geohash import Cell, place_of
from .shapes import Shape

NOT_A_PLACE: Final = b"could not decode requested zset member"
# Members that are read at once.
BATCH_COUNT: Final = 1_000


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
        """Search. Returns the members, or how many were stored."""
        found: list[Found] = []
        if self.value is not None:
            found = self._ordered(self._members(self.value))
        if self.destination is not None:
            return self._store(context, argv, self.destination, found, event)
        return [self._shown(each) for each in found]

    def _members(self, value: SortedSetValue) -> list[Found]:
        """The members in the shape, in the order of the cells and their scores."""
        found: list[Found] = []
        limit = self.count if self.any else 0
        shape = self.shape
        center, *neighbours = shape.cells()
        before: Cell | None = None
        for cell in (center, *neighbours):
            # In a coarse grid neighbours may be the same. As in Redis, only one after the other is noticed.
            if before is not None and cell.is_same(before):
                continue
            if found and limit and len(found) >= limit:
                break
            first, after = cell.scores()
            start, stop = score_ranks(value, ScoreBound(first, False), ScoreBound(after, True))
            self._add_members(value, start, stop, found, limit)
            before = None if cell is center else cell
        return found

    def _add_members(self, value: SortedSetValue, start: int, stop: int, found: list[Found], limit: int) -> None:
        """Add the members between two ranks that are in the shape, until there are as many as `limit`, unless 0."""
        for begin in range(start, stop, BATCH_COUNT):
            for member, score in value.scored(begin, min(begin + BATCH_COUNT, stop)):
                longitude, latitude = place_of(score)
                size = self.shape.distance_within(longitude, latitude)
                if size is not None:
                    found.append(Found(member, score, longitude, latitude, size))
                    if len(found) == limit:
                        return

    def _ordered(self, found: list[Found]) -> list[Found]:
        """The members of the result in its order. With COUNT and without ANY, those are the nearest ones."""
        count = min(self.count, len(found)) if self.count else len(found)
        if not self.is_sorted and (self.any or not self.count):
            return found[:count]
        distances = [each.distance for each in found]
        ranks = {size: rank for rank, size in enumerate(sorted(set(distances), reverse=not self.is_ascending))}
        keys = [ranks[size] for size in distances]
        places = list(range(len(found)))
        if count < len(found) and len(ranks) < len(found):
            sort_part(keys, places, 0, count)
        else:
            places.sort(key=keys.__getitem__)
        return [found[index] for index in places[:count]]

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

    def _store(self, context: Context, argv: list[bytes], key: bytes, found: list[Found], event: Event) -> int:
        """Stores the members as a sorted set; without any, the key is removed. Returns their number."""
        db = context.db
        if not found:
            if db.delete(key, DEL):
                context.log_words(argv)
            return 0
        result = SortedSetValue(context.limits)
        result.become_skiplist()
        for each in found:
            result.put(each.member, each.distance / self.shape.meters if self.stores_distance else each.score)
        result.shrink()
        db.overwrite(key, result, event, context.now_ms)
        context.log_words(argv, len(found))
        return len(found)
