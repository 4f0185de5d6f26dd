"""A primary that announces, or sends, more than a request may have: the replica takes little memory, and says so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from conftest import StartServer
from headrace.protocol.reader import REQUEST_SIZE_MAX
from headrace.replication.following import RETRY_MS
from headrace.server.replication import primary_link
from headrace.store.database import Store
from support.fake_primary import FakePrimary, listening, payload_of, stream_of, until
from support.inprocess import Clock, Running, running_server
from support.servers import Server
from support.wire import Wire, encode

MIB = 1 << 20
SMALL_LIMIT = 4 * MIB
NEXT_TRY = ". The data up to there are kept. Next attempt in 1 seconds"
PIECE = b"v" * 100_000
LARGE_VALUE = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$9000000000\r\n" + 64 * PIECE
ANNOUNCED = [
    pytest.param(LARGE_VALUE, "a request of 9000000035 bytes or more", id="bulk"),
    pytest.param(b"*2000000000\r\n", "a request of 12000000013 bytes or more", id="array"),
]
# What is sent at first and then again and again.
ENDLESS = [
    pytest.param(b"*3000\r\n", b"$100000\r\n" + PIECE + b"\r\n", "a request of", id="array"),
    pytest.param(stream_of("MULTI"), stream_of("SET k " + "v" * 100_000), "a transaction of", id="transaction"),
]


def new_primary() -> FakePrimary:
    """A primary without data."""
    return FakePrimary(payload_of(Store()), b"")


def status(server: Server, name: str) -> int:
    """Bytes of memory of a process: VmRSS now, VmHWM at most so far."""
    lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def number(wire: Wire, section: str, name: str) -> int:
    """A field of INFO."""
    fields = wire.call("INFO", section).decode().splitlines()
    return next(int(line.split(":")[1]) for line in fields if line.startswith(f"{name}:"))


def applied(wire: Wire) -> int:
    """The offset of a replica."""
    return number(wire, "replication", "master_repl_offset")


@asynccontextmanager
async def following(primary: FakePrimary, server: Server) -> AsyncIterator[Wire]:
    """A connection to a server that follows the primary, and has what this has."""
    async with listening(primary):
        with server.connect() as wire:
            wire.call("REPLICAOF", "127.0.0.1", primary.port)
            primary.append("SET a 1")
            await until(lambda: applied(wire) == primary.end)
            yield wire


@pytest.mark.parametrize(("announced", "message"), ANNOUNCED)
async def test_a_replica_reserves_nothing_for_what_is_announced(
    start_server: StartServer, announced: bytes, message: str
) -> None:
    server, primary = start_server("headrace"), new_primary()
    async with following(primary, server) as wire:
        offset, before = primary.end, status(server, "VmHWM")
        primary.append_bytes(stream_of("SET b 1") + announced)
        line = f"{message}, and at most {REQUEST_SIZE_MAX} are taken{NEXT_TRY}"
        await until(lambda: line in server.log_tail())
        assert status(server, "VmHWM") - before < 16 * MIB
        assert applied(wire) == offset + len(stream_of("SET b 1"))
        assert [wire.call("GET", key) for key in "abk"] == [b"$1\r\n1\r\n", b"$1\r\n1\r\n", b"$-1\r\n"]


async def test_a_large_value_is_kept_once_while_it_arrives(start_server: StartServer) -> None:
    server, primary = start_server("headrace"), new_primary()
    size = 64 * MIB
    async with following(primary, server) as wire:
        before = status(server, "VmRSS")
        request = encode(("SET", "k", b"v" * size))
        received = number(wire, "stats", "total_net_repl_input_bytes") + size // 2
        primary.append_bytes(request[: size // 2])
        await until(lambda: number(wire, "stats", "total_net_repl_input_bytes") >= received)
        # What has arrived is kept once.
        assert status(server, "VmHWM") - before < size * 3 // 4
        primary.append_bytes(request[size // 2 :])
        await until(lambda: applied(wire) == primary.end)
        assert wire.call("STRLEN", "k") == b":%d\r\n" % size
        # The value, and its bytes on their way into the backlog. These are gone at the end.
        assert status(server, "VmHWM") - before < size * 5 // 2
        assert status(server, "VmRSS") - before < size * 3 // 2


async def test_a_large_value_reaches_a_replica_of_the_replica(start_server: StartServer) -> None:
    middle, last, primary = start_server("headrace"), start_server("headrace"), new_primary()
    async with following(primary, middle) as wire:
        with last.connect() as end:
            end.call("REPLICAOF", "127.0.0.1", middle.port)
            await until(lambda: applied(end) == primary.end)
            for size in (3_000_000, 17, 300_000):
                primary.append_bytes(encode(("SET", "k", b"v" * size)))
            primary.append("SET last 1")
            await until(lambda: applied(end) == primary.end)
            assert applied(wire) == primary.end
            assert end.call("GET", "k") == wire.call("GET", "k") == b"$300000\r\n" + b"v" * 300_000 + b"\r\n"
            assert number(end, "stats", "sync_full") == 0
            assert number(wire, "stats", "sync_full") == 1


@pytest.mark.parametrize(("first", "more", "kind"), ENDLESS)
async def test_what_has_no_end_is_left_at_the_limit(
    first: bytes, more: bytes, kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(primary_link, "REQUEST_SIZE_MAX", SMALL_LIMIT)
    primary = new_primary()
    clock = Clock()
    async with (
        listening(primary),
        running_server(clock=clock, client_query_buffer_limit=MIB) as running,
    ):
        replica = running.server.following
        replica.follow(b"127.0.0.1", primary.port)
        primary.append("SET a 1")
        await until(lambda: running.server.primary.history.offset == primary.end)
        offset = primary.end
        primary.append_bytes(first)
        while replica.link is not None:
            assert primary.end < offset + 2 * SMALL_LIMIT
            primary.append_bytes(more)
            await until(lambda: replica.link is None or replica.link.incoming.received == primary.end)
        assert primary.end > offset + SMALL_LIMIT // 2
        assert f"Protocol error in the stream of the primary: {kind}" in caplog.text
        assert f"at most {SMALL_LIMIT} are taken{NEXT_TRY}" in caplog.text
        assert running.server.primary.history.offset == offset
        assert await reply(running, "GET", "k") == b"$-1"
        # What was missed has the same request, so a snapshot is asked for.
        primary.start, primary.stream = primary.end, b""
        clock.advance(RETRY_MS)
        replica.cron(clock(), is_new_second=False)
        await until(lambda: replica.is_up)
        assert primary.requests[-1] == [b"PSYNC", b"?", b"-1"]
        assert running.server.primary.history.offset == primary.end


async def reply(running: Running, *words: str) -> bytes:
    """The first line of a reply."""
    peer = await running.connect()
    peer.send(*words)
    line = await peer.line()
    peer.writer.close()
    return line.rstrip(b"\r\n")
