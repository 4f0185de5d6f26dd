"""Columns of fields that are missing, repeated, malformed, or not text."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: `make test-pipeline` installs it")

from headrace.pipeline.columns.decode import DROPMALFORMED, FAILFAST, PERMISSIVE, Decoder, Deliveries  # noqa: E402
from headrace.pipeline.columns.page import MixedPage, Page, UniformPage, parse_page  # noqa: E402
from headrace.pipeline.errors import Malformed  # noqa: E402
from support.spark_streams import reply_of  # noqa: E402

TEXT, BYTES = pa.string(), pa.binary()
TS = pa.timestamp("us", tz="UTC")
CORRUPT = pa.map_(TEXT, BYTES)


def page_of(*entries: list[bytes], uniform: bool = False) -> Page:
    ids = [b"%d-%d" % (1000 + index, index) for index in range(len(entries))]
    page = MixedPage(ids, list(entries))
    if not uniform:
        return page
    parsed = parse_page(reply_of(list(zip(ids, entries, strict=True))))
    assert isinstance(parsed, UniformPage)
    return parsed


def rows(page: Page, mode: str = PERMISSIVE, deliveries: Deliveries | None = None, **columns: Any) -> list[Any]:
    decoder = Decoder(pa.schema(list(columns.items())), mode)
    found = decoder.decode("s", page, deliveries).to_pylist()
    return [tuple(row.values()) for row in found]


def test_id_becomes_time_and_sequence_columns() -> None:
    page = page_of([b"a", b"1"], [b"a", b"2"])
    found = rows(page, _stream=TEXT, _id=TEXT, _ts=TS, _ms=pa.int64(), _seq=pa.int64())
    assert found[1] == ("s", "1001-1", datetime(1970, 1, 1, 0, 0, 1, 1000, tzinfo=UTC), 1001, 1)


def test_ids_beyond_time_and_bigint_are_null() -> None:
    page = MixedPage([b"18446744073709551615-18446744073709551615"], [[b"a", b"1"]])
    assert rows(page, _ts=TS, _ms=pa.int64(), _seq=pa.int64()) == [(None, None, None)]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        (b"-7", pa.int8(), -7),
        (b"9223372036854775807", pa.int64(), 2**63 - 1),
        (b"1.5", pa.float64(), 1.5),
        (b"true", pa.bool_(), True),
        (b"0", pa.bool_(), False),
        (b"12.30", pa.decimal128(10, 2), Decimal("12.30")),
        (b"2026-01-31", pa.date32(), date(2026, 1, 31)),
        (b"1000", TS, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        (b"1970-01-01T01:00:01+01:00", TS, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        (b"1970-01-01 00:00:01", TS, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        (b"\xff\x00", BYTES, b"\xff\x00"),
        ("né".encode(), TEXT, "né"),
    ],
)
def test_values_are_cast(text: bytes, kind: Any, value: Any) -> None:
    for uniform in (True, False):
        assert rows(page_of([b"f", text], uniform=uniform), f=kind) == [(value,)]


def test_missing_field_is_null_and_a_repeated_field_has_its_last_value() -> None:
    page = page_of([b"b", b"1"], [b"a", b"1", b"a", b"2"])
    assert rows(page, a=pa.int32(), _corrupt=CORRUPT) == [(None, None), (2, None)]
    assert rows(page_of([b"a", b"1", b"a", b"2"], uniform=True), a=pa.int32()) == [(2,)]


def test_malformed_values_are_null_and_kept_in_corrupt() -> None:
    entries = [[b"n", b"%d" % n if n != 5 else b"five"] for n in range(40)]
    found = rows(page_of(*entries, uniform=True), n=pa.int32(), _corrupt=CORRUPT)
    assert found[5] == (None, [("n", b"five")])
    assert [row for row in found if row[1] is None] == [(n, None) for n in range(40) if n != 5]


@pytest.mark.parametrize("text", [b"1" + b"0" * 20, b"-" + b"9" * 17, b"10000-01-01T00:00:00Z"])
def test_time_out_of_range_is_malformed(text: bytes) -> None:
    assert rows(page_of([b"at", text]), at=TS, _corrupt=CORRUPT) == [(None, [("at", text)])]
    with pytest.raises(Malformed):
        rows(page_of([b"at", text]), FAILFAST, at=TS)


def test_parse_mode_drops_malformed_rows_or_fails() -> None:
    page = page_of([b"n", b"1", b"s", b"\xff"], [b"n", b"2", b"s", b"ok"], uniform=True)
    assert rows(page, DROPMALFORMED, n=pa.int32(), s=TEXT) == [(2, "ok")]
    with pytest.raises(Malformed, match="entry 1000-0 of stream s does not fit the schema in s") as caught:
        rows(page, FAILFAST, n=pa.int32(), s=TEXT)
    assert "xff" not in str(caught.value)


def test_all_fields_as_a_map_or_as_pairs() -> None:
    pairs = pa.list_(pa.struct([("field", BYTES), ("value", BYTES)]))
    for uniform in (True, False):
        page = page_of([b"a", b"1", b"b", b"\xff"], [b"a", b"3", b"b", b"4"], uniform=uniform)
        assert rows(page, _fields=pa.map_(TEXT, TEXT))[1] == ([("a", "3"), ("b", "4")],)
        assert rows(page, _fields=pa.map_(TEXT, TEXT))[0] == ([("a", "1"), ("b", "\ufffd")],)
        found = rows(page, _pairs=pairs)[0][0]
        assert found == [{"field": b"a", "value": b"1"}, {"field": b"b", "value": b"\xff"}]


def test_deliveries_are_columns_in_queue_mode_and_null_otherwise() -> None:
    page = page_of([b"a", b"1"])
    columns = {"_deliveries": pa.int64(), "_consumer": TEXT, "_idle_ms": pa.int64()}
    assert rows(page, **columns) == [(None, None, None)]
    assert rows(page, PERMISSIVE, Deliveries("spark-1-0", [3], [50]), **columns) == [(3, "spark-1-0", 50)]
