"""Groups that look after themselves, as unchanged clients see them: loops of redis-py, and requests of other clients.

The server is on a port of this process, and its clock is the test's. Redis has none of these policies.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis.asyncio

from support.inprocess import Clock, Running, running_server

DEADLINE_S = 20
ENTRY_ID = re.compile(r"\d+-\d+")


def ids(reply: Any) -> list[str]:
    """All entry IDs of a reply in RESP2 or RESP3, in order."""
    if isinstance(reply, str):
        return [reply] if ENTRY_ID.fullmatch(reply) else []
    if isinstance(reply, dict):
        return [one for pair in reply.items() for part in pair for one in ids(part)]
    return [one for part in reply for one in ids(part)] if isinstance(reply, list | tuple) else []


class Scene:
    """The stream `orders` with the group `packers`."""

    def __init__(self, running: Running, clock: Clock, protocol: int) -> None:
        self.running = running
        self.clock = clock
        self.protocol = protocol
        self.client = self.connect()

    def connect(self) -> redis.asyncio.Redis:
        """A client that uses one connection."""
        return redis.asyncio.Redis(
            port=self.running.port, protocol=self.protocol, decode_responses=True, single_connection_client=True
        )

    async def prepare(self, policy: str, *, count: int = 1) -> None:
        """Create the group with a policy, and add entries 1-0, 2-0, ..."""
        await self.client.xgroup_create("orders", "packers", "0", mkstream=True)
        if policy:
            assert await self.client.execute_command("XGROUP CONFIG", "orders", "packers", *policy.split()) in (
                b"OK",
                "OK",
            )
        for number in range(1, count + 1):
            await self.client.xadd("orders", {"item": "tea"}, id=f"{number}-0")

    async def read(self, client: redis.asyncio.Redis, consumer: str, **options: Any) -> list[str]:
        """What a plain read gives."""
        return ids(await client.xreadgroup("packers", consumer, {"orders": ">"}, **options))

    def pass_time(self, ms: int) -> None:
        """Let time pass, and run what is due."""
        self.clock.advance(ms)
        self.running.server.turns.run_timers()

    async def blocked(self, waiting: Any) -> asyncio.Task[Any]:
        """Start a request that blocks. Returns when the server lets it wait."""
        task = asyncio.ensure_future(waiting)
        async with asyncio.timeout(DEADLINE_S):
            while not self.running.server.dispatcher.waiters.by_client:
                assert not task.done(), task.result()
                await asyncio.sleep(0)
        return task


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
async def scene(request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    clock = Clock()
    async with running_server(clock=clock) as running:
        made = Scene(running, clock, request.param)
        yield made
        await made.client.aclose()


# -- loops of redis-py ---------------------------------------------------------------------------------


async def test_a_plain_loop_is_given_what_a_dead_worker_left(scene: Scene) -> None:
    await scene.prepare("REDELIVER 60000", count=2)
    dying = scene.connect()
    assert await scene.read(dying, "ann") == ["1-0", "2-0"]
    await dying.aclose()
    assert await scene.read(scene.client, "bob") == []
    waiting = await scene.blocked(scene.read(scene.client, "bob", block=600_000))
    scene.pass_time(60_000)
    assert await waiting == ["1-0", "2-0"]
    assert await scene.client.xack("orders", "packers", "1-0", "2-0") == 2
    scene.pass_time(60_000)
    assert await scene.read(scene.client, "bob") == []


async def test_work_that_outlives_the_idle_time_is_done_once_under_guard(scene: Scene) -> None:
    await scene.prepare("REDELIVER 60000 GUARD yes")
    slow = scene.connect()
    assert await scene.read(slow, "ann") == ["1-0"]
    scene.pass_time(3_600_000)
    assert await scene.read(scene.client, "bob") == []
    assert ids(await scene.client.xautoclaim("orders", "packers", "bob", 60_000)) == ["0-0"]
    assert await slow.xack("orders", "packers", "1-0") == 1
    await slow.aclose()
    assert await scene.read(scene.client, "bob") == []


async def test_a_guarded_worker_that_dies_is_replaced_at_once(scene: Scene) -> None:
    await scene.prepare("REDELIVER 60000 GUARD yes")
    slow = scene.connect()
    assert await scene.read(slow, "ann") == ["1-0"]
    scene.pass_time(60_000)
    waiting = await scene.blocked(scene.read(scene.client, "bob", block=600_000))
    await slow.aclose()
    async with asyncio.timeout(DEADLINE_S):
        assert await waiting == ["1-0"]


async def test_an_entry_that_always_fails_ends_in_the_dead_letter_stream(scene: Scene) -> None:
    await scene.prepare("REDELIVER 60000 MAX-DELIVERIES 3 DEADLETTER orders:dead")
    watcher = scene.connect()
    letters = await scene.blocked(watcher.xread({"orders:dead": "$"}, block=600_000))
    attempts = 0
    while await scene.read(scene.client, "ann"):
        attempts += 1
        assert await scene.client.xnack("orders", "packers", "FAIL", "1-0") == 1
    assert attempts == 3
    async with asyncio.timeout(DEADLINE_S):
        assert ids(await letters)[1:] == ["1-0"]  # the first one is the ID of the dead letter
    ((_, fields),) = await scene.client.xrange("orders:dead")
    assert fields == {
        "item": "tea", "_stream": "orders", "_id": "1-0", "_group": "packers", "_consumer": "ann",
        "_deliveries": "3", "_reason": "deliveries", "_time_ms": str(scene.clock()),
    }  # fmt: skip
    assert (await scene.client.xpending("orders", "packers"))["pending"] == 0
    await watcher.aclose()


async def test_an_entry_whose_workers_all_die_ends_in_the_dead_letter_stream(scene: Scene) -> None:
    await scene.prepare("REDELIVER 60000 MAX-DELIVERIES 2 DEADLETTER orders:dead")
    for consumer in ("ann", "bob"):
        assert await scene.read(scene.client, consumer) == ["1-0"]
        scene.pass_time(60_000)
    assert await scene.read(scene.client, "cleo") == []
    assert await scene.client.xlen("orders:dead") == 1


async def test_attempts_are_as_far_apart_as_the_policy_says(scene: Scene) -> None:
    await scene.prepare("REDELIVER 3600000 BACKOFF 1000,10000,60000")
    began_ms, times_ms = scene.clock(), []
    for _ in range(5):
        waiting = asyncio.ensure_future(scene.read(scene.client, "ann", block=3_600_000))
        if times_ms:
            waiting = await scene.blocked(waiting)
            scene.pass_time([1000, 10_000, 60_000, 60_000][len(times_ms) - 1] - 1)
            assert not waiting.done()
            scene.pass_time(1)
        assert await waiting == ["1-0"]
        times_ms.append(scene.clock() - began_ms)
        assert await scene.client.xnack("orders", "packers", "FAIL", "1-0") == 1
    assert times_ms == [0, 1000, 11_000, 71_000, 131_000]


async def test_a_worker_puts_an_entry_off(scene: Scene) -> None:
    await scene.prepare("REDELIVER 3600000")
    assert await scene.read(scene.client, "ann") == ["1-0"]
    words = ("XNACK", "orders", "packers", "FAIL", "IDS", 1, "1-0", "DELAY", 5000)
    assert await scene.client.execute_command(*words) == 1
    (row,) = await scene.client.xpending_range("orders", "packers", "-", "+", 10)
    assert (row["consumer"], row["times_delivered"]) == ("", 1)
    assert await scene.read(scene.client, "ann") == []
    scene.pass_time(5000)
    assert await scene.read(scene.client, "ann") == ["1-0"]


async def test_a_worker_is_given_no_more_than_it_may_have(scene: Scene) -> None:
    await scene.prepare("MAX-PENDING 2", count=3)
    assert await scene.read(scene.client, "ann", count=10) == ["1-0", "2-0"]
    waiting = await scene.blocked(scene.read(scene.client, "ann", count=10, block=600_000))
    other = scene.connect()
    assert await other.xack("orders", "packers", "1-0") == 1
    async with asyncio.timeout(DEADLINE_S):
        assert await waiting == ["3-0"]
    await other.aclose()


async def test_an_entry_for_later_is_given_to_each_group_when_its_time_has_come(scene: Scene) -> None:
    await scene.prepare("", count=0)
    await scene.client.xgroup_create("orders", "auditors", "0")
    await scene.client.execute_command("XADD", "orders", "DELAY", 5000, "1-0", "item", "tea")
    await scene.client.xadd("orders", {"item": "rum"}, id="2-0")
    assert await scene.client.xlen("orders") == 2
    assert await scene.read(scene.client, "ann") == ["2-0"]
    waiting = await scene.blocked(scene.read(scene.client, "ann", block=600_000))
    scene.pass_time(5000)
    assert await waiting == ["1-0"]
    assert ids(await scene.client.xreadgroup("auditors", "eve", {"orders": ">"})) == ["1-0", "2-0"]


async def test_dead_letters_are_given_back_to_a_plain_loop(scene: Scene) -> None:
    await scene.prepare("REDELIVER 60000 MAX-DELIVERIES 1 DEADLETTER orders:dead", count=2)
    assert await scene.read(scene.client, "ann") == ["1-0", "2-0"]
    assert await scene.client.xnack("orders", "packers", "FAIL", "1-0", "2-0") == 2
    assert await scene.read(scene.client, "ann") == []
    waiting = await scene.blocked(scene.read(scene.client, "ann", block=600_000))
    other = scene.connect()
    assert await other.execute_command("XREDRIVE", "orders:dead", "COUNT", 1) == [1, []]
    async with asyncio.timeout(DEADLINE_S):
        assert await waiting == ["1-0"]
    assert await scene.client.xlen("orders:dead") == 1
    await other.aclose()


async def test_entries_of_one_customer_are_packed_in_order_by_any_number_of_workers(scene: Scene) -> None:
    await scene.prepare("ORDER-BY item", count=3)  # all of one item
    await scene.client.xadd("orders", {"item": "rum"}, id="4-0")
    other = scene.connect()
    assert await scene.read(scene.client, "ann") == ["1-0", "4-0"]
    waiting = await scene.blocked(scene.read(other, "bob", block=600_000))
    assert await scene.client.xack("orders", "packers", "1-0") == 1
    async with asyncio.timeout(DEADLINE_S):
        assert await waiting == ["2-0"]
    assert await scene.read(scene.client, "ann") == []
    assert await other.xack("orders", "packers", "2-0") == 1
    assert await scene.read(scene.client, "ann") == ["3-0"]
    await other.aclose()


async def test_a_consumer_that_is_gone_is_deleted_and_loses_nothing(scene: Scene) -> None:
    await scene.prepare("CONSUMER-TTL 3600000 REDELIVER 86400000")
    dying, alive = scene.connect(), scene.connect()
    assert await scene.read(dying, "ann") == ["1-0"]
    assert await scene.read(alive, "bob") == []
    await dying.aclose()
    waiting = await scene.blocked(scene.read(scene.client, "cleo", block=7_200_000))
    scene.pass_time(3_600_000)
    async with asyncio.timeout(DEADLINE_S):
        assert await waiting == ["1-0"]
    names = {row["name"] for row in await alive.xinfo_consumers("orders", "packers")}
    assert names == {"bob", "cleo"}
    await alive.aclose()


async def test_a_client_that_sets_nothing_has_what_the_configuration_gives_new_groups(scene: Scene) -> None:
    await scene.client.config_set("stream-group-defaults", "orders* REDELIVER 60000")
    await scene.prepare("")
    assert await scene.read(scene.client, "ann") == ["1-0"]
    scene.pass_time(60_000)
    assert await scene.read(scene.client, "bob") == ["1-0"]


# -- requests of other clients -------------------------------------------------------------------------


class Raw:
    """A connection that sends the words of a client as they are."""

    def __init__(self, scene: Scene) -> None:
        self._connection = redis.asyncio.Connection(
            port=scene.running.port, protocol=scene.protocol, decode_responses=True
        )

    async def ask(self, line: str) -> Any:
        """The reply to a request, as it is in its protocol."""
        await self._connection.send_command(*line.split())
        return await self._connection.read_response()

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.disconnect()


async def test_dapr_is_given_failed_messages_again_without_its_own_search(scene: Scene) -> None:
    """Dapr's pub/sub component: a failed handler leaves its message pending. With `redeliverInterval` it searches every
    so often with XPENDING and XCLAIM; with 0 it does not, and with Redis the message stays pending for ever.
    """
    await scene.prepare("REDELIVER 60000 MAX-DELIVERIES 3 DEADLETTER orders:dead")
    dapr = Raw(scene)
    read = "XREADGROUP GROUP packers dapr-1 COUNT 10 BLOCK 1 STREAMS orders >"
    for _ in range(3):
        assert ids(await dapr.ask(read)) == ["1-0"]
        scene.pass_time(60_000)
    assert ids(await dapr.ask("XRANGE orders:dead - +"))[1:] == ["1-0"]
    assert await dapr.ask("XPENDING orders packers") == [0, None, None, None]
    await dapr.close()


async def test_daprs_own_search_works_as_before_in_a_group_with_a_policy(scene: Scene) -> None:
    await scene.prepare("REDELIVER 60000 GUARD yes", count=2)
    dead, dapr = Raw(scene), Raw(scene)
    assert ids(await dead.ask("XREADGROUP GROUP packers dapr-1 COUNT 10 STREAMS orders >")) == ["1-0", "2-0"]
    await dead.close()
    scene.pass_time(15_000)
    rows = await dapr.ask("XPENDING orders packers - + 100")
    assert [(row[0], row[1], row[2], row[3]) for row in rows] == [
        ("1-0", "dapr-1", 15_000, 1),
        ("2-0", "dapr-1", 15_000, 1),
    ]
    assert ids(await dapr.ask("XCLAIM orders packers dapr-2 15000 1-0 2-0")) == ["1-0", "2-0"]
    for entry_id in ("1-0", "2-0"):
        assert await dapr.ask(f"XACK orders packers {entry_id}") == 1
    await dapr.close()


async def test_watermill_loses_nothing_when_it_deletes_a_consumer_too_late(scene: Scene) -> None:
    """Watermill's subscriber lists consumers, and deletes those that are idle and have nothing pending. Between both
    requests the consumer may read: with Redis its entries are lost.
    """
    await scene.prepare("REDELIVER 60000 ON-DELCONSUMER release", count=0)
    cleaner, slow = Raw(scene), Raw(scene)
    assert await slow.ask("XREADGROUP GROUP packers old COUNT 1 STREAMS orders >") in (None, {})
    scene.pass_time(600_000)
    await cleaner.ask("XINFO CONSUMERS orders packers")  # nothing is pending
    await cleaner.ask("XADD orders 1-0 payload tea")
    assert ids(await slow.ask("XREADGROUP GROUP packers old COUNT 1 STREAMS orders >")) == ["1-0"]
    assert await cleaner.ask("XGROUP DELCONSUMER orders packers old") == 1
    assert ids(await cleaner.ask("XREADGROUP GROUP packers new COUNT 1 BLOCK 100 STREAMS orders >")) == ["1-0"]
    assert await cleaner.ask("XACK orders packers 1-0") == 1
    await slow.close()
    await cleaner.close()


async def test_watermills_claims_leave_a_guarded_worker_its_entry(scene: Scene) -> None:
    """It searches for idle entries with XPENDING IDLE, and claims each with XCLAIM and the same idle time."""
    await scene.prepare("GUARD yes")
    slow, other = Raw(scene), Raw(scene)
    assert ids(await slow.ask("XREADGROUP GROUP packers ann COUNT 1 BLOCK 100 STREAMS orders >")) == ["1-0"]
    scene.pass_time(60_000)
    assert ids(await other.ask("XPENDING orders packers IDLE 60000 0 + 100")) == ["1-0"]
    assert await other.ask("XCLAIM orders packers bob 60000 1-0") == []
    await slow.close()
    async with asyncio.timeout(DEADLINE_S):
        while not ids(await other.ask("XCLAIM orders packers bob 60000 1-0")):
            await asyncio.sleep(0)
    await other.close()
