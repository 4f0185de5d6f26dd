"""The sink without Spark: repeated partitions, lost connections, and streams that others use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.servers import Server
from support.spark_streams import connect

pytest.importorskip("pyspark", reason="pyspark is not installed: `make test-pipeline` installs it")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: `make test-pipeline` installs it")

from headrace.pipeline.connection import Connection  # noqa: E402
from headrace.pipeline.errors import OptionError, PipelineError, Refused  # noqa: E402
from headrace.pipeline.options import SettleOptions, WriteOptions, parse  # noqa: E402
from headrace.pipeline.settle import SettleWriter  # noqa: E402
from headrace.pipeline.sink import HeadraceWriter  # noqa: E402

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


def test_partition_written_twice_is_there_once(server: Server) -> None:
    for _ in range(2):
        writer(server).write(batches())
    assert numbers(server) == list(range(ROWS))


def test_partition_that_failed_in_its_middle_is_completed(headrace: Server) -> None:
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


def test_rows_that_moved_up_are_written_rather_than_taken_for_known_ones(headrace: Server) -> None:
    writer(headrace).write(iter([pa.RecordBatch.from_pydict({"n": [1, 2, 3]})]))
    writer(headrace).write(iter([pa.RecordBatch.from_pydict({"n": [1, 3, 4]})]))
    assert numbers(headrace) == [1, 2, 3, 3, 4]


def cutting(monkeypatch: pytest.MonkeyPatch, every: int) -> None:
    """The connection breaks at every so manieth receipt, after the server has done what it was sent."""
    receive: Callable[..., Any] = Connection.receive
    count = 0

    def cut(self: Connection, wanted: int) -> Any:
        nonlocal count
        count += 1
        if count % every == 0 and wanted > 10:
            assert self._socket is not None
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


def test_stream_that_others_write_to_keeps_its_settings(headrace: Server) -> None:
    with connect(headrace) as connection:
        connection.call("XADD", "s", "IDMP", "other", "1", "*", "n", "0")
    with pytest.raises(PipelineError, match="stream s remembers 100 rows of a producer for 100 s and is in use so"):
        writer(headrace).write(batches())
    writer(headrace, idmpMaxSize=100, idmpDuration=100).write(batches(250))
    writer(headrace, idmpMaxSize=100, idmpDuration=100).write(batches(250))
    assert numbers(headrace) == [0, *range(250)]


def test_input_is_acknowledged_once_its_rows_are_written(headrace: Server) -> None:
    with connect(headrace) as connection:
        for n in range(1, 6):
            connection.call("XADD", "in", f"{n}-0", "a", "b")
        connection.call("XGROUP", "CREATE", "in", "g", "0")
        connection.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "in", ">")
        records = pa.RecordBatch.from_pydict({"n": [1, 2, 3], "_ack_id": ["1-0", "2-0", None]})
        writer(headrace, ackGroup="g", ackStream="in").write(iter([records]))
        assert connection.call("XPENDING", "in", "g")[0] == 3


def test_wrong_type_is_told(headrace: Server) -> None:
    with connect(headrace) as connection:
        connection.call("SET", "s", "x")
    with pytest.raises(Refused, match="stream s: the key holds no stream"):
        writer(headrace).write(batches())


def test_overwriting_needs_leave_and_empties_the_stream(headrace: Server) -> None:
    writer(headrace).write(batches(10))
    options = {"stream": "s", "port": str(headrace.port)}
    with pytest.raises(OptionError, match="truncate=true"):
        HeadraceWriter(parse(WriteOptions, options), overwrite=True)
    HeadraceWriter(parse(WriteOptions, {**options, "truncate": "true"}), overwrite=True).write(batches(3))
    assert numbers(headrace) == [0, 1, 2]


def test_outcomes_settle_entries(server: Server) -> None:
    with connect(server) as connection:
        for n in range(1, 7):
            connection.call("XADD", "in", f"{n}-0", "a", "b")
        connection.call("XGROUP", "CREATE", "in", "g", "0")
        connection.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "in", ">")
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
