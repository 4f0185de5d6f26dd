"""The latency monitor: the last events of each kind that took at least `latency-monitor-threshold` ms.

    command, fast-command    a call of a command; `fast` are those whose row says so
    aof-write                writing the log's records to the file
    aof-fsync-always         the fsync for which replies wait under `appendfsync always`
    expire-cycle             removing expired keys that no client reads
    eviction-cycle           evicting keys before a command, or in the periodic work
    eviction-del             removing one of these keys
    fork                     taking the image of the dataset from which a snapshot or a rewrite is written

Source: LATENCY of Redis 8.10.2, whose kinds of event these are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Final, TypeVar

# Samples kept of one kind of event, as in Redis.
SAMPLE_COUNT_MAX: Final = 160

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Sample:
    """The longest duration of an event within one second."""

    # Unix seconds.
    time_s: int
    duration_ms: int


@dataclass(slots=True)
class History:
    """One kind of event: its last samples, oldest first, and the longest duration."""

    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=SAMPLE_COUNT_MAX))
    longest_ms: int = 0

    def add(self, time_s: int, duration_ms: int) -> None:
        """Add a sample; of several within one second, the longest is kept."""
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
        """Record an event if it took at least the threshold."""
        duration_ms = duration_ns // 1_000_000
        if self.threshold_ms and duration_ms >= self.threshold_ms:
            self.histories.setdefault(event, History()).add(now_ms // 1000, duration_ms)

    def run(self, event: str, work: Callable[[], Result], clock: Callable[[], int]) -> Result:
        """Run a function and record it as an event. `clock` returns Unix ms."""
        if not self.threshold_ms:
            return work()
        started_ns = perf_counter_ns()
        try:
            return work()
        finally:
            self.note(event, perf_counter_ns() - started_ns, clock())

    def reset(self, event: str) -> bool:
        """Forget an event. Returns False if there was none."""
        return self.histories.pop(event, None) is not None
