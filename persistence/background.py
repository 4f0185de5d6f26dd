"""Writes a whole file in the background: one thread makes its blocks, a few at a time, and another one writes them.

Making blocks needs the dataset, which only the main thread may access. Writing and syncing waits for the disk, and
clients should not. A queue of a few blocks connects the two threads, so memory is bounded even if the disk is slow.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Final

from .files import Files

# Largest number of blocks that wait for the disk.
QUEUED_COUNT_MAX: Final = 16
# Longest time that `wait` waits for the disk to take a block.
DISK_TURN_S: Final = 0.0005


class Abandoned(Exception):
    """Raised in the writing thread to end a file that was abandoned."""


class BackgroundFile:
    """Writes a file that replaces `path` atomically once `step` has made the last block and all is on stable
    storage."""

    def __init__(self, files: Files, path: str, blocks: Iterator[bytes], executor: Executor) -> None:
        self._blocks = blocks
        self._queue: SimpleQueue[bytes | Abandoned | None] = SimpleQueue()
        self._is_made = False
        self._future: Future[int] = executor.submit(files.replace, path, self._queued_blocks())

    def _queued_blocks(self) -> Iterator[bytes]:
        """Yield the blocks of the queue. Runs in the writing thread."""
        while (block := self._queue.get()) is not None:
            if isinstance(block, Abandoned):
                raise block
            yield block

    def step(self) -> bool:
        """Make one block if the queue has room. Returns whether the file has replaced the old one. Raises OSError."""
        if self._future.done():
            self._future.result()
            return True
        if not self._is_made and self._queue.qsize() < QUEUED_COUNT_MAX:
            block = next(self._blocks, None)
            # An empty block is work without a result, and takes no place in the queue.
            if block != b"":
                self._queue.put(block)
            self._is_made = block is None
        return False

    def wait(self) -> None:
        """Wait until `step` may have work: all is on disk, or the queue may have room."""
        if self._is_made:
            self._future.exception()
        elif self._queue.qsize() >= QUEUED_COUNT_MAX:
            time.sleep(DISK_TURN_S)

    @property
    def size(self) -> int:
        """Bytes of the complete file."""
        return self._future.result()

    def abandon(self) -> None:
        """Cancel the file, and wait until the thread has removed it."""
        self._queue.put(Abandoned())
        self._future.exception()
