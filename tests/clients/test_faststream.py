"""FastStream's RedisBroker: groups, batches, and claiming by `min_idle_time` and `claim_min_idle_time`."""

# No `from __future__ import annotations`: FastStream reads the annotations of handlers.

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis.asyncio

from support.clients import require_client
from support.servers import Server

require_client("faststream")

from faststream import AckPolicy  # noqa: E402
from faststream.redis import RedisBroker, RedisStreamMessage, StreamSub  # noqa: E402

DEADLINE_S = 30
POLL_MS = 10


@pytest.fixture
async def broker(server: Server) -> AsyncIterator[RedisBroker]:
    """A broker without subscribers, not started."""
    own = RedisBroker(f"redis://127.0.0.1:{server.port}", logger=None)
    yield own
    await own.stop()


@pytest.fixture
async def raw(server: Server) -> AsyncIterator[redis.asyncio.Redis]:
    """A client besides the broker, to see the broker's changes."""
    async with redis.asyncio.Redis(port=server.port, protocol=2) as client:
        yield client


async def until_pending(raw: redis.asyncio.Redis, stream: str, group: str, count: int) -> None:
    """Return when so many entries are pending."""
    async with asyncio.timeout(DEADLINE_S):
        while (await raw.xpending(stream, group))["pending"] != count:
            pass


async def leave_pending(broker: RedisBroker, raw: redis.asyncio.Redis, *orders: str) -> None:
    """Orders that worker-1 has read, and then died."""
    await raw.xgroup_create("orders", "order-processors", "0", mkstream=True)
    for order in orders:
        await broker.publish(order, stream="orders")
    await raw.xreadgroup("order-processors", "worker-1", {"orders": ">"})


async def test_every_entry_is_handled_and_acknowledged(broker: RedisBroker, raw: redis.asyncio.Redis) -> None:
    handled: asyncio.Queue[Any] = asyncio.Queue()

    @broker.subscriber(stream=StreamSub("orders", group="g", consumer="worker", polling_interval=POLL_MS))
    async def handle(order: dict[str, int]) -> None:
        await handled.put(order)

    await broker.start()
    for number in range(3):
        await broker.publish({"number": number}, stream="orders")
    async with asyncio.timeout(DEADLINE_S):
        assert [await handled.get() for _ in range(3)] == [{"number": number} for number in range(3)]
    await until_pending(raw, "orders", "g", 0)


async def test_what_a_worker_left_is_claimed_and_acknowledged(broker: RedisBroker, raw: redis.asyncio.Redis) -> None:
    handled: asyncio.Queue[str] = asyncio.Queue()
    sub = StreamSub("orders", group="order-processors", consumer="worker-2", min_idle_time=1, polling_interval=POLL_MS)

    @broker.subscriber(stream=sub)
    async def backup_worker(order_id: str) -> None:
        await handled.put(order_id)

    await broker.connect()
    await leave_pending(broker, raw, "tea", "rum", "ale")
    await broker.start()
    async with asyncio.timeout(DEADLINE_S):
        assert {await handled.get() for _ in range(3)} == {"tea", "rum", "ale"}
    await until_pending(raw, "orders", "order-processors", 0)


async def test_a_claimed_entry_stays_pending_until_it_is_acknowledged(
    broker: RedisBroker, raw: redis.asyncio.Redis
) -> None:
    """The circular scan brings it back, one delivery more each time, until the handler is content."""
    counts: list[int] = []
    acknowledged = asyncio.Event()
    sub = StreamSub("orders", group="order-processors", consumer="worker-2", min_idle_time=1, polling_interval=POLL_MS)

    @broker.subscriber(stream=sub, ack_policy=AckPolicy.MANUAL)
    async def backup_worker(order_id: str, message: RedisStreamMessage) -> None:
        counts.append(await message.get_delivery_count())
        if len(counts) == 3:
            await message.ack()
            acknowledged.set()

    await broker.connect()
    await leave_pending(broker, raw, "tea")
    await broker.start()
    async with asyncio.timeout(DEADLINE_S):
        await acknowledged.wait()
    assert counts == [2, 3, 4]
    await until_pending(raw, "orders", "order-processors", 0)


