"""The clock that everything outside of tests reads."""

from __future__ import annotations

import time

from headrace.store.clock import wall_clock_ms


def test_wall_clock_is_unix_time_in_milliseconds() -> None:
    before_s, now_ms, after_s = time.time(), wall_clock_ms(), time.time()
    assert int(before_s * 1000) - 1 <= now_ms <= after_s * 1000 + 1
