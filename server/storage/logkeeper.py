"""The append-only log of a server: its life, what must be in it before replies are sent, and its faults.

begin_load(), end_load()  at the start: the log to load the dataset from, and the log to continue with
use()                     replaces the log that takes effects, or turns logging off
write()                   before replies are sent: one write per turn, besides `write_early`, and with
                          `appendfsync always` one fsync; the records of a turn end with their place in the replication
                          stream, if there is one
cron()                    `hz` times a second: retries what failed, syncs what an idle server has written
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
from ...persistence.placing import StreamPlace
from ..configuration.config import ChangeRefused, Config
from .log_life import LogLife, LogState

logger = logging.getLogger(__name__)

ALWAYS: Final = b"always"

# Directives that an open log obeys at once, besides `appendfsync`.
LIVE_DIRECTIVES: Final = (
    "aof-timestamp-enabled",
    "aof-use-rdb-preamble",
    "aof-disable-auto-gc",
    "aof-load-truncated",
    "aof-load-corrupt-tail-max-size",
)


class EffectSource(Protocol):
    """The source of effects: `requests.units.Units`."""

    # Whether effects were appended since they were last written out; replies wait for that.
    has_unflushed_records: bool

    def log_to(self, log: Any) -> None:
        """Append effects to this log from now on; to none if it is None."""
        ...

    def log_singles(self) -> None:
        """Append the effects gathered so far to the log."""
        ...


class LogKeeper:
    """Owns the log of one server, its life, and the lock of the data folder.

    `note_write_error` sets why the log cannot be written, so that writes are refused; None when it can. `die` ends
    a server that cannot keep what it promised. `has_died` returns whether it was called. `wake` calls a function on the
    loop's thread, while clients are served. `on_stable` is called when more of the log is on stable storage than
    before; it serves WAITAOF.
    """

    def __init__(
        self,
        config: Config,
        context: Context,
        source: EffectSource,
        clock: Callable[[], int],
        *,
        note_write_error: Callable[[bytes | None], None],
        die: Callable[[LogFailure], None],
        has_died: Callable[[], bool],
        wake: Callable[[Callable[[], None]], None],
        on_stable: Callable[[], None],
    ) -> None:
        self._config = config
        self._context = context
        self._source = source
        self._clock = clock
        self._note_write_error = note_write_error
        self.die = die
        self._has_died = has_died
        self._wake = wake
        self._on_stable = on_stable
        # Whether a snapshot or a rewrite is being written; set by Snapshots.
        self.is_snapshot_running: Callable[[], bool] = lambda: False
        # Called when the fsync has ended for which a rewrite waits; set by Snapshots.
        self.on_sync_awaited: Callable[[], None] = lambda: None
        # Returns the place of the dataset in the replication stream, None without one; set by the server.
        self.find_place: Callable[[], StreamPlace | None] = lambda: None
        self.life = LogLife()
        # The log that takes effects; None while they are not logged.
        self.log: AppendOnlyLog | None = None
        # `mark` and `synced_mark` of the last log that took effects.
        self._marks = (0, 0)
        self.lock = FolderLock(os.fsdecode(config.dir) or ".")
        # The file system of the log and dump.rdb.
        self.files: Files = DiskFiles()
        # The executor of background fsyncs; None for a thread per log.
        self.executor: Executor | None = None
        config.before_change("appendfsync", self._prepare_policy)
        config.on_change("appendfsync", self._change_policy)
        for name in LIVE_DIRECTIVES:
            config.on_change(name, lambda value: self._configure_log())

    @property
    def state(self) -> LogState:
        """The present state of the log."""
        return self.life.state

    # -- which log -------------------------------------------------------------------------------

    def _settings(self) -> LogSettings:
        config = self._config
        return LogSettings(
            folder=os.path.join(os.fsdecode(config.dir), os.fsdecode(config.appenddirname)),
            file_name=os.fsdecode(config.appendfilename),
            load_truncated=config.aof_load_truncated,
            corrupt_tail_size_max=config.aof_load_corrupt_tail_max_size,
            has_timestamps=config.aof_timestamp_enabled,
            has_block_checksums=config.aof_block_checksums,
            has_rdb_base=config.aof_use_rdb_preamble,
            keeps_history=config.aof_disable_auto_gc,
        )

    def _configure_log(self) -> None:
        """CONFIG SET of a directive that an open log obeys at once."""
        if self.log is not None:
            self.log.configure(self._settings())

    def new_log(self) -> AppendOnlyLog:
        """Returns a new log with the options of the directives, not yet open."""
        mark, synced_mark = self._marks
        return AppendOnlyLog(
            self._settings(),
            self._config.appendfsync,
            self.files,
            clock=self._clock,
            executor=self.executor,
            mark=mark,
            synced_mark=synced_mark,
        )

    def begin_load(self) -> AppendOnlyLog | None:
        """Prepare to load the dataset. Returns the log to load it from; None for dump.rdb."""
        self.life.become(LogState.LOADING)
        return self.new_log() if self._config.appendonly else None

    def end_load(self, loaded: AppendOnlyLog | None) -> None:
        """After the load, continue with the log that was loaded, start a new one, or keep none.

        CONFIG SET appendonly may have changed during the load. Raises LogError, OSError.
        """
        config = self._config
        if not config.appendonly:
            self.life.become(LogState.OFF)
        elif loaded is None:
            self.life.become(LogState.WANTED)
        else:
            loaded.policy = config.appendfsync
            loaded.configure(self._settings())
            loaded.open()
            self.use(loaded)
            self.life.become(LogState.ON)

    def use(self, log: AppendOnlyLog | None) -> None:
        """Send effects to this log from now on; to no log if it is None."""
        if self.log is not None:
            self._marks = self.log.mark, self.log.synced_mark
        self.log = log
        self._source.log_to(log)
        if log is not None:
            log.holds_fsync = self._holds_fsync
            log.on_synced = self._note_sync
            log.on_mark = self._on_stable
        self._on_stable()  # without a log no client can wait for it
        self._note_error()

    def _prepare_policy(self, policy: bytes) -> None:
        """CONFIG SET appendfsync always: sync everything to stable storage, since the first failure under `always` ends
        the server. Raises ChangeRefused if the disk refuses it.
        """
        if policy == ALWAYS:
            self.settle()

    def _change_policy(self, policy: bytes) -> None:
        """CONFIG SET appendfsync. Records written under `always` are synced first, since their replies promise that."""
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
        """Write everything gathered; also fsync if replies promise it. Returns False if the server must end."""
        log = self.log
        if log is not None and log.mark != log.placed_mark:
            self.append_place()
        self._source.has_unflushed_records = False
        if log is None:
            return True
        try:
            self._timed("aof-write", log.flush)
            if log.needs_fsync_before_reply:
                self._timed("aof-fsync-always", log.fsync)
        except LogFailure as failure:
            self.die(failure)
            return False
        self._note_error()
        return True

    def append_place(self) -> None:
        """Append the place of the dataset in the replication stream, if it is another one or records were appended.

        The effects of a command that is running are neither in the log nor counted by the offset. Those of a replica
        are not counted before all of a transaction was run: then there is no place.
        """
        log = self.log
        if log is None or self._context.effects:
            return
        place = self.find_place()
        if place is not None and (place != log.place or log.mark != log.placed_mark):
            log.append_place(place)

    def write_early(self) -> bool:
        """Write in the middle of a turn. Returns False, with nothing done, if replies wait for an fsync: a turn has
        only one.
        """
        return (self.log is None or not self.log.needs_fsync_before_reply) and self.write()

    def _timed(self, event: str, work: Callable[[], bool]) -> None:
        self._context.latency.run(event, work, self._clock)

    @property
    def write_error(self) -> str:
        """Why the log cannot be written; empty while it can."""
        error = None if self.log is None else self.log.write_error
        return "" if error is None else error.decode()

    def sync(self) -> bool:
        """Sync everything to stable storage, whatever the policy. Returns False if that fails.

        Raises LogFailure if replies promise stable storage.
        """
        return self.log is None or (self.log.flush() and self.log.fsync())

    def settle(self) -> None:
        """Sync everything to stable storage before CONFIG SET changes the log. Raises ChangeRefused if the disk refuses
        it; then a server that promised stable storage ends.
        """
        log = self.log
        if log is None:
            return
        try:
            is_settled = log.settle()
        except LogFailure as failure:
            self.die(failure)
            raise ChangeRefused(str(failure)) from failure
        self._note_error()
        if not is_settled:
            raise ChangeRefused(
                f"the disk refuses answered writes ({log.last_error.decode()}), which would be lost: free space on the "
                "disk or repair it, and change the directive when writes are accepted again"
            )

    def close(self) -> bool:
        """Sync everything to stable storage and close the log for good. Returns False if that fails."""
        try:
            self.append_place()
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
        """Retry a failed write, sync what an idle server has written, and collect the result of a background fsync."""
        if self.log is None:
            return
        if self.log.last_write_ok:
            # Messages and requests for confirmation move the place without a record.
            self.append_place()
        try:
            self.log.cron(now_ms)
        except LogFailure as failure:
            self.die(failure)
        self._note_error()

    def _holds_fsync(self) -> bool:
        """Whether the directive delays the fsyncs of `everysec` because a rewrite or a snapshot is being written."""
        return bool(self._config.no_appendfsync_on_rewrite) and self.is_snapshot_running()

    def _note_sync(self) -> None:
        """Called by the thread of a background fsync at its end."""
        self._wake(self.collect_sync)

    def collect_sync(self) -> None:
        """Collect the result of the background fsync, and begin the rewrite that waited for it."""
        if self.log is None:
            return
        if self.state is LogState.AWAITING_SYNC:
            # Before the log can begin another fsync.
            self.on_sync_awaited()
        self.cron(self._clock())

    def _note_error(self) -> None:
        """Refuse writes with MISCONF while the log cannot be written."""
        self._note_write_error(None if self.log is None else self.log.write_error)

    def gather(self) -> None:
        """Append the effects that the dispatcher has gathered, before an image of the dataset is taken."""
        self._source.log_singles()
