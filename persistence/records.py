"""The codec: argument vectors to records and back, with exact byte offsets.

A record is a command as RESP sends it: an array of bulk strings. Between records there may be lines that start
with `#`, e.g. `#TS:1700000000`; they are skipped, but for checksum lines. Anything else between records is damage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import hiredis

from ..protocol.packing import pack_command
from .checksum import CHECKSUM_PREFIX, EMPTY_BLOCK_LINE, OpenBlock, checksum_line

MULTI: Final = pack_command((b"MULTI",))
EXEC: Final = pack_command((b"EXEC",))

HEADER_SIZE_MAX: Final = 16
"""`*`, ten digits, CR LF, and some room: a longer count is damage."""
ARGUMENT_SIZE_MIN: Final = 6
"""`$0`, CR LF, CR LF: a count that cannot fit into what is left of the file is not given to the parser, which
would reserve memory for it."""

HELD_SIZE_MAX: Final = 1024 * 1024
"""Bytes of records held back for want of a checksum line. Blocks of a busy server are far smaller, and a log of Redis,
which has no such lines, must not gather in memory."""

PARSER_SIZE: Final = 16 * 1024
"""Bytes hiredis is fed at once: after each kibibyte it has parsed it moves all that is left."""

LOOKAHEAD_SIZE: Final = 4 * 1024 * 1024
"""Bytes looked through after a record that makes no sense, for a checksum line that proves damage."""

OnAnnotation = Callable[[int, bytes], None]
"""(offset, line), for annotations that are not checksum lines. Raising ends the reading."""

_ASTERISK: Final = ord("*")
_HASH: Final = ord("#")
_CHECKSUM_START: Final = b"\n" + CHECKSUM_PREFIX
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


class Mismatch(Damage):
    """A block that is not what its checksum line says; it begins at `offset`."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset, "the checksum of the block does not match")


