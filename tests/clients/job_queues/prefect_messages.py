"""prefect-redis: `python prefect_messages.py URL` publishes messages; one fails, is tried again and given up."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

os.environ["PREFECT_REDIS_MESSAGING_URL"] = sys.argv[1]

from prefect.server.utilities.messaging import StopConsumer
from prefect_redis.messaging import Cache, Consumer, Publisher

MESSAGES = ["one", "bad", "two", "last"]


async def main() -> None:
    consumer, received = Consumer("topic", max_retries=1), list[str]()

    async def handle(message: Any) -> None:
        text = message.data if isinstance(message.data, str) else message.data.decode()
        received.append(text)
        if text == "last":
            raise StopConsumer(ack=True)
        if text == "bad":
            raise ValueError("as it should")

    async with Publisher("topic", Cache("topic")) as publisher:
        for text in MESSAGES:
            await publisher.publish_data(text.encode(), {"kind": "test"})
    await asyncio.wait_for(consumer.run(handle), 60)
    assert received[0] == "one"
    assert "bad" in received


asyncio.run(main())
