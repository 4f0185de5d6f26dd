"""A backup: files of the log that are pinned in a folder of their own by hard links, and the states of the work.

              +-------------------------------------------------------------------------------+
              v                                                                               |
    IDLE --> PENDING --> SNAPSHOTTING --> INCREMENTING --> SEALED --> (CLEANUP) --> IDLE      |
                |             |                |                                              |
                +-------------+----------------+--> FAILED -----------------------------------+

The folder has a base, the increments that follow it, and a manifest. It is a log by itself: a server starts from a copy
of it. What the server does in each state is in `server/storage/backups.py`.
"""

from __future__ import annotations

import logging
import os
from enum import Enum
from typing import Final

from .errors import explain
from .files import Files
from .manifest import Manifest, Part

logger = logging.getLogger(__name__)


class BackupState(Enum):
    """The states, by their names in BACKUP STATUS."""

    # There is no backup.
    IDLE = b"idle"
    # The base is not being written yet: another job runs, or a transaction.
    PENDING = b"pending"
    # The base is being written.
    SNAPSHOTTING = b"snapshotting"
    # The base is pinned. The log gathers the writes since.
    INCREMENTING = b"incrementing"
    # The folder has a complete log.
    SEALED = b"sealed"
    # The backup was aborted or has failed; its files are removed.
    FAILED = b"failed"


RUNNING: Final = frozenset({BackupState.PENDING, BackupState.SNAPSHOTTING, BackupState.INCREMENTING})


class Backup:
    """The backup of one server. Times are Unix ms, 0 for none."""

    def __init__(self) -> None:
        self.state = BackupState.IDLE
        # Why the last backup failed; empty without a failure.
        self.error = ""
        self.started_ms = 0
        self.ended_ms = 0
        # Paths of the files that are pinned.
        self.paths: list[str] = []
        self._folder = ""

    @property
    def is_running(self) -> bool:
        """Whether a backup was started that is neither sealed nor failed."""
        return self.state in RUNNING

    @property
    def state_name(self) -> bytes:
        """The state in BACKUP STATUS."""
        return self.state.value

    def prepare(self, files: Files, folder: str) -> bool:
        """Create the folder of the next backup. Returns False if it has files. Raises OSError."""
        files.make_folder(folder)
        if files.names_in(folder):
            return False
        self._folder = folder
        self.state, self.error = BackupState.PENDING, ""
        self.started_ms = self.ended_ms = 0
        return True

    def begin(self, now_ms: int) -> None:
        """Record that the base is being written from now on."""
        assert self.state is BackupState.PENDING
        self.state, self.started_ms = BackupState.SNAPSHOTTING, now_ms

    def pin(self, files: Files, path: str) -> None:
        """Keep a file of the log, which does not change any more, also under its name in the folder. Raises OSError."""
        new_path = os.path.join(self._folder, os.path.basename(path))
        try:
            files.link(path, new_path)
        except OSError as error:
            logger.warning("BACKUP: can't hard-link %s into %s: %s", path, new_path, explain(error))
            raise
        self.paths.append(new_path)

    def pin_base(self, files: Files, path: str) -> None:
        """Pin the complete base; the increments follow at `seal`. Raises OSError."""
        assert self.state is BackupState.SNAPSHOTTING
        self.pin(files, path)
        self.state = BackupState.INCREMENTING
        logger.info("BACKUP: snapshot pinned (%s), now accumulating writes", os.path.basename(path))

    def seal(self, files: Files, parts: list[Part], manifest_name: str, now_ms: int) -> None:
        """Write the manifest of the pinned `parts`: the folder is then a complete log. Raises OSError."""
        assert self.state is BackupState.INCREMENTING
        path = os.path.join(self._folder, manifest_name)
        files.replace(path, (Manifest(tuple(parts)).encode(),))
        self.paths.append(path)
        self.state, self.ended_ms = BackupState.SEALED, now_ms
        logger.info("BACKUP: sealed backup in %s", os.path.basename(self._folder))

    def fail(self, files: Files, reason: str) -> None:
        """End a running backup without a result, and remove its files."""
        assert self.is_running
        self.state, self.error = BackupState.FAILED, reason
        logger.warning("BACKUP: failed: %s", reason)
        self._empty(files, self._folder)

    def clean(self, files: Files, folder: str) -> None:
        """Forget a backup that is not running. Remove all files from its folder, or from `folder` if there was none
        since the start, as Redis does.

        Folders inside remain. What cannot be removed is logged; the next START refuses a folder that is not empty.
        """
        assert not self.is_running
        self._empty(files, self._folder or folder)
        self.state, self.error, self._folder = BackupState.IDLE, "", ""
        self.started_ms = self.ended_ms = 0

    def _empty(self, files: Files, folder: str) -> None:
        self.paths.clear()
        try:
            names = files.names_in(folder)
        except OSError:
            return  # it is not a folder
        for name in sorted(names):
            try:
                files.remove(os.path.join(folder, name))
            except OSError as error:
                logger.warning("BACKUP: can't remove %s: %s", os.path.join(folder, name), explain(error))
