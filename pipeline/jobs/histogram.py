"""The bars of a report: each step between the smallest and the largest value has one, also if its count is zero."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

# Delivery counts from this one on share a bar.
DELIVERIES_MAX: Final = 20
HOURS_MAX: Final = 48
SECOND_MS: Final = 1000
UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (SECOND_MS, "s"))

Bar = tuple[str, int]


def delivery_bars(entries: Mapping[int, int]) -> list[Bar]:
    """Returns bars of entries by how often they were delivered; `entries` has their number by deliveries."""
    counted: dict[int, int] = {}
    for deliveries, count in entries.items():
        place = min(deliveries, DELIVERIES_MAX)
        counted[place] = counted.get(place, 0) + count
    labels = {DELIVERIES_MAX: f"{DELIVERIES_MAX} or more"}
    return [(labels.get(place, str(place)), counted.get(place, 0)) for place in _steps(counted)]


def wait_bars(entries: Mapping[int, int]) -> list[Bar]:
    """Returns bars of entries by waiting time.

    `entries` has their number by exponent: e is for 2**(e-1) ms or more, and less than 2**e ms; 0 for less than 1 ms.
    """
    return [(f"< {_duration(2**place)}", entries.get(place, 0)) for place in _steps(entries)]


def hour_bars(events: Mapping[int, int]) -> list[Bar]:
    """Returns bars of events by hour, for the last two days; `events` has their number by hours since 1970."""
    hours = _steps(events)[-HOURS_MAX:]
    return [(datetime.fromtimestamp(hour * 3600, UTC).strftime("%m-%d %H:00"), events.get(hour, 0)) for hour in hours]


def _steps(counted: Mapping[int, int]) -> range:
    return range(min(counted), max(counted) + 1) if counted else range(0)


def _duration(ms: int) -> str:
    for size, unit in UNITS:
        if ms >= size:
            return f"{ms / size:.3g} {unit}"
    return f"{ms} ms"
