"""BACKUP: a copy of the log as it is at BACKUP SEAL, made while clients are served.

The base of a backup is that of a rewrite, or of a log that is kept for the backup only (`appendonly no`). Until the
backup is sealed, rewrites wait, so that the increments which follow its base stay. The states are those of
`persistence/backup.py`.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from typing import Final

from ...persistence.aof import AppendOnlyLog
from ...persistence.backup import Backup, BackupState
from ...persistence.errors import LogError, LogFailure, explain
from ...store.errors import GenericError
from ..configuration.config import Config
from .log_life import LogState
from .logkeeper import LogKeeper
from .paths import backup_folder
from .snapshots import Snapshots

logger = logging.getLogger(__name__)

SEALED: Final = b"A sealed backup exists, CLEANUP it first"
RUNNING: Final = b"A backup is already in progress, ABORT it first"
NOT_READY: Final = b"No backup ready to seal (must be in the incrementing state)"
NOT_RUNNING: Final = b"No backup in progress"
NOT_CLEANED: Final = b"Backup is in progress"
NOT_SWITCHED: Final = b"Can't close the INCR AOF for the backup"
NOT_PINNED: Final = b"Can't pin the INCR AOF for the backup"
NOT_LISTED: Final = b"Can't write the backup manifest"

# States in which the log is writing the base of the backup, or of a log that was turned on.
WRITING_BASE: Final = frozenset({LogState.STARTING, LogState.AWAITING_SYNC, LogState.REWRITING})


class Backups:
    """The backup of one server. `turn_off` ends a log that is kept for the backup only."""

    def __init__(
        self,
        config: Config,
        keeper: LogKeeper,
        snapshots: Snapshots,
        clock: Callable[[], int],
        turn_off: Callable[[], None],
    ) -> None:
        self._config = config
        self._keeper = keeper
        self._snapshots = snapshots
        self._clock = clock
        self._turn_off = turn_off
        self.backup = Backup()
        # Whether the files of the log are removed once it is turned off: there was none before the backup.
        self._removes_log = False
        snapshots.holds_rewrites = lambda: self.backup.is_running
        snapshots.on_base = self._pin_base
        snapshots.on_base_failed = self._note_failed_base
        config.on_change("appendonly", lambda is_on: self._keep_log() if is_on else None)

    def start(self, *, may_start: bool) -> None:
        """BACKUP START; the base is begun later inside EXEC, or while another job runs. Raises GenericError."""
        backup = self.backup
        if backup.state is BackupState.SEALED:
            raise GenericError(SEALED)
        if backup.is_running:
            raise GenericError(RUNNING)
        self._snapshots.lock_folder()
        name = self._config.backupdirname
        try:
            is_prepared = backup.prepare(self._keeper.files, self._folder())
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise GenericError(b"Can't create backup directory %b: %b" % (name, reason.encode())) from error
        if not is_prepared:
            raise GenericError(b"Backup directory %b is not empty, CLEANUP it first" % name)
        if may_start:
            self._begin_base()
            if backup.state is BackupState.FAILED:
                raise GenericError(b"Can't start the backup: " + backup.error.encode())

    def _folder(self) -> str:
        return backup_folder(self._config)

    def _begin_base(self) -> None:
        """Write a base, or use the one that is being written. Nothing is done while another job runs."""
        state = self._keeper.state
        if state in WRITING_BASE:
            self.backup.begin(self._clock())
        elif state in (LogState.ON, LogState.OFF) and self._snapshots.may_begin:
            self._removes_log = state is LogState.OFF and self._has_no_log()
            self.backup.begin(self._clock())
            self._snapshots.begin_base()

    def _has_no_log(self) -> bool:
        """Whether there are no files of a log. Files that cannot be read are not removed."""
        try:
            return self._keeper.new_log().is_absent()
        except (LogError, OSError):
            return False

    def _pin_base(self, log: AppendOnlyLog) -> None:
        """The base that was being written is complete."""
        backup = self.backup
        if backup.state is BackupState.SNAPSHOTTING and self._keeper.log is log:
            try:
                backup.pin_base(self._keeper.files, log.base_path())
            except OSError:
                self._fail("failed to pin snapshot file")

    def _note_failed_base(self, reason: str) -> None:
        """The base cannot be written; a log that was starting for it is ended by its owner."""
        if self.backup.state is BackupState.SNAPSHOTTING:
            self.backup.fail(self._keeper.files, f"snapshot rewrite failed: {reason}")

    def seal(self, *, may_start: bool) -> None:
        """BACKUP SEAL: complete the backup with every write that was answered. Inside EXEC (`may_start` is False) it
        has no write of that transaction. Raises GenericError.
        """
        backup, keeper = self.backup, self._keeper
        log = keeper.log
        if backup.state is not BackupState.INCREMENTING or log is None:
            raise GenericError(NOT_READY)
        if may_start:
            keeper.gather()
        try:
            parts = log.end_increment()
        except LogFailure as failure:
            keeper.die(failure)
            raise GenericError(NOT_SWITCHED) from failure
        except (LogError, OSError) as cause:
            self._fail(f"failed to close INCR AOF: {explain(cause)}")
            raise GenericError(NOT_SWITCHED) from cause
        keeper.append_place()
        try:
            for part in parts[1:]:
                backup.pin(keeper.files, log.part_path(part))
        except OSError as error:
            self._fail("failed to pin INCR AOF")
            raise GenericError(NOT_PINNED) from error
        try:
            backup.seal(keeper.files, parts, os.path.basename(log.manifest_path), self._clock())
        except OSError as error:
            self._fail("failed to write backup manifest")
            raise GenericError(NOT_LISTED) from error
        self._end_log()

    def abort(self) -> None:
        """BACKUP ABORT. Raises GenericError."""
        if not self.backup.is_running:
            raise GenericError(NOT_RUNNING)
        self._fail("aborted by user")

    def clean(self) -> None:
        """BACKUP CLEANUP: remove the files. Raises GenericError while a backup runs."""
        if self.backup.is_running:
            raise GenericError(NOT_CLEANED)
        self._snapshots.lock_folder()
        self.backup.clean(self._keeper.files, self._folder())

    def end_by(self, reason: str) -> None:
        """The dataset is replaced by another one, so the records of the log do not continue the base."""
        if self.backup.is_running:
            self._fail(reason)

    def _fail(self, reason: str) -> None:
        self.backup.fail(self._keeper.files, reason)
        self._end_log()

    def _end_log(self) -> None:
        """End a log that is kept for the backup only."""
        if not self._config.appendonly and self._keeper.log is not None:
            self._turn_off()

    def _keep_log(self) -> None:
        self._removes_log = False

    def note_log_off(self, log: AppendOnlyLog | None) -> None:
        """The log was turned off. A backup that needed it has failed."""
        if self.backup.state in (BackupState.SNAPSHOTTING, BackupState.INCREMENTING):
            self.backup.fail(self._keeper.files, "appendonly is stopped")
        if self._removes_log and log is not None:
            self._removes_log = False
            with contextlib.suppress(OSError):
                log.discard()

    def cron(self, now_ms: int) -> None:
        """`hz` times a second: begin a backup that waits, and remove one whose time is over."""
        backup, ttl_s = self.backup, self._config.backup_sealed_ttl
        if backup.state is BackupState.PENDING:
            self._begin_base()
        elif backup.state is BackupState.SEALED and ttl_s and now_ms // 1000 - backup.ended_ms // 1000 >= ttl_s:
            logger.info("BACKUP: auto cleaning sealed backup after %d seconds", ttl_s)
            backup.clean(self._keeper.files, self._folder())
