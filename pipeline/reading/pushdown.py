"""Turns filters on `_id`, `_ts`, `_ms` and `_stream` into bounds of the ranges to read.

A filter is only taken over if a bound expresses it exactly, because Spark does not apply it again. Spark compares IDs
as text (`9-0` is greater than `10-0`), so of the comparisons on `_id` only equality is taken over.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from ...store.errors import GenericError
from ...store.ids import ID_MAX, U64_MAX, StreamID, format_id, make_id, parse_id

EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
MILLISECOND: Final = timedelta(milliseconds=1)
INT64_MAX: Final = 2**63 - 1
# The last millisecond of the year 9999. Later IDs have no `_ts`, so no comparison with it is true.
SAFE_MS_MAX: Final = 253_402_300_799_999


@dataclass(frozen=True)
class Bounds:
    """The range of IDs and the streams to read; `streams` is None for all streams."""

    first: StreamID = 0
    last: StreamID = ID_MAX
    streams: frozenset[str] | None = None

    def has_stream(self, key: str) -> bool:
        """Whether a stream is to be read."""
        return self.streams is None or key in self.streams

    def within(self, first: StreamID, last: StreamID) -> Bounds:
        """Returns these bounds narrowed to a range of IDs."""
        return replace(self, first=max(self.first, first), last=min(self.last, last))


def narrow(bounds: Bounds, one: Any) -> Bounds | None:
    """Returns the bounds narrowed by a filter of `pyspark.sql.datasource`; None if Spark has to apply the filter."""
    kind = type(one).__name__
    column = one.attribute[0] if len(getattr(one, "attribute", ())) == 1 else None
    if kind == "IsNotNull" and column in ("_stream", "_id"):
        return bounds  # never null
    value: Any = getattr(one, "value", None)
    if column == "_stream" and kind in ("EqualTo", "In"):
        wanted = frozenset(value if kind == "In" else [value])
        return replace(bounds, streams=wanted if bounds.streams is None else bounds.streams & wanted)
    if column == "_id" and kind == "EqualTo" and isinstance(value, str):
        return _exactly(bounds, value)
    if column == "_ms" and isinstance(value, int):
        return _by_ms(bounds, kind, value, INT64_MAX)
    if column == "_ts" and isinstance(value, datetime) and value.tzinfo is not None:
        return _by_ts(bounds, kind, value)
    return None


def _exactly(bounds: Bounds, text: str) -> Bounds | None:
    try:
        entry_id = parse_id(text.encode())
    except GenericError:
        return bounds.within(1, 0)
    # The server accepts `1` and `01-0` as IDs, but no `_id` has these texts.
    return bounds.within(entry_id, entry_id) if format_id(entry_id) == text.encode() else bounds.within(1, 0)


def _by_ts(bounds: Bounds, kind: str, value: datetime) -> Bounds | None:
    ms, rest = divmod(value - EPOCH, MILLISECOND)
    if rest:  # between two milliseconds there is no ID
        if kind == "EqualTo":
            return bounds.within(1, 0)
        kind = {"GreaterThanOrEqual": "GreaterThan", "LessThan": "LessThanOrEqual"}.get(kind, kind)
    return _by_ms(bounds, kind, ms, SAFE_MS_MAX)


def _by_ms(bounds: Bounds, kind: str, ms: int, ms_max: int) -> Bounds | None:
    lows = {"EqualTo": ms, "GreaterThanOrEqual": ms, "GreaterThan": ms + 1}
    highs = {"EqualTo": ms, "LessThanOrEqual": ms, "LessThan": ms - 1}
    if kind not in lows and kind not in highs:
        return None
    low, high = max(lows.get(kind, 0), 0), min(highs.get(kind, ms_max), ms_max)
    if low > high:
        return bounds.within(1, 0)
    return bounds.within(make_id(low, 0), make_id(high, U64_MAX))
