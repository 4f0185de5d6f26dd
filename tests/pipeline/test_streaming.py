"""Structured Streaming with a real server: to Parquet and to streams, each entry once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.errors import message_of
from support.servers import Server
from support.spark_streams import connect, fill

pytestmark = pytest.mark.spark


def source(spark: Any, server: Server, **options: Any) -> Any:
    given = {
        "stream": "s",
        "startingOffsets": "earliest",
        "port": server.port,
        "fields": "n int, user string",
        **options,
    }
    reader = spark.readStream.format("headrace")
    return reader.options(**{name: str(value) for name, value in given.items()}).load()


def run(frame: Any, checkpoint: Path, sink: str = "parquet", **options: Any) -> Any:
    writer = frame.writeStream.format(sink).option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query = writer.options(**{name: str(value) for name, value in options.items()}).start()
    query.awaitTermination()
    return query


def written(server: Server, key: str) -> list[int]:
    with connect(server) as connection:
        return sorted(int(pairs[1]) for _, pairs in connection.call("XRANGE", key, "-", "+"))


def test_restarted_query_continues_at_its_position(spark: Any, server: Server, tmp_path: Path) -> None:
    fill(server, "s", 1000)
    frame = source(spark, server, maxEntriesPerTrigger=400, group="watch")
    first = run(frame, tmp_path / "c", path=tmp_path / "out")
    assert [batch["numInputRows"] for batch in first.recentProgress if batch["numInputRows"]] == [400, 400, 200]
    fill(server, "s", 50, first=1001)
    run(frame, tmp_path / "c", path=tmp_path / "out")
    rows = spark.read.parquet(str(tmp_path / "out")).select("n").collect()
    assert sorted(row.n for row in rows) == list(range(1, 1051))
    with connect(server) as connection:
        group = connection.call("XINFO", "GROUPS", "s")[0]
    assert dict(zip(group[::2], group[1::2], strict=True))[b"lag"] == 0


def test_progress_shows_position_and_end(spark: Any, headrace: Server, tmp_path: Path) -> None:
    fill(headrace, "s", 10)
    query = run(source(spark, headrace, maxEntriesPerTrigger=6), tmp_path / "c", sink="noop")
    progress = query.recentProgress[0]["sources"][0]
    assert '"n": 6' in str(progress["endOffset"]).replace("'", '"')
    assert '"n": 10' in str(progress["latestOffset"]).replace("'", '"')


def test_stream_is_copied_once_even_if_a_batch_is_repeated(spark: Any, headrace: Server, tmp_path: Path) -> None:
    fill(headrace, "s", 500)
    frame = source(spark, headrace, maxEntriesPerTrigger=200).select("n")
    run(frame, tmp_path / "c", sink="headrace", stream="out", port=headrace.port)
    assert written(headrace, "out") == list(range(1, 501))
    # The state after a crash between the last rows and their commit:
    last = max((tmp_path / "c" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink()
    run(frame, tmp_path / "c", sink="headrace", stream="out", port=headrace.port)
    assert written(headrace, "out") == list(range(1, 501))


def test_retried_task_writes_no_row_twice(spark: Any, headrace: Server, tmp_path: Path) -> None:
    marker = tmp_path / "failed"

    def fail_once(rows: Any) -> Any:
        for count, row in enumerate(rows):
            if count == 7000 and not marker.exists():
                marker.touch()
                raise RuntimeError("this attempt fails")
            yield (row,)

    frame = spark.createDataFrame(spark.sparkContext.parallelize(range(20_000), 2).mapPartitions(fail_once), "n int")
    frame.write.format("headrace").option("port", headrace.port).option("stream", "out").mode("append").save()
    assert marker.exists()
    assert written(headrace, "out") == list(range(20_000))


def test_batch_job_repeated_with_its_producer_adds_nothing(spark: Any, headrace: Server) -> None:
    frame = spark.range(1000).selectExpr("id AS n", "IF(id % 2 = 0, 'even', null) AS parity", "'out' AS _stream")
    for _ in range(2):
        writer = frame.write.format("headrace").option("port", headrace.port).option("producer", "nightly")
        writer.mode("append").save()
    assert written(headrace, "out") == list(range(1000))


def test_overwriting_is_refused_without_truncate(spark: Any, headrace: Server) -> None:
    writer = spark.range(3).write.format("headrace").option("port", headrace.port).option("stream", "out")
    with pytest.raises(Exception, match="truncate=true"):
        writer.mode("overwrite").save()
    writer.mode("append").save()
    writer.option("truncate", "true").mode("overwrite").save()
    assert written(headrace, "out") == [0, 1, 2]


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (["id"], {}, "option stream is missing, and the rows have no column _stream"),
        (["id", "'t' AS _stream"], {"stream": "out"}, "option stream and the column _stream both name the stream"),
        (
            ["id", "array(id) AS a"],
            {"stream": "out"},
            "column a is array<bigint>: turn it into text with to_json first",
        ),
        (["id AS _n"], {"stream": "out"}, "column _n cannot be written"),
        (["id AS _iid"], {"stream": "out"}, "the rows have no column that could be a field"),
        (["id"], {"stream": "out", "idempotency": "column"}, "option idempotency=column needs a column _iid"),
        (["id"], {"stream": "out", "idMode": "explicit"}, "option idMode=explicit needs a column _id"),
        (["id"], {"stream": "out", "maxlen": "5", "minid": "5"}, "only one of the options maxlen and minid"),
        (["id"], {"mode": "settle"}, "option group is missing"),
    ],
)
def test_rows_that_cannot_be_written_are_refused_in_one_line(
    spark: Any, headrace: Server, columns: list[str], options: dict[str, str], message: str
) -> None:
    writer = spark.range(3).selectExpr(*columns).write.format("headrace").option("port", headrace.port)
    with pytest.raises(Exception, match=r"(?s).") as caught:
        writer.options(**options).mode("append").save()
    assert message in message_of(caught.value)


def test_trimmed_entries_fail_the_query_in_one_line(spark: Any, headrace: Server, tmp_path: Path) -> None:
    fill(headrace, "s", 100)
    run(source(spark, headrace, stream="s"), tmp_path / "c", sink="noop")
    fill(headrace, "s", 100, first=101)
    with connect(headrace) as connection:
        connection.call("XTRIM", "s", "MAXLEN", 10)
    with pytest.raises(Exception, match=r"(?s).") as caught:
        run(source(spark, headrace), tmp_path / "c", sink="noop")
    assert message_of(caught.value).startswith(
        "stream s: 90 entries after 100-0 were trimmed or deleted unread (option"
    )


def test_password_is_not_in_checkpoint_or_progress(spark: Any, headrace: Server, tmp_path: Path) -> None:
    fill(headrace, "s", 10)
    with connect(headrace) as connection:
        connection.call("CONFIG", "SET", "requirepass", "sesame-open")
        try:
            query = run(source(spark, headrace, password="sesame-open"), tmp_path / "c", sink="noop")
        finally:
            connection.call("CONFIG", "SET", "requirepass", "")
    assert query.recentProgress[0]["numInputRows"] == 10
    texts = [path.read_bytes() for path in (tmp_path / "c").rglob("*") if path.is_file()]
    assert not any(b"sesame-open" in text for text in texts)
    assert "sesame-open" not in str(query.recentProgress)
