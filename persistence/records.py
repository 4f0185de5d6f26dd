"""The codec: argument vectors to records and back, with exact byte offsets.

A record is a command as RESP sends it: an array of bulk strings. Between records there may be lines that start with
`#`, e.g. `#TS:1700000000`; they are skipped, except for checksum lines and policy lines. Anything else between records
is damage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from ..protocol.packing import pack_command, splitter
from ..protocol.requests import SLICE_SIZE
from .checksum import CHECKSUM_PREFIX, EMPTY_BLOCK_LINE, OpenBlock, checksum_line
from .errors import BadPolicyLine
from .grammar.kept import POLICY, is_run
from .grammar.streams import record_splitter
from .placing import PLACE_PREFIX
from .policy_lines import PolicyLines, is_policy_line

MULTI: Final = pack_command((b"MULTI",))
EXEC: Final = pack_command((b"EXEC",))

# `*` or `$`, ten digits, CR LF, and some room: a longer number is damage.
HEADER_SIZE_MAX: Final = 16
# `$0`, CR LF, CR LF: a record with more arguments than fit in the rest of the file is incomplete.
ARGUMENT_SIZE_MIN: Final = 6

# Bytes of records that are held back until their checksum line is read. Blocks of a busy server are far smaller, and a
# log of Redis, which has no such lines, must not collect in memory.
HELD_SIZE_MAX: Final = 1024 * 1024

# Bytes that are searched after an invalid record for a checksum line, which proves damage.
LOOKAHEAD_SIZE: Final = 4 * 1024 * 1024

# (offset, line), for annotations that are neither checksum lines nor places nor policy lines. Raising ends the reading.
OnAnnotation = Callable[[int, bytes], None]

_ASTERISK: Final = ord("*")
_DOLLAR: Final = ord("$")
_ZERO: Final = ord("0")
_HASH: Final = ord("#")
_CHECKSUM_START: Final = b"\n" + CHECKSUM_PREFIX
# What precedes a place or a policy line, or is part of a value.
_OWN_START: Final = b"\n#HR"


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
    """A block that does not match its checksum line. It begins at `offset`."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset, "the checksum of the block does not match")


