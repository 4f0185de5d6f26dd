"""redis-py and what it did not ask for: messages, notifications, MONITOR, and its own client-side cache."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from redis.cache import CacheConfig

from support.servers import Server

TIMEOUT_S = 10.0


def next_message(pubsub: Any) -> tuple[str, str, Any]:
    """Type, channel and data of the next message, confirmations included."""
    message = pubsub.get_message(timeout=TIMEOUT_S)
    assert message is not None, "nothing was heard"
    return message["type"], message["channel"], message["data"]


def test_messages_of_channels_and_patterns(client: redis.Redis) -> None:
    with client.pubsub() as pubsub:
        pubsub.subscribe("news")
        pubsub.psubscribe("n*")
        assert next_message(pubsub) == ("subscribe", "news", 1)
        assert next_message(pubsub) == ("psubscribe", "n*", 2)
        assert client.publish("news", "hi") == 2
        assert next_message(pubsub) == ("message", "news", "hi")
        assert next_message(pubsub) == ("pmessage", "news", "hi")
        assert client.pubsub_numsub("news") == [("news", 1)]
        pubsub.unsubscribe()
        pubsub.punsubscribe()
        assert next_message(pubsub) == ("unsubscribe", "news", 1)
        assert next_message(pubsub) == ("punsubscribe", "n*", 0)
        assert client.publish("news", "hi") == 0


def test_sharded_messages(client: redis.Redis) -> None:
    with client.pubsub() as pubsub:
        pubsub.ssubscribe("news")
        assert next_message(pubsub) == ("ssubscribe", "news", 1)
        assert client.spublish("news", "hi") == 1
        assert next_message(pubsub) == ("smessage", "news", "hi")


def test_health_checks_pass_while_subscribed(server: Server, protocol: int) -> None:
    with redis.Redis(port=server.port, protocol=protocol, health_check_interval=1) as client, client.pubsub() as pubsub:
        pubsub.subscribe("news")
        assert next_message(pubsub)[0] == "subscribe"
        pubsub.ping()
        assert next_message(pubsub)[0] == "pong"


def test_notifications_of_streams(client: redis.Redis) -> None:
    client.config_set("notify-keyspace-events", "Et")
    try:
        with client.pubsub() as pubsub:
            pubsub.psubscribe("__keyevent@0__:x*")
            assert next_message(pubsub)[0] == "psubscribe"
            client.xadd("s", {"f": "v"}, id="1-1")
            client.xgroup_create("s", "g")
            assert next_message(pubsub) == ("pmessage", "__keyevent@0__:xadd", "s")
            assert next_message(pubsub) == ("pmessage", "__keyevent@0__:xgroup-create", "s")
    finally:
        client.config_set("notify-keyspace-events", "")


def test_monitor_shows_commands(client: redis.Redis) -> None:
    with client.monitor() as monitor:
        client.set("k", 'a "b"')
        shown = monitor.next_command()
        while not shown["command"].startswith("SET "):
            shown = monitor.next_command()
        assert (shown["db"], shown["client_type"]) == (0, "tcp")
        assert shown["command"] == 'SET k a "b"'


def test_a_cached_value_is_dropped_when_another_client_changes_it(server: Server) -> None:
    with (
        redis.Redis(port=server.port, protocol=3, decode_responses=True, cache_config=CacheConfig()) as cached,
        redis.Redis(port=server.port, decode_responses=True) as other,
    ):
        other.set("k", "old")
        assert cached.get("k") == "old"
        cache = cached.get_cache()
        assert cache is not None
        assert cache.size == 1
        assert cached.get("k") == "old"
        other.set("k", "new")
        assert cached.get("k") == "new"
        other.flushall()
        assert cached.get("k") is None


@pytest.mark.parametrize("count", [1, 1000])
def test_a_listener_hears_everything_in_order(client: redis.Redis, count: int) -> None:
    with client.pubsub(ignore_subscribe_messages=True) as pubsub, client.pipeline(transaction=False) as pipeline:
        pubsub.subscribe("news")
        assert pubsub.get_message(timeout=TIMEOUT_S) is None
        for number in range(count):
            pipeline.publish("news", number)
        assert pipeline.execute() == [1] * count
        assert [next_message(pubsub)[2] for _ in range(count)] == [str(number) for number in range(count)]
