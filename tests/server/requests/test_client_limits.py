"""Clients that request much and read little, over real sockets: what waits, what is closed, and which client has its
turn.
"""

from __future__ import annotations

import asyncio
import socket

import pytest

from conftest import StartServer
from headrace.commands.clients.client import CLIENT_SIZE
from headrace.server.requests.client_limits import EVICTION_LIMIT_MIN
from headrace.server.requests.dispatch import TURN_OUTPUT_SIZE, UNMEASURED_COUNT
from headrace.server.requests.turns import SLICE_COUNT
from headrace.server.sockets.connection import OUTPUT_SIZE_HIGH, Connection
from headrace.store.ids import make_id
from headrace.store.stream import Stream
from support.inprocess import Clock, Peer, Rig, Running, running_server
from support.lines import split
from support.servers import Server
from support.wire import Wire, encode

ENTRY_COUNT = 40_000
PIPELINE_COUNT = 20_000
MESSAGE_SIZE = 64 * 1024


async def until(condition: object) -> None:
    """Run turns of the loop until the condition holds."""
    async with asyncio.timeout(20):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0)


def connection_of(running: Running, client_id: int) -> Connection:
    session = running.server.dispatcher.sessions[client_id]
    assert isinstance(session, Connection)
    return session


async def slow_reader(running: Running) -> Peer:
    """A client with small buffers at its end of the socket, so that what it does not read stays with the server."""
    own = socket.socket()
    own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
    own.setblocking(False)
    await asyncio.get_running_loop().sock_connect(own, ("127.0.0.1", running.port))
    return Peer(*await asyncio.open_connection(sock=own, limit=16 * 1024))


def taken_by_kernel(connection: Connection) -> int:
    """How many bytes of the output the kernel has taken. What a peer reads first comes from the kernel's buffers."""
    return connection.client.sent_size - connection.transport.get_write_buffer_size()


async def id_of(peer: Peer) -> int:
    peer.send("CLIENT", "ID")
    return int((await peer.line())[1:])


def fill(running: Running, key: bytes, count: int = ENTRY_COUNT) -> bytes:
    """Add entries, and answer what XRANGE must reply."""
    stream = Stream(running.server.context.limits)
    running.server.store.databases[0].put(key, stream)
    expected = [b"*%d\r\n" % count]
    for number in range(1, count + 1):
        entry = b"*2\r\n" + encode((f"{number}-0",))[4:] + encode(("field", b"%0500d" % number))
        stream.append(make_id(number, 0), entry)
        expected.append(entry)
    return b"".join(expected)


# -- turns ---------------------------------------------------------------------------------------


async def test_a_long_pipeline_leaves_others_their_turn() -> None:
    async with running_server() as running:
        busy, other = await running.connect(), await running.connect()
        busy_id = await id_of(busy)
        busy.writer.write(b"".join(encode(("INCR", "n")) for _ in range(PIPELINE_COUNT)))
        await until(lambda: running.server.store.databases[0].keys.get(b"n"))
        other.send("GET", "n")
        assert (await other.line()).startswith(b"$")
        seen = int(await other.line())
        assert SLICE_COUNT <= seen < PIPELINE_COUNT
        assert seen % SLICE_COUNT == 0 or seen > SLICE_COUNT
        await busy.expect(b"".join(b":%d\r\n" % number for number in range(1, PIPELINE_COUNT + 1)))
        assert not connection_of(running, busy_id).backlog


async def test_slices_of_a_pipeline_keep_their_order_around_a_blocked_read() -> None:
    async with running_server() as running:
        busy, other = await running.connect(), await running.connect()
        head = [encode(("ECHO", number)) for number in range(SLICE_COUNT + 10)]
        tail = [encode(("ECHO", f"tail-{number}")) for number in range(3 * SLICE_COUNT)]
        busy.writer.write(b"".join([*head, encode(("XREAD", "BLOCK", 0, "STREAMS", "s", "$")), *tail]))
        await busy.expect(b"".join(b"$%d\r\n%d\r\n" % (len(str(n)), n) for n in range(SLICE_COUNT + 10)))
        await until(lambda: len(running.server.dispatcher.waiters))
        other.send("XADD", "s", "1-1", "f", "v")
        await busy.expect(b"*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n")
        tails = (f"tail-{number}".encode() for number in range(3 * SLICE_COUNT))
        await busy.expect(b"".join(b"$%d\r\n%b\r\n" % (len(text), text) for text in tails))


