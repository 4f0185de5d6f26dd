"""Filters become bounds only if a bound is exact."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

datasource = pytest.importorskip(
    "pyspark.sql.datasource", reason="pyspark is not installed: `make test-pipeline` installs it"
)

from headrace.pipeline.reading.pushdown import Bounds, narrow  # noqa: E402
from headrace.store.ids import ID_MAX, U64_MAX, make_id  # noqa: E402

SECOND = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
MS_MAX = 253_402_300_799_999


@pytest.mark.parametrize(
    ("kind", "column", "value", "first", "last"),
    [
        ("EqualTo", "_id", "5-1", make_id(5, 1), make_id(5, 1)),
        ("EqualTo", "_id", "5", 1, 0),
        ("EqualTo", "_id", "text", 1, 0),
        ("EqualTo", "_ms", 7, make_id(7, 0), make_id(7, U64_MAX)),
        ("GreaterThan", "_ms", 7, make_id(8, 0), make_id(2**63 - 1, U64_MAX)),
        ("LessThan", "_ms", 7, 0, make_id(6, U64_MAX)),
        ("LessThan", "_ms", 0, 1, 0),
        ("GreaterThanOrEqual", "_ts", SECOND, make_id(1000, 0), make_id(MS_MAX, U64_MAX)),
        ("GreaterThanOrEqual", "_ts", SECOND + timedelta(microseconds=1), make_id(1001, 0), make_id(MS_MAX, U64_MAX)),
        ("LessThan", "_ts", SECOND + timedelta(microseconds=1), 0, make_id(1000, U64_MAX)),
        ("LessThanOrEqual", "_ts", SECOND, 0, make_id(1000, U64_MAX)),
        ("EqualTo", "_ts", SECOND + timedelta(microseconds=1), 1, 0),
    ],
)
def test_comparisons_bound_the_range(kind: str, column: str, value: Any, first: int, last: int) -> None:
    bounds = narrow(Bounds(), getattr(datasource, kind)((column,), value))
    assert bounds is not None
    assert bounds in (Bounds(first, last), Bounds().within(first, last))


def test_filters_on_the_stream_choose_streams() -> None:
    bounds = narrow(Bounds(), datasource.In(("_stream",), ["a", "b"]))
    assert bounds is not None
    bounds = narrow(bounds, datasource.EqualTo(("_stream",), "b"))
    assert bounds is not None
    assert bounds.has_stream("b")
    assert not bounds.has_stream("a")
    assert bounds.last == ID_MAX


@pytest.mark.parametrize(
    "one",
    [
        datasource.GreaterThan(("_id",), "9-0"),
        datasource.EqualTo(("user",), "x"),
        datasource.StringStartsWith(("_id",), "17"),
        datasource.IsNotNull(("_ts",)),
        datasource.Not(datasource.EqualTo(("_ms",), 5)),
        datasource.EqualTo(("_fields", "_ms"), 5),
        datasource.EqualNullSafe(("_ms",), 5),
    ],
)
def test_filter_without_an_exact_bound_is_left_to_spark(one: Any) -> None:
    assert narrow(Bounds(), one) is None
