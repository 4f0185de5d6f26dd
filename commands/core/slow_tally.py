"""Counts of calls in the slow log, of all commands or of one."""

from __future__ import annotations


class SlowTally:
    """Calls that were added to the slow log since the start or CONFIG RESETSTAT, also those no longer in it.

    It is no dataclass, because a compiled dataclass is slower.
    """

    __slots__ = ("count", "longest_us", "total_us")

    def __init__(self, count: int = 0, total_us: int = 0, longest_us: int = 0) -> None:
        self.count = count
        self.total_us = total_us
        self.longest_us = longest_us

    def add(self, duration_us: int) -> None:
        """Count a call."""
        self.count += 1
        self.total_us += duration_us
        if duration_us > self.longest_us:
            self.longest_us = duration_us
