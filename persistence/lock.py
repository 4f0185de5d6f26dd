"""Locks the data folder for one server. The folder itself is locked, so no lock file is left after a crash."""

from __future__ import annotations

import fcntl
import os
from errno import EACCES, EAGAIN, ENOTSUP

from .errors import LogError


class FolderLock:
    """A lock on a folder, held from `acquire` until `release` or the end of the process."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor: int | None = None

    @property
    def is_held(self) -> bool:
        """Whether this server has locked the folder."""
        return self._descriptor is not None

    def is_of(self, path: str) -> bool:
        """Whether this is the lock of the folder at `path`. A locked folder may have been moved there."""
        if self._descriptor is None:
            return self.path == path
        return os.path.samestat(os.fstat(self._descriptor), os.stat(path))

    def acquire(self) -> None:
        """Lock the folder, unless this server already has. Raises LogError if another server has locked it, OSError.

        On a file system without locks it does nothing.
        """
        if self._descriptor is not None:
            return
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (EACCES, EAGAIN):
                os.close(descriptor)
                raise LogError(
                    f"Another server uses the data folder {self.path}: choose another folder (--dir), or save nothing "
                    "(--appendonly no --save '')"
                ) from error
            if error.errno != ENOTSUP:
                os.close(descriptor)
                raise
        self._descriptor = descriptor

    def release(self) -> None:
        """Unlock the folder."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
