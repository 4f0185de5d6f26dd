"""Requests out of bytes, with every ceiling applied before anything is reserved. No I/O.

Two ways lead through the bytes. The careful one reads header by header and knows every rule and error. The fast one
hands a read that ends where a request ends to hiredis, and accepts what it says only if counting shows that nothing but
bulk strings can have been in it; on any doubt the careful way runs over the same bytes. What is executed never depends
on which way was taken.
"""

from __future__ import annotations

import re
from itertools import chain, product
from typing import Final

import hiredis

MULTIBULK_COUNT_MAX: Final = 2**31 - 1
"""Arguments one request may announce. They are counted as they come: the header itself reserves nothing."""
INLINE_SIZE_MAX: Final = 64 * 1024
"""Bytes of one inline request or header line without its end."""
UNAUTHENTICATED_COUNT_MAX: Final = 10
UNAUTHENTICATED_BULK_SIZE_MAX: Final = 16384
UNAUTHENTICATED_BUFFER_SIZE_MAX: Final = 1024 * 1024
"""What a client may send before it has authenticated: enough for HELLO with AUTH, too little to hurt."""

TAIL_SIZE_MAX: Final = 64 * 1024
"""A longer beginning of a request is not read again with what follows it: reading stays linear."""

_SENTINEL: Final = b":7\r\n"
_SENTINEL_VALUE: Final = 7
"""Fed after the last request: it comes back alone unless hiredis is in the middle of something."""

Request = list[bytes]

_CANONICAL: Final = re.compile(rb"0|-?[1-9][0-9]*")
_LARGE_COUNT: Final = re.compile(rb"\*[0-9]{5}")
"""A count that hiredis would reserve a long list for: the careful way reads it."""
_CROSS_PROTOCOL: Final = frozenset(
    bytes(letters) for word in (b"POST", b"HOST:") for letters in product(*({letter, letter | 0x20} for letter in word))
)
"""In any case: the first words of HTTP requests that a browser may have been tricked into sending."""


class ProtocolError(Exception):
    """A broken frame. `wire_text` is the error reply's text; the connection closes after it."""

    def __init__(self, text: bytes) -> None:
        super().__init__(text.decode("latin-1"))
        self.text = text

    @property
    def wire_text(self) -> bytes:
        """Text after the `-` of the error reply."""
        return b"ERR Protocol error: " + self.text.replace(b"\r", b" ").replace(b"\n", b" ")


