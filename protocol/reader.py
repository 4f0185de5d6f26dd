"""Parses requests. Every limit is checked before memory is reserved. No I/O.

There are two parsers. The careful one reads header by header and knows every rule and error. The fast one (`frames`, or
`frames_plain` if that was not compiled) takes complete requests off the front. In case of doubt the careful parser
reads the same bytes, of which nothing has been executed. The result never depends on which parser was used.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final

from .packing import read_words, splitter
from .requests import CROSS_PROTOCOL, ReadWords, Request, Split

# Arguments that one request may announce, as in Redis. The header reserves no memory; arguments are stored as they
# arrive.
MULTIBULK_COUNT_MAX: Final = 2**31 - 1
# Largest size in bytes of an inline request or header line without its end. A longer one is refused.
INLINE_SIZE_MAX: Final = 64 * 1024
UNAUTHENTICATED_COUNT_MAX: Final = 10
UNAUTHENTICATED_BULK_SIZE_MAX: Final = 16384
# Bytes that a client may send before it has authenticated: enough for HELLO with AUTH, too little to do harm.
UNAUTHENTICATED_BUFFER_SIZE_MAX = 1024 * 1024
# Bytes of a whole request, unless `client-query-buffer-limit` is larger. Redis has no such limit.
REQUEST_SIZE_MAX = 1024**3

_ASTERISK: Final = 0x2A
_DOLLAR: Final = 0x24

_CANONICAL: Final = re.compile(rb"0|-?[1-9][0-9]*")
# Digits and sign of the longest 64-bit number. All limits are far below such a number.
_NUMBER_SIZE_MAX: Final = 20


class ProtocolError(Exception):
    """A request that breaks the protocol. `wire_text` is the text of the error reply, after which the connection
    closes, and `code` the word under which it is counted."""

    code: ClassVar[bytes] = b"ERR"

    def __init__(self, text: bytes) -> None:
        super().__init__(text.decode("latin-1"))
        self.text = text

    @property
    def wire_text(self) -> bytes:
        """Text after the `-` of the error reply."""
        return b"ERR Protocol error: " + self.text.replace(b"\r", b" ").replace(b"\n", b" ")


class UnauthenticatedError(ProtocolError):
    """A request larger than a client may send before it has authenticated. Its header is left unread."""


class RequestReader:
    """Turns bytes into complete requests. After a fault `error` or `dropped` is set, and no more requests are returned.

    `bulk_size_max` (proto-max-bulk-len), `query_buffer_size_max` (client-query-buffer-limit), both in bytes, and
    `authenticated` may be changed at any time, with effect from the next header on. `split` is another fast parser; it
    may return requests in a form of its own.
    """

    def __init__(
        self,
        bulk_size_max: int = 512 * 1024 * 1024,
        query_buffer_size_max: int = 1024**3,
        *,
        split: Split | None = None,
    ) -> None:
        self.bulk_size_max = bulk_size_max
        self.query_buffer_size_max = query_buffer_size_max
        self.authenticated = True
        self.error: ProtocolError | None = None
        # The connection must close without a reply.
        self.dropped = False
        # Whether the connection must close because of `POST` or `Host:`, which for instance a browser was tricked into
        # sending.
        self.is_cross_protocol = False
        self._buffer = bytearray()
        # Offset of the unread bytes in `_buffer`; 0 between two feeds.
        self._position = 0
        # Offset up to which a line end has been searched for.
        self._scanned = 0
        self._arguments: Request = []
        # Arguments that the current request still lacks; 0 between requests.
        self._missing = 0
        # Size of the argument being received; -1 while its header is.
        self._bulk_size = -1
        # Offset in `_buffer` at which the current request begins, or continues after an earlier feed.
        self._request_start = 0
        # Bytes of the current request that were removed from `_buffer`.
        self._taken_size = 0
        # Bytes received and not yet part of a complete request.
        self.buffered_size = 0
        self._split = splitter() if split is None else split
        # Reads those arguments of an incomplete request that are in no doubt.
        self._read_words: ReadWords = read_words

    def feed(self, data: bytes) -> list[Request]:
        """Return all requests that are complete with these bytes, in order. After a fault only those before it."""
        if self.error is not None or self.dropped:
            return []
        if self._missing or self._buffer:
            # Only the current request is finished by the careful parser. What follows can be fast again, and no byte of
            # a request that arrives in many reads is read twice.
            self._buffer += data
            requests = self._feed_carefully(1)
            if requests and self._buffer and self.error is None and not self.dropped:
                data = bytes(self._buffer)
                self._buffer.clear()
                self._scanned = 0
                requests += self._feed_whole(data)
        else:
            requests = self._feed_whole(data)
        if self._taken_size or self._buffer or self.buffered_size:
            self._measure_buffer()
        return requests

    def authenticate(self) -> list[Request]:
        """Remove the limits that hold before authentication. Returns the requests that they had stopped."""
        self.authenticated = True
        if not isinstance(self.error, UnauthenticatedError):
            return []
        self.error = None
        return self.feed(b"")

    def _feed_whole(self, data: bytes) -> list[Request]:
        """Return the requests of bytes that begin with a request. The rest of the bytes is in `_buffer` afterwards."""
        requests: list[Request] = []
        if self.authenticated and data[:1] == b"*":
            requests, taken_size = self._split(data, self.bulk_size_max)
            if taken_size == len(data):
                return requests
            data = data[taken_size:]
        self._buffer += data
        requests += self._feed_carefully()
        return requests

    @property
    def unparsed_size(self) -> int:
        """Bytes that belong to no complete argument: what `client-query-buffer-limit` counts, as in Redis."""
        return len(self._buffer)

    def _measure_buffer(self) -> None:
        self.buffered_size = self._taken_size + len(self._buffer)
        size_max = self.query_buffer_size_max
        if not self.authenticated:
            size_max = min(size_max, UNAUTHENTICATED_BUFFER_SIZE_MAX)
        if len(self._buffer) > size_max or self.buffered_size > max(size_max, REQUEST_SIZE_MAX):
            self.dropped = True

    # -- the careful parser ----------------------------------------------------------------------

    def _feed_carefully(self, count_max: int | None = None) -> list[Request]:
        """Read all buffered requests, or at most `count_max`, and drop the bytes that were read."""
        requests: list[Request] = []
        try:
            while self._missing or self._position < len(self._buffer):
                if not self._read_request(requests) or len(requests) == count_max:
                    break
        except ProtocolError as error:
            self.error = error
        self._taken_size += self._position - self._request_start
        del self._buffer[: self._position]
        self._scanned = max(0, self._scanned - self._position)
        self._position = self._request_start = 0
        return requests

    def _read_request(self, requests: list[Request]) -> bool:
        """Read one request; an empty one is not added to `requests`. Returns False if bytes are missing or wrong."""
        if not self._missing and self._buffer[self._position] != _ASTERISK:
            inline = self._read_inline()
            return inline is not None and self._end_request(inline, requests)
        if not self._missing and not self._read_count():
            return False
        if self._missing and not self._read_arguments():
            return False
        return self._end_request(self._arguments, requests)

    def _end_request(self, request: Request, requests: list[Request]) -> bool:
        """Add a request that is complete up to `_position`, if it has words. Returns False if it is none to be run."""
        self._arguments = []
        self._request_start, self._taken_size = self._position, 0
        if request:
            if request[0] in CROSS_PROTOCOL:
                self.dropped = self.is_cross_protocol = True
                return False
            requests.append(request)
        return True

    def _read_inline(self) -> Request | None:
        """Return an inline request, which is empty for a blank line; None while its end is missing."""
        end = self._buffer.find(b"\n", max(self._position, self._scanned))
        if end < 0:
            self._miss_line_end(b"too big inline request")
            return None
        self._check_line(end, b"too big inline request")
        line = bytes(self._buffer[self._position : end])
        words = split_words(line.removesuffix(b"\r"))
        if words is None:
            raise ProtocolError(b"unbalanced quotes in request")
        self._position = end + 1
        return words

    def _find_header_end(self, error: bytes) -> int:
        """Return the offset of the CR of a header line, -1 while the two bytes of its end are missing."""
        end = self._buffer.find(b"\r", max(self._position, self._scanned))
        if end < 0:
            self._miss_line_end(error)
            return -1
        self._check_line(end, error)
        return end if end + 1 < len(self._buffer) else -1

    def _miss_line_end(self, error: bytes) -> None:
        self._scanned = len(self._buffer)
        self._check_line(self._scanned, error)

    def _check_line(self, end: int, error: bytes) -> None:
        """Refuse a line that is too long, whether or not its end has arrived. Redis checks only before the end has
        arrived."""
        if end - self._position > INLINE_SIZE_MAX:
            raise ProtocolError(error)

    def _read_count(self) -> bool:
        end = self._find_header_end(b"too big mbulk count string")
        if end < 0:
            return False
        count = _number(self._buffer, self._position + 1, end)
        if count is None or count > MULTIBULK_COUNT_MAX:
            raise ProtocolError(b"invalid multibulk length")
        if count > UNAUTHENTICATED_COUNT_MAX and not self.authenticated:
            raise UnauthenticatedError(b"unauthenticated multibulk length")
        self._missing = max(count, 0)
        self._position = end + 2
        return True

    def _read_bulk_size(self) -> bool:
        if self._position == len(self._buffer):
            return False
        mark = self._buffer[self._position]
        if mark != _DOLLAR:
            raise ProtocolError(b"expected '$', got '%c'" % mark)
        end = self._find_header_end(b"too big bulk count string")
        if end < 0:
            return False
        size = _number(self._buffer, self._position + 1, end)
        if size is None or not 0 <= size <= self.bulk_size_max:
            raise ProtocolError(b"invalid bulk length")
        if size > UNAUTHENTICATED_BULK_SIZE_MAX and not self.authenticated:
            raise UnauthenticatedError(b"unauthenticated bulk length")
        self._bulk_size = size
        self._position = end + 2
        return True

    def _read_arguments(self) -> bool:
        """Read arguments until none is missing. The two bytes after each are ignored, as in Redis."""
        buffer = self._buffer
        arguments = self._arguments
        total = len(arguments) + self._missing
        size_max = min(self.bulk_size_max, self.query_buffer_size_max - 2) if self.authenticated else -1
        while self._missing:
            if self._bulk_size < 0:
                self._position = self._read_words(buffer, self._position, self._missing, size_max, arguments)
                self._missing = total - len(arguments)
                if not self._missing:
                    break
            if self._bulk_size < 0 and not self._read_bulk_size():
                return False
            end = self._position + self._bulk_size
            if len(buffer) < end + 2:
                return False
            if self._bulk_size + 2 > self.query_buffer_size_max:
                self.dropped = True  # with its end it has filled a buffer of its own
                return False
            with memoryview(buffer) as view:  # a slice of the bytearray would be a second copy of a large value
                arguments.append(bytes(view[self._position : end]))
            self._position = end + 2
            self._bulk_size = -1
            self._missing -= 1
        return True


def _number(buffer: bytearray, start: int, end: int) -> int | None:
    """Return the number if `buffer[start:end]` is a canonical decimal, otherwise None."""
    if end - start > _NUMBER_SIZE_MAX or not _CANONICAL.fullmatch(buffer, start, end):
        return None
    return int(buffer[start:end])


# A character outside quotes, "..." with escapes, '...' with \' only. The quantifiers are possessive: there is one way
# to read a word.
_PIECE: Final = re.compile(
    rb"""([^ \t\r\n"']++)|"((?:\\.|[^"])*+)"|'((?:\\'|[^'])*+)'""",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(rb"\\x([0-9a-fA-F]{2})|\\(.)", re.DOTALL)
_ESCAPES: Final = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}
_WORD_ENDS: Final = b" \t\r\n"
# Bytes that may separate words or follow a quoted one. Inside a word, vertical tab and form feed are ordinary.
_BLANKS: Final = b" \t\n\v\f\r"


def split_words(line: bytes) -> list[bytes] | None:
    r"""Split like a shell: blanks, `"..."` with escapes, `'...'` with `\'` only. None for unbalanced quotes.

    A quote may begin anywhere in a word. Its end must be followed by a blank or the end of the line.
    """
    words: list[bytes] = []
    position, end = 0, len(line)
    while True:
        while position < end and line[position] in _BLANKS:
            position += 1
        if position == end:
            return words
        word = b""
        while position < end and line[position] not in _WORD_ENDS:
            match = _PIECE.match(line, position)
            if match is None:
                return None
            position = match.end()
            if match[1] is not None:
                word += match[1]
                continue
            if position < end and line[position] not in _BLANKS:
                return None
            word += _unescape(match[2]) if match[2] is not None else match[3].replace(b"\\'", b"'")
            break
        words.append(word)


def _unescape(text: bytes) -> bytes:
    def replace(match: re.Match[bytes]) -> bytes:
        if match[1] is not None:
            return bytes((int(match[1], 16),))
        return _ESCAPES.get(match[2], match[2])

    return _ESCAPE.sub(replace, text)
