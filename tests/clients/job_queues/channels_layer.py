"""channels_redis: `python channels_layer.py URL` sends to a channel and to a group, in the layer on sorted sets."""

from __future__ import annotations

import asyncio
import sys

from channels_redis.core import RedisChannelLayer


async def main() -> None:
    layer = RedisChannelLayer(hosts=[sys.argv[1]])
    async with asyncio.timeout(60):
        channel = await layer.new_channel()
        await layer.send(channel, {"type": "news", "number": 1})
        assert (await layer.receive(channel))["number"] == 1
        await layer.group_add("readers", channel)
        await layer.group_send("readers", {"type": "all"})
        assert (await layer.receive(channel))["type"] == "all"
        await layer.group_discard("readers", channel)
        await layer.flush()


asyncio.run(main())
