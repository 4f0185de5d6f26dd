"""The stream that a replica receives: which commands can be run now, and the offsets before and after them. No I/O.

The offset counts every byte of the stream. A command counts when it was run, MULTI .. EXEC when EXEC was. Until then
the replica confirms the byte before MULTI, and a lost link asks for MULTI again. The bytes are passed on to other
replicas as they are, also when they count.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from ..protocol.reader import ProtocolError, RequestReader
from ..protocol.requests import Request

# Larger than anything that a primary sends: what it has taken, its replicas must take.
SIZE_MAX: Final = 2**62

# The request with which a transaction begins.
BEGINNING: Final = [b"MULTI"]

_MULTI: Final = frozenset((b"MULTI", b"multi"))
# What ends a transaction. A primary sends no DISCARD; Redis takes it.
_EXEC: Final = frozenset((b"EXEC", b"exec", b"DISCARD", b"discard"))
_REPLCONF: Final = frozenset((b"REPLCONF", b"replconf"))
# Command names, in the usual spellings, that this module looks at.
_MARKS: Final = _MULTI | _EXEC | _REPLCONF


class StreamReader(RequestReader):
    """Reads a stream, in which there are no inline commands."""

    def __init__(self) -> None:
        super().__init__(SIZE_MAX, SIZE_MAX)

    def _read_inline(self) -> Request | None:
        words = super()._read_inline()
        if words:
            raise ProtocolError(b"expected '*' in the replication stream")
        return words


class Part(NamedTuple):
    """Commands to be run one after the other."""

    requests: list[Request]
    # The offset before the first of them is that after the part before. This is the one after the last.
    end: int
    # Whether the primary asks for a confirmation after them: of `end`.
    is_confirmed: bool


class Incoming:
    """The stream of one link. `offset` is the offset of its first byte, less one."""

    def __init__(self, offset: int) -> None:
        self._reader = StreamReader()
        # All bytes up to here have arrived.
        self.received = offset
        # All bytes up to here were run; the caller advances it with `take`.
        self.applied = offset
        # Bytes that arrived and were not taken.
        self._bytes: deque[bytes] = deque()
        # Requests from a MULTI on whose EXEC is missing.
        self._held: list[Request] = []

    def feed(self, data: bytes) -> list[Part]:
        """Take bytes of the primary. Returns the parts that can be run. Raises ProtocolError.

        Hot: nearly all reads have no MULTI and no REPLCONF.
        """
        requests = self._reader.feed(data)
        self.received += len(data)
        self._bytes.append(data)
        if self._reader.error is not None:
            raise self._reader.error
        if self._reader.dropped:
            raise ProtocolError(b"a request that is no command")
        end = self.received - self._reader.buffered_size
        if self._held:
            return self._end_held(requests, end)
        for request in requests:
            if request[0] in _MARKS:
                return self._split(requests, 0, end)
        return [Part(requests, end, False)] if requests else []

    def _end_held(self, requests: list[Request], end: int) -> list[Part]:
        """Look for the EXEC of the transaction that is held back."""
        for index, request in enumerate(requests):
            if request[0] in _EXEC:
                first = len(self._held) + index
                requests, self._held = self._held + requests, []
                return self._split(requests, first, end)
        self._held += requests
        return []

    def _split(self, requests: list[Request], first_mark: int, end: int) -> list[Part]:
        """Split at requests for a confirmation, and hold back what follows a MULTI without EXEC. No mark that counts is
        before `first_mark`.
        """
        parts: list[Part] = []
        first, multi_at = 0, -1
        for index in range(first_mark, len(requests)):
            name = requests[index][0]
            if name not in _MARKS:
                continue
            if name in _MULTI:
                multi_at = index
            elif name in _EXEC:
                multi_at = -1
            elif multi_at < 0 and _asks_for_confirmation(requests[index]):
                # The confirmation does not count the request itself, which counts with the next part.
                parts.append(Part(requests[first:index], end - size_of(requests[index:]), True))
                first = index + 1
        if multi_at >= 0:
            self._held = requests[multi_at:]
            end -= size_of(self._held)
            requests = requests[:multi_at]
        parts.append(Part(requests[first:], end, False))
        return parts

    def take(self, end: int) -> bytes:
        """Count the bytes up to this offset, whose commands were run. Returns them."""
        size = end - self.applied
        self.applied = end
        pieces: list[bytes] = []
        while size:
            piece = self._bytes.popleft()
            if len(piece) > size:
                self._bytes.appendleft(piece[size:])
                piece = piece[:size]
            pieces.append(piece)
            size -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _asks_for_confirmation(request: Request) -> bool:
    return len(request) > 1 and request[1].upper() == b"GETACK"


def size_of(requests: list[Request]) -> int:
    """Bytes of these requests as a primary sends them."""
    size = 0
    for words in requests:
        size += len(b"*%d\r\n" % len(words)) + sum([len(b"$%d\r\n\r\n" % len(word)) + len(word) for word in words])
    return size


def unit_start(requests: list[Request], index: int) -> int:
    """The index of the MULTI of the transaction that this request belongs to; the index itself outside of one."""
    for at in range(index - 1, -1, -1):
        if requests[at][0] in _EXEC:
            break
        if requests[at][0] in _MULTI:
            return at
    return index
