"""The records of a piece of log: which words there are and where each is.

A log is mostly short words without line ends. Of such a piece numpy finds the lines, a few comparisons prove which of
them are the words of which record, and no record becomes a Python object. Any other piece goes through hiredis.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import hiredis
import numpy as np
import pyarrow as pa

from ..protocol.plain_frames import SLICE_SIZE
from .errors import BadLog
from .lines import DATA_SIZE_MAX, Places, Raw

ANNOTATION: Final = ord("#")
ARRAY: Final = ord("*")
BULK: Final = ord("$")
TIMESTAMP: Final = re.compile(rb"#TS:([0-9]+)\r\n")

Rows = Any
"""Indices of records: an array of int64."""
Stamps = list[tuple[int, int]]
"""Index of a record, and the time (Unix seconds) that holds from it on."""


class Records:
    """Record r has `counts[r]` words, the first of which is word `firsts[r]`. A word is a part of `raw`."""

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
        """Words by their index, ascending, as a column of bytes."""
        return self.raw.texts(self.word_starts[indices], self.word_ends[indices])

    def are(self, word: bytes, indices: Any) -> Any:
        """Which of these words are `word`."""
        return self.raw.are(word, self.word_starts[indices], self.word_ends[indices])

    def first_octets(self, indices: Any) -> Any:
        """The first byte of each of these words; of an empty one, what is behind it."""
        return self.raw.octets[self.word_starts[indices]]

    def by_name(self) -> dict[bytes, Rows]:
        """Which records have which name, in capitals."""
        if self._by_name is None:
            names = self.words(self.firsts).dictionary_encode()
            indices = names.indices.to_numpy(zero_copy_only=False)
            rows: dict[bytes, list[Rows]] = {}
            for index, name in enumerate(names.dictionary.to_pylist()):
                rows.setdefault(name.upper(), []).append(np.flatnonzero(indices == index))
            self._by_name = {name: np.sort(np.concatenate(parts)) for name, parts in rows.items()}
        return self._by_name

    def lists(self, rows: Rows) -> list[list[bytes]]:
        """Records as Python objects."""
        _, indices = self.spread(rows, 0, self.counts[rows])
        words = iter(self.words(indices).to_pylist())
        return [[next(words) for _ in range(count)] for count in self.counts[rows].tolist()]

    def spread(self, rows: Rows, start: int, ends: Any) -> tuple[Any, Any]:
        """The words from `start` up to `ends` of each record: for each its place in `rows`, and its index."""
        sizes = ends - start
        owners: Any = np.repeat(np.arange(len(rows)), sizes)
        offsets = np.arange(len(owners)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return owners, self.firsts[rows][owners] + start + offsets


@dataclass(slots=True)
class Parsed:
    """A piece of log."""

    records: Records
    stamps: Stamps
    is_whole: bool
    """Whether it ends with a record or a line."""


def parse(data: bytes, offset: int = 0) -> Parsed:
    """All records of some bytes. Raises BadLog for what is no record."""
    return parse_alike(data) or parse_any(data, offset)


def parse_alike(data: bytes) -> Parsed | None:
    """Hot: `benchmarks.pipeline`. None if it cannot be proven what the lines are, or there is a record too many.

    What begins with `*` or `#` and is no value should be where the one before it ends. If all are, and all words are as
    long as they announce, then reading one after the other would find the same.
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
        if data.find(b"\n", start, end) >= 0:  # where an annotation ends already
            return None
        if stamp := TIMESTAMP.fullmatch(data, start, end + 2):
            stamps.append((int(np.count_nonzero(is_record[:index])), int(stamp[1])))
    return Parsed(Records(raw, word_starts, word_ends, counts[is_record]), stamps, is_whole=True)


def _are_values(raw: Raw, starts: Places, ends: Places, lines: Any) -> Any:
    """Which of these lines are as long as a `$` line before them announces."""
    before = np.maximum(lines - 1, 0)
    is_announced = (raw.octets[starts[before]] == BULK) & (lines > 0)
    found: Any = np.zeros(len(lines), bool)
    here, size = lines[is_announced], before[is_announced]
    found[is_announced] = raw.numbers(starts[size], ends[size]) == ends[here] - starts[here]
    return found


def parse_any(data: bytes, offset: int = 0) -> Parsed:
    """The same by hiredis. Raises BadLog.

    hiredis knows no annotations: it is fed up to each place where one may begin. If it is in the middle of a value
    there, the place was none.
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
        # RESP has more types than records have: what begins with no name is none.
        are_commands = all(records) and {type(word) for word in words} <= {bytes}
    except (hiredis.HiredisError, TypeError):
        are_commands = False
    if not are_commands:
        raise BadLog(f"no record where one should be, at or after offset {offset}")
    return Parsed(_records_of(records, words), stamps, position == size and not reader.has_data())


def _records_of(records: list[list[bytes]], words: list[bytes]) -> Records:
    ends = np.cumsum(np.fromiter(map(len, words), np.int64, len(words)))
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1])) if len(words) else ends
    counts = np.fromiter(map(len, records), np.int64, len(records))
    # A byte more: an empty word at the end is at a place of the data as well.
    return Records(Raw(b"".join(words) + b"\0"), starts, ends, counts)


def nullable(column: Any, is_there: Any) -> Any:
    """The values of a column, each at one of the places where one is there; null elsewhere."""
    if is_there.all():
        return column
    return column.take(pa.array(np.cumsum(is_there) - 1, mask=~is_there))
