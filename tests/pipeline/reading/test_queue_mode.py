"""Queue mode: entries shared with other consumers, acknowledged only when their batch is committed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.servers import Server
from support.spark_streams import connect, fill

pytest.importorskip("pyspark", reason="pyspark is not installed: `make test-pipeline` installs it")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: `make test-pipeline` installs it")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows  # noqa: E402

from headrace.pipeline.columns.decode import Decoder  # noqa: E402
from headrace.pipeline.errors import OptionError, PipelineError, message_of  # noqa: E402
from headrace.pipeline.options.kinds import QueueOptions, parse  # noqa: E402
from headrace.pipeline.reading.group import FATAL, Group  # noqa: E402
from headrace.pipeline.reading.holders import Batch, Part  # noqa: E402
from headrace.pipeline.reading.lease import Lease  # noqa: E402
from headrace.pipeline.reading.queue_mode import HeadraceQueueReader, Share  # noqa: E402

SCHEMA = pa.schema([("n", pa.int32()), ("_deliveries", pa.int64()), ("_consumer", pa.string())])
LIMIT = ReadMaxRows(100)
# The offset where a query with its token begins.
NOTHING = {"seq": 0, "token": "t"}


@pytest.fixture
def queue(server: Server) -> Server:
    """A server with 250 entries in `s` and a group `g` that has read none."""
    fill(server, "s", 250)
    with connect(server) as connection:
        connection.call("XGROUP", "CREATE", "s", "g", "0")
    return server


def reader(server: Server, **options: Any) -> HeadraceQueueReader:
    given = {"stream": "s", "group": "g", "port": server.port, "minPartitions": 2, "minIdle": "1h", **options}
    options_read = parse(QueueOptions, {name: str(value) for name, value in given.items()})
    return HeadraceQueueReader(options_read, Decoder(SCHEMA))


def rows(source: HeadraceQueueReader, start: Any, end: Any) -> list[Any]:
    found = []
    for partition in source.partitions(start, end):
        for records in source.read(partition):
            found += records.to_pylist()
    return sorted(found, key=lambda row: row["n"])


def numbers(source: HeadraceQueueReader, start: Any, end: Any) -> list[int]:
    return [row["n"] for row in rows(source, start, end)]


def die(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def pending(server: Server) -> int:
    with connect(server) as connection:
        count: int = connection.call("XPENDING", "s", "g")[0]
    return count


def test_batches_take_every_entry_once_and_acknowledge_committed_ones(queue: Server) -> None:
    source = reader(queue)
    start, read = source.initialOffset(), []
    while (end := source.latestOffset(start, LIMIT)) != start:
        batch = numbers(source, start, end)
        assert pending(queue) == len(batch)
        read += batch
        start = end
    assert read == list(range(1, 251))
    assert pending(queue) == 0
    with connect(queue) as connection:
        assert connection.call("XINFO", "CONSUMERS", "s", "g") == []


def test_batch_repeated_after_a_crash_holds_the_same_entries_delivered_again(queue: Server) -> None:
    end = reader(queue).latestOffset(NOTHING, LIMIT)
    again = reader(queue)
    found = rows(again, NOTHING, end)
    assert [row["n"] for row in found] == list(range(1, 101))
    assert {row["_deliveries"] for row in found} == {2}
    assert {row["_consumer"] for row in found} == {"spark-t-1-0", "spark-t-1-1"}


def test_crash_between_taking_a_batch_and_its_checkpoint_changes_nothing(queue: Server) -> None:
    first = reader(queue)
    first.latestOffset(NOTHING, LIMIT)
    second = reader(queue)
    end = second.latestOffset(NOTHING, LIMIT)
    assert numbers(second, NOTHING, end) == list(range(1, 101))
    assert pending(queue) == 100


def test_entries_acknowledged_or_claimed_by_other_consumers_are_not_read(queue: Server) -> None:
    source = reader(queue)
    end = source.latestOffset(NOTHING, LIMIT)
    with connect(queue) as connection:
        connection.call("XACK", "s", "g", "5-0")
        connection.call("XCLAIM", "s", "g", "bob", 0, "7-0", "JUSTID")
    assert numbers(source, NOTHING, end) == [n for n in range(1, 101) if n not in (5, 7)]
    source.latestOffset(end, ReadMaxRows(1))
    with connect(queue) as connection:
        assert connection.call("XPENDING", "s", "g", "-", "+", 10, "bob")[0][0] == b"7-0"


def test_idle_and_released_entries_of_other_consumers_are_claimed(queue: Server) -> None:
    with connect(queue) as connection:
        connection.call("XREADGROUP", "GROUP", "g", "ann", "COUNT", 10, "STREAMS", "s", ">")
        connection.call("XNACK", "s", "g", "FAIL", "IDS", 2, "1-0", "2-0")
    source = reader(queue)
    found = rows(source, NOTHING, source.latestOffset(NOTHING, ReadMaxRows(5)))
    assert {row["n"]: row["_deliveries"] for row in found} == {1: 2, 2: 2, 11: 1, 12: 1, 13: 1}
    impatient = reader(queue, minIdle="0ms", consumer="other")
    found = rows(impatient, NOTHING, impatient.latestOffset(NOTHING, ReadMaxRows(8)))
    assert {row["n"] for row in found} >= set(range(3, 9))
    quiet = reader(queue, minIdle="off", consumer="third")
    assert numbers(quiet, NOTHING, quiet.latestOffset(NOTHING, ReadMaxRows(1))) == [14]


def test_task_that_fails_releases_its_entries_for_others(queue: Server) -> None:
    with connect(queue) as connection:
        connection.call("XADD", "s", "251-0", "n", "many")
    strict = reader(queue, minPartitions=1, pageSize=10)
    strict.decoder = Decoder(SCHEMA, parse_mode="FAILFAST")
    [part] = strict.partitions(NOTHING, strict.latestOffset(NOTHING, ReadMaxRows(251)))
    with pytest.raises(PipelineError, match="entry 251-0 of stream s does not fit"):
        list(strict.read(part))
    with connect(queue) as connection:
        listed = connection.call("XPENDING", "s", "g", "-", "+", 1000)
    assert len(listed) == 251
    assert {(row[1], row[3]) for row in listed} == {(b"", 1)}
    source = reader(queue, minPartitions=1)
    found = rows(source, {"seq": 1, "token": "t"}, source.latestOffset({"seq": 1, "token": "t"}, ReadMaxRows(250)))
    assert [row["n"] for row in found] == list(range(1, 251))
    assert {row["_deliveries"] for row in found} == {2}


def test_partly_read_part_keeps_its_entries_until_its_batch_is_committed(queue: Server) -> None:
    source = reader(queue, minPartitions=1, pageSize=10)
    end = source.latestOffset(NOTHING, LIMIT)
    [part] = source.partitions(NOTHING, end)
    reading = source.read(part)
    next(reading)
    reading.close()  # as Spark does for batch.isEmpty() and for a limit
    found = rows(source, NOTHING, end)
    assert [row["n"] for row in found] == list(range(1, 101))
    assert {(row["_consumer"], row["_deliveries"]) for row in found} == {("spark-t-1-0", 1)}
    source.commit(end)
    assert pending(queue) == 0


@pytest.mark.parametrize("options", [{"maxDeliveries": 5}, {"deadLetterStream": "dead"}])
def test_dead_letters_need_a_limit_and_a_stream(options: dict[str, Any]) -> None:
    given = {"stream": "s", "group": "g", **{name: str(value) for name, value in options.items()}}
    with pytest.raises(OptionError, match="options maxDeliveries and deadLetterStream need each other: set both"):
        HeadraceQueueReader(parse(QueueOptions, given), Decoder(SCHEMA))


def test_entries_delivered_too_often_are_moved_to_the_dead_letter_stream_once(queue: Server) -> None:
    with connect(queue) as connection:
        connection.call("XREADGROUP", "GROUP", "g", "ann", "COUNT", 3, "STREAMS", "s", ">")
        connection.call("XNACK", "s", "g", "FATAL", "IDS", 1, "1-0")
        connection.call("XNACK", "s", "g", "FAIL", "IDS", 1, "2-0", "RETRYCOUNT", 9)
        connection.call("XNACK", "s", "g", "FAIL", "IDS", 1, "3-0")
        source = reader(queue, maxDeliveries=5, deadLetterStream="dead")
        assert numbers(source, NOTHING, source.latestOffset(NOTHING, ReadMaxRows(5))) == [3, 4, 5]
        dead = connection.call("XRANGE", "dead", "-", "+")
        assert [pairs[:2] + pairs[4:8] for _, pairs in dead] == [
            [b"n", b"%d" % n, b"_dlq_stream", b"s", b"_dlq_id", b"%d-0" % n] for n in (1, 2)
        ]
        assert pending(queue) == 3


@pytest.mark.parametrize("ack_mode", ["batch", "manual"])
def test_fatal_entries_stay_unchanged_without_a_dead_letter_stream(queue: Server, ack_mode: str) -> None:
    with connect(queue) as connection:
        connection.call("XREADGROUP", "GROUP", "g", "ann", "COUNT", 20, "STREAMS", "s", ">")
        connection.call("XNACK", "s", "g", "FATAL", "IDS", 20, *[f"{n}-0" for n in range(1, 21)])
        source = reader(queue, ackMode=ack_mode)
        first = source.latestOffset(NOTHING, ReadMaxRows(10))
        assert numbers(source, NOTHING, first) == list(range(21, 31))
        connection.call("XACK", "s", "g", *[f"{n}-0" for n in range(21, 31)])
        second = source.latestOffset(first, ReadMaxRows(10))
        assert numbers(source, first, second) == list(range(31, 41))
        listed = connection.call("XPENDING", "s", "g", "-", "20-0", 100)
        assert [(row[0], row[1], row[3]) for row in listed] == [(b"%d-0" % n, b"", FATAL) for n in range(1, 21)]


def test_query_with_available_now_ends_despite_fatal_entries(queue: Server) -> None:
    with connect(queue) as connection:
        connection.call("XREADGROUP", "GROUP", "g", "ann", "COUNT", 20, "STREAMS", "s", ">")
        connection.call("XNACK", "s", "g", "FATAL", "IDS", 20, *[f"{n}-0" for n in range(1, 21)])
    source = reader(queue)
    source.prepareForTriggerAvailableNow()
    start, read = NOTHING, []
    while (end := source.latestOffset(start, LIMIT)) != start:
        read += numbers(source, start, end)
        start = end
    assert read == list(range(21, 251))
    assert pending(queue) == 20


def drain(source: HeadraceQueueReader, most: int) -> list[tuple[str, int]]:
    """Returns the entries that a query with availableNow reads: stream and n, batch by batch."""
    source.decoder = Decoder(pa.schema([("_stream", pa.string()), ("n", pa.int32())]))
    source.prepareForTriggerAvailableNow()
    start, read = NOTHING, []
    while (end := source.latestOffset(start, ReadMaxRows(most))) != start:
        for partition in source.partitions(start, end):
            for records in source.read(partition):
                read += [(row["_stream"], row["n"]) for row in records.to_pylist()]
        start = end
    return read


@pytest.fixture
def uneven(server: Server) -> Server:
    """Streams a, b and c with 1, 40 and 3 entries, and a group `g` of each."""
    with connect(server) as connection:
        for stream, count in (("a", 1), ("b", 40), ("c", 3)):
            fill(server, stream, count)
            connection.call("XGROUP", "CREATE", stream, "g", "0")
    return server


@pytest.mark.parametrize("most", [1, 2, 10, 100])
def test_query_with_available_now_reads_every_stream_to_its_end(uneven: Server, most: int) -> None:
    read = drain(reader(uneven, stream="a,b,c"), most)
    expected = [("a", 1), *(("b", n) for n in range(1, 41)), *(("c", n) for n in range(1, 4))]
    assert sorted(read) == expected


def test_batch_is_full_although_one_stream_has_few_entries(uneven: Server) -> None:
    with connect(uneven) as connection:  # pending at another consumer, so not readable
        connection.call("XREADGROUP", "GROUP", "g", "ann", "COUNT", 2, "STREAMS", "c", ">")
    source = reader(uneven, stream="a,b,c")
    source.latestOffset(NOTHING, ReadMaxRows(30))
    assert sum(group.held_count("spark-") for group in source._groups()) == 30
    assert source._groups()[2].held_count("spark-") == 1


def test_new_entries_do_not_displace_those_there_at_the_start(uneven: Server) -> None:
    source = reader(uneven, stream="a,b")
    source.prepareForTriggerAvailableNow()
    fill(uneven, "a", 100, first=2)
    start, batches = NOTHING, 0
    while (end := source.latestOffset(start, ReadMaxRows(10))) != start:
        start, batches = end, batches + 1
    with connect(uneven) as connection:
        standings = [Group(connection, stream, "g", 10).standing() for stream in "ab"]
    assert [standing.new for standing in standings] == [100, 0]
    assert batches == 5


def test_entry_that_is_released_repeatedly_does_not_keep_a_query_from_ending(queue: Server) -> None:
    source = reader(queue, ackMode="manual")
    source.prepareForTriggerAvailableNow()
    seen: set[int] = set()
    start = NOTHING
    with connect(queue) as connection:
        while (end := source.latestOffset(start, ReadMaxRows(50))) != start:
            read = numbers(source, start, end)
            done = [f"{n}-0" for n in read if n > 10]
            connection.call("XNACK", "s", "g", "FAIL", "IDS", 10, *[f"{n}-0" for n in range(1, 11)])
            if done:
                connection.call("XACK", "s", "g", *done)
            seen.update(read)
            start = end
    assert seen == set(range(1, 251))


def test_dead_letters_are_copied_once_even_if_a_task_dies_before_it_acknowledges(
    queue: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(queue) as connection:
        connection.call("XREADGROUP", "GROUP", "g", "ann", "STREAMS", "s", ">")
        ids = [f"{n}-0" for n in range(1, 251)]
        connection.call("XNACK", "s", "g", "FATAL", "IDS", len(ids), *ids)
        source = reader(queue, maxDeliveries=5, deadLetterStream="dead", minPartitions=1)
        end = source.latestOffset(NOTHING, ReadMaxRows(250))
        with monkeypatch.context() as dying:
            dying.setattr(Group, "acknowledge", die)
            with pytest.raises(KeyboardInterrupt):
                numbers(source, NOTHING, end)
        assert pending(queue) == connection.call("XLEN", "dead") == 250
        assert numbers(source, NOTHING, end) == []
        assert [entry_id for entry_id, _ in connection.call("XRANGE", "s", "-", "+")] == [
            pairs[7] for _, pairs in connection.call("XRANGE", "dead", "-", "+")
        ]
        assert pending(queue) == 0


def test_dead_letter_stream_with_other_settings_in_use_is_an_error(queue: Server) -> None:
    with connect(queue) as connection:
        connection.call("XADD", "dead", "IDMP", "other", "1", "*", "n", "1")
        connection.call("XREADGROUP", "GROUP", "g", "ann", "COUNT", 1, "STREAMS", "s", ">")
        connection.call("XNACK", "s", "g", "FATAL", "IDS", 1, "1-0")
    source = reader(queue, maxDeliveries=5, deadLetterStream="dead")
    with pytest.raises(PipelineError, match="dead letters for stream dead: it cannot be made to recognise copies"):
        numbers(source, NOTHING, source.latestOffset(NOTHING, LIMIT))


def test_manual_mode_leaves_acknowledging_to_the_sink(queue: Server) -> None:
    source = reader(queue, ackMode="manual")
    end = source.latestOffset(NOTHING, LIMIT)
    with connect(queue) as connection:
        connection.call("XACK", "s", "g", *[f"{n}-0" for n in range(1, 100)])
    source.latestOffset(end, ReadMaxRows(1))
    with connect(queue) as connection:
        assert connection.call("XPENDING", "s", "g", "100-0", "100-0", 1)[0][1] == b"spark-t-1-1"


def test_consumers_are_deleted_once_others_have_claimed_their_last_entries(queue: Server) -> None:
    source = reader(queue, ackMode="manual")
    first = source.latestOffset(NOTHING, LIMIT)
    second = source.latestOffset(first, LIMIT)
    with connect(queue) as connection:
        for name in ("spark-u-1-0", "spark-t-x-0"):
            connection.call("XGROUP", "CREATECONSUMER", "s", "g", name)
        connection.call("XCLAIM", "s", "g", "bob", 0, *[f"{n}-0" for n in range(1, 51)])
        source.latestOffset(second, LIMIT)
    names = {"bob", "spark-u-1-0", "spark-t-x-0", *(f"spark-t-{part}" for part in ("1-1", "2-0", "2-1", "3-0", "3-1"))}
    assert set(holding(source)) == names


def test_ack_mode_delete_deletes_acknowledged_entries(queue: Server) -> None:
    source = reader(queue, ackMode="delete")
    source.latestOffset(source.latestOffset(NOTHING, LIMIT), LIMIT)
    with connect(queue) as connection:
        assert connection.call("XLEN", "s") == 150


def test_deleted_entries_do_not_stop_a_batch(queue: Server) -> None:
    source = reader(queue, pageSize=7)
    end = source.latestOffset(NOTHING, LIMIT)
    with connect(queue) as connection:
        connection.call("XDEL", "s", "10-0", "50-0")
    assert numbers(source, NOTHING, end) == [n for n in range(1, 101) if n not in (10, 50)]


def test_lease_keeps_entries_from_becoming_idle(headrace: Server) -> None:
    fill(headrace, "s", 10)
    with connect(headrace) as connection:
        connection.call("XGROUP", "CREATE", "s", "g", "0")
        source = reader(headrace)
        source.latestOffset(NOTHING, LIMIT)
        ids = [f"{n}-0" for n in range(1, 6)]
        connection.call("XCLAIM", "s", "g", "spark-t-1-0", 0, *ids, "IDLE", 3_000_000, "JUSTID")
        Lease(source.options, Batch("spark", "t", 1)).renew(source._groups()[0])
        assert connection.call("XPENDING", "s", "g", "IDLE", 1_000_000, "-", "+", 10) == []
        counts = {row[3] for row in connection.call("XPENDING", "s", "g", "-", "+", 10)}
    assert counts == {1}


def test_missing_group_is_an_error(queue: Server) -> None:
    with pytest.raises(PipelineError, match="stream s has no group none: create it with XGROUP CREATE"):
        reader(queue, group="none").initialOffset()


def test_missing_stream_is_an_error(queue: Server) -> None:
    with pytest.raises(PipelineError, match="group g of stream none: there is no such stream: make it with its group"):
        reader(queue, stream="none").initialOffset()


def test_two_queries_of_one_group_and_name_share_entries_but_no_batches(queue: Server) -> None:
    both, starts, read = [reader(queue), reader(queue)], [], []
    for source in both:
        start = source.initialOffset()
        named = source.latestOffset(start, LIMIT)
        assert source.partitions(start, named) == []
        starts.append(named)
    assert starts[0] != starts[1]
    for source, start in zip(both, starts, strict=True):
        read += numbers(source, start, source.latestOffset(start, LIMIT))
    assert sorted(read) == list(range(1, 201))


def test_restarted_query_finds_its_batch_by_the_token_in_its_checkpoint(queue: Server) -> None:
    first = reader(queue)
    start = first.latestOffset(first.initialOffset(), LIMIT)
    end = first.latestOffset(start, LIMIT)
    again = reader(queue)
    assert again.initialOffset() == {"seq": 0}
    assert numbers(again, start, end) == list(range(1, 101))
    following = again.latestOffset(end, LIMIT)
    assert numbers(again, end, following) == list(range(101, 201))
    assert pending(queue) == 100


def test_new_query_keeps_foreign_consumers_with_names_like_those_of_a_batch(queue: Server) -> None:
    source = reader(queue)
    with connect(queue) as connection:
        for worker in ("spark-0-1", "spark--0-1"):
            connection.call("XREADGROUP", "GROUP", "g", worker, "COUNT", 10, "STREAMS", "s", ">")
    start = source.initialOffset()
    source.commit(start)
    source.latestOffset(start, LIMIT)
    assert holding(source) == {"spark-0-1": 10, "spark--0-1": 10}


def test_single_batch_of_a_query_is_not_empty(queue: Server) -> None:
    source = reader(queue, maxEntriesPerTrigger=50)
    end = source.latestOffset(source.initialOffset(), ReadAllAvailable())
    assert numbers(source, source.initialOffset(), end) == list(range(1, 51))


def holding(source: HeadraceQueueReader) -> dict[str, int]:
    return {name: row[b"pending"] for name, row in source._groups()[0].consumers().items()}


def fail(source: HeadraceQueueReader, part: Any) -> None:
    """A task that fails before its first row."""
    with pytest.MonkeyPatch.context() as failing:
        failing.setattr(source, "_decode", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            list(source.read(part))


def test_entries_claimed_back_by_the_lease_are_not_acknowledged_unread(
    queue: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = reader(queue, minPartitions=1, pageSize=1000)
    end = source.latestOffset(NOTHING, LIMIT)
    [part] = source.partitions(NOTHING, end)
    renew = Group.renew_owned

    def fail_before(group: Group, *words: Any) -> None:
        """Between listing and claiming of the lease, one task fails and the next finds no entries."""
        monkeypatch.setattr(Group, "renew_owned", renew)
        fail(source, part)
        assert list(source.read(part)) == []
        group.renew_owned(*words)

    monkeypatch.setattr(Group, "renew_owned", fail_before)
    Lease(source.options, Batch("spark", "t", 1)).renew(source._groups()[0])
    # Redis claims them back; Headrace distinguishes what the consumer has lost.
    assert sum(holding(source).values()) == (0 if queue.is_headrace else 100)
    following = source.latestOffset(end, LIMIT)
    assert numbers(source, end, following) == list(range(1, 101))
    assert pending(queue) == 100


def test_task_after_a_failing_one_reads_and_acknowledges_entries_claimed_back(queue: Server) -> None:
    source = reader(queue, minPartitions=1, pageSize=30)
    end = source.latestOffset(NOTHING, LIMIT)
    [part] = source.partitions(NOTHING, end)
    group = source._groups()[0]
    for failures in range(1, 3):
        fail(source, part)
        group.renew("spark-t-1-0", [b"%d-0" % n for n in range(1, 41)])
        assert holding(source)["spark-t-1-0"] == 40
        found = [row for records in source.read(part) for row in records.to_pylist()]
        assert [row["n"] for row in found] == list(range(1, 41))
        assert {row["_consumer"] for row in found} == {f"spark-t-1-0.{failures}"}
    source.commit(end)
    assert holding(source) == {}
    listed = group._ask("XPENDING", "s", "g", "-", "+", 1000)
    assert [(row[0], row[1]) for row in listed] == [(b"%d-0" % n, b"") for n in range(41, 101)]


def test_concurrent_tasks_of_a_part_read_all_its_entries_after_a_failure(queue: Server) -> None:
    source = reader(queue, minPartitions=1, pageSize=10)
    end = source.latestOffset(NOTHING, LIMIT)
    [part] = source.partitions(NOTHING, end)
    group = source._groups()[0]
    fail(source, part)
    group.renew("spark-t-1-0", [b"%d-0" % n for n in range(1, 101)])
    slow, fast = source.read(part), source.read(part)
    next(slow)
    assert sum(len(records) for records in fast) == 100
    assert sum(len(records) for records in slow) == 90
    source.commit(end)
    assert pending(queue) == 0


def test_each_failing_task_makes_its_own_consumer(queue: Server) -> None:
    source = reader(queue, minPartitions=1)
    source.latestOffset(NOTHING, LIMIT)
    part = Part(source._groups()[0], "spark-t-1-0")
    with connect(queue) as connection:
        connection.call("XGROUP", "CREATECONSUMER", "s", "g", "spark-t-1-10")  # of another part
        part.release()
        part.release()
    assert list(part.holders()) == ["spark-t-1-0", "spark-t-1-0.1", "spark-t-1-0.2"]
    assert source.partitions({**NOTHING, "seq": 1}, {**NOTHING, "seq": 1}) == []
    assert Share("s", "spark-t-1-0") not in source._shares(Batch("spark", "t", 1))


@pytest.mark.spark
def test_query_writes_the_whole_queue_to_parquet(spark: Any, headrace: Server, tmp_path: Path) -> None:
    fill(headrace, "s", 2500)
    with connect(headrace) as connection:
        connection.call("XGROUP", "CREATE", "s", "g", "0")
    source = spark.readStream.format("headrace").option("mode", "queue").option("port", headrace.port)
    frame = source.options(stream="s", group="g", fields="n int", maxEntriesPerTrigger="1000").load()
    for _ in range(2):
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "c"))
        writer.option("path", str(tmp_path / "out")).trigger(availableNow=True).start().awaitTermination()
    read = spark.read.parquet(str(tmp_path / "out")).select("n").collect()
    assert sorted(row.n for row in read) == list(range(1, 2501))
    assert pending(headrace) == 0


@pytest.mark.spark
def test_two_queries_at_once_take_each_entry_once(spark: Any, headrace: Server, tmp_path: Path) -> None:
    fill(headrace, "s", 2500)
    with connect(headrace) as connection:
        connection.call("XGROUP", "CREATE", "s", "g", "0")
    source = spark.readStream.format("headrace").option("mode", "queue").option("port", headrace.port)
    frame = source.options(stream="s", group="g", fields="n int", maxEntriesPerTrigger="500").load()
    queries = []
    for name in ("one", "two"):
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / f"{name}-checkpoint"))
        queries.append(writer.option("path", str(tmp_path / name)).trigger(availableNow=True).start())
    for query in queries:
        query.awaitTermination()
    read = [row.n for name in ("one", "two") for row in spark.read.parquet(str(tmp_path / name)).select("n").collect()]
    assert sorted(read) == list(range(1, 2501))
    assert pending(headrace) == 0


@pytest.mark.spark
def test_missing_group_reaches_the_driver_in_one_line(spark: Any, headrace: Server, tmp_path: Path) -> None:
    fill(headrace, "s", 1)
    source = spark.readStream.format("headrace").option("mode", "queue").option("port", headrace.port)
    frame = source.options(stream="s", group="none").load()
    with pytest.raises(Exception, match=r"(?s).") as caught:
        frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start().awaitTermination()
    assert message_of(caught.value).startswith("stream s has no group none: create it")
