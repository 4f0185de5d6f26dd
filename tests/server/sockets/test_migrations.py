"""MIGRATE: keys move to another server, other clients are served meanwhile, and no write is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.commands.core.lookup import named_row
from headrace.commands.core.secrets import redact
from support.inprocess import Clock, Peer, Rig, Running, running_server
from support.lines import split
from support.logging_server import LOADING

OK = b"+OK\r\n"
REPLY_TIMEOUT_S = 10


class Target:
    """A server whose answers a test writes."""

    def __init__(self) -> None:
        self.connected: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        self.port = 0

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.connected.put((reader, writer))

    async def accept(self, end: bytes) -> asyncio.StreamWriter:
        """The writer of the next connection, which has sent everything up to `end`."""
        reader, writer = await asyncio.wait_for(self.connected.get(), REPLY_TIMEOUT_S)
        await asyncio.wait_for(reader.readuntil(end), REPLY_TIMEOUT_S)
        return writer


@asynccontextmanager
async def scripted_server() -> AsyncIterator[Target]:
    target = Target()
    server = await asyncio.start_server(target.take, "127.0.0.1", 0)
    target.port = server.sockets[0].getsockname()[1]
    try:
        yield target
    finally:
        server.close()


async def ask(peer: Peer, line: str, reply: bytes) -> None:
    peer.send(*split(line))
    await peer.expect(reply)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


async def _two_clients_and_a_target(deed: str, answer: bytes, reply: bytes, there: int, options: str = "") -> None:
    async with running_server() as running, scripted_server() as target:
        mover, other = await running.connect(), await running.connect()
        await ask(other, "SET k value", OK)
        mover.send(*split(f"MIGRATE 127.0.0.1 {target.port} k 0 5000 REPLACE {options}"))
        writer = await target.accept(b"REPLACE\r\n")
        if deed:
            await ask(other, deed, OK)
        writer.write(answer)
        await mover.expect(reply)
        await ask(other, "EXISTS k", b":%d\r\n" % there)
        writer.close()


CHANGED = b"-ERR The key 'k' has changed since it was sent: the target instance has its earlier value\r\n"


@pytest.mark.parametrize(
    ("deed", "answer", "reply", "there"),
    [
        ("", OK + OK, OK, 0),
        ("SET k changed", OK + OK, CHANGED, 1),
        ("PSETEX k 100000 value", OK + OK, CHANGED, 1),
        ("SET k value", OK + OK, CHANGED, 1),
        ("FLUSHALL", OK + OK, CHANGED, 0),
        ("", OK + b"-BUSY no\r\n", b"-ERR Target instance replied with error: BUSY no\r\n", 1),
        ("", OK + LOADING, b"-ERR Target instance replied with error: " + LOADING[1:], 1),
        ("", b"-ERR no database\r\n+OK\r\n", b"-ERR Target instance replied with error: ERR no database\r\n", 1),
    ],
)
def test_a_key_is_deleted_when_the_other_server_has_it_unless_it_has_changed(
    deed: str, answer: bytes, reply: bytes, there: int
) -> None:
    run(_two_clients_and_a_target(deed, answer, reply, there))


def test_with_copy_the_key_stays_whatever_happens_to_it() -> None:
    run(_two_clients_and_a_target("SET k changed", OK + OK, OK, 1, options="COPY"))


def test_a_delivery_to_a_group_is_a_change() -> None:
    async def test() -> None:
        async with running_server() as running, scripted_server() as target:
            mover, other = await running.connect(), await running.connect()
            await ask(other, "XADD k 1-1 f v", b"$3\r\n1-1\r\n")
            await ask(other, "XGROUP CREATE k g 0", OK)
            mover.send(*split(f"MIGRATE 127.0.0.1 {target.port} k 0 5000 REPLACE"))
            writer = await target.accept(b"REPLACE\r\n")
            await ask(other, "XREADGROUP GROUP g c STREAMS k >", _DELIVERY)
            writer.write(OK + OK)
            await mover.expect(CHANGED)
            await ask(other, "XLEN k", b":1\r\n")
            writer.close()

    run(test())


_DELIVERY = b"*1\r\n*2\r\n$1\r\nk\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n"


def test_a_silent_server_ends_the_wait() -> None:
    async def test() -> None:
        async with running_server() as running, scripted_server() as target:
            mover = await running.connect()
            await ask(mover, "SET k value", OK)
            await ask(
                mover,
                f"MIGRATE 127.0.0.1 {target.port} k 0 20",
                b"-IOERR error or timeout reading to target instance\r\n",
            )
            await ask(mover, "EXISTS k", b":1\r\n")

    run(test())


def test_keys_that_were_answered_before_the_connection_ends_are_deleted() -> None:
    async def test() -> None:
        async with running_server() as running, scripted_server() as target:
            mover = await running.connect()
            await ask(mover, "MSET a 1 b 2", OK)
            mover.send(*split(f"MIGRATE 127.0.0.1 {target.port} '' 0 5000 REPLACE KEYS a b none"))
            writer = await target.accept(b"REPLACE\r\n")
            writer.write(OK + OK)
            writer.write_eof()
            await mover.expect(b"-IOERR error or timeout reading to target instance\r\n")
            await ask(mover, "EXISTS a", b":0\r\n")
            await ask(mover, "EXISTS b", b":1\r\n")
            writer.close()

    run(test())


_NOT_READ = b"-IOERR error or timeout reading to target instance\r\n"


@pytest.mark.parametrize("size", range(len(OK + OK)))
def test_a_key_stays_if_the_connection_ends_after_any_byte_of_the_answer(size: int) -> None:
    async def test() -> None:
        async with transfer_of_k() as (_, mover, other, writer):
            writer.write((OK + OK)[:size])
            writer.write_eof()
            await mover.expect(_NOT_READ)
            await ask(other, "GET k", b"$5\r\nvalue\r\n")

    run(test())


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\r\nWhat?\r\n",
        b"220 mail.example ESMTP\r\n500 What?\r\n",
        b"\r\n\r\n",
        OK + b"$2\r\nOK\r\n",
        OK + b":1\r\n",
        OK + b"_\r\n",
        OK + b"+" + b"x" * 100_000 + b"\r\n",
    ],
)
def test_a_key_stays_if_what_answers_is_no_server_that_has_it(answer: bytes) -> None:
    async def test() -> None:
        async with transfer_of_k() as (_, mover, other, writer):
            writer.write(answer)
            writer.write_eof()
            await mover.expect(_NOT_READ)
            await ask(other, "GET k", b"$5\r\nvalue\r\n")

    run(test())


@pytest.mark.parametrize(
    ("deeds", "found_in"),
    [
        (("SWAPDB 0 1",), 1),
        (("COPY k k DB 1", "SWAPDB 0 1"), 0),
        (("MOVE k 1",), 1),
        (("RENAME k l", "RENAME l k"), 0),
        (("COPY k l", "DEL k", "RENAME l k"), 0),
        (("DEL k", "SET k value"), 0),
        (("PEXPIRE k 100000", "PERSIST k"), 0),
        (("APPEND k x", "SETRANGE k 0 value", "GETRANGE k 0 4"), 0),
        (("DEBUG RELOAD", "SET k value"), 0),
        (("MULTI", "DEL k", "SET k value", "EXEC"), 0),
        (("EVAL \"redis.call('DEL','k') redis.call('SET','k','value')\" 1 k",), 0),
        (("SET k value GET",), 0),
    ],
)
def test_a_key_that_was_somewhere_else_meanwhile_stays(deeds: tuple[str, ...], found_in: int, tmp_path: Path) -> None:
    async def test() -> None:
        directives = {"dir": str(tmp_path).encode(), "enable_debug_command": b"yes"}
        async with transfer_of_k(**directives) as (_, mover, other, writer):
            for deed in deeds:
                other.send(*split(deed))
            other.send("ECHO", "deeds are done")
            await asyncio.wait_for(other.reader.readuntil(b"deeds are done\r\n"), REPLY_TIMEOUT_S)
            writer.write(OK + OK)
            await mover.expect(CHANGED)
            await ask(other, f"SELECT {found_in}", OK)
            await ask(other, "GETRANGE k 0 4", b"$5\r\nvalue\r\n")

    run(test())


def test_a_port_without_a_server_is_an_error() -> None:
    async def test() -> None:
        async with scripted_server() as target:
            port = target.port
        async with running_server() as running:
            mover = await running.connect()
            await ask(mover, "SET k value", OK)
            await ask(
                mover, f"MIGRATE 127.0.0.1 {port} k 0 5000", b"-IOERR error or timeout writing to target instance\r\n"
            )

    run(test())


def test_the_deletion_waits_for_the_end_of_a_pause() -> None:
    async def test() -> None:
        async with running_server() as running, scripted_server() as target:
            mover, other = await running.connect(), await running.connect()
            await ask(other, "SET k value", OK)
            mover.send(*split(f"MIGRATE 127.0.0.1 {target.port} k 0 5000"))
            writer = await target.accept(b"RESTORE\r\n")
            await ask(other, "CLIENT PAUSE 100000 WRITE", OK)
            writer.write(OK + OK)
            await ask(other, "EXISTS k", b":1\r\n")
            await ask(other, "CLIENT UNPAUSE", OK)
            await mover.expect(OK)
            await ask(other, "EXISTS k", b":0\r\n")
            writer.close()

    run(test())


def test_a_server_can_move_keys_to_another_database_of_its_own() -> None:
    async def test() -> None:
        async with running_server() as running:
            mover = await running.connect()
            await ask(mover, "SET k value", OK)
            await ask(mover, f"MIGRATE 127.0.0.1 {running.port} k 1 5000", OK)
            await ask(mover, "EXISTS k", b":0\r\n")
            await ask(mover, "SELECT 1", OK)
            await ask(mover, "GET k", b"$5\r\nvalue\r\n")

    run(test())


def test_a_key_that_is_sent_to_its_own_place_stays_there() -> None:
    async def test() -> None:
        async with running_server() as running:
            mover = await running.connect()
            await ask(mover, "SET k value", OK)
            await ask(mover, f"MIGRATE 127.0.0.1 {running.port} k 0 5000 REPLACE", CHANGED)
            await ask(mover, "GET k", b"$5\r\nvalue\r\n")

    run(test())


def test_a_key_that_the_other_server_sends_back_meanwhile_stays() -> None:
    async def test() -> None:
        async with running_server() as running, transfer_of_k() as (here, mover, other, writer):
            await ask(other, f"MIGRATE 127.0.0.1 {running.port} k 0 5000 COPY", OK)
            back = await running.connect()
            await ask(back, f"MIGRATE 127.0.0.1 {here.port} k 0 5000 REPLACE", OK)
            await ask(back, "EXISTS k", b":0\r\n")
            writer.write(OK + OK)
            await mover.expect(CHANGED)
            await ask(other, "GET k", b"$5\r\nvalue\r\n")

    run(test())


def test_nothing_watches_a_key_after_its_transfer() -> None:
    async def test() -> None:
        async with transfer_of_k("COPY") as (here, mover, other, writer):
            writer.write(OK + OK)
            await mover.expect(OK)
            await ask(other, "PING", b"+PONG\r\n")
            assert not here.server.store.databases[0].watchers

    run(test())


def test_the_moved_keys_are_one_record_of_the_log() -> None:
    async def test() -> None:
        async with running_server() as running:
            mover = await running.connect()
            await ask(mover, "MSET a 1 b 2", OK)
            before = running.server.changes_count
            await ask(mover, f"MIGRATE 127.0.0.1 {running.port} '' 1 5000 KEYS a none b", OK)
            # Two that were restored, two that were deleted.
            assert running.server.changes_count == before + 4

    run(test())


@asynccontextmanager
async def transfer_of_k(options: str = "", **directives: Any) -> AsyncIterator[tuple[Running, Peer, Peer, Any]]:
    """A server whose client moves `k`, another client of it, and the other server's end, which has the request."""
    async with running_server(**directives) as running, scripted_server() as target:
        mover, other = await running.connect(), await running.connect()
        await ask(other, "SET k value", OK)
        mover.send(*split(f"MIGRATE 127.0.0.1 {target.port} k 0 5000 {options}"))
        writer = await target.accept(b"RESTORE\r\n")
        yield running, mover, other, writer
        writer.close()


