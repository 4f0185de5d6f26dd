"""Decodes pages into Arrow columns of a schema.

A column is a meta column, whose name begins with `_` (see META), or the field of that name, cast to the column's type.
The schema is Arrow's: this module does not depend on Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import Malformed
from .page import Page
from .text import to_text

PERMISSIVE, DROPMALFORMED, FAILFAST = "PERMISSIVE", "DROPMALFORMED", "FAILFAST"
# The last millisecond of the year 9999: `_ts` of later IDs is null.
MS_MAX = 253_402_300_799_999
INT64_MAX = 2**63 - 1


@dataclass(slots=True)
class Deliveries:
    """The delivery state of the entries of a page, in order, for queue mode."""

    consumer: str
    counts: list[int]
    idle_ms: list[int]


@dataclass(slots=True)
class _Rows:
    """A page while it is decoded. Columns that are used more than once are made once."""

    stream: str
    page: Page
    deliveries: Deliveries | None
    # The values that did not fit their columns, by row and field.
    malformed: dict[int, dict[bytes, bytes]] = field(default_factory=dict)
    _ids: Any = None
    _halves: Any = None

    def ids(self) -> Any:
        """Returns the column of IDs, as bytes."""
        if self._ids is None:
            self._ids = self.page.ids
        return self._ids

    def id_halves(self) -> Any:
        """Returns the two numbers of each ID: the uint64 columns `ms` and `seq`."""
        if self._halves is None:
            halves = pc.extract_regex(self.ids().cast(pa.string()), r"^(?P<ms>[0-9]+)-(?P<seq>[0-9]+)$")
            self._halves = [pc.struct_field(halves, index).cast(pa.uint64()) for index in (0, 1)]
        return self._halves


def _stream(rows: _Rows, kind: Any) -> Any:
    return pa.repeat(pa.scalar(rows.stream, pa.string()), len(rows.page)).cast(kind)


def _id(rows: _Rows, kind: Any) -> Any:
    return rows.ids().cast(kind)


def _ts(rows: _Rows, kind: Any) -> Any:
    ms = rows.id_halves()[0]
    if len(ms) and pc.max(ms).as_py() > MS_MAX:
        ms = pc.if_else(pc.greater(ms, pa.scalar(MS_MAX, pa.uint64())), None, ms)
    return ms.cast(pa.int64()).cast(pa.timestamp("ms", tz="UTC")).cast(kind)


def _half(index: int) -> Callable[[_Rows, Any], Any]:
    def column(rows: _Rows, kind: Any) -> Any:
        half = rows.id_halves()[index]
        if len(half) and pc.max(half).as_py() > INT64_MAX:
            half = pc.if_else(pc.greater(half, pa.scalar(INT64_MAX, pa.uint64())), None, half)
        return half.cast(kind)

    return column


def _fields(rows: _Rows, kind: Any) -> Any:
    """All fields as a map. For a repeated field it has the last value, because a map in Spark has each key once."""
    page = rows.page
    if page.has_unique_fields:
        sizes, keys, values = page.unzipped()
    else:
        unique = [dict(zip(pairs[::2], pairs[1::2], strict=True)) for pairs in page.pairs()]
        sizes = [len(pairs) for pairs in unique]
        keys = pa.array([key for pairs in unique for key in pairs], pa.binary())
        values = pa.array([value for pairs in unique for value in pairs.values()], pa.binary())
    keys, values = to_text(keys, kind.key_type), to_text(values, kind.item_type)
    return pa.MapArray.from_arrays(_offsets(sizes), keys, values).cast(kind)


def _pairs(rows: _Rows, kind: Any) -> Any:
    """All fields and values in order, unchanged."""
    sizes, *columns = rows.page.unzipped()
    struct = kind.value_type
    columns = [to_text(column, struct.field(index).type) for index, column in enumerate(columns)]
    items = pa.StructArray.from_arrays(columns, fields=[struct.field(0), struct.field(1)])
    return pa.ListArray.from_arrays(_offsets(sizes), items).cast(kind)


def _offsets(sizes: Any) -> Any:
    """Returns the offsets of a list column whose lists have these sizes."""
    return pa.array(np.concatenate(([0], np.cumsum(sizes))), pa.int32())


def _delivery(read: Callable[[Deliveries, int], list[Any]]) -> Callable[[_Rows, Any], Any]:
    def column(rows: _Rows, kind: Any) -> Any:
        count = len(rows.page)
        return pa.nulls(count, kind) if rows.deliveries is None else pa.array(read(rows.deliveries, count), kind)

    return column


@dataclass(frozen=True, slots=True)
class MetaColumn:
    """A column that is not a field: its Spark types, its meaning, and the function that makes it."""

    types: tuple[str, ...]
    meaning: str
    make: Callable[[_Rows, Any], Any] | None


# The meta columns by name.
META = {
    "_stream": MetaColumn(("string",), "Key of the stream.", _stream),
    "_id": MetaColumn(("string", "binary"), "Entry ID, `ms-seq`.", _id),
    "_ts": MetaColumn(("timestamp",), "Time of the ID; what watermarks want.", _ts),
    "_ms": MetaColumn(("bigint",), "First half of the ID.", _half(0)),
    "_seq": MetaColumn(("bigint",), "Second half of the ID.", _half(1)),
    "_fields": MetaColumn(
        ("map<string,string>", "map<binary,binary>"), "All fields; of a repeated one the last value.", _fields
    ),
    "_pairs": MetaColumn(
        ("array<struct<field:binary,value:binary>>",), "All fields and values in order, exactly.", _pairs
    ),
    "_deliveries": MetaColumn(
        ("bigint",),
        "How often the entry was delivered, this time included (queue mode).",
        _delivery(lambda deliveries, _: deliveries.counts),
    ),
    "_consumer": MetaColumn(
        ("string",),
        "Consumer that holds the entry (queue mode).",
        _delivery(lambda deliveries, count: [deliveries.consumer] * count),
    ),
    "_idle_ms": MetaColumn(
        ("bigint",),
        "Milliseconds since it was delivered (queue mode).",
        _delivery(lambda deliveries, _: deliveries.idle_ms),
    ),
    "_corrupt": MetaColumn(("map<string,binary>",), "Values that did not fit their column, by field; else null.", None),
}


@dataclass(frozen=True)
class Decoder:
    """Decodes pages into record batches of `schema`, the Arrow schema that Spark expects."""

    schema: Any
    parse_mode: str = PERMISSIVE

    def decode(self, stream: str, page: Page, deliveries: Deliveries | None = None) -> Any:
        """Decodes a page into a RecordBatch.

        For a value that does not fit its column: raises Malformed with FAILFAST, and leaves the row out with
        DROPMALFORMED.
        """
        rows = _Rows(stream, page, deliveries)
        arrays: list[Any] = []
        for column in self.schema:
            meta = META.get(column.name)
            if meta is None:
                arrays.append(self._field(rows, column.name, column.type))
            else:
                arrays.append(None if meta.make is None else meta.make(rows, column.type))
        if rows.malformed:
            self._complain(rows)
        arrays = [
            self._corrupt(rows, column.type) if array is None else array
            for array, column in zip(arrays, self.schema, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        if rows.malformed and self.parse_mode == DROPMALFORMED:
            batch = batch.filter(pa.array([row not in rows.malformed for row in range(len(page))]))
        return batch

    def _complain(self, rows: _Rows) -> None:
        if self.parse_mode == FAILFAST:
            row = min(rows.malformed)
            entry_id = rows.ids()[row].as_py().decode()
            names = ", ".join(name.decode("utf-8", "replace") for name in rows.malformed[row])
            raise Malformed(
                f"entry {entry_id} of stream {rows.stream} does not fit the schema in {names} (option parseMode: "
                "PERMISSIVE keeps such values in _corrupt, DROPMALFORMED drops the row)"
            )

    @staticmethod
    def _corrupt(rows: _Rows, kind: Any) -> Any:
        return (
            pa.array(
                [
                    [(name.decode("utf-8", "replace"), value) for name, value in bad.items()] if bad else None
                    for bad in (rows.malformed.get(row) for row in range(len(rows.page)))
                ],
                kind,
            )
            if rows.malformed
            else pa.nulls(len(rows.page), kind)
        )

    def _field(self, rows: _Rows, name: str, kind: Any) -> Any:
        """Returns the values of a field, cast. Values that do not fit become null and are noted in `rows`."""
        raw = rows.page.values(name.encode())
        if raw is None:
            return pa.nulls(len(rows.page), kind)
        try:
            return cast_column(raw, kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError, OverflowError):
            pass
        cast, bad = _cast_tolerant(raw, kind)
        for row in bad:
            rows.malformed.setdefault(row, {})[name.encode()] = raw[row].as_py()
        return cast


def cast_column(raw: Any, kind: Any) -> Any:
    """Casts a column of bytes to a type. Raises ArrowInvalid or ValueError if any value does not fit."""
    if pa.types.is_binary(kind):
        return raw
    text = raw.cast(pa.string())
    if pa.types.is_timestamp(kind):
        return _timestamps(text, kind)
    return text.cast(kind)


def _timestamps(text: Any, kind: Any) -> Any:
    """Parses Unix milliseconds or ISO 8601. A time without a zone is UTC."""
    try:
        return text.cast(pa.int64()).cast(pa.timestamp("ms", tz=kind.tz)).cast(kind)
    except pa.ArrowInvalid:
        moments = [None if value is None else _moment(value) for value in text.to_pylist()]
        if kind.tz is None:
            moments = [moment and moment.astimezone(UTC).replace(tzinfo=None) for moment in moments]
        return pa.array(moments, kind)


def _moment(text: str) -> datetime:
    if text.lstrip("-").isdigit():
        try:
            return datetime.fromtimestamp(int(text) / 1000, UTC)
        except (OverflowError, OSError):
            raise ValueError("a time out of range") from None
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _cast_tolerant(raw: Any, kind: Any) -> tuple[Any, list[int]]:
    """Casts a column with nulls for values that do not fit; returns it and the rows of these values.

    It bisects the column to find the values.
    """
    done: list[Any] = []
    bad: list[int] = []
    todo = [(0, len(raw))]
    while todo:
        start, end = todo.pop()
        try:
            done.append(cast_column(raw.slice(start, end - start), kind))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError, OverflowError):
            if end - start == 1:
                bad.append(start)
                done.append(pa.nulls(1, kind))
            else:
                middle = (start + end) // 2
                todo += [(middle, end), (start, middle)]
    return pa.concat_arrays(done), bad
