"""Users with exactly the rules of docs/pipeline.md: the rules suffice, and an error names a missing command."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.servers import Server
from support.spark_streams import connect, fill

pytest.importorskip("pyspark", reason="pyspark is not installed: `make test-pipeline` installs it")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: `make test-pipeline` installs it")

from pyspark.sql.streaming.datasource import ReadMaxRows  # noqa: E402

from headrace.pipeline.__main__ import main  # noqa: E402
from headrace.pipeline.columns.decode import Decoder  # noqa: E402
from headrace.pipeline.errors import PipelineError, Refused  # noqa: E402
from headrace.pipeline.options.kinds import (  # noqa: E402
    COUNTING_RIGHTS,
    BatchOptions,
    QueueOptions,
    SettleOptions,
    StreamOptions,
    WriteOptions,
    parse,
)
from headrace.pipeline.reading.batch import HeadraceBatchReader  # noqa: E402
from headrace.pipeline.reading.group import Group  # noqa: E402
from headrace.pipeline.reading.log_mode import HeadraceLogReader  # noqa: E402
from headrace.pipeline.reading.queue_mode import HeadraceQueueReader  # noqa: E402
from headrace.pipeline.writing.settle import SettleWriter  # noqa: E402
from headrace.pipeline.writing.sink import HeadraceWriter  # noqa: E402

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "pipeline.md"
SCHEMA = pa.schema([("n", pa.int32())])
COUNT = 250
Given = dict[str, str]


@pytest.fixture
def user(server: Server) -> Iterator[Callable[[str], Given]]:
    """Makes a user with a rule and returns the options to log in. `s` has 250 entries, all new to its group `g`."""
    fill(server, "s", COUNT)
    with connect(server) as connection:
        connection.call("XGROUP", "CREATE", "s", "g", "0")

        def make(rule: str) -> Given:
            connection.call("ACL", "SETUSER", "spark", "reset", "on", ">secret", *rule.split())
            return {
                "port": str(server.port),
                "username": "spark",
                "password": "secret",
                "stream": "s",
                "retryFor": "1s",
            }

        yield make
        connection.call("ACL", "DELUSER", "spark")


def read_parts(source: Any, parts: list[Any]) -> list[int]:
    return [row["n"] for part in parts for records in source.read(part) for row in records.to_pylist()]


def read_batch(given: Given) -> list[int]:
    source = HeadraceBatchReader(parse(BatchOptions, given | {"pageSize": "10", "minPartitions": "4"}), Decoder(SCHEMA))
    parts = source.partitions()
    assert len(parts) == 4
    return read_parts(source, parts)


def read_log(given: Given) -> list[int]:
    options = parse(StreamOptions, given | {"startingOffsets": "earliest", "pageSize": "10", "minPartitions": "3"})
    source = HeadraceLogReader(options, Decoder(SCHEMA))
    start, found = source.initialOffset(), []
    while (end := source.latestOffset(start, ReadMaxRows(100))) != start:
        parts = source.partitions(start, end)
        assert len(parts) in (3, 4)
        found += read_parts(source, parts)
        start = end
    return found


def read_queue(given: Given) -> list[int]:
    """Reads all batches; the first one is repeated, and one of its tasks fails."""
    source = HeadraceQueueReader(parse(QueueOptions, given | {"group": "g", "minIdle": "1h"}), Decoder(SCHEMA))
    start = source.latestOffset(source.initialOffset(), ReadMaxRows(100))
    end = source.latestOffset(start, ReadMaxRows(100))
    source._planned = None
    part = source.partitions(start, end)[0]
    with pytest.MonkeyPatch.context() as failing:
        failing.setattr(source, "_decode", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            list(source.read(part))
    found = read_parts(source, source.partitions(start, end))
    while end != start:
        start, end = end, source.latestOffset(end, ReadMaxRows(100))
        found += read_parts(source, source.partitions(start, end))
    assert not source._groups()[0].consumers()
    return sorted(found)


def write(given: Given) -> list[int]:
    options = parse(WriteOptions, given | {"stream": "made", "producer": "job"})
    HeadraceWriter(options, overwrite=False).write(iter([pa.RecordBatch.from_pydict({"n": list(range(1, COUNT + 1))})]))
    return list(range(1, COUNT + 1))


def write_at_least_once(given: Given) -> list[int]:
    return write(given | {"idempotency": "none"})


def settle(given: Given) -> list[int]:
    given = {name: text for name, text in given.items() if name != "stream"} | {"group": "g"}
    rows = {"_stream": ["s", "s"], "_id": ["1-0", "2-0"], "_outcome": ["ack", "fail"]}
    SettleWriter(parse(SettleOptions, given)).write(iter([pa.RecordBatch.from_pydict(rows)]))
    return list(range(1, COUNT + 1))


CASES = {
    "batch": (read_batch, BatchOptions.rights, "%R~s"),
    "batch, counted by the server": (read_batch, f"{BatchOptions.rights} {COUNTING_RIGHTS}", "~s"),
    "log": (read_log, StreamOptions.rights, "%R~s"),
    "log, counted by the server": (read_log, f"{StreamOptions.rights} {COUNTING_RIGHTS}", "~s"),
    "queue": (read_queue, QueueOptions.rights, "~s"),
    "write": (write, WriteOptions.rights, "~made"),
    "write at least once": (write_at_least_once, "+echo +xadd", "~made"),
    "settle": (settle, SettleOptions.rights, "~s"),
}
# Without these a reader of ranges reads the entries to count them.
CAN_READ_INSTEAD = frozenset(COUNTING_RIGHTS.split())


@pytest.mark.parametrize("name", CASES)
def test_rule_of_the_documentation_is_enough(name: str, user: Callable[[str], Given]) -> None:
    work, rule, keys = CASES[name]
    assert f"`{rule.replace('|', chr(92) + '|')}`" in DOCUMENT.read_text("utf-8") or COUNTING_RIGHTS in rule
    assert work(user(f"{rule} {keys}")) == list(range(1, COUNT + 1))


MISSING = [(name, command) for name, (_, rule, _) in CASES.items() for command in rule.split()]


@pytest.mark.parametrize(("name", "command"), MISSING)
def test_each_command_of_the_rule_is_needed_and_named_if_missing(
    name: str, command: str, user: Callable[[str], Given], caplog: pytest.LogCaptureFixture
) -> None:
    work, rule, keys = CASES[name]
    given = user(f"{rule.replace(command, '', 1)} {keys}")
    if command in CAN_READ_INSTEAD and work in (read_batch, read_log):
        assert work(given) == list(range(1, COUNT + 1))
        return
    if command in ("+xnack", "+xgroup|createconsumer") and work is read_queue:
        assert work(given) == list(range(1, COUNT + 1))  # a task that fails can but leave its entries pending
        text = caplog.text
        assert "entries of a task that failed stay pending until they are idle" in text
    else:
        with pytest.raises(Refused) as caught:
            work(given)
        text = str(caught.value)
    word = command.removeprefix("+").upper().replace("|", " ")
    assert re.search(rf"this user may not run {word}( \w+)? \(NOPERM\); it needs \+echo", text)


@pytest.mark.parametrize("name", CASES)
def test_key_that_the_user_may_not_use_is_an_error(name: str, user: Callable[[str], Given]) -> None:
    work, rule, _ = CASES[name]
    with pytest.raises(PipelineError, match=r"this user may not use this key \(NOPERM\); it needs \+echo"):
        work(user(f"{rule} ~other"))


def test_user_without_the_right_to_count_leaves_no_measuring_group(
    user: Callable[[str], Given], server: Server
) -> None:
    read_batch(user(f"{BatchOptions.rights} {COUNTING_RIGHTS.replace('+xgroup|destroy', '')} ~s"))
    with connect(server) as connection:
        assert len(connection.call("XINFO", "GROUPS", "s")) == 1
        assert Group(connection, "s", "g", 10).standing().new == COUNT


def test_rule_of_the_documentation_is_enough_for_dead_letters(
    user: Callable[[str], Given], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAM_PASSWORD", "secret")
    burying = "+xadd +xcfgset +xgroup|create +xgroup|destroy"
    job = "+echo +xinfo +xrange +xpending +xclaim +xack +xgroup|delconsumer"
    document = DOCUMENT.read_text("utf-8")
    assert all(f"`{rule.replace('|', chr(92) + '|')}`" in document for rule in (burying, job))
    given = user(f"{job} {burying} ~s ~dead")
    words = ["--port", given["port"], "--username", "spark", "--password-env", "STREAM_PASSWORD"]
    with connect(server) as connection:
        connection.call("XREADGROUP", "GROUP", "g", "ann", "COUNT", 2, "STREAMS", "s", ">")
        connection.call("XNACK", "s", "g", "FATAL", "IDS", 1, "1-0")
        assert main(["deadletter", "--stream", "s", "--group", "g", "--target", "dead", *words]) == 0
        assert (connection.call("XLEN", "dead"), connection.call("XPENDING", "s", "g")[0]) == (1, 1)
        connection.call("DEL", "dead")
        given = user(f"{QueueOptions.rights} {burying} +xackdel ~s ~dead")
        connection.call("XNACK", "s", "g", "FATAL", "IDS", 1, "2-0")
        options = parse(QueueOptions, given | {"group": "g", "maxDeliveries": "5", "deadLetterStream": "dead"})
        source = HeadraceQueueReader(options, Decoder(SCHEMA))
        start = {"seq": 0, "token": "t"}
        end = source.latestOffset(start, ReadMaxRows(10))
        assert sorted(read_parts(source, source.partitions(start, end))) == list(range(3, 12))
        assert connection.call("XLEN", "dead") == 1
