"""The only place that touches the disk: log files, the folder they are in, and small files replaced whole.

`Files` and `LogFile` are protocols, so that a test can put in files that fail, tear a write or forget what was not
synced. All methods raise OSError. Paths are absolute or relative to the working directory; sizes are bytes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from errno import EACCES, ENOTDIR
from stat import S_ISREG
from typing import Final, Protocol

FILE_MODE: Final = 0o644
FOLDER_MODE: Final = 0o755


class LogFile(Protocol):
    """A file that only grows at its end."""

    def append(self, data: bytes | memoryview) -> int:
        """Write once and answer how much was taken, which may be less than all of it."""
        ...

    def fsync(self) -> None:
        """Return once everything appended is on stable storage. May be called from another thread."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file."""
        ...

    def size(self) -> int:
        """Present size."""
        ...

    def close(self) -> None:
        """Give the file back; no fsync."""
        ...


class Files(Protocol):
    """The folder operations a log needs."""

    def make_folder(self, path: str) -> None:
        """Create the folder and put its name on stable storage; one that exists is fine if files can be made in it."""
        ...

    def open_log(self, path: str) -> LogFile:
        """Open for appending; the file is created, and its name synced, if it is not there."""
        ...

    def read(self, path: str) -> bytes | None:
        """A small file's content, None if there is none."""
        ...

    def read_blocks(self, path: str, block_size: int) -> Iterator[bytes]:
        """A large file's content, in order."""
        ...

    def size(self, path: str) -> int | None:
        """Size of a file, None if there is none."""
        ...

    def names_in(self, folder: str) -> list[str]:
        """The names of what is in a folder, in any order; none if there is no such folder."""
        ...

    def replace(self, path: str, blocks: Iterable[bytes]) -> int:
        """Put a whole file in place of `path` at once: after a crash there is the old one or the new one, never a part.

        Answers its size.
        """
        ...

    def rename(self, path: str, new_path: str) -> None:
        """Give a file another name, durably."""
        ...

    def remove(self, path: str) -> None:
        """Delete a file; one that is not there is fine."""
        ...


class DiskFile:
    """A `LogFile` on a real disk. Unbuffered: what `append` took has been handed to the operating system."""

    def __init__(self, path: str, *, follows_links: bool = True) -> None:
        self.path = path
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(path, flags if follows_links else flags | os.O_NOFOLLOW, FILE_MODE)

    def append(self, data: bytes | memoryview) -> int:
        """One write(2)."""
        return os.write(self._descriptor, data)

    def fsync(self) -> None:
        """fdatasync where there is one: it writes the size along, and only times of the file may be lost."""
        _SYNC_DATA(self._descriptor)

    def truncate(self, size: int) -> None:
        """ftruncate(2)."""
        os.ftruncate(self._descriptor, size)

    def size(self) -> int:
        """From fstat(2)."""
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        """close(2)."""
        os.close(self._descriptor)


_SYNC_DATA: Final = getattr(os, "fdatasync", os.fsync)

LARGE_FILE_SIZE: Final = 1024 * 1024
"""Bytes from which on a file is closed in a thread after its name has gone."""
SYNC_SIZE: Final = 4 * 1024 * 1024
"""A large file is synced each time so much of it has been written: one sync at its end would hold up all others."""


def _write_all(descriptor: int, block: bytes) -> None:
    """write(2) until everything is written: a disk that fills up takes a part first and fails after that."""
    view = memoryview(block)
    while view:
        view = view[os.write(descriptor, view) :]


class DiskFiles:
    """`Files` on a real disk."""

    def make_folder(self, path: str) -> None:
        """mkdir, and an fsync of the parent; a folder that exists must be ours to use."""
        try:
            os.mkdir(path, FOLDER_MODE)
        except FileExistsError:
            if not os.path.isdir(path):
                raise NotADirectoryError(ENOTDIR, os.strerror(ENOTDIR), path) from None
            if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
                raise PermissionError(EACCES, os.strerror(EACCES), path) from None
            return
        try:
            self._sync_folder(os.path.dirname(path) or ".")
        except OSError:
            os.rmdir(path)  # or the next start would take its name for synced
            raise

    def open_log(self, path: str) -> LogFile:
        """See `Files`."""
        is_new = not os.path.exists(path)
        file = DiskFile(path, follows_links=False)
        if is_new:
            try:
                file.fsync()
                self._sync_folder(os.path.dirname(path) or ".")
            except OSError:
                file.close()
                self.remove(path)  # or the next attempt would take its name for synced
                raise
        return file

    def read(self, path: str) -> bytes | None:
        """See `Files`."""
        try:
            with open(path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def read_blocks(self, path: str, block_size: int) -> Iterator[bytes]:
        """See `Files`."""
        with open(path, "rb", buffering=0) as file:
            while block := file.read(block_size):
                yield block

    def size(self, path: str) -> int | None:
        """See `Files`."""
        try:
            return os.stat(path).st_size
        except FileNotFoundError:
            return None

    def names_in(self, folder: str) -> list[str]:
        """See `Files`."""
        try:
            return os.listdir(folder)
        except FileNotFoundError:
            return []

    def replace(self, path: str, blocks: Iterable[bytes]) -> int:
        """Written beside it as `temp-<name>`, synced, renamed over it, and the folder synced.

        What has the temporary name is removed and not written to: it may be a link to another file.
        """
        folder, name = os.path.split(path)
        temporary = os.path.join(folder, f"temp-{name}")
        size = synced_size = 0
        try:
            self.remove(temporary)
            with open(temporary, "xb", buffering=0) as file:  # O_EXCL: follows no link
                for block in blocks:
                    _write_all(file.fileno(), block)
                    size += len(block)
                    if size - synced_size >= SYNC_SIZE:
                        _SYNC_DATA(file.fileno())
                        synced_size = size
                _SYNC_DATA(file.fileno())
            os.replace(temporary, path)
        except BaseException as error:
            self.remove(temporary)
            if isinstance(error, OSError):
                error.filename = path  # write(2) knows none, and nobody looks for the temporary one
            raise
        self._sync_folder(folder or ".")
        return size

    def rename(self, path: str, new_path: str) -> None:
        """rename(2), and an fsync of the folder."""
        os.replace(path, new_path)
        self._sync_folder(os.path.dirname(new_path) or ".")

    def remove(self, path: str) -> None:
        """unlink(2), of a link the link. The space of a large file is given back by a thread, for that takes long."""
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            return
        if not S_ISREG(found.st_mode) or found.st_size < LARGE_FILE_SIZE:
            os.unlink(path)
            return
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.unlink(path)
        finally:
            threading.Thread(target=os.close, args=(descriptor,), name="remove").start()

    @staticmethod
    def _sync_folder(path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
