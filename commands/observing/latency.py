"""The latency monitor: by kind of event, the last moments that took at least `latency-monitor-threshold` ms.

    command, fast-command    a call of a command; `fast` are those whose row says so
    aof-write                giving the log's records to the system
    aof-fsync-always         the sync that replies wait for under `appendfsync always`
    expire-cycle             removing expired keys that nobody asks for
    fork                     taking the picture of the dataset that a snapshot or a rewrite then writes beside the work

Source: LATENCY of Redis 8.10.2, whose kinds of event these are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Final, TypeVar

# Moments kept of one kind of event, as in Redis.
SAMPLE_COUNT_MAX: Final = 160

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Sample:
    """The longest that an event took within one second."""

    # Unix seconds.
    time_s: int
    duration_ms: int


@dataclass(slots=True)
class History:
    """One kind of event: its last samples, oldest first, and the longest it ever took."""

    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=SAMPLE_COUNT_MAX))
    longest_ms: int = 0

    def add(self, time_s: int, duration_ms: int) -> None:
        """Take note; of what happens within one second the longest stays."""
        self.longest_ms = max(self.longest_ms, duration_ms)
        if self.samples and self.samples[-1].time_s == time_s:
            duration_ms = max(duration_ms, self.samples.pop().duration_ms)
        self.samples.append(Sample(time_s, duration_ms))


class LatencyMonitor:
    """Histories by name of event."""

    def __init__(self) -> None:
        # 0 is off.
        self.threshold_ms = 0
        self.histories: dict[str, History] = {}

    def note(self, event: str, duration_ns: int, now_ms: int) -> None:
        """An event took this long; it is kept if the threshold says so."""
        duration_ms = duration_ns // 1_000_000
        if self.threshold_ms and duration_ms >= self.threshold_ms:
            self.histories.setdefault(event, History()).add(now_ms // 1000, duration_ms)

    def run(self, event: str, work: Callable[[], Result], clock: Callable[[], int]) -> Result:
        """Do a piece of work that is such an event. `clock` answers Unix ms."""
        if not self.threshold_ms:
            return work()
        started_ns = perf_counter_ns()
        try:
            return work()
        finally:
            self.note(event, perf_counter_ns() - started_ns, clock())

    def reset(self, event: str) -> bool:
        """Forget an event; False if there was none."""
        return self.histories.pop(event, None) is not None
