"""The slow log: which calls it records, how it cuts them, and what it hides; on both servers."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from headrace.commands.observing.slow_log import cut
from support.inprocess import Rig
from support.lines import split
from support.servers import Server
from support.wire import REPLY_TIMEOUT_S, Wire

SECRETS = (
    "AUTH secret",
    "AUTH user secret",
    "HELLO 2 AUTH user secret",
    "hello 3 setname n auth user secret",
    "HELLO 3 SETNAME auth AUTH user secret",
    "HELLO 3 AUTH user secret AUTH user secret SETNAME n",
    "HELLO 2",
    "CONFIG SET masterauth secret",
    "CONFIG SET maxmemory 0 masterauth secret",
    "config set tls-key-file-pass secret tls-client-key-file-pass secret",
    "CONFIG SET timeout 0",
    "SET k secret",
    "ECHO auth",
)


@pytest.fixture
def wire(server: Server) -> Any:
    """A connection to a server that logs every call."""
    defaults = ("slowlog-max-len", "128", "slowlog-entry-max-argc", "32", "slowlog-entry-max-string-len", "128")
    with server.connect() as wire:
        wire.call("CONFIG", "SET", "slowlog-log-slower-than", "0", *defaults)
        wire.call("SLOWLOG", "RESET")
        yield wire
        wire.call("CONFIG", "SET", "slowlog-log-slower-than", "10000", *defaults)


def logged(wire: Wire, count: int = 1) -> list[list[bytes]]:
    """Arguments of the calls before this one, oldest first."""
    return [entry[3] for entry in reversed(wire.ask("SLOWLOG", "GET", str(count)))]


def test_entry_has_number_time_duration_arguments_client_and_their_number(wire: Wire) -> None:
    wire.call("CLIENT", "SETNAME", "me")
    began_s = time.monotonic()
    wire.call("SET", "k", "v")
    spent_us = (time.monotonic() - began_s) * 1e6
    number, time_s, duration_us, argv, address, name, count = wire.ask("SLOWLOG", "GET", "1")[0]
    assert (argv, name, count) == ([b"SET", b"k", b"v"], b"me", 3)
    assert time_s > 1_700_000_000
    assert 0 <= duration_us <= spent_us
    assert address.startswith(b"127.0.0.1:")
    assert wire.ask("SLOWLOG", "GET", "1")[0][0] == number + 1


def test_an_addition_is_shown_in_its_words(wire: Wire) -> None:
    additions = [("XADD", "s", "*", "f", "v"), ("XADD", "s", "MAXLEN", "~", "5", "*", "f", "v")]
    for words in additions:
        wire.call(*words)
    assert logged(wire, 2) == [[word.encode() for word in words] for words in additions]


def test_arguments_are_cut(wire: Wire) -> None:
    wire.call("MSET", *map(str, range(80)))
    wire.call("ECHO", "x" * 300)
    wire.call("CONFIG", "SET", "slowlog-entry-max-argc", "2", "slowlog-entry-max-string-len", "3")
    wire.call("MGET", "a", "b")
    wire.call("MGET", "abcd")
    many, long, _, two, short = logged(wire, 5)
    assert len(many) == 32
    assert many[-1] == b"... (50 more arguments)"
    assert long == [b"ECHO", b"x" * 128 + b"... (172 more bytes)"]
    assert two == [b"MGE... (1 more bytes)", b"... (2 more arguments)"]
    assert short == [b"MGE... (1 more bytes)", b"abc... (1 more bytes)"]


def test_commands_of_a_transaction_are_logged_and_exec_is_not(wire: Wire) -> None:
    for line in ("MULTI", "SET a 1", "GET a", "EXEC"):
        wire.call(*split(line))
    assert logged(wire, 3) == [[b"MULTI"], [b"SET", b"a", b"1"], [b"GET", b"a"]]


def test_refused_commands_are_not_logged(wire: Wire) -> None:
    for line in ("GET", "NOSUCH a", "XGROUP NOSUCH", "XADD a 1 b"):
        wire.call(*split(line))
    assert logged(wire) == [[b"SLOWLOG", b"RESET"]]


def test_failing_commands_are_logged(wire: Wire) -> None:
    wire.call("SET", "k", "v")
    wire.call("XLEN", "k")
    assert logged(wire) == [[b"XLEN", b"k"]]


def test_blocked_command_is_logged_once_when_it_has_ended(wire: Wire) -> None:
    wire.call("XREAD", "BLOCK", "1", "STREAMS", "s", "$")
    assert logged(wire, 2) == [[b"SLOWLOG", b"RESET"], [b"XREAD", b"BLOCK", b"1", b"STREAMS", b"s", b"$"]]


def test_time_that_a_command_was_blocked_is_not_logged(wire: Wire, server: Server) -> None:
    with server.connect() as other:
        client_id = wire.ask("CLIENT", "ID")
        began_s = time.monotonic()
        wire.send("XREAD", "BLOCK", "0", "STREAMS", "s", "$")
        while b"blocked_clients:1\r\n" not in other.ask("INFO", "clients"):
            assert time.monotonic() < began_s + REPLY_TIMEOUT_S
        blocked_s = time.monotonic()
        other.call("XREAD", "BLOCK", "300", "STREAMS", "t", "$")
        waited_s = time.monotonic() - blocked_s
        other.call("CLIENT", "UNBLOCK", client_id)
        assert wire.receive() == b"*-1\r\n"
        spent_s = time.monotonic() - began_s
    (duration_us,) = (
        entry[2] for entry in wire.ask("SLOWLOG", "GET", "-1") if entry[3][:3] == [b"XREAD", b"BLOCK", b"0"]
    )
    assert duration_us <= (spent_s - waited_s) * 1e6


def test_log_shrinks_with_the_next_call(wire: Wire) -> None:
    for _ in range(5):
        wire.call("PING")
    wire.call("CONFIG", "SET", "slowlog-max-len", "2")
    assert wire.ask("SLOWLOG", "LEN") == 2
    wire.call("CONFIG", "SET", "slowlog-max-len", "0")
    wire.call("PING")
    assert wire.ask("SLOWLOG", "LEN") == 2


def test_minus_one_logs_nothing_and_statistics_count_what_was_logged(wire: Wire) -> None:
    wire.call("CONFIG", "RESETSTAT")
    wire.call("GET", "k")
    wire.call("CONFIG", "SET", "slowlog-log-slower-than", "-1")
    wire.call("GET", "k")
    text = wire.ask("INFO", "stats", "commandstats").decode()
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    assert fields["slowlog_commands_count"] == "2"
    assert "calls=2," in fields["cmdstat_get"]
    assert re.search(r",slowlog_count=1,slowlog_time_ms_sum=\d+\.\d", fields["cmdstat_get"])
    wire.call("CONFIG", "RESETSTAT")
    assert "slowlog_commands_count:0" in wire.ask("INFO", "stats").decode()
    assert wire.ask("SLOWLOG", "LEN") > 0


@pytest.mark.oracle
def test_secrets_are_blotted_out_as_by_redis(headrace: Server, oracle: Server) -> None:
    seen = []
    for server in (headrace, oracle):
        with server.connect() as wire:
            wire.call("CONFIG", "SET", "slowlog-log-slower-than", "0")
            wire.call("SLOWLOG", "RESET")
            for line in SECRETS:
                wire.call(*split(line))
            seen.append(logged(wire, len(SECRETS)))
            wire.call("CONFIG", "SET", "masterauth", "", "tls-key-file-pass", "", "tls-client-key-file-pass", "")
            wire.call("CONFIG", "SET", "slowlog-log-slower-than", "10000")
    assert seen[0] == seen[1]


def test_cutting_leaves_what_fits() -> None:
    assert cut([b"ab", b"cd"], 2, 2) == [b"ab", b"cd"]


def test_clients_that_take_the_fast_path_are_logged_with_every_word() -> None:
    rig = Rig(slowlog_log_slower_than=0)
    caller = rig.connect()
    assert caller.client.rows
    caller.call("XADD s * f v", "GET k", "PING")
    assert [call.shown()[0] for call in rig.server.context.slow_log.latest(9)] == [
        [b"PING"], [b"GET", b"k"], [b"XADD", b"s", b"*", b"f", b"v"],
    ]  # fmt: skip
    assert caller.call("INFO commandstats").count(b"calls=1,") == 3


def test_threshold_may_change_while_clients_are_there() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("CONFIG SET slowlog-log-slower-than 0", "GET k", "CONFIG SET slowlog-max-len 0", "GET k")
    assert caller.client.rows
    assert len(rig.server.context.slow_log) == 2
