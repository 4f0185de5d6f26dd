"""The members of a sorted set that are in a shape, for installations without a C compiler: `nearby` is alike, in C."""

from __future__ import annotations

from .geohash import place_of
from .shapes import distance, latitude_distance


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
