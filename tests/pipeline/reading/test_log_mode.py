"""Log mode against a real server, without Spark: every batch is a range that can be read again."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from support.servers import Server
from support.spark_streams import connect, fill

pytest.importorskip("pyspark", reason="pyspark is not installed: `make test-pipeline` installs it")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: `make test-pipeline` installs it")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows  # noqa: E402

from headrace.pipeline.columns.decode import Decoder  # noqa: E402
from headrace.pipeline.errors import DataLoss, OptionError, PipelineError  # noqa: E402
from headrace.pipeline.options.kinds import StreamOptions, parse  # noqa: E402
from headrace.pipeline.reading.log_mode import HeadraceLogReader  # noqa: E402

ALL = ReadAllAvailable()


def reader(server: Server, **options: Any) -> HeadraceLogReader:
    given = {"stream": "s", "startingOffsets": "earliest", "port": str(server.port), "minPartitions": "2"}
    given |= {name: str(value) for name, value in options.items()}
    if options.get("streamPattern"):
        del given["stream"]
    return HeadraceLogReader(parse(StreamOptions, given), Decoder(pa.schema([("n", pa.int32())])))


def batch(source: HeadraceLogReader, start: Any, end: Any) -> list[int]:
    found = []
    for partition in source.partitions(start, end):
        for records in source.read(partition):
            found += records.column(0).to_pylist()
    return found


def test_batches_obey_the_limit_and_read_no_entry_twice(server: Server) -> None:
    fill(server, "s", 1000)
    source = reader(server, maxEntriesPerTrigger=300, pageSize=50)
    start, sizes, read = source.initialOffset(), [], []
    while (end := source.latestOffset(start, source.getDefaultReadLimit())) != start:
        assert len(source.partitions(start, end)) == 2
        numbers = batch(source, start, end)
        assert numbers == batch(reader(server), start, end)
        sizes.append(len(numbers))
        read += numbers
        start = end
    assert sizes == [300, 300, 300, 100]
    assert read == list(range(1, 1001))
    assert start["s"]["n"] == 1000


def test_entries_trimmed_while_a_batch_is_read_are_reported(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    fill(server, "s", 1000)
    strict, lax = reader(server, pageSize=50), reader(server, pageSize=50, failOnDataLoss="false")
    start = strict.initialOffset()
    end = strict.latestOffset(start, ReadMaxRows(900))
    planned = [source.partitions(start, end) for source in (strict, lax)]
    assert [len(parts) for parts in planned] == [2, 2]
    with connect(server) as connection:
        connection.call("XTRIM", "s", "MINID", "=", "301-0")
    with pytest.raises(DataLoss, match=r"stream s: 300 of 450 entries from 1-0 to 450-0 were trimmed"):
        list(strict.read(planned[0][0]))
    assert sum(len(records) for records in strict.read(planned[0][1])) == 450
    assert sum(len(records) for part in planned[1] for records in lax.read(part)) == 600
    assert "stream s: 300 of 450 entries" in caplog.text
    caplog.clear()
    again = lax.partitions(start, end)
    assert re.search("300 entries after 0-[0-9]+ were trimmed", caplog.text)
    assert sum(len(records) for part in again for records in lax.read(part)) == 600
    assert len(caplog.records) == 1


def test_limit_is_shared_between_streams(headrace: Server) -> None:
    fill(headrace, "a", 900)
    fill(headrace, "b", 100)
    source = reader(headrace, stream="a,b")
    start = source.initialOffset()
    end = source.latestOffset(start, ReadMaxRows(100))
    assert {key: end[key]["n"] for key in end} == {"a": 90, "b": 10}


def test_repeated_batch_has_the_same_partitions_after_new_entries(headrace: Server) -> None:
    fill(headrace, "s", 500)
    source = reader(headrace, pageSize=10, failOnDataLoss=False)
    start = source.initialOffset()
    end = source.latestOffset(start, ALL)
    planned = source.partitions(start, end)
    fill(headrace, "s", 500, first=501)
    assert source.partitions(start, end) == planned
    with connect(headrace) as connection:
        connection.call("XDEL", "s", "17-0", "400-0")
    assert [part.span for part in source.partitions(start, end)] == [part.span for part in planned]
    assert len(planned) == 2


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ({"startingOffsets": "earliest"}, 1),
        ({"startingOffsets": "latest"}, 101),
        ({"startingOffsets": '{"s": "50-0"}'}, 51),
        ({"startingTimestamp": "70"}, 70),
        ({"startingTimestamp": "1970-01-01T00:00:00.070Z"}, 70),
        ({"startingOffsets": "group", "group": "workers"}, 31),
    ],
)
def test_query_starts_at_the_position_of_its_options(headrace: Server, options: Any, first: int) -> None:
    fill(headrace, "s", 100)
    with connect(headrace) as connection:
        connection.call("XGROUP", "CREATE", "s", "workers", "30-0")
    source = reader(headrace, **options)
    start = source.initialOffset()
    fill(headrace, "s", 10, first=101)
    end = source.latestOffset(start, ALL)
    assert batch(source, start, end) == list(range(first, 111))


def test_group_follows_committed_batches_and_shows_the_lag(server: Server) -> None:
    fill(server, "s", 100)
    source = reader(server, group="watch", maxEntriesPerTrigger=60)
    start = source.initialOffset()
    middle = source.latestOffset(start, ReadMaxRows(60))
    assert lag(server) == 100
    end = source.latestOffset(middle, ReadMaxRows(60))
    assert lag(server) == 40
    assert source.latestOffset(end, ReadMaxRows(60)) == end
    assert lag(server) == 0
    assert source.reportLatestOffset() == {"s": {"id": "100-0", "n": 100}}


def lag(server: Server) -> int:
    with connect(server) as connection:
        row = connection.call("XINFO", "GROUPS", "s")[0]
    return int(dict(zip(row[::2], row[1::2], strict=True))[b"lag"])


def test_available_now_ends_where_the_stream_ended_at_the_start(headrace: Server) -> None:
    fill(headrace, "s", 100)
    source = reader(headrace)
    source.prepareForTriggerAvailableNow()
    fill(headrace, "s", 50, first=101)
    start = source.initialOffset()
    first = source.latestOffset(start, ReadMaxRows(70))
    second = source.latestOffset(first, ReadMaxRows(70))
    assert batch(source, start, first) + batch(source, first, second) == list(range(1, 101))
    assert source.latestOffset(second, ReadMaxRows(70)) == second


def test_batch_waits_for_the_minimum_of_entries(headrace: Server) -> None:
    fill(headrace, "s", 10)
    source = reader(headrace, minEntriesPerTrigger=20, maxTriggerDelay="1h")
    start = source.initialOffset()
    assert source.latestOffset(start, ALL) == start
    impatient = reader(headrace, minEntriesPerTrigger=20, maxTriggerDelay="0s")
    assert impatient.latestOffset(start, ALL) != start
    fill(headrace, "s", 10, first=11)
    assert source.latestOffset(start, ALL)["s"]["n"] == 20


def test_new_streams_of_a_pattern_are_read_from_their_beginning(headrace: Server) -> None:
    fill(headrace, "t:1", 5)
    source = reader(headrace, streamPattern="t:*", startingOffsets="latest")
    start = source.initialOffset()
    fill(headrace, "t:2", 3)
    end = source.latestOffset(start, ALL)
    assert batch(source, start, end) == [1, 2, 3]
    assert set(end) == {"t:1", "t:2"}
    with pytest.raises(OptionError, match="one of the options stream and streamPattern"):
        reader(headrace, stream="s", streamPattern="").initialOffset()


def test_trimmed_entries_fail_the_query_with_their_count(headrace: Server) -> None:
    fill(headrace, "s", 100)
    source = reader(headrace, maxEntriesPerTrigger=10)
    start = source.latestOffset(source.initialOffset(), ReadMaxRows(10))
    with connect(headrace) as connection:
        connection.call("XTRIM", "s", "MAXLEN", 50)
    with pytest.raises(DataLoss, match=r"stream s: 40 entries after 10-0 were trimmed .* \(option failOnDataLoss"):
        source.latestOffset(start, ALL)


UNCOUNTED = [
    {"startingTimestamp": "11"},
    {"startingOffsets": '{"s": "10-0"}'},
    {"startingOffsets": "group", "group": "workers"},
]


def uncounted(server: Server) -> None:
    """Entries 1 to 100 without 5, so that the number of entries up to 10 is not known."""
    fill(server, "s", 100)
    with connect(server) as connection:
        connection.call("XDEL", "s", "5-0")
        connection.call("XGROUP", "CREATE", "s", "workers", "10-0")


@pytest.mark.parametrize("options", UNCOUNTED)
def test_trimmed_entries_fail_a_query_that_cannot_count_them(server: Server, options: Any) -> None:
    uncounted(server)
    source = reader(server, **options)
    first = source.initialOffset()
    with connect(server) as connection:
        connection.call("XTRIM", "s", "MINID", "=", "11-0")
    start = source.latestOffset(first, ReadMaxRows(10))
    assert batch(source, first, start) == list(range(11, 21))
    with connect(server) as connection:
        connection.call("XTRIM", "s", "MINID", "=", "21-0")
        assert batch(source, start, source.latestOffset(start, ReadMaxRows(10))) == list(range(21, 31))
        connection.call("XTRIM", "s", "MINID", "=", "51-0")
    with pytest.raises(DataLoss, match=r"stream s: (30 entries after 20-0|entries from 21-0 on) were trimmed"):
        source.latestOffset(start, ALL)
    with pytest.raises(DataLoss, match=r"stream s: entries from 11-0 on were trimmed or deleted unread"):
        source.latestOffset(first, ALL)
    lax = reader(server, failOnDataLoss=False, **options)
    assert batch(lax, first, lax.latestOffset(first, ALL)) == list(range(51, 101))


@pytest.mark.parametrize("options", UNCOUNTED)
def test_entries_trimmed_before_an_uncounted_part_is_read_are_reported(server: Server, options: Any) -> None:
    uncounted(server)
    source = reader(server, pageSize=10, **options)
    start = source.initialOffset()
    first, second = source.partitions(start, source.latestOffset(start, ALL))
    with connect(server) as connection:
        connection.call("XTRIM", "s", "MINID", "=", "11-0")
        assert sum(len(records) for records in source.read(first)) == 50
        connection.call("XTRIM", "s", "MINID", "=", "41-0")
    with pytest.raises(DataLoss, match=r"entries from 11-0 to 60-0: up to 39 may have been trimmed before"):
        list(source.read(first))
    assert sum(len(records) for records in source.read(second)) == 40


def test_query_that_starts_before_a_deleted_last_entry_reports_the_loss(server: Server) -> None:
    fill(server, "s", 10)
    with connect(server) as connection:
        connection.call("XDEL", "s", "9-0", "10-0")
    source = reader(server, startingOffsets='{"s": "8-0"}')
    with pytest.raises(DataLoss, match=r"stream s: 10-0 was deleted, maybe unread"):
        source.latestOffset(source.initialOffset(), ALL)


def test_query_that_starts_at_the_end_reports_entries_trimmed_before_its_first_batch(server: Server) -> None:
    fill(server, "s", 10)
    source = reader(server, startingOffsets='{"s": "10-0"}')
    start = source.initialOffset()
    fill(server, "s", 10, first=11)
    with connect(server) as connection:
        connection.call("XTRIM", "s", "MAXLEN", 4)
    with pytest.raises(DataLoss, match=r"stream s: 6 entries after 10-0 were trimmed"):
        source.latestOffset(start, ALL)


def test_trimmed_entries_are_one_warning_with_fail_on_data_loss_false(
    headrace: Server, caplog: pytest.LogCaptureFixture
) -> None:
    fill(headrace, "s", 100)
    source = reader(headrace, failOnDataLoss=False)
    start = source.latestOffset(source.initialOffset(), ReadMaxRows(10))
    with connect(headrace) as connection:
        connection.call("XTRIM", "s", "MAXLEN", 50)
    with caplog.at_level(logging.WARNING):
        source.latestOffset(start, ALL)
        end = source.latestOffset(start, ALL)
    assert [record.message for record in caplog.records if "40 entries after 10-0" in record.message] != []
    assert len(caplog.records) == 1
    assert batch(source, start, end) == list(range(51, 101))


def test_stream_created_again_is_read_from_its_beginning_once(headrace: Server) -> None:
    fill(headrace, "s", 100)
    source = reader(headrace, failOnDataLoss=False)
    start = source.latestOffset(source.initialOffset(), ALL)
    with connect(headrace) as connection:
        connection.call("DEL", "s")
    fill(headrace, "s", 3)
    with pytest.raises(DataLoss, match="it was deleted and created again"):
        reader(headrace).latestOffset(start, ALL)
    end = source.latestOffset(start, ALL)
    assert batch(source, start, end) == [1, 2, 3]
    assert source.latestOffset(end, ALL) == end
    fill(headrace, "s", 1, first=4)
    assert batch(source, end, source.latestOffset(end, ALL)) == [4]


def test_repeated_batch_fails_if_its_entries_were_trimmed(headrace: Server) -> None:
    fill(headrace, "s", 100)
    source = reader(headrace, startingOffsets="earliest")
    start = source.initialOffset()
    end = source.latestOffset(start, ALL)
    with connect(headrace) as connection:
        connection.call("XTRIM", "s", "MAXLEN", 10)
    with pytest.raises(DataLoss, match="90 entries after 0-18446744073709551615 were trimmed"):
        reader(headrace).partitions(start, end)
    assert batch(reader(headrace, failOnDataLoss=False), start, end) == list(range(91, 101))


def test_query_that_starts_after_the_last_entry_waits_for_the_next(headrace: Server) -> None:
    fill(headrace, "s", 3)
    source = reader(headrace, stream="s,none", startingTimestamp="2026-01-01T00:00:00Z")
    start = source.initialOffset()
    assert source.latestOffset(start, ALL) == start
    fill(headrace, "s", 1, first=4)
    assert batch(source, start, source.latestOffset(start, ALL)) == [4]
    with pytest.raises(OptionError, match="option startingTimestamp is in the future"):
        reader(headrace, startingTimestamp="2999-01-01T00:00:00Z").initialOffset()


def test_missing_group_and_wrong_type_are_errors(headrace: Server) -> None:
    fill(headrace, "s", 1)
    with connect(headrace) as connection:
        connection.call("SET", "text", "x")
    with pytest.raises(OptionError, match="stream s has no group missing"):
        reader(headrace, startingOffsets="group", group="missing").initialOffset()
    with pytest.raises(PipelineError, match="stream text: the key is not a stream"):
        reader(headrace, stream="text").initialOffset()


def test_a_stream_that_does_not_exist_is_reported_once(headrace: Server, caplog: pytest.LogCaptureFixture) -> None:
    source = reader(headrace, stream="s,none")
    fill(headrace, "s", 3)
    start = source.initialOffset()
    assert source.latestOffset(start, ALL)["s"]["n"] == 3
    source.prepareForTriggerAvailableNow()
    missing = f"there is no stream none on 127.0.0.1:{headrace.port}: it is read if it is made"
    assert [record.getMessage() for record in caplog.records] == [missing]