class RequestReader:
    """Feeds on bytes and gives complete requests. After a fault `error` or `dropped` is set and nothing more comes."""

    def __init__(self, bulk_size_max: int = 512 * 1024 * 1024, query_buffer_size_max: int = 1024**3) -> None:
        self.bulk_size_max = bulk_size_max
        self.query_buffer_size_max = query_buffer_size_max
        self.authenticated = True
        self.error: ProtocolError | None = None
        self.dropped = False
        """The connection must close without a reply."""
        self._buffer = bytearray()
        self._position = 0
        """Where the unread bytes of `_buffer` begin."""
        self._scanned = 0
        """From where on a line end has not been looked for."""
        self._arguments: Request = []
        self._arguments_size = 0
        self._missing = 0
        """Arguments the present request still lacks; 0 between requests."""
        self._bulk_size = -1
        """Size of the argument being received; -1 while its header is."""
        self._request_start = 0
        """Where the present request begins in `_buffer`."""
        self._fast = hiredis.Reader()

    @property
    def buffered_size(self) -> int:
        """Bytes received and not yet part of a complete request."""
        return len(self._buffer) - self._position + self._arguments_size

    def feed(self, data: bytes) -> list[Request]:
        """All requests that are complete with these bytes."""
        if self.error is not None or self.dropped:
            return []
        requests: list[Request] = []
        if self.authenticated and not self._missing and len(self._buffer) <= TAIL_SIZE_MAX:
            if self._buffer:
                data = bytes(self._buffer) + data
                self._buffer.clear()
                self._scanned = 0
            if data[:1] == b"*":
                whole = self._feed_fast(data)
                if whole is not None:
                    return whole
                requests, data = self._feed_fast_head(data)
        self._buffer += data
        self._feed_carefully(requests)
        size_max = self.query_buffer_size_max
        if not self.authenticated:
            size_max = min(size_max, UNAUTHENTICATED_BUFFER_SIZE_MAX)
        if self.buffered_size > size_max:
            self.dropped = True
        return requests

    def authenticate(self) -> list[Request]:
        """Lift the limits of a client that has not authenticated; requests they had refused meanwhile are read again."""
        self.authenticated = True
        unread = bytes(self._buffer[self._request_start :])
        if self.error is None or not self.error.text.startswith(b"unauthenticated") or unread[:1] != b"*":
            return []
        self.error = None
        self._buffer.clear()
        self._position = self._scanned = self._request_start = 0
        self._arguments, self._arguments_size, self._missing, self._bulk_size = [], 0, 0, -1
        return self.feed(unread)

    def _feed_carefully(self, requests: list[Request]) -> None:
        """Read what is buffered; a short beginning of a request stays as bytes, so that the next read can be fast."""
        try:
            self._read_requests(requests)
        except ProtocolError as error:
            self.error = error
            return
        del self._buffer[: self._request_start]
        if len(self._buffer) <= TAIL_SIZE_MAX:
            self._arguments, self._arguments_size, self._missing, self._bulk_size = [], 0, 0, -1
            self._position = self._scanned = 0
        else:
            del self._buffer[: self._position - self._request_start]
            self._scanned -= self._position
            self._position = 0
        self._request_start = 0

    # -- the fast way ----------------------------------------------------------------------------

    def _feed_fast(self, data: bytes) -> list[Request] | None:
        """What hiredis makes of a read of whole requests; None if the careful way must decide.

        Every bulk string costs two line ends and every request one more. If no argument contains a line end, that
        count is exact for requests of nothing but bulk strings: whatever else hiredis knows costs fewer, raises on
        joining, or begins a line with one of the marks looked for. Benchmark rows: all.
        """
        if data[-2:] != b"\r\n" or _LARGE_COUNT.search(data) or _has_other_types(data):
            return None
        reader = self._fast
        try:
            reader.feed(data)
            requests: list[Request] = []
            request = reader.gets()
            while request is not False:
                requests.append(request)
                request = reader.gets()
            reader.feed(_SENTINEL)
            if reader.gets() == _SENTINEL_VALUE:
                arguments = list(chain.from_iterable(requests))
                line_ends = len(requests) + 2 * len(arguments)
                first_words = [request[0] for request in requests if request]
                if (
                    len(first_words) == len(requests)
                    and _CROSS_PROTOCOL.isdisjoint(first_words)
                    and b"\r\n" not in b"".join(arguments)
                    and data.count(b"\r\n") == line_ends
                ):
                    return requests
        except (hiredis.HiredisError, TypeError):
            # Not a list of lists of bytes, or not RESP at all: the careful way says what it is.
            requests = []
        self._fast = hiredis.Reader()
        return None

    def _feed_fast_head(self, data: bytes) -> tuple[list[Request], bytes]:
        """The whole requests before the last one, and the rest: a long pipeline is cut anywhere by the socket."""
        cut = data.rfind(b"\r\n*") + 2
        while cut > 2 and not data[cut + 1 : cut + 2].isdigit():  # the argument of `XADD key *`
            cut = data.rfind(b"\r\n*", 0, cut - 1) + 2
        if cut > 2:
            requests = self._feed_fast(data[:cut])
            if requests is not None:
                return requests, data[cut:]
        return [], data

    # -- the careful way -------------------------------------------------------------------------

    def _read_requests(self, requests: list[Request]) -> None:
        while self._missing or self._position < len(self._buffer):
            if not self._missing:
                self._request_start = self._position
                if self._buffer[self._position] != 0x2A:  # "*"
                    request = self._read_inline()
                    if request is None or self.dropped:
                        return
                    if request:
                        requests.append(request)
                    self._request_start = self._position
                    continue
                if not self._read_count():
                    return
                if not self._missing:
                    self._request_start = self._position
                continue
            if not self._read_argument():
                return
            if not self._missing:
                if self._arguments[0] in _CROSS_PROTOCOL:
                    self.dropped = True
                    return
                requests.append(self._arguments)
                self._arguments, self._arguments_size = [], 0
                self._request_start = self._position

    def _line(self, end_mark: bytes, error: bytes) -> bytes | None:
        """The line at the position without its end, None if its end has not come yet."""
        start = max(self._position, self._scanned)
        end = self._buffer.find(end_mark, start)
        if end < 0 or (end_mark == b"\r" and end + 1 == len(self._buffer)):
            self._scanned = end if end >= 0 else len(self._buffer)
            if end < 0 and len(self._buffer) - self._position > INLINE_SIZE_MAX:
                raise ProtocolError(error)
            return None
        line = bytes(self._buffer[self._position : end])
        self._position = self._scanned = end + (2 if end_mark == b"\r" else 1)
        return line

    def _read_count(self) -> bool:
        line = self._line(b"\r", b"too big mbulk count string")
        if line is None:
            return False
        count = _number(line[1:])
        if count is None or count > MULTIBULK_COUNT_MAX:
            raise ProtocolError(b"invalid multibulk length")
        if count > UNAUTHENTICATED_COUNT_MAX and not self.authenticated:
            raise ProtocolError(b"unauthenticated multibulk length")
        self._missing = max(count, 0)
        return True

    def _read_argument(self) -> bool:
        if self._bulk_size < 0:
            if self._position == len(self._buffer):
                return False
            mark = self._buffer[self._position]
            if mark != 0x24:  # "$"
                raise ProtocolError(b"expected '$', got '%c'" % mark)
            line = self._line(b"\r", b"too big bulk count string")
            if line is None:
                return False
            size = _number(line[1:])
            if size is None or not 0 <= size <= self.bulk_size_max:
                raise ProtocolError(b"invalid bulk length")
            if size > UNAUTHENTICATED_BULK_SIZE_MAX and not self.authenticated:
                raise ProtocolError(b"unauthenticated bulk length")
            self._bulk_size = size
        end = self._position + self._bulk_size
        if len(self._buffer) < end + 2:
            return False
        self._arguments.append(bytes(self._buffer[self._position : end]))
        self._arguments_size += self._bulk_size
        self._position = self._scanned = end + 2
        self._bulk_size = -1
        self._missing -= 1
        return True

    def _read_inline(self) -> Request | None:
        line = self._line(b"\n", b"too big inline request")
        if line is None:
            return None
        words = split_words(line.removesuffix(b"\r"))
        if words is None:
            raise ProtocolError(b"unbalanced quotes in request")
        if words and words[0] in _CROSS_PROTOCOL:
            self.dropped = True
        return words


