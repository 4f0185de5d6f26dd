"""Writes a whole file in the background: one thread makes its blocks, in slices, and another one writes them.

Making blocks needs the dataset, which only the main thread may access. Writing and syncing waits for the disk, and
clients should not. A queue of a few slices connects the two threads, so memory is bounded even if the disk is slow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Final

from .files import Files

# Largest number of slices that wait for the disk.
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

    def step(self, is_over: Callable[[], bool]) -> bool:
        """Make blocks if the queue has room, at least one, until `is_over` returns true. Returns whether the file has
        replaced the old one. Raises OSError.

        The blocks of a step are one for the writing thread: waking it takes as long as making some of them.
        """
        if self._future.done():
            self._future.result()
            return True
        if not self._is_made and self._queue.qsize() < QUEUED_COUNT_MAX:
            made = self._make(is_over)
            if made:
                self._queue.put(made)
            if self._is_made:
                self._queue.put(None)
        return False

    def _make(self, is_over: Callable[[], bool]) -> bytes:
        """Make the blocks of one step. An empty block is work without a result."""
        made: list[bytes] = []
        for block in self._blocks:
            made.append(block)
            if is_over():
                return b"".join(made)
        self._is_made = True
        return b"".join(made)

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
