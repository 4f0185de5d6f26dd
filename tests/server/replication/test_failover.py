"""FAILOVER: the errors, the steps, and what held clients get, with replicas that the test plays."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headrace.protocol.reader import RequestReader
from headrace.replication.following import FAILOVER_RETRY_MS
from headrace.server.replication.failover import State
from support.fake_primary import until
from support.inprocess import Clock, Peer, Running, running_server

NEW_ID = "f" * 40


@pytest.fixture(autouse=True)
def _logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


class Target:
    """A replica that may become the primary: it listens, and answers PSYNC as the test says."""

    def __init__(self) -> None:
        self.port = 0
        self.answer = f"+CONTINUE {NEW_ID}\r\n".encode()
        self.closes = False
        self.requests: list[list[bytes]] = []
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve the former primary."""
        self.writers.append(writer)
        requests = RequestReader()
        while data := await reader.read(65536):
            for request in requests.feed(data):
                self.requests.append(request)
                if request[0] == b"PING":
                    writer.write(b"+PONG\r\n")
                elif request[0] != b"PSYNC":
                    writer.write(b"+OK\r\n")
                elif self.closes:
                    writer.transport.abort()
                else:
                    writer.write(self.answer)

    @property
    def psyncs(self) -> list[list[bytes]]:
        return [request for request in self.requests if request[0] == b"PSYNC"]


class Scene:
    """A primary with one replica, and the clock of the test."""

    def __init__(self, running: Running, clock: Clock, target: Target, replica: Peer) -> None:
        self.running, self.clock, self.target, self.replica = running, clock, target, replica
        self.server = running.server

    @property
    def state(self) -> State:
        return self.server.failover.state

    @property
    def offset(self) -> int:
        return self.server.primary.history.offset

    def confirm(self) -> None:
        """The replica has everything."""
        self.replica.send("REPLCONF", "ACK", self.offset)

    async def client(self) -> Peer:
        return await self.running.connect()

    async def ask(self, *words: Any) -> bytes:
        peer = await self.client()
        peer.send(*words)
        return await peer.line()

    async def write(self) -> None:
        """A write that the replica does not confirm."""
        assert await self.ask("SET", "k", "v") == b"+OK\r\n"

    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)
        self.server.periodic.run()
        self.server.turns.run_timers()

    async def has_target(self, *more: Any) -> bytes:
        return await self.ask("FAILOVER", "TO", "127.0.0.1", self.target.port, *more)

    async def ended(self) -> None:
        await until(lambda: self.state is State.NONE)


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    clock, target = Clock(), Target()
    listener = await asyncio.start_server(target.serve, "127.0.0.1", 0)
    target.port = listener.sockets[0].getsockname()[1]
    try:
        async with running_server(clock=clock, repl_diskless_sync_delay=0) as running:
            replica = await running.connect()
            replica.send("REPLCONF", "listening-port", target.port, "capa", "psync2", "capa", "eof")
            await replica.expect(b"+OK\r\n")
            replica.send("PSYNC", "?", -1)
            primary = running.server.primary
            await until(lambda: primary.online)
            replica.send("REPLCONF", "ACK", 0)
            await until(lambda: primary.links[0].is_following)
            yield Scene(running, clock, target, replica)
    finally:
        listener.close()
        for writer in target.writers:
            writer.transport.abort()


# -- refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("ABORT", "No failover in progress."),
        ("ABORT ABORT", "syntax error"),
        ("TIMEOUT", "syntax error"),
        ("TIMEOUT x", "value is not an integer or out of range"),
        ("TIMEOUT 0", "FAILOVER timeout must be greater than 0"),
        ("TIMEOUT 1 TIMEOUT 1", "syntax error"),
        ("TO host", "syntax error"),
        ("TO host port", "value is not an integer or out of range"),
        ("FORCE FORCE", "syntax error"),
        ("FORCE", "FAILOVER with force option requires both a timeout and target HOST and IP."),
        ("FORCE TIMEOUT 1", "FAILOVER with force option requires both a timeout and target HOST and IP."),
        ("FORCE TO host 1", "FAILOVER with force option requires both a timeout and target HOST and IP."),
        ("TO 127.0.0.1 1", "FAILOVER target HOST and PORT is not a replica."),
    ],
)
async def test_a_wrong_request_changes_nothing(words, error):
    async with scene() as now:
        assert await now.ask("FAILOVER", *words.split()) == f"-ERR {error}\r\n".encode()
        assert now.state is State.NONE
        assert await now.ask("SET", "k", "v") == b"+OK\r\n"


