"""Frameworks and libraries for Python that keep caches, limits or messages in a server: what each is used for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.clients import require_client
from support.servers import Server

DEADLINE_S = 30


def url(server: Server) -> str:
    return f"redis://127.0.0.1:{server.port}/0"


async def subscription(server: Server, channel: bytes) -> None:
    """Waits for a subscriber."""
    with server.connect() as wire:
        while wire.ask("PUBSUB", "NUMSUB", channel) == [channel, 0]:
            await asyncio.sleep(0)


async def test_managers_of_socketio_reach_each_others_rooms(server: Server) -> None:
    socketio = require_client("socketio")
    received: asyncio.Queue[Any] = asyncio.Queue()

    class Manager(socketio.AsyncRedisManager):
        async def _handle_emit(self, message: dict[str, Any]) -> None:
            await received.put((message["event"], message["data"], message["room"]))

    manager = Manager(url(server))
    manager.set_server(socketio.AsyncServer(client_manager=manager))
    manager.initialize()
    await subscription(server, b"socketio")
    async with asyncio.timeout(DEADLINE_S):
        await socketio.AsyncRedisManager(url(server), write_only=True).emit("news", "tea", room="packers")
        assert await received.get() == ("news", ["tea"], "packers")
    manager.thread.cancel()


async def test_channels_delivers_to_groups(server: Server) -> None:
    """The layer in `core` keeps channels in sorted sets: docs/clients.md."""
    require_client("channels_redis")
    from channels_redis.pubsub import RedisPubSubChannelLayer

    layer = RedisPubSubChannelLayer(hosts=[url(server)])
    async with asyncio.timeout(DEADLINE_S):
        channel = await layer.new_channel()
        await layer.group_add("packers", channel)
        await layer.group_send("packers", {"type": "order", "item": "tea"})
        assert await layer.receive(channel) == {"type": "order", "item": "tea"}
        await layer.send(channel, {"type": "order", "item": "rum"})
        assert await layer.receive(channel) == {"type": "order", "item": "rum"}
        await layer.group_discard("packers", channel)
        await layer.flush()


class TestDjangoRedis:
    @pytest.fixture
    def cache(self, server: Server) -> Any:
        require_client("django_redis")
        from django.conf import settings

        if not settings.configured:
            settings.configure()
        from django_redis.cache import RedisCache

        return RedisCache(url(server), {})

    def test_values_are_kept_with_an_expiry(self, cache: Any) -> None:
        assert cache.set("tea", {"price": 3}, timeout=60)
        assert cache.get("tea") == {"price": 3}
        assert 0 < cache.ttl("tea") <= 60
        assert cache.add("tea", 4) is False
        assert cache.touch("tea", 90)
        cache.set_many({"a": 1, "b": 2})
        assert cache.get_many(["a", "b", "c"]) == {"a": 1, "b": 2}
        assert cache.incr("a", 5) == 6
        assert sorted(cache.keys("*")) == ["a", "b", "tea"]
        assert cache.delete_pattern("[ab]") == 2
        assert cache.persist("tea")
        assert cache.ttl("tea") is None
        cache.clear()
        assert cache.get("tea") is None

    def test_hashes_sets_and_sorted_sets_are_kept(self, cache: Any) -> None:
        assert [cache.hset("cart", "tea", {"count": 3}), cache.hset("cart", "rum", 1)] == [1, 1]
        assert (cache.hlen("cart"), sorted(cache.hkeys("cart"))) == (2, ["rum", "tea"])
        assert cache.hexists("cart", "tea")
        assert cache.hdel("cart", "rum") == 1
        assert not cache.hexists("cart", "rum")
        assert cache.sadd("tags", "a", "b") == 2
        assert (cache.smembers("tags"), cache.smismember("tags", "a", "c")) == ({"a", "b"}, [True, False])
        assert cache.srem("tags", "a") == 1
        assert cache.zadd("top", {"tea": 2.0, "rum": 1.0}) == 2
        assert cache.zincrby("top", 5, "rum") == 6.0
        assert cache.zrange("top", 0, -1, withscores=True) == [("tea", 2.0), ("rum", 6.0)]
        assert (cache.zpopmin("top"), cache.zcard("top")) == (("tea", 2.0), 1)

    def test_a_lock_has_one_owner(self, cache: Any) -> None:
        with cache.lock("packing", timeout=60):
            assert not cache.lock("packing", timeout=60).acquire(blocking=False)
        assert cache.lock("packing", timeout=60).acquire(blocking=False)

    def test_sessions_are_kept_and_removed(self, cache: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        from django.contrib.sessions.backends.cache import SessionStore
        from django.core import cache as django_cache

        monkeypatch.setattr(django_cache.caches._connections, "default", cache, raising=False)
        session = SessionStore()
        session["user"] = "ann"
        session.set_expiry(60)
        session.save()
        key = session.session_key
        assert len(cache.keys(f"*{key}")) == 1
        assert SessionStore(key)["user"] == "ann"
        session.cycle_key()
        assert not SessionStore(key).exists(key)
        assert SessionStore(session.session_key)["user"] == "ann"
        session.flush()
        assert cache.keys("*") == []


def test_flask_caching_keeps_results(server: Server) -> None:
    require_client("flask_caching")
    from flask import Flask
    from flask_caching import Cache

    app = Flask("shop")
    options = {"CACHE_TYPE": "RedisCache", "CACHE_REDIS_URL": url(server), "CACHE_KEY_PREFIX": "shop:"}
    cache, calls = Cache(app, config=options), []

    @cache.memoize(timeout=60)
    def price(item: str) -> int:
        calls.append(item)
        return len(item)

    with app.app_context():
        assert [price("tea"), price("tea"), price("sugar")] == [3, 3, 5]
        assert calls == ["tea", "sugar"]
        cache.delete_memoized(price, "tea")
        assert price("tea") == 3
        assert calls == ["tea", "sugar", "tea"]
        cache.set_many({"a": 1, "b": 2}, timeout=60)
        assert cache.get_many("a", "b") == [1, 2]
        assert cache.add("a", 3) is False
        assert cache.cache.inc("n", 2) == 2
        assert cache.clear()
        assert cache.get("a") is None


async def test_aiocache_keeps_values_and_locks(server: Server) -> None:
    aiocache = require_client("aiocache")
    from aiocache.lock import RedLock

    async with aiocache.Cache(aiocache.Cache.REDIS, endpoint="127.0.0.1", port=server.port, namespace="main:") as cache:
        assert await cache.set("tea", 3, ttl=60)
        assert await cache.get("tea") in (3, "3")
        assert await cache.multi_set([("a", "1"), ("b", "2")], ttl=60)
        assert await cache.multi_get(["a", "b", "c"]) == ["1", "2", None]
        with pytest.raises(ValueError, match="already exists"):
            await cache.add("tea", 4)
        assert await cache.increment("n", 2) == 2
        assert await cache.expire("tea", 90)
        async with RedLock(cache, "packing", lease=60):
            assert await cache.exists("packing-lock")
        assert not await cache.exists("packing-lock")
        assert await cache.clear(namespace="main:")
        assert not await cache.exists("a")


async def test_cashews_keeps_results_tags_sets_and_locks(server: Server) -> None:
    require_client("cashews")
    from cashews import Cache, LockedError

    cache, calls = Cache(), []
    cache.setup(url(server))

    @cache(ttl="1m", key="price:{item}", tags=["prices"])
    async def price(item: str) -> int:
        calls.append(item)
        return len(item)

    assert [await price("tea"), await price("tea"), await price("sugar")] == [3, 3, 5]
    assert calls == ["tea", "sugar"]
    await cache.delete_tags("prices")
    assert await price("tea") == 3
    assert calls == ["tea", "sugar", "tea"]
    assert await cache.set("rum", 1, expire=60, exist=False)
    assert not await cache.set("rum", 2, exist=False)
    assert await cache.get_many("rum", "gin") == (1, None)
    assert [await cache.incr("n", expire=60), await cache.incr("n", 2)] == [1, 3]
    assert await cache.incr_bits("bits", 0, 3, size=4, by=5) == (5, 5)
    assert await cache.get_bits("bits", 0, 3, size=4) == (5, 5)
    async with cache.lock("packing", expire=60):
        with pytest.raises(LockedError):
            async with cache.lock("packing", expire=60, wait=False):
                pass
    assert not await cache.exists("packing")
    await cache.delete_match("price:*")
    assert not await cache.exists("price:tea")
    await cache.close()


@pytest.mark.parametrize(
    "strategy", ["FixedWindowRateLimiter", "MovingWindowRateLimiter", "SlidingWindowCounterRateLimiter"]
)
def test_limits_refuses_the_third_of_two(server: Server, strategy: str) -> None:
    limits = require_client("limits")
    storage = limits.storage.storage_from_string(url(server))
    limiter = getattr(limits.strategies, strategy)(storage)
    rate = limits.parse("2/hour")
    assert storage.check()
    assert [limiter.hit(rate, "ann") for _ in range(3)] == [True, True, False]
    assert limiter.test(rate, "bob")
    assert limiter.get_window_stats(rate, "ann").remaining == 0
    limiter.clear(rate, "ann")
    assert limiter.hit(rate, "ann")


def test_python_redis_lock_is_released_by_its_owner_alone(server: Server) -> None:
    redis_lock = require_client("redis_lock")
    import redis

    with redis.Redis(port=server.port) as client:
        lock, other = (redis_lock.Lock(client, "packing", expire=60) for _ in range(2))
        assert lock.acquire(blocking=False)
        assert not other.acquire(blocking=False)
        lock.extend(expire=90)
        with pytest.raises(redis_lock.NotAcquired):
            other.release()
        lock.release()
        assert other.acquire(timeout=DEADLINE_S)


def test_opentelemetry_has_a_span_for_each_command(server: Server) -> None:
    require_client("opentelemetry.instrumentation.redis")
    import redis
    from opentelemetry.instrumentation.redis import RedisInstrumentor
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    client = redis.Redis(port=server.port)
    RedisInstrumentor.instrument_client(client, tracer_provider=provider)
    client.xadd("s", {"item": "tea"})
    with client.pipeline() as pipe:
        pipe.set("k", "v").get("k").execute()
    assert [span.name for span in spans.get_finished_spans()] == ["XADD", "SET GET"]
    client.close()


class TestLitestar:
    @pytest.mark.parametrize("backend", ["RedisChannelsPubSubBackend", "RedisChannelsStreamBackend"])
    async def test_channels_deliver_to_subscribers(self, server: Server, backend: str) -> None:
        require_client("litestar")
        import redis.asyncio
        from litestar.channels import ChannelsPlugin
        from litestar.channels.backends import redis as backends

        options = {"history": 10, "cap_streams_approximate": False} if "Stream" in backend else {}
        async with redis.asyncio.Redis(port=server.port) as client:
            made = getattr(backends, backend)(redis=client, **options)
            async with asyncio.timeout(DEADLINE_S), ChannelsPlugin(made, channels=["orders", "news"]) as plugin:
                async with plugin.start_subscription(["orders", "news"]) as subscriber:
                    if not options:
                        await subscription(server, b"orders")
                        await subscription(server, b"news")
                    await plugin.wait_published({"item": "tea"}, ["orders", "news"])
                    events = subscriber.iter_events()
                    assert [await anext(events), await anext(events)] == [b'{"item":"tea"}'] * 2
                if options:
                    assert await made.get_history("orders", limit=5) == [b'{"item":"tea"}']
                    assert 0 < await client.pttl("LITESTAR_CHANNELS_ORDERS") <= 60_000
                    assert await made.flush_all() == 2
                    assert await made.get_history("orders") == []

    async def test_a_store_keeps_values_with_an_expiry(self, server: Server) -> None:
        require_client("litestar")
        from litestar.stores.redis import RedisStore

        store = RedisStore.with_client(url(server))
        async with store:
            await store.set("tea", "3", expires_in=60)
            assert await store.get("tea") == b"3"
            assert await store.get("tea", renew_for=90) == b"3"
            assert 60 < (await store.expires_in("tea") or 0) <= 90
            other = store.with_namespace("other")
            await other.set("tea", b"4")
            await store.delete("tea")
            assert not await store.exists("tea")
            assert await other.exists("tea")
            await store.delete_all()
            assert not await other.exists("tea")
