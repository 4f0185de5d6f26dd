"""Scans a split of an append-only file: events, in the order of the log, that say what happened to each entry."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ..errors import BadLog
from .effects import events_of
from .records import Parsed, Records, parse
from .splits import RECORD_START, Split

# Bytes that are parsed together. If a value contains line ends, its whole piece is parsed the slow way.
PIECE_SIZE: Final = 1024 * 1024
# The time of a record before the first timestamp line.
UNKNOWN: Final = -1


def scan(split: Split, schema: Any) -> Iterator[Any]:
    """Yields the events of a split as RecordBatches of `schema`, one for each piece.

    The last record of the file may be incomplete because the server is writing it; it is left out. Raises BadLog if
    any other split does not end with a record.
    """
    state = _State(split, schema)
    path = Path(split.path)
    with path.open("rb") as file:
        file.seek(split.start)
        left, rest, offset, is_whole = split.end - split.start, b"", split.start, True
        while left:
            piece = file.read(min(PIECE_SIZE, left))
            if not piece:
                raise BadLog(f"{path} ends before offset {split.end}")
            left -= len(piece)
            data = rest + piece
            cut = _last_boundary(data) if left else len(data)
            parsed = parse(data[:cut], offset)
            is_whole = parsed.is_whole
            if not is_whole and left:  # a value contains what looks like a record: read more to find its end
                rest = data
                continue
            try:
                events = state.take(parsed)
            except BadLog as error:
                raise BadLog(f"{path}, at or after offset {offset}: {error}") from None
            if events is not None:
                yield events
            rest, offset = data[cut:], offset + cut
        if not is_whole and not split.is_last:
            raise BadLog(f"{path}: the cut at offset {split.end} is inside of a value; choose another split size")


def _last_boundary(data: bytes) -> int:
    """Returns the last offset at which a record seems to begin, or 0 if there is none."""
    end = len(data)
    while (place := data.rfind(b"\r\n*", 0, end)) >= 0:
        if RECORD_START.match(data, place):
            return place + 2
        end = place
    return 0


class _State:
    """What earlier records say about the next one: database, time and number of records."""

    def __init__(self, split: Split, schema: Any) -> None:
        self._split = split
        self._schema = schema
        self._db = split.db
        self._ts = UNKNOWN if split.ts is None else split.ts
        # Records of this split so far.
        self._count = 0

    def take(self, parsed: Parsed) -> Any:
        """Returns the events of the next records as a RecordBatch, or None if there are none. Raises BadLog."""
        dbs, times = self._dbs(parsed.records), self._times(parsed)
        events, first = events_of(parsed.records), self._count
        self._count += len(parsed.records)
        if not len(events):
            return None
        rows = events.rows()
        columns = {
            "part": _repeated(self._split.part, len(rows)),
            "split": _repeated(self._split.start, len(rows)),
            "n": pa.array(first + rows),
            "db": pa.array(dbs[rows]),
            "ts": pa.array(times[rows], mask=times[rows] == UNKNOWN),
            "kind": events.kinds(),
        }
        arrays = [
            columns[field.name].cast(field.type) if field.name in columns else events.column(field.name)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _dbs(self, records: Records) -> Any:
        """Returns the database of each record. Raises BadLog for a SELECT without a number."""
        rows = records.by_name().get(b"SELECT", [])
        try:
            chosen = [int(index) for _, index in records.lists(rows)] if len(rows) else []
        except ValueError:
            raise BadLog("a record SELECT names no database") from None
        found = _spread(self._db, list(rows), chosen, len(records))
        self._db = chosen[-1] if chosen else self._db
        return found

    def _times(self, parsed: Parsed) -> Any:
        """Returns the time of each record, from the timestamp line before it, or UNKNOWN."""
        places, times = [place for place, _ in parsed.stamps], [unix_s for _, unix_s in parsed.stamps]
        found = _spread(self._ts, places, times, len(parsed.records))
        self._ts = times[-1] if times else self._ts
        return found


def _spread(first: int, places: list[int], values: list[int], count: int) -> Any:
    """Returns `count` values: `first`, and from each index in `places` on the corresponding one of `values`."""
    return np.repeat([first, *values], np.diff([0, *places, count]))


def _repeated(value: int, count: int) -> Any:
    return pa.repeat(pa.scalar(value, pa.int64()), count)