async def test_nothing_after_quit_is_run_however_long_the_pipeline() -> None:
    async with running_server() as running:
        peer = await running.connect()
        requests = [encode(("INCR", "n"))] * (SLICE_COUNT + 5) + [encode(("QUIT",))] + [encode(("INCR", "n"))] * 2000
        peer.writer.write(b"".join(requests))
        await peer.expect(b"".join(b":%d\r\n" % number for number in range(1, SLICE_COUNT + 6)) + b"+OK\r\n")
        await peer.expect_end()
        assert running.server.store.databases[0].keys[b"n"] == b"%d" % (SLICE_COUNT + 5)


# -- long replies --------------------------------------------------------------------------------


async def test_a_long_range_arrives_whole_with_what_follows_it() -> None:
    async with running_server() as running:
        expected = fill(running, b"s")
        peer = await running.connect()
        peer.writer.write(encode(("XRANGE", "s", "-", "+")) + encode(("ECHO", "next")) + encode(("XLEN", "s")))
        await peer.expect(expected + b"$4\r\nnext\r\n:%d\r\n" % ENTRY_COUNT)


async def test_a_long_range_inside_a_transaction_and_before_quit() -> None:
    async with running_server() as running:
        expected = fill(running, b"s")
        peer = await running.connect()
        for words in (("MULTI",), ("XRANGE", "s", "-", "+"), ("PING",), ("EXEC",), ("QUIT",)):
            peer.send(*words)
        await peer.expect(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n" + expected + b"+PONG\r\n+OK\r\n")
        await peer.expect_end()


async def test_a_long_range_is_not_in_memory_while_the_client_does_not_read() -> None:
    async with running_server() as running:
        expected = fill(running, b"s")
        reader, writer = await slow_reader(running), await running.connect()
        connection = connection_of(running, await id_of(reader))
        reader.send("XRANGE", "s", "-", "+")
        await until(lambda: connection.is_write_paused and connection._is_transport_full)
        writer.send("FLUSHALL")
        await writer.expect(b"+OK\r\n")
        assert connection.output_size() <= 2 * OUTPUT_SIZE_HIGH < len(expected)
        await reader.expect(expected)
        await until(lambda: not connection.is_write_paused)


async def test_keys_of_many_are_those_of_one_moment() -> None:
    async with running_server() as running:
        peer, other = await running.connect(), await running.connect()
        db = running.server.store.databases[0]
        for number in range(30_000):
            db.put(b"key:%d" % number, b"v")
        names = list(db.keys)
        db.expires[names[0]] = 1
        peer.send("KEYS", "key:*9")
        await until(lambda: running.server.stats.commands_processed)
        other.send("FLUSHALL")
        await other.expect(b"+OK\r\n")
        wanted = [name for name in names[1:] if name.endswith(b"9")]
        await peer.expect(b"*%d\r\n" % len(wanted) + b"".join(b"$%d\r\n%b\r\n" % (len(n), n) for n in wanted))


# -- output limits -------------------------------------------------------------------------------


async def test_requests_of_a_client_that_does_not_read_wait() -> None:
    async with running_server() as running:
        reader = await slow_reader(running)
        connection = connection_of(running, await id_of(reader))
        running.server.store.databases[0].put(b"big", b"x" * 1_000_000)
        reader.writer.write(encode(("GET", "big")) * 300)
        await until(lambda: connection.is_write_paused)
        for _ in range(200):
            await asyncio.sleep(0)
        # Replies are measured after this many pieces, or after a slow call.
        assert connection.output_size() <= UNMEASURED_COUNT * 1_000_100
        assert connection.client.commands_count <= UNMEASURED_COUNT + 1  # with CLIENT ID


# Requests with replies of several kinds of pieces.
LARGE_REPLIES = {
    "GET": "GET value",
    "MGET": "MGET value value value value value",
    "XRANGE": "XRANGE entries - +",
    "XREAD": "XREAD STREAMS entries 0",
    "XREADGROUP": "XREADGROUP GROUP g c STREAMS entries 0",
    "ECHO": f"ECHO {'x' * 20_000}",
    "EXEC": "EXEC",
}


@pytest.mark.parametrize("name", LARGE_REPLIES)
@pytest.mark.parametrize("takes_fast_path", [True, False])
@pytest.mark.parametrize("value_size", [1_000, 16_000, 60_000])
def test_a_turn_ends_when_it_has_made_enough(name: str, takes_fast_path: bool, value_size: int) -> None:
    """Goal: the memory of a client that does not read is bounded, for replies of any size."""
    rig = Rig()
    caller = rig.connect()
    value = "x" * value_size
    caller.call(
        f"SET value {value}",
        *(f"XADD entries {number}-1 f {value}" for number in range(1, 4)),
        "XGROUP CREATE entries g 0",
        "XREADGROUP GROUP g c STREAMS entries >",
    )
    if not takes_fast_path:
        caller.call("CLIENT NO-TOUCH ON")
    line = LARGE_REPLIES[name]
    requests = [split(each) for each in (["MULTI", "GET value", "GET value", "EXEC"] if name == "EXEC" else [line])]
    for request in requests:
        rig.dispatcher.execute(caller.session, [request], rig.clock())
    reply_size = len(caller.output())
    rig.dispatcher.execute(caller.session, requests * 400, rig.clock())
    made_size = sum(map(len, caller.session.out))
    assert caller.session.backlog, "the rest waits for another turn"
    assert made_size <= TURN_OUTPUT_SIZE + (UNMEASURED_COUNT + 2) * reply_size


async def test_what_a_client_that_does_not_read_costs_is_bounded() -> None:
    async with running_server() as running:
        reader = await slow_reader(running)
        connection = connection_of(running, await id_of(reader))
        running.server.store.databases[0].put(b"value", b"x" * 16_000)
        reader.writer.write(encode(("GET", "value")) * 2000)
        await until(lambda: connection.is_write_paused)
        sizes: list[int] = []
        for _ in range(200):
            await asyncio.sleep(0)
            sizes.append(connection.output_size())
        assert max(sizes) <= OUTPUT_SIZE_HIGH + TURN_OUTPUT_SIZE + (UNMEASURED_COUNT + 2) * 16_100


async def test_a_subscriber_that_does_not_read_is_closed_at_the_hard_limit() -> None:
    async with running_server() as running:
        reader, publisher = await slow_reader(running), await running.connect()
        publisher.send("CONFIG", "SET", "client-output-buffer-limit", "pubsub 1mb 0 0")
        await publisher.expect(b"+OK\r\n")
        connection = connection_of(running, await id_of(reader))
        reader.send("SUBSCRIBE", "news")
        await until(lambda: connection.client.is_subscriber)
        largest = 0
        for _ in range(1_000):
            publisher.send("PUBLISH", "news", b"m" * MESSAGE_SIZE)
            if await publisher.line() == b":0\r\n":
                break
            largest = max(largest, connection.output_size())
        assert connection.is_closed
        assert largest < (1 << 20) + 2 * MESSAGE_SIZE
        assert running.server.stats.output_buffer_limit_disconnections == 1


async def test_a_soft_limit_closes_after_its_seconds() -> None:
    clock = Clock()
    async with running_server(clock=clock) as running:
        reader, publisher = await slow_reader(running), await running.connect()
        publisher.send("CONFIG", "SET", "client-output-buffer-limit", "pubsub 0 512kb 10")
        await publisher.expect(b"+OK\r\n")
        connection = connection_of(running, await id_of(reader))
        reader.send("SUBSCRIBE", "news")
        await until(lambda: connection.client.is_subscriber)
        while connection.output_size() < 1 << 20:
            publisher.send("PUBLISH", "news", b"m" * MESSAGE_SIZE)
            assert await publisher.line() == b":1\r\n"
        clock.advance(10_000)
        running.server.periodic.run()
        assert not connection.is_closed
        clock.advance(1)
        running.server.periodic.run()
        assert connection.is_closed


async def test_who_reads_again_below_the_soft_limit_starts_anew() -> None:
    clock = Clock()
    async with running_server(clock=clock) as running:
        reader, publisher = await slow_reader(running), await running.connect()
        publisher.send("CONFIG", "SET", "client-output-buffer-limit", "pubsub 0 512kb 10")
        await publisher.expect(b"+OK\r\n")
        connection = connection_of(running, await id_of(reader))
        reader.send("SUBSCRIBE", "news")
        await until(lambda: connection.client.is_subscriber)
        for _ in range(2):
            while connection.output_size() < 1 << 20:
                publisher.send("PUBLISH", "news", b"m" * MESSAGE_SIZE)
                await publisher.line()
            clock.advance(9_000)
            running.server.periodic.run()
            while connection.output_size() >= 100_000:
                await reader.reader.read(1 << 20)
            running.server.periodic.run()
        assert not connection.is_closed


def test_a_reply_above_the_hard_limit_of_normal_clients_closes(server: Server) -> None:
    with server.connect() as wire:
        wire.call("CONFIG", "SET", "client-output-buffer-limit", "normal 1mb 0 0")
        try:
            wire.call("SET", "big", b"x" * (32 << 20))
            with server.connect() as reader:
                reader.send("GET", "big")
                assert len(reader.wait_for_close()) < 32 << 20
            assert b"client_output_buffer_limit_disconnections:1" in wire.call("INFO", "stats")
        finally:
            wire.call("CONFIG", "SET", "client-output-buffer-limit", "normal 0 0 0")


# -- memory of clients ---------------------------------------------------------------------------


def test_the_largest_clients_are_closed_if_all_take_too_much(headrace: Server) -> None:
    """In Redis, the sum may include the exempt client after its next round over all clients: then all are closed."""
    server = headrace
    with server.connect() as wire, server.connect() as large, server.connect() as kept, server.connect() as small:
        for own, size in ((large, 6 << 20), (kept, 8 << 20)):
            if own is kept:
                assert own.call("CLIENT", "NO-EVICT", "ON") == b"+OK\r\n"
            own.call("MULTI")
            own.call("SET", "k", b"x" * size)
        wire.call("CONFIG", "SET", "maxmemory-clients", "4mb")
        try:
            assert large.wait_for_close() == b""
            assert small.call("PING") == b"+PONG\r\n"
            assert kept.call("DISCARD") == b"+OK\r\n"
            assert b"evicted_clients:1" in wire.call("INFO", "stats")
        finally:
            wire.call("CONFIG", "SET", "maxmemory-clients", "0")


async def test_a_share_of_maxmemory_limits_clients() -> None:
    kept = 2 * EVICTION_LIMIT_MIN // CLIENT_SIZE
    async with running_server(maxmemory=20 * kept * CLIENT_SIZE, maxmemory_clients=-5) as running:
        peers = [await running.connect() for _ in range(kept + 3)]
        await until(lambda: len(running.server.clients) == len(peers))
        running.server.limits.evict()
        assert len(running.server.clients) == kept
        running.server.config.maxmemory = 0
        running.server.limits.evict()
        assert len(running.server.clients) == kept


@pytest.mark.parametrize("share", [7, -1])
async def test_a_limit_too_small_to_talk_under_counts_as_128_kib(share: int) -> None:
    async with running_server(maxmemory=64 * 1024, maxmemory_clients=share) as running:
        peers = [await running.connect() for _ in range(EVICTION_LIMIT_MIN // CLIENT_SIZE)]
        await until(lambda: len(running.server.clients) == len(peers))
        running.server.limits.evict()
        assert len(running.server.clients) == len(peers)
        peers.append(await running.connect())
        await until(lambda: len(running.server.clients) == len(peers))
        running.server.limits.evict()
        assert len(running.server.clients) == len(peers) - 1


# -- time ----------------------------------------------------------------------------------------


async def test_idle_clients_are_closed_but_not_those_that_wait() -> None:
    clock = Clock()
    async with running_server(clock=clock, timeout=5) as running:
        idle, blocked, listening = [await running.connect() for _ in range(3)]
        ids = [await id_of(peer) for peer in (idle, blocked, listening)]
        blocked.send("XREAD", "BLOCK", 0, "STREAMS", "s", "$")
        listening.send("SUBSCRIBE", "news")
        await until(lambda: len(running.server.dispatcher.waiters))
        await until(lambda: connection_of(running, ids[2]).client.is_subscriber)
        clock.advance(5_001)
        running.server.limits.close_idle(clock())
        await idle.expect_end()
        assert set(running.server.clients) == set(ids[1:])


async def test_a_client_that_sends_a_request_bit_by_bit_is_not_idle() -> None:
    clock = Clock()
    async with running_server(clock=clock, timeout=5) as running:
        sender = await running.connect()
        request = encode(("ECHO", b"x" * 100))
        stats = running.server.stats
        for place in range(3):
            received_size = stats.input_size
            sender.writer.write(request[place : place + 1])
            await until(lambda size=received_size: stats.input_size > size)
            clock.advance(5_000)
            running.server.limits.close_idle(clock())
        sender.writer.write(request[3:])
        await sender.expect(b"$100\r\n%b\r\n" % (b"x" * 100))
        clock.advance(5_001)
        running.server.limits.close_idle(clock())
        await sender.expect_end()


async def test_a_client_that_reads_a_long_reply_slowly_is_not_idle() -> None:
    clock = Clock()
    async with running_server(clock=clock, timeout=5) as running:
        expected = fill(running, b"s")
        reader = await slow_reader(running)
        connection = connection_of(running, await id_of(reader))
        connection.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
        reader.send("XRANGE", "s", "-", "+")
        taken = b""
        checks = 0
        while len(taken) < len(expected):
            sent_size = taken_by_kernel(connection)
            while taken_by_kernel(connection) == sent_size and len(taken) < len(expected):
                taken += await reader.reader.readexactly(min(len(expected) - len(taken), 4 * OUTPUT_SIZE_HIGH))
                await asyncio.sleep(0)  # the server's turn to send more
            clock.advance(4_000)
            running.server.limits.close_idle(clock())
            checks += 1
        assert checks > 3, "the kernel took the whole reply at once"
        assert taken == expected
        assert not connection.is_closed


async def test_a_client_that_reads_nothing_of_its_reply_is_idle() -> None:
    clock = Clock()
    async with running_server(clock=clock, timeout=5) as running:
        fill(running, b"s")
        reader = await slow_reader(running)
        connection = connection_of(running, await id_of(reader))
        reader.send("XRANGE", "s", "-", "+")
        await until(lambda: connection.is_write_paused)
        for _ in range(2):  # the output was taken before the first check
            clock.advance(5_001)
            running.server.limits.close_idle(clock())
        assert connection.is_closed or connection.transport.is_closing()


@pytest.mark.parametrize("limit", ["1", "1kb"])
async def test_an_output_limit_below_the_buffers_own_is_honoured(limit: str) -> None:
    async with running_server() as running:
        reader, other = await slow_reader(running), await running.connect()
        running.server.store.databases[0].put(b"big", b"x" * (8 << 20))
        reader.send("PING")
        await reader.expect(b"+PONG\r\n")
        other.send("CONFIG", "SET", "client-output-buffer-limit", f"normal {limit} 0 0")
        await other.expect(b"+OK\r\n")
        reader.send("GET", "big")
        await until(lambda: running.server.stats.output_buffer_limit_disconnections == 1)
        other.send("PING")
        await other.expect(b"+PONG\r\n")


@pytest.mark.parametrize("requests_count", [100, 450])
def test_a_client_that_has_not_logged_in_may_get_some_errors(requests_count: int, start_server: StartServer) -> None:
    with start_server("headrace", "--user", "al", "on", "nopass", "+@all", "~*", "&*").connect() as wire:
        wire.call("ACL", "SETUSER", "default", "off")
        wire.call("RESET")
        wire.send_bytes(b"PING\r\n" * requests_count)
        answers = [wire.receive() for _ in range(requests_count)]
        assert set(answers) == {b"-NOAUTH Authentication required.\r\n"}
        assert wire.call("AUTH", "al", "x") == b"+OK\r\n"
        wire.call("SET", "k", b"x" * 3_000_000)
        wire.send_bytes(b"GET k\r\n" * 3)
        assert [len(wire.receive()) for _ in range(3)] == [3_000_012] * 3


def send_without_end(wire: Wire) -> None:
    """Send and never read. Raises OSError when the server closes the connection."""
    while True:
        wire.send_bytes(b"PING\r\n" * 10_000)


def test_a_client_that_has_not_logged_in_and_does_not_read_is_closed(start_server: StartServer) -> None:
    server = start_server("headrace")
    with server.connect() as admin, server.connect() as stranger:
        admin.call("CONFIG", "SET", "requirepass", "pw")
        stranger.call("RESET")
        stranger.socket.settimeout(120)
        with pytest.raises(OSError, match=r"reset|Broken pipe"):
            send_without_end(stranger)
        assert b"client_output_buffer_limit_disconnections:1\r\n" in admin.ask("INFO", "stats")
