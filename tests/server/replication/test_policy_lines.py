"""Policy lines in the stream of a primary: a Headrace applies and logs them, a Redis runs a PING without effect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headrace.commands.execution.context import Context
from headrace.commands.policies import lines
from headrace.persistence.aof import AppendOnlyLog
from headrace.persistence.policy_lines import log_lines, ping_of_lines
from headrace.replication.following import RETRY_MS
from headrace.store.database import Store
from headrace.store.image import StreamImage
from headrace.store.policies import lines as stored_lines
from headrace.store.stream import Stream
from support.fake_primary import ID, FakePrimary, listening, payload_of, stream_of, until
from support.inprocess import Clock, Rig, Running, running_server
from support.links import await_link, field
from support.links import until as wait_until
from support.redis7 import OldRedis
from support.servers import Server
from support.wire import Wire

START = 100
AWKWARD = b'a "b" \r\n*1\r\n\x00\xff'
NOTES = [[b"NOTE", AWKWARD, b"%d" % number, b"x" * 1500] for number in range(4)]


def ping(words: list[bytes]) -> bytes:
    return ping_of_lines(log_lines(words))


# Policy lines alone, in transactions, and in another database, among records and heartbeats.
STREAM = b"".join(
    [
        stream_of("SELECT 0", "XADD s 1-1 f v"), ping(NOTES[0]), stream_of("PING"),
        stream_of("MULTI", "XADD s 2-1 f v"), ping(NOTES[1]), stream_of("XADD s 3-1 f v", "EXEC"),
        stream_of("SELECT 3", "XADD t 1-1 f v"), ping(NOTES[2]), stream_of("MULTI"), ping(NOTES[3]), stream_of("EXEC"),
        stream_of("PING hello", "SET last 1"),
    ]
)  # fmt: skip
APPLIED = [(0, NOTES[0], 1), (0, NOTES[1], 2), (3, NOTES[2], 1), (3, NOTES[3], 1)]


@pytest.fixture
def applied(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, list[bytes], int]]:
    """Database, words, and how many entries the streams of the database had then."""
    applied: list[tuple[int, list[bytes], int]] = []

    def apply(context: Context, words: list[bytes]) -> None:
        assert context.replaying
        applied.append((context.db.index, words, sum(map(len, context.db.streams.values()))))

    monkeypatch.setitem(lines.APPLIERS, b"NOTE", apply)
    return applied


@asynccontextmanager
async def replica_of(primary: FakePrimary, **directives: object) -> AsyncIterator[Running]:
    clock = Clock()
    async with running_server(clock=clock, **directives) as running:
        following = running.server.following
        following.follow(b"127.0.0.1", primary.port)
        while not (following.is_up and running.server.primary.history.offset == primary.end):
            if following.link is None:
                clock.advance(RETRY_MS)
                following.cron(clock(), is_new_second=False)
            await asyncio.sleep(0)
        yield running


@pytest.mark.parametrize("step", [1, 7, 100_000])
async def test_a_replica_applies_lines_in_their_database_and_in_order(applied, step):
    primary = FakePrimary(payload_of(Store(16)), STREAM, start=START)
    primary.step = step
    async with listening(primary), replica_of(primary) as running:
        assert applied == APPLIED
        await until(lambda: running.server.primary.backlog.end == primary.end)
        assert bytes(running.server.primary.backlog.read(START)) == primary.stream


async def test_a_link_may_be_cut_in_the_middle_of_lines(applied):
    """Each line is applied once, wherever the link was cut."""
    whole_size = FakePrimary(payload_of(Store(16)), STREAM, start=START).whole_size
    for size in range(whole_size - len(STREAM), whole_size, 61):
        primary = FakePrimary(payload_of(Store(16)), STREAM, start=START)
        primary.budgets = [size]
        applied.clear()
        async with listening(primary), replica_of(primary):
            assert applied == APPLIED, size


async def test_a_replica_logs_lines_in_their_transaction_and_has_them_after_a_start(applied, tmp_path):
    primary = FakePrimary(payload_of(Store(16)), STREAM, start=START)
    async with listening(primary), replica_of(primary, dir=bytes(tmp_path), appendonly=True, save=b"") as running:
        await until(lambda: isinstance(running.server.log, AppendOnlyLog) and not running.server.log.is_starting)
    data = b"".join(path.read_bytes() for path in sorted(tmp_path.glob("appendonlydir/*.incr.aof")))
    assert b"PING" not in data.upper()
    applied.clear()
    async with running_server(dir=bytes(tmp_path), appendonly=True, save=b""):
        assert applied == APPLIED


async def test_a_snapshot_of_a_primary_brings_its_lines(applied, monkeypatch):
    def source(key: bytes, stream: Stream | StreamImage) -> Iterator[list[bytes]]:
        yield [b"NOTE", key, b"%d" % len(stream)]

    monkeypatch.setattr(stored_lines, "SOURCES", (source,))
    rig = Rig()
    rig.connect().call("XADD s 1-1 f v", "XGROUP CREATE s g 0", "SELECT 4", "XADD t 1-1 f v", "XGROUP CREATE t g 0")
    primary = FakePrimary(payload_of(rig.server.store), b"", start=START)
    async with listening(primary), replica_of(primary) as running:
        assert applied == [(0, [b"NOTE", b"s", b"1"], 1), (4, [b"NOTE", b"t", b"1"], 1)]
        assert len(running.server.store.databases[4].streams) == 1


async def test_a_snapshot_with_lines_of_a_newer_primary_is_taken_without_them(monkeypatch, caplog):
    monkeypatch.setattr(stored_lines, "SOURCES", (lambda key, stream: iter([[b"NEWER", key]]),))
    lines._unknown_names.clear()
    rig = Rig()
    rig.connect().call("XADD s 1-1 f v", "XGROUP CREATE s g 0", "XADD t 1-1 f v", "XGROUP CREATE t g 0")
    stream = stream_of('PING "#HR NEWER s"', "SET k v")
    primary = FakePrimary(payload_of(rig.server.store), stream, start=START)
    async with listening(primary), replica_of(primary) as running:
        assert len(running.server.store.databases[0].keys) == 3
    assert caplog.text.count("Policy lines of the primary are left out: Unknown policy line 'NEWER'") == 1


def follow_port(wire: Wire, port: int) -> None:
    assert wire.call("REPLICAOF", "127.0.0.1", port).startswith(b"+OK")
    await_link(wire)


def ask_replica(server: Server, port: int, end: int) -> dict[str, object]:
    """Let a server follow, and show what it then has."""
    with server.connect() as wire:
        follow_port(wire, port)
        wait_until(lambda: int(field(wire, "slave_repl_offset")) >= end, "the stream does not arrive")
        found: dict[str, object] = {"offset": int(field(wire, "slave_repl_offset")), "s": wire.ask("XLEN", "s")}
        wire.call("SELECT", 3)
        return found | {"t": wire.ask("XLEN", "t"), "last": wire.ask("GET", "last")}


# A file without keys of RDB version 10, which Redis 7.0 reads, without a checksum.
OLD_PAYLOAD = b"REDIS0010\xff" + bytes(8)


@pytest.mark.parametrize("kind", [pytest.param("oracle", marks=pytest.mark.oracle), "redis 7"])
async def test_a_redis_runs_lines_without_effect_and_counts_their_bytes(kind: str, tmp_path: Path) -> None:
    """Nothing is lost, and a later link continues where this one was."""
    server = (Server if kind == "oracle" else OldRedis)(kind, tmp_path / "replica", "--appendonly", "yes").start()
    try:
        primary = FakePrimary(OLD_PAYLOAD, STREAM, start=START)
        async with listening(primary):
            found = await asyncio.to_thread(ask_replica, server, primary.port, primary.end)
            assert found == {"offset": primary.end, "s": 3, "t": 1, "last": b"1"}
            primary.cut_all()
            primary.append("SET last 2")
            found = await asyncio.to_thread(ask_replica, server, primary.port, primary.end)
            assert found == {"offset": primary.end, "s": 3, "t": 1, "last": b"2"}
            asked = [request[1:] for request in primary.requests if request[0] == b"PSYNC"]
            assert asked[1:] == [[ID, b"%d" % (START + len(STREAM) + 1)]]
        data = b"".join(path.read_bytes() for path in (tmp_path / "replica").glob("appendonlydir/*.incr.aof"))
        assert b"#HR" not in data
    finally:
        server.kill()  # it may be writing the first file of its log, and would not stop