_OTHER_MARKS: Final = re.compile(rb"\n[=~%>|!][0-9]")


def _has_other_types(data: bytes) -> bool:
    """Whether some line looks like the header of a type that hiredis reads as cheaply as a bulk string."""
    return _OTHER_MARKS.search(data) is not None


def _number(text: bytes) -> int | None:
    """A canonical decimal, None for anything else."""
    if len(text) > 20 or not _CANONICAL.fullmatch(text):
        return None
    return int(text)


_WORD: Final = re.compile(
    rb"""[ \t\n\v\f\r]*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^ \t\n\v\f\r"']+))""", re.DOTALL
)
_ESCAPE: Final = re.compile(rb"\\x([0-9a-fA-F]{2})|\\(.)", re.DOTALL)
_ESCAPES: Final = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}


def split_words(line: bytes) -> list[bytes] | None:
    """Split like a shell: blanks, "..." with escapes, '...' with \\' only. None for unbalanced quotes.

    A quote opens anywhere in a word, and what follows its end must be a blank or the end of the line.
    """
    words: list[bytes] = []
    position, end = 0, len(line.rstrip(b" \t\n\v\f\r\0"))
    while position < end:
        word = b""
        while position < end and line[position : position + 1] in _BLANKS:
            position += 1
        while position < end and line[position : position + 1] not in _BLANKS:
            match = _WORD.match(line, position)
            if match is None:
                return None
            position = match.end()
            if match[3] is not None:
                word += match[3]
                continue
            if position < len(line) and line[position : position + 1] not in _BLANKS:
                return None
            word += _unescape(match[1]) if match[1] is not None else match[2].replace(b"\\'", b"'")
        words.append(word)
    return words


_BLANKS: Final = (b" ", b"\t", b"\n", b"\v", b"\f", b"\r")


def _unescape(text: bytes) -> bytes:
    def replace(match: re.Match[bytes]) -> bytes:
        if match[1] is not None:
            return bytes((int(match[1], 16),))
        return _ESCAPES.get(match[2], match[2])

    return _ESCAPE.sub(replace, text)
