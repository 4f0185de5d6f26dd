"""Delays for tests: `rdb-key-save-delay` and `key-load-delay` make snapshots and loads slow, as in Redis."""

from __future__ import annotations

from typing import Final

# Longest wait after which a changed delay is read again, in seconds.
WAIT_S_MAX: Final = 0.05


def key_delay_s(delay_us: int) -> float:
    """The seconds that one key costs. A negative number of the directive is a count of keys for one microsecond."""
    return delay_us / 1e6 if delay_us >= 0 else 1e-6 / -delay_us
