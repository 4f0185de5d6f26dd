"""The sink without Spark: repeated partitions, lost connections, and streams of other producers."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, local
from typing import Any

import pytest

from support.links import follow
from support.servers import Server
from support.spark_streams import connect

pytest.importorskip("pyspark", reason="pyspark is not installed: `make test-pipeline` installs it")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: `make test-pipeline` installs it")

from headrace.pipeline.connection.client import Connection  # noqa: E402
from headrace.pipeline.errors import OptionError, PipelineError, Refused, ServerGone  # noqa: E402
from headrace.pipeline.options.kinds import SettleOptions, WriteOptions, parse  # noqa: E402
from headrace.pipeline.writing.settle import SettleWriter  # noqa: E402
from headrace.pipeline.writing.sink import HeadraceWriter  # noqa: E402

StartServer = Callable[..., Server]
ROWS = 5000


def writer(server: Server, **options: Any) -> HeadraceWriter:
    given = {"stream": "s", "port": server.port, "producer": "job", "pipeline": 100, "retryFor": "5s", **options}
    return HeadraceWriter(parse(WriteOptions, {name: str(value) for name, value in given.items()}), overwrite=False)


def batches(count: int = ROWS, size: int = 700) -> Iterator[Any]:
    for start in range(0, count, size):
        yield pa.RecordBatch.from_pydict({"n": list(range(start, min(start + size, count)))})


def numbers(server: Server) -> list[int]:
    with connect(server) as connection:
        return [int(pairs[1]) for _, pairs in connection.call("XRANGE", "s", "-", "+")]


def take_input(connection: Connection, count: int) -> None:
    """Entries `1-0`, .. of the stream `in` are pending in its group `g`."""
    connection.call_all([("XADD", "in", f"{n}-0", "a", "b") for n in range(1, count + 1)])
    connection.call("XGROUP", "CREATE", "in", "g", "0")
    connection.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "in", ">")


def test_partition_written_twice_is_stored_once(server: Server) -> None:
    for _ in range(2):
        writer(server).write(batches())
    assert numbers(server) == list(range(ROWS))


def test_partition_that_failed_midway_is_completed(headrace: Server) -> None:
    def failing() -> Iterator[Any]:
        for index, records in enumerate(batches()):
            if index == 4:
                raise RuntimeError("the task was killed")
            yield records

    with pytest.raises(RuntimeError):
        writer(headrace, idmpMaxSize=1000).write(failing())
    assert 0 < len(numbers(headrace)) < ROWS
    writer(headrace, idmpMaxSize=1000).write(batches())
    assert sorted(numbers(headrace)) == list(range(ROWS))


def test_rows_count_as_written_when_a_replica_has_them(start_server: StartServer) -> None:
    """The rows of the attempt that failed are recognised, and confirmed, when they are sent again."""
    primary, replica = start_server("headrace", "--repl-diskless-sync-delay", "0"), start_server("headrace")
    with replica.connect() as wire:
        follow(wire, primary)
    os.kill(replica.pid, signal.SIGSTOP)
    try:
        with pytest.raises(ServerGone, match=r"0 of 1 replicas have the rows \(option waitReplicas\)"):
            writer(primary, waitReplicas=1, waitTimeout="50ms", retryFor="300ms").write(batches())
        with pytest.raises(ServerGone, match="0 of 1 replicas have the rows"):
            writer(primary, waitReplicas=1, waitTimeout="50ms", retryFor="300ms").write(batches())
    finally:
        os.kill(replica.pid, signal.SIGCONT)
    writer(primary, waitReplicas=1).write(batches())
    assert numbers(primary) == list(range(ROWS))
    assert numbers(replica) == list(range(ROWS))


# Seconds after which a task that waits for another one fails.
WAIT = 20.0


@pytest.mark.parametrize("options", [{}, {"idMode": "explicit"}])
def test_partition_written_by_two_tasks_at_once_is_stored_once(options: dict[str, str], server: Server) -> None:
    """Speculation starts a copy of a slow task."""
    abreast = Barrier(2, timeout=WAIT)

    def rows() -> Iterator[Any]:
        for batch in batches():
            abreast.wait()
            yield batch.append_column("_id", pa.array([f"{n + 1}-0" for n in batch["n"].to_pylist()]))

    with ThreadPoolExecutor(2) as tasks:
        counts = [task.result().rows for task in [tasks.submit(writer(server, **options).write, rows()) for _ in "ab"]]
    assert counts == [ROWS, ROWS]
    assert numbers(server) == list(range(ROWS))


def test_late_stream_settings_do_not_forget_the_rows_of_another_task(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both tasks find the new stream unset, and one of them sets it only after the other one has written."""
    both, written, task = Barrier(2, timeout=WAIT), Event(), local()
    call: Callable[..., Any] = Connection.call

    def held(self: Connection, *words: Any, **how: Any) -> Any:
        if words[0] == "XCFGSET":
            both.wait()
            assert not task.is_late or written.wait(WAIT)
        return call(self, *words, **how)

    def write(is_late: bool) -> None:
        task.is_late = is_late
        writer(server).write(batches())
        written.set()

    monkeypatch.setattr(Connection, "call", held)
    with ThreadPoolExecutor(2) as tasks:
        for done in [tasks.submit(write, is_late) for is_late in (False, True)]:
            done.result()
    monkeypatch.undo()
    assert numbers(server) == list(range(ROWS))


