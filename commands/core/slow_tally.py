"""Counts of calls in the slow log, of all commands or of one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class SlowTally:
    """Calls that were added to the slow log since the start or CONFIG RESETSTAT, also those no longer in it."""

    count: int = 0
    total_us: int = 0
    longest_us: int = 0

    def add(self, duration_us: int) -> None:
        """Count a call."""
        self.count += 1
        self.total_us += duration_us
        self.longest_us = max(self.longest_us, duration_us)
