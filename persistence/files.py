"""All access to the disk: log files, their folder, and files that are replaced atomically.

`Files` and `LogFile` are protocols, so that a test can use files that fail, write a part, or lose what was not synced.
All methods raise OSError. Paths are absolute or relative to the working directory; sizes are bytes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from errno import EACCES, ENOTDIR, ENXIO
from stat import S_ISDIR, S_ISREG
from typing import Final, Protocol

from .errors import NotRegularFile

FILE_MODE: Final = 0o644
FOLDER_MODE: Final = 0o755


def open_regular(path: str | bytes, flags: int, mode: int = FILE_MODE) -> int:
    """open(2) of a regular file or a folder, which never waits. Raises NotRegularFile, OSError.

    Without O_NONBLOCK the open of a FIFO waits for its other end. Can be the `opener` of `open`, which refuses folders.
    """
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, mode)
    except OSError as error:
        if error.errno == ENXIO:  # a socket, or a FIFO that is opened for writing
            raise NotRegularFile(path, os.stat(path).st_mode) from None
        raise
    found_mode = os.fstat(descriptor).st_mode
    if S_ISREG(found_mode) or S_ISDIR(found_mode):
        return descriptor
    os.close(descriptor)
    raise NotRegularFile(path, found_mode)


class LogFile(Protocol):
    """A file that only grows at its end."""

    def append(self, data: bytes | memoryview) -> int:
        """Write once. Returns the number of bytes written, which may be less than all."""
        ...

    def fsync(self) -> None:
        """Return once everything appended is on stable storage. May be called from another thread."""
        ...

    def truncate(self, size: int) -> None:
        """Truncate the file."""
        ...

    def size(self) -> int:
        """Present size."""
        ...

    def close(self) -> None:
        """Close the file without an fsync."""
        ...


class Files(Protocol):
    """The folder operations that a log needs."""

    def make_folder(self, path: str) -> None:
        """Create the folder and sync its name. An existing folder is accepted if files can be created in it."""
        ...

    def open_log(self, path: str) -> LogFile:
        """Open a file for appending. If it does not exist, it is created and its name synced."""
        ...

    def read(self, path: str) -> bytes | None:
        """Return the content of a small file, None if it does not exist."""
        ...

    def read_blocks(self, path: str, block_size: int) -> Iterator[bytes]:
        """Yield the content of a large file in blocks, in order."""
        ...

    def size(self, path: str) -> int | None:
        """Size of a file, None if there is none."""
        ...

    def names_in(self, folder: str) -> list[str]:
        """Return the names in a folder, in any order; an empty list if the folder does not exist."""
        ...

    def replace(self, path: str, blocks: Iterable[bytes]) -> int:
        """Replace the file at `path` atomically: after a crash there is the old file or the new one, never a part.

        Returns its size.
        """
        ...

    def rename(self, path: str, new_path: str) -> None:
        """Give a file another name, durably."""
        ...

    def link(self, path: str, new_path: str) -> None:
        """Give a file a further name, durably. Fails if the name is taken."""
        ...

    def remove(self, path: str) -> None:
        """Delete a file. A missing file is no error."""
        ...


class DiskFile:
    """A `LogFile` on a real disk. Unbuffered: bytes that `append` has written are with the operating system."""

    def __init__(self, path: str, *, follows_links: bool = True) -> None:
        self.path = path
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._descriptor = open_regular(path, flags if follows_links else flags | os.O_NOFOLLOW)

    def append(self, data: bytes | memoryview) -> int:
        """One write(2)."""
        return os.write(self._descriptor, data)

    def fsync(self) -> None:
        """Sync with fdatasync where it exists. That includes the size; only the file's times may be lost."""
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

# Files of at least this size are closed in a thread after they were unlinked.
LARGE_FILE_SIZE: Final = 1024 * 1024
# A large file is synced each time this much was written. One sync at its end would delay all other syncs.
SYNC_SIZE: Final = 4 * 1024 * 1024


def temporary_path(path: str) -> str:
    """Return the path at which `Files.replace` writes a file before it replaces `path`."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f"temp-{name}")


def _write_all(descriptor: int, block: bytes) -> None:
    """Call write(2) until everything is written: a disk that fills up first accepts a part, and fails afterwards."""
    view = memoryview(block)
    while view:
        written_size = os.write(descriptor, view)
        view = view[written_size:]


class DiskFiles:
    """`Files` on a real disk."""

    def make_folder(self, path: str) -> None:
        """Call mkdir, and sync the parent. An existing folder must be accessible."""
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
            os.rmdir(path)  # otherwise the next start would assume that its name is synced
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
                self.remove(path)  # otherwise the next attempt would assume that its name is synced
                raise
        return file

    def read(self, path: str) -> bytes | None:
        """See `Files`."""
        try:
            with open(path, "rb", opener=open_regular) as file:
                return file.read()
        except FileNotFoundError:
            return None

    def read_blocks(self, path: str, block_size: int) -> Iterator[bytes]:
        """See `Files`."""
        with open(path, "rb", buffering=0, opener=open_regular) as file:
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
        """Write the file next to `path` as `temp-<name>`, sync it, rename it, and sync the folder.

        An existing file with the temporary name is removed, not written to: it may be a link to another file.
        """
        temporary = temporary_path(path)
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
                error.filename = path  # write(2) names no file, and the temporary one means nothing to the user
            raise
        self._sync_folder(os.path.dirname(path) or ".")
        return size

    def rename(self, path: str, new_path: str) -> None:
        """Call rename(2), and sync the folder."""
        os.replace(path, new_path)
        self._sync_folder(os.path.dirname(new_path) or ".")

    def link(self, path: str, new_path: str) -> None:
        """Call link(2), and sync the folder."""
        os.link(path, new_path)
        self._sync_folder(os.path.dirname(new_path) or ".")

    def remove(self, path: str) -> None:
        """Call unlink(2), which removes a link itself. A thread frees the space of a large file, since that takes
        long."""
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
