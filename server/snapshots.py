"""Snapshots taken beside the work: BGREWRITEAOF, by hand or because the log has grown.

A job owns an image of the dataset and a file that a thread writes. Each loop turn it makes one block, some half a
millisecond of work, and then leaves the loop to the clients for twice as long. While there is an image, streams are
copied before commands change them (`Context.preserve`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Final

from ..persistence.aof import AppendOnlyLog
from ..persistence.background import BackgroundFile
from ..persistence.errors import LogFailure
from ..persistence.snapshot import snapshot
from ..store.errors import GenericError
from ..store.image import StoreImage

if TYPE_CHECKING:
    from .app import Server

logger = logging.getLogger(__name__)

CallLater = Callable[[float, Callable[[], None]], asyncio.TimerHandle | None]
"""The loop's `call_later`."""

REST_RATIO: Final = 2.0
"""How many times as long as it works a job leaves the loop to others."""
REST_S_MIN: Final = 0.001
FREE_FAILURES_COUNT: Final = 2
"""Automatic rewrites that may fail in a row before the next one is put off: by 1, 2, 4, .. minutes."""
DELAY_MINUTES_MAX: Final = 60

CANNOT_START: Final = b"Can't execute an AOF background rewriting. Please check the server logs for more information."


@dataclass
class Record:
    """How the jobs of one kind went, as INFO tells it. Times are Unix ms or seconds, -1 for none."""

    is_running: bool = False
    is_scheduled: bool = False
    started_ms: int = -1
    last_duration_s: int = -1
    last_ok: bool = True
    count: int = 0
    failures_count: int = 0
    """In a row."""
    retry_ms: int = 0
    """No automatic job before."""

    def running_s(self, now_ms: int) -> int:
        """Seconds since the running job began, -1 without one."""
        return (now_ms - self.started_ms) // 1000 if self.is_running else -1

    def begin(self, now_ms: int) -> None:
        """A job starts."""
        self.is_running, self.is_scheduled, self.started_ms = True, False, now_ms
        self.count += 1

    def end(self, now_ms: int, *, ok: bool) -> None:
        """It is over."""
        self.last_duration_s = (now_ms - self.started_ms) // 1000
        self.is_running, self.last_ok = False, ok
        self.failures_count = 0 if ok else self.failures_count + 1


@dataclass
class Job:
    """A job under way."""

    image: StoreImage
    file: BackgroundFile
    finish: Callable[[int], None]
    """Puts the complete file into force, given its size. Raises OSError."""


