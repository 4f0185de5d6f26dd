"""MONITOR: what it shows, what it hides, and that it costs nothing without monitors."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from headrace.commands.clients.client import Client
from headrace.commands.core.table import DECLARED
from headrace.commands.observing.monitors import Monitors, quoted
from headrace.server.requests.pushes import Pushes
from headrace.server.requests.session import Session
from headrace.store.database import Database
from support.inprocess import START_MS, Caller, Rig

STAMP = b"+%d.%06d " % (START_MS // 1000, START_MS % 1000 * 1000)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def watching(rig: Rig) -> Caller:
    """A monitoring client."""
    monitor = rig.connect()
    assert monitor.call("MONITOR") == b"+OK\r\n"
    return monitor


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        (b"", rb'""'),
        (b"abc ~", rb'"abc ~"'),
        (b'a"\\', rb'"a\"\\"'),
        (b"\n\r\t\a\b", rb'"\n\r\t\a\b"'),
        (b"\x00\x1f\x7f\xff", rb'"\x00\x1f\x7f\xff"'),
    ],
)
def test_words_are_quoted(word: bytes, shown: bytes) -> None:
    assert quoted(word) == shown


def test_microseconds_of_a_line_are_those_of_the_clock() -> None:
    pushes = Pushes()
    monitors = Monitors(pushes, Mock(), clock_us=lambda: START_MS * 1000 + 7)
    client = Client(1, db=Database(0))
    session = pushes.sessions[1] = Session(client)
    monitors.add(client)
    monitors.show(client, DECLARED[b"PING"], [b"PING"])
    assert b"".join(session.out).startswith(b"+%d.000007 [0 " % (START_MS // 1000))


def test_a_line_names_time_database_address_and_words(rig: Rig) -> None:
    monitor, other = watching(rig), rig.connect()
    other.call("SELECT 3", "SET k v")
    address = other.client.address
    assert monitor.output() == b"".join(
        STAMP + b"[3 %b] %b\r\n" % (address, words) for words in (b'"SELECT" "3"', b'"SET" "k" "v"')
    )


def test_a_unix_socket_is_shown_by_its_path(rig: Rig) -> None:
    rig.config.unixsocket = b"/run/h.sock"
    monitor, other = watching(rig), rig.connect()
    other.client.is_unix = True
    other.call("PING")
    assert monitor.output() == STAMP + b'[0 unix:/run/h.sock] "PING"\r\n'


@pytest.mark.parametrize("command", ["AUTH secret", "AUTH default secret", "HELLO 3 AUTH default secret SETNAME me"])
def test_passwords_are_not_shown(rig: Rig, command: str) -> None:
    monitor, other = watching(rig), rig.connect()
    other.call(command)
    shown = monitor.output()
    assert b"secret" not in shown
    assert b'"(redacted)"' in shown


@pytest.mark.parametrize("command", ["CONFIG SET requirepass secret", "CONFIG GET *", "CLIENT LIST", "NOSUCH x", "GET"])
def test_what_administrators_do_and_what_was_never_run_is_not_shown(rig: Rig, command: str) -> None:
    monitor, other = watching(rig), rig.connect()
    other.call(command)
    assert monitor.output() == b""


def test_a_blocked_read_is_shown_once(rig: Rig) -> None:
    monitor, reader, writer = watching(rig), rig.connect(), rig.connect()
    reader.call("XREAD BLOCK 0 STREAMS s $")
    writer.call("XADD s 1-1 f v")
    shown = monitor.output()
    assert shown.count(b'"XREAD"') == 1
    assert shown.index(b'"XREAD"') < shown.index(b'"XADD"')


def test_a_transaction_is_shown_when_it_runs(rig: Rig) -> None:
    monitor, other = watching(rig), rig.connect()
    other.call("MULTI", "SET k v")
    assert monitor.output().count(b"\r\n") == 1
    other.call("EXEC")
    assert [line.split(b"] ")[1] for line in monitor.output().splitlines()] == [b'"SET" "k" "v"', b'"EXEC"']


@pytest.mark.parametrize("how", ["RESET", "the end of the connection"])
def test_clients_take_the_fast_path_while_another_monitors(rig: Rig, how: str) -> None:
    other = rig.connect()
    monitor = watching(rig)
    assert other.client.rows
    assert not monitor.client.rows
    other.call("PING", "XADD s 1-1 f v", "GET s")
    assert [line.split(b"] ")[1] for line in monitor.output().splitlines()] == [
        b'"PING"', b'"XADD" "s" "1-1" "f" "v"', b'"GET" "s"',
    ]  # fmt: skip
    if how == "RESET":
        monitor.call("RESET")
    else:
        rig.dispatcher.detach(monitor.session)
    assert other.client.rows
    other.call("PING")
    assert monitor.output() == b""


def test_a_monitor_shows_in_the_list_and_may_not_touch_keys(rig: Rig) -> None:
    monitor, other = watching(rig), rig.connect()
    assert b" flags=O " in other.call("CLIENT LIST TYPE normal")
    assert monitor.call("GET k") == b"-ERR Replica can't interact with the keyspace\r\n"
    assert monitor.call("MONITOR") == b""
