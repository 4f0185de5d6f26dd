"""The thread that brings the log's file to stable storage beside the work, one fsync at a time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sync:
    """One fsync that the thread was asked for."""

    future: Future[None]
    size: int
    """Bytes that were written since the one before."""
    mark: int
    """What is on stable storage once it has succeeded: see `AppendOnlyLog.mark`."""


class BackgroundSync:
    """At most one fsync under way. The thread is made when it is first needed, unless an `executor` is given."""

    def __init__(self, executor: Executor | None = None) -> None:
        self._executor = executor
        self._owns_executor = executor is None
        self.current: Sync | None = None
        """Under way, or over and not yet collected."""
        self.started_ms = 0
        """When the last one began, Unix ms."""
        self.is_slow = False
        """Somebody has been told that the current one takes long."""

    @property
    def is_running(self) -> bool:
        """Whether the thread is at work."""
        return self.current is not None and not self.current.future.done()

    def start(
        self, fsync: Callable[[], None], *, size: int, mark: int, now_ms: int, on_ended: Callable[[], None]
    ) -> None:
        """Let the thread call `fsync`, then `on_ended`. The one before must have been collected."""
        assert self.current is None
        if self._executor is None:
            self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="aof-fsync")
        self.started_ms, self.is_slow = now_ms, False
        self.current = Sync(self._executor.submit(fsync), size, mark)
        self.current.future.add_done_callback(lambda _: on_ended())

    def collect(self, *, wait: bool) -> Sync | None:
        """The current one if it is over, or once it is; its future holds what the fsync raised."""
        sync = self.current
        if sync is None or not (wait or sync.future.done()):
            return None
        self.current = None
        sync.future.exception()  # waits
        return sync

    def stop(self) -> None:
        """Wait for the thread and let it go; how its fsync went no longer matters."""
        self.collect(wait=True)
        if self._owns_executor and self._executor is not None:
            self._executor.shutdown()
            self._executor = None
