"""Files under the log: the only place that touches the disk."""

from __future__ import annotations

import os
from typing import Protocol


class LogFile(Protocol):
    """An append-only file. A test replaces it by one that fails on the nth write, tears it, or forgets."""

    def write(self, data: bytes) -> int:
        """Append; answers how many bytes were taken, which may be fewer. Raises OSError."""
        ...

    def sync(self) -> None:
        """Bring everything written to stable storage. Raises OSError."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file off. Raises OSError."""
        ...

    def size(self) -> int:
        """Bytes in the file."""
        ...

    def close(self) -> None:
        """Give the file back."""
        ...


class DiskFile:
    """A real file, opened for appending and made if need be."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def write(self, data: bytes) -> int:
        """Append in one system call."""
        return os.write(self._descriptor, data)

    def sync(self) -> None:
        """fdatasync, which also brings a changed size to disk."""
        os.fdatasync(self._descriptor)

    def truncate(self, size: int) -> None:
        """Cut the file off."""
        os.ftruncate(self._descriptor, size)

    def size(self) -> int:
        """Bytes in the file."""
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)


def sync_folder(path: str) -> None:
    """Make names that were created or renamed in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: str, content: bytes) -> None:
    """Put a small file in place so that a crash leaves either the old one or the new one, whole."""
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, "temp-" + name)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, content)
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(temporary, path)
    sync_folder(folder)
