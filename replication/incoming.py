"""The stream that a replica receives: which commands can be run now, and the offsets before and after them. No I/O.

The offset counts every byte of the stream. A command counts when it was run, MULTI .. EXEC when EXEC was. Until then
the replica confirms the byte before MULTI, and a lost link asks for MULTI again. The bytes are passed on to other
replicas as they are, also when they count.

A request is kept until it is complete, a transaction until its EXEC has come. What may be kept has a limit: a primary
that announces more, or sends more without an end, is not followed.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from ..protocol.reader import ProtocolError, RequestReader
from ..protocol.requests import CROSS_PROTOCOL, Request

# No limit: what a primary has taken, its replicas must take. `Incoming` limits the whole request.
SIZE_MAX: Final = 2**62
# A word of at least so many bytes is kept in the pieces in which it arrives.
LARGE_SIZE: Final = 64 * 1024
# Bytes of the shortest word: `$0`, and two line ends.
_WORD_SIZE_MIN: Final = 6

# The request with which a transaction begins.
BEGINNING: Final = [b"MULTI"]

_MULTI: Final = frozenset((b"MULTI", b"multi"))
# What ends a transaction. A primary sends no DISCARD; Redis takes it.
_EXEC: Final = frozenset((b"EXEC", b"exec", b"DISCARD", b"discard"))
_REPLCONF: Final = frozenset((b"REPLCONF", b"replconf"))
# Command names, in the usual spellings, that this module looks at.
_MARKS: Final = _MULTI | _EXEC | _REPLCONF


class StreamReader(RequestReader):
    """Reads a stream, in which there are no inline commands.

    Large words are not buffered: the pieces in which they arrive are kept by `Incoming` anyway.
    """

    def __init__(self) -> None:
        super().__init__(SIZE_MAX, SIZE_MAX)
        # The pieces of the large word that arrives, and their bytes; none without such a word.
        self._pieces: list[bytes] = []
        self._pieces_size = 0

    def _read_inline(self) -> Request | None:
        words = super()._read_inline()
        if words:
            raise ProtocolError(b"expected '*' in the replication stream")
        return words

    def _end_request(self, request: Request, requests: list[Request]) -> bool:
        if request and request[0] in CROSS_PROTOCOL:
            raise ProtocolError(b"a request that is no command")
        return super()._end_request(request, requests)

    def feed(self, data: bytes) -> list[Request]:
        """As that of all readers."""
        if self._bulk_size < LARGE_SIZE or self.error is not None:
            return super().feed(data)
        if not self._pieces:
            self._pieces.append(bytes(self._buffer))
            self._pieces_size = len(self._buffer)
            self._buffer.clear()
            self._scanned = 0
        self._pieces.append(data)
        self._pieces_size += len(data)
        # Bytes after the word and its line end.
        rest_size = self._pieces_size - self._bulk_size - 2
        if rest_size < 0:
            self.buffered_size = self._taken_size + self._pieces_size
            return []
        requests: list[Request] = []
        self._take_large(rest_size + 2)
        try:
            if not self._missing:
                self._end_request(self._arguments, requests)
        except ProtocolError as error:
            self.error = error
        return requests + super().feed(data[len(data) - rest_size :])

    def _take_large(self, excess: int) -> None:
        """Take the large word out of its pieces, whose last bytes, so many, do not belong to it."""
        pieces = self._pieces
        while len(pieces[-1]) < excess:
            excess -= len(pieces.pop())
        pieces[-1] = pieces[-1][: len(pieces[-1]) - excess]
        self._arguments.append(b"".join(pieces))
        self._missing -= 1
        self._taken_size += self._bulk_size + 2
        self._bulk_size = -1
        self._pieces, self._pieces_size = [], 0

    @property
    def awaited_size(self) -> int:
        """Bytes that must still come, at least, until the request that arrives is complete."""
        if not self._missing:
            return 0
        if self._bulk_size < 0:
            return max(0, _WORD_SIZE_MIN * self._missing - len(self._buffer))
        arrived_size = len(self._buffer) + self._pieces_size
        return max(0, self._bulk_size + 2 - arrived_size) + _WORD_SIZE_MIN * (self._missing - 1)


class Part(NamedTuple):
    """Commands to be run one after the other."""

    requests: list[Request]
    # The offset before the first of them is that after the part before. This is the one after the last.
    end: int
    # Whether the primary asks for a confirmation after them: of `end`.
    is_confirmed: bool


class Incoming:
    """The stream of one link. `offset` is the offset of its first byte, less one. `size_max` limits the bytes of a
    request, and of a transaction.
    """

    def __init__(self, offset: int, size_max: int) -> None:
        self._reader = StreamReader()
        self._size_max = size_max
        # What is wrong after the parts that were returned. Nothing is read any more then.
        self.error: ProtocolError | None = None
        # All bytes up to here have arrived.
        self.received = offset
        # All bytes up to here were run; the caller advances it with `take`.
        self.applied = offset
        # The end of the last part.
        self._parted = offset
        # Bytes that arrived and were not taken.
        self._bytes: deque[bytes] = deque()
        # Requests from a MULTI on whose EXEC is missing.
        self._held: list[Request] = []

    def feed(self, data: bytes) -> list[Part]:
        """Take bytes of the primary. Returns the parts that can be run. Afterwards `error` may be set.

        Hot: nearly all reads have no MULTI and no REPLCONF.
        """
        if self.error is not None:
            return []
        reader = self._reader
        requests = reader.feed(data)
        self.received += len(data)
        self._bytes.append(data)
        parts = self._part(requests, self.received - reader.buffered_size)
        if parts:
            self._parted = parts[-1].end
        if self._parted != self.received or reader.error is not None:
            self.error = self._find_error()
        return parts

    def _find_error(self) -> ProtocolError | None:
        """What is wrong with the bytes after the last part; None if they may be the beginning of a request."""
        reader = self._reader
        if reader.error is not None:
            return reader.error
        size = self.received - self._parted + reader.awaited_size
        if size <= self._size_max:
            return None
        kind = b"transaction" if self._held else b"request"
        return ProtocolError(b"a %b of %d bytes or more, and at most %d are taken" % (kind, size, self._size_max))

    def _part(self, requests: list[Request], end: int) -> list[Part]:
        """Split requests into parts. The last of them ends at this offset."""
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

    def take(self, end: int) -> list[bytes]:
        """Count the bytes up to this offset, whose commands were run. Returns them, in the pieces that arrived."""
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
        return pieces


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
