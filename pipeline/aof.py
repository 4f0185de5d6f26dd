"""Append-only files as events: what happened to which entry, in the order of the log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from .effects import events_of
from .errors import BadLog
from .records import Parsed, Records, parse
from .splits import RECORD_START, Split

PIECE_SIZE: Final = 1024 * 1024
"""Bytes that are looked at together. A value with line ends costs the whole piece its fast way."""
UNKNOWN: Final = -1
"""A time that no line has told yet."""


def scan(split: Split, schema: Any) -> Iterator[Any]:
    """The events of a split, a piece at a time, as RecordBatches of EVENT_SCHEMA. Raises BadLog if it does not end with
    a record.

    The end of the file may be a record that is being written: it is left out.
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
            if not is_whole and left:  # a value that holds what looks like a record: more of it shows where it ends
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
    """A place near the end where a record seems to begin; 0 if there is none."""
    end = len(data)
    while (place := data.rfind(b"\r\n*", 0, end)) >= 0:
        if RECORD_START.match(data, place):
            return place + 2
        end = place
    return 0


class _State:
    """What has to be known to make sense of the next record."""

    def __init__(self, split: Split, schema: Any) -> None:
        self._split = split
        self._schema = schema
        self._db = split.db
        self._ts = UNKNOWN if split.ts is None else split.ts
        self._count = 0
        """Records so far."""

    def take(self, parsed: Parsed) -> Any:
        """The events of the next records, None if there are none. Raises BadLog."""
        dbs, times = self._dbs(parsed.records), self._times(parsed)
        events, first = events_of(parsed.records), self._count
        self._count += len(parsed.records)
        if not len(events):
            return None
        rows = events.rows()
        columns = {
            "part": _same(self._split.part, len(rows)),
            "split": _same(self._split.start, len(rows)),
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
        """The database of each record."""
        rows = records.by_name().get(b"SELECT", [])
        try:
            chosen = [int(index) for _, index in records.lists(rows)] if len(rows) else []
        except ValueError:
            raise BadLog("a record SELECT names no database") from None
        found = _held(self._db, list(rows), chosen, len(records))
        self._db = chosen[-1] if chosen else self._db
        return found

    def _times(self, parsed: Parsed) -> Any:
        """The time of each record, as far as a line before it has told one."""
        places, times = [place for place, _ in parsed.stamps], [unix_s for _, unix_s in parsed.stamps]
        found = _held(self._ts, places, times, len(parsed.records))
        self._ts = times[-1] if times else self._ts
        return found


def _held(first: int, places: list[int], values: list[int], count: int) -> Any:
    """What holds at each of `count` places: `first`, and from each of `places` on the value that belongs to it."""
    return np.repeat([first, *values], np.diff([0, *places, count]))


def _same(value: int, count: int) -> Any:
    return pa.repeat(pa.scalar(value, pa.int64()), count)
