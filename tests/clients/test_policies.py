"""Frameworks in groups with policies: nothing in their programs changes. Redis has no policies."""

# No `from __future__ import annotations`: FastStream reads the annotations of handlers.

import asyncio
from collections.abc import AsyncIterator

import pytest
import redis.asyncio

from support.clients import require_client
from support.servers import Server

require_client("faststream")
require_client("taskiq_redis")

from faststream import AckPolicy  # noqa: E402
from faststream.redis import RedisBroker, StreamSub  # noqa: E402
from taskiq import AckableMessage, BrokerMessage  # noqa: E402
from taskiq_redis import RedisStreamBroker  # noqa: E402

DEADLINE_S = 30
POLL_MS = 10
# Short, because time is the real one here.
IDLE_MS = 1


@pytest.fixture
async def raw(headrace: Server) -> AsyncIterator[redis.asyncio.Redis]:
    """A client that sets policies, and sees what becomes of entries."""
    async with redis.asyncio.Redis(port=headrace.port, protocol=2) as client:
        yield client


async def until_pending(raw: redis.asyncio.Redis, stream: str, group: str, count: int) -> None:
    """Return when so many entries are pending."""
    async with asyncio.timeout(DEADLINE_S):
        while (await raw.xpending(stream, group))["pending"] != count:
            pass


# -- FastStream ----------------------------------------------------------------------------------------


@pytest.fixture
async def broker(headrace: Server) -> AsyncIterator[RedisBroker]:
    """A broker without subscribers, not started."""
    own = RedisBroker(f"redis://127.0.0.1:{headrace.port}", logger=None)
    yield own
    await own.stop()


async def test_faststream_without_min_idle_time_is_given_what_a_dead_worker_left(
    broker: RedisBroker, raw: redis.asyncio.Redis
) -> None:
    handled: asyncio.Queue[str] = asyncio.Queue()

    @broker.subscriber(stream=StreamSub("orders", group="packers", consumer="worker-2", polling_interval=POLL_MS))
    async def worker(order: str) -> None:
        await handled.put(order)

    await raw.xgroup_create("orders", "packers", "0", mkstream=True)
    await raw.execute_command("XGROUP CONFIG", "orders", "packers", "REDELIVER", IDLE_MS, "GUARD", "yes")
    await broker.connect()
    await broker.publish("tea", stream="orders")
    async with redis.asyncio.Redis(port=broker_port(raw), protocol=2) as dying:
        await dying.xreadgroup("packers", "worker-1", {"orders": ">"})
    await broker.start()
    async with asyncio.timeout(DEADLINE_S):
        assert await handled.get() == "tea"
    await until_pending(raw, "orders", "packers", 0)


def broker_port(raw: redis.asyncio.Redis) -> int:
    """The port of the server."""
    return int(raw.connection_pool.connection_kwargs["port"])


async def test_a_faststream_handler_that_always_fails_makes_a_dead_letter(
    broker: RedisBroker, raw: redis.asyncio.Redis
) -> None:
    attempts: list[str] = []

    @broker.subscriber(
        stream=StreamSub("orders", group="packers", consumer="worker", polling_interval=POLL_MS),
        ack_policy=AckPolicy.NACK_ON_ERROR,
    )
    async def worker(order: str) -> None:
        attempts.append(order)
        raise ConnectionError

    await raw.xgroup_create("orders", "packers", "0", mkstream=True)
    policy = ("REDELIVER", IDLE_MS, "MAX-DELIVERIES", 3, "DEADLETTER", "orders:dead")
    await raw.execute_command("XGROUP CONFIG", "orders", "packers", *policy)
    await broker.start()
    await broker.publish("tea", stream="orders")
    async with asyncio.timeout(DEADLINE_S):
        while not await raw.xlen("orders:dead"):
            pass
    assert attempts == ["tea"] * 3
    ((_, fields),) = await raw.xrange("orders:dead")
    ((entry_id, _),) = await raw.xrange("orders")
    assert (fields[b"_id"], fields[b"_deliveries"], fields[b"_consumer"]) == (entry_id, b"3", b"worker")
    await until_pending(raw, "orders", "packers", 0)


# -- taskiq --------------------------------------------------------------------------------------------


def worker_of(server: Server, name: str) -> RedisStreamBroker:
    """A worker's broker that takes over what has been pending for a millisecond."""
    return RedisStreamBroker(
        f"redis://127.0.0.1:{server.port}", consumer_name=name, idle_timeout=IDLE_MS, xread_block=10, xread_count=1
    )


def task(name: str) -> BrokerMessage:
    """A task as a client sends it."""
    return BrokerMessage(task_id=name, task_name=name, message=name.encode(), labels={})


async def receive(broker: RedisStreamBroker, count: int) -> list[AckableMessage]:
    """What a worker gets to do next."""
    async with asyncio.timeout(DEADLINE_S):
        received: list[AckableMessage] = []
        async for message in broker.listen():
            received.append(message)
            if len(received) == count:
                break
        return received


@pytest.mark.parametrize("policy", ["GUARD yes", "GUARD yes REDELIVER 1"])
async def test_a_taskiq_task_that_outlives_the_idle_limit_runs_once_under_guard(
    policy: str, headrace: Server, raw: redis.asyncio.Redis
) -> None:
    first, second = worker_of(headrace, "worker-1"), worker_of(headrace, "worker-2")
    await first.startup()
    await second.startup()
    await raw.execute_command("XGROUP CONFIG", "taskiq", "taskiq", *policy.split())
    await first.kick(task("long"))
    (long,) = await receive(first, 1)
    for name in ("a", "b"):
        await first.kick(task(name))
    # The second worker searches for idle tasks after each task, and finds none.
    received = await receive(second, 2)
    assert [message.data for message in received] == [b"a", b"b"]
    for message in (long, *received):
        await message.ack()
    await until_pending(raw, "taskiq", "taskiq", 0)
    await second.shutdown()
    await first.shutdown()


async def test_a_taskiq_task_of_a_worker_that_died_runs_again_under_guard(
    headrace: Server, raw: redis.asyncio.Redis
) -> None:
    first, second = worker_of(headrace, "worker-1"), worker_of(headrace, "worker-2")
    await first.startup()
    await second.startup()
    await raw.execute_command("XGROUP CONFIG", "taskiq", "taskiq", "GUARD", "yes", "REDELIVER", IDLE_MS)
    await first.kick(task("long"))
    await receive(first, 1)
    await first.shutdown()
    (long,) = await receive(second, 1)
    assert long.data == b"long"
    await long.ack()
    await until_pending(raw, "taskiq", "taskiq", 0)
    await second.shutdown()
