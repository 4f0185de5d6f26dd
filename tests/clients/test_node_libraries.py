"""Libraries for Node that use a server through node-redis or ioredis: what node/libraries.mjs makes of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.node import run_script
from support.servers import Server

Use = Callable[[str], Any]


@pytest.fixture
def use(server: Server) -> Use:
    """Runs a library's part of libraries.mjs."""
    return lambda library: run_script("libraries.mjs", library, str(server.port))


@pytest.mark.parametrize("adapter", ["@socket.io/redis-streams-adapter", "@socket.io/redis-adapter"])
def test_servers_of_socket_io_reach_each_others_sockets(use: Use, adapter: str) -> None:
    assert use(adapter) == {"toAll": ["tea", "tea"], "toRoom": "rum", "asked": ["two says hello"]}


def test_graphql_subscriptions_get_what_is_published(use: Use) -> None:
    assert use("graphql-redis-subscriptions") == [{"item": "tea"}, {"item": "tea"}]


def test_sessions_of_express_are_kept_listed_and_removed(use: Use) -> None:
    assert use("connect-redis") == {
        "found": {"cookie": {}, "user": "ann"},
        "expires": True,
        "before": [2, ["id", "other"]],
        "gone": None,
        "after": 0,
    }


def test_a_rate_limiter_counts_refuses_and_blocks(use: Use) -> None:
    assert use("rate-limiter-flexible") == {
        "left": [1, 0, "refused"],
        "bob": 2,
        "deleted": True,
        "ann": None,
        "eve": "refused",
    }


def test_a_lock_of_redlock_has_one_owner(use: Use) -> None:
    assert use("redlock") == {"refused": "LockError", "held": 1, "left": 0}


def test_a_cache_of_keyv_keeps_values_with_an_expiry(use: Use) -> None:
    assert use("keyv") == {"found": {"price": 3}, "expires": True, "names": ["rum", "tea"], "deleted": True, "left": 0}


def test_a_broker_of_redis_streams_broker_delivers_removes_and_limits(use: Use) -> None:
    assert use("redis-streams-broker") == {
        "full": "Maximum length exceeded!!, limit(2)",
        "received": [["tea", True], ["rum", True]],
        "pending": [{"ann": "1"}, {"ann": "1"}],
        "total": 0,
        "isMeasured": True,
        "left": 0,
    }


def test_emitters_of_mqemitter_hear_each_other(use: Use) -> None:
    assert use("mqemitter-redis") == [["orders/tea", "tea"], ["orders/tea", "tea"]]


def test_a_stream_that_another_client_began_is_resumed(use: Use) -> None:
    assert use("resumable-stream") == ["tea,rum", "tea,rum", None]


def test_jobs_of_bullmq_wait_retry_repeat_and_follow_their_children(use: Use) -> None:
    assert use("bullmq") == {
        "counts": {"wait": 5, "prioritized": 2, "delayed": 1, "waiting-children": 1},
        "results": ["first!", "delayed!", "again!", ["a!", "b!"]],
        "refusal": "again",
        "schedulers": ["often"],
        "inOrder": ["first", "high", "low"],
        "failures": 1,
        "left": [],
    }


def test_jobs_of_bee_queue_wait_and_retry(use: Use) -> None:
    assert use("bee-queue") == {"results": [5, 7, 9], "message": "again", "count": 3, "failed": 1}


def test_a_message_that_moleculer_cannot_handle_is_retried_and_becomes_a_dead_letter(use: Use) -> None:
    assert use("@moleculer/channels") == {
        "packed": ["tea"],
        "isRetried": True,
        "letter": "rum",
        "origin": "orders.bad",
        "pending": 0,
    }
