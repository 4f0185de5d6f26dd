"""Queue mode in a group that has policies of its own, and what it does where the server knows owners."""

from __future__ import annotations

from typing import Any

import pytest

from support.servers import Server
from support.spark_streams import connect, fill

pytest.importorskip("pyspark", reason="pyspark is not installed: `make test-pipeline` installs it")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: `make test-pipeline` installs it")

from pyspark.sql.streaming.datasource import ReadMaxRows  # noqa: E402

from headrace.pipeline.columns.decode import Decoder  # noqa: E402
from headrace.pipeline.options.kinds import QueueOptions, parse  # noqa: E402
from headrace.pipeline.reading.group import Group  # noqa: E402
from headrace.pipeline.reading.queue_mode import HeadraceQueueReader  # noqa: E402

SCHEMA = pa.schema([("n", pa.int32())])
LIMIT = ReadMaxRows(100)
NOTHING = {"seq": 0, "token": "t"}
COUNT = 10


@pytest.fixture
def queue(server: Server) -> Server:
    """A server with entries in `s` and a group `g` that has read none."""
    fill(server, "s", COUNT)
    ask(server, "XGROUP", "CREATE", "s", "g", "0")
    return server


def ask(server: Server, *words: Any) -> Any:
    with connect(server) as connection:
        return connection.call(*words)


def reader(server: Server, **options: Any) -> HeadraceQueueReader:
    given = {"stream": "s", "group": "g", "port": server.port, "minPartitions": 1, "minIdle": "1h", **options}
    return HeadraceQueueReader(
        parse(QueueOptions, {name: str(value) for name, value in given.items()}), Decoder(SCHEMA)
    )


def numbers(source: HeadraceQueueReader, start: Any, end: Any) -> list[int]:
    parts = source.partitions(start, end)
    return [row["n"] for part in parts for records in source.read(part) for row in records.to_pylist()]


@pytest.fixture
def limited(headrace: Server) -> Server:
    """A group whose entries the server delivers twice."""
    fill(headrace, "s", COUNT)
    ask(headrace, "XGROUP", "CREATE", "s", "g", "0")
    ask(headrace, "XGROUP", "CONFIG", "s", "g", "MAX-DELIVERIES", 2, "DEADLETTER", "dead")
    return headrace


def test_server_limits_the_deliveries_of_a_batch_that_crashes_again_and_again(limited: Server) -> None:
    own = {"maxDeliveries": 1, "deadLetterStream": "other"}
    end = reader(limited, **own).latestOffset(NOTHING, LIMIT)
    assert numbers(reader(limited, **own), NOTHING, end) == list(range(1, COUNT + 1))  # the second delivery
    assert numbers(reader(limited, **own), NOTHING, end) == []
    assert ask(limited, "XLEN", "dead") == COUNT
    assert ask(limited, "XLEN", "other") == 0
    assert ask(limited, "XPENDING", "s", "g")[0] == 0


def test_entries_of_tasks_that_fail_become_dead_letters_of_the_server(
    limited: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(limited, "XGROUP", "CONFIG", "s", "g", "MAX-DELIVERIES", 1)
    source = reader(limited)
    end = source.latestOffset(NOTHING, LIMIT)
    (part,) = source.partitions(NOTHING, end)
    monkeypatch.setattr(source, "_decode", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        list(source.read(part))
    assert ask(limited, "XLEN", "dead") == COUNT


def test_fatal_entries_are_left_to_the_server(limited: Server) -> None:
    ask(limited, "XREADGROUP", "GROUP", "g", "ann", "COUNT", 2, "STREAMS", "s", ">")
    ask(limited, "XNACK", "s", "g", "FATAL", "IDS", 1, "1-0")
    source = reader(limited)
    end = source.latestOffset(NOTHING, LIMIT)
    assert numbers(source, NOTHING, end) == list(range(3, COUNT + 1))
    ((_, fields),) = ask(limited, "XRANGE", "dead", "-", "+")
    assert dict(zip(fields[::2], fields[1::2], strict=True))[b"_id"] == b"1-0"


def test_entries_that_another_consumer_claims_late_stay_its_own(queue: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    source = reader(queue)
    end = source.latestOffset(NOTHING, LIMIT)
    acknowledge = Group.acknowledge

    def claim_before(group: Group, *words: Any, **options: Any) -> None:
        """Between listing and acknowledging, another consumer claims an entry."""
        ask(queue, "XCLAIM", "s", "g", "bob", 0, "5-0")
        acknowledge(group, *words, **options)

    monkeypatch.setattr(Group, "acknowledge", claim_before)
    source.commit(end)
    owners = [(row[0], row[1]) for row in ask(queue, "XPENDING", "s", "g", "-", "+", 10)]
    assert owners == ([(b"5-0", b"bob")] if queue.is_headrace else [])