class RecordReader:
    """Turns a file, fed in pieces, into records. `size` is the file's: nothing may be longer than what is left.

        for piece in pieces: reader.feed(piece)    and then    reader.finish()

    A block with a checksum line is verified before any of its records is given out. Two ways lead there:

    - The line is at hand and right: the bytes are what the log wrote, and hiredis parses them without further proof.
    - Otherwise record after record, held back until the line comes. The bytes are kept beside hiredis until a record
      is complete, and it is taken only if packing it again gives those bytes: that makes its offset exact. What no line
      has covered after HELD_SIZE_MAX bytes, or at the end of the file, is given out unverified.

    `offset` is the end of the last record or line given out; inside of a verified block it stays where that begins, up
    to the last record. At the end of the file everything from there on is torn. `start` is where in the file the first
    piece begins.
    """

    def __init__(self, size: int, on_annotation: OnAnnotation | None = None, *, start: int = 0) -> None:
        self.size = size
        self.offset = start
        self.is_torn = False
        """The next record announces more arguments than fit into the file."""
        self.verified_size = 0
        """Bytes of verified blocks, without their lines."""
        self.blocks_count = 0
        """Verified blocks."""
        self._on_annotation = on_annotation
        self._damage: Damage | None = None
        self._window = bytearray()
        self._window_offset = start
        """Where in the file the window begins."""
        self._position = 0
        """Where in the window the next record or line begins."""
        self._fed = 0
        """Up to where in the window hiredis has been fed."""
        self._block = OpenBlock()
        self._hashed = 0
        """Up to where in the window the bytes have gone into `_block`."""
        self._is_block_start = True
        self._held: list[tuple[list[bytes], int]] = []
        """(record, offset of its end)."""
        self._parser = self._new_parser()

    @staticmethod
    def _new_parser() -> hiredis.Reader:
        return hiredis.Reader(notEnoughData=_PENDING)

    @property
    def _parsed_offset(self) -> int:
        """Where in the file the next record or line begins."""
        return self._window_offset + self._position

    @property
    def _is_stuck(self) -> bool:
        return self.is_torn or self._damage is not None

    @property
    def wants_more(self) -> bool:
        """False once more of the file would change nothing."""
        return not self._is_stuck or len(self._window) - self._position < LOOKAHEAD_SIZE

    def feed(self, piece: bytes) -> Iterator[list[bytes]]:
        """The records that may be used with this piece. Take all before feeding the next one."""
        self._trim()
        window = self._window
        window += piece
        if self._is_stuck:
            return
        if self._parsed_offset - self.offset > HELD_SIZE_MAX:
            yield from self._release()
        while self._position < len(window):
            if window[self._position] == _HASH:
                if not self._take_line():
                    return
                if self._is_block_start:
                    yield from self._release()
            elif self._is_block_start:
                self._is_block_start = False
                if records := self._take_verified_block():
                    last = records.pop()
                    yield from records
                    self.offset = self._parsed_offset
                    yield last
            elif not self._hold_record():
                return

    def finish(self) -> Iterator[list[bytes]]:
        """The records that no line covers, after the last piece. Raises Damage.

        A write that was cut off has no checksum line behind it. If there is one, this is damage, and nothing of its
        block is given out.
        """
        is_known = isinstance(self._damage, Mismatch)
        if is_known or (self._position < len(self._window) and self._is_covered()):
            raise self._damage or Damage(self._parsed_offset, "a record goes beyond its block")
        yield from self._release()
        if self._damage is not None:
            raise self._damage

    def _release(self) -> Iterator[list[bytes]]:
        """Give out what is held."""
        for record, end in self._held:
            self.offset = end
            yield record
        self._held.clear()
        self.offset = self._parsed_offset

    def _trim(self) -> None:
        """Forget the bytes of what was parsed; the block keeps their hash."""
        position = self._position
        self._hash_up_to(position)
        del self._window[:position]
        self._window_offset += position
        self._fed -= position
        self._position = self._hashed = 0

    def _hash_up_to(self, position: int) -> None:
        self._block.add(self._window[self._hashed : position])
        self._hashed = position

    # -- blocks ----------------------------------------------------------------------------------

    def _take_verified_block(self) -> list[list[bytes]]:
        """The records of the block that begins here; none if its line is not at hand, or wrong, or not the only one.

        Hot: this is how a log of our own is loaded.
        """
        window, start = self._window, self._position
        end = window.find(_CHECKSUM_START, start) + 1
        if not end:
            return []
        block = bytes(window[start:end])
        line = checksum_line(block)
        if not window.startswith(line, end):
            return []
        parser = self._parser
        records: list[list[bytes]] = []
        append, parse = records.append, parser.gets
        try:
            for fed in range(0, len(block), PARSER_SIZE):
                parser.feed(block[fed : fed + PARSER_SIZE])
                while (record := parse()) is not _PENDING:
                    append(record)
            is_whole = not parser.has_data()
        except hiredis.HiredisError:  # another annotation among the records
            is_whole = False
        if not is_whole:
            self._parser = self._new_parser()
            return []
        self._position = self._fed = end + len(line)
        self._begin_block(len(block))
        return records

    def _begin_block(self, verified_size: int) -> None:
        """The block that ends here is verified but for one of no size, which covers nothing."""
        if verified_size:
            self.verified_size += verified_size
            self.blocks_count += 1
        self._block.clear()
        self._hashed = self._position
        self._is_block_start = True

    def _take_line(self) -> bool:
        """Step over an annotation, which the parser never sees; False if its end is not there yet, or all ends here."""
        start = self._position
        end = self._window.find(b"\n", start) + 1
        if not end:
            return False
        line = bytes(self._window[start:end])
        if line.startswith(CHECKSUM_PREFIX):
            self._hash_up_to(start)
            self._position = self._fed = end
            self._close_block(line)
            return self._damage is None
        if self._on_annotation is not None:
            self._on_annotation(self._parsed_offset, line)
        self._position = self._fed = end
        self._is_block_start = False
        if not self._held:
            self.offset = self._parsed_offset
        return True

    def _close_block(self, line: bytes) -> None:
        """A checksum line: what is held is good, or the block is damaged."""
        if line == EMPTY_BLOCK_LINE:
            self._begin_block(0)
        elif line == self._block.line():
            self._begin_block(self._block.size)
        else:
            self._damage = Mismatch(self._parsed_offset - len(line) - self._block.size)
            self._held.clear()

    def _is_covered(self) -> bool:
        """Whether a line further on says how far it is from the start of this block."""
        window, start = self._window, self._position
        while (start := window.find(_CHECKSUM_START, start) + 1) > 0:
            end = window.find(b"\n", start) + 1
            if window.endswith(b" %d\r\n" % (self._block.size + start - self._hashed), start, end):
                return True
        return False

    # -- one by one ------------------------------------------------------------------------------

    def _hold_record(self) -> bool:
        """Parse the record that begins here; False if that takes more bytes or cannot be done."""
        try:
            record = self._parse_record() if self._has_plausible_header() else _PENDING
            if record is _PENDING:
                return False
            self._position += self._checked_size(record)
        except Damage as damage:
            self._damage = damage
            return False
        self._held.append((record, self._window_offset + self._position))  # type: ignore[arg-type]
        return True

    def _parse_record(self) -> object:
        """Raises Damage."""
        parse, window = self._parser.gets, self._window
        try:
            while (record := parse()) is _PENDING and self._fed < len(window):
                # Not beyond an annotation, which hiredis would not understand. If this one is inside of a value, the
                # next turn goes on from there.
                end = min(self._fed + PARSER_SIZE, len(window))
                end = window.find(b"\n#", self._fed, end + 1) + 1 or end
                self._parser.feed(bytes(window[self._fed : end]))
                self._fed = end
        except (hiredis.HiredisError, TypeError, ValueError, MemoryError) as error:
            # The latter three come from other types of RESP inside: a map with a list for a key, a number or a count
            # that nobody wrote.
            raise Damage(self._parsed_offset, "not a record") from error
        return record

    def _has_plausible_header(self) -> bool:
        """Whether the count of the next record may be given to the parser; False asks for more bytes. Raises Damage."""
        window, start = self._window, self._position
        if window[start] != _ASTERISK:
            raise Damage(self._parsed_offset, "no record begins here")
        end = window.find(b"\r\n", start, start + HEADER_SIZE_MAX)
        if end < 0:
            if len(window) - start >= HEADER_SIZE_MAX:
                raise Damage(self._parsed_offset, "no count of arguments")
            return False
        digits = window[start + 1 : end]
        if not digits.isdigit() or not int(digits):
            raise Damage(self._parsed_offset, "no count of arguments")
        self.is_torn = int(digits) * ARGUMENT_SIZE_MIN > self.size - self._parsed_offset
        return not self.is_torn

    def _checked_size(self, record: object) -> int:
        """Bytes of a parsed record, which must be the bytes in the window. Raises Damage."""
        try:
            packed = pack_command(tuple(record))  # type: ignore[arg-type]
        except TypeError as error:
            raise Damage(self._parsed_offset, "not a record of strings") from error
        if not self._window.startswith(packed, self._position):
            raise Damage(self._parsed_offset, "not a record of strings")
        return len(packed)
