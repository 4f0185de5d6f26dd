"""What time it is, unless a test says otherwise: everything that needs a time is given a clock.

Data has Unix time, which outlives the process and may be set forth and back. Waits are timed by the monotonic clock,
which always goes on.
"""

from __future__ import annotations

from time import monotonic_ns, time_ns


def wall_clock_ms() -> int:
    """Unix time in ms."""
    return time_ns() // 1_000_000


def monotonic_clock_ms() -> int:
    """Time in ms since some moment in the past."""
    return monotonic_ns() // 1_000_000
