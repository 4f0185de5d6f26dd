"""The append-only log of a server: its life, what it must have before replies leave, and its faults.

begin_load(), end_load()  at the start: which log the dataset comes from, and which one goes on
prepare_on(), turn_off()  CONFIG SET appendonly
write()                   before replies leave: one write for all of this turn, but for `write_early`, and with
                          `appendfsync always` one fsync
cron()                    ten times a second: retry what failed, sync what an idle server has left
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from ..persistence.aof import AppendOnlyLog
from ..persistence.errors import LogError, LogFailure, explain
from ..persistence.files import DiskFiles, Files
from ..persistence.folder import LogSettings
from ..persistence.lock import FolderLock
from .config import ChangeRefused, Undo
from .log_life import LogLife, LogState

if TYPE_CHECKING:
    from .app import Server

logger = logging.getLogger(__name__)


class LogKeeper:
    """Owns the log, its life, and the lock of the data folder, of one server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        config = server.config
        self.life = LogLife()
        self.log: AppendOnlyLog | None = None
        """The log that takes effects; None while they are not kept."""
        self._marks = (0, 0)
        """`mark` and `synced_mark` of the last log that took effects."""
        self.lock = FolderLock(os.fsdecode(config.dir) or ".")
        self.files: Files = DiskFiles()
        """Where the log and dump.rdb go."""
        self.executor: Executor | None = None
        """Where logs sync in the background; None: in threads of their own."""
        config.on_change("appendfsync", self._change_policy)
        config.before_change("appendonly", lambda is_wanted: self.prepare_on() if is_wanted else None)
        config.on_change("appendonly", lambda is_wanted: None if is_wanted else self.turn_off())
        config.before_change("save", self._prepare_save_points)
        config.before_change("dir", self._change_folder)

    @property
    def state(self) -> LogState:
        """Where the log is in its life."""
        return self.life.state

    # -- which log -------------------------------------------------------------------------------

    def new_log(self) -> AppendOnlyLog:
        """A log as the directives say, not yet open."""
        config = self._server.config
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
            clock=self._server.clock,
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
        return self.new_log() if self._server.config.appendonly else None

    def end_load(self, loaded: AppendOnlyLog | None) -> None:
        """The dataset is loaded: go on with the log that it came from, or start one, or keep none.

        CONFIG SET appendonly may have changed meanwhile what is wanted. Raises LogError, OSError.
        """
        config = self._server.config
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
        server = self._server
        if self.log is not None:
            self._marks = self.log.mark, self.log.synced_mark
        self.log = server.dispatcher.log = log
        server.context.logging = log is not None
        if log is None:
            server.dispatcher.log_has_news = False
        else:
            log.holds_fsync = self._holds_fsync
            log.on_synced = self._note_sync
            log.on_mark = self._serve_synced_soon
        self._serve_synced_soon()  # without a log nobody can wait for one
        self._note_error()

    def prepare_on(self) -> Undo | None:
        """CONFIG SET appendonly yes: start the log, whose base is a snapshot of the dataset. Raises ChangeRefused.

        While the dataset is loaded nothing starts: `end_load` decides. Behind another job or inside EXEC, where the
        snapshot would hold what the transaction is about to log, the cron starts it.
        """
        self.lock_folder()
        if self.state is LogState.LOADING:
            return None
        snapshots = self._server.snapshots
        if snapshots.runner.job is not None or not self._server.context.may_block:
            self.life.become(LogState.WANTED)
        else:
            try:
                snapshots.start_log()
            except (LogError, OSError) as error:
                raise ChangeRefused(explain(error)) from error
        return self.turn_off

    def turn_off(self) -> None:
        """CONFIG SET appendonly no: everything goes to stable storage, and the files stay as they are.

        Another job, a snapshot, goes on. A server that promised stable storage and cannot keep it ends.
        """
        log = self.log
        if self.state in (LogState.LOADING, LogState.ENDED):
            return
        if self.state is not LogState.WANTED:
            self._server.snapshots.give_up_rewrite()
        try:
            if log is not None and log.is_starting:
                log.abandon_start()
            elif log is not None:
                log.close()
        except LogFailure as failure:
            self._server.die(failure)
        else:
            self.use(None)
            self.life.become(LogState.OFF)

    def lock_folder(self) -> None:
        """Keep other servers out of the data folder. Raises ChangeRefused."""
        try:
            self.lock.acquire()
        except LogError as error:
            raise ChangeRefused(str(error)) from error

    def _change_policy(self, policy: bytes) -> None:
        if self.log is not None:
            self.log.policy = policy

    def _prepare_save_points(self, value: bytes) -> None:
        if value and self._server.is_serving:
            self.lock_folder()

    def _change_folder(self, folder: bytes) -> Undo:
        """CONFIG SET dir: later snapshots, and logs turned on later, go there. Raises ChangeRefused, OSError."""
        if self.state is LogState.LOADING:
            raise ChangeRefused("the dataset is being loaded: wait until that has ended")
        if self.state is not LogState.OFF and self._server.config.appendonly:
            raise ChangeRefused("the append-only file stays where it is: turn it off first (appendonly no)")
        before = os.getcwdb()
        os.chdir(folder)
        lock = FolderLock(os.getcwd())
        try:
            if self.lock.is_held and lock.path != self.lock.path:
                lock.acquire()
        except LogError as error:
            os.chdir(before)
            raise ChangeRefused(str(error)) from error
        if lock.path != self.lock.path:
            self.lock.release()
            self.lock = lock
        self._server.config.dir = os.getcwdb()
        return lambda: self._go_back(before)

    def _go_back(self, folder: bytes) -> None:
        """Undo a change of `dir`: the lock is taken again if it is still to be had."""
        os.chdir(folder)
        was_held = self.lock.is_held
        self.lock.release()
        self.lock = FolderLock(os.getcwd())
        if was_held:
            with contextlib.suppress(LogError):
                self.lock.acquire()

    # -- what it has -----------------------------------------------------------------------------

    def write(self) -> bool:
        """One write for everything gathered; also an fsync where replies promise one. False if the server must end."""
        log = self.log
        assert log is not None
        self._server.dispatcher.log_has_news = False
        try:
            self._timed("aof-write", log.flush)
            if log.needs_fsync_before_reply:
                self._timed("aof-fsync-always", log.fsync)
        except LogFailure as failure:
            self._server.die(failure)
            return False
        self._note_error()
        return True

    def write_early(self) -> bool:
        """The same in the middle of a turn; False, with nothing done, if replies wait for an fsync: a turn has one."""
        assert self.log is not None
        return not self.log.needs_fsync_before_reply and self.write()

    def _timed(self, event: str, work: Callable[[], bool]) -> None:
        server = self._server
        server.context.latency.run(event, work, server.clock)

    def sync(self) -> bool:
        """Bring everything to stable storage, whatever the policy; False if that fails.

        Raises LogFailure if replies promise stable storage.
        """
        return self.log is None or (self.log.flush() and self.log.fsync())

    def close(self) -> bool:
        """Bring everything to stable storage and let go of it, for good; False if that fails."""
        try:
            return self.log is None or self.log.close()
        except LogFailure as failure:
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
            self._server.die(failure)
        self._note_error()

    def _holds_fsync(self) -> bool:
        """Whether the directive holds the fsyncs of `everysec` back, since a rewrite or a snapshot is written."""
        server = self._server
        is_writing = server.snapshots.rewrite.is_running or server.snapshots.save.is_running
        return bool(server.config.no_appendfsync_on_rewrite) and is_writing

    def _note_sync(self) -> None:
        """A background fsync has ended; told by its thread."""
        self._server.call_soon_threadsafe(self.collect_sync)

    def collect_sync(self) -> None:
        """Learn how the background fsync went, and begin the rewrite that waited for it."""
        server = self._server
        if self.log is None:
            return
        if self.state is LogState.AWAITING_SYNC:
            # Before the log can begin another fsync.
            server.snapshots.cron(server.clock())
        self.cron(server.clock())

    def _serve_synced_soon(self) -> None:
        """More is on stable storage than before, or there is no log any more: that may end a WAITAOF."""
        if self._server.dispatcher.waiters.by_client:
            self._server.call_soon_threadsafe(self._serve_synced)

    def _serve_synced(self) -> None:
        self._server.dispatcher.serving.serve_synced()
        self._server.turns.finish()

    def _note_error(self) -> None:
        """While the log cannot be written, writes are refused with MISCONF."""
        dispatcher = self._server.dispatcher
        error = None if self.log is None else self.log.write_error
        if error != dispatcher.admission.write_error:
            dispatcher.admission.write_error = error
            dispatcher.refresh_clients()
