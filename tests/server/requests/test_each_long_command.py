"""Each command that is carried out in slices: its result is that of one moment, and what ends it leaves nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from headrace.commands.core.table import DECLARED, Trait
from headrace.commands.execution.sliced_work import Steps
from headrace.commands.execution.slices import LONG_COUNT, STEP_COUNT
from headrace.commands.geo.geohash import score_of
from headrace.store.companions.list_value import ListValue
from headrace.store.companions.set_value import SetValue
from headrace.store.companions.sorted_set_value import SortedSetValue
from headrace.store.events import SORTSTORE, SUNIONSTORE, ZUNIONSTORE
from headrace.store.limits import Limits
from support.inprocess import Clock, Peer, Running, running_server

# So many that the steps outlast what other clients send in the tests.
COUNT: Final = LONG_COUNT + 2 * STEP_COUNT

# A request of each command, on the values of `running`. Those that store a result store it at `d`.
REQUESTS: Final = {
    "SORT": "SORT l STORE d",
    "SORT_RO": "SORT_RO l DESC",
    "SUNION": "SUNION s t",
    "SINTER": "SINTER s u",
    "SDIFF": "SDIFF s t",
    "SUNIONSTORE": "SUNIONSTORE d s t",
    "SINTERSTORE": "SINTERSTORE d s u",
    "SDIFFSTORE": "SDIFFSTORE d s t",
    "SUNIONCARD": "SUNIONCARD 2 s t",
    "SINTERCARD": "SINTERCARD 2 s u",
    "SDIFFCARD": "SDIFFCARD 2 s t",
    "ZUNION": "ZUNION 2 z s WEIGHTS 2 3",
    "ZINTER": "ZINTER 2 z s WITHSCORES",
    "ZDIFF": "ZDIFF 2 z t",
    "ZUNIONSTORE": "ZUNIONSTORE d 2 z s AGGREGATE MAX",
    "ZINTERSTORE": "ZINTERSTORE d 2 z s",
    "ZDIFFSTORE": "ZDIFFSTORE d 2 z t",
    "ZINTERCARD": "ZINTERCARD 2 z s",
    "ZRANGESTORE": "ZRANGESTORE d z 0 -1",
    "GEOSEARCH": "GEOSEARCH g FROMLONLAT 0 0 BYRADIUS 20000 km ASC",
    "GEOSEARCHSTORE": "GEOSEARCHSTORE d g FROMLONLAT 0 0 BYBOX 20000 20000 km STOREDIST",
    "GEORADIUS": "GEORADIUS g 0 0 20000 km STORE d",
    "GEORADIUS_RO": "GEORADIUS_RO g 0 0 20000 km COUNT 5",
    "GEORADIUSBYMEMBER": "GEORADIUSBYMEMBER g 7 20000 km STORE d",
    "GEORADIUSBYMEMBER_RO": "GEORADIUSBYMEMBER_RO g 7 20000 km DESC WITHDIST",
}
STORING: Final = [name for name, request in REQUESTS.items() if " d " in f"{request} "]
each_command = pytest.mark.parametrize("name", REQUESTS)
each_storing_command = pytest.mark.parametrize("name", STORING)

END: Final = b"$5\r\n--end\r\n"


def test_the_table_has_a_request_of_each() -> None:
    assert set(REQUESTS) == {row.name for row in DECLARED.values() if row.traits & Trait.IN_SLICES}
    assert {name for name in REQUESTS if name.endswith("STORE")} < set(STORING)


@cache
def values() -> tuple[ListValue, SetValue, SortedSetValue, SortedSetValue]:
    """A list of COUNT integers, a set and a sorted set of them, and as many places."""
    limits = Limits()
    members = [b"%d" % number for number in range(COUNT)]
    listed, unordered, ordered, places = (
        ListValue(limits),
        SetValue(limits),
        SortedSetValue(limits),
        SortedSetValue(limits),
    )
    listed.elements.append(members[::-1])
    listed.settle_encoding()
    unordered.add_all(members)
    ordered.become_skiplist()
    ordered.add_new(members, [float(number % 1000) for number in range(COUNT)])
    places.become_skiplist()
    places.add_new(members, [float(score_of(number % 300 - 150.0, number % 101 - 50.0)) for number in range(COUNT)])
    return listed, unordered, ordered, places


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    """A server with these values at `l`, `s`, `z` and `g`, a set like `s` at `u`, and a small one at `t`."""
    async with running_server() as running:
        fill(running)
        yield running


def fill(running: Running) -> None:
    """Set the values, and let each slice be one step."""
    running.server.long_commands.slice_ns = 0
    db = running.server.store.databases[0]
    listed, unordered, ordered, places = values()
    few = SetValue(Limits())
    few.add_all([b"%d" % number for number in range(-9, 10)])
    db.overwrite(b"l", listed.copy(), SORTSTORE, 0)
    db.overwrite(b"s", unordered.copy(), SUNIONSTORE, 0)
    db.overwrite(b"u", unordered.copy(), SUNIONSTORE, 0)
    db.overwrite(b"t", few, SUNIONSTORE, 0)
    db.overwrite(b"z", ordered.copy(), ZUNIONSTORE, 0)
    db.overwrite(b"g", places.copy(), ZUNIONSTORE, 0)


def is_busy(running: Running) -> bool:
    return running.server.dispatcher.pause.worker is not None


async def begun(running: Running, name: str) -> Peer:
    """A client that waits for its long command."""
    peer = await running.connect()
    peer.send(*REQUESTS[name].split())
    async with asyncio.timeout(30):
        while not is_busy(running):
            await asyncio.sleep(0)
    return peer


async def rest(peer: Peer) -> bytes:
    """What the client gets until it has the reply to what is sent now."""
    peer.send("ECHO", "--end")
    data = bytearray()
    async with asyncio.timeout(30):
        while not data.endswith(END):
            part = await peer.reader.read(1 << 16)
            assert part, bytes(data[-100:])
            data += part
    return bytes(data[: -len(END)])


async def replies(running: Running, *lines: str) -> bytes:
    """What another client gets."""
    peer = await running.connect()
    for line in lines:
        peer.send(*line.split())
    data = await rest(peer)
    peer.writer.close()
    return data


@each_command
async def test_it_is_what_a_transaction_does_at_once(running: Running, name: str) -> None:
    shown = ("TYPE d", "OBJECT ENCODING d", "DEBUG DIGEST-VALUE d")
    once = await replies(running, "MULTI", REQUESTS[name], "EXEC")
    stored = await replies(running, *shown)
    await replies(running, "DEL d")
    in_slices = await rest(await begun(running, name))
    assert not is_busy(running)
    assert b"+OK\r\n+QUEUED\r\n*1\r\n" + in_slices == once
    assert await replies(running, *shown) == stored
    assert (b"+none" in stored) == (name not in STORING)


@each_command
async def test_a_script_does_it_at_once(running: Running, name: str) -> None:
    peer = await running.connect()
    words = REQUESTS[name].split()
    peer.send("EVAL", "redis.call(unpack(ARGV)) return 7", "0", *words)
    assert await rest(peer) == b":7\r\n"
    assert not is_busy(running)


@each_command
async def test_others_read_meanwhile(running: Running, name: str) -> None:
    other = await running.connect()
    working = await begun(running, name)
    # Commands of the same kind too, if they are short.
    for line in ("LINDEX l 0", "EXISTS d", "SUNION t no", "SORT_RO t", "GEOSEARCH no FROMLONLAT 0 0 BYRADIUS 1 m"):
        other.send(*line.split())
    await other.expect(b"$%d\r\n%d\r\n:0\r\n*19\r\n" % (len(str(COUNT - 1)), COUNT - 1))
    assert is_busy(running)
    assert await rest(other)
    assert await rest(working)


@each_command
async def test_what_is_written_meanwhile_is_done_afterwards(running: Running, name: str) -> None:
    once = await replies(running, "MULTI", REQUESTS[name], "EXEC", "DEL d")
    other = await running.connect()
    working = await begun(running, name)
    for line in ("FLUSHALL", "MULTI", "SET k v", "EXISTS d s", "EXEC"):
        other.send(*line.split())
    in_slices = await rest(working)
    assert once.startswith(b"+OK\r\n+QUEUED\r\n*1\r\n" + in_slices)
    await other.expect(b"+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n:0\r\n")


@each_storing_command
async def test_values_that_expire_meanwhile_are_there_until_it_ends(name: str, tmp_path: Path) -> None:
    clock = Clock()
    async with running_server(dir=bytes(tmp_path), clock=clock, appendonly=True) as running:
        fill(running)
        once = await replies(running, "MULTI", REQUESTS[name], "EXEC")
        digest = await replies(running, "DEBUG DIGEST-VALUE d")
        await replies(running, "DEL d", *(f"PEXPIRE {key} 100" for key in "lstzg"))
        working = await begun(running, name)
        clock.advance(200)
        assert once == b"+OK\r\n+QUEUED\r\n*1\r\n" + await rest(working)
        assert await replies(running, "EXISTS l s t z g", "DEBUG DIGEST-VALUE d") == b":0\r\n" + digest
    (log,) = tmp_path.glob("appendonlydir/*.incr.aof")
    records = log.read_bytes().partition(b"PEXPIREAT")[2]
    assert records.index(name.encode()) < records.index(b"\r\nDEL\r\n"), "a replica has the values, too"


@each_command
async def test_its_reads_are_counted_once(running: Running, name: str) -> None:
    db = running.server.store.databases[0]
    await replies(running, "MULTI", REQUESTS[name], "EXEC")
    hits, misses = db.hits, db.misses
    await rest(await begun(running, name))
    assert (db.hits, db.misses) == (2 * hits, 2 * misses)


@each_storing_command
async def test_a_transaction_that_watches_the_result_fails(running: Running, name: str) -> None:
    other = await running.connect()
    for line in ("WATCH d", "MULTI", "SET k v"):
        other.send(*line.split())
    await other.expect(b"+OK\r\n+OK\r\n+QUEUED\r\n")
    working = await begun(running, name)
    other.send("EXEC")
    await rest(working)
    assert await rest(other) == b"*-1\r\n"


@each_storing_command
async def test_it_is_logged_before_what_was_written_meanwhile(name: str, tmp_path: Path) -> None:
    async with running_server(dir=bytes(tmp_path), appendonly=True) as running:
        fill(running)
        other = await running.connect()
        working = await begun(running, name)
        other.send("SET", "after", "v")
        assert (await rest(working)).startswith(b":")
        await other.expect(b"+OK\r\n")
    (log,) = tmp_path.glob("appendonlydir/*.incr.aof")
    content = log.read_bytes()
    first_word = name.encode()
    assert content.count(first_word + b"\r\n") == 1
    assert 0 < content.index(first_word) < content.index(b"after")


@each_command
async def test_a_long_command_waits_for_it(running: Running, name: str) -> None:
    once = await replies(running, "SUNIONCARD 2 s t", "SINTERCARD 2 s u", "MULTI", REQUESTS[name], "EXEC", "DEL d")
    monitor = await running.connect()
    monitor.send("MONITOR")
    await monitor.expect(b"+OK\r\n")
    others = [await running.connect() for _ in range(2)]
    working = await begun(running, name)
    others[0].send("SUNIONCARD", "2", "s", "t")
    others[1].send("SINTERCARD", "2", "s", "s")
    in_slices = await rest(working)
    waited = [await rest(other) for other in others]
    assert once.startswith(b"".join([*waited, b"+OK\r\n+QUEUED\r\n*1\r\n", in_slices]))
    shown = await monitor.reader.readuntil(b"--end")
    shown += b"".join([await monitor.reader.readuntil(b"--end") for _ in others])
    assert shown.count(b'"SUNIONCARD" "2"') == 1 + (name == "SUNIONCARD")


@each_command
async def test_its_client_leaves(running: Running, name: str) -> None:
    other = await running.connect()
    working = await begun(running, name)
    working.writer.close()
    other.send("SET", "k", "v")
    await other.expect(b"+OK\r\n")
    other.send("EXISTS", "d")
    await other.expect(b":0\r\n")
    assert not is_busy(running)


@each_command
@pytest.mark.parametrize(
    ("act", "end", "after"),
    [
        ("CLIENT KILL TYPE normal SKIPME yes", b"", b"+OK\r\n"),
        (
            "REPLICAOF 127.0.0.1 1",
            b"-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)\r\n",
            b"-READONLY You can't write against a read only replica.\r\n",
        ),
    ],
)
async def test_what_ends_the_wait_ends_it(running: Running, name: str, act: str, end: bytes, after: bytes) -> None:
    other = await running.connect()
    working = await begun(running, name)
    other.send(*act.split())
    await other.line()
    await working.expect(end)
    await working.expect_end()
    other.send("SET", "k", "v")
    await other.expect(after)
    other.send("EXISTS", "d")
    await other.expect(b":0\r\n")
    assert not is_busy(running)


@each_command
async def test_a_stop_does_not_wait_for_it(running: Running, name: str) -> None:
    working = await begun(running, name)
    await running.server.stop()
    await working.expect_end()


@each_command
async def test_an_error_of_a_step_is_the_reply(running: Running, name: str) -> None:
    def failing() -> Steps:
        yield
        raise IndexError

    working = await begun(running, name)
    work = running.server.long_commands.work
    assert work is not None
    work.steps = failing()
    assert await rest(working) == b"-ERR internal error\r\n"
    assert await replies(running, "EXISTS d", "SET k v") == b":0\r\n+OK\r\n"


@each_command
async def test_reply_off_stays_off(running: Running, name: str) -> None:
    """The client that waits for another command gets no reply either."""
    working = await begun(running, name)
    other = await running.connect()
    other.send("CLIENT", "REPLY", "SKIP")
    other.send("SUNIONCARD", "1", "s")
    assert await rest(working)
    assert await rest(other) == b""