def test_a_key_stays_if_its_client_leaves_meanwhile() -> None:
    async def test() -> None:
        async with transfer_of_k() as (running, mover, other, writer):
            mover.writer.close()
            while len(running.server.connections) > 1:
                await ask(other, "PING", b"+PONG\r\n")
            writer.write(OK + OK)
            await writer.drain()
            for _ in range(10):
                await ask(other, "EXISTS k", b":1\r\n")

    run(test())


def test_clients_cannot_end_the_wait_of_another() -> None:
    async def test() -> None:
        async with transfer_of_k() as (_, mover, other, writer):
            await ask(other, "CLIENT UNBLOCK 1", b":0\r\n")
            writer.write(OK + OK)
            await mover.expect(OK)

    run(test())


def test_a_stop_ends_the_transfer_and_keeps_the_key(tmp_path: Path) -> None:
    async def test() -> None:
        directives = {"dir": str(tmp_path).encode(), "appendonly": b"yes"}
        async with transfer_of_k(**directives) as (running, mover, _other, _writer):
            await running.server.stop()
            await mover.expect_end()
        async with running_server(**directives) as running:
            await ask(await running.connect(), "GET k", b"$5\r\nvalue\r\n")

    run(test())


def test_a_server_that_becomes_a_replica_keeps_the_key() -> None:
    async def test() -> None:
        async with transfer_of_k() as (_, mover, other, writer):
            await ask(other, "REPLICAOF 127.0.0.1 1", OK)
            await mover.expect(_CHANGED_ROLE)
            await mover.expect_end()
            writer.write(OK + OK)
            await writer.drain()
            await ask(other, "EXISTS k", b":1\r\n")

    run(test())