def test_rows_that_moved_up_are_written(headrace: Server) -> None:
    writer(headrace).write(iter([pa.RecordBatch.from_pydict({"n": [1, 2, 3]})]))
    writer(headrace).write(iter([pa.RecordBatch.from_pydict({"n": [1, 3, 4]})]))
    assert numbers(headrace) == [1, 2, 3, 3, 4]


@pytest.mark.parametrize("idempotency", ["content", "column"])
def test_large_partition_identified_by_key_or_content_is_stored_once(idempotency: str, headrace: Server) -> None:
    """The partition has more rows than the stream remembers of one producer."""
    for _ in range(2):
        rows = (batch.append_column("_iid", batch["n"].cast(pa.string())) for batch in batches())
        writer(headrace, idempotency=idempotency, idmpMaxSize=200).write(rows)
    assert numbers(headrace) == list(range(ROWS))


def test_batch_with_more_rows_of_a_producer_than_remembered_is_a_warning(
    headrace: Server, caplog: pytest.LogCaptureFixture
) -> None:
    def part(count: int) -> Iterator[Any]:
        names = ["p"] * count
        yield pa.RecordBatch.from_pydict({"n": list(range(count)), "_iid": list(map(str, range(count))), "_pid": names})

    writing = writer(headrace, idempotency="column", idmpMaxSize=100)
    messages = [writing.write(part(60)), None, writing.write(part(40))]
    writing.commit(messages)
    assert not caplog.messages
    writing.commit([*messages, writing.write(part(1))])
    [message] = caplog.messages
    assert message.startswith("stream s: 101 rows of a batch have the same producer, of which the stream remembers 100")


def cutting(monkeypatch: pytest.MonkeyPatch, every: int) -> None:
    """Breaks the connection at every n-th receipt, after the server has run the commands."""
    receive: Callable[..., Any] = Connection.receive
    count = 0

    def cut(self: Connection, wanted: int) -> Any:
        nonlocal count
        count += 1
        if count % every == 0 and wanted > 10:
            assert self._socket is not None
            if not self._reader.has_data():  # else these replies may be the last
                self._socket.recv(1)
            self._socket.close()
        return receive(self, wanted)

    monkeypatch.setattr(Connection, "receive", cut)


