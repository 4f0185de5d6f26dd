"""Bytes taken one after another from a file that comes in blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from ..errors import RdbError
from .primitives import crc64


def short_read() -> RdbError:
    """The data ends inside of something."""
    return RdbError("Short read or OOM loading DB. Unrecoverable error, aborting now.")


class Source:
    """Reads on through blocks. What is announced and not there is never allocated: at most what is there is kept."""

    __slots__ = ("_block", "_blocks", "_checked", "_crc", "_is_checksummed", "_position", "_start")

    def __init__(self, blocks: Iterable[bytes], *, is_checksummed: bool = False) -> None:
        self._blocks: Iterator[bytes] = iter(blocks)
        self._block = b""
        self._position = 0
        self._start = 0
        """Offset of the block."""
        self._is_checksummed = is_checksummed
        self._crc = 0
        self._checked = 0
        """Bytes of the block that are in the CRC."""

    @property
    def offset(self) -> int:
        """How many bytes have been taken."""
        return self._start + self._position

    @property
    def crc(self) -> int:
        """The CRC-64 of all bytes taken."""
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
        """Step over the next `size` bytes. Raises RdbError."""
        for _ in self._pieces(size):
            pass

    def byte(self) -> int:
        """The next byte. Raises RdbError."""
        position = self._position
        if position < len(self._block):
            self._position = position + 1
            return self._block[position]
        return self.take(1)[0]

    def rest(self) -> Iterator[bytes]:
        """Everything that has not been taken, in blocks. The source is used up."""
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
