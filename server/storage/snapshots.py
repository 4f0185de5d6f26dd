"""Snapshots taken while clients are served: BGREWRITEAOF and BGSAVE, by command or when the log or the changes require
one.

Both are jobs of `image_job.py`. This module decides what to write, and what to do with the file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter_ns
from typing import Final, Protocol

from ...commands.execution.context import Context
from ...persistence.aof import AppendOnlyLog
from ...persistence.background import BackgroundFile
from ...persistence.errors import LogError, LogFailure, explain
from ...persistence.placing import StreamPlace
from ...persistence.rdb.file import BLOCK_SIZE, own_aux, write_file
from ...persistence.rdb.values import packing
from ...persistence.rows.blocks import framed
from ...persistence.rows.streams import ROWS
from ...persistence.snapshot import snapshot
from ...store.errors import GenericError
from ...store.image import Pack, Part, StoreImage, parts_now
from ..configuration.config import Config
from ..configuration.directive_kinds import SavePoints
from ..configuration.directives import BY_NAME
from .image_job import CallLater, Job, JobRunner
from .job_results import JobResults
from .key_delay import key_delay_s
from .log_life import LogState
from .logkeeper import LogKeeper
from .paths import dump_path

logger = logging.getLogger(__name__)

# Automatic rewrites that may fail in a row before the next one is delayed: by 1, 2, 4, .. minutes.
FREE_FAILURES_COUNT: Final = 2
DELAY_MINUTES_MAX: Final = 60

# Size in bytes of a block of an RDB file: little enough that a slice ends in time. A block has at least the entries of
# one chunk, which take half a millisecond.
RDB_BLOCK_SIZE: Final = 4096
# With more unsynced bytes of the log than this, a thread syncs them before a rewrite begins. Otherwise all clients
# would wait for the sync. Tests change it.
SYNC_FIRST_SIZE = 1024 * 1024
# Delay after a failed snapshot before the save points may start another.
SAVE_RETRY_MS: Final = 5000

CANNOT_START: Final = b"Can't execute an AOF background rewriting. Please check the server logs for more information."
SAVE_IN_PROGRESS: Final = b"Background save already in progress"
REWRITE_IN_PROGRESS: Final = b"Background append only file rewriting already in progress"
SAVE_BLOCKED: Final = (
    b"Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to schedule a "
    b"BGSAVE whenever possible."
)

# Redis' line, and then what it means here, where there is no child and no signal.
REWRITE_ABANDONED: Final = (
    "There is a child rewriting the AOF. Killing it! The rewrite is abandoned, and the log keeps its old files."
)
SAVE_ABANDONED: Final = "There is a child saving an .rdb. Killing it! The background snapshot is abandoned."
REWRITE_DROPPED: Final = (
    "Killing running AOF rewrite child: the log was turned off (appendonly no), and the rewrite is abandoned."
)
SAVE_DROPPED: Final = "Background saving terminated by FLUSHALL: the keys of this snapshot are gone."
SAVE_REPLACED: Final = "Background saving terminated: a newer snapshot is written at once."


class ForkFigures(Protocol):
    """The counters that INFO calls fork: of taking an image of the dataset."""

    forks: int
    latest_fork_us: int


class Snapshots:
    """Starts jobs, one at a time, and puts their files into place."""

    def __init__(
        self,
        config: Config,
        context: Context,
        log_keeper: LogKeeper,
        clock: Callable[[], int],
        call_later: CallLater,
        *,
        figures: ForkFigures,
        resident_size: Callable[[], int],
        count_changes: Callable[[], int],
        refuse_writes: Callable[[bool], None],
    ) -> None:
        self._config = config
        self._context = context
        self._log_keeper = log_keeper
        self._life = log_keeper.life
        self._clock = clock
        self._figures = figures
        # Returns the memory of this process in RAM, in bytes.
        self._resident_size = resident_size
        # Returns the number of effects of all commands so far.
        self._count_changes = count_changes
        # Refuses writes, or accepts them again (stop-writes-on-bgsave-error).
        self._refuse_writes = refuse_writes
        self.runner = JobRunner(context, call_later)
        self.runner.key_delay_s = lambda: key_delay_s(config.rdb_key_save_delay)
        self.rewrite = JobResults()
        self.save = JobResults()
        # When dump.rdb was last complete, or the server started.
        self.last_save_ms = clock()
        # Returns the place of the dataset in the replication stream, None without one.
        self.find_place: Callable[[], StreamPlace | None] = lambda: None
        # Returns whether rewrites wait for the end of a backup; set by Backups.
        self.holds_rewrites: Callable[[], bool] = lambda: False
        # Called when a log has a new base, and with the reason when it could not be written; set by Backups.
        self.on_base: Callable[[AppendOnlyLog], None] = lambda log: None
        self.on_base_failed: Callable[[str], None] = lambda reason: None
        # Called between two blocks of a snapshot that all clients wait for.
        self.while_saving: Callable[[], None] = lambda: None
        # Changes that dump.rdb has.
        self._changes_saved = 0
        log_keeper.is_snapshot_running = lambda: self.rewrite.is_running or self.save.is_running
        log_keeper.on_sync_awaited = lambda: self.cron(clock())

    # -- what others ask -------------------------------------------------------------------------

    @property
    def keys_total(self) -> int:
        """Keys of the image being written, 0 without one."""
        return self.runner.job.image.keys_count if self.runner.job else 0

    @property
    def keys_done(self) -> int:
        """Keys of that image that were written."""
        return self.runner.job.image.keys_read if self.runner.job else 0

    @property
    def may_begin(self) -> bool:
        """Whether no job runs, or waits for the end of a load, of the server, or of an fsync."""
        held = (LogState.LOADING, LogState.ENDED, LogState.AWAITING_SYNC)
        return self.runner.job is None and self._life.state not in held

    @property
    def is_saving(self) -> bool:
        """Whether a snapshot is being written, to dump.rdb or for replicas."""
        job = self.runner.job
        return self.save.is_running or (job is not None and job.is_for_replicas)

    @property
    def is_rewrite_scheduled(self) -> bool:
        """Whether a rewrite, or the base of a log that was turned on, waits for its turn."""
        return self.rewrite.is_scheduled or self._life.state is LogState.WANTED

    def lock_folder(self) -> None:
        """Lock the data folder before a command writes files. Raises GenericError if another server uses it."""
        try:
            self._log_keeper.lock.acquire()
        except LogError as error:
            raise GenericError(str(error).encode()) from error
        except OSError:
            pass  # writing the file says what is wrong

    # -- rewriting the log -----------------------------------------------------------------------

    def request_rewrite(self, *, may_start: bool) -> bool:
        """BGREWRITEAOF. False if it is only scheduled, for the next turn of the cron. Raises GenericError."""
        if self.rewrite.is_running and not self.holds_rewrites():
            raise GenericError(REWRITE_IN_PROGRESS)
        self.lock_folder()
        if self.runner.job is not None or not may_start or self.holds_rewrites():
            self.rewrite.is_scheduled = True
            return False
        self.rewrite.retry_ms = 0
        if not self._start_rewrite():
            raise GenericError(CANNOT_START)
        return True

    def begin_base(self) -> None:
        """BACKUP START: write a new base, of the log or of one that is kept for the backup only. No other job may run.
        A failure is reported to `on_base_failed`.
        """
        if self._life.state is LogState.OFF:
            self._try_to_start_log()
        else:
            self._start_rewrite()

    def _start_rewrite(self) -> bool:
        """Begin a rewrite, or first let a thread sync what the log has written. A failure is logged and counted."""
        log = self._log_keeper.log
        self.rewrite.begin(self._clock())
        if log is not None and log.sync_soon(SYNC_FIRST_SIZE):
            self._life.become(LogState.AWAITING_SYNC)
            return True
        return self._switch_log()

    def _switch_log(self) -> bool:
        """Continue the log in a new increment, whose base is the present dataset."""
        keeper = self._log_keeper
        log = keeper.log or keeper.new_log()
        try:
            # The old increment must have everything that is in the image.
            keeper.gather()
            path = log.begin_rewrite()
        except LogFailure as failure:
            self.rewrite.end(self._clock(), ok=False)
            keeper.die(failure)
            return False
        except (LogError, OSError) as error:
            self._fail_rewrite(f"Can't open the next append only file: {explain(error)}")
            return False
        if keeper.log is not None:
            self._life.become(LogState.REWRITING)
            keeper.append_place()
        image = self.take_image()
        file = BackgroundFile(log.files, path, self._base_blocks(log, image), self.runner.thread())
        self.runner.begin(Job(image, file, lambda size: self._finish_rewrite(log, size), self._fail_rewrite))
        logger.info("Background append only file rewriting started")
        return True

    def start_log(self) -> None:
        """Send effects to a new log, whose base is written while clients are served.

        The cron retries after a failure. Raises LogError, OSError if the log cannot be opened.
        """
        keeper = self._log_keeper
        keeper.gather()
        log = keeper.new_log()
        path = log.begin_start()
        keeper.use(log)
        keeper.append_place()
        self._life.become(LogState.STARTING)
        self.rewrite.begin(self._clock())
        image = self.take_image()
        file = BackgroundFile(log.files, path, self._base_blocks(log, image), self.runner.thread())

        def finish(size: int) -> None:
            logger.info("Background AOF rewrite terminated with success")
            log.finish_start(size)
            self._life.become(LogState.ON)
            self.rewrite.end(self._clock(), ok=True)
            logger.info("Background AOF rewrite finished successfully")
            logger.info("The append only file is now in use")
            self.on_base(log)

        def fail(reason: str) -> None:
            self._fail_rewrite(reason)
            log.abandon_start()
            keeper.use(None)
            # A log that is kept for a backup only is not tried again.
            self._life.become(LogState.WANTED if self._config.appendonly else LogState.OFF)

        self.runner.begin(Job(image, file, finish, fail))
        logger.info("Background append only file rewriting started")

    def complete_log(self) -> bool:
        """Before the server ends, complete the base of a log that is wanted or starting, since the log has nothing
        without it.

        Returns False if that failed.
        """
        if self._life.state is LogState.WANTED:
            self.drop_transfer()
            self.runner.complete()  # the job before it
            self._try_to_start_log()
        if self._life.state is LogState.STARTING and self._config.appendonly:
            self.runner.complete()
        return self._life.state is not LogState.WANTED

    def start_wanted(self) -> None:
        """Start the log that is wanted, unless another job is running; the cron does it then."""
        if self.runner.job is None and self._life.state is LogState.WANTED:
            self._try_to_start_log()

    def _try_to_start_log(self) -> None:
        try:
            self.start_log()
        except (LogError, OSError) as error:
            self.rewrite.begin(self._clock())
            self._fail_rewrite(explain(error))

    def _finish_rewrite(self, log: AppendOnlyLog, size: int) -> None:
        logger.info("Background AOF rewrite terminated with success")
        log.finish_rewrite(size)
        self._end_rewriting()
        self.rewrite.end(self._clock(), ok=True)
        logger.info("Background AOF rewrite finished successfully")
        self.on_base(log)

    def _fail_rewrite(self, reason: str) -> None:
        self._end_rewriting()
        rewrite, now_ms = self.rewrite, self._clock()
        rewrite.end(now_ms, ok=False)
        logger.warning("Background AOF rewrite failed, the old files stay in use: %s", reason)
        self.on_base_failed(reason)
        if rewrite.failures_count > FREE_FAILURES_COUNT:
            minutes = min(2 ** (rewrite.failures_count - FREE_FAILURES_COUNT - 1), DELAY_MINUTES_MAX)
            rewrite.retry_ms = now_ms + minutes * 60_000
            logger.warning(
                "Background AOF rewrite has repeatedly failed and triggered the limit, will retry in %d minutes",
                minutes,
            )

    def _end_rewriting(self) -> None:
        """End a rewrite without a log, which makes only a base and does not change the log's life."""
        if self._life.state in (LogState.AWAITING_SYNC, LogState.REWRITING):
            self._life.become(LogState.ON)

    def cron(self, now_ms: int) -> None:
        """`hz` times a second: start what was scheduled, or what the size of the log requires."""
        state = self._life.state
        if self.runner.job is not None or state in (LogState.LOADING, LogState.ENDED):
            return
        if state is LogState.AWAITING_SYNC:
            assert self._log_keeper.log is not None
            if not self._log_keeper.log.is_fsync_pending:
                self._switch_log()
        elif state is LogState.WANTED and now_ms >= self.rewrite.retry_ms:
            self._try_to_start_log()
        elif not self.holds_rewrites() and (self.rewrite.is_scheduled or self._has_grown(now_ms)):
            self._start_rewrite()
        elif self.save.is_scheduled or self._has_changed(now_ms):
            self._start_save()

    def _has_grown(self, now_ms: int) -> bool:
        """The test of auto-aof-rewrite-percentage and auto-aof-rewrite-min-size."""
        config, log = self._config, self._log_keeper.log
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

    # -- dump.rdb --------------------------------------------------------------------------------

    @property
    def changes_count(self) -> int:
        """Changes that dump.rdb does not have."""
        return self._count_changes() - self._changes_saved

    @property
    def save_points(self) -> list[tuple[int, int]]:
        """The (seconds, changes) in force. With a log, the default ones are only if they were chosen."""
        config = self._config
        if config.appendonly and config.save == BY_NAME[b"save"].default and b"save" not in config.chosen:
            return []
        return SavePoints.pairs(config.save)

    def request_save(self, *, may_wait: bool, may_start: bool) -> bool:
        """BGSAVE. Returns False if it is only scheduled, for the next turn of the cron. Raises GenericError."""
        if self.is_saving:
            raise GenericError(SAVE_IN_PROGRESS)
        is_rewriting = self.runner.job is not None or self._life.state is LogState.AWAITING_SYNC
        if is_rewriting and not may_wait:
            raise GenericError(SAVE_BLOCKED)
        self.lock_folder()
        if is_rewriting or not may_start:
            self.save.is_scheduled = True
            return False
        self._start_save()
        return True

    def _start_save(self) -> None:
        self.save.begin(self._clock())
        place = self.find_place()
        image = self.take_image()
        changes_count = self._count_changes()
        blocks = self.rdb_blocks(image.parts(self.packing()), place=place)
        file = BackgroundFile(self._log_keeper.files, dump_path(self._config), blocks, self.runner.thread())

        def finish(size: int) -> None:
            self.save.end(self._clock(), ok=True)
            self._note_saved(changes_count)
            logger.info("DB saved on disk")
            logger.info("Background saving terminated with success")

        self.runner.begin(Job(image, file, finish, self._fail_save))
        logger.info("Background saving started")

    def save_now(self, *, is_stop: bool = False) -> bool:
        """SAVE, and the save at the stop: write dump.rdb while all clients wait. Returns False if that failed.

        As in Redis, a failure does not make the server refuse writes, unlike that of a background job, and the save at
        the stop is not counted.
        """
        if self.is_saving:
            raise GenericError(SAVE_IN_PROGRESS)
        try:
            self.lock_folder()
        except GenericError as error:
            if not is_stop:
                raise
            logger.warning("Failed saving the DB: %s", error)
            return False
        self.save.count += not is_stop
        return self._write_dump(SAVE_REPLACED)

    def save_flushed(self) -> None:
        """FLUSHALL: with save points, write dump.rdb without the keys that are gone, so that no start brings them back.

        As in Redis, a running save is aborted, because it has these keys, and this one is not counted.
        """
        if self.save_points:
            self._write_dump(SAVE_DROPPED)

    def reload_now(self) -> bool:
        """DEBUG RELOAD: write dump.rdb uncounted, in place of a save that is running. Returns False if that failed.
        Raises GenericError."""
        self.lock_folder()
        return self._write_dump(SAVE_REPLACED)

    def _write_dump(self, reason: str) -> bool:
        """Write dump.rdb while all clients wait. Abort a running save, whose file would be older. `reason` says why in
        the server log. Returns False if writing failed.
        """
        if self.save.is_running:
            self._abort(self.save)
            logger.warning("%s", reason)
        try:
            parts = parts_now(self._context.store, self.packing(), now_ms=self._clock())
            blocks = self._reporting(self.rdb_blocks(parts, place=self.find_place()))
            self._log_keeper.files.replace(dump_path(self._config), blocks)
        except OSError as error:
            logger.warning("Failed saving the DB: %s", explain(error))
            return False
        self.save.last_ok, self.save.failures_count = True, 0
        # Effects of the running command count later.
        self._note_saved(self._count_changes() + len(self._context.effects))
        logger.info("DB saved on disk")
        return True

    def _reporting(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        """The blocks, with a call of `while_saving` after each."""
        for block in blocks:
            yield block
            self.while_saving()

    def _note_saved(self, changes_count: int) -> None:
        self.last_save_ms = self._clock()
        self._changes_saved = changes_count
        self.note_failing()

    def _fail_save(self, reason: str) -> None:
        now_ms = self._clock()
        self.save.end(now_ms, ok=False)
        self.save.retry_ms = now_ms + SAVE_RETRY_MS
        self.note_failing()
        logger.warning("Failed saving the DB: %s", reason)

    def note_failing(self) -> None:
        """stop-writes-on-bgsave-error: refuse writes after a failure, while there are save points."""
        is_strict = self._config.stop_writes_on_bgsave_error
        self._refuse_writes(bool(self.save_points and is_strict and not self.save.last_ok))

    def _has_changed(self, now_ms: int) -> bool:
        """The test of the save points."""
        if now_ms < self.save.retry_ms:
            return False
        for seconds, changes in self.save_points:
            if self.changes_count >= changes and now_ms - self.last_save_ms > seconds * 1000:
                logger.info("%d changes in %d seconds. Saving...", changes, seconds)
                return True
        return False

    def take_image(self) -> StoreImage:
        """An image of the dataset as it is now. All clients wait for this, so its time is reported as that of Redis'
        fork.
        """
        started_ns = perf_counter_ns()
        image = StoreImage(self._context.store, now_ms=self._clock())
        duration_ns = perf_counter_ns() - started_ns
        self._figures.forks += 1
        self._figures.latest_fork_us = duration_ns // 1000
        self._context.latency.note("fork", duration_ns, self._clock())
        return image

    def _base_blocks(self, log: AppendOnlyLog, image: StoreImage) -> Iterator[bytes]:
        """The base of a log in the configured form."""
        if log.has_rdb_base:
            return self.rdb_blocks(image.parts(self.packing()), is_aof_base=True)
        return log.base_blocks(snapshot(image.parts(), self._context.libraries.codes))

    def packing(self) -> Pack:
        """What packs small values for the blocks of an RDB file or of rows."""
        return packing(compress=self._config.rdbcompression)

    def rdb_blocks(
        self,
        parts: Iterable[Part],
        *,
        is_aof_base: bool = False,
        place: StreamPlace | None = None,
        has_libraries: bool = True,
    ) -> Iterator[bytes]:
        """The blocks of an RDB file, with the libraries of functions as they are now. `place`: its place in the
        replication stream, in a file for replicas."""
        config, now_ms = self._config, self._clock()
        aux = own_aux(now_ms=now_ms, used_memory=self._resident_size(), is_aof_base=is_aof_base, place=place)
        return write_file(
            parts,
            aux,
            now_ms=now_ms,
            compress=config.rdbcompression,
            has_checksum=config.rdbchecksum,
            block_size=RDB_BLOCK_SIZE,
            libraries=self._context.libraries.codes if has_libraries else (),
        )

    def rows_blocks(self, parts: Iterable[Part], *, place: StreamPlace, has_libraries: bool = True) -> Iterator[bytes]:
        """The blocks of a dataset for a replica that reads the form of rows."""
        config, now_ms = self._config, self._clock()
        aux = own_aux(now_ms=now_ms, used_memory=self._resident_size(), is_aof_base=False, place=place)
        return framed(
            write_file(
                parts,
                aux,
                now_ms=now_ms,
                compress=config.rdbcompression,
                has_checksum=False,
                block_size=BLOCK_SIZE,
                form=ROWS,
                libraries=self._context.libraries.codes if has_libraries else (),
            )
        )

    # -- the end ---------------------------------------------------------------------------------

    def abort_rewrite(self) -> None:
        """Before the log is turned off, abort its rewrite or its start. A snapshot continues."""
        if self.rewrite.is_running:
            logger.info("%s", REWRITE_DROPPED)
            self._abort(self.rewrite)

    def drop_transfer(self) -> None:
        """Abort a snapshot for replicas, which cannot be completed while the loop waits. They ask again."""
        job = self.runner.job
        if job is not None and job.is_for_replicas:
            self.runner.abort()
            job.fail("it is abandoned")

    def stop(self) -> None:
        """Before the server ends, abort a running job without reporting a failure. The server log has Redis' line."""
        self.drop_transfer()
        for results, line in ((self.rewrite, REWRITE_ABANDONED), (self.save, SAVE_ABANDONED)):
            if results.is_running:
                logger.warning("%s", line)
                self._abort(results)
        self.runner.stop()

    def _abort(self, results: JobResults) -> None:
        if self.runner.job is not None:
            self.runner.abort()
        results.end(self._clock(), ok=results.last_ok)
        self._end_rewriting()
