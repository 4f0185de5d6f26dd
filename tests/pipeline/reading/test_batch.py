"""spark.read with a real server."""

from __future__ import annotations

import re
from typing import Any

import pytest

from headrace.pipeline.errors import message_of
from support.servers import Server
from support.spark_streams import connect, fill

pytestmark = pytest.mark.spark


def load(spark: Any, server: Server, **options: Any) -> Any:
    reader = spark.read.format("headrace").option("port", server.port)
    return reader.options(**{name: str(value) for name, value in options.items()}).load()


def numbers(frame: Any) -> list[int]:
    return sorted(int(row[0]) for row in frame.select("n").collect())


def test_all_entries_are_read_once_in_partitions(spark: Any, server: Server) -> None:
    fill(server, "s", 5000)
    frame = load(spark, server, stream="s", fields="n int, user string", minPartitions=4, pageSize=100)
    assert frame.rdd.getNumPartitions() == 4
    sizes = frame.rdd.mapPartitions(lambda rows: [sum(1 for _ in rows)]).collect()
    assert sum(sizes) == 5000
    assert max(sizes) < 2 * min(sizes)
    assert numbers(frame) == list(range(1, 5001))


def test_untyped_schema_has_key_id_time_and_fields(spark: Any, headrace: Server) -> None:
    fill(headrace, "s", 2)
    row = load(spark, headrace, stream="s").orderBy("_ts").collect()[1]
    assert (row._stream, row._id, row._fields) == ("s", "2-0", {"n": "2", "user": "u2"})
    assert row._ts.timestamp() % 1 == pytest.approx(0.002)


def test_own_schema_takes_fields_and_meta_columns(spark: Any, headrace: Server) -> None:
    fill(headrace, "s", 3)
    reader = spark.read.format("headrace").option("port", headrace.port).option("stream", "s")
    rows = reader.schema("_ms bigint, user string, n smallint, absent double").load().orderBy("n").collect()
    assert [tuple(row) for row in rows] == [(1, "u1", 1, None), (2, "u2", 2, None), (3, "u3", 3, None)]


def test_ranges_bound_what_is_read(spark: Any, headrace: Server) -> None:
    fill(headrace, "a", 100)
    fill(headrace, "b", 10)
    both = {"stream": "a,b", "fields": "n int"}
    offsets = {"startingOffsets": '{"a": "90-0", "b": "8-0"}', "endingOffsets": '{"a": "95-0"}'}
    assert numbers(load(spark, headrace, **both, **offsets)) == [9, 10, 91, 92, 93, 94, 95]
    times = {"startingTimestamp": 5, "endingTimestamp": "1970-01-01T00:00:00.007"}
    assert numbers(load(spark, headrace, **both, **times)) == [5, 5, 6, 6, 7, 7]
    assert numbers(load(spark, headrace, streamPattern="[b]", fields="n int")) == list(range(1, 11))


def test_missing_stream_is_empty(spark: Any, headrace: Server) -> None:
    assert load(spark, headrace, stream="none").count() == 0


def test_filters_narrow_the_range_and_do_not_change_the_rows(spark: Any, headrace: Server) -> None:
    fill(headrace, "s", 300)
    condition = "_ms >= 100 AND _ms < 105 AND n != 102 AND _ts > timestamp_millis(100)"
    plain = load(spark, headrace, stream="s", fields="n int").selectExpr("n", "_ts", "to_json(struct(*)) j", "_id")
    assert plain.count() == 300
    meta = "_ms bigint, _ts timestamp, n int"
    found = []
    for push in ("false", "true"):
        reader = spark.read.format("headrace").option("port", headrace.port).option("stream", "s")
        frame = reader.option("pushDownFilters", push).schema(meta).load().where(condition)
        found.append(numbers(frame))
    assert found == [[101, 103, 104]] * 2


def test_parse_mode_decides_about_malformed_values(spark: Any, headrace: Server) -> None:
    fill(headrace, "s", 3)
    with headrace.connect() as wire:
        wire.call("XADD", "s", "4-0", "n", "four")
    rows = load(spark, headrace, stream="s", fields="n int").where("_corrupt is not null").collect()
    assert [(row._id, row.n, dict(row._corrupt)) for row in rows] == [("4-0", None, {"n": b"four"})]
    assert load(spark, headrace, stream="s", fields="n int", parseMode="DROPMALFORMED").count() == 3
    with pytest.raises(Exception, match="entry 4-0") as caught:
        load(spark, headrace, stream="s", fields="n int", parseMode="FAILFAST").collect()
    assert message_of(caught.value).startswith("entry 4-0 of stream s does not fit the schema in n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stream": "text"}, "stream text: the key is not a stream: check the option stream (WRONGTYPE)"),
        ({}, "set one of the options stream and streamPattern"),
        ({"stream": "s", "streem": "s"}, "unknown option streem for spark.read: did you mean stream?"),
        ({"stream": "s", "fields": "_x int"}, "there is no column _x"),
        ({"stream": "s", "fields": "x array<int>"}, "column x cannot be array<int>: read it as string"),
        ({"stream": "s", "startingOffsets": '{"s": "9-0"}'}, "stream s: it ends at 0-0, before 9-0"),
        ({"stream": "s", "port": 1, "retryFor": "0.1s"}, "127.0.0.1:1 did not answer for 0.1 s"),
        ({"stream": "s", "password": "sesame"}, "AUTH at 127.0.0.1:"),
    ],
)
def test_errors_reach_the_driver_in_one_line(spark: Any, headrace: Server, options: Any, message: str) -> None:
    with headrace.connect() as wire:
        wire.call("SET", "text", "x")
    with pytest.raises(Exception, match=re.escape(message)) as caught:
        load(spark, headrace, **options).collect()
    assert message in message_of(caught.value)
    assert "sesame" not in str(caught.value)


def test_password_is_not_in_the_plan(spark: Any, headrace: Server) -> None:
    frame = load(spark, headrace, stream="s", password="sesame")
    assert "sesame" not in frame._jdf.queryExecution().toString()


def test_source_is_found_by_name_without_registration(spark: Any, headrace: Server) -> None:
    fill(headrace, "s", 3)
    fresh = spark.newSession()
    assert fresh.read.format("headrace").option("port", headrace.port).option("stream", "s").load().count() == 3
    fresh.sql(f"CREATE TEMPORARY VIEW entries USING headrace OPTIONS (port '{headrace.port}', stream 's')")
    assert fresh.sql("SELECT count(*) FROM entries").collect()[0][0] == 3


def test_a_stream_that_does_not_exist_is_reported(headrace: Server, caplog: pytest.LogCaptureFixture) -> None:
    """It is read as an empty one, but not in silence. A stream without entries exists."""
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed: `make test-pipeline` installs it")
    from headrace.pipeline.columns.decode import Decoder
    from headrace.pipeline.options.kinds import BatchOptions, parse
    from headrace.pipeline.reading.batch import HeadraceBatchReader

    with connect(headrace) as connection:
        connection.call("XGROUP", "CREATE", "empty", "g", "0", "MKSTREAM")
    options = parse(BatchOptions, {"stream": "none,empty", "port": str(headrace.port)})
    assert HeadraceBatchReader(options, Decoder(pyarrow.schema([]))).partitions() == []
    missing = f"there is no stream none on 127.0.0.1:{headrace.port}: it is read as an empty one"
    assert [record.getMessage() for record in caplog.records] == [missing]
