"""Python clients besides redis-py: coredis, and valkey-glide, whose core is written in Rust."""

from __future__ import annotations

import asyncio

import pytest

from support.clients import require_client
from support.servers import Server

coredis = require_client("coredis")
glide = require_client("glide")


class TestCoredis:
    async def test_a_group_delivers_what_another_consumer_claims(self, server: Server) -> None:
        async with coredis.Redis(port=server.port, decode_responses=True) as client:
            assert await client.xgroup_create("s", "g", "0", mkstream=True)
            added = [await client.xadd("s", {"item": item}) for item in ("tea", "rum")]
            delivered = await client.xreadgroup("g", "ann", {"s": ">"}, count=1)
            assert [entry.identifier for entry in delivered["s"]] == added[:1]
            assert (await client.xpending("s", "g")).pending == 1
            claimed = await client.xclaim("s", "g", "bob", 0, added[:1])
            assert [(entry.identifier, dict(entry.field_values)) for entry in claimed] == [(added[0], {"item": "tea"})]
            assert await client.xack("s", "g", added[:1]) == 1
            assert (await client.xinfo_groups("s"))[0]["pending"] == 0

    async def test_strings_transactions_and_pages_of_keys(self, server: Server) -> None:
        async with coredis.Redis(port=server.port, decode_responses=True) as client:
            async with client.pipeline(transaction=True) as pipe:
                replies = [pipe.set("k", "v", ex=60), pipe.incr("n")]
            assert [await reply for reply in replies] == [True, 1]
            assert 0 < await client.ttl("k") <= 60
            assert {key async for key in client.scan_iter("*")} == {"k", "n"}

    async def test_a_subscriber_gets_messages(self, server: Server) -> None:
        async with (
            coredis.Redis(port=server.port, decode_responses=True) as client,
            client.pubsub(channels=["news"]) as subscriber,
        ):
            assert (await subscriber.get_message())["type"] == "subscribe"
            assert await client.publish("news", "tea") == 1
            assert (await subscriber.get_message())["data"] == "tea"


class TestValkeyGlide:
    @pytest.fixture(params=["RESP2", "RESP3"])
    def configuration(self, server: Server, request: pytest.FixtureRequest) -> glide.GlideClientConfiguration:
        return glide.GlideClientConfiguration(
            [glide.NodeAddress("127.0.0.1", server.port)], protocol=glide.ProtocolVersion[request.param]
        )

    async def test_a_group_delivers_what_another_consumer_claims(
        self, configuration: glide.GlideClientConfiguration
    ) -> None:
        client = await glide.GlideClient.create(configuration)
        assert await client.xgroup_create("s", "g", "0", glide.StreamGroupOptions(make_stream=True)) == "OK"
        added = [await client.xadd("s", [("item", item)]) for item in ("tea", "rum")]
        assert await client.xreadgroup({"s": ">"}, "g", "ann") == {
            b"s": {added[0]: [[b"item", b"tea"]], added[1]: [[b"item", b"rum"]]}
        }
        assert (await client.xpending("s", "g"))[0] == 2
        assert await client.xclaim("s", "g", "bob", 0, added[:1]) == {added[0]: [[b"item", b"tea"]]}
        assert await client.xack("s", "g", added) == 2
        await client.close()

    async def test_strings_and_transactions(self, configuration: glide.GlideClientConfiguration) -> None:
        client = await glide.GlideClient.create(configuration)
        batch = glide.Batch(is_atomic=True)
        batch.set("k", "v", expiry=glide.ExpirySet(glide.ExpiryType.SEC, 60))
        batch.get("k")
        assert await client.exec(batch, raise_on_error=True) == ["OK", b"v"]
        assert 0 < await client.ttl("k") <= 60
        with pytest.raises(glide.RequestError, match="WRONGTYPE"):
            await client.xlen("k")
        await client.close()

    async def test_a_blocked_reader_gets_what_is_added(self, configuration: glide.GlideClientConfiguration) -> None:
        reader, writer = await glide.GlideClient.create(configuration), await glide.GlideClient.create(configuration)
        waiting = asyncio.create_task(reader.xread({"s": "$"}, glide.StreamReadOptions(block_ms=30_000)))
        while b"blocked_clients:1" not in await writer.info([glide.InfoSection.CLIENTS]):
            continue
        added = await writer.xadd("s", [("item", "tea")])
        assert await waiting == {b"s": {added: [[b"item", b"tea"]]}}
        await reader.close()
        await writer.close()
