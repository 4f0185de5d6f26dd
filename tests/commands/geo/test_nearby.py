"""The members in a shape: both forms alike, to the last bit of a distance."""

from __future__ import annotations

import math
import random
import struct

import pytest

from headrace.commands.geo import nearby_plain
from headrace.commands.geo.geohash import score_of

try:
    from headrace.commands.geo import nearby
except ImportError:
    nearby = None  # type: ignore[assignment]

ODD_SCORES = [
    0.0, -0.0, -1.0, -1.5, 0.5, 2.0**52, 2.0**53, 2.0**63, 2.0**64, -(2.0**63), -1e30, 1e30, math.inf, -math.inf,
]  # fmt: skip
SIZES = [0.0, 1.0, 5_000.0, 1e6, 2e7, math.inf]


@pytest.mark.skipif(nearby is None, reason="there is no compiled form")
@pytest.mark.parametrize("seed", range(30))
def test_both_forms_are_alike(seed: int) -> None:
    rnd = random.Random(seed)
    longitude, latitude = rnd.choice([(rnd.uniform(-180, 180), rnd.uniform(-85, 85)), (0.0, 0.0), (180.0, -85.0)])
    scores = [float(score_of(rnd.uniform(-180, 180), rnd.uniform(-85, 85))) for _ in range(200)]
    scores += [float(score_of(longitude, latitude)), float(score_of(-longitude, -latitude)), *ODD_SCORES]
    scored = [(b"m%d" % index, score) for index, score in enumerate(scores)]
    for size in SIZES:
        for radius, width, height in ((size, 0.0, 0.0), (-1.0, size, rnd.choice(SIZES))):
            for limit in (0, 1, 7, len(scored) + 1):
                seen = []
                for form in (nearby, nearby_plain):
                    found: tuple[list[bytes], list[float], list[float]] = ([b"before"], [0.0], [0.0])
                    form.add_nearby(scored, longitude, latitude, radius, width, height, *found, limit)
                    seen.append([found[0], *(struct.pack(f"{len(each)}d", *each) for each in found[1:])])
                assert seen[0] == seen[1]


@pytest.mark.skipif(nearby is None, reason="there is no compiled form")
def test_both_forms_search_the_same_cells() -> None:
    rnd = random.Random(7)
    sizes = [*SIZES, math.nan, 1e-9, 90_000.0, 300_000.0, 4e6]
    for _ in range(3_000):
        longitude = rnd.choice([rnd.uniform(-180, 180), 0.0, 180.0, -180.0, 179.99])
        latitude = rnd.choice([rnd.uniform(-85, 85), 0.0, 85.05112878, -85.05112878, 70.0, -81.0])
        radius, width, height = rnd.choice(
            [(rnd.choice(sizes), 0.0, 0.0), (-1.0, rnd.choice(sizes), rnd.choice(sizes))]
        )
        shape = (longitude, latitude, rnd.choice([1.0, 1000.0, 0.3048]), radius, width, height)
        assert nearby.cell_ranges(*shape) == nearby_plain.cell_ranges(*shape), shape


@pytest.mark.skipif(nearby is None, reason="there is no compiled form")
def test_both_forms_show_distances_and_places_alike() -> None:
    rnd = random.Random(7)
    odd = [0.0, -0.0, 0.00005, -0.00005, 0.00015, 0.00025, 1e-9, 12.3456, 9e14, 922337203685477.5, math.inf, -math.inf]
    for size in [*odd, math.nan, *(rnd.uniform(-1e7, 1e7) for _ in range(2_000))]:
        assert nearby.shown_distance(size) == nearby_plain.shown_distance(size)
    for score in [*ODD_SCORES, *(float(rnd.randrange(2**52)) for _ in range(2_000))]:
        assert nearby.text_of(score) == nearby_plain.text_of(score)
        assert nearby.place_of(score) == nearby_plain.place_of(score)
    for _ in range(2_000):
        longitude = rnd.choice([rnd.uniform(-180, 180), 180.0, -180.0])
        latitude = rnd.choice([rnd.uniform(-85.05112878, 85.05112878), 85.05112878, -85.05112878])
        score = nearby.score_of(longitude, latitude)
        assert score == nearby_plain.score_of(longitude, latitude)
        other = float(rnd.choice([rnd.randrange(2**52), *ODD_SCORES]))
        assert nearby.distance_of(float(score), other) == nearby_plain.distance_of(float(score), other)
