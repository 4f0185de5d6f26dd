r"""The frame of a dataset that a primary sends after +FULLRESYNC. No I/O.

    with its size:   $<n>\r\n and n bytes; the stream follows at once
    with a mark:     $EOF:<40 bytes>\r\n, the bytes, and the same 40 bytes; nothing follows before the replica's next
                     confirmation

Before the frame, a primary sends line ends to show that it lives.
"""

from __future__ import annotations

from typing import Final

MARK_SIZE: Final = 40
# Bytes of the header line without its end.
HEADER_SIZE_MAX: Final = 1024
_MARK_HEADER: Final = b"$EOF:"
# Digits of the longest size.
_DIGITS_MAX: Final = 18


class PayloadError(Exception):
    """What the primary sent is no payload. The text is one line for the user."""


class Payload:
    """The frame of one payload. After `is_complete`, `rest` has the bytes that follow it."""

    def __init__(self) -> None:
        self._buffer = b""
        # Size in bytes; -1 before the header, 0 for a payload with a mark, as INFO shows it.
        self.size = -1
        self._mark = b""
        # Bytes of the payload that arrived, without its frame.
        self.read_size = 0
        self.is_complete = False
        self.rest = b""

    @property
    def has_mark(self) -> bool:
        """Whether the payload ends with a mark: the primary then waits for a confirmation."""
        return bool(self._mark)

    def feed(self, data: bytes) -> bytes:
        """Take bytes of the primary. Returns those that belong to the dataset. Raises PayloadError."""
        assert not self.is_complete
        if self.size < 0:
            self._buffer += data
            if not self._take_header():
                return b""
            data, self._buffer = self._buffer, b""
        return self._take_marked(data) if self._mark else self._take_sized(data)

    def _take_header(self) -> bool:
        """Read the header line, after any line ends. Returns False while its end is missing."""
        self._buffer = self._buffer.lstrip(b"\r\n")
        end = self._buffer.find(b"\n")
        if end < 0:
            if len(self._buffer) > HEADER_SIZE_MAX:
                raise PayloadError("The primary sent a header that is too long instead of its dataset")
            return False
        line, self._buffer = self._buffer[:end].removesuffix(b"\r"), self._buffer[end + 1 :]
        mark, digits = line.removeprefix(_MARK_HEADER), line.removeprefix(b"$")
        if line.startswith(_MARK_HEADER) and len(mark) == MARK_SIZE:
            self.size, self._mark = 0, mark
        elif line.startswith(b"$") and digits.isdigit() and len(digits) <= _DIGITS_MAX:
            self.size = int(digits)
        else:
            text = line.decode("utf-8", "backslashreplace")
            raise PayloadError(f"The primary sent no dataset, but: {text}")
        return True

    def _take_sized(self, data: bytes) -> bytes:
        missing_size = self.size - self.read_size
        taken, self.rest = data[:missing_size], data[missing_size:]
        self.read_size += len(taken)
        self.is_complete = self.read_size == self.size
        return taken

    def _take_marked(self, data: bytes) -> bytes:
        """Return all but the last bytes, which may be the mark. Nothing follows the mark."""
        data = self._buffer + data
        if data.endswith(self._mark):
            self.is_complete = True
            taken, self._buffer = data[:-MARK_SIZE], b""
        else:
            taken, self._buffer = data[:-MARK_SIZE], data[-MARK_SIZE:]
        self.read_size += len(taken)
        return taken
