"""The codec: argument vectors to records and back, with exact byte offsets.

A record is a command as RESP sends it: an array of bulk strings. Between records there may be lines that start
with `#`, e.g. `#TS:1700000000`; they are skipped, but for checksum lines. Anything else between records is damage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from ..protocol.packing import pack_command, record_splitter, splitter
from ..protocol.plain_frames import SLICE_SIZE, is_run
from .checksum import CHECKSUM_PREFIX, EMPTY_BLOCK_LINE, OpenBlock, checksum_line

MULTI: Final = pack_command((b"MULTI",))
EXEC: Final = pack_command((b"EXEC",))

HEADER_SIZE_MAX: Final = 16
"""`*` or `$`, ten digits, CR LF, and some room: a longer number is damage."""
ARGUMENT_SIZE_MIN: Final = 6
"""`$0`, CR LF, CR LF: a record of more arguments than fit into what is left of the file is torn."""

HELD_SIZE_MAX: Final = 1024 * 1024
"""Bytes of records held back for want of a checksum line. Blocks of a busy server are far smaller, and a log of Redis,
which has no such lines, must not gather in memory."""

LOOKAHEAD_SIZE: Final = 4 * 1024 * 1024
"""Bytes looked through after a record that makes no sense, for a checksum line that proves damage."""

OnAnnotation = Callable[[int, bytes], None]
"""(offset, line), for annotations that are not checksum lines. Raising ends the reading."""

_ASTERISK: Final = ord("*")
_DOLLAR: Final = ord("$")
_ZERO: Final = ord("0")
_HASH: Final = ord("#")
_CHECKSUM_START: Final = b"\n" + CHECKSUM_PREFIX


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

    - The line is at hand and right: the bytes are what the log wrote, and are read at once.
    - Otherwise some records at once, or argument after argument where these are not plain: nothing is reserved for
      what is only announced. Records are held back until the line comes. What no line has covered after HELD_SIZE_MAX
      bytes, or at the end of the file, is given out unverified.

    `offset` is the end of the last record or line given out; inside of a verified block it stays where that begins, up
    to the last record. At the end of the file everything from there on is torn. `start` is where in the file the first
    piece begins. With `gathers_runs` neighbours that are alike come as `ADDITIONS` and `CLAIMS` say.
    """

    def __init__(
        self, size: int, on_annotation: OnAnnotation | None = None, *, start: int = 0, gathers_runs: bool = False
    ) -> None:
        self.size = size
        self.offset = start
        self.is_torn = False
        """The next record announces more than fits into the file."""
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
        self._arguments: list[bytes] = []
        """Those of the present record that are there."""
        self._missing = 0
        """Arguments it lacks; 0 between records."""
        self._argument_at = 0
        """Where in the window the first of these begins."""
        self._block = OpenBlock()
        self._hashed = 0
        """Up to where in the window the bytes have gone into `_block`."""
        self._is_block_start = True
        self._held: list[tuple[list[bytes], int]] = []
        """(record, offset of its end)."""
        self._split = record_splitter() if gathers_runs else splitter()

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

    @property
    def has_blocks_behind(self) -> bool:
        """Whether more blocks stand behind the damaged one, as far as was looked."""
        lines_count = self._window.count(_CHECKSUM_START, self._position)
        return lines_count > (0 if isinstance(self._damage, Mismatch) else 1)

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
            elif not self._hold_records():
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
        self._argument_at -= position
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
        records, taken_size = self._split(block, len(block))
        if taken_size < len(block):  # another annotation among the records, or a record that takes more care
            return []
        self._position = end + len(line)
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
        """Step over an annotation; False if its end is not there yet, or all ends here."""
        start = self._position
        end = self._window.find(b"\n", start) + 1
        if not end:
            return False
        line = bytes(self._window[start:end])
        if line.startswith(CHECKSUM_PREFIX):
            self._hash_up_to(start)
            self._position = end
            self._close_block(line)
            return self._damage is None
        if self._on_annotation is not None:
            self._on_annotation(self._parsed_offset, line)
        self._position = end
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

    def _hold_records(self) -> bool:
        """Read what begins here, a record at least; False if that takes more bytes or cannot be done."""
        if not self._missing and self._hold_plain_records():
            return True
        try:
            is_whole = (self._missing > 0 or self._read_count()) and self._read_arguments()
        except Damage as damage:
            self._damage = damage
            return False
        if is_whole:
            self._position = self._argument_at
            self._held.append((self._arguments, self._parsed_offset))
            self._arguments = []
        return is_whole

    def _hold_plain_records(self) -> bool:
        """Take those that are requests to the letter, as nearly all are; False if none is. Packing tells the sizes."""
        window, start = self._window, self._position
        records, _ = self._split(bytes(window[start : start + SLICE_SIZE]), SLICE_SIZE)
        for record in records:
            packed = record[2] if is_run(record) else pack_command(record)
            if not window.startswith(packed, self._position):
                break
            self._position += len(packed)
            self._held.append((record, self._parsed_offset))
        return self._position > start

    def _read_count(self) -> bool:
        """How many arguments the next record has; False asks for more bytes. Raises Damage."""
        start = self._position
        if self._window[start] != _ASTERISK:
            raise Damage(self._parsed_offset, "no record begins here")
        end = self._header_end(start, "no count of arguments")
        if end < 0:
            return False
        count = self._number(start, end, "no count of arguments")
        if not count:
            raise Damage(self._parsed_offset, "no count of arguments")
        self.is_torn = count * ARGUMENT_SIZE_MIN > self.size - self._parsed_offset
        if self.is_torn:
            return False
        self._missing, self._argument_at = count, end + 2
        return True

    def _read_arguments(self) -> bool:
        """What is there of the arguments; False asks for more bytes. Raises Damage."""
        window = self._window
        while self._missing:
            start = self._argument_at
            if start < len(window) and window[start] != _DOLLAR:
                raise Damage(self._parsed_offset, "not a record of strings")
            header_end = self._header_end(start, "no size of an argument")
            if header_end < 0:
                return False
            value_at = header_end + 2
            value_end = value_at + self._number(start, header_end, "no size of an argument")
            if len(window) < value_end + 2:
                self.is_torn = value_end + 2 > self.size - self._window_offset
                return False
            if not window.startswith(b"\r\n", value_end):
                raise Damage(self._parsed_offset, "an argument is not as long as it says")
            self._arguments.append(bytes(window[value_at:value_end]))
            self._argument_at = value_end + 2
            self._missing -= 1
        return True

    def _header_end(self, start: int, complaint: str) -> int:
        """Where the line of a number ends, -1 if that takes more bytes. Raises Damage."""
        end = self._window.find(b"\r\n", start, start + HEADER_SIZE_MAX)
        if end < 0 and len(self._window) - start >= HEADER_SIZE_MAX:
            raise Damage(self._parsed_offset, complaint)
        return end

    def _number(self, start: int, end: int, complaint: str) -> int:
        """The number behind the mark at `start`, in the one form that is written. Raises Damage."""
        digits = self._window[start + 1 : end]
        if not digits.isdigit() or (digits[0] == _ZERO and len(digits) > 1):
            raise Damage(self._parsed_offset, complaint)
        return int(digits)
