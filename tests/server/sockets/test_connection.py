"""Real sockets on a server in the same loop: order of replies, back-pressure, closing, and waits in real time."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis.asyncio

from headrace.persistence.files import LogFile
from headrace.server.lifecycle import new_event_loop
from headrace.server.requests.serving import SERVED_AT_ONCE
from headrace.server.requests.turns import SLICE_COUNT
from headrace.server.sockets import connection as connection_module
from headrace.server.sockets.connection import READ_AHEAD_SIZE, Connection, format_address
from headrace.server.sockets.listener import PROTECTED_MODE, TOO_MANY_CLIENTS, is_loopback
from support.inprocess import Clock, Peer, Running, running_server
from support.wire import encode

RANGE_REPLY_SIZE_MIN = 100_000


async def until(condition: object, running: Running) -> None:
    """Run turns of the loop until the condition holds."""
    async with asyncio.timeout(10):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0)


async def test_pipeline_in_pieces_is_answered_in_order() -> None:
    async with running_server() as running:
        peer = await running.connect()
        data = b"".join(encode(("ECHO", number)) for number in range(100))
        for start in range(0, len(data), 7):
            peer.writer.write(data[start : start + 7])
            await asyncio.sleep(0)
        await peer.expect(b"".join(b"$%d\r\n%d\r\n" % (len(str(number)), number) for number in range(100)))


async def test_client_library_talks_both_protocols() -> None:
    async with running_server() as running:
        for protocol in (2, 3):
            client = redis.asyncio.Redis(port=running.port, protocol=protocol)
            entry_id = await client.xadd(f"s{protocol}", {"f": "v"})
            assert await client.xrange(f"s{protocol}") == [(entry_id, {b"f": b"v"})]
            assert await client.client_getname() is None
            await client.aclose()


async def test_requests_after_quit_are_dropped_and_the_connection_ends() -> None:
    async with running_server() as running:
        peer = await running.connect()
        peer.writer.write(encode(("PING",)) + encode(("QUIT",)) + encode(("PING",)))
        await peer.expect(b"+PONG\r\n+OK\r\n")
        await peer.expect_end()
        await until(lambda: not running.server.clients, running)


async def test_broken_frame_is_reported_after_the_replies_before_it() -> None:
    async with running_server() as running:
        peer = await running.connect()
        peer.writer.write(encode(("PING",)) + b"*1\r\n:1\r\n")
        await peer.expect(b"+PONG\r\n-ERR Protocol error: expected '$', got ':'\r\n")
        await peer.expect_end()


async def test_broken_frame_after_a_blocked_read_waits_for_its_reply() -> None:
    async with running_server() as running:
        peer, writer = await running.connect(), await running.connect()
        peer.writer.write(encode(("XREAD", "BLOCK", 0, "STREAMS", "s", "$")) + b"*x\r\n")
        await until(lambda: len(running.server.dispatcher.waiters), running)
        writer.send("XADD", "s", "1-1", "f", "v")
        await writer.expect(b"$3\r\n1-1\r\n")
        assert await peer.line() == b"*1\r\n"
        rest = await peer.reader.read()
        assert rest.endswith(b"-ERR Protocol error: invalid multibulk length\r\n")


async def test_cross_protocol_requests_are_dropped_silently_and_warned_of_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    async with running_server(clock=clock) as running:
        for _ in range(3):
            peer = await running.connect()
            peer.writer.write(b"POST / HTTP/1.1\r\n")
            await peer.expect_end()
        assert running.server.stats.query_buffer_limit_disconnections == 0
        assert caplog.text.count("Possible SECURITY ATTACK detected.") == 1
        for ms, count in ((60_000, 1), (1, 2), (-3_600_000, 3)):
            clock.advance(ms)
            peer = await running.connect()
            peer.writer.write(b"Host: localhost\r\n")
            await peer.expect_end()
            assert caplog.text.count("Connection from 127.0.0.1:") == count


async def test_cross_protocol_request_after_a_blocked_read_waits_for_it_and_for_requests_between() -> None:
    async with running_server() as running:
        peer, other = await running.connect(), await running.connect()
        peer.writer.write(encode(("XREAD", "BLOCK", 0, "STREAMS", "s", "$")) + b"SET k v\r\nPOST / HTTP/1.1\r\n")
        await until(lambda: len(running.server.dispatcher.waiters), running)
        other.send("EXISTS", "k")
        await other.expect(b":0\r\n")
        other.send("XADD", "s", "1-1", "f", "v")
        await other.expect(b"$3\r\n1-1\r\n")
        await peer.reader.read()
        other.send("EXISTS", "k")
        await other.expect(b":1\r\n")


async def test_half_closed_peer_still_gets_its_replies() -> None:
    async with running_server() as running:
        peer = await running.connect()
        peer.writer.write(b"PING\r\nPING\r\n")
        peer.writer.write_eof()
        await peer.expect(b"+PONG\r\n+PONG\r\n")
        await peer.expect_end()


async def test_end_of_a_blocked_connection_ends_its_wait() -> None:
    async with running_server() as running:
        peer = await running.connect()
        peer.send("XREAD", "BLOCK", 0, "STREAMS", "s", "$")
        await until(lambda: len(running.server.dispatcher.waiters), running)
        peer.writer.close()
        await until(lambda: not running.server.clients, running)
        assert len(running.server.dispatcher.waiters) == 0


async def test_blocked_read_times_out_late_rather_than_early() -> None:
    async with running_server() as running:
        peer = await running.connect()
        for block_ms in (1, 7, 30):
            started_s = time.time()
            peer.send("XREAD", "BLOCK", block_ms, "STREAMS", "s", "$")
            await peer.expect(b"*-1\r\n")
            assert time.time() - started_s >= block_ms / 1000


async def test_one_timer_serves_all_waits_and_none_is_left() -> None:
    clock = Clock()
    async with running_server(clock=clock) as running:
        peers = [await running.connect() for _ in range(3)]
        for index, peer in enumerate(peers):
            peer.send("XREAD", "BLOCK", 1000 * (index + 1), "STREAMS", "s", "$")
        await until(lambda: len(running.server.dispatcher.waiters) == 3, running)
        for peer in peers:
            clock.advance(1001)
            running.server.turns.run_timers()
            await peer.expect(b"*-1\r\n")
        assert running.server.turns.timer is None


async def blocked_reader(running: Running) -> Peer:
    """A client that waits for an entry."""
    peer = await running.connect()
    peer.send("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
    await peer.expect(b"+OK\r\n")
    peer.send("XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", "s", ">")
    await until(lambda: len(running.server.dispatcher.waiters), running)
    return peer


async def held_client(running: Running) -> Peer:
    """A client with a request that waits for the end of CLIENT PAUSE."""
    peer = await running.connect()
    peer.writer.write(encode(("CLIENT", "PAUSE", 100_000)) + encode(("PING",)))
    await peer.expect(b"+OK\r\n")
    await until(lambda: running.server.connections[0].client.is_held, running)
    return peer


WAITING = {"blocked": blocked_reader, "held": held_client}


@pytest.mark.parametrize("kind", WAITING)
async def test_requests_after_one_that_waits_are_bounded_by_the_query_buffer_limit(kind: str) -> None:
    limit = 2 << 20
    async with running_server(client_query_buffer_limit=limit) as running:
        peer = await WAITING[kind](running)
        connection = running.server.connections[0]
        request = encode(("ECHO", "x" * 1000))
        peer.writer.write(request * (limit // len(request) - 100))
        await until(lambda: connection.client.query_buffer_size > limit - 200 * len(request), running)
        assert not connection.is_closed
        assert len(connection.backlog) <= 1, "what waits is kept as it came"
        peer.writer.write(request * 200)
        await until(lambda: not running.server.clients, running)
        assert running.server.stats.query_buffer_limit_disconnections == 1
        assert len(running.server.dispatcher.waiters) == 0


async def test_requests_that_came_in_two_reads_after_a_blocked_one_are_run_in_one_turn() -> None:
    """As in Redis: before the rest of the pipeline that has ended the wait by FLUSHDB."""
    async with running_server() as running:
        blocked, other = await running.connect(), await running.connect()
        other.send("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
        await other.expect(b"+OK\r\n")
        wait = ("XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">")
        blocked.writer.write(encode(wait) + encode(("ECHO", "a")))
        connection = running.server.connections[0]
        await until(lambda: connection.client.blocked, running)
        blocked.send("SET", "s", "v")
        await until(lambda: connection.unread, running)
        other.writer.write(encode(("FLUSHDB",)) + encode(("TYPE", "s")))
        await other.expect(b"+OK\r\n+string\r\n")
        assert (await blocked.line()).startswith(b"-NOGROUP")
        await blocked.expect(b"$1\r\na\r\n+OK\r\n")


async def test_requests_after_a_blocked_one_are_run_in_order() -> None:
    async with running_server() as running:
        peer, writer = await blocked_reader(running), await running.connect()
        numbers = range(50_000)
        peer.writer.write(b"".join(encode(("ECHO", number)) for number in numbers))
        connection = running.server.connections[0]
        await until(lambda: len(connection.unread) > 2 * READ_AHEAD_SIZE, running)
        writer.send("XADD", "s", "1-1", "f", "v")
        assert await peer.reader.readuntil(b"$1\r\nv\r\n")
        await peer.expect(b"".join(b"$%d\r\n%d\r\n" % (len(str(number)), number) for number in numbers))
        assert connection.client.query_buffer_size == 0
        assert connection.client.pipeline_length_sum == len(numbers) + 2


@pytest.mark.parametrize("kind", WAITING)
@pytest.mark.parametrize("end", ["close", "half close"])
async def test_end_of_a_peer_is_noticed_after_many_requests(kind: str, end: str) -> None:
    """Goal: the next entry is not delivered to a closed connection."""
    async with running_server() as running:
        peer = await WAITING[kind](running)
        peer.writer.write(encode(("ECHO", "x" * 100)) * 30_000)
        await peer.writer.drain()
        if end == "close":
            peer.writer.close()
        else:
            peer.writer.write_eof()
        await until(lambda: not running.server.clients, running)
        assert len(running.server.dispatcher.waiters) == 0
        assert not running.server.dispatcher.pause.held


async def test_a_wait_that_begins_after_the_end_of_the_peer_ends_at_once() -> None:
    """The end may be read while a long pipeline is run, before the request that blocks."""
    async with running_server() as running:
        peer = await running.connect()
        wait = encode(("XREAD", "BLOCK", 0, "STREAMS", "s", "$"))
        peer.writer.write(encode(("ECHO", "x")) * (8 * SLICE_COUNT) + wait + encode(("ECHO", "x")))
        peer.writer.write_eof()
        async with asyncio.timeout(10):
            answered = await peer.reader.read()
        assert answered == b"$1\r\nx\r\n" * (8 * SLICE_COUNT)
        assert len(running.server.dispatcher.waiters) == 0
        assert not running.server.clients


async def test_a_long_pipeline_is_read_as_far_as_it_is_run() -> None:
    async with running_server(client_query_buffer_limit=1 << 20) as running:
        peer = await running.connect()
        count = 100_000
        peer.writer.write(encode(("PING",)) * count)
        connection = running.server.connections[0]
        sizes: list[int] = []
        async with asyncio.timeout(60):
            for _ in range(count // 1000):
                assert await peer.reader.readexactly(7000) == b"+PONG\r\n" * 1000
                sizes.append(connection.client.query_buffer_size)
        assert max(sizes) <= READ_AHEAD_SIZE + (256 << 10)
        assert connection.client.query_buffer_size == 0
        assert not connection._is_reading_paused


async def test_peer_that_does_not_read_is_not_worked_for() -> None:
    async with running_server() as running:
        peer = await running.connect()
        peer.send("XADD", "s", "1-1", "f", b"x" * RANGE_REPLY_SIZE_MIN)
        await peer.expect(b"$3\r\n1-1\r\n")
        ranges = 600
        peer.writer.write(encode(("XRANGE", "s", "-", "+")) * ranges)
        connection = running.server.connections[0]
        await until(lambda: connection.is_write_paused, running)
        assert connection.has_more
        assert connection.client.commands_count < ranges
        total = 0
        one = len(b"*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nf\r\n$100000\r\n") + RANGE_REPLY_SIZE_MIN + 2
        async with asyncio.timeout(30):
            while total < ranges * one:
                total += len(await peer.reader.read(1 << 20))
        peer.send("PING")
        await peer.expect(b"+PONG\r\n")
        assert connection.client.commands_count == ranges + 2


async def test_output_above_the_hard_limit_ends_the_connection() -> None:
    async with running_server(client_output_buffer_limit=b"normal 300000 0 0 slave 0 0 0 pubsub 0 0 0") as running:
        peer = await running.connect()
        peer.send("XADD", "s", "1-1", "f", b"x" * 50_000_000)
        await peer.expect(b"$3\r\n1-1\r\n")
        peer.send("XRANGE", "s", "-", "+")
        await until(lambda: not running.server.clients, running)
        assert running.server.stats.output_buffer_limit_disconnections == 1


async def test_stranger_gets_small_requests_only_and_auth_lifts_that_within_one_read() -> None:
    async with running_server(requirepass=b"pw") as running:
        long = encode(("XADD", "s", "1-1", *("f", "v") * 10))
        peer = await running.connect()
        peer.writer.write(long)
        await peer.expect(b"-ERR Protocol error: unauthenticated multibulk length\r\n")
        peer = await running.connect()
        peer.writer.write(encode(("AUTH", "pw")) + long + encode(("XLEN", "s")))
        await peer.expect(b"+OK\r\n$3\r\n1-1\r\n:1\r\n")


async def test_clients_beyond_the_limit_get_an_error_and_are_closed() -> None:
    async with running_server(maxclients=1) as running:
        first = await running.connect()
        first.send("PING")
        await first.expect(b"+PONG\r\n")
        second = await running.connect()
        await second.expect(TOO_MANY_CLIENTS)
        await second.expect_end()
        assert running.server.stats.connections_rejected == 1
        assert len(running.server.clients) == 1


async def test_kill_closes_others_at_once_and_oneself_after_the_reply() -> None:
    async with running_server() as running:
        first, second = await running.connect(), await running.connect()
        second.send("CLIENT", "ID")
        await second.expect(b":2\r\n")
        first.send("CLIENT", "KILL", "ID", 2)
        await first.expect(b":1\r\n")
        await second.expect_end()
        first.send("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no")
        await first.expect(b":1\r\n")
        await first.expect_end()


@pytest.mark.parametrize("loop_factory", [new_event_loop, asyncio.new_event_loop])
def test_a_killed_connection_is_closed_before_the_reply_to_kill_leaves(
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def kill() -> bytes:
        async with running_server() as running:
            with socket.create_connection(("127.0.0.1", running.port)) as victim:
                await until(lambda: running.server.clients, running)
                victim.setblocking(False)
                with pytest.raises(BlockingIOError):
                    victim.recv(1)
                killer = await running.connect()
                killer.send("PING")
                await killer.expect(b"+PONG\r\n")
                # In one turn of the loop.
                connection = _connection_of(running, killer)
                connection.data_received(encode(("CLIENT", "KILL", "ID", 1)))
                return victim.recv(1)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert runner.run(kill()) == b""


async def test_pause_ends_by_itself() -> None:
    async with running_server() as running:
        peer = await running.connect()
        peer.writer.write(encode(("CLIENT", "PAUSE", 20)) + encode(("PING",)))
        await peer.expect(b"+OK\r\n+PONG\r\n")


async def test_idle_client_is_closed_and_a_blocked_one_is_not() -> None:
    clock = Clock()
    async with running_server(clock=clock, timeout=10, hz=1) as running:
        idle, blocked = await running.connect(), await running.connect()
        idle.send("PING")
        await idle.expect(b"+PONG\r\n")
        blocked.send("XREAD", "BLOCK", 0, "STREAMS", "s", "$")
        await until(lambda: len(running.server.dispatcher.waiters), running)
        clock.advance(10_001)
        running.server.periodic.run()
        await idle.expect_end()
        assert list(running.server.clients) == [2]


@pytest.mark.parametrize(
    ("seconds", "expected"), [(300, (1, 300, 100, 3)), (1, (1, 1, 1, 3)), (0, (0, None, None, None))]
)
async def test_a_silent_peer_is_probed_as_tcp_keepalive_says(seconds: int, expected: tuple[int | None, ...]) -> None:
    """SO_KEEPALIVE, seconds until the first probe, seconds between probes, probes until the connection is dropped."""
    async with running_server() as running:
        before = await running.connect()
        before.send("CONFIG", "SET", "tcp-keepalive", seconds)
        await before.expect(b"+OK\r\n")
        peer = await running.connect()
        peer.send("PING")
        await peer.expect(b"+PONG\r\n")
        served = running.server.dispatcher.sessions[2].transport.get_extra_info("socket")  # type: ignore[attr-defined]
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        is_probed = served.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert is_probed == expected[0]
        if is_probed:
            assert tuple(served.getsockopt(socket.IPPROTO_TCP, option) for option in options) == expected[1:]


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        (("127.0.0.1", 1), True),
        (("127.9.9.9", 1), True),
        (("10.0.0.1", 1), False),
        (("::1", 1, 0, 0), True),
        (("fe80::1%eth0", 1, 0, 2), False),
        (("::ffff:127.0.0.1", 1, 0, 0), True),
        ("", True),
    ],
)
def test_only_this_host_is_loopback(peer: object, expected: bool) -> None:
    assert is_loopback(peer) is expected


def test_refusal_of_protected_mode_is_one_line() -> None:
    assert PROTECTED_MODE.startswith(b"-DENIED ")
    assert PROTECTED_MODE.count(b"\r\n") == 1


async def test_protected_mode_turns_strangers_away_until_there_is_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    stranger_address = ipaddress.ip_address("10.0.0.1")
    monkeypatch.setattr(ipaddress, "ip_address", lambda text: stranger_address)
    async with running_server() as running:
        stranger = await running.connect()
        await stranger.expect(PROTECTED_MODE)
        await stranger.expect_end()
        assert (running.server.stats.connections_rejected, running.server.stats.connections_received) == (1, 0)
        running.server.config.set_many([(b"requirepass", b"pw")])
        stranger = await running.connect()
        stranger.send("PING")
        await stranger.expect(b"-NOAUTH Authentication required.\r\n")
        running.server.config.set_many([(b"requirepass", b""), (b"protected-mode", b"no")])
        stranger = await running.connect()
        stranger.send("PING")
        await stranger.expect(b"+PONG\r\n")


def test_addresses_are_shown_as_in_client_list() -> None:
    assert format_address(("127.0.0.1", 80), b"") == b"127.0.0.1:80"
    assert format_address(("::1", 80, 0, 0), b"") == b"[::1]:80"
    assert format_address("", b"/run/s") == b"/run/s:0"


async def test_log_lets_replies_go_only_after_it_was_written(tmp_path: object) -> None:
    events: list[str] = []
    async with running_server(appendonly=True, appendfsync=b"always", dir=str(tmp_path).encode()) as running:
        log = running.server.log
        assert log is not None
        assert log._file is not None
        log._file = WatchedFile(log._file, events)
        peers = [await running.connect() for _ in range(3)]
        for peer in peers:
            peer.send("PING")
            await peer.expect(b"+PONG\r\n")
        assert events == []
        for peer in peers:
            connection = _connection_of(running, peer)
            connection.transport = WatchedTransport(connection.transport, events)
        for index, peer in enumerate(peers):
            # Data of several clients in one turn of the loop.
            _connection_of(running, peer).data_received(encode(("XADD", "s", f"{index + 1}-1", "f", "v")))
        for index, peer in enumerate(peers):
            await peer.expect(b"$3\r\n%d-1\r\n" % (index + 1))
        assert events == ["write", "fsync", "reply", "reply", "reply"]


@pytest.mark.parametrize("policy", [b"always", b"everysec"])
async def test_readers_of_one_key_have_their_replies_while_others_are_served(tmp_path: object, policy: bytes) -> None:
    """Goal: the clients' work and the server's overlap; with `always` nothing leaves before the one fsync."""
    events: list[str] = []
    async with running_server(appendonly=True, appendfsync=policy, dir=str(tmp_path).encode()) as running:
        log = running.server.log
        assert log is not None
        assert log._file is not None
        log._file = WatchedFile(log._file, events)
        producer = await running.connect()
        readers = [await running.connect() for _ in range(2 * SERVED_AT_ONCE + 3)]
        for peer in readers:
            peer.send("XREAD", "BLOCK", 0, "STREAMS", "s", "$")
        await until(lambda: len(running.server.dispatcher.waiters) == len(readers), running)
        waiters = running.server.dispatcher.waiters
        told: list[int] = []
        for peer in (producer, *readers):
            connection = _connection_of(running, peer)
            connection.transport = WatchedTransport(connection.transport, events, lambda: told.append(len(waiters)))
        producer.send("XADD", "s", "1-1", "f", "v")
        added = b"$3\r\n1-1\r\n"
        await producer.expect(added)
        reply = b"*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n" + added + b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n"
        for peer in readers:
            await peer.expect(reply)
        stats = running.server.stats
        assert stats.writes_processed == len(readers) + 1
        assert stats.output_size == len(readers) * len(reply) + len(added)
        replies = ["reply"] * (len(readers) + 1)
        assert events[0] == "write"
        assert [event for event in events if event != "fsync"] == ["write", *replies]
        if policy == b"always":
            assert events == ["write", "fsync", *replies]
            assert told[0] == 0
        else:  # the first readers have their replies while others still wait
            assert told[0] == len(readers) - SERVED_AT_ONCE


# Ways to send output of a connection, besides the turn that made it.
WAYS_OUT: dict[str, Callable[[Any, Any], object]] = {
    "the peer has read": lambda connection, server: connection.resume_writing(),
    "more has been made": lambda connection, server: connection._continue_production(),
    "its next turn": lambda connection, server: connection._take_turn(),
    "a broken frame": lambda connection, server: connection.data_received(b"*x\r\n"),
    "another request": lambda connection, server: connection.data_received(encode(("PING",))),
    "the end of the peer": lambda connection, server: connection.eof_received(),
    "a change of output limits": lambda connection, server: connection.configure_output(),
    "the periodic work": lambda connection, server: server.periodic.run(),
    "timers": lambda connection, server: server.turns.run_timers(),
    "what is broadcast": lambda connection, server: server.broadcast(),
    "the end of an fsync": lambda connection, server: server.log_keeper.collect_sync(),
}


@pytest.mark.parametrize("way", WAYS_OUT)
async def test_nothing_leaves_before_the_log_is_synced(tmp_path: object, way: str) -> None:
    """Goal: with `always`, a slow reader gets no entry that is not on stable storage."""
    events: list[str] = []
    async with running_server(appendonly=True, appendfsync=b"always", dir=str(tmp_path).encode()) as running:
        log = running.server.log
        assert log is not None
        assert log._file is not None
        reader, producer = await running.connect(), await running.connect()
        producer.send("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
        await producer.expect(b"+OK\r\n")
        reader.send("XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", "s", ">")
        await until(lambda: len(running.server.dispatcher.waiters), running)
        log._file = WatchedFile(log._file, events)
        connection = _connection_of(running, reader)
        connection.transport = WatchedTransport(connection.transport, events)
        if way in ("the peer has read", "another request"):
            connection.pause_writing()
        # All in one turn of the loop.
        _connection_of(running, producer).data_received(encode(("XADD", "s", "1-1", "f", "v")))
        WAYS_OUT[way](connection, running.server)
        await producer.expect(b"$3\r\n1-1\r\n")
        await until(lambda: "reply" in events, running)
        assert events[:3] == ["write", "fsync", "reply"]


async def test_a_writer_that_wakes_readers_and_gets_events_is_served_to_the_end() -> None:
    """Replies of the readers leave in the middle of its batch, its own do not: it has nothing more to send, and would
    be closed as if all were done."""
    async with running_server() as running:
        readers = [await running.connect() for _ in range(SERVED_AT_ONCE)]
        for peer in readers:
            peer.send("XREAD", "BLOCK", 0, "STREAMS", "s", "$")
        await until(lambda: len(running.server.dispatcher.waiters) == len(readers), running)
        peer = await running.connect()
        lines = ["HELLO 3", "CONFIG SET notify-keyspace-events KEA", "PSUBSCRIBE __key*"]
        lines += [*["ECHO x"] * (4 * SLICE_COUNT), "XADD s 1-1 f v", "ECHO last"]  # run when its end is known
        peer.writer.write(b"".join(encode(line.split()) for line in lines))
        peer.writer.write_eof()
        async with asyncio.timeout(10):
            answered = await peer.reader.read()
        assert answered.endswith(b"$4\r\nlast\r\n")
        assert answered.count(b"pmessage") == 2
        for reader in readers:
            assert (await reader.line()) == b"*1\r\n"


async def test_slow_readers_get_their_whole_output() -> None:
    value = bytes(range(256)) * 20_000
    async with running_server() as running:
        producer = await running.connect()
        readers = [await running.connect() for _ in range(2 * SERVED_AT_ONCE)]
        for peer in readers:
            peer.send("XREAD", "BLOCK", 0, "STREAMS", "s", "$")
        await until(lambda: len(running.server.dispatcher.waiters) == len(readers), running)
        gone = readers.pop(3)
        gone.writer.transport.abort()
        producer.send("XADD", "s", "1-1", "f", value)
        await producer.expect(b"$3\r\n1-1\r\n")
        head = b"*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nf\r\n$%d\r\n" % len(value)
        for peer in readers:
            await peer.expect(head + value + b"\r\n")
            peer.send("PING")
            await peer.expect(b"+PONG\r\n")
        await until(lambda: len(running.server.clients) == len(readers) + 1, running)


class WatchedFile:
    """A file of the log that records when it is written and synced."""

    def __init__(self, file: LogFile, events: list[str]) -> None:
        self._file = file
        self._events = events

    def append(self, data: bytes | memoryview) -> int:
        self._events.append("write")
        return self._file.append(data)

    def fsync(self) -> None:
        self._events.append("fsync")
        self._file.fsync()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class WatchedTransport:
    """Records what is written to a transport."""

    def __init__(self, transport: Any, events: list[str], on_write: Callable[[], None] = lambda: None) -> None:
        self._transport, self._events, self._on_write = transport, events, on_write

    def write(self, data: bytes) -> None:
        self._events.append("reply")
        self._on_write()
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def _connection_of(running: Running, peer: Peer) -> Any:
    port = peer.writer.get_extra_info("sockname")[1]
    return next(each for each in running.server.connections if each.client.address.endswith(b":%d" % port))


async def test_a_closed_connection_is_freed_without_the_garbage_collector() -> None:
    async with running_server() as running:
        peer = await running.connect()
        peer.send("CLIENT", "ID")
        session = running.server.dispatcher.sessions[int((await peer.line())[1:])]
        number = id(session)
        del session
        gc.disable()
        try:
            peer.send("QUIT")
            await peer.expect(b"+OK\r\n")
            await peer.expect_end()
            await until(
                lambda: number not in {id(each) for each in gc.get_objects() if type(each) is Connection}, running
            )
        finally:
            gc.enable()


async def test_requests_continue_when_the_rest_of_a_long_reply_is_already_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time for producing may end when only finished bytes are left."""
    async with running_server() as running:
        peer = await running.connect()
        peer.send("PING")
        await peer.expect(b"+PONG\r\n")
        connection = _connection_of(running, peer)
        readings = iter((0, 0, 1 << 60))
        monkeypatch.setattr(connection_module, "perf_counter_ns", lambda: next(readings))
        connection.out += [iter([b"+made\r\n"]), b"+plain\r\n"]
        connection.send()
        assert connection.is_write_paused
        peer.send("ECHO", "next")
        await peer.expect(b"+made\r\n+plain\r\n$4\r\nnext\r\n")
        assert not connection.is_write_paused