def test_lost_connections_neither_lose_nor_repeat_rows(headrace: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    cutting(monkeypatch, 7)
    writer(headrace).write(batches())
    monkeypatch.undo()
    assert numbers(headrace) == list(range(ROWS))


def test_without_idempotency_a_lost_connection_fails_the_task(
    headrace: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    cutting(monkeypatch, 7)
    with pytest.raises(PipelineError, match="which idempotency=none cannot send again"):
        writer(headrace, idempotency="none").write(batches())


def test_explicit_ids_are_written_once(server: Server) -> None:
    records = pa.RecordBatch.from_pydict({"n": [1, 2, 3], "_id": ["1-0", "2-0", "3-0"]})
    for _ in range(2):
        writer(server, idMode="explicit").write(iter([records]))
    assert numbers(server) == [1, 2, 3]


@pytest.mark.parametrize("ids", [["3-0", "1-0", "5-0"], ["5-0", "6-0"], ["5-0", "2-0"]])
def test_explicit_ids_out_of_order_fail_instead_of_being_lost(ids: list[str], headrace: Server) -> None:
    with connect(headrace) as connection:
        connection.call("XADD", "s", "2-0", "n", "other")
    records = pa.RecordBatch.from_pydict({"n": list(range(len(ids))), "_id": ids})
    if ids == sorted(ids):
        writer(headrace, idMode="explicit").write(iter([records]))
        return
    with pytest.raises(PipelineError, match="is not above the last ID of stream s, and the row is not in it"):
        writer(headrace, idMode="explicit").write(iter([records]))


@pytest.mark.parametrize("trimming", ["maxlen", "minid"])
def test_explicit_ids_are_not_written_to_a_stream_that_is_trimmed_meanwhile(trimming: str, headrace: Server) -> None:
    """The row 2-0 would be refused because of 5-0, just like a row that was written and trimmed."""
    with connect(headrace) as connection:
        take_input(connection, 2)
        records = pa.RecordBatch.from_pydict({"n": [1, 2], "_id": ["5-0", "2-0"], "_ack_id": ["1-0", "2-0"]})
        message = f"^options idMode=explicit and {trimming} are both given, .*: leave {trimming} out, .* with XTRIM$"
        options = {"idMode": "explicit", "ackGroup": "g", "ackStream": "in", trimming: "1000"}
        with pytest.raises(OptionError, match=message):
            writer(headrace, **options).write(iter([records]))
        assert connection.call("XPENDING", "in", "g")[0] == 2


def test_refused_row_that_may_not_be_checked_is_not_reported_as_lost(headrace: Server) -> None:
    records = pa.RecordBatch.from_pydict({"n": [1], "_id": ["1-0"]})
    with connect(headrace) as connection:
        connection.call("ACL", "SETUSER", "writer", "on", ">word", "~*", "+echo", "+xadd")
        try:
            explicit = writer(headrace, idMode="explicit", username="writer", password="word")
            explicit.write(iter([records]))
            with pytest.raises(Refused, match=r"checking row 0 in stream s: .*XRANGE"):
                explicit.write(iter([records]))
        finally:
            connection.call("ACL", "DELUSER", "writer")


def test_stream_of_other_producers_keeps_its_settings(headrace: Server) -> None:
    with connect(headrace) as connection:
        connection.call("XADD", "s", "IDMP", "other", "1", "*", "n", "0")
    with pytest.raises(
        PipelineError, match="stream s remembers 100 rows of a producer for 100 s, and these settings are in use"
    ):
        writer(headrace).write(batches())
    writer(headrace, idmpMaxSize=100, idmpDuration=100).write(batches(250))
    writer(headrace, idmpMaxSize=100, idmpDuration=100).write(batches(250))
    assert numbers(headrace) == [0, *range(250)]


def test_input_is_acknowledged_once_its_rows_are_written(headrace: Server) -> None:
    with connect(headrace) as connection:
        take_input(connection, 5)
        records = pa.RecordBatch.from_pydict({"n": [1, 2, 3], "_ack_id": ["1-0", "2-0", None]})
        writer(headrace, ackGroup="g", ackStream="in").write(iter([records]))
        assert connection.call("XPENDING", "in", "g")[0] == 3


def test_input_of_refused_rows_is_acknowledged_only_if_they_are_stored(headrace: Server) -> None:
    ids = [f"{n}-0" for n in range(1, 9)]
    records = pa.RecordBatch.from_pydict({"n": list(range(8)), "_id": ids, "_ack_id": ids})
    explicit = writer(headrace, idMode="explicit", ackGroup="g", ackStream="in", pipeline=1)
    with connect(headrace) as connection:
        take_input(connection, 8)
        explicit.write(iter([records.slice(0, 3)]))
        connection.call("XGROUP", "SETID", "in", "g", "0")
        connection.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "in", ">")
        # The rows 1-0 to 3-0 will be refused and are stored; 4-0 will be refused and is lost.
        connection.call("XADD", "s", "4-1", "n", "other")
        with pytest.raises(PipelineError, match="the row is not in it"):
            explicit.write(iter([records]))
        assert connection.call("XPENDING", "in", "g")[0] == 8
        explicit.write(iter([records.slice(0, 3)]))
        assert connection.call("XPENDING", "in", "g")[:2] == [5, b"4-0"]


def test_input_of_several_rows_is_acknowledged_after_the_last_of_them(headrace: Server) -> None:
    def failing() -> Iterator[Any]:
        yield pa.RecordBatch.from_pydict({"n": list(range(50)), "_ack_id": ["1-0"] * 5 + ["2-0"] * 45})
        raise RuntimeError("the task was killed")

    acknowledging = writer(headrace, ackGroup="g", ackStream="in", pipeline=2)
    with connect(headrace) as connection:
        take_input(connection, 2)
        with pytest.raises(RuntimeError):
            acknowledging.write(failing())
        assert connection.call("XPENDING", "in", "g")[:2] == [1, b"2-0"]
        rows = pa.RecordBatch.from_pydict({"n": list(range(60)), "_ack_id": ["1-0"] * 5 + ["2-0"] * 55})
        acknowledging.write(iter([rows]))
        assert connection.call("XPENDING", "in", "g")[0] == 0
    assert sorted(numbers(headrace)) == list(range(60))


def test_failure_to_acknowledge_names_the_group(headrace: Server) -> None:
    records = pa.RecordBatch.from_pydict({"n": [1], "_ack_id": ["1-0"]})
    with connect(headrace) as connection:
        connection.call("SET", "in", "x")
    with pytest.raises(Refused, match="option ackGroup g: the key is not a stream"):
        writer(headrace, ackGroup="g", ackStream="in").write(iter([records]))


def test_wrong_type_is_an_error(headrace: Server) -> None:
    with connect(headrace) as connection:
        connection.call("SET", "s", "x")
    with pytest.raises(Refused, match="stream s: the key is not a stream"):
        writer(headrace).write(batches())


def test_overwriting_needs_truncate_and_empties_the_stream(headrace: Server) -> None:
    writer(headrace).write(batches(10))
    options = {"stream": "s", "port": str(headrace.port)}
    with pytest.raises(OptionError, match="truncate=true"):
        HeadraceWriter(parse(WriteOptions, options), overwrite=True)
    HeadraceWriter(parse(WriteOptions, {**options, "truncate": "true"}), overwrite=True).write(batches(3))
    assert numbers(headrace) == [0, 1, 2]


def test_outcomes_settle_entries(server: Server) -> None:
    with connect(server) as connection:
        take_input(connection, 6)
        outcomes = ["ack", "fail", "fatal", "silent", "retry:7", "ACK"]
        records = pa.RecordBatch.from_pydict(
            {"_stream": ["in"] * 6, "_id": [f"{n}-0" for n in range(1, 7)], "_outcome": outcomes}
        )
        SettleWriter(SettleOptions(port=server.port, group="g")).write(iter([records]))
        rows = connection.call("XPENDING", "in", "g", "-", "+", 10)
    assert [(row[0], row[3]) for row in rows] == [(b"2-0", 1), (b"3-0", 2**63 - 1), (b"4-0", 0), (b"5-0", 7)]
    bad = pa.RecordBatch.from_pydict({"_stream": ["in"], "_id": ["2-0"], "_outcome": ["maybe"]})
    with pytest.raises(PipelineError, match="_outcome must be ack, fail, fatal, silent or retry"):
        SettleWriter(SettleOptions(port=server.port, group="g")).write(iter([bad]))
