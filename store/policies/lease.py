"""Deliveries that an open connection guards (GUARD): their entries are not idle. Nothing of this is logged."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from ..pending_parts import Delivery
from ..runs import RunsByTime
from .agenda import NEVER_MS

# Deliveries before those without entries are looked for.
CLEANING_MIN: Final = 128

_remaining_of = attrgetter("remaining")


class Lease:
    """The guarded deliveries of a group. A holder is the number of a connection."""

    __slots__ = ("_by_time", "_clean_at", "_holder_of", "_lease_max_ms", "_runs_of")

    def __init__(self, lease_max_ms: int) -> None:
        # How long a delivery is guarded; 0 for as long as the connection is open.
        self._lease_max_ms: Final = lease_max_ms
        self._holder_of: dict[Delivery, int] = {}
        self._runs_of: dict[int, dict[Delivery, None]] = {}
        # Empty without a longest time.
        self._by_time = RunsByTime()
        self._clean_at = CLEANING_MIN

    def grant(self, delivery: Delivery, holder: int) -> None:
        """Guard a delivery while that connection is open."""
        self._holder_of[delivery] = holder
        self._runs_of.setdefault(holder, {})[delivery] = None
        if self._lease_max_ms:
            self._by_time.add(delivery)
        if len(self._holder_of) > self._clean_at:
            self._clean()

    def holder_of(self, delivery: Delivery) -> int | None:
        """The connection that guards a delivery; None if there is none."""
        return self._holder_of.get(delivery)

    def end(self, holder: int) -> list[Delivery]:
        """End what a connection guards. Returns the deliveries that still have entries."""
        runs = self._runs_of.pop(holder, {})
        for run in runs:
            del self._holder_of[run]
        return [run for run in runs if run.remaining]

    def expire(self, now_ms: int) -> list[Delivery]:
        """End what has been guarded for the longest time. Returns the deliveries that still have entries."""
        if not self._lease_max_ms or not self._by_time:
            return []
        return [run for run in self._by_time.take_until(now_ms - self._lease_max_ms) if self._forget(run)]

    def next_end_ms(self) -> int:
        """When the first guard ends by its longest time; NEVER_MS if none does."""
        run = self._by_time.first_after(-1) if self._lease_max_ms and self._by_time else None
        return NEVER_MS if run is None else run.time_ms + self._lease_max_ms

    @property
    def guarded_count(self) -> int:
        """Number of entries that are guarded now."""
        return sum(map(_remaining_of, self._holder_of))

    def _forget(self, run: Delivery) -> bool:
        """Take a delivery out. Returns whether it was guarded."""
        holder = self._holder_of.pop(run, None)
        if holder is None:
            return False
        runs = self._runs_of[holder]
        del runs[run]
        if not runs:
            del self._runs_of[holder]
        return True

    def _clean(self) -> None:
        """Take out the deliveries without entries."""
        for run in [run for run in self._holder_of if not run.remaining]:
            self._forget(run)
        self._by_time.clean(0)
        self._clean_at = max(CLEANING_MIN, 2 * len(self._holder_of))
