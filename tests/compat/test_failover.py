"""FAILOVER between real servers of both kinds, under load: every answered write is at the new primary, once.

The errors and what INFO, ROLE and blocked clients show are compared with a failover between two Redis.
"""

from __future__ import annotations

import contextlib
import random
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from conftest import StartServer
from support.links import await_link, field, follow, settle, until
from support.servers import Server
from support.wire import Wire

pytestmark = pytest.mark.oracle

FAST = ("--repl-diskless-sync-delay", "0")
PAIRS = [("headrace", "headrace"), ("headrace", "oracle"), ("oracle", "headrace")]
WRITERS = 4
WRITES_BEFORE = 200


# What is sent while a failover waits; the last one ends it.
MEANWHILE = (
    ["FAILOVER"], ["REPLICAOF", "NO", "ONE"], ["SLAVEOF", "a", "b"], ["PSYNC", "?", "-1"], ["SYNC"],
    ["REPLCONF", "capa", "eof"], ["GET", "k"], ["CLIENT", "UNPAUSE"], ["FAILOVER", "ABORT"],
)  # fmt: skip


def state(wire: Wire) -> str:
    """The step of a failover."""
    return field(wire, "master_failover_state")


def hand_over(wire: Wire, *words: str | int) -> None:
    """FAILOVER, until the other server is the primary."""
    assert wire.call("FAILOVER", *words) == b"+OK\r\n"
    until(lambda: field(wire, "role") == "slave", "the role is not handed over")
    await_link(wire)


