"""What time it is, unless a test says otherwise: everything that needs a time is given a clock."""

from __future__ import annotations

from time import time_ns


def wall_clock_ms() -> int:
    """Unix time in ms."""
    return time_ns() // 1_000_000
