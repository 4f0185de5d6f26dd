"""The codec: argument vectors to records and back, with exact byte offsets.

A record is a command as RESP sends it: an array of bulk strings. Between records there may be lines that start
with `#`, e.g. `#TS:1700000000`; they are skipped. Anything else between records is damage.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import hiredis

from ..protocol.packing import pack_command

MULTI: Final = pack_command((b"MULTI",))
EXEC: Final = pack_command((b"EXEC",))

HEADER_SIZE_MAX: Final = 16
"""`*`, ten digits, CR LF, and some room: a longer count is damage."""
ARGUMENT_SIZE_MIN: Final = 6
"""`$0`, CR LF, CR LF: a count that cannot fit into what is left of the file is not given to the parser, which
would reserve memory for it."""

_ASTERISK: Final = ord("*")
_HASH: Final = ord("#")
_PENDING: Final = object()


def select_record(db_index: int) -> bytes:
    """The record that makes a database the current one."""
    return pack_command((b"SELECT", b"%d" % db_index))


def timestamp_line(unix_s: int) -> bytes:
    """The annotation of `aof-timestamp-enabled`: records after it are not older than this."""
    return b"#TS:%d\r\n" % unix_s


class Damage(Exception):
    """Bytes at `offset` that cannot be the beginning of a record."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset
        self.reason = reason


class RecordReader:
    """Turns a file, fed in blocks, into records. `size` is the file's: nothing may be longer than what is left.

    `offset` is the end of the last record or line taken, so at the end of the file everything from there on is torn.
    hiredis does the parsing; the bytes are kept beside it until the record is complete, and a record is taken only if
    packing it again gives those bytes. That is what makes the offset exact.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.offset = 0
        self.is_torn = False
        """The next record announces more arguments than fit into the file: feeding more is pointless."""
        self._window = bytearray()
        self._position = 0
        """Where in the window the next record begins; `offset` counts the same place from the start of the file."""
        self._parser = self._new_parser()

    @staticmethod
    def _new_parser() -> hiredis.Reader:
        return hiredis.Reader(notEnoughData=_PENDING)

    def feed(self, block: bytes) -> Iterator[list[bytes]]:
        """The records that are complete with this block. Raises Damage. Take all before feeding the next one."""
        window = self._window
        del window[: self._position]
        self._position = 0
        window += block
        self._parser.feed(block)
        parse = self._parser.gets
        while self._position < len(window):
            if window[self._position] == _HASH:
                if not self._skip_line():
                    return
                parse = self._parser.gets
                continue
            if not self._has_plausible_header():
                return
            try:
                record = parse()
            except hiredis.HiredisError as error:
                raise Damage(self.offset, "not a record") from error
            if record is _PENDING:
                return
            self._advance(self._checked_size(record))
            yield record

    def _advance(self, size: int) -> None:
        self._position += size
        self.offset += size

    def _has_plausible_header(self) -> bool:
        """Whether the count of the next record may be given to the parser; False asks for more bytes. Raises Damage."""
        window, start = self._window, self._position
        if window[start] != _ASTERISK:
            raise Damage(self.offset, "no record begins here")
        end = window.find(b"\r\n", start, start + HEADER_SIZE_MAX)
        if end < 0:
            if len(window) - start >= HEADER_SIZE_MAX:
                raise Damage(self.offset, "no count of arguments")
            return False
        digits = window[start + 1 : end]
        if not digits.isdigit() or not int(digits):
            raise Damage(self.offset, "no count of arguments")
        self.is_torn = int(digits) * ARGUMENT_SIZE_MIN > self.size - self.offset
        return not self.is_torn

    def _checked_size(self, record: object) -> int:
        """Bytes of a parsed record, which must be the bytes in the window. Raises Damage."""
        try:
            packed = pack_command(tuple(record))  # type: ignore[arg-type]
        except TypeError as error:
            raise Damage(self.offset, "not a record of strings") from error
        if not self._window.startswith(packed, self._position):
            raise Damage(self.offset, "not a record of strings")
        return len(packed)

    def _skip_line(self) -> bool:
        """Step over an annotation; False if its end is not there yet. The parser never sees it."""
        end = self._window.find(b"\n", self._position)
        if end < 0:
            return False
        self._advance(end + 1 - self._position)
        self._parser = self._new_parser()
        self._parser.feed(bytes(self._window[self._position :]))
        return True
