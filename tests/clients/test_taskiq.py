"""taskiq-redis' stream broker: tasks that are kicked, run, acknowledged, and taken over from a worker that died."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import redis.asyncio

from support.clients import require_client
from support.servers import Server

require_client("taskiq_redis")

from taskiq import AckableMessage, BrokerMessage  # noqa: E402
from taskiq_redis import RedisStreamBroker  # noqa: E402

DEADLINE_S = 30


@pytest.fixture
async def broker(server: Server) -> AsyncIterator[RedisStreamBroker]:
    """A worker's broker that takes over what has been pending for a millisecond."""
    own = RedisStreamBroker(
        f"redis://127.0.0.1:{server.port}", consumer_name="worker-2", idle_timeout=1, xread_block=10, xread_count=1
    )
    await own.startup()
    yield own
    await own.shutdown()


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


async def test_a_task_is_delivered_and_acknowledged(broker: RedisStreamBroker, server: Server) -> None:
    await broker.kick(task("send-mail"))
    (message,) = await receive(broker, 1)
    assert message.data == b"send-mail"
    async with redis.asyncio.Redis(port=server.port, protocol=2) as raw:
        assert (await raw.xpending("taskiq", "taskiq"))["pending"] == 1
        await message.ack()
        assert (await raw.xpending("taskiq", "taskiq"))["pending"] == 0


async def test_a_worker_takes_over_what_another_left(broker: RedisStreamBroker, server: Server) -> None:
    async with redis.asyncio.Redis(port=server.port, protocol=2) as raw:
        await broker.kick(task("left"))
        await raw.xreadgroup("taskiq", "worker-1", {"taskiq": ">"})
        await broker.kick(task("new"))
        new, left = await receive(broker, 2)
        assert (new.data, left.data) == (b"new", b"left")
        await left.ack()
        await new.ack()
        assert (await raw.xpending("taskiq", "taskiq"))["pending"] == 0