async def test_without_replicas_or_on_a_replica_there_is_none():
    async with running_server() as running:
        peer = await running.connect()
        peer.send("FAILOVER")
        assert await peer.line() == b"-ERR FAILOVER requires connected replicas.\r\n"
        running.server.following.follow(b"127.0.0.1", 1)
        peer.send("FAILOVER")
        assert await peer.line() == b"-ERR FAILOVER is not valid when server is a replica.\r\n"


async def test_a_replica_without_its_snapshot_is_no_target():
    async with scene() as now:
        now.server.config.repl_diskless_sync_delay = 1000
        late = await now.client()
        late.send("REPLCONF", "listening-port", 7, "capa", "eof")
        await late.expect(b"+OK\r\n")
        late.send("PSYNC", "?", -1)
        await until(lambda: len(now.server.primary.links) == 2)
        assert await now.ask("FAILOVER", "TO", "127.0.0.1", 7) == b"-ERR FAILOVER target replica is not online.\r\n"


# -- waiting for the replica -----------------------------------------------------------------------


async def test_writes_are_held_until_the_replica_has_everything():
    async with scene() as now:
        await now.write()
        assert await now.ask("FAILOVER") == b"+OK\r\n"
        assert now.state is State.WAITING
        writer = await now.client()
        writer.send("SET", "k", "held")
        await until(lambda: now.server.dispatcher.pause.held)
        assert await now.ask("FAILOVER") == b"-ERR FAILOVER already in progress.\r\n"
        assert await now.ask("REPLICAOF", "NO", "ONE") == b"-ERR REPLICAOF not allowed while failing over.\r\n"
        assert await now.ask("PSYNC", "?", -1) == b"-NOMASTERLINK Can't SYNC while failing over\r\n"
        assert await now.ask("CLIENT", "UNPAUSE") == b"+OK\r\n"
        assert await now.ask("EXISTS", "k") == b":1\r\n"
        replid, offset = now.server.primary.history.replid, now.offset
        now.pass_time(200)
        assert now.state is State.WAITING
        now.confirm()
        await now.ended()
        assert now.target.psyncs == [[b"PSYNC", replid.encode(), b"%d" % (offset + 1), b"FAILOVER"]]
        assert await writer.line() == b"-READONLY You can't write against a read only replica.\r\n"
        assert now.server.following.is_up
        assert now.server.primary.history.replid == NEW_ID
        assert now.server.primary.history.former_id == replid


async def test_a_replica_that_has_everything_takes_over_at_once():
    async with scene() as now:
        now.confirm()
        await until(lambda: now.server.primary.links[0].replica.confirmed_offset == now.offset)
        assert await now.has_target() == b"+OK\r\n"
        await now.ended()
        assert now.server.following.address == (b"127.0.0.1", now.target.port)


async def test_abort_runs_what_was_held():
    async with scene() as now:
        await now.write()
        assert await now.has_target("TIMEOUT", 60_000) == b"+OK\r\n"
        writer = await now.client()
        writer.send("SET", "k", "held")
        await until(lambda: now.server.dispatcher.pause.held)
        assert await now.ask("FAILOVER", "ABORT") == b"+OK\r\n"
        assert await writer.line() == b"+OK\r\n"
        assert now.server.following.address is None
        now.confirm()
        now.pass_time(1000)
        assert now.state is State.NONE


async def test_the_end_of_the_time_ends_it(caplog):
    async with scene() as now:
        await now.write()
        assert await now.has_target("TIMEOUT", 500) == b"+OK\r\n"
        now.pass_time(499)
        assert now.state is State.WAITING
        now.pass_time(1)
        assert now.state is State.NONE
        assert f"FAILOVER to 127.0.0.1:{now.target.port} aborted: Replica never caught up before timeout" in caplog.text
        assert await now.ask("SET", "k", "v") == b"+OK\r\n"


async def test_with_a_time_the_stream_stands_still():
    async with scene() as now:
        await now.write()
        assert await now.has_target("TIMEOUT", 60_000) == b"+OK\r\n"
        before = now.offset
        waiter = await now.client()
        waiter.send("WAIT", 2, 0)
        await until(lambda: now.server.blocked_count)
        for _ in range(20):
            now.pass_time(1000)
            now.replica.send("REPLCONF", "ACK", 0)
        assert now.offset == before


async def test_a_key_that_expires_meanwhile_stays():
    async with scene() as now:
        assert await now.ask("SET", "k", "v", "PX", 10) == b"+OK\r\n"
        assert await now.has_target() == b"+OK\r\n"
        now.pass_time(1000)
        assert await now.ask("EXISTS", "k") == b":0\r\n"
        assert await now.ask("DBSIZE") == b":1\r\n"
        assert await now.ask("FAILOVER", "ABORT") == b"+OK\r\n"
        now.pass_time(1000)
        assert await now.ask("DBSIZE") == b":0\r\n"


