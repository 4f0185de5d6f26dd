"""The append-only log of a server: its life, what it must have before replies leave, and its faults.

begin_load(), end_load()  at the start: which log the dataset comes from, and which one goes on
use()                     from here on effects go to another log, or to none
write()                   before replies leave: one write for all of this turn, but for `write_early`, and with
                          `appendfsync always` one fsync
cron()                    ten times a second: retry what failed, sync what an idle server has left
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final, Protocol

from ...commands.execution.context import Context
from ...persistence.aof import AppendOnlyLog
from ...persistence.errors import LogFailure
from ...persistence.files import DiskFiles, Files
from ...persistence.folder import LogSettings
from ...persistence.lock import FolderLock
from ..configuration.config import Config
from .log_life import LogLife, LogState

logger = logging.getLogger(__name__)

ALWAYS: Final = b"always"


class EffectSource(Protocol):
    """Where effects come from: `requests.dispatch.Dispatcher`."""

    # The log that takes effects, None while they are not kept.
    log: Any
    # The log took records since it was last flushed; replies wait for that flush.
    log_has_news: bool

    def log_single_units(self) -> None:
        """Hand over the effects gathered so far."""
        ...

    def note_write_error(self, error: bytes | None) -> None:
        """The log cannot be written, and why: writes are refused; None once it can."""
        ...


class LogKeeper:
    """Owns the log, its life, and the lock of the data folder, of one server.

    `die` ends a server that cannot keep what it promised; `has_died` returns whether it was called. `wake` calls a
    function on the loop's thread, while clients are served. `on_stable` is called when more of the log is on stable
    storage than before: it serves WAITAOF.
    """

    def __init__(
        self,
        config: Config,
        context: Context,
        source: EffectSource,
        clock: Callable[[], int],
        *,
        die: Callable[[LogFailure], None],
        has_died: Callable[[], bool],
        wake: Callable[[Callable[[], None]], None],
        on_stable: Callable[[], None],
    ) -> None:
        self._config = config
        self._context = context
        self._source = source
        self._clock = clock
        self.die = die
        self._has_died = has_died
        self._wake = wake
        self._on_stable = on_stable
        # Whether a snapshot or a rewrite is being written; set by Snapshots.
        self.is_snapshot_running: Callable[[], bool] = lambda: False
        # Called when the fsync has ended that a rewrite waits for; set by Snapshots.
        self.on_sync_awaited: Callable[[], None] = lambda: None
        self.life = LogLife()
        # The log that takes effects; None while they are not kept.
        self.log: AppendOnlyLog | None = None
        # `mark` and `synced_mark` of the last log that took effects.
        self._marks = (0, 0)
        self.lock = FolderLock(os.fsdecode(config.dir) or ".")
        # Where the log and dump.rdb go.
        self.files: Files = DiskFiles()
        # Where logs sync in the background; None: in threads of their own.
        self.executor: Executor | None = None
        config.on_change("appendfsync", self._change_policy)

    @property
    def state(self) -> LogState:
        """Where the log is in its life."""
        return self.life.state

    # -- which log -------------------------------------------------------------------------------

    def new_log(self) -> AppendOnlyLog:
        """A log as the directives say, not yet open."""
        config = self._config
        settings = LogSettings(
            folder=os.path.join(os.fsdecode(config.dir), os.fsdecode(config.appenddirname)),
            file_name=os.fsdecode(config.appendfilename),
            load_truncated=config.aof_load_truncated,
            corrupt_tail_size_max=config.aof_load_corrupt_tail_max_size,
        )
        mark, synced_mark = self._marks
        log = AppendOnlyLog(
            settings,
            config.appendfsync,
            self.files,
            clock=self._clock,
            executor=self.executor,
            mark=mark,
            synced_mark=synced_mark,
        )
        log.has_timestamps = config.aof_timestamp_enabled
        log.has_block_checksums = config.aof_block_checksums
        log.has_rdb_base = config.aof_use_rdb_preamble
        log.keeps_history = config.aof_disable_auto_gc
        return log

    def begin_load(self) -> AppendOnlyLog | None:
        """The dataset is about to be loaded: the log to load it from, None for dump.rdb."""
        self.life.become(LogState.LOADING)
        return self.new_log() if self._config.appendonly else None

    def end_load(self, loaded: AppendOnlyLog | None) -> None:
        """The dataset is loaded: go on with the log that it came from, or start one, or keep none.

        CONFIG SET appendonly may have changed meanwhile what is wanted. Raises LogError, OSError.
        """
        config = self._config
        if not config.appendonly:
            self.life.become(LogState.OFF)
        elif loaded is None:
            self.life.become(LogState.WANTED)
        else:
            loaded.policy = config.appendfsync
            loaded.open()
            self.use(loaded)
            self.life.become(LogState.ON)

    def use(self, log: AppendOnlyLog | None) -> None:
        """From here on effects go to this log; None: nowhere."""
        if self.log is not None:
            self._marks = self.log.mark, self.log.synced_mark
        self.log = self._source.log = log
        self._context.logging = log is not None
        if log is None:
            self._source.log_has_news = False
        else:
            log.holds_fsync = self._holds_fsync
            log.on_synced = self._note_sync
            log.on_mark = self._on_stable
        self._on_stable()  # without a log no client can wait for it
        self._note_error()

    def _change_policy(self, policy: bytes) -> None:
        """CONFIG SET appendfsync. What was written under `always` is synced first: its replies promise that."""
        log = self.log
        if log is None:
            return
        try:
            if log.policy == ALWAYS:
                self.sync()
        except LogFailure as failure:
            self.die(failure)
        else:
            log.policy = policy

    # -- what it has -----------------------------------------------------------------------------

    def write(self) -> bool:
        """One write for everything gathered; also an fsync where replies promise one. False if the server must end."""
        log = self.log
        assert log is not None
        self._source.log_has_news = False
        try:
            self._timed("aof-write", log.flush)
            if log.needs_fsync_before_reply:
                self._timed("aof-fsync-always", log.fsync)
        except LogFailure as failure:
            self.die(failure)
            return False
        self._note_error()
        return True

    def write_early(self) -> bool:
        """The same in the middle of a turn; False, with nothing done, if replies wait for an fsync: a turn has one."""
        assert self.log is not None
        return not self.log.needs_fsync_before_reply and self.write()

    def _timed(self, event: str, work: Callable[[], bool]) -> None:
        self._context.latency.run(event, work, self._clock)

    def sync(self) -> bool:
        """Bring everything to stable storage, whatever the policy; False if that fails.

        Raises LogFailure if replies promise stable storage.
        """
        return self.log is None or (self.log.flush() and self.log.fsync())

    def settle(self) -> bool:
        """Bring everything to stable storage, as the log is about to be closed; False if the disk refuses it.

        Raises LogFailure if replies promise stable storage.
        """
        is_settled = self.log is None or self.log.settle()
        self._note_error()
        return is_settled

    def close(self) -> bool:
        """Bring everything to stable storage and let go of it, for good; False if that fails."""
        try:
            return self.log is None or self.log.close()
        except LogFailure as failure:
            if not self._has_died():
                logger.error("%s", failure)
            return False
        finally:
            if self.state is not LogState.ENDED:
                self.life.become(LogState.ENDED)
            self.lock.release()

    def cron(self, now_ms: int) -> None:
        """Retry a failed write, sync what an idle server has left, learn how a background fsync went."""
        if self.log is None:
            return
        try:
            self.log.cron(now_ms)
        except LogFailure as failure:
            self.die(failure)
        self._note_error()

    def _holds_fsync(self) -> bool:
        """Whether the directive holds the fsyncs of `everysec` back, since a rewrite or a snapshot is written."""
        return bool(self._config.no_appendfsync_on_rewrite) and self.is_snapshot_running()

    def _note_sync(self) -> None:
        """A background fsync has ended; told by its thread."""
        self._wake(self.collect_sync)

    def collect_sync(self) -> None:
        """Learn how the background fsync went, and begin the rewrite that waited for it."""
        if self.log is None:
            return
        if self.state is LogState.AWAITING_SYNC:
            # Before the log can begin another fsync.
            self.on_sync_awaited()
        self.cron(self._clock())

    def _note_error(self) -> None:
        """While the log cannot be written, writes are refused with MISCONF."""
        self._source.note_write_error(None if self.log is None else self.log.write_error)

    def gather(self) -> None:
        """Take over the effects that the dispatcher has gathered: an image of the dataset is about to be taken."""
        self._source.log_single_units()
