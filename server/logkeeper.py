"""The append-only log beside the clients: which one is in force, what it must have before replies leave, its faults.

write()   before replies leave: one write for all of this turn, but for `write_early`, and with `appendfsync always`
          one fsync
turn()    CONFIG SET appendonly
cron()    ten times a second: retry what failed, sync what an idle server has left
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from ..persistence.aof import AppendOnlyLog
from ..persistence.errors import LogError, LogFailure
from ..persistence.files import DiskFiles, Files
from ..persistence.folder import LogSettings
from ..persistence.lock import FolderLock
from .config import ChangeRefused

if TYPE_CHECKING:
    from .app import Server

logger = logging.getLogger(__name__)


class LogKeeper:
    """Owns the log, and the lock of the data folder, of one server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        config = server.config
        self.log: AppendOnlyLog | None = None
        self.lock = FolderLock(os.fsdecode(config.dir) or ".")
        self.files: Files = DiskFiles()
        """Where the log and dump.rdb go."""
        self.executor: Executor | None = None
        """Where logs sync in the background; None: in threads of their own."""
        config.on_change("appendfsync", self._change_policy)
        config.on_change("appendonly", self.turn)
        config.on_change("save", self._change_save_points)
        config.on_change("dir", self._change_folder)

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
        log = AppendOnlyLog(settings, config.appendfsync, self.files, clock=self._server.clock, executor=self.executor)
        log.has_timestamps = config.aof_timestamp_enabled
        log.has_block_checksums = config.aof_block_checksums
        log.has_rdb_base = config.aof_use_rdb_preamble
        log.keeps_history = config.aof_disable_auto_gc
        return log

    def open(self) -> None:
        """Go on with the log that was just loaded. Raises LogError, OSError."""
        log = self.new_log()
        log.open()
        self.use(log)

    def use(self, log: AppendOnlyLog | None) -> None:
        """From here on effects go to this log; None: nowhere."""
        server = self._server
        self.log = server.dispatcher.log = log
        server.context.logging = log is not None
        if log is None:
            server.dispatcher.log_has_news = False
        else:
            log.on_synced = self._note_sync
        self._note_error()

    def turn(self, is_wanted: bool) -> None:
        """CONFIG SET appendonly: begin with a snapshot of the dataset, or end after everything is on stable storage.

        Raises ChangeRefused.
        """
        snapshots = self._server.snapshots
        if is_wanted and self.log is None:
            self.lock_folder()
            snapshots.want_log()
        elif not is_wanted:
            snapshots.is_log_wanted = False
            if self.log is not None:
                self._end(self.log)

    def _end(self, log: AppendOnlyLog) -> None:
        self._server.snapshots.stop()
        if log.is_starting:
            log.abandon_start()
        else:
            log.close()
        self.use(None)

    def lock_folder(self) -> None:
        """Keep other servers out of the data folder. Raises ChangeRefused."""
        try:
            self.lock.acquire()
        except LogError as error:
            raise ChangeRefused(str(error)) from error

    def _change_policy(self, policy: bytes) -> None:
        if self.log is not None:
            self.log.policy = policy

    def _change_save_points(self, value: bytes) -> None:
        if value and self._server.is_serving:
            self.lock_folder()
        self._server.snapshots.note_failing()

    def _change_folder(self, folder: bytes) -> None:
        """CONFIG SET dir: later snapshots, and logs turned on later, go there. Raises ChangeRefused, OSError."""
        if self.log is not None or self._server.snapshots.is_log_wanted:
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
        """Bring everything to stable storage, whatever the policy; False if that fails."""
        try:
            return self.log is None or (self.log.flush() and self.log.fsync())
        except LogFailure as failure:
            # A later fsync may succeed without having brought anything to the disk.
            self._server.die(failure)
            return False

    def close(self) -> bool:
        """Bring everything to stable storage and let go of it; False if that fails."""
        try:
            return self.log is None or self.log.close()
        except LogFailure as failure:
            logger.error("%s", failure)
            return False
        finally:
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

    def _note_sync(self) -> None:
        """A background fsync has ended; told by its thread."""
        self._server.call_soon_threadsafe(self.collect_sync)

    def collect_sync(self) -> None:
        """Learn how the background fsync went, answer WAITAOF, and begin the rewrite that waited for it."""
        server = self._server
        if self.log is None:
            return
        if server.snapshots.awaits_sync:
            # Before the log can begin another fsync.
            server.snapshots.cron(server.clock())
        self.cron(server.clock())
        if server.dispatcher.waiters.by_client:
            server.dispatcher.serving.serve_synced()
        server.turns.finish()

    def _note_error(self) -> None:
        """While the log cannot be written, writes are refused with MISCONF."""
        dispatcher = self._server.dispatcher
        error = None if self.log is None else self.log.write_error
        if error != dispatcher.admission.write_error:
            dispatcher.admission.write_error = error
            dispatcher.refresh_clients()
