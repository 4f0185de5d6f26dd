"""The members of a sorted set that are in a shape, for installations without a C compiler: `nearby` is alike, in C."""

from __future__ import annotations

from typing import Final

from .geohash import Cell, place_of, score_of, text_of
from .shapes import Shape, distance, latitude_distance

__all__ = ["add_nearby", "cell_ranges", "distance_of", "place_of", "score_of", "shown_distance", "text_of"]

_DISTANCE_SCALE: Final = 10_000
_INT64_MAX: Final = 2**63 - 1


def add_nearby(
    scored: list[tuple[bytes, float]],
    longitude: float,
    latitude: float,
    radius: float,
    half_width: float,
    half_height: float,
    members: list[bytes],
    scores: list[float],
    distances: list[float],
    limit: int,
) -> None:
    """Add the members around a place to the lists, with their scores and their distances, until there are `limit`, or
    all if it is 0. Sizes and distances are in meters; a box has a negative radius.
    """
    for member, score in scored:
        if limit and len(members) >= limit:
            return
        other_longitude, other_latitude = place_of(score)
        size = distance(longitude, latitude, other_longitude, other_latitude)
        if radius >= 0:
            if size > radius:
                continue
        elif (
            latitude_distance(other_latitude, latitude) > half_height
            or distance(other_longitude, other_latitude, longitude, other_latitude) > half_width
        ):
            continue
        members.append(member)
        scores.append(score)
        distances.append(size)


def cell_ranges(
    longitude: float, latitude: float, meters: float, radius: float, width: float, height: float
) -> list[tuple[float, float]]:
    """The scores from and before which the members of each cell are that a shape may reach, in the order in which Redis
    searches them. Sizes are in the unit that has so many meters; a box has a negative radius.
    """
    shape = Shape()
    shape.longitude, shape.latitude, shape.meters = longitude, latitude, meters
    shape.radius, shape.width, shape.height = None if radius < 0 else radius, width, height
    center, *neighbours = shape.cells()
    ranges: list[tuple[float, float]] = []
    before: Cell | None = None
    for cell in (center, *neighbours):
        # In a coarse grid neighbours may be the same. As in Redis, only one after the other is noticed.
        if before is not None and cell.is_same(before):
            continue
        first, after = cell.scores()
        ranges.append((float(first), float(after)))
        before = None if cell is center else cell
    return ranges


def distance_of(one: float, other: float) -> float:
    """The distance in meters of the places of two scores."""
    return distance(*place_of(one), *place_of(other))


def shown_distance(size: float) -> bytes:
    """A distance with four digits after the point. What C cannot convert is shown as the smallest integer."""
    scaled = size * _DISTANCE_SCALE
    value = round(scaled) if abs(scaled) <= _INT64_MAX else -_INT64_MAX - 1
    whole, part = divmod(abs(value), _DISTANCE_SCALE)
    return b"%b%d.%04d" % (b"-" if value < 0 else b"", whole, part)
