"""What the jobs of one kind, snapshots or rewrites, have come to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class JobResults:
    """Results of the jobs of one kind, as in INFO. Times are Unix ms or seconds, -1 for none."""

    is_running: bool = False
    is_scheduled: bool = False
    started_ms: int = -1
    last_duration_s: int = -1
    last_ok: bool = True
    count: int = 0
    # Failures in a row.
    failures_count: int = 0
    # Earliest time of an automatic job.
    retry_ms: int = 0

    def reset_statistics(self) -> None:
        """CONFIG RESETSTAT."""
        self.count = self.failures_count = 0

    def running_s(self, now_ms: int) -> int:
        """Seconds since the running job began, -1 without one."""
        return (now_ms - self.started_ms) // 1000 if self.is_running else -1

    def begin(self, now_ms: int) -> None:
        """Record that a job starts."""
        self.is_running, self.is_scheduled, self.started_ms = True, False, now_ms
        self.count += 1

    def end(self, now_ms: int, *, ok: bool) -> None:
        """Record that the job has ended."""
        self.last_duration_s = (now_ms - self.started_ms) // 1000
        self.is_running, self.last_ok = False, ok
        self.failures_count = 0 if ok else self.failures_count + 1
