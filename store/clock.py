"""The two clocks. Code that needs the time takes a clock as an argument, so that tests can replace it.

Data uses Unix time, which is valid after a restart and may be set forward or back. Waits use the monotonic clock, which
never goes back.
"""

from __future__ import annotations

from time import monotonic_ns, time_ns


def wall_clock_ms() -> int:
    """Unix time in ms."""
    return time_ns() // 1_000_000


def wall_clock_us() -> int:
    """Unix time in us, for what shows the time to users."""
    return time_ns() // 1000


def monotonic_clock_ms() -> int:
    """Time in ms since an arbitrary moment. It never goes back."""
    return monotonic_ns() // 1_000_000
