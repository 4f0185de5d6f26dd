"""Saves in foreachBatch: a second save to the same stream loses no rows silently."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.servers import Server
from support.spark_streams import connect, fill

pytest.importorskip("pyspark", reason="pyspark is not installed: `make test-pipeline` installs it")

from headrace.pipeline.errors import PipelineError, message_of
from headrace.pipeline.writing.saves import Save


def test_second_save_of_a_batch_to_a_stream_is_refused(tmp_path: Path) -> None:
    first, second = Save(tmp_path, "7", "8"), Save(tmp_path, "7", "9")
    for stream in (b"s", b"t"):
        first.note("here", "query", stream)
        first.note("here", "query", stream)
    with pytest.raises(PipelineError, match="stream s: foreachBatch saves to it twice"):
        second.note("here", "query", b"s")
    second.note("there", "query", b"s")
    second.note("here", "other", b"s")
    second.note("here", "query", b"u")


def test_failed_save_is_refused_within_its_batch(tmp_path: Path) -> None:
    """Spark gives a repeated save a new number, so it looks like another save."""
    Save(tmp_path, "7", "8").note("here", "query", b"s")
    with pytest.raises(PipelineError, match=r"to repeat a failed save, start the query again"):
        Save(tmp_path, "7", "9").note("here", "query", b"s")
    Save(tmp_path, "12", "13").note("here", "query", b"s")


def test_notes_of_earlier_batches_are_removed(tmp_path: Path) -> None:
    for batch in range(8, 13):
        Save(tmp_path, str(batch), str(batch + 1)).note("here", "query", b"s")
        assert len(list(tmp_path.iterdir())) == 1


def run(spark: Any, server: Server, folder: Path, write: Callable[[Any, int], None]) -> None:
    frame = spark.readStream.format("headrace").options(stream="s", port=server.port, startingOffsets="earliest")
    frame = frame.option("fields", "n int").load().select("n")
    writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def numbers(server: Server, key: str) -> list[int]:
    with connect(server) as connection:
        return sorted(int(pairs[1]) for _, pairs in connection.call("XRANGE", key, "-", "+"))


@pytest.mark.spark
def test_batch_is_saved_twice_only_under_two_producers(spark: Any, headrace: Server, tmp_path: Path) -> None:
    fill(headrace, "s", 100)

    def save(batch: Any, stream: str, **options: str) -> None:
        batch.write.format("headrace").options(port=headrace.port, stream=stream, **options).mode("append").save()

    def unnamed(batch: Any, _: int) -> None:
        save(batch, "one")
        save(batch, "other")
        save(batch, "one")

    with pytest.raises(Exception, match="stream one: foreachBatch saves to it twice") as caught:
        run(spark, headrace, tmp_path / "unnamed", unnamed)
    assert "option producer" in message_of(caught.value)
    assert numbers(headrace, "one") == numbers(headrace, "other") == list(range(1, 101))

    runs = []

    def named(batch: Any, number: int) -> None:
        for producer in ("a", "b"):
            save(batch, "both", producer=producer)
        runs.append(number)
        if len(runs) == 1:
            raise RuntimeError("the driver died")

    with pytest.raises(Exception, match="the driver died"):
        run(spark, headrace, tmp_path / "named", named)
    run(spark, headrace, tmp_path / "named", named)
    assert runs == [0, 0]
    assert numbers(headrace, "both") == sorted([*range(1, 101)] * 2)
