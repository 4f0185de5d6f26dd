"""Finds the first bad byte of a file of records: checks framing, transactions and checksums, not commands.

Messages are those of redis-check-aof, where it has one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import mmap
from typing import Final

from .grammar.kept import POLICY
from .records import Damage, Mismatch, RecordReader

PIECE_SIZE: Final = 256 * 1024
HEADER_SIZE_MAX: Final = 127
NUMBER: Final = re.compile(rb"([+-]?\d+)?")
TIMESTAMP: Final = re.compile(rb"#TS:(\d{1,19})\r\n\Z")


class BadTimestamp(Exception):
    """A `#TS:` line without a number."""


@dataclass(slots=True)
class Findings:
    """The result for one file. Offsets and sizes are in bytes."""

    size: int
    # Offset up to which all units are complete and valid; the size of the file if all are.
    good_offset: int
    # Lines that end before the first bad byte, annotations not counted.
    lines_count: int = 0
    # Policy lines, however many annotation lines each takes.
    policy_lines_count: int = 0
    # Description of the first bad byte, for the user.
    detail: str = ""
    # Blocks whose checksums are right.
    blocks_count: int = 0
    # Bytes of the blocks whose checksums are right.
    verified_size: int = 0
    # Offset of the first timestamp line that is later than `until_s`.
    cut_offset: int | None = None


def examine(data: mmap | bytes, name: str, *, start: int = 0, until_s: int = 0) -> Findings:
    """Check records from `start` on. With `until_s` (Unix seconds) only up to that time: see `Findings.cut_offset`.

    Raises BadTimestamp, with `until_s` only.
    """
    return _Examination(data, name, start, until_s).run()


class _Examination:
    def __init__(self, data: mmap | bytes, name: str, start: int, until_s: int) -> None:
        self._data = data
        self._name = name
        self._start = start
        self._until_s = until_s
        self._reader = RecordReader(len(data), self._read_annotation if until_s else None, start=start)
        self._is_in_group = False
        self._last_argument_offset = start
        self._found = Findings(len(data), start)

    def run(self) -> Findings:
        found, reader = self._found, self._reader
        try:
            self._read()
            self._note_good_offset()
            if reader.offset < found.size and found.cut_offset is None:
                self._explain(reader.offset, "Reached EOF before the end of an annotation")
        except _BadByte as bad:
            self._take(bad)
        except Mismatch as mismatch:
            self._note_good_offset()
            self._stop(mismatch.offset, mismatch.reason.capitalize())
        except Damage as damage:
            self._note_good_offset()
            self._explain(damage.offset, damage.reason)
        if self._is_in_group and not found.detail and found.cut_offset is None:
            self._stop(self._last_argument_offset, "Reached EOF before reading EXEC for MULTI")
        found.blocks_count, found.verified_size = reader.blocks_count, reader.verified_size
        return found

    def _read(self) -> None:
        """Read records while they are valid. Raises Damage, _BadByte."""
        found, reader = self._found, self._reader
        for record in self._records():
            if found.cut_offset is not None and reader.offset > found.cut_offset:
                return
            if record[0] is POLICY:
                found.policy_lines_count += 1
                if not self._is_in_group:
                    found.good_offset = reader.offset
                continue
            word = record[0].upper()
            if word in (b"MULTI", b"EXEC"):
                if self._is_in_group == (word == b"MULTI"):
                    offset = reader.offset - len(word) - 2
                    raise _BadByte(offset, f"Unexpected {word.decode()} in AOF {self._name}", lines_count=3)
                self._is_in_group = word == b"MULTI"
            found.lines_count += 1 + 2 * len(record)
            self._last_argument_offset = reader.offset - len(record[-1]) - 2
            if not self._is_in_group:
                found.good_offset = reader.offset

    def _note_good_offset(self) -> None:
        """Set `good_offset` after the annotations and checksum lines that follow the last record."""
        if not self._is_in_group:
            self._found.good_offset = self._reader.offset

    def _records(self) -> Iterator[list[bytes]]:
        for offset in range(self._start, len(self._data), PIECE_SIZE):
            yield from self._reader.feed(self._data[offset : offset + PIECE_SIZE])
            if not self._reader.wants_more:
                break
        yield from self._reader.finish()

    def _read_annotation(self, offset: int, line: bytes) -> None:
        if not line.startswith(b"#TS:") or self._found.cut_offset is not None:
            return
        match = TIMESTAMP.match(line)
        if match is None:
            raise BadTimestamp
        if int(match[1]) > self._until_s:
            self._found.cut_offset = offset

    def _stop(self, offset: int, text: str) -> None:
        """Record the first bad byte. Damage after `cut_offset` does not matter."""
        cut_offset = self._found.cut_offset
        if cut_offset is None or offset < cut_offset:
            self._found.detail = f"0x{offset:16x}: {text}"
            self._found.cut_offset = None

    def _take(self, bad: _BadByte) -> None:
        self._found.lines_count += bad.lines_count
        if bad.text:
            self._stop(bad.offset, bad.text)
        else:
            self._last_argument_offset = bad.offset

    def _explain(self, start: int, otherwise: str) -> None:
        """Find the first bad byte of the record at `start`. `otherwise` is the text if the framing is right."""
        if self._data[start : start + 1] not in (b"*", b"#"):
            self._stop(start, "")
            if self._found.detail:
                self._found.detail = f"AOF {self._name} format error"
            return
        try:
            self._found.lines_count += _walk(self._data, start)
            self._stop(start, otherwise)
        except _BadByte as bad:
            self._take(bad)


class _BadByte(Exception):
    """The offset of a record's first bad byte, and the number of good lines before. The text is empty if the file ends
    between two lines."""

    def __init__(self, offset: int, text: str, lines_count: int) -> None:
        super().__init__(text)
        self.offset = offset
        self.text = text
        self.lines_count = lines_count


def _walk(data: mmap | bytes, start: int) -> int:
    """Check a record line by line. Returns the number of lines. Raises _BadByte."""
    if data[start : start + 1] == b"#":
        return 0
    arguments_count, offset = _read_number(data, start, b"*", 0)
    lines_count = 1
    for _ in range(arguments_count):
        header_offset = offset
        size, offset = _read_number(data, offset, b"$", lines_count)
        lines_count += 1
        if size < 0:
            text = f"Expected to read string of {size} bytes, which is not in the suitable range"
            raise _BadByte(header_offset, text, lines_count)
        if len(data) - offset < size + 2:
            text = f"Expected to read {size + 2} bytes, got {len(data) - offset} bytes"
            raise _BadByte(offset, text, lines_count)
        end = data[offset + size : offset + size + 2]
        if end != b"\r\n":
            raise _BadByte(offset, rf"Expected \r\n, got: {end.hex()}", lines_count)
        lines_count += 1
        offset += size + 2
    return lines_count


def _read_number(data: mmap | bytes, offset: int, prefix: bytes, lines_count: int) -> tuple[int, int]:
    """The number of a header line, and where the next line begins. Raises _BadByte."""
    line = data[offset : data.find(b"\n", offset, offset + HEADER_SIZE_MAX) + 1 or offset + HEADER_SIZE_MAX]
    if not line:
        raise _BadByte(offset, "", lines_count)
    if line[:1] != prefix:
        text = f"Expected prefix '{prefix.decode()}', got: '{line[:1].decode('latin-1')}'"
        raise _BadByte(offset, text, lines_count)
    number = NUMBER.match(line, 1)
    assert number is not None
    end = line[number.end() : number.end() + 2]
    if end != b"\r\n":
        raise _BadByte(offset, rf"Expected \r\n, got: {end.ljust(2, bytes(1)).hex()}", lines_count)
    return int(number[1] or 0), offset + number.end() + 2
