"""The shapes in which places are searched: circles and boxes on the surface of the earth.

Source: geohash_helper.c of Redis. Each formula is computed in the same order as there, since the result depends on it.
"""

from __future__ import annotations

import math
from typing import Final

from .geohash import STEP_MAX, Area, Cell, area_of, cell_of

EARTH_RADIUS_METERS: Final = 6372797.560856
MERCATOR_MAX_METERS: Final = 20037726.37
_RADIANS: Final = math.pi / 180.0

# Latitudes beyond which cells are so narrow that a search takes cells of one step, or of two steps, less.
NARROW_LATITUDE: Final = 66
NARROWER_LATITUDE: Final = 80


def latitude_distance(one: float, other: float) -> float:
    """The distance in meters of two places of one longitude."""
    return EARTH_RADIUS_METERS * abs(other * _RADIANS - one * _RADIANS)


def distance(longitude: float, latitude: float, other_longitude: float, other_latitude: float) -> float:
    """The distance of two places in meters, by the haversine formula."""
    v = math.sin((other_longitude * _RADIANS - longitude * _RADIANS) / 2)
    if v == 0.0:
        return latitude_distance(latitude, other_latitude)
    one, other = latitude * _RADIANS, other_latitude * _RADIANS
    u = math.sin((other - one) / 2)
    root = math.sqrt(u * u + math.cos(one) * math.cos(other) * v * v)
    # Rounding may take the root of opposite places above 1, where C has no number.
    return 2.0 * EARTH_RADIUS_METERS * (math.asin(root) if root <= 1.0 else math.nan)


def _degrees(radians: float) -> float:
    return radians / _RADIANS


def _quotient(number: float, divisor: float) -> float:
    """A quotient as C computes it, also for a divisor of 0."""
    if divisor:
        return number / divisor
    return math.nan if not number or math.isnan(number) else math.copysign(math.inf, number)


class Shape:
    """A circle or a box around a place. Sizes are in the unit that has `meters` meters."""

    __slots__ = ("height", "latitude", "longitude", "meters", "radius", "width")

    def __init__(self) -> None:
        self.longitude = 0.0
        self.latitude = 0.0
        self.meters = 1.0
        # None for a box.
        self.radius: float | None = None
        self.width = 0.0
        self.height = 0.0

    def sizes(self) -> tuple[float, float, float]:
        """In meters: the radius, negative for a box, and half the width and half the height of a box."""
        if self.radius is not None:
            return self.radius * self.meters, 0.0, 0.0
        return -1.0, self.width * self.meters / 2, self.height * self.meters / 2

    def _bounds(self) -> Area:
        """The limits in degrees."""
        height = self.meters * (self.height / 2 if self.radius is None else self.radius)
        width = self.meters * (self.width / 2 if self.radius is None else self.radius)
        rows = _degrees(height / EARTH_RADIUS_METERS)
        nearer = self.latitude - rows if self.latitude < 0 else self.latitude + rows
        columns = _degrees(_quotient(width / EARTH_RADIUS_METERS, _cosine(nearer * _RADIANS)))
        return Area(self.longitude - columns, self.latitude - rows, self.longitude + columns, self.latitude + rows)

    def _step(self) -> int:
        """The step of cells that are about as large as the shape."""
        size = self.radius
        if size is None:
            size = math.sqrt((self.width / 2) * (self.width / 2) + (self.height / 2) * (self.height / 2))
        size *= self.meters
        if size == 0:
            return STEP_MAX
        step = 1
        while size < MERCATOR_MAX_METERS:
            size *= 2
            step += 1
        step -= 2 + (abs(self.latitude) > NARROW_LATITUDE) + (abs(self.latitude) > NARROWER_LATITUDE)
        return max(1, min(step, STEP_MAX))

    def cells(self) -> list[Cell]:
        """The cells that the shape may reach, in the order in which Redis searches them. Some may be twice in it."""
        bounds, step = self._bounds(), self._step()
        center = cell_of(self.longitude, self.latitude, step)
        if step > 1 and _reaches_beyond_neighbours(bounds, center):
            step -= 1
            center = cell_of(self.longitude, self.latitude, step)
        area = area_of(center)
        # Neighbours that the shape does not reach are left out, unless the grid is too coarse.
        is_coarse = step < 2
        goes_north = is_coarse or not area.north > bounds.north
        goes_south = is_coarse or not area.south < bounds.south
        goes_east = is_coarse or not area.east > bounds.east
        goes_west = is_coarse or not area.west < bounds.west
        found = [center]
        for columns, rows, is_reached in (
            (0, 1, goes_north),
            (0, -1, goes_south),
            (1, 0, goes_east),
            (-1, 0, goes_west),
            (1, 1, goes_north and goes_east),
            (-1, 1, goes_north and goes_west),
            (1, -1, goes_south and goes_east),
            (-1, -1, goes_south and goes_west),
        ):
            if is_reached:
                found.append(center.moved(columns, rows))
        return found


def _cosine(angle: float) -> float:
    return math.cos(angle) if math.isfinite(angle) else math.nan


def _reaches_beyond_neighbours(bounds: Area, center: Cell) -> bool:
    """Whether the neighbours of a cell do not cover the limits."""
    return (
        area_of(center.moved(0, 1)).north < bounds.north
        or area_of(center.moved(0, -1)).south > bounds.south
        or area_of(center.moved(1, 0)).east < bounds.east
        or area_of(center.moved(-1, 0)).west > bounds.west
    )