async def test_a_handler_that_fails_leaves_its_entry_to_the_next(broker: RedisBroker, raw: redis.asyncio.Redis) -> None:
    handled: asyncio.Queue[str] = asyncio.Queue()

    @broker.subscriber(
        stream=StreamSub("orders", group="order-processors", consumer="worker-1", polling_interval=POLL_MS),
        ack_policy=AckPolicy.NACK_ON_ERROR,
    )
    async def worker_that_fails(order_id: str) -> None:
        raise ConnectionError

    @broker.subscriber(
        stream=StreamSub(
            "orders", group="order-processors", consumer="worker-2", min_idle_time=1, polling_interval=POLL_MS
        )
    )
    async def backup_worker(order_id: str) -> None:
        await handled.put(order_id)

    await broker.start()
    await broker.publish("tea", stream="orders")
    async with asyncio.timeout(DEADLINE_S):
        assert await handled.get() == "tea"
    await until_pending(raw, "orders", "order-processors", 0)


async def test_one_subscriber_reads_new_entries_and_claims_old_ones(
    broker: RedisBroker, raw: redis.asyncio.Redis
) -> None:
    """`claim_min_idle_time` is XREADGROUP CLAIM: claimed entries first, each with its idle time and delivery count."""
    handled: asyncio.Queue[tuple[str, list[int]]] = asyncio.Queue()
    sub = StreamSub(
        "orders", group="order-processors", consumer="worker-2", claim_min_idle_time=1, polling_interval=POLL_MS
    )

    @broker.subscriber(stream=sub)
    async def worker(order_id: str, message: RedisStreamMessage) -> None:
        await handled.put((order_id, message.raw_message["delivery_counts"]))

    await broker.connect()
    await leave_pending(broker, raw, "tea")
    await broker.start()
    await broker.publish("rum", stream="orders")
    async with asyncio.timeout(DEADLINE_S):
        assert [await handled.get(), await handled.get()] == [("tea", [1]), ("rum", [0])]
    await until_pending(raw, "orders", "order-processors", 0)


async def test_a_batch_is_handled_and_acknowledged_as_one(broker: RedisBroker, raw: redis.asyncio.Redis) -> None:
    batches: asyncio.Queue[list[str]] = asyncio.Queue()
    sub = StreamSub("orders", group="g", consumer="worker", batch=True, max_records=2, last_id="0")

    @broker.subscriber(stream=sub)
    async def handle(orders: list[str]) -> None:
        await batches.put(orders)

    await broker.connect()
    for order in ("tea", "rum", "ale"):
        await broker.publish(order, stream="orders")
    await broker.start()
    async with asyncio.timeout(DEADLINE_S):
        assert [await batches.get(), await batches.get()] == [["tea", "rum"], ["ale"]]
    await until_pending(raw, "orders", "g", 0)


async def test_entries_are_read_one_by_one_without_a_handler(broker: RedisBroker, raw: redis.asyncio.Redis) -> None:
    subscriber = broker.subscriber(stream=StreamSub("orders", group="g", consumer="worker", last_id="0"))
    await broker.connect()
    await broker.publish("tea", stream="orders")
    await broker.start()
    message = await subscriber.get_one(timeout=DEADLINE_S)
    assert message is not None
    assert await message.decode() == "tea"
    await message.ack()
    await until_pending(raw, "orders", "g", 0)


async def test_publishing_keeps_the_stream_short(broker: RedisBroker, raw: redis.asyncio.Redis) -> None:
    await broker.connect()
    await raw.config_set("stream-node-max-entries", 1)
    for number in range(10):
        await broker.publish(number, stream="orders", maxlen=3)
    assert await raw.xlen("orders") == 3


async def test_a_request_gets_its_reply(broker: RedisBroker) -> None:
    """The reply comes over a channel that the broker makes for it."""

    @broker.subscriber(stream=StreamSub("orders", group="g", consumer="worker", polling_interval=POLL_MS))
    async def price(order: str) -> dict[str, int]:
        return {order: 3}

    await broker.start()
    message = await broker.request("tea", stream="orders", timeout=DEADLINE_S)
    assert await message.decode() == {"tea": 3}


async def test_what_a_handler_returns_is_published(broker: RedisBroker) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()

    @broker.subscriber(stream=StreamSub("orders", group="g", consumer="worker", polling_interval=POLL_MS))
    @broker.publisher(channel="packed")
    async def pack(order: str) -> str:
        return f"{order} is packed"

    @broker.subscriber(channel="packed")
    async def listen(text: str) -> None:
        await heard.put(text)

    await broker.start()
    await broker.publish("tea", stream="orders")
    async with asyncio.timeout(DEADLINE_S):
        assert await heard.get() == "tea is packed"
