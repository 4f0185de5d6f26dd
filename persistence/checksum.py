"""Checksum lines: what shows that the bytes of a log are those that were written.

    #XXH3:<XXH3-64 of the block, 16 hex digits> <size of the block in bytes>\\r\\n

A block is everything since the previous such line, or since the start of the file. Redis and its tools skip the line
as they skip every annotation. A line over no bytes covers nothing and only begins a new block: a log that is opened
again starts with one, because what stands before it may end in bytes that no line has covered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from xxhash import xxh3_64, xxh3_64_hexdigest

CHECKSUM_PREFIX: Final = b"#XXH3:"
"""How a checksum line begins. A line that begins so and is not exactly the line of its block is damage."""


def checksum_line(block: bytes | bytearray) -> bytes:
    """The line of a block."""
    return _line(xxh3_64_hexdigest(block), len(block))


def _line(digest: str, size: int) -> bytes:
    return b"%b%b %d\r\n" % (CHECKSUM_PREFIX, digest.encode(), size)


EMPTY_BLOCK_LINE: Final = checksum_line(b"")
"""Begins a new block."""


class OpenBlock:
    """The bytes since the last checksum line, of which only the hash and the size (bytes) are kept."""

    def __init__(self) -> None:
        self._hash = xxh3_64()
        self.size = 0

    def add(self, data: bytes | bytearray) -> None:
        """These bytes follow."""
        self._hash.update(data)
        self.size += len(data)

    def line(self) -> bytes:
        """The line that would close the block here."""
        return _line(self._hash.hexdigest(), self.size)

    def clear(self) -> None:
        """A new block begins."""
        self._hash.reset()
        self.size = 0


def with_checksums(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Whole records in blocks, each followed by its line."""
    for block in blocks:
        yield block + checksum_line(block) if block else block
