"""A whole file written beside the work: its blocks are made in this thread, a slice at a time, and written in another.

Making blocks needs the dataset, which only one thread may touch; writing and syncing them waits for the disk, which
the clients should not. A queue of a few blocks stands between the two, so memory stays bounded whatever the disk does.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Final

from .files import Files

QUEUED_COUNT_MAX: Final = 16
"""Blocks that may wait for the disk."""
DISK_TURN_S: Final = 0.0005
"""How long the disk may take for a block before somebody who waits looks again."""


class Abandoned(Exception):
    """Raised in the writing thread to end a file that nobody wants any more."""


class BackgroundFile:
    """Puts a file in place of `path` at once, when `step` has made the last block and all is on stable storage."""

    def __init__(self, files: Files, path: str, blocks: Iterator[bytes], executor: Executor) -> None:
        self._blocks = blocks
        self._queue: SimpleQueue[bytes | Abandoned | None] = SimpleQueue()
        self._is_made = False
        self._future: Future[int] = executor.submit(files.replace, path, self._queued_blocks())

    def _queued_blocks(self) -> Iterator[bytes]:
        """Runs in the writing thread."""
        while (block := self._queue.get()) is not None:
            if isinstance(block, Abandoned):
                raise block
            yield block

    def step(self) -> bool:
        """Make one block if there is room for it; True once the file is in its place. Raises OSError."""
        if self._future.done():
            self._future.result()
            return True
        if not self._is_made and self._queue.qsize() < QUEUED_COUNT_MAX:
            block = next(self._blocks, None)
            self._queue.put(block)
            self._is_made = block is None
        return False

    def wait(self) -> None:
        """Return when `step` has something to do again: all is on disk, or there may be room for a block."""
        if self._is_made:
            self._future.exception()
        elif self._queue.qsize() >= QUEUED_COUNT_MAX:
            time.sleep(DISK_TURN_S)

    @property
    def size(self) -> int:
        """Bytes of the complete file."""
        return self._future.result()

    def abandon(self) -> None:
        """End without a file, and wait until the thread has let go of it."""
        self._queue.put(Abandoned())
        self._future.exception()
