"""Checksum lines, which prove that the bytes of a log are those that were written.

    #XXH3:<XXH3-64 of the block, 16 hex digits> <size of the block in bytes>\\r\\n

A block consists of all bytes since the previous checksum line, or since the start of the file. Redis and its tools skip
the line as they skip every annotation. A line over no bytes only begins a new block. A log that is opened again starts
with such a line, because the existing file may end in bytes that no line covers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from xxhash import xxh3_64, xxh3_64_hexdigest

# The beginning of a checksum line. A line that begins so and is not exactly the line of its block is damage.
CHECKSUM_PREFIX: Final = b"#XXH3:"

# A block that is not full gets its checksum line after this time without writes, so that a quiet server does not write
# a line per record.
IDLE_BLOCK_MS: Final = 1000


def checksum_line(block: bytes | bytearray) -> bytes:
    """The line of a block."""
    return _line(xxh3_64_hexdigest(block), len(block))


def _line(digest: str, size: int) -> bytes:
    return b"%b%b %d\r\n" % (CHECKSUM_PREFIX, digest.encode(), size)


# The checksum line over no bytes, which begins a new block.
EMPTY_BLOCK_LINE: Final = checksum_line(b"")


class OpenBlock:
    """The bytes since the last checksum line, of which only the hash and the size (bytes) are kept."""

    def __init__(self) -> None:
        self._hash = xxh3_64()
        self.size = 0
        # Size at the last call of `is_idle` that found another one than before, and the Unix ms of that call.
        self._seen_size = 0
        self._seen_ms = 0

    def add(self, data: bytes | bytearray) -> None:
        """Add bytes to the block."""
        self._hash.update(data)
        self.size += len(data)

    def is_idle(self, now_ms: int) -> bool:
        """Whether the block has bytes, and the same number of them as in all calls of the last second."""
        if self.size != self._seen_size:
            self._seen_size, self._seen_ms = self.size, now_ms
            return False
        return self.size > 0 and abs(now_ms - self._seen_ms) >= IDLE_BLOCK_MS

    def line(self) -> bytes:
        """Return the line that closes the block here."""
        return _line(self._hash.hexdigest(), self.size)

    def clear(self) -> None:
        """Begin a new block."""
        self._hash.reset()
        self.size = 0


def with_checksums(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield blocks of complete records, each followed by its checksum line."""
    for block in blocks:
        yield block + checksum_line(block) if block else block