async def test_a_shorter_pause_of_a_client_does_not_end_it():
    async with scene() as now:
        await now.write()
        assert await now.ask("CLIENT", "PAUSE", 100, "WRITE") == b"+OK\r\n"
        assert await now.has_target() == b"+OK\r\n"
        writer = await now.client()
        writer.send("SET", "k", "held")
        await until(lambda: now.server.dispatcher.pause.held)
        now.pass_time(200)
        await until(lambda: now.server.dispatcher.pause.held)
        assert await now.ask("FAILOVER", "ABORT") == b"+OK\r\n"
        assert await writer.line() == b"+OK\r\n"


# -- handing over ----------------------------------------------------------------------------------


async def test_with_force_the_role_is_handed_over_at_the_end_of_the_time(caplog):
    async with scene() as now:
        await now.write()
        assert await now.has_target("TIMEOUT", 100, "FORCE") == b"+OK\r\n"
        reader = await now.client()
        reader.send("XREAD", "BLOCK", 0, "STREAMS", "s", "$")
        await until(lambda: now.server.blocked_count)
        now.pass_time(100)
        assert now.state is State.IN_PROGRESS
        assert "time out exceeded, failing over." in caplog.text
        assert await now.ask("ROLE") == b"*5\r\n"
        text = b"force unblock from blocking operation, instance state changed (master -> replica?)"
        assert await reader.line() == b"-UNBLOCKED " + text + b"\r\n"
        await reader.expect_end()
        await now.ended()
        assert now.server.following.is_up


@pytest.mark.parametrize("how", ["refused", "lost"])
async def test_after_a_refusal_this_server_is_the_primary_again(how, caplog):
    async with scene() as now:
        now.target.answer = b"-NOPERM no\r\n"
        now.target.closes = how == "lost"
        await now.write()
        assert await now.has_target() == b"+OK\r\n"
        writer = await now.client()
        writer.send("SET", "k", "held")
        await until(lambda: now.server.dispatcher.pause.held)
        replid = now.server.primary.history.replid
        now.confirm()
        await now.ended()
        assert await writer.line() == b"+OK\r\n"
        assert now.server.following.address is None
        assert now.server.primary.history.former_id == replid
        assert "aborted: Failover target rejected psync request" in caplog.text
        assert not now.server.primary.links


async def test_a_target_that_does_not_answer_is_tried_again_until_abort():
    async with scene() as now:
        await now.write()
        assert await now.has_target("TIMEOUT", 100, "FORCE") == b"+OK\r\n"
        now.target.answer = b"\n"
        now.pass_time(100)
        await until(lambda: len(now.target.psyncs) == 1)
        now.pass_time(now.server.config.repl_timeout * 1000 + 1000)
        await until(lambda: now.server.following.link is None or len(now.target.psyncs) == 2)
        now.pass_time(FAILOVER_RETRY_MS)
        await until(lambda: len(now.target.psyncs) == 2)
        assert now.state is State.IN_PROGRESS
        assert await now.ask("FAILOVER", "ABORT") == b"+OK\r\n"
        assert now.server.following.address is None
        assert await now.ask("SET", "k", "v") == b"+OK\r\n"


async def test_a_snapshot_of_the_target_is_taken_too():
    async with scene() as now:
        now.target.answer = f"+FULLRESYNC {NEW_ID} 5\r\n".encode()
        now.confirm()
        await until(lambda: now.server.primary.links[0].replica.confirmed_offset == now.offset)
        assert await now.has_target() == b"+OK\r\n"
        await now.ended()
        assert now.server.following.link is not None
        assert now.server.following.link.is_arriving


# -- the side of the replica -----------------------------------------------------------------------


async def test_a_primary_takes_no_request_to_become_one():
    async with running_server() as running:
        peer = await running.connect()
        peer.send("PSYNC", "a", "x", "FAILOVER")
        assert await peer.line() == b"-ERR PSYNC FAILOVER can't be sent to a master.\r\n"


async def test_only_the_own_history_makes_a_replica_the_primary():
    async with running_server() as running:
        server = running.server
        server.primary.adopt("a" * 40, 7)
        server.following.follow(b"127.0.0.1", 1)
        peer = await running.connect()
        peer.send("PSYNC", "b" * 40, 8, "FAILOVER")
        assert await peer.line() == b"-ERR PSYNC FAILOVER replid must match my replid.\r\n"
        assert server.following.address is not None
        peer.send("PSYNC", "A" * 40, 8, "failover")
        # The client did not say that it takes a new ID.
        assert await peer.line() == b"+CONTINUE\r\n"
        assert server.following.address is None
        assert server.primary.history.former_id == "a" * 40
        assert server.primary.history.former_end == 8
