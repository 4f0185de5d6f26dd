"""A disk in memory that can be full, tear writes, fail fsyncs, and forget what was never synced."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future
from errno import EIO, ENOSPC
from typing import Any


class FaultyFiles:
    """`Files` in memory. `room` is how many bytes may still be appended, None for no end."""

    def __init__(self) -> None:
        self.content: dict[str, bytearray] = {}
        self.synced: dict[str, bytes] = {}
        self.room: int | None = None
        # Most bytes one append takes.
        self.write_size_max: int | None = None
        self.fails_fsync = False
        self.fsyncs_count = 0
        self.writes_count = 0

    def make_folder(self, path: str) -> None:
        """Does nothing: folders are only names here."""

    def open_log(self, path: str) -> FaultyFile:
        """Open a file, and create it if it is missing."""
        self.content.setdefault(path, bytearray())
        self.synced.setdefault(path, b"")
        return FaultyFile(self, path)

    def read(self, path: str) -> bytes | None:
        """A copy of the content."""
        return bytes(self.content[path]) if path in self.content else None

    def read_blocks(self, path: str, block_size: int) -> Iterator[bytes]:
        """The content in blocks."""
        data = bytes(self.content[path])
        for start in range(0, len(data), block_size):
            yield data[start : start + block_size]

    def size(self, path: str) -> int | None:
        """Present size."""
        return len(self.content[path]) if path in self.content else None

    def names_in(self, folder: str) -> list[str]:
        """What is in a folder."""
        return [os.path.basename(path) for path in self.content if os.path.dirname(path) == folder]

    def replace(self, path: str, blocks: Iterable[bytes]) -> int:
        """Replace a file, atomic and synced."""
        data = b"".join(blocks)
        self.content[path] = bytearray(data)
        self.synced[path] = data
        return len(data)

    def rename(self, path: str, new_path: str) -> None:
        """Rename a file at once, and durably."""
        self.content[new_path] = self.content.pop(path)
        self.synced[new_path] = self.synced.pop(path)

    def link(self, path: str, new_path: str) -> None:
        """Give a file a further name at once, and durably."""
        self.content[new_path] = self.content[path]
        self.synced[new_path] = self.synced[path]

    def remove(self, path: str) -> None:
        """Remove a file."""
        self.content.pop(path, None)
        self.synced.pop(path, None)

    def lose_power(self) -> None:
        """Lose everything that was not synced."""
        self.content = {path: bytearray(data) for path, data in self.synced.items()}


class FaultyFile:
    """A `LogFile` of `FaultyFiles`."""

    def __init__(self, disk: FaultyFiles, path: str) -> None:
        self.disk = disk
        self.path = path

    def append(self, data: bytes | memoryview) -> int:
        """Append as much as there is room for. Raises OSError if there is none."""
        disk = self.disk
        disk.writes_count += 1
        taken = len(data) if disk.write_size_max is None else min(len(data), disk.write_size_max)
        if disk.room is not None:
            taken = min(taken, disk.room)
            if not taken:
                raise OSError(ENOSPC, os.strerror(ENOSPC))
            disk.room -= taken
        disk.content[self.path] += bytes(data[:taken])
        return taken

    def fsync(self) -> None:
        """Record the content as synced."""
        self.disk.fsyncs_count += 1
        if self.disk.fails_fsync:
            raise OSError(EIO, os.strerror(EIO))
        self.disk.synced[self.path] = bytes(self.disk.content[self.path])

    def truncate(self, size: int) -> None:
        """Cut the file to this size."""
        del self.disk.content[self.path][size:]

    def size(self) -> int:
        """Present size."""
        return len(self.disk.content[self.path])

    def close(self) -> None:
        """Does nothing."""


class HandExecutor(Executor):
    """Runs submitted functions when `run` is called."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Any]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Keep it for `run`."""
        future: Future[Any] = Future()
        self.waiting.append((future, lambda: fn(*args, **kwargs)))
        return future

    def run(self) -> None:
        """Run everything submitted."""
        for future, work in self.waiting:
            try:
                future.set_result(work())
            except OSError as error:
                future.set_exception(error)
        self.waiting.clear()
