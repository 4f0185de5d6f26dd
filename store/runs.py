"""Deliveries with an owner, by time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter
from sys import getsizeof
from typing import Final

from .class_marks import mypyc_attr
from .pending_parts import Delivery

# Deliveries without entries are removed from the list when it is longer than this and more than half of them are empty.
STALE_SLACK: Final = 64
# Up to this many late deliveries are inserted one by one, each of which moves the pointers after it. Sorting the whole
# list costs about as much as some hundred insertions.
LATE_COUNT_MAX: Final = 256

_time_of = attrgetter("time_ms")


@mypyc_attr(acyclic=True)
class RunsByTime:
    """Deliveries, oldest first; with equal times, in the order of arrival. Those without entries stay for a while."""

    __slots__ = ("_head", "_late", "_runs")

    def __init__(self) -> None:
        # In order, without those in `_late`. There are no entries in those before `_head`.
        self._runs: list[Delivery] = []
        self._head = 0
        # Deliveries that arrived out of order since the last read.
        self._late: list[Delivery] = []

    def __len__(self) -> int:
        """How many there are, including those without entries."""
        return len(self._runs) + len(self._late)

    @property
    def lists_size(self) -> int:
        """Bytes of the lists, without the deliveries."""
        return getsizeof(self._runs) + getsizeof(self._late)

    def add(self, delivery: Delivery) -> None:
        """Add a delivery."""
        runs = self._runs
        if not runs or runs[-1].time_ms <= delivery.time_ms:
            runs.append(delivery)
        else:
            self._late.append(delivery)

    def add_all(self, deliveries: list[Delivery], live_count: int) -> None:
        """Add deliveries of one time, and `clean`. Hot: see the benchmark row XREADGROUP."""
        runs = self._runs
        for delivery in deliveries:
            if not runs or runs[-1].time_ms <= delivery.time_ms:
                runs.append(delivery)
            else:
                self._late.append(delivery)
        if len(runs) > STALE_SLACK or self._late:
            self.clean(live_count)

    def clean(self, live_count: int) -> None:
        """Remove deliveries without entries, if there are many. `live_count` is the number of the others."""
        count = len(self._runs)
        if self._late:
            count += len(self._late)
        if count > STALE_SLACK and count > 2 * live_count + STALE_SLACK:
            self._runs = [run for run in self.in_order() if run.remaining]
            self._head = 0

    def in_order(self) -> list[Delivery]:
        """All deliveries by time. Late ones are inserted first, after those of equal time.

        Few late deliveries are inserted one by one. Many, as after a load, are sorted together (benchmark row reload).
        """
        runs = self._runs
        if len(self._late) > LATE_COUNT_MAX:
            runs += self._late
            runs.sort(key=_time_of)
            self._head = 0
        else:
            for delivery in self._late:
                index = bisect_right(runs, delivery.time_ms, key=_time_of)
                runs.insert(index, delivery)
                self._head = min(self._head, index)
        self._late.clear()
        return runs

    def used(self) -> list[Delivery]:
        """Those from the first one on that has entries, by time."""
        return self.in_order()[self._head :]

    def live(self) -> Iterator[Delivery]:
        """Those that have entries, oldest first. None may be added meanwhile."""
        runs = self.in_order() if self._late else self._runs
        while self._head < len(runs) and not runs[self._head].remaining:
            self._head += 1
        for index in range(self._head, len(runs)):
            if runs[index].remaining:
                yield runs[index]

    def first_after(self, time_ms: int) -> Delivery | None:
        """The oldest one with entries that is younger than this time."""
        runs = self.in_order() if self._late else self._runs
        while self._head < len(runs) and not runs[self._head].remaining:
            self._head += 1
        for index in range(bisect_right(runs, time_ms, lo=self._head, key=_time_of), len(runs)):
            if runs[index].remaining:
                return runs[index]
        return None

    def take_until(self, time_ms: int) -> list[Delivery]:
        """Remove and return those that are not younger than this time and have entries."""
        runs = self.in_order()
        end = bisect_right(runs, time_ms, lo=self._head, key=_time_of)
        taken = [run for run in runs[self._head : end] if run.remaining]
        del runs[:end]
        self._head = 0
        return taken

    def take_all(self) -> list[Delivery]:
        """Remove and return all, in order."""
        runs = self.in_order()
        self._runs, self._head = [], 0
        return runs

    def check(self) -> None:
        """Assert that they are in order."""
        times = [run.time_ms for run in self._runs]
        assert times == sorted(times)
