r"""The frame of a dataset between two Headrace servers: blocks, each with a checksum.

    HRROWS, the version in two digits, \n
    block ...:  size (4 bytes), CRC-32 (4 bytes), bytes

All numbers are little-endian. The CRC-32 of a block continues that of the block before, so that no block can be missing
or in another place. What the blocks contain, joined, is an RDB file whose streams have a form of their own
(`streams.py`). No block is read before its checksum is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final
from zlib import crc32

from ..errors import RowsError

VERSION: Final = 1
PREFIX: Final = b"HRROWS"
MAGIC: Final = b"%b%02d\n" % (PREFIX, VERSION)
# Bytes of the largest block. A larger one is not waited for.
BLOCK_SIZE_MAX: Final = 1 << 20

_HEADER: Final = Struct("<II")


def framed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Put pieces of any size into blocks. An empty piece is yielded as it is: it lets the event loop run other work."""
    yield MAGIC
    crc = 0
    for piece in pieces:
        if not piece:
            yield piece
        for start in range(0, len(piece), BLOCK_SIZE_MAX):
            part = piece if len(piece) <= BLOCK_SIZE_MAX else piece[start : start + BLOCK_SIZE_MAX]
            crc = crc32(part, crc)
            yield _HEADER.pack(len(part), crc) + part


class BlockReader:
    """Takes the frame off a dataset whose bytes `received` yields, if it has one. `has_rows`: whether it has."""

    def __init__(self, received: Iterator[bytes]) -> None:
        self._received = received
        self._buffer = b""
        # Blocks that were read.
        self._count = 0
        self.has_rows = False

    def begin(self) -> None:
        """Read the beginning. Raises RowsError for a version that is not known."""
        while len(self._buffer) < len(MAGIC) and PREFIX.startswith(self._buffer[: len(PREFIX)]):
            piece = next(self._received, None)
            if piece is None:
                break
            self._buffer += piece
        self.has_rows = self._buffer.startswith(PREFIX)
        if self.has_rows:
            magic, self._buffer = self._buffer[: len(MAGIC)], self._buffer[len(MAGIC) :]
            if magic != MAGIC:
                version = magic[len(PREFIX) :].decode("ascii", "backslashreplace").strip()
                raise RowsError(f"its rows have version '{version}', and this server reads version {VERSION}")

    def content(self) -> Iterator[bytes]:
        """Yield what the blocks contain, or all bytes if there is no frame. Raises RowsError."""
        if self.has_rows:
            yield from self._blocks()
        else:
            if self._buffer:
                yield self._buffer
            yield from self._received

    def _blocks(self) -> Iterator[bytes]:
        crc = 0
        while True:
            size, expected_crc = _HEADER.unpack(self._take(_HEADER.size))
            if not 0 < size <= BLOCK_SIZE_MAX:
                raise RowsError(f"block {self._count + 1} of it would have {size} bytes")
            block = self._take(size)
            crc = crc32(block, crc)
            if crc != expected_crc:
                raise RowsError(f"block {self._count + 1} of it is damaged: its checksum is wrong")
            self._count += 1
            yield block

    def _take(self, size: int) -> bytes:
        """The next `size` bytes. Raises RowsError."""
        buffer = self._buffer
        if len(buffer) < size:
            pieces, have = [buffer], len(buffer)
            while have < size:
                piece = next(self._received, None)
                if piece is None:
                    raise RowsError(f"it ends within block {self._count + 1}")
                pieces.append(piece)
                have += len(piece)
            buffer = b"".join(pieces)
        self._buffer = buffer[size:]
        return buffer[:size]
