"""The thread that syncs the log's file in the background, one fsync at a time."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

# Upper ends of the buckets of fsyncs by duration: each four times the one before, 64 us to 17 s.
FSYNC_EDGES_NS: Final = tuple(4**exponent * 1000 for exponent in range(3, 13))


class FsyncTimes:
    """Durations of the fsyncs so far. At most one fsync runs at a time."""

    def __init__(self) -> None:
        # By bucket; the last one is for longer fsyncs than any edge.
        self.counts = [0] * (len(FSYNC_EDGES_NS) + 1)
        self.total_ns = 0

    def run(self, fsync: Callable[[], None]) -> None:
        """Call `fsync`, and count its duration, also if it raises."""
        began_ns = time.monotonic_ns()
        try:
            fsync()
        finally:
            self.add(time.monotonic_ns() - began_ns)

    def add(self, duration_ns: int) -> None:
        """Count an fsync."""
        self.counts[bisect_left(FSYNC_EDGES_NS, duration_ns)] += 1
        self.total_ns += duration_ns


@dataclass(frozen=True, slots=True)
class Sync:
    """One fsync of the thread."""

    future: Future[None]
    # Bytes that were written since the previous fsync.
    size: int
    # The mark that is on stable storage once the fsync has succeeded: see `LogWriter.mark`.
    mark: int


class BackgroundSync:
    """Runs at most one fsync at a time. The thread is created when it is first needed, unless an `executor` is
    given."""

    def __init__(self, executor: Executor | None = None) -> None:
        self.times = FsyncTimes()
        self._executor = executor
        self._owns_executor = executor is None
        # The fsync that is running, or has ended and is not collected yet.
        self.current: Sync | None = None
        # Unix ms at which the last fsync began.
        self.started_ms = 0
        # Whether the slow-fsync warning was logged for the current fsync.
        self.is_slow = False

    @property
    def is_running(self) -> bool:
        """Whether an fsync is running."""
        return self.current is not None and not self.current.future.done()

    def start(
        self, fsync: Callable[[], None], *, size: int, mark: int, now_ms: int, on_ended: Callable[[], None]
    ) -> None:
        """Let the thread call `fsync`, then `on_ended`. The previous fsync must have been collected."""
        assert self.current is None
        if self._executor is None:
            self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="aof-fsync")
        self.started_ms, self.is_slow = now_ms, False
        self.current = Sync(self._executor.submit(self.times.run, fsync), size, mark)
        self.current.future.add_done_callback(lambda _: on_ended())

    def collect(self, *, wait: bool) -> Sync | None:
        """Return the current fsync if it has ended, with `wait` after it has ended. Its future has what the fsync
        raised."""
        sync = self.current
        if sync is None or not (wait or sync.future.done()):
            return None
        self.current = None
        sync.future.exception()  # waits
        return sync

    def stop(self) -> None:
        """Wait for the thread and end it. The result of its fsync is ignored."""
        self.collect(wait=True)
        if self._owns_executor and self._executor is not None:
            self._executor.shutdown()
            self._executor = None
