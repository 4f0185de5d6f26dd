"""Writing a picture of the dataset beside the work.

A job owns an image of the dataset and a file that a thread writes. Each loop turn it makes one block, some half a
millisecond of work, and then leaves the loop to the clients for four times as long. While there is an image, streams
are copied before commands change them (`Context.preserve`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
from typing import Final

from ...commands.execution.context import Context
from ...persistence.background import BackgroundFile
from ...persistence.errors import explain
from ...store.image import StoreImage

logger = logging.getLogger(__name__)

# The loop's `call_later`.
CallLater = Callable[[float, Callable[[], None]], asyncio.TimerHandle | None]

# How many times as long as it works a job leaves the loop to others.
REST_RATIO: Final = 4.0
REST_S_MIN: Final = 0.001


@dataclass
class Job:
    """A job under way."""

    image: StoreImage
    file: BackgroundFile
    # Puts the complete file into force, given its size. Raises OSError.
    finish: Callable[[int], None]
    # Notes that there is none, and why.
    fail: Callable[[str], None]


class JobRunner:
    """Drives one job at a time. While there is one, `context.image` is its image."""

    def __init__(self, context: Context, call_later: CallLater) -> None:
        self._context = context
        self.call_later = call_later
        # How long a slice took.
        self.read_clock_s: Callable[[], float] = perf_counter
        # Made when it is needed.
        self.executor: Executor | None = None
        self.job: Job | None = None
        # Called when a job has ended, with a file or without.
        self.on_end: Callable[[], None] = lambda: None
        # When the next slice is due.
        self._handle: asyncio.TimerHandle | None = None

    def thread(self) -> Executor:
        """Where files are written."""
        if self.executor is None:
            self.executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="snapshot")
        return self.executor

    def begin(self, job: Job) -> None:
        """Start a job; there must be none."""
        self.job = job
        self._context.image = job.image
        self._schedule(REST_S_MIN)

    def _schedule(self, delay_s: float) -> None:
        self._handle = self.call_later(delay_s, self._step)

    def _step(self) -> None:
        """One slice of the job, and the date of the next."""
        job = self.job
        assert job is not None
        started_s = self.read_clock_s()
        try:
            is_complete = job.file.step()
            if is_complete:
                job.finish(job.file.size)
        except OSError as error:
            self._end()
            job.fail(explain(error))
            return
        except Exception:
            # A fault of ours must not leave everybody with the price of an image for ever.
            logger.exception("internal error while writing a snapshot")
            job.file.abandon()
            self._end()
            job.fail("internal error")
            return
        if is_complete:
            self._end()
            return
        self._schedule(max(REST_S_MIN, REST_RATIO * (self.read_clock_s() - started_s)))

    def _end(self) -> None:
        assert self.job is not None
        self.job.image.close()
        self.job = None
        self._context.image = None
        self.on_end()

    def complete(self) -> None:
        """Run the present job to its end while everybody waits."""
        job = self.job
        while job is not None and self.job is job:
            self._cancel()
            job.file.wait()
            self._step()

    def give_up(self) -> None:
        """End the present job without a file."""
        job = self.job
        assert job is not None
        self._cancel()
        job.file.abandon()
        self._end()

    def _cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def stop(self) -> None:
        """Let the thread go; a later job gets another."""
        if self.executor is not None:
            self.executor.shutdown()
            self.executor = None
