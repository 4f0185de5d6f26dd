"""taskiq-redis: `python taskiq_lists.py URL` sends a task through a list, and reads its result."""

from __future__ import annotations

import asyncio
import sys

from taskiq.receiver import Receiver
from taskiq_redis import ListQueueBroker, RedisAsyncResultBackend


async def main() -> None:
    broker = ListQueueBroker(sys.argv[1]).with_result_backend(RedisAsyncResultBackend(sys.argv[1]))

    @broker.task
    async def add(left: int, right: int) -> int:
        return left + right

    await broker.startup()
    task = await add.kiq(1, 2)
    receiver = Receiver(broker)
    async with asyncio.timeout(60):
        async for message in broker.listen():
            await receiver.callback(message)
            break
    assert (await task.wait_result(timeout=30)).return_value == 3
    await broker.shutdown()


asyncio.run(main())
