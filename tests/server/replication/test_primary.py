"""The primary's side of replication, with replicas that the test plays byte by byte."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.commands.clients.replica import ReplicaState
from headrace.server.replication.link import UNSENT_SIZE_MAX
from headrace.server.replication.primary import GETACK, PING
from support.append_only_file import parse_records
from support.inprocess import Clock, Peer, Running, running_server
from support.wire import encode

SELECT = encode(["SELECT", 0])


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop work until the condition holds."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


@asynccontextmanager
async def primary(clock: Clock | None = None, **directives: Any) -> AsyncIterator[Running]:
    """A server that begins a snapshot as soon as a replica asks."""
    directives.setdefault("repl_diskless_sync_delay", 0)
    async with running_server(clock=clock, **directives) as running:
        yield running


async def call(peer: Peer, *words: Any) -> bytes:
    """The first line of the reply."""
    peer.send(*words)
    return await peer.line()


class FakeReplica:
    """A replica that says what the test says. `start` is the offset of its snapshot."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.replid = ""
        self.start = 0
        self.snapshot = b""
        # Whether the snapshot came without its size, between two marks.
        self.is_direct = False

    async def line(self) -> bytes:
        """The next line that is not empty: an empty one is a sign of life."""
        while (line := await self.peer.line()) == b"\n":
            continue
        return line

    async def synchronize(self, *capabilities: str) -> FakeReplica:
        """The whole handshake, with the snapshot."""
        words = [word for each in capabilities for word in ("capa", each)]
        assert await call(self.peer, "REPLCONF", *words) == b"+OK\r\n"
        self.peer.send("PSYNC", "?", "-1")
        await self.read_snapshot()
        return self

    async def read_snapshot(self) -> None:
        match = re.fullmatch(rb"\+FULLRESYNC ([0-9a-f]{40}) (\d+)\r\n", await self.line())
        assert match
        self.replid, self.start = match[1].decode(), int(match[2])
        await self.read_payload()

    async def read_payload(self) -> None:
        """The snapshot in either form."""
        header = await self.line()
        if mark := re.fullmatch(rb"\$EOF:(\S{40})\r\n", header):
            data = await self.peer.reader.readuntil(mark[1])
            self.snapshot, self.is_direct = data[:-40], True
        else:
            size = re.fullmatch(rb"\$(\d+)\r\n", header)
            assert size
            self.snapshot = await self.peer.reader.readexactly(int(size[1]))

    def confirm(self, offset: int, *more: Any) -> None:
        """REPLCONF ACK."""
        self.peer.send("REPLCONF", "ACK", offset, *more)

    async def stream(self, data: bytes) -> None:
        """The next bytes of the stream must be these."""
        await self.peer.expect(data)

    async def nothing_arrives(self) -> None:
        """Nothing was sent: whatever the server had to do is done."""
        for _ in range(20):
            await asyncio.sleep(0)
        assert not self.peer.reader._buffer  # type: ignore[attr-defined]


async def replica(running: Running, *capabilities: str) -> FakeReplica:
    """A replica that follows."""
    fake = await FakeReplica(await running.connect()).synchronize(*capabilities)
    fake.confirm(fake.start)
    await until(lambda: bool(running.server.primary.online) and running.server.primary.links[-1].is_following)
    return fake


FORMS = pytest.mark.parametrize("capabilities", [("psync2",), ("eof", "psync2")], ids=["file", "direct"])


@FORMS
async def test_a_snapshot_has_the_data_and_the_stream_what_came_after(
    capabilities: tuple[str, ...], tmp_path: Path
) -> None:
    async with primary(dir=str(tmp_path).encode(), save=b"") as running:
        client = await running.connect()
        await call(client, "SET", "before", "1")
        fake = await replica(running, *capabilities)
        assert fake.snapshot.startswith(b"REDIS0015")
        assert b"before" in fake.snapshot
        assert b"repl-id(" + fake.replid.encode() in fake.snapshot
        assert await call(client, "SET", "after", "1") == b"+OK\r\n"
        record = encode(["SET", "after", "1"])
        await fake.stream(SELECT + record)
        assert running.server.primary.offset == fake.start + len(SELECT + record)
        assert not list(tmp_path.iterdir()), "the file of the snapshot is gone"


