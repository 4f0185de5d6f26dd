"""Commands on large values, in slices: what other clients can do meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import pytest

from headrace.commands.clients.client import Client
from headrace.commands.execution.sliced_work import SlicedWork, Steps
from headrace.commands.execution.slices import LONG_COUNT
from headrace.store.companions.list_value import ListValue
from headrace.store.companions.set_value import SetValue
from headrace.store.database import Store
from headrace.store.events import DEL, SORTSTORE, SUNIONSTORE
from headrace.store.limits import Limits
from support.inprocess import Peer, Rig, Running, running_server

# So many that the steps outlast what other clients send in the tests.
COUNT: Final = 4 * LONG_COUNT

SORTED_COUNT_REPLY: Final = b":%d\r\n" % COUNT


def large_set(limits: Limits) -> SetValue:
    """A set of COUNT integers."""
    value = SetValue(limits)
    value.add_all([b"%d" % number for number in range(COUNT)])
    return value


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    """A server with a large list `l` of integers, descending, and a large set `s`."""
    async with running_server() as running:
        running.server.long_commands.slice_ns = 0
        context = running.server.context
        ascending = large_set(context.limits)
        descending = ListValue(context.limits)
        descending.elements.append([b"%d" % number for number in reversed(range(COUNT))])
        descending.settle_encoding()
        db = context.store.databases[0]
        db.overwrite(b"l", descending, SORTSTORE, 0)
        db.overwrite(b"s", ascending, SUNIONSTORE, 0)
        yield running


async def begun(running: Running, *words: str) -> Peer:
    """A client that waits for its long command."""
    peer = await running.connect()
    peer.send(*words)
    while running.server.dispatcher.pause.worker is None:
        await asyncio.sleep(0)
    return peer


def is_busy(running: Running) -> bool:
    return running.server.dispatcher.pause.worker is not None


async def test_other_clients_read_meanwhile(running: Running) -> None:
    other = await running.connect()
    sorting = await begun(running, "SORT", "l", "STORE", "d")
    other.send("LINDEX", "l", "0")
    await other.expect(b"$6\r\n%d\r\n" % (COUNT - 1))
    other.send("EXISTS", "d")
    await other.expect(b":0\r\n")
    assert is_busy(running)
    await sorting.expect(SORTED_COUNT_REPLY)
    other.send("LRANGE", "d", "0", "1")
    await other.expect(b"*2\r\n$1\r\n0\r\n$1\r\n1\r\n")
    assert not is_busy(running)


async def test_what_is_written_meanwhile_is_done_afterwards(running: Running) -> None:
    other = await running.connect()
    sorting = await begun(running, "SORT", "l", "STORE", "d")
    other.send("RPUSH", "l", "-1")
    other.send("LRANGE", "d", "0", "0")
    other.send("MULTI")
    other.send("RPUSH", "d", "x")
    other.send("EXEC")
    await sorting.expect(SORTED_COUNT_REPLY)
    await other.expect(b":%d\r\n*1\r\n$1\r\n0\r\n+OK\r\n+QUEUED\r\n*1\r\n:%d\r\n" % (COUNT + 1, COUNT + 1))


@pytest.mark.parametrize("name", ["SUNIONSTORE", "SINTERSTORE", "SDIFFSTORE"])
async def test_sets_are_combined_in_slices(running: Running, name: str) -> None:
    other = await running.connect()
    combining = await begun(running, name, "d", "s")
    other.send("PING")
    await other.expect(b"+PONG\r\n")
    assert is_busy(running)
    await combining.expect(SORTED_COUNT_REPLY)
    other.send("SISMEMBER", "d", "7")
    await other.expect(b":1\r\n")


async def test_a_long_command_waits_for_another_one(running: Running) -> None:
    other = await running.connect()
    sorting = await begun(running, "SORT", "l", "LIMIT", "0", "1")
    other.send("SORT_RO", "s", "DESC", "LIMIT", "0", "1")
    await sorting.expect(b"*1\r\n$1\r\n0\r\n")
    await other.expect(b"*1\r\n$6\r\n%d\r\n" % (COUNT - 1))


async def test_an_error_at_a_late_element_is_the_reply(running: Running) -> None:
    other = await running.connect()
    other.send("LSET", "l", "-1", "word")
    await other.expect(b"+OK\r\n")
    sorting = await begun(running, "SORT", "l", "STORE", "d")
    await sorting.expect(b"-ERR One or more scores can't be converted into double\r\n")
    other.send("SET", "d", "free")
    await other.expect(b"+OK\r\n")


async def test_writes_are_done_when_the_client_leaves(running: Running) -> None:
    other = await running.connect()
    sorting = await begun(running, "SORT", "l", "STORE", "d")
    sorting.writer.close()
    other.send("SET", "k", "v")
    await other.expect(b"+OK\r\n")
    other.send("EXISTS", "d")
    await other.expect(b":0\r\n")


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
async def test_what_ends_the_wait_of_the_client_ends_the_command(
    running: Running, act: str, end: bytes, after: bytes
) -> None:
    other = await running.connect()
    sorting = await begun(running, "SORT", "l", "STORE", "d")
    other.send(*act.split())
    await other.line()
    await sorting.expect(end)
    await sorting.expect_end()
    other.send("SET", "k", "v")
    await other.expect(after)
    assert not is_busy(running)


async def test_a_stop_does_not_wait_for_the_command(running: Running) -> None:
    sorting = await begun(running, "SORT", "l", "STORE", "d")
    await running.server.stop()
    await sorting.expect_end()


async def test_the_end_of_client_pause_is_waited_for(running: Running) -> None:
    other = await running.connect()
    sorting = await begun(running, "SORT", "l", "STORE", "d")
    other.send("CLIENT", "PAUSE", "100000", "WRITE")
    await other.expect(b"+OK\r\n")
    while not running.server.long_commands.is_done:
        await asyncio.sleep(0)
    other.send("EXISTS", "d")
    await other.expect(b":0\r\n")
    other.send("CLIENT", "UNPAUSE")
    await other.expect(b"+OK\r\n")
    await sorting.expect(SORTED_COUNT_REPLY)


async def test_what_was_removed_meanwhile_is_freed_afterwards(running: Running) -> None:
    """As the old dataset is where a snapshot of the primary has arrived."""
    server = running.server
    sorting = await begun(running, "SORT", "l", "LIMIT", "0", "1")
    server.store.databases[0].delete(b"l", DEL)
    removed_count = len(server.store.garbage)
    assert removed_count
    server.free()
    assert len(server.store.garbage) == removed_count
    # Run again after the last step, the command finds the new dataset.
    await sorting.expect(b"*0\r\n")


async def test_what_looks_at_few_members_is_one_step() -> None:
    rig = Rig()
    rig.server.store.databases[0].overwrite(b"s", large_set(rig.server.context.limits), SUNIONSTORE, 0)
    replies = rig.connect().call("SADD few 1", "SINTERSTORE d few s", "SDIFFSTORE d few s", "SORT s BY x LIMIT 0 0")
    assert replies == b":1\r\n:1\r\n:0\r\n*0\r\n"


def test_an_error_of_a_step_is_that_of_the_command() -> None:
    def steps() -> Steps:
        yield
        raise IndexError

    db = Store().databases[0]
    work = SlicedWork(Client(1, db=db), db, 0, [b"SORT", b"l"], steps())
    assert work.take_step()
    assert not work.take_step()
    with pytest.raises(IndexError):
        work.result()


async def test_its_time_is_that_of_all_slices(running: Running) -> None:
    other = await running.connect()
    sorting = await begun(running, "SORT", "l", "STORE", "d")
    await sorting.expect(SORTED_COUNT_REPLY)
    other.send("SLOWLOG", "GET", "1")
    lines = [await other.line() for _ in range(8)]
    assert int(lines[4][1:]) > 10_000, lines
    assert lines[-1] == b"SORT\r\n"


async def test_a_transaction_and_a_script_do_it_at_once(running: Running) -> None:
    peer = await running.connect()
    for words in (["MULTI"], ["SORT", "l", "STORE", "d"], ["EXEC"]):
        peer.send(*words)
    await peer.expect(b"+OK\r\n+QUEUED\r\n*1\r\n" + SORTED_COUNT_REPLY)
    peer.send("EVAL", "return redis.call('SUNIONSTORE', KEYS[1], KEYS[2])", "2", "d", "s")
    await peer.expect(SORTED_COUNT_REPLY)
    assert not is_busy(running)
