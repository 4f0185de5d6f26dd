"""Reads bytes in order from a file that is given in blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from ..errors import RdbError
from .primitives import crc64


def short_read() -> RdbError:
    """The error for data that ends inside a value."""
    return RdbError("Short read or OOM loading DB. Unrecoverable error, aborting now.")


class Source:
    """Reads through blocks. Memory is allocated only for bytes that exist, never for an announced size."""

    __slots__ = ("_block", "_blocks", "_checked", "_crc", "_is_checksummed", "_position", "_start")

    def __init__(self, blocks: Iterable[bytes], *, is_checksummed: bool = False) -> None:
        self._blocks: Iterator[bytes] = iter(blocks)
        self._block = b""
        self._position = 0
        # Offset of the current block.
        self._start = 0
        self._is_checksummed = is_checksummed
        self._crc = 0
        # Bytes of the current block that are included in the CRC.
        self._checked = 0

    @staticmethod
    def of(block: bytes) -> Source:
        """Return a source of one block, which is not checked."""
        source = Source(())
        source._block = block
        return source

    @property
    def offset(self) -> int:
        """Number of bytes read."""
        return self._start + self._position

    @property
    def crc(self) -> int:
        """The CRC-64 of all bytes read."""
        assert self._is_checksummed
        self._crc = crc64(self._block[self._checked : self._position], self._crc)
        self._checked = self._position
        return self._crc

    def take(self, size: int) -> bytes:
        """The next `size` bytes. Raises RdbError."""
        start = self._position
        end = start + size
        if end <= len(self._block):
            self._position = end
            return self._block[start:end]
        return b"".join(self._pieces(size))

    def skip(self, size: int) -> None:
        """Skip the next `size` bytes. Raises RdbError."""
        for _ in self._pieces(size):
            pass

    def ahead(self) -> tuple[bytes, int]:
        """The current block, and the position in it of the next byte."""
        return self._block, self._position

    def skip_ahead(self, position: int) -> None:
        """Continue at a later position of the current block."""
        assert self._position <= position <= len(self._block)
        self._position = position

    def skip_bytes(self, expected: bytes) -> bool:
        """Skip these bytes if they are next in the current block. Returns False if they are not."""
        is_next = self._block.startswith(expected, self._position)
        if is_next:
            self._position += len(expected)
        return is_next

    def byte(self) -> int:
        """The next byte. Raises RdbError."""
        position = self._position
        if position < len(self._block):
            self._position = position + 1
            return self._block[position]
        return self.take(1)[0]

    def rest(self) -> Iterator[bytes]:
        """Yield all bytes that were not read, in blocks. The source must not be used afterwards."""
        return chain((self._block[self._position :],), self._blocks)

    def _pieces(self, size: int) -> Iterator[bytes]:
        while size:
            piece = self._block[self._position : self._position + size]
            self._position += len(piece)
            size -= len(piece)
            yield piece
            if size:
                self._next_block()

    def _next_block(self) -> None:
        if self._is_checksummed:
            self._crc = self.crc
        self._start += len(self._block)
        self._position = self._checked = 0
        self._block = b""
        block = next(self._blocks, None)
        if block is None:
            raise short_read()
        self._block = block
