"""WAIT and WAITAOF: when they wait, for what, and their replies."""

from __future__ import annotations

import pytest

from headrace.persistence.aof import AppendOnlyLog
from headrace.persistence.folder import LogSettings
from support.inprocess import Caller, Rig
from support.servers import Server


@pytest.fixture
def rig() -> Rig:
    """A server with a log that is not open: it counts its records, and is synced when a test says so."""
    rig = Rig(appendonly=True)
    settings = LogSettings("nowhere", "appendonly.aof")
    rig.server.log_keeper.log = log = AppendOnlyLog(settings, b"no")
    rig.dispatcher.units.log_to(log)
    return rig


def sync(rig: Rig) -> None:
    log = rig.server.log
    assert log is not None
    log.synced_mark = log.mark
    rig.dispatcher.serving.serve_progress()


def test_waitaof_answers_once_the_clients_own_writes_are_synced(rig: Rig) -> None:
    writer, other = rig.connect(), rig.connect()
    assert writer.call("SET a 1", "WAITAOF 1 0 0", "PING") == b"+OK\r\n"
    assert other.call("WAITAOF 1 0 0") == b"*2\r\n:1\r\n:0\r\n", "it has written nothing"
    sync(rig)
    assert writer.output() == b"*2\r\n:1\r\n:0\r\n+PONG\r\n"


def test_waitaof_without_local_returns_the_present_state(rig: Rig) -> None:
    caller = rig.connect()
    assert caller.call("SET a 1", "WAITAOF 0 0 0") == b"+OK\r\n*2\r\n:0\r\n:0\r\n"


def end_by_time(rig: Rig, waiting: Caller) -> None:
    rig.pass_time(51)


def end_by_unblock(rig: Rig, waiting: Caller) -> None:
    rig.connect().call(f"CLIENT UNBLOCK {waiting.client.id} TIMEOUT")


@pytest.mark.parametrize("end", [end_by_time, end_by_unblock])
@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("WAITAOF 1 0 50", b"*2\r\n:0\r\n:0\r\n"),
        ("WAITAOF 0 1 50", b"*2\r\n:0\r\n:0\r\n"),
        ("WAIT 1 50", b":0\r\n"),
    ],
)
def test_at_the_end_of_waiting_the_answer_is_what_was_reached(rig: Rig, line: str, reply: bytes, end: object) -> None:
    caller = rig.connect()
    assert caller.call("SET a 1", line) == b"+OK\r\n"
    assert callable(end)
    end(rig, caller)
    assert caller.output() == reply


def test_inside_a_transaction_nothing_waits(rig: Rig) -> None:
    caller = rig.connect()
    replies = caller.call("MULTI", "SET a 1", "WAITAOF 1 1 0", "WAIT 5 0", "EXEC")
    assert replies.endswith(b"*3\r\n+OK\r\n*2\r\n:1\r\n:0\r\n:0\r\n")


@pytest.mark.parametrize(
    "line",
    [
        "WAIT 0 0", "WAIT -1 0", "WAIT x 0", "WAIT 0 x", "WAIT 0 -1", "WAIT x y", "WAIT 9223372036854775808 0",
        "WAIT 0 9223372036854775807", "WAIT 1 20", "WAITAOF 0 0 0", "WAITAOF 2 0 0", "WAITAOF -1 0 0", "WAITAOF x 0 0",
        "WAITAOF 0 -1 0", "WAITAOF 0 x 0", "WAITAOF 0 0 -1", "WAITAOF 0 0 x", "WAITAOF 2 -1 x", "WAITAOF 1 0 0",
        "WAITAOF 1 0 9223372036854775807", "WAITAOF 0 99999999999 20", "WAITAOF 0 0",
    ],
)  # fmt: skip
@pytest.mark.oracle
def test_replies_are_those_of_redis(headrace: Server, oracle: Server, line: str) -> None:
    with headrace.connect() as ours, oracle.connect() as theirs:
        assert ours.call(*line.split()) == theirs.call(*line.split())
