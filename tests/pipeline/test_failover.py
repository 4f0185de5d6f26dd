"""Queries and jobs that find their server by Sentinels continue after a failover in the middle of their batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: `make test-pipeline` installs it")

from headrace.pipeline.__main__ import main
from headrace.pipeline.connection import Connection
from headrace.pipeline.options.kinds import Endpoint, parse
from support.links import settle, until
from support.sentinels import NAME
from support.watched import FAILOVER_DEADLINE_S, Lost, Watched, start_all

pytestmark = [pytest.mark.spark, pytest.mark.oracle]

COUNT = 3000
BATCH_COUNT = 150


@pytest.fixture
def watched(oracle_tools: Path, tmp_path: Path) -> Iterator[Watched]:
    """A primary with 3000 entries in the stream `in`, and two replicas that have them too."""
    for start in start_all(tmp_path / "servers"):
        own = start(("headrace", "headrace", "headrace"))
        own.watch()
        with Connection(endpoint(own)) as connection:
            connection.call_all([("XADD", "in", f"{n}-0", "n", n) for n in range(1, COUNT + 1)])
            connection.call("XGROUP", "CREATE", "in", "g", "0")
        settle(*(node.connect() for node in own.nodes))
        yield own


def login(watched: Watched) -> dict[str, str]:
    """The options that name the server."""
    assert watched.sentinels is not None
    return {"sentinels": watched.sentinels.addresses, "master": NAME, "readTimeout": "5s"}


def endpoint(watched: Watched) -> Endpoint:
    return parse(Endpoint, login(watched))


def copy(spark: Any, watched: Watched, folder: Path, how: Lost, reading: dict[str, str], **writing: str) -> list[int]:
    """Copies `in` to `out`, and loses the primary when some batches are done. Returns the numbers that are written."""
    reader = spark.readStream.format("headrace").options(**login(watched), stream="in", fields="n int", **reading)
    writer = reader.option("maxEntriesPerTrigger", BATCH_COUNT).load().select("n").writeStream.format("headrace")
    writer = writer.options(**login(watched), stream="out", **writing).option("checkpointLocation", str(folder))
    query = writer.trigger(availableNow=True).start()

    def batches_count() -> int:
        assert query.exception() is None
        return len(list((folder / "commits").glob("[0-9]*")))

    until(lambda: batches_count() >= 3, "no batch ends", FAILOVER_DEADLINE_S)
    watched.lose(how)
    before = batches_count()
    assert query.isActive
    watched.await_failover()
    query.awaitTermination()
    assert batches_count() > before, "the query had ended before the failover"
    with Connection(endpoint(watched)) as connection:
        return sorted(int(pairs[1]) for _, pairs in connection.call("XRANGE", "out", "-", "+"))


def test_log_mode_writes_each_entry_once(spark: Any, watched: Watched, tmp_path: Path) -> None:
    reading = {"startingOffsets": "earliest", "readFrom": "replica"}
    written = copy(spark, watched, tmp_path / "c", Lost.KILLED, reading, waitReplicas="1")
    assert written == list(range(1, COUNT + 1))


def test_log_mode_survives_a_cut_link(spark: Any, watched: Watched, tmp_path: Path) -> None:
    """The primary takes rows for a moment that no replica gets: they are sent again to the new one."""
    reading = {"startingOffsets": "earliest"}
    written = copy(spark, watched, tmp_path / "c", Lost.CUT, reading, waitReplicas="1")
    assert written == list(range(1, COUNT + 1))


def test_queue_mode_loses_no_entry(spark: Any, watched: Watched, tmp_path: Path) -> None:
    reading = {"mode": "queue", "group": "g", "minIdle": "2s"}
    written = copy(spark, watched, tmp_path / "c", Lost.KILLED, reading, waitReplicas="1")
    assert set(written) == set(range(1, COUNT + 1))
    with Connection(endpoint(watched)) as connection:
        assert connection.call("XPENDING", "in", "g")[0] == 0


def test_jobs_find_the_server_by_sentinels(
    spark: Any, watched: Watched, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert watched.sentinels is not None
    watched.lose(Lost.KILLED)
    words = ["--stream", "in", "--path", str(tmp_path / "out"), "--sentinels", watched.sentinels.addresses]
    assert main(["archive", *words, "--sentinel-master", NAME, "--read-from", "replica"]) == 0, capsys.readouterr().err
    assert spark.read.parquet(str(tmp_path / "out")).count() == COUNT
    assert main(["archive", *words]) == 1
    assert "options --sentinels and --sentinel-master need each other" in capsys.readouterr().err