_CHANGED_ROLE = b"-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)\r\n"


def test_a_replica_refuses_it() -> None:
    caller = Rig().connect()
    assert b"-READONLY" in caller.call("SET k v", "REPLICAOF 127.0.0.1 1", "MIGRATE h 1 k 0 1000")


def test_requests_after_it_wait_for_its_end() -> None:
    async def test() -> None:
        async with transfer_of_k() as (_, mover, _other, writer):
            mover.send("EXISTS", "k")
            writer.write(OK + OK)
            await mover.expect(OK + b":0\r\n")

    run(test())


def test_a_user_who_has_lost_the_right_meanwhile_deletes_nothing() -> None:
    async def test() -> None:
        async with transfer_of_k() as (_, mover, other, writer):
            await ask(other, "ACL SETUSER default -migrate", OK)
            writer.write(OK + OK)
            await mover.expect(b"-NOPERM User default has no permissions to run the 'migrate' command\r\n")
            await ask(other, "EXISTS k", b":1\r\n")

    run(test())


def test_a_key_that_expires_meanwhile_is_no_error() -> None:
    async def test() -> None:
        clock = Clock()
        async with running_server(clock=clock, monotonic=clock) as running, scripted_server() as target:
            mover, other = await running.connect(), await running.connect()
            await ask(other, "SET k value PX 50", OK)
            mover.send(*split(f"MIGRATE 127.0.0.1 {target.port} k 0 5000 REPLACE"))
            writer = await target.accept(b"REPLACE\r\n")
            clock.advance(51)
            writer.write(OK + OK)
            await mover.expect(OK)
            writer.close()

    run(test())


