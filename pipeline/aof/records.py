"""Parses the records of a piece of an append-only file: the offsets of every word.

Most words of a log contain no line ends. For such a piece numpy finds the lines, and a few comparisons prove which
lines are the words of which record, so no record becomes a Python object. Other pieces are parsed by hiredis.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import hiredis
import numpy as np
import pyarrow as pa

from ...protocol.requests import SLICE_SIZE
from ..columns.lines import DATA_SIZE_MAX, Places, Raw
from ..errors import BadLog

ANNOTATION: Final = ord("#")
ARRAY: Final = ord("*")
BULK: Final = ord("$")
TIMESTAMP: Final = re.compile(rb"#TS:([0-9]+)\r\n")

# Indices of records: an array of int64.
Rows = Any
# Pairs: the index of a record, and the time (Unix seconds) from that record on.
Stamps = list[tuple[int, int]]


class Records:
    """Records as arrays: record r has `counts[r]` words, of which the first is word `firsts[r]`.

    Word w is the bytes of `raw` from `word_starts[w]` to `word_ends[w]`.
    """

    __slots__ = ("_by_name", "counts", "firsts", "raw", "word_ends", "word_starts")

    def __init__(self, raw: Raw, word_starts: Places, word_ends: Places, counts: Any) -> None:
        self.raw = raw
        self.word_starts = word_starts
        self.word_ends = word_ends
        self.counts = counts
        self.firsts: Any = np.cumsum(counts) - counts
        self._by_name: dict[bytes, Rows] | None = None

    def __len__(self) -> int:
        return len(self.counts)

    def words(self, indices: Any) -> Any:
        """Returns the words with these indices, which ascend, as a column of bytes."""
        return self.raw.texts(self.word_starts[indices], self.word_ends[indices])

    def are(self, word: bytes, indices: Any) -> Any:
        """Returns, for each of these words, whether it equals `word`."""
        return self.raw.are(word, self.word_starts[indices], self.word_ends[indices])

    def first_octets(self, indices: Any) -> Any:
        """Returns the first byte of each of these words; for an empty word, the byte after it."""
        return self.raw.octets[self.word_starts[indices]]

    def by_name(self) -> dict[bytes, Rows]:
        """Returns the indices of the records of each command name, in upper case."""
        if self._by_name is None:
            names = self.words(self.firsts).dictionary_encode()
            indices = names.indices.to_numpy(zero_copy_only=False)
            rows: dict[bytes, list[Rows]] = {}
            for index, name in enumerate(names.dictionary.to_pylist()):
                rows.setdefault(name.upper(), []).append(np.flatnonzero(indices == index))
            self._by_name = {name: np.sort(np.concatenate(parts)) for name, parts in rows.items()}
        return self._by_name

    def lists(self, rows: Rows) -> list[list[bytes]]:
        """Returns records as lists of words."""
        _, indices = self.spread(rows, 0, self.counts[rows])
        words = iter(self.words(indices).to_pylist())
        return [[next(words) for _ in range(count)] for count in self.counts[rows].tolist()]

    def spread(self, rows: Rows, start: int, ends: Any) -> tuple[Any, Any]:
        """Returns the words from `start` up to `ends` of each record: their places in `rows`, and their indices."""
        sizes = ends - start
        owners: Any = np.repeat(np.arange(len(rows)), sizes)
        offsets = np.arange(len(owners)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return owners, self.firsts[rows][owners] + start + offsets


@dataclass(slots=True)
class Parsed:
    """A parsed piece of a log."""

    records: Records
    stamps: Stamps
    # Whether the piece ends where a record or a timestamp line ends.
    is_whole: bool


def parse(data: bytes, offset: int = 0) -> Parsed:
    """Parses all records of a piece. Raises BadLog for bytes that are not a record."""
    return parse_by_lines(data) or parse_by_hiredis(data, offset)


def parse_by_lines(data: bytes) -> Parsed | None:
    """Parses a piece by its lines; None if that cannot be proven correct. Hot: `benchmarks.pipeline`.

    Every line that begins with `*` or `#` and is not a value must follow directly after the end of the record or line
    before it, and every word must have its announced size. Then parsing record by record gives the same result.
    """
    if not data.endswith(b"\r\n") or len(data) > DATA_SIZE_MAX:
        return None
    raw = Raw(data)
    starts, ends = raw.lines()
    octets = raw.octets[starts]
    heads = np.flatnonzero((octets == ARRAY) | (octets == ANNOTATION))
    heads = heads[~_are_values(raw, starts, ends, heads)]
    is_record = octets[heads] == ARRAY
    counts = np.where(is_record, raw.numbers(starts[heads], ends[heads]), 0)
    following = heads + 1 + 2 * counts
    if not len(heads) or heads[0] or (following[:-1] != heads[1:]).any() or following[-1] != len(starts):
        return None
    is_inside: Any = np.ones(len(starts), bool)
    is_inside[heads] = False
    sizes = np.flatnonzero(is_inside).reshape(-1, 2)[:, 0]
    word_starts, word_ends = starts[sizes + 1], ends[sizes + 1]
    if (counts[is_record] < 1).any() or (octets[sizes] != BULK).any():
        return None
    if (raw.numbers(starts[sizes], ends[sizes]) != word_ends - word_starts).any():
        return None
    stamps = []
    for index in np.flatnonzero(~is_record).tolist():
        start, end = int(starts[heads[index]]), int(ends[heads[index]])
        if data.find(b"\n", start, end) >= 0:  # a line feed alone ends an annotation
            return None
        if stamp := TIMESTAMP.fullmatch(data, start, end + 2):
            stamps.append((int(np.count_nonzero(is_record[:index])), int(stamp[1])))
    return Parsed(Records(raw, word_starts, word_ends, counts[is_record]), stamps, is_whole=True)


def _are_values(raw: Raw, starts: Places, ends: Places, lines: Any) -> Any:
    """Returns, for each of these lines, whether a `$` line before it announces its exact size."""
    before = np.maximum(lines - 1, 0)
    is_announced = (raw.octets[starts[before]] == BULK) & (lines > 0)
    found: Any = np.zeros(len(lines), bool)
    here, size = lines[is_announced], before[is_announced]
    found[is_announced] = raw.numbers(starts[size], ends[size]) == ends[here] - starts[here]
    return found


def parse_by_hiredis(data: bytes, offset: int = 0) -> Parsed:
    """Parses a piece with hiredis. Raises BadLog for bytes that are not a record.

    hiredis does not know annotations (`#` lines), so it is fed up to each place where one may begin. If hiredis is in
    the middle of a value there, the `#` belongs to the value.
    """
    reader = hiredis.Reader()
    gets = reader.gets
    position, size = 0, len(data)
    records: list[list[bytes]] = []
    stamps: Stamps = []
    try:
        while position < size:
            if data[position] == ANNOTATION and not reader.has_data():
                end = data.find(b"\n", position) + 1
                if not end:
                    break
                if stamp := TIMESTAMP.fullmatch(data, position, end):
                    stamps.append((len(records), int(stamp[1])))
                position = end
                continue
            end = data.find(b"\n#", position) + 1 or size
            for fed in range(position, end, SLICE_SIZE):
                reader.feed(data[fed : min(fed + SLICE_SIZE, end)])
                records += iter(gets, False)
            position = end
        words = [word for record in records for word in record]
        # RESP has more types than records: a record is a non-empty array of bulk strings.
        are_commands = all(records) and {type(word) for word in words} <= {bytes}
    except (hiredis.HiredisError, TypeError):
        are_commands = False
    if not are_commands:
        raise BadLog(f"expected a record at or after offset {offset}")
    return Parsed(_records_of(records, words), stamps, position == size and not reader.has_data())


def _records_of(records: list[list[bytes]], words: list[bytes]) -> Records:
    ends = np.cumsum(np.fromiter(map(len, words), np.int64, len(words)))
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1])) if len(words) else ends
    counts = np.fromiter(map(len, records), np.int64, len(records))
    # One more byte, so that the offset of an empty last word is within the data.
    return Records(Raw(b"".join(words) + b"\0"), starts, ends, counts)


def nullable(column: Any, is_there: Any) -> Any:
    """Returns a column with the values, in order, where `is_there` is true, and nulls elsewhere."""
    if is_there.all():
        return column
    return column.take(pa.array(np.cumsum(is_there) - 1, mask=~is_there))