class Load:
    """Clients that add entries with numbers, each after the reply to the one before, until one is refused."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.answered: list[bytes] = []
        self.last_replies: set[bytes] = set()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(WRITERS)]
        for thread in self._threads:
            thread.start()

    def _run(self, number: int) -> None:
        with self._server.connect() as wire:
            for count in range(10**6):
                value = b"%d-%d" % (number, count)
                reply = wire.call("XADD", "s", "*", "n", value)
                if not reply.startswith(b"$"):
                    self.last_replies.add(reply)
                    return
                self.answered.append(value)

    def join(self) -> None:
        """Wait until all clients were refused."""
        for thread in self._threads:
            thread.join()


def entries(wire: Wire) -> list[bytes]:
    """The numbers of all entries."""
    return [fields[1] for _, fields in wire.ask("XRANGE", "s", "-", "+")]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_no_answered_write_is_lost(start_server: StartServer, first: str, second: str) -> None:
    old, new = (start_server(name, *FAST) for name in (first, second))
    above, below = old.connect(), new.connect()
    follow(below, old)
    load = Load(old)
    until(lambda: len(load.answered) > WRITES_BEFORE, "nothing is written")
    assert above.call("FAILOVER", "TO", "127.0.0.1", new.port) == b"+OK\r\n"
    load.join()
    await_link(above)
    assert load.last_replies == {b"-READONLY You can't write against a read only replica.\r\n"}
    assert state(above) == state(below) == "no-failover"
    assert field(below, "role") == "master"
    assert sorted(entries(below)) == sorted(load.answered)
    assert below.ask("XADD", "s", "*", "n", "later")
    settle(above, below)
    assert entries(above) == entries(below)
    assert field(above, "sync_partial_ok", "stats") == "0"
    assert field(below, "sync_full", "stats") == "0", "the old primary continues with what it has"
    assert above.ask("DEBUG", "DIGEST") == below.ask("DEBUG", "DIGEST")


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_the_roles_can_be_exchanged_again_and_again(start_server: StartServer, first: str, second: str) -> None:
    servers = [start_server(name, *FAST) for name in (first, second)]
    wires = [server.connect() for server in servers]
    follow(wires[1], servers[0])
    for number in range(6):
        primary, replica = number % 2, (number + 1) % 2
        wires[primary].call("XADD", "s", "*", "n", number)
        hand_over(wires[primary])
        assert field(wires[replica], "role") == "master"
    assert [int(value) for value in entries(wires[0])] == list(range(6))
    counts = [int(field(wire, "sync_full", "stats")) for wire in wires]
    assert counts == [1, 0]


def test_other_replicas_of_the_old_primary_follow_on(start_server: StartServer) -> None:
    old, new, other = (start_server(name, *FAST) for name in ("headrace", "oracle", "headrace"))
    above, below, beside = old.connect(), new.connect(), other.connect()
    follow(below, old)
    follow(beside, old)
    above.call("SET", "k", 1)
    hand_over(above, "TO", "127.0.0.1", new.port)
    below.call("SET", "k", 2)
    follow(beside, new)
    settle(above, below, beside)
    assert beside.ask("GET", "k") == b"2"
    counts = [int(field(wire, "sync_full", "stats")) for wire in (above, below, beside)]
    assert counts == [2, 0, 0]


class Wanderers:
    """Clients that add entries with numbers at the server that is the primary at the moment, until `stop`."""

    def __init__(self, servers: list[Server]) -> None:
        self._servers = servers
        self._is_over = threading.Event()
        self.answered: list[bytes] = []
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(WRITERS)]
        for thread in self._threads:
            thread.start()

    def _run(self, number: int) -> None:
        count = 0
        while not self._is_over.is_set():
            for server in self._servers:
                with contextlib.suppress(OSError), server.connect() as wire:
                    while not self._is_over.is_set():
                        count += 1
                        value = b"%d-%d" % (number, count)
                        if not wire.call("XADD", "s", "*", "n", value).startswith(b"$"):
                            break
                        self.answered.append(value)

    def stop(self) -> None:
        """Let the clients end."""
        self._is_over.set()
        for thread in self._threads:
            thread.join()


@pytest.mark.parametrize("seed", range(3))
def test_failovers_at_random_lose_nothing(start_server: StartServer, seed: int) -> None:
    """Failovers that succeed, are late, are aborted, or lose their replica, while clients write."""
    rnd = random.Random(seed)
    names = rnd.choice(PAIRS)
    servers = [start_server(name, *FAST) for name in names]
    wires = [server.connect() for server in servers]
    follow(wires[1], servers[0])
    clients = Wanderers(servers)
    try:
        for _ in range(5):
            primary = next(number for number, wire in enumerate(wires) if field(wire, "role") == "master")
            above = wires[primary]
            answered_count = len(clients.answered)
            until(lambda count=answered_count: len(clients.answered) > count + 20, "nothing is written")
            words = rnd.choice([[], ["TO", "127.0.0.1", servers[1 - primary].port], ["TIMEOUT", rnd.choice([1, 2000])]])
            assert above.call("FAILOVER", *words) == b"+OK\r\n", f"seed {seed}"
            how = rnd.choice(["wait", "wait", "abort", "cut"])
            if how == "cut":
                above.call("CLIENT", "KILL", "TYPE", "replica")
            if how != "wait":
                above.call("FAILOVER", "ABORT")
            until(lambda wire=above: state(wire) == "no-failover", f"seed {seed}: the failover does not end")
            roles = [field(wire, "role") for wire in wires]
            assert sorted(roles) == ["master", "slave"], f"seed {seed}, {names}, {how}"
            await_link(wires[roles.index("slave")])
    finally:
        clients.stop()
    settle(*wires)
    assert sorted(entries(wires[0])) == sorted(clients.answered), f"seed {seed}, {names}"
    assert wires[0].ask("DEBUG", "DIGEST") == wires[1].ask("DEBUG", "DIGEST")


@contextmanager
def stopped(server: Server) -> Iterator[None]:
    """A server that does nothing."""
    assert server.process is not None
    server.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.process.send_signal(signal.SIGCONT)


def observed(start_server: StartServer, first: str, second: str) -> list[str]:
    """What clients see of failovers that wait, are aborted, are forced, and are refused."""
    old, new = (start_server(name, *FAST) for name in (first, second))
    above, below, writer, reader = old.connect(), new.connect(), old.connect(), old.connect()
    target = ("TO", "127.0.0.1", new.port)
    seen: list[bytes | str] = []

    def see(*words: bytes | str | int) -> None:
        with old.connect() as wire:
            seen.append(wire.call(*words))

    follow(below, old)
    for words in ([], ["x"], ["TO", "127.0.0.1"], ["FORCE"], [*target, "FORCE"], ["TIMEOUT", "0"], ["ABORT"]):
        with new.connect() as wire:
            seen.append(wire.call("FAILOVER", *words))
    for words in (["x"], ["FORCE"], ["TO", "a", 1], [*target, "FORCE"], ["TIMEOUT", "-5"], ["ABORT", "ABORT"]):
        see("FAILOVER", *words)
    with stopped(new):
        above.call("SET", "k", 1)
        see("FAILOVER", *target)
        writer.send("SET", "k", 2)
        until(lambda: field(above, "blocked_clients", "clients") == "1", "the write is not held")
        seen.append(state(above))
        for words in MEANWHILE:
            see(*words)
        seen += [writer.receive(), state(above)]
        see("FAILOVER", *target, "TIMEOUT", 100)
        seen.append(writer.call("SET", "k", 3))
        see("FAILOVER", *target, "TIMEOUT", 100, "FORCE")
        reader.send("XREAD", "BLOCK", 0, "STREAMS", "s", "$")
        writer.send("SET", "k", 4)
        until(lambda: state(above) == "failover-in-progress", "it is not forced")
        seen += [field(above, "role"), reader.receive(), reader.wait_for_close()]
        for words in (["FAILOVER"], ["REPLICAOF", "NO", "ONE"], ["FAILOVER", "ABORT"]):
            see(*words)
        seen += [writer.receive(), field(above, "role"), state(above)]
    until(lambda: b"state=online" in above.ask("INFO", "replication"), "the replica does not come back")
    assert below.call("ACL", "SETUSER", "default", "-psync") == b"+OK\r\n"
    with stopped(new):
        writer.send("SET", "k", 5)
        until(lambda: above.ask("GET", "k") == b"5", "the write does not arrive")
        see("FAILOVER", *target)
    seen.append(writer.receive())
    until(lambda: state(above) == "no-failover", "the refusal does not arrive")
    seen += [field(above, "role"), above.call("GET", "k")]
    log = old.log_path.read_text("utf-8", "replace")
    seen += re.findall(r"[*#] (F(?:AILOVER|ailover) .*)", log)
    return [repr(each).replace(str(new.port), "PORT") for each in seen]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_clients_and_the_log_see_what_redis_shows(start_server: StartServer, first: str, second: str) -> None:
    ours, theirs = observed(start_server, first, second), observed(start_server, "oracle", "oracle")
    assert ours == theirs


def test_a_held_reader_of_a_group_is_refused_and_lives(start_server: StartServer) -> None:
    """Reads that change a group are writes: they wait for the end, and the connection stays."""
    old, new = start_server("headrace", *FAST), start_server("headrace", *FAST)
    above, below, worker = old.connect(), new.connect(), old.connect()
    above.call("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
    follow(below, old)
    with stopped(new):
        above.call("SET", "k", 1)
        assert above.call("FAILOVER") == b"+OK\r\n"
        worker.send("XREADGROUP", "GROUP", "g", "c", "COUNT", 1, "STREAMS", "s", ">")
        until(lambda: field(above, "blocked_clients", "clients") == "1", "the read is not held")
    assert worker.receive() == b"-READONLY You can't write against a read only replica.\r\n"
    assert worker.call("PING") == b"+PONG\r\n"