@pytest.mark.parametrize("host", ["", "x" * 300, "a..b", "\\x00", "\\xff"])
def test_a_host_that_cannot_be_found_is_an_error(host: str) -> None:
    async def test() -> None:
        async with running_server() as running:
            mover = await running.connect()
            await ask(mover, "SET k value", OK)
            mover.send(*split(f'MIGRATE "{host}" 1 k 0 5000'))
            assert (await mover.line()).startswith(b"-IOERR error or timeout ")

    run(test())


def test_a_large_value_arrives_whole() -> None:
    async def test() -> None:
        async with running_server() as running:
            mover = await running.connect()
            await ask(mover, "SETRANGE k 10000000 x", b":10000001\r\n")
            await ask(mover, f"MIGRATE 127.0.0.1 {running.port} k 1 5000", OK)
            await ask(mover, "SELECT 1", OK)
            await ask(mover, "STRLEN k", b":10000001\r\n")

    run(test())


@pytest.mark.parametrize(
    "lines",
    [
        ("MULTI", "MIGRATE h 1 k 0 1000", "EXEC"),
        ("EVAL \"return redis.call('MIGRATE','h','1','k','0','1000')\" 1 k",),
    ],
)
def test_it_is_refused_where_it_cannot_wait(lines: tuple[str, ...]) -> None:
    caller = Rig().connect()
    caller.call("SET k v")
    assert b"-ERR MIGRATE cannot wait in a transaction or a script" in caller.call(*lines)


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        ("MIGRATE h 1 none 0 1000", b"+NOKEY\r\n"),
        ("MIGRATE h 1 none x 1000", b"-ERR value is not an integer or out of range\r\n"),
        ("MIGRATE h 1 k 0 1000 AUTH", b"-ERR syntax error\r\n"),
        ("MIGRATE h 1 k 0 1000 WHAT", b"-ERR syntax error\r\n"),
        ("MIGRATE h 1 '' 0 1000 KEYS none", b"+NOKEY\r\n"),
        (
            "MIGRATE h 1 k 0 1000 KEYS k",
            b"-ERR When using MIGRATE KEYS option, the key argument must be set to the empty string\r\n",
        ),
        ("COMMAND GETKEYS MIGRATE h 1 k 0 1000 AUTH keys", b"*1\r\n$1\r\nk\r\n"),
        ("COMMAND GETKEYS MIGRATE h 1 '' 0 1000 AUTH2 keys keys KEYS a b", b"*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
        ("COMMAND GETKEYS MIGRATE h 1 k 0 1000 KEYS a", b"-ERR Invalid arguments specified for command\r\n"),
    ],
)
def test_replies_without_a_transfer(request_: str, reply: bytes) -> None:
    caller = Rig().connect()
    caller.call("SET k v")
    assert caller.call(request_) == reply


def test_passwords_are_shown_nowhere() -> None:
    request = split("MIGRATE h 1 '' 0 1000 AUTH one COPY AUTH2 user two KEYS AUTH k")
    row = named_row(request)
    assert row is not None
    shown = b" ".join(redact(row, request))
    assert shown == b"MIGRATE h 1  0 1000 AUTH (redacted) COPY AUTH2 (redacted) (redacted) KEYS AUTH k"
