"""The last bytes of the replication stream, kept once for all replicas.

Each replica has a position in it: the offset of the last byte that it was sent. A block is never written again where it
was written once, so a part of it can wait in a socket while the stream continues.
"""

from __future__ import annotations

from collections import deque
from typing import Final

# Bytes of a block. The backlog keeps up to one block more than its size.
BLOCK_SIZE: Final = 16 * 1024


class Backlog:
    """Keeps at least `size` bytes of the stream, if there were as many. `start` is the offset before its first byte."""

    def __init__(self, size: int, start: int) -> None:
        self.size = size
        self.start = start
        self.end = start
        self._blocks: deque[bytearray] = deque()
        # Bytes of the last block that are used. Every block begins at the start, plus a multiple of the block size.
        self._used = BLOCK_SIZE

    def __len__(self) -> int:
        return self.end - self.start

    @property
    def memory_size(self) -> int:
        """Bytes of all blocks."""
        return len(self._blocks) * BLOCK_SIZE

    def has(self, position: int) -> bool:
        """Whether all bytes after this offset are kept."""
        return self.start <= position <= self.end

    def append(self, data: bytes) -> None:
        """Add bytes at the end."""
        view = memoryview(data)
        while view:
            if self._used == BLOCK_SIZE:
                self._blocks.append(bytearray(BLOCK_SIZE))
                self._used = 0
            taken = view[: BLOCK_SIZE - self._used]
            self._blocks[-1][self._used : self._used + len(taken)] = taken
            self._used += len(taken)
            view = view[len(taken) :]
        self.end += len(data)

    def read(self, position: int) -> memoryview:
        """The bytes after this offset, up to the end of their block; empty at the end of the backlog."""
        assert self.has(position), "the bytes after this offset are not kept"
        if position == self.end:
            return memoryview(b"")
        index, place = divmod(position - self.start, BLOCK_SIZE)
        used = self._used if index == len(self._blocks) - 1 else BLOCK_SIZE
        return memoryview(self._blocks[index])[place:used].toreadonly()

    def trim(self, position: int) -> None:
        """Forget whole blocks that are beyond the size, but none with bytes after this offset."""
        while len(self) - BLOCK_SIZE >= self.size and self.start + BLOCK_SIZE <= position:
            self._blocks.popleft()
            self.start += BLOCK_SIZE
