"""Writing an image of the dataset to a file while clients are served.

A job owns an image of the dataset and a file that a thread writes. Each slice makes blocks for half a millisecond, and
then leaves the loop to the clients for four times as long. While there is an image, streams are copied before commands
change them (`Context.preserve`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
from typing import Final, Protocol

from ...commands.execution.context import Context
from ...persistence.errors import explain
from ...store.image import StoreImage

logger = logging.getLogger(__name__)

# The loop's `call_later`.
CallLater = Callable[[float, Callable[[], None]], asyncio.TimerHandle | None]

# Run time after which a slice makes no further block. Starting a slice takes a tenth of a millisecond.
SLICE_S: Final = 0.0005
# Idle time after each slice, as a multiple of its run time.
REST_RATIO: Final = 4.0
REST_S_MIN: Final = 0.001


class Target(Protocol):
    """Where a job puts what it makes: `persistence.background.BackgroundFile`, or replicas."""

    @property
    def size(self) -> int:
        """Bytes of the complete result."""
        ...

    def step(self, is_over: Callable[[], bool]) -> bool:
        """Make blocks if there is room for them, until `is_over` returns true. Returns whether all is done. Raises
        OSError."""
        ...

    def wait(self) -> None:
        """Wait until `step` may have work."""
        ...

    def abandon(self) -> None:
        """Drop what was made."""
        ...


@dataclass
class Job:
    """A running job."""

    image: StoreImage
    file: Target
    # Puts the complete file in the place of the old one, given its size. Raises OSError.
    finish: Callable[[int], None]
    # Records that the job failed, and why.
    fail: Callable[[str], None]
    # Whether it is a snapshot for replicas, which cannot be completed while all clients wait.
    is_for_replicas: bool = False
    # Whether a slice that was full is followed by the next one in the next turn of the loop. For work that costs little
    # altogether, and that a replica waits for.
    is_brisk: bool = False


def _new_thread() -> Executor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="snapshot")


class JobRunner:
    """Drives one job at a time. While there is one, `context.image` is its image."""

    def __init__(self, context: Context, call_later: CallLater) -> None:
        self._context = context
        self.call_later = call_later
        # The clock that times the slices.
        self.read_clock_s: Callable[[], float] = perf_counter
        # Seconds after which a slice makes no further block. Tests change it.
        self.slice_s = SLICE_S
        # Returns the seconds that each key costs in addition (`rdb-key-save-delay`).
        self.key_delay_s: Callable[[], float] = lambda: 0.0
        # Keys whose delay has passed before they were read.
        self._prepaid_count = 0
        # The thread that writes files, made when it is first needed.
        self.executor: Executor | None = None
        self.new_executor: Callable[[], Executor] = _new_thread
        self.job: Job | None = None
        # Called when a job has ended, with a file or without.
        self.on_end: Callable[[], None] = lambda: None
        # The timer of the next slice.
        self._handle: asyncio.TimerHandle | None = None

    def thread(self) -> Executor:
        """The thread that writes files."""
        if self.executor is None:
            self.executor = self.new_executor()
        return self.executor

    def begin(self, job: Job) -> None:
        """Start a job; there must be none."""
        self.job = job
        self._context.image = job.image
        delay_s = self.key_delay_s()
        self._prepaid_count = 1 if delay_s else 0
        self._schedule(REST_S_MIN + delay_s)

    def _schedule(self, delay_s: float) -> None:
        self._handle = self.call_later(delay_s, self._step)

    def _step(self) -> None:
        """Run one slice of the job, and schedule the next."""
        job = self.job
        assert job is not None
        started_s, keys_before, delay_s = self.read_clock_s(), job.image.keys_read, self.key_delay_s()
        slice_s = 0.0 if delay_s else self.slice_s
        try:
            is_complete = job.file.step(lambda: self.read_clock_s() - started_s >= slice_s)
            if is_complete:
                job.finish(job.file.size)
        except OSError as error:
            self._end()
            job.fail(explain(error))
            self.on_end()
            return
        except Exception:
            # After a defect of ours, the image must not slow down all commands for ever.
            logger.exception("internal error while writing a snapshot")
            job.file.abandon()
            self._end()
            job.fail("internal error")
            self.on_end()
            return
        if is_complete:
            self._end()
            self.on_end()
            return
        owed_count = job.image.keys_read - keys_before
        if delay_s and owed_count:
            owed_count -= self._prepaid_count
            self._prepaid_count = 0
        spent_s = self.read_clock_s() - started_s
        # A slice that ended early had nothing to do: the target was full.
        rest_s = 0.0 if job.is_brisk and not delay_s and spent_s >= slice_s else max(REST_S_MIN, REST_RATIO * spent_s)
        self._schedule(rest_s + owed_count * delay_s)

    def _end(self) -> None:
        assert self.job is not None
        self.job.image.close()
        self.job = None
        self._context.image = None

    def complete(self) -> None:
        """Run the present job to its end, while all clients wait."""
        job = self.job
        while job is not None and self.job is job:
            self._cancel()
            job.file.wait()
            self._step()

    def abort(self) -> None:
        """Abort the present job, without a file."""
        job = self.job
        assert job is not None
        self._cancel()
        job.file.abandon()
        self._end()
        self.on_end()

    def _cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def stop(self) -> None:
        """Stop the thread; a later job starts another."""
        if self.executor is not None:
            self.executor.shutdown()
            self.executor = None
