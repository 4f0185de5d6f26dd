"""Redis 7: what it supports works, and for what it lacks a one-line error says which option to set.

HEADRACE_TEST_REDIS7 names a redis-server of version 7; without it, one on the PATH is taken. Skipped without either.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.servers import Server, oracle_version
from support.spark_streams import connect, fill

pytest.importorskip("pyspark", reason="pyspark is not installed: `make test-pipeline` installs it")

from headrace.pipeline.__main__ import main
from headrace.pipeline.errors import message_of

pytestmark = [pytest.mark.spark, pytest.mark.oracle]

COUNT = 3000
VERSION = "7."


class Redis7(Server):
    """A server process of Redis 7."""

    def __init__(self, program: str, folder: Path) -> None:
        super().__init__("redis 7", folder)
        self._program = program

    def program(self) -> list[str]:
        return [self._program]


@pytest.fixture(scope="module")
def redis7(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    program = os.environ.get("HEADRACE_TEST_REDIS7") or shutil.which("redis-server")
    if program is None or not oracle_version(Path(program).parent).startswith(VERSION):
        pytest.skip("no redis-server 7 found: HEADRACE_TEST_REDIS7 names one")
    server = Redis7(program, tmp_path_factory.mktemp("redis7")).start()
    fill(server, "s", COUNT)
    yield server
    server.stop()


def reader(given: Any, server: Server, **options: Any) -> Any:
    return given.format("headrace").options(port=server.port, stream="s", fields="n int", **options)


def run(frame: Any, folder: Path, sink: str = "parquet", **options: Any) -> None:
    writer = frame.writeStream.format(sink).option("checkpointLocation", str(folder / "checkpoint"))
    writer.options(**options).trigger(availableNow=True).start().awaitTermination()


def archived(spark: Any, folder: Path) -> list[int]:
    return sorted(row.n for row in spark.read.parquet(str(folder)).select("n").collect())


def written(server: Server, key: str) -> list[int]:
    with connect(server) as connection:
        return sorted(int(pairs[1]) for _, pairs in connection.call("XRANGE", key, "-", "+"))


def test_batch_reads_each_entry_once(spark: Any, redis7: Server) -> None:
    frame = reader(spark.read, redis7, minPartitions=3, pageSize=200).load()
    assert frame.rdd.getNumPartitions() == 3
    assert sorted(row.n for row in frame.select("n").collect()) == list(range(1, COUNT + 1))


def test_log_mode_reads_each_entry_once_and_moves_its_group(spark: Any, redis7: Server, tmp_path: Path) -> None:
    options = {"startingOffsets": "earliest", "maxEntriesPerTrigger": 1000, "group": "watch"}
    run(reader(spark.readStream, redis7, **options).load(), tmp_path, path=str(tmp_path / "out"))
    assert archived(spark, tmp_path / "out") == list(range(1, COUNT + 1))
    with connect(redis7) as connection:
        group = connection.call("XINFO", "GROUPS", "s")[0]
    assert dict(zip(group[::2], group[1::2], strict=True))[b"lag"] == 0


def test_queue_mode_acknowledges_what_was_read(spark: Any, redis7: Server, tmp_path: Path) -> None:
    with connect(redis7) as connection:
        connection.call("XGROUP", "CREATE", "s", "packers", "0")
    options = {"mode": "queue", "group": "packers"}
    with pytest.raises(Exception, match=r"cannot claim while reading \(Headrace and Redis 8.4 can\): set minIdle=off"):
        run(reader(spark.readStream, redis7, **options).load(), tmp_path / "claiming", path=str(tmp_path / "none"))
    run(reader(spark.readStream, redis7, minIdle="off", **options).load(), tmp_path, path=str(tmp_path / "out"))
    assert archived(spark, tmp_path / "out") == list(range(1, COUNT + 1))
    with connect(redis7) as connection:
        assert connection.call("XPENDING", "s", "packers")[0] == 0


def test_rows_are_written_at_least_once(spark: Any, redis7: Server) -> None:
    rows = spark.range(500).withColumnRenamed("id", "n")
    writer = rows.write.format("headrace").mode("append").options(port=redis7.port, stream="out")
    with pytest.raises(Exception, match="this server cannot recognise rows") as caught:
        writer.save()
    assert "set idempotency=none" in message_of(caught.value)
    writer.option("idempotency", "none").save()
    assert written(redis7, "out") == list(range(500))


def test_outcome_that_needs_a_newer_server_is_a_one_line_error(spark: Any, redis7: Server, tmp_path: Path) -> None:
    with connect(redis7) as connection:
        connection.call("XGROUP", "CREATE", "s", "settled", "0")
        connection.call("XREADGROUP", "GROUP", "settled", "c", "COUNT", 2, "STREAMS", "s", ">")
    source = reader(spark.readStream, redis7, startingOffsets="earliest").load().where("n <= 2")
    options = {"mode": "settle", "group": "settled", "port": redis7.port}
    acks = source.selectExpr("_stream", "_id", "'ack' AS _outcome")
    run(acks, tmp_path / "acks", "headrace", **options)
    with connect(redis7) as connection:
        assert connection.call("XPENDING", "s", "settled")[0] == 0
    with pytest.raises(Exception, match="the server does not know a command for it"):
        run(acks.selectExpr("_stream", "_id", "'fail' AS _outcome"), tmp_path / "fails", "headrace", **options)


def job(*words: object) -> int:
    return main([str(word) for word in words])


def test_dead_letters_are_kept_as_files_and_cannot_be_copied(
    redis7: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with connect(redis7) as connection:
        connection.call("XGROUP", "CREATE", "s", "poisoned", "0")
        connection.call("XREADGROUP", "GROUP", "poisoned", "c", "COUNT", 3, "STREAMS", "s", ">")
        connection.call("XCLAIM", "s", "poisoned", "c", 0, "2-0", "IDLE", 3_600_000, "RETRYCOUNT", 7, "JUSTID")
        words = ["deadletter", "--stream", "s", "--group", "poisoned", "--port", redis7.port]
        assert job(*words, "--target", "dead") == 1
        [error] = capsys.readouterr().err.splitlines()
        assert error.startswith("deadletter: dead letters for stream dead: this server cannot recognise copies")
        assert error.endswith("by the job deadletter with --path alone")
        assert connection.call("XPENDING", "s", "poisoned")[3] == [[b"c", b"3"]]
        assert job(*words, "--path", tmp_path / "dead") == 0
        assert [row[0] for row in connection.call("XPENDING", "s", "poisoned", "-", "+", 9)] == [b"1-0", b"3-0"]
    assert len(list((tmp_path / "dead").iterdir())) == 1


def test_replay_keeps_ids_and_cannot_give_new_ones(
    spark: Any, redis7: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.dumps({"_id": f"{n}-0", "n": n}) for n in range(1, 11)]
    (tmp_path / "rows.json").write_text("\n".join(lines))
    words = ["replay", "--path", tmp_path, "--format", "json", "--stream", "replayed", "--port", redis7.port]
    assert job(*words) == 1
    [error] = capsys.readouterr().err.splitlines()
    assert error.startswith("replay: this server cannot recognise rows")
    assert error.endswith("(for the job replay: --ids keep)")
    for _ in range(2):
        assert job(*words, "--ids", "keep") == 0
    assert written(redis7, "replayed") == list(range(1, 11))
