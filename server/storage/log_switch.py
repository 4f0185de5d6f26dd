"""CONFIG SET appendonly, save and dir: turn the log on and off while clients are served, and move the data folder."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Final

from ...commands.execution.context import Context
from ...persistence.aof import AppendOnlyLog
from ...persistence.errors import LogError, LogFailure, explain
from ...persistence.lock import FolderLock
from ..configuration.config import ChangeRefused, Config, Undo
from .log_life import LogState
from .logkeeper import LogKeeper
from .snapshots import Snapshots

logger = logging.getLogger(__name__)

ANOTHER_JOB: Final = "but there is already another background operation"


class LogSwitch:
    """Applies these directives when CONFIG SET changes them."""

    def __init__(
        self, config: Config, context: Context, keeper: LogKeeper, snapshots: Snapshots, is_serving: Callable[[], bool]
    ) -> None:
        self._config = config
        self._context = context
        self._keeper = keeper
        self._snapshots = snapshots
        # Returns whether clients are served; the start locks the folder itself.
        self._is_serving = is_serving
        # Last, because the log starts in the folder that `dir` names, and only when nothing can be refused any more.
        config.before_change(
            "appendonly", lambda is_wanted: self.prepare_on() if is_wanted else self._prepare_off(), is_last=True
        )
        config.on_change("appendonly", lambda is_wanted: None if is_wanted else self.turn_off())
        config.before_change("save", self._prepare_save_points)
        config.before_change("dir", self._change_folder, is_reread=True)
        config.on_change("dir", lambda folder: self._release_former_folders())
        # The lock of the data folder, and those of earlier data folders to which a job may still write.
        self._locks = [keeper.lock]
        # Called with the log that was turned off, None if it was only wanted.
        self.on_off: Callable[[AppendOnlyLog | None], None] = lambda log: None
        snapshots.runner.on_end = self._release_former_folders

    def prepare_on(self) -> Undo:
        """CONFIG SET appendonly yes: start the log, whose base is a snapshot of the dataset. Raises ChangeRefused.

        Nothing starts while the dataset is loaded; `LogKeeper.end_load` decides then. The cron starts the log later if
        another job is running, or inside EXEC, where the snapshot would have what the transaction is about to log.
        """
        unlock = self._lock_folder()
        life = self._keeper.life
        if self._keeper.log is not None:
            return unlock  # the log that is kept for a backup continues
        try:
            self._keeper.new_log().check_start()
            if life.state is LogState.LOADING:
                return unlock
            if self._snapshots.runner.job is not None or not self._context.may_block:
                life.become(LogState.WANTED)
                reason = "during a transaction" if self._snapshots.runner.job is None else ANOTHER_JOB
                logger.info("AOF was enabled %s. An AOF background was scheduled to start when possible.", reason)
            else:
                self._snapshots.start_log()
        except (LogError, OSError) as error:
            unlock()
            raise ChangeRefused(explain(error)) from error

        def go_back() -> None:
            self.turn_off()
            unlock()

        return go_back

    def _prepare_off(self) -> None:
        """CONFIG SET appendonly no: sync everything to stable storage. Raises ChangeRefused if that fails."""
        log = self._keeper.log
        if log is not None and not log.is_starting:
            self._keeper.settle()

    def turn_off(self) -> None:
        """CONFIG SET appendonly no: log no more effects, and keep the files as they are.

        Another job, such as a snapshot, continues.
        """
        keeper = self._keeper
        log, state = keeper.log, keeper.state
        if state in (LogState.LOADING, LogState.ENDED):
            return
        if state is not LogState.WANTED:
            self._snapshots.abort_rewrite()
        try:
            if log is not None and log.is_starting:
                log.abandon_start()
            elif log is not None:
                log.close()
        except LogFailure as failure:
            keeper.die(failure)
        else:
            keeper.use(None)
            keeper.life.become(LogState.OFF)
            self._release_former_folders()
            self.on_off(log)

    def restart(self) -> None:
        """Begin a log whose base is the present dataset, which has nothing in common with what the log has. The old
        files stay until the base is complete.
        """
        if self._config.appendonly and self._keeper.state is not LogState.LOADING:
            self.turn_off()
            self._keeper.life.become(LogState.WANTED)
            self._snapshots.start_wanted()
        elif self._keeper.log is not None:
            self.turn_off()  # it is kept for a backup only

    def _lock_folder(self) -> Undo:
        """Lock the data folder against other servers. Raises ChangeRefused, OSError."""
        lock = self._keeper.lock
        was_held = lock.is_held
        try:
            lock.acquire()
        except LogError as error:
            raise ChangeRefused(str(error)) from error
        return lambda: None if was_held else lock.release()

    def _prepare_save_points(self, value: bytes) -> Undo | None:
        return self._lock_folder() if value and self._is_serving() else None

    def _change_folder(self, folder: bytes) -> Undo:
        """CONFIG SET dir: later snapshots and logs use the new folder. Raises ChangeRefused, OSError.

        An equal value may mean another folder, if the present one was moved. The present folder is never refused.
        """
        keeper = self._keeper
        before, lock_before = _present_folder(), keeper.lock
        os.chdir(folder)
        path = os.getcwd()
        keeper.lock = lock = self._lock_of(path)
        was_held = lock.is_held

        def go_back() -> None:
            if before is not None:
                os.chdir(before)
            keeper.lock = lock_before
            if not was_held:
                lock.release()

        try:
            if os.getcwdb() != before:
                self._require_movable()
            if lock_before.is_held:
                lock.acquire()
        except (ChangeRefused, LogError) as error:
            go_back()
            raise ChangeRefused(str(error)) from error
        self._config.dir = os.getcwdb()
        return go_back

    def _require_movable(self) -> None:
        """Raises ChangeRefused while the files of the log bind the server to its folder."""
        state = self._keeper.state
        if state is LogState.LOADING:
            raise ChangeRefused("the dataset is being loaded: wait until it is loaded")
        if state is not LogState.OFF and self._snapshots.holds_rewrites():
            raise ChangeRefused("a backup is in progress: SEAL or ABORT it first")
        if state is not LogState.OFF and self._config.appendonly:
            raise ChangeRefused("the append-only file cannot be moved: turn it off first (appendonly no)")

    def _lock_of(self, path: str) -> FolderLock:
        """The lock of the folder at `path`, which is not always the folder that was there before."""
        for lock in self._locks:
            if lock.is_of(path):
                return lock
        lock = FolderLock(path)
        self._locks.append(lock)
        return lock

    def _release_former_folders(self) -> None:
        """Unlock all folders but the present one, once nothing is written to one of them: no job writes there, and no
        log that was starting has files to remove."""
        keeper = self._keeper
        if self._snapshots.runner.job is None and not (keeper.log is not None and keeper.log.is_starting):
            for lock in self._locks:
                if lock is not keeper.lock:
                    lock.release()
            self._locks = [keeper.lock]


def _present_folder() -> bytes | None:
    """The working directory; None if it was deleted."""
    try:
        return os.getcwdb()
    except FileNotFoundError:
        return None
