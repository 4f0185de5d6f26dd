"""redis-py, asyncio: the same features, with reads that block while other tasks run."""

from __future__ import annotations

import asyncio

import pytest
import redis
import redis.asyncio

from support.servers import Server

DEADLINE_S = 30


async def wait_until_blocked(control: redis.asyncio.Redis, count: int) -> None:
    """Return when so many clients are blocked."""
    async with asyncio.timeout(DEADLINE_S):
        while (await control.info("clients"))["blocked_clients"] < count:
            pass


async def test_a_group_delivers_and_acknowledges(async_client: redis.asyncio.Redis) -> None:
    await async_client.xgroup_create("s", "g", id="0", mkstream=True)
    ids = [await async_client.xadd("s", {"n": number}) for number in range(4)]
    await async_client.xreadgroup("g", "alice", {"s": ">"})
    assert await async_client.xack("s", "g", *ids) == 4
    assert (await async_client.xpending("s", "g"))["pending"] == 0


async def test_waiting_consumers_share_what_comes(async_client: redis.asyncio.Redis) -> None:
    await async_client.xgroup_create("s", "g", id="$", mkstream=True)
    readers = [
        asyncio.create_task(async_client.xreadgroup("g", name, {"s": ">"}, count=1, block=30_000))
        for name in ("alice", "bob", "carol")
    ]
    await wait_until_blocked(async_client, 3)
    ids = [await async_client.xadd("s", {"n": number}) for number in range(3)]
    async with asyncio.timeout(DEADLINE_S):
        await asyncio.gather(*readers)
    pending = await async_client.xpending_range("s", "g", "-", "+", 10)
    assert [row["message_id"] for row in pending] == ids
    assert {row["consumer"] for row in pending} == {"alice", "bob", "carol"}


async def test_a_reader_that_is_cancelled_takes_nothing(async_client: redis.asyncio.Redis, server: Server) -> None:
    await async_client.xgroup_create("s", "g", id="$", mkstream=True)
    async with redis.asyncio.Redis(port=server.port) as other:
        reader = asyncio.create_task(other.xreadgroup("g", "gone", {"s": ">"}, block=30_000))
        await wait_until_blocked(async_client, 1)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
    async with asyncio.timeout(DEADLINE_S):
        while (await async_client.info("clients"))["blocked_clients"]:
            pass
    await async_client.xadd("s", {"f": "v"})
    assert (await async_client.xpending("s", "g"))["pending"] == 0


async def test_a_pipeline_transaction_answers_in_order(async_client: redis.asyncio.Redis) -> None:
    async with async_client.pipeline(transaction=True) as pipe:
        pipe.xadd("s", {"f": "v"}, id="1-1")
        pipe.xlen("s")
        assert await pipe.execute() == ["1-1", 1]


async def test_a_watched_stream_that_changes_fails_the_transaction(async_client: redis.asyncio.Redis) -> None:
    async with async_client.pipeline() as pipe:
        await pipe.watch("s")
        await async_client.xadd("s", {"f": "v"})
        pipe.multi()
        pipe.set("k", "v")
        with pytest.raises(redis.WatchError):
            await pipe.execute()
    assert await async_client.get("k") is None