class Snapshots:
    """Starts jobs, one at a time, and drives them."""

    def __init__(self, server: Server, call_later: CallLater) -> None:
        self._server = server
        self._call_later = call_later
        self._executor: ThreadPoolExecutor | None = None
        self._job: Job | None = None
        self._handle: asyncio.TimerHandle | None = None
        """When the next slice is due."""
        self.rewrite = Record()

    # -- what others ask -------------------------------------------------------------------------

    @property
    def keys_total(self) -> int:
        """Keys of the image being written, 0 without one."""
        return self._job.image.keys_count if self._job else 0

    @property
    def keys_done(self) -> int:
        """Those of them whose turn has come."""
        return self._job.image.keys_read if self._job else 0

    # -- rewriting the log -----------------------------------------------------------------------

    def request_rewrite(self, *, may_start: bool) -> bool:
        """BGREWRITEAOF. False if it is only scheduled, for the next turn of the cron. Raises GenericError."""
        if self.rewrite.is_running:
            raise GenericError(b"Background append only file rewriting already in progress")
        if self._job is not None or not may_start:
            self.rewrite.is_scheduled = True
            return False
        self.rewrite.retry_ms = 0
        if not self._start_rewrite():
            raise GenericError(CANNOT_START)
        return True

    def _start_rewrite(self) -> bool:
        """Begin; a failure is logged and counted."""
        server = self._server
        now_ms = server.clock()
        log = server.log or server.new_log()
        self.rewrite.begin(now_ms)
        try:
            # The log must hold everything that the image will hold before the new increment begins.
            server.dispatcher.log_single_units()
            path = log.begin_rewrite()
        except (OSError, LogFailure) as error:
            self._fail_rewrite(f"Can't open the next append only file: {error}")
            return False
        image = StoreImage(server.store)
        file = BackgroundFile(log.files, path, log.base_blocks(snapshot(image)), self._thread())
        self._begin(Job(image, file, lambda size: self._finish_rewrite(log, size)))
        logger.info("Background append only file rewriting started")
        return True

    def _finish_rewrite(self, log: AppendOnlyLog, size: int) -> None:
        log.finish_rewrite(size)
        self.rewrite.end(self._server.clock(), ok=True)
        logger.info("Background AOF rewrite finished successfully")

    def _fail_rewrite(self, reason: str) -> None:
        rewrite, now_ms = self.rewrite, self._server.clock()
        rewrite.end(now_ms, ok=False)
        logger.warning("Background AOF rewrite failed, the old files stay in force: %s", reason)
        if rewrite.failures_count > FREE_FAILURES_COUNT:
            minutes = min(2 ** (rewrite.failures_count - FREE_FAILURES_COUNT - 1), DELAY_MINUTES_MAX)
            rewrite.retry_ms = now_ms + minutes * 60_000
            logger.warning(
                "Background AOF rewrite has repeatedly failed and triggered the limit, will retry in %d minutes",
                minutes,
            )

    def cron(self, now_ms: int) -> None:
        """Ten times a second: start what was scheduled, or what the size of the log asks for."""
        if self._job is not None:
            return
        if self.rewrite.is_scheduled or self._has_grown(now_ms):
            self._start_rewrite()

    def _has_grown(self, now_ms: int) -> bool:
        """The test of auto-aof-rewrite-percentage and auto-aof-rewrite-min-size."""
        config, log = self._server.config, self._server.log
        if log is None or not config.auto_aof_rewrite_percentage or now_ms < self.rewrite.retry_ms:
            return False
        if log.current_size <= config.auto_aof_rewrite_min_size:
            return False
        base_size = log.base_size or 1
        growth = log.current_size * 100 // base_size - 100
        if growth < config.auto_aof_rewrite_percentage:
            return False
        logger.info("Starting automatic rewriting of AOF on %d%% growth", growth)
        return True

    # -- driving ---------------------------------------------------------------------------------

    def _thread(self) -> ThreadPoolExecutor:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="snapshot")
        return self._executor

    def _begin(self, job: Job) -> None:
        self._job = job
        self._server.context.image = job.image
        self._server.dispatcher.refresh_clients()
        self._schedule(REST_S_MIN)

    def _schedule(self, delay_s: float) -> None:
        self._handle = self._call_later(delay_s, self.step)

    def step(self) -> None:
        """One slice of the job, and the date of the next."""
        job = self._job
        assert job is not None
        started_s = perf_counter()
        try:
            is_complete = job.file.step()
            if is_complete:
                job.finish(job.file.size)
        except OSError as error:
            self._end_job()
            self._fail_rewrite(str(error))
            return
        if is_complete:
            self._end_job()
            return
        self._schedule(max(REST_S_MIN, REST_RATIO * (perf_counter() - started_s)))

    def _end_job(self) -> None:
        assert self._job is not None
        self._job.image.close()
        self._job = None
        self._server.context.image = None
        self._server.dispatcher.refresh_clients()

    def stop(self) -> None:
        """Before the server ends, or the log does: give a running job up."""
        if self._job is not None:
            if self._handle is not None:
                self._handle.cancel()
            job = self._job
            self._end_job()
            job.file.abandon()
            if self.rewrite.is_running:
                self.rewrite.end(self._server.clock(), ok=True)
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None