class RecordReader:
    """Turns a file, fed in pieces, into records. `size` is the file's: nothing may be longer than the rest of the file.

        for piece in pieces: reader.feed(piece)    and then    reader.finish()

    A block with a checksum line is verified before any of its records is returned. There are two cases:

    - The line is in the window and right: the bytes are those that the log wrote, and are parsed at once.
    - Otherwise some records are parsed at once, or one argument at a time if they are not canonical. No memory is
      reserved for announced sizes. Records are held back until the line is read. Records that no line covers after
      HELD_SIZE_MAX bytes, or at the end of the file, are returned unverified.

    `offset` is the end of the last record or line returned. In a verified block it stays at the block's beginning until
    its last record. At the end of the file everything after `offset` is incomplete. `start` is the offset of the first
    piece in the file. With `gathers_runs` some consecutive records are returned as `ADDITIONS`, `CLAIMS` or `STREAMS`.
    A policy line is returned at its place among the records as `POLICY`: once its last part was read, from the first.
    """

    def __init__(
        self, size: int, on_annotation: OnAnnotation | None = None, *, start: int = 0, gathers_runs: bool = False
    ) -> None:
        self.size = size
        self.offset = start
        # Whether the next record announces more than fits in the file.
        self.is_torn = False
        # Bytes of verified blocks, without their lines.
        self.verified_size = 0
        # Number of verified blocks.
        self.blocks_count = 0
        # The last line that names a place (`placing`), with its end; empty if a record or a policy line follows it.
        # None before the first of these.
        self.place_line: bytes | None = None
        self._on_annotation = on_annotation
        self._damage: Damage | None = None
        self._window = bytearray()
        # Offset of the window in the file.
        self._window_offset = start
        # Offset in the window of the next record or line.
        self._position = 0
        # The arguments of the current record that were read.
        self._arguments: list[bytes] = []
        # Arguments that the current record lacks; 0 between records.
        self._missing = 0
        # Offset in the window of the first missing argument.
        self._argument_at = 0
        self._block = OpenBlock()
        # Offset in the window up to which bytes were added to `_block`.
        self._hashed = 0
        self._is_block_start = True
        # (record, offset of its end).
        self._held: list[tuple[list[bytes], int]] = []
        self._split = record_splitter() if gathers_runs else splitter()
        self._policies = PolicyLines()
        # Offset in the file of the last policy line's first part.
        self._policy_offset = start

    @property
    def _parsed_offset(self) -> int:
        """Offset in the file of the next record or line."""
        return self._window_offset + self._position

    @property
    def _is_stuck(self) -> bool:
        return self.is_torn or self._damage is not None

    @property
    def wants_more(self) -> bool:
        """Whether the reader can use more of the file."""
        return not self._is_stuck or len(self._window) - self._position < LOOKAHEAD_SIZE

    @property
    def has_later_blocks(self) -> bool:
        """Whether more blocks were found after the damaged one."""
        lines_count = self._window.count(_CHECKSUM_START, self._position)
        return lines_count > (0 if isinstance(self._damage, Mismatch) else 1)

    def feed(self, piece: bytes) -> Iterator[list[bytes]]:
        """Yield the records that are ready with this piece. Consume all before feeding the next piece."""
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
        """Yield the records that no checksum line covers, after the last piece. Raises Damage.

        An incomplete write has no checksum line after it. If there is one, the block is damaged, and none of its
        records is returned.
        """
        is_known = isinstance(self._damage, Mismatch)
        if is_known or (self._position < len(self._window) and self._is_covered()):
            raise self._damage or Damage(self._parsed_offset, "a record goes beyond its block")
        yield from self._release()
        if self._damage is not None:
            raise self._damage

    def _release(self) -> Iterator[list[bytes]]:
        """Yield the records that were held back."""
        for record, end in self._held:
            self.offset = end
            yield record
        self._held.clear()
        # The parts of a policy line that were read are no use without the rest.
        self.offset = self._policy_offset if self._policies.is_open else self._parsed_offset

    def _trim(self) -> None:
        """Drop the parsed bytes; the block keeps their hash."""
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
        """Return the records of the block that begins here; none if its line is not in the window, or wrong, or not the
        only line.

        Hot: logs that Headrace has written are loaded this way.
        """
        window, start = self._window, self._position
        end = window.find(_CHECKSUM_START, start) + 1
        if not end:
            return []
        block = bytes(window[start:end])
        line = checksum_line(block)
        if not window.startswith(line, end):
            return []
        records, places = self._split_block(block)
        if not records:
            return []
        self.place_line = places
        self._position = end + len(line)
        self._begin_block(len(block))
        return records

    def _split_block(self, block: bytes) -> tuple[list[list[bytes]], bytes]:
        """Return the records and policy lines of a block, and the place after the last of them, empty if there is none.
        No records if there is another annotation, or a record for the careful parser.
        """
        records, at = self._split(block, len(block))
        if at == len(block):
            return records, b""
        policies = PolicyLines()
        place, end = b"", len(block)
        # Bytes in which a value has what looks like a line: they are not split there.
        passed_size = 0
        while at < end:
            if block[at] == _HASH:
                line_end = block.find(b"\n", at) + 1
                line = block[at:line_end]
                if is_policy_line(line):
                    try:
                        words = policies.take(line)
                    except BadPolicyLine:
                        return [], b""
                    if words is not None:
                        records.append([POLICY, *words])
                        place = b""
                elif line.startswith(PLACE_PREFIX) and not policies.is_open:
                    place = line
                else:
                    return [], b""
                at, passed_size = line_end, 0
                continue
            stop = block.find(_OWN_START, at + passed_size) + 1 or end
            more, size = self._split(block[at:stop], stop - at)
            if policies.is_open or (not size and stop == end):
                return [], b""
            if more:
                records += more
                place = b""
            # Doubled, so that a value with many such places takes no longer than twice the time.
            passed_size = 0 if size else 2 * (stop - at)
            at += size
        return ([], b"") if policies.is_open else (records, place)

    def _begin_block(self, verified_size: int) -> None:
        """Begin a block after a verified one. A block of no bytes is not counted."""
        if verified_size:
            self.verified_size += verified_size
            self.blocks_count += 1
        self._block.clear()
        self._hashed = self._position
        self._is_block_start = True

    def _take_line(self) -> bool:
        """Skip an annotation. Returns False if its end is not in the window, or if reading ends here."""
        start = self._position
        end = self._window.find(b"\n", start) + 1
        if not end:
            return False
        line = bytes(self._window[start:end])
        if is_policy_line(line):
            return self._take_policy_line(line, end)
        if self._policies.is_open:
            return self._miss_policy_part()
        if line.startswith(CHECKSUM_PREFIX):
            self._hash_up_to(start)
            self._position = end
            self._close_block(line)
            return self._damage is None
        if line.startswith(PLACE_PREFIX):
            self.place_line = line
        elif self._on_annotation is not None:
            self._on_annotation(self._parsed_offset, line)
        self._position = end
        self._is_block_start = False
        if not self._held:
            self.offset = self._parsed_offset
        return True

    def _take_policy_line(self, line: bytes, end: int) -> bool:
        """Hold a policy line back as a record is. Returns False if it is damaged. `end` is its end in the window."""
        if not self._policies.is_open:
            self._policy_offset = self._parsed_offset
        try:
            words = self._policies.take(line)
        except BadPolicyLine as error:
            self._damage = Damage(self._policy_offset, str(error))
            return False
        self._position = end
        self._is_block_start = False
        if words is not None:
            self._held.append(([POLICY, *words], self._parsed_offset))
            self.place_line = b""
        return True

    def _miss_policy_part(self) -> bool:
        """Something else is in the place of the next part of a policy line: this is damage. Returns False."""
        self._damage = Damage(self._policy_offset, "a policy line of which a part is missing")
        return False

    def _close_block(self, line: bytes) -> None:
        """Check the block against its checksum line: the held records are valid, or the block is damaged."""
        if line == EMPTY_BLOCK_LINE:
            self._begin_block(0)
        elif line == self._block.line():
            self._begin_block(self._block.size)
        else:
            self._damage = Mismatch(self._parsed_offset - len(line) - self._block.size)
            self._held.clear()

    def _is_covered(self) -> bool:
        """Whether a later checksum line has a size that reaches back to the start of this block."""
        window, start = self._window, self._position
        while (start := window.find(_CHECKSUM_START, start) + 1) > 0:
            end = window.find(b"\n", start) + 1
            if window.endswith(b" %d\r\n" % (self._block.size + start - self._hashed), start, end):
                return True
        return False

    # -- one by one ------------------------------------------------------------------------------

    def _hold_records(self) -> bool:
        """Read at least one record. Returns False if that needs more bytes or is impossible."""
        if self._policies.is_open:
            return self._miss_policy_part()
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
            self.place_line = b""
        return is_whole

    def _hold_plain_records(self) -> bool:
        """Read the records in canonical form, as nearly all are. Returns False if none is. Their sizes follow from
        packing them."""
        window, start = self._window, self._position
        end = window.find(_OWN_START, start, start + SLICE_SIZE) + 1 or start + SLICE_SIZE
        records, _ = self._split(bytes(window[start:end]), SLICE_SIZE)
        for record in records:
            packed = record[2] if is_run(record) else pack_command(record)
            if not window.startswith(packed, self._position):
                break
            self._position += len(packed)
            self._held.append((record, self._parsed_offset))
        if self._position == start:
            return False
        self.place_line = b""
        return True

    def _read_count(self) -> bool:
        """Read the number of arguments of the next record. Returns False if more bytes are needed. Raises Damage."""
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
        """Read the arguments that are in the window. Returns False if more bytes are needed. Raises Damage."""
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
        """Return where the line of a number ends, -1 if more bytes are needed. Raises Damage."""
        end = self._window.find(b"\r\n", start, start + HEADER_SIZE_MAX)
        if end < 0 and len(self._window) - start >= HEADER_SIZE_MAX:
            raise Damage(self._parsed_offset, complaint)
        return end

    def _number(self, start: int, end: int, complaint: str) -> int:
        """Return the number after the mark at `start`, which must be canonical. Raises Damage."""
        digits = self._window[start + 1 : end]
        if not digits.isdigit() or (digits[0] == _ZERO and len(digits) > 1):
            raise Damage(self._parsed_offset, complaint)
        return int(digits)