@FORMS
async def test_a_replica_that_reads_no_snapshot_is_refused_for_growing_times(
    capabilities: tuple[str, ...], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An old Redis closes the connection when it has a snapshot, and asks again at once."""
    clock = Clock()
    async with primary(clock, dir=str(tmp_path).encode(), save=b"") as running:
        links = running.server.primary.links

        async def ask(port: int = 7001) -> FakeReplica:
            fake = FakeReplica(await running.connect())
            await call(fake.peer, "REPLCONF", "listening-port", port)
            for each in capabilities:
                await call(fake.peer, "REPLCONF", "capa", each)
            fake.peer.send("PSYNC", "?", "-1")
            return fake

        async def leave() -> None:
            fake = await ask()
            await fake.read_snapshot()
            fake.peer.writer.close()
            await until(lambda: not links)

        async def refused() -> bytes:
            fake = await ask()
            line = await fake.line()
            fake.peer.writer.close()
            return line

        await leave()
        await leave()
        for pause_s in (1, 2, 4):
            text = b"-NOMASTERLINK This replica has not read its last snapshots: RDB version 15 needs Redis 8.10\r\n"
            assert await refused() == text
            clock.advance(pause_s * 1000 - 1)
            assert await refused() == text
            clock.advance(1)
            await leave()
        logged = [record.getMessage() for record in caplog.records if "whole snapshots" in record.getMessage()]
        assert len(logged) == 4
        assert logged[0].endswith(
            ":7001 has closed the connection after 2 whole snapshots, and has read none: RDB version 15 needs Redis "
            "8.10. It gets the next one in 1 seconds."
        )
        # Another one is served, and this one too once it has read a snapshot.
        other = await ask(7002)
        await other.read_snapshot()
        clock.advance(8000)
        fake = await ask()
        await fake.read_snapshot()
        fake.confirm(fake.start)
        await until(lambda: len(running.server.primary.online) == 2 and links[1].replica.has_confirmed)
        fake.peer.writer.close()
        await until(lambda: len(links) == 1)
        await (await ask()).read_snapshot()


async def test_after_a_direct_snapshot_nothing_is_sent_until_the_replica_confirms() -> None:
    async with primary() as running:
        client = await running.connect()
        fake = await FakeReplica(await running.connect()).synchronize("eof", "psync2")
        await call(client, "SET", "k", "v")
        await fake.nothing_arrives()
        fake.confirm(fake.start)
        await fake.stream(SELECT + encode(["SET", "k", "v"]))


async def test_sync_gets_a_snapshot_without_a_status_line_and_never_times_out() -> None:
    clock = Clock()
    async with primary(clock) as running:
        client = await running.connect()
        fake = FakeReplica(await running.connect())
        fake.peer.send("SYNC")
        await fake.read_payload()
        clock.advance(10**9)
        running.server.primary.cron(clock(), is_new_second=True)
        await call(client, "SET", "k", "v")
        await fake.stream(PING + SELECT + encode(["SET", "k", "v"]))


async def test_a_replica_continues_from_every_byte_of_the_backlog() -> None:
    async with primary() as running:
        client = await running.connect()
        fake = await replica(running, "psync2")
        await call(client, "SET", "a", "1")
        await call(client, "SET", "b", "2")
        data = SELECT + encode(["SET", "a", "1"]) + encode(["SET", "b", "2"])
        await fake.stream(data)
        for place in range(len(data) + 1):
            peer = await running.connect()
            await call(peer, "REPLCONF", "capa", "psync2")
            line = await call(peer, "PSYNC", fake.replid, fake.start + place + 1)
            assert line == b"+CONTINUE %b\r\n" % fake.replid.encode()
            await peer.expect(data[place:])
            peer.writer.close()
        assert running.server.stats.sync_partial_ok == len(data) + 1
        assert running.server.stats.sync_full == 1


async def test_a_replica_without_psync2_gets_no_id() -> None:
    async with primary() as running:
        fake = await replica(running)
        peer = await running.connect()
        assert await call(peer, "PSYNC", fake.replid, fake.start + 1) == b"+CONTINUE\r\n"


@pytest.mark.parametrize("delta", [-1, 2])
async def test_a_place_that_is_not_in_the_backlog_needs_a_snapshot(delta: int) -> None:
    async with primary() as running:
        first = await replica(running, "psync2")
        fake = FakeReplica(await running.connect())
        fake.peer.send("PSYNC", first.replid, first.start + delta)
        await fake.read_snapshot()
        assert running.server.stats.sync_partial_err == 1
        assert running.server.stats.sync_full == 2


async def test_the_first_replica_begins_a_history() -> None:
    async with primary() as running:
        before = running.server.primary.history.replid
        fake = FakeReplica(await running.connect())
        fake.peer.send("PSYNC", before, 1)
        await fake.read_snapshot()
        assert fake.replid == running.server.primary.history.replid != before


REFUSED = [
    ("REPLCONF capa", "-ERR syntax error"),
    ("REPLCONF foo 1", "-ERR Unrecognized REPLCONF option: foo"),
    ("REPLCONF listening-port abc", "-ERR value is not an integer or out of range"),
    ("REPLCONF rdb-only 2", "-ERR value is out of range, value must between 0 and 1"),
    ("REPLCONF rdb-channel 7", "-ERR value is out of range, value must between 0 and 1"),
    (
        f"REPLCONF ip-address {'x' * 300}",
        "-ERR REPLCONF ip-address provided by replica instance is too long: 300 bytes",
    ),
    ("REPLCONF main-ch-client-id 99", "-ERR Unrecognized RDB client id: 99"),
    ("REPLCONF rdb-filter-only keys", "-ERR Unsupported rdb-filter-only option: keys"),
    ("REPLCONF compression 3", "-ERR Master has not enabled replication compression"),
    ("PSYNC ? abc", "-ERR value is not an integer or out of range"),
    ("PSYNC ? 1 FAILOVER", "-ERR PSYNC FAILOVER can't be sent to a master."),
]


@pytest.mark.parametrize(("line", "error"), REFUSED, ids=[line[:40] for line, _ in REFUSED])
async def test_a_wrong_option_is_refused_and_the_client_stays_one(line: str, error: str) -> None:
    async with primary() as running:
        peer = await running.connect()
        assert await call(peer, *line.split()) == error.encode() + b"\r\n"
        assert await call(peer, "PING") == b"+PONG\r\n"
        assert not running.server.primary.links


async def test_a_bare_replconf_and_confirmations_of_others_change_nothing() -> None:
    async with primary() as running:
        peer = await running.connect()
        peer.send("REPLCONF", "ACK", "7")
        peer.send("REPLCONF", "GETACK", "*")
        assert await call(peer, "REPLCONF") == b"+OK\r\n"


async def test_a_filter_needs_the_form_without_size() -> None:
    async with primary() as running:
        peer = await running.connect()
        await call(peer, "REPLCONF", "rdb-filter-only", "")
        assert await call(peer, "PSYNC", "?", -1) == b"-ERR Filtered replica requires EOF capability\r\n"
        await call(peer, "SET", "k", "v")
        await call(peer, "REPLCONF", "capa", "eof")
        peer.send("PSYNC", "?", "-1")
        fake = FakeReplica(peer)
        await fake.read_snapshot()
        assert b"\x00\x01k\x01v" not in fake.snapshot


async def test_a_replica_that_wants_only_the_snapshot_is_closed_after_it() -> None:
    async with primary() as running:
        peer = await running.connect()
        await call(peer, "REPLCONF", "rdb-only", 1)
        fake = FakeReplica(peer)
        peer.send("PSYNC", "?", "-1")
        await fake.read_snapshot()
        await peer.expect_end()


async def test_psync_after_unread_replies_is_refused() -> None:
    async with primary() as running:
        peer = await running.connect()
        peer.send("PING")
        peer.send("PSYNC", "?", "-1")
        assert await peer.line() == b"+PONG\r\n"
        assert await peer.line() == b"-ERR SYNC and PSYNC are invalid with pending output\r\n"


@pytest.mark.parametrize(
    ("words", "name", "error"),
    [
        ("PING", "ping", ""),
        ("SLOWLOG GET", "slowlog|get", ""),
        ("SLOWLOG LEN", "slowlog|len", ""),
        ("REPLCONF capa eof", "replconf", ""),
        ("GET k", "get", "Replica can't interact with the keyspace"),
        ("GET", "get", "wrong number of arguments for 'get' command"),
        ("SELECT 99", "select", "DB index is out of range"),
        ("AUTH a b", "auth", "-WRONGPASS invalid username-password pair or user is disabled."),
        ("NONE x", "<unknown>", "unknown command 'NONE', with args beginning with: 'x' "),
    ],
)
async def test_a_replica_that_sends_what_has_a_reply_is_closed(
    words: str, name: str, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with primary() as running:
        fake = await replica(running, "psync2")
        fake.peer.send(*words.split())
        await fake.peer.expect_end()
        await until(lambda: not running.server.primary.links)
    assert f"Replica generated a reply to command '{name}', disconnecting it: id=" in caplog.text
    said = f"This master is sending an error to its replica: '{error}' after processing the command '{name}'"
    assert (f"== CRITICAL == {said}" in caplog.text) == bool(error)


async def test_client_list_and_kill_know_replicas() -> None:
    async with primary() as running:
        client = await running.connect()
        fake = await replica(running, "psync2")
        client.send("CLIENT", "LIST", "TYPE", "replica")
        assert b"flags=S " in await client.line() + await client.line() + await client.line()
        assert await call(client, "CLIENT", "KILL", "TYPE", "slave") == b":1\r\n"
        await fake.peer.expect_end()


# -- confirmations -------------------------------------------------------------------------------


async def test_a_start_has_too_few_replicas() -> None:
    async with primary(min_replicas_to_write=1) as running:
        client = await running.connect()
        assert (await call(client, "SET", "k", "v")).startswith(b"-NOREPLICAS")
        await replica(running, "psync2")
        assert await call(client, "SET", "k", "v") == b"+OK\r\n"


async def test_a_write_before_the_first_replica_is_not_confirmed_by_its_coming(tmp_path: Path) -> None:
    """A replica has it when it has confirmed the snapshot."""
    async with primary(dir=str(tmp_path).encode(), appendonly=True) as running:
        client = await running.connect()
        assert await call(client, "SET", "k", "v") == b"+OK\r\n"
        fake = await FakeReplica(await running.connect()).synchronize("psync2")
        await until(lambda: bool(running.server.primary.online))
        assert await call(client, "WAIT", 1, 1) == b":0\r\n"
        fake.confirm(fake.start)
        assert await call(client, "WAIT", 1, 10_000) == b":1\r\n"


async def test_wait_ends_when_enough_replicas_have_confirmed_the_write() -> None:
    async with primary() as running:
        client = await running.connect()
        fakes = [await replica(running, "psync2") for _ in range(2)]
        assert await call(client, "SET", "k", "v") == b"+OK\r\n"
        offset = running.server.primary.offset
        client.send("WAIT", 2, 0)
        for fake in fakes:
            await fake.stream(SELECT + encode(["SET", "k", "v"]) + GETACK)
        fakes[0].confirm(offset)
        fakes[1].confirm(offset - 1)
        await until(lambda: running.server.primary.confirmed_count(offset) == 1)
        assert running.server.blocked_count == 1
        fakes[1].confirm(offset)
        assert await client.line() == b":2\r\n"
        assert await call(client, "WAIT", 1, 0) == b":2\r\n"


async def test_wait_after_a_duplicate_waits_for_the_addition_of_another_connection() -> None:
    """A producer whose connection was lost sends its entry again, and must know whether a replica has it."""
    async with primary() as running:
        first, again = await running.connect(), await running.connect()
        fake = await replica(running, "psync2")
        words = ["XADD", "s", "IDMP", "p", "1", "*", "f", "v"]
        await call(first, *words)
        entry_id = await first.line()
        offset = running.server.primary.offset
        await call(again, *words)
        assert await again.line() == entry_id
        again.send("WAIT", 1, 0)
        await until(lambda: running.server.blocked_count == 1)
        fake.confirm(offset)
        assert await again.line() == b":1\r\n"


async def test_waitaof_counts_what_replicas_have_on_stable_storage() -> None:
    async with primary() as running:
        client = await running.connect()
        fake = await replica(running, "psync2")
        await call(client, "SET", "k", "v")
        client.send("WAITAOF", 0, 1, 0)
        await fake.stream(SELECT + encode(["SET", "k", "v"]) + GETACK)
        offset = running.server.primary.offset
        fake.confirm(offset)
        fake.confirm(offset, "FACK", offset - 40)
        await until(lambda: running.server.primary.confirmed_count(offset - 37) == 1)
        assert running.server.blocked_count == 1
        fake.confirm(offset, "FACK", offset - 37)
        assert await client.line() + await client.line() + await client.line() == b"*2\r\n:0\r\n:1\r\n"


async def test_writes_are_refused_while_too_few_replicas_keep_up() -> None:
    clock = Clock()
    async with primary(clock) as running:
        client = await running.connect()
        fake = await replica(running, "psync2")
        assert await call(client, "CONFIG", "SET", "min-replicas-to-write", 1, "min-replicas-max-lag", 2) == b"+OK\r\n"
        assert await call(client, "SET", "k", "v") == b"+OK\r\n"
        clock.advance(2_001)
        running.server.primary.cron(clock(), is_new_second=True)
        refusal = b"-NOREPLICAS Not enough good replicas to write.\r\n"
        for words in (["SET", "k", "v"], ["XADD", "s", "*", "f", "v"], ["FLUSHALL"]):
            assert await call(client, *words) == refusal
        assert await call(client, "GET", "k") == b"$1\r\n"
        assert await client.line() == b"v\r\n"
        assert await call(client, "PUBLISH", "c", "m") == b":0\r\n"
        script_error = await call(client, "EVAL", "return redis.call('set','k','w')", 0)
        assert script_error.startswith(refusal.rstrip())
        fake.confirm(running.server.primary.offset)
        await until(lambda: running.server.primary.links[0].replica.confirmed_ms == clock())
        running.server.primary.cron(clock(), is_new_second=True)
        assert await call(client, "SET", "k", "v") == b"+OK\r\n"
        assert running.server.primary.good_count == 1


# -- time and limits -----------------------------------------------------------------------------


async def test_a_waiting_replica_sees_a_sign_of_life_each_second() -> None:
    clock = Clock()
    async with primary(clock, repl_diskless_sync_delay=5) as running:
        fake = FakeReplica(await running.connect())
        await call(fake.peer, "REPLCONF", "capa", "eof")
        fake.peer.send("PSYNC", "?", "-1")
        await until(lambda: bool(running.server.primary.links))
        for _ in range(5):
            running.server.primary.cron(clock(), is_new_second=True)
            assert await fake.peer.line() == b"\n"
            clock.advance(1000)
        running.server.primary.cron(clock(), is_new_second=True)
        await fake.read_snapshot()


async def test_a_replica_that_confirms_nothing_for_the_timeout_is_closed() -> None:
    clock = Clock()
    async with primary(clock, repl_timeout=3) as running:
        fake = await replica(running, "psync2")
        clock.advance(3000)
        running.server.primary.cron(clock(), is_new_second=True)
        fake.confirm(fake.start)
        await until(lambda: running.server.primary.links[0].replica.confirmed_ms == clock())
        clock.advance(3001)
        running.server.primary.cron(clock(), is_new_second=True)
        await until(lambda: not running.server.primary.links)


async def test_a_silent_stream_has_a_ping_after_the_period() -> None:
    clock = Clock()
    async with primary(clock, repl_ping_replica_period=10) as running:
        client = await running.connect()
        fake = await replica(running, "psync2")
        await call(client, "SET", "k", "v")
        clock.advance(9_999)
        running.server.primary.cron(clock(), is_new_second=True)
        await call(client, "SET", "k", "w")
        clock.advance(10_000)
        running.server.primary.cron(clock(), is_new_second=True)
        running.server.turns.finish()
        await fake.stream(SELECT + encode(["SET", "k", "v"]) + encode(["SET", "k", "w"]) + PING)


async def test_the_stream_ends_some_time_after_the_last_replica_has_left() -> None:
    clock = Clock()
    async with primary(clock, repl_backlog_ttl=10) as running:
        fake = await replica(running, "psync2")
        replid = fake.replid
        fake.peer.writer.close()
        await until(lambda: not running.server.primary.links)
        clock.advance(10_000)
        running.server.primary.cron(clock(), is_new_second=True)
        assert running.server.primary.backlog is not None
        clock.advance(1)
        running.server.primary.cron(clock(), is_new_second=True)
        assert running.server.primary.backlog is None
        assert not running.server.context.logging
        assert running.server.primary.history.replid != replid


async def test_a_slow_replica_gets_everything_and_is_closed_above_the_limit() -> None:
    async with primary() as running:
        client = await running.connect()
        fake = await replica(running, "psync2")
        value = b"v" * 100_000
        total = len(SELECT)
        for number in range(100):
            await call(client, "SET", number, value)
            total += len(encode(["SET", number, value]))
        link = running.server.primary.links[0]
        assert link.peer.unsent_size() < UNSENT_SIZE_MAX + 2 * len(value)
        data = await fake.peer.reader.readexactly(total)
        assert [record[1] for record in parse_records(data)[1:]] == [b"%d" % number for number in range(100)]
        await call(client, "CONFIG", "SET", "client-output-buffer-limit", "replica 2mb 0 0")
        for number in range(200):
            await call(client, "SET", number, value)
        running.server.primary.cron(running.server.clock(), is_new_second=False)
        await until(lambda: not running.server.primary.links)
        assert running.server.stats.output_buffer_limit_disconnections == 1


# -- snapshots and links that break ---------------------------------------------------------------


@FORMS
async def test_no_other_snapshot_begins_while_one_is_made_for_replicas(
    capabilities: tuple[str, ...], tmp_path: Path
) -> None:
    async with primary(dir=str(tmp_path).encode(), save=b"") as running:
        client = await running.connect()
        await call(client, "DEBUG", "POPULATE", 1_000)
        await call(client, "CONFIG", "SET", "rdb-key-save-delay", 1_000_000)
        fake = FakeReplica(await running.connect())
        await call(fake.peer, "REPLCONF", *[word for each in capabilities for word in ("capa", each)])
        fake.peer.send("PSYNC", "?", "-1")
        await until(lambda: running.server.snapshots.runner.job is not None)
        for command in ("BGSAVE", "SAVE"):
            assert await call(client, command) == b"-ERR Background save already in progress\r\n"
        await call(client, "CONFIG", "SET", "rdb-key-save-delay", 0)
        await fake.read_snapshot()


@FORMS
async def test_a_snapshot_without_a_replica_is_abandoned(capabilities: tuple[str, ...], tmp_path: Path) -> None:
    async with primary(dir=str(tmp_path).encode(), save=b"", enable_debug_command=b"yes") as running:
        client = await running.connect()
        await call(client, "DEBUG", "POPULATE", 1_000)
        await call(client, "CONFIG", "SET", "rdb-key-save-delay", 1_000_000)
        fake = FakeReplica(await running.connect())
        await call(fake.peer, "REPLCONF", *[word for each in capabilities for word in ("capa", each)])
        fake.peer.send("PSYNC", "?", "-1")
        await until(lambda: running.server.snapshots.runner.job is not None)
        fake.peer.writer.transport.abort()
        await until(lambda: running.server.snapshots.runner.job is None)
        assert not running.server.primary.links
        assert running.server.context.image is None
        assert not list(tmp_path.iterdir())


@FORMS
async def test_replicas_of_a_dropped_snapshot_are_closed_and_can_ask_again(
    capabilities: tuple[str, ...], tmp_path: Path
) -> None:
    async with primary(dir=str(tmp_path).encode(), save=b"", enable_debug_command=b"yes") as running:
        client = await running.connect()
        await call(client, "DEBUG", "POPULATE", 1_000)
        await call(client, "CONFIG", "SET", "rdb-key-save-delay", 1_000_000)
        fake = FakeReplica(await running.connect())
        await call(fake.peer, "REPLCONF", *[word for each in capabilities for word in ("capa", each)])
        fake.peer.send("PSYNC", "?", "-1")
        await until(lambda: running.server.snapshots.runner.job is not None)
        running.server.snapshots.drop_transfer()
        await fake.peer.reader.read()
        await until(lambda: not running.server.primary.links)
        assert not list(tmp_path.iterdir())
        await call(client, "FLUSHALL")
        await replica(running, *capabilities)


async def test_replicas_that_wait_share_a_snapshot() -> None:
    clock = Clock()
    async with primary(clock, repl_diskless_sync_delay=5) as running:
        fakes = [FakeReplica(await running.connect()) for _ in range(3)]
        for fake in fakes:
            await call(fake.peer, "REPLCONF", "capa", "eof")
            fake.peer.send("PSYNC", "?", "-1")
        await until(lambda: len(running.server.primary.links) == 3)
        clock.advance(5000)
        running.server.primary.cron(clock(), is_new_second=False)
        for fake in fakes:
            await fake.read_snapshot()
        assert running.server.stats.forks == 1
        assert all(link.replica.state is ReplicaState.ONLINE for link in running.server.primary.links)


async def test_a_snapshot_begins_at_once_when_enough_replicas_wait() -> None:
    clock = Clock()
    async with primary(clock, repl_diskless_sync_delay=5, repl_diskless_sync_max_replicas=2) as running:
        fakes = [FakeReplica(await running.connect()) for _ in range(2)]
        for fake in fakes:
            await call(fake.peer, "REPLCONF", "capa", "eof")
            assert running.server.snapshots.runner.job is None
            fake.peer.send("PSYNC", "?", "-1")
        for fake in fakes:
            await fake.read_snapshot()


async def test_a_snapshot_goes_through_a_file_if_the_directive_says_so(tmp_path: Path) -> None:
    async with primary(dir=str(tmp_path).encode(), save=b"", repl_diskless_sync=False) as running:
        fake = await replica(running, "eof", "psync2")
        assert not fake.is_direct


async def test_the_backlog_keeps_the_size_that_was_set() -> None:
    async with primary(repl_backlog_size=16 * 1024) as running:
        client = await running.connect()
        fake = await replica(running, "psync2")
        for number in range(100):
            await call(client, "SET", number, "v" * 1000)
        await fake.peer.reader.readexactly(running.server.primary.offset - fake.start)
        backlog = running.server.primary.backlog
        assert backlog is not None
        await call(client, "SET", "last", "v")
        assert len(backlog) < 3 * 16 * 1024
        await call(client, "CONFIG", "SET", "repl-backlog-size", "64kb")
        for number in range(100):
            await call(client, "SET", number, "v" * 1000)
        assert 64 * 1024 <= len(backlog) < 5 * 16 * 1024 + 1100


async def test_a_handshake_that_is_cut_at_any_byte_leaves_nothing() -> None:
    requests = encode(["REPLCONF", "capa", "eof", "capa", "psync2"]) + encode(["PSYNC", "?", "-1"])
    async with primary() as running:
        for place in range(len(requests) + 1):
            peer = await running.connect()
            peer.writer.write(requests[:place])
            await peer.writer.drain()
            peer.writer.transport.abort()
        await until(lambda: not running.server.clients)
        assert not running.server.primary.links
        await until(lambda: running.server.snapshots.runner.job is None)
        await replica(running, "psync2")


async def test_after_a_restart_replicas_that_have_the_dump_continue(tmp_path: Path) -> None:
    folder = str(tmp_path).encode()
    async with primary(dir=folder) as running:
        client = await running.connect()
        fake = await replica(running, "psync2")
        await call(client, "SET", "k", "v")
        assert await call(client, "SAVE") == b"+OK\r\n"
        former_id, offset = fake.replid, running.server.primary.offset
    async with primary(dir=folder) as running:
        history = running.server.primary.history
        assert (history.former_id, history.former_end, history.offset) == (former_id, offset + 1, offset)
        peer = await running.connect()
        await call(peer, "REPLCONF", "capa", "psync2")
        assert await call(peer, "PSYNC", former_id, offset + 1) == b"+CONTINUE %b\r\n" % history.replid.encode()
        other = FakeReplica(await running.connect())
        other.peer.send("PSYNC", former_id, offset + 2)
        await other.read_snapshot()


async def test_keys_that_a_restart_leaves_out_are_deleted_on_replicas_that_continue(tmp_path: Path) -> None:
    clock, folder = Clock(), str(tmp_path).encode()
    async with primary(clock, dir=folder) as running:
        client = await running.connect()
        fake = await replica(running, "psync2")
        for key in ("a", "b"):
            await call(client, "SET", key, "v", "PX", 1000)
        await call(client, "XADD", "s", "1-1", "f", "v")
        await call(client, "PEXPIRE", "s", 1000)
        await call(client, "SAVE")
        former_id, offset = fake.replid, running.server.primary.offset
    clock.advance(2000)
    async with primary(clock, dir=folder) as running:
        peer = await running.connect()
        peer.send("PSYNC", former_id, offset + 1)
        assert await peer.line() == b"+CONTINUE\r\n"
        size = running.server.primary.offset - offset
        records = parse_records(await peer.reader.readexactly(size))
        assert records[0] == [b"SELECT", b"0"]
        assert sorted(records[1:]) == [[b"DEL", b"a"], [b"DEL", b"b"], [b"DEL", b"s"]]
