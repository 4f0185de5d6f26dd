"""node-redis (RESP2 and RESP3) and ioredis: what they make of the replies to the scripts in node/."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.node import run_script
from support.servers import Server

Run = Callable[[str], Any]


@pytest.fixture
def node_redis(server: Server, protocol: int) -> Run:
    """Runs a scenario of node_redis.mjs."""
    return lambda scenario: run_script("node_redis.mjs", scenario, str(server.port), str(protocol), "redis")


@pytest.fixture
def ioredis(server: Server) -> Run:
    """Runs a scenario of ioredis.mjs."""
    return lambda scenario: run_script("ioredis.mjs", scenario, str(server.port), "ioredis")


REFUSED = "ERR The ID specified in XADD is equal or smaller than the target stream top item"


class TestNodeRedis:
    def test_it_says_who_it_is(self, node_redis: Run, protocol: int) -> None:
        assert node_redis("introduction") == ["node-redis", protocol]

    def test_entries_come_back_as_they_were_added(self, node_redis: Run) -> None:
        tea = {"id": "1-1", "message": {"item": "tea", "price": "3"}}
        rum = {"id": "2-1", "message": {"item": "rum"}}
        assert node_redis("entries") == {
            "isGenerated": True,
            "length": 3,
            "range": [tea, rum],
            "newest": {"item": "ale"},
            "read": [{"name": "s", "messages": [rum]}],
            "deleted": 1,
            "trimmed": 1,
            "nothing": None,
        }

    def test_a_group_delivers_acknowledges_and_reports(self, node_redis: Run) -> None:
        one, two = ({"id": f"{number}-0", "message": {"number": str(number)}} for number in (1, 2))
        assert node_redis("groups") == {
            "delivered": [{"name": "s", "messages": [one, two]}],
            "acknowledged": 1,
            "summary": {
                "pending": 1,
                "firstId": "2-0",
                "lastId": "2-0",
                "consumers": [{"name": "ann", "deliveriesCounter": 1}],
            },
            "pending": ["2-0", "ann", 1],
            "group": ["g", 1, 1, "2-0", 1],
            "stream": [3, 1, "3-0", one],
            "consumers": [["ann", 1]],
            "history": [{"name": "s", "messages": [two]}],
        }

    def test_what_one_consumer_left_others_claim_and_release(self, node_redis: Run) -> None:
        one, two = ({"id": f"{number}-0", "message": {"number": str(number)}} for number in (1, 2))
        assert node_redis("claims") == {
            "claimed": [one],
            "idsOnly": ["1-0", "2-0"],
            "swept": {"nextId": "0-0", "messages": [one, two], "deletedMessages": ["3-0"]},
            "released": 1,
            "again": [["2-0", ["number", "2"]]],
        }

    def test_a_blocked_reader_gets_what_comes_or_nothing(self, node_redis: Run) -> None:
        assert node_redis("blocking") == {
            "came": [{"name": "s", "messages": [{"id": "1-0", "message": {"item": "tea"}}]}],
            "timedOut": None,
        }

    def test_a_thousand_calls_at_once_are_answered_in_order(self, node_redis: Run) -> None:
        assert node_redis("pipeline") == {"first": "1-0", "last": "1000-0", "refused": REFUSED, "length": 1000}

    def test_a_transaction_runs_whole_or_not_at_all(self, node_redis: Run) -> None:
        assert node_redis("transactions") == {"replies": ["1-0", 1, "OK", "v"], "isWatchError": True, "value": "v"}

    def test_a_client_whose_connection_was_cut_comes_back(self, node_redis: Run) -> None:
        assert node_redis("reconnect") == {"isAnother": True, "hasReconnected": True, "entryId": "1-0"}

    def test_messages_reach_channels_patterns_and_shards(self, node_redis: Run) -> None:
        assert node_redis("messages") == {
            "heard": [["news", "tea"], ["news", "tea"], ["shard", "rum"]],
            "receivers": [2, 1],
            "left": 0,
        }

    def test_errors_keep_the_word_that_code_matches_on(self, node_redis: Run) -> None:
        assert node_redis("errors") == ["WRONGTYPE", "BUSYGROUP", "NOGROUP", "ERR"]


class TestIoredis:
    def test_it_says_who_it_is(self, ioredis: Run) -> None:
        assert ioredis("introduction") == ["ioredis", 3]

    def test_entries_come_back_as_they_were_added(self, ioredis: Run) -> None:
        assert ioredis("entries") == {
            "isGenerated": True,
            "length": 3,
            "range": [["1-1", ["item", "tea", "price", "3"]], ["2-1", ["item", "rum"]]],
            "read": [["s", [["2-1", ["item", "rum"]]]]],
            "deleted": 1,
            "trimmed": 1,
            "nothing": None,
        }

    def test_a_group_delivers_acknowledges_and_reports(self, ioredis: Run) -> None:
        assert ioredis("groups") == {
            "delivered": [["s", [["1-0", ["number", "1"]], ["2-0", ["number", "2"]]]]],
            "acknowledged": 1,
            "summary": [1, "2-0", "2-0", [["ann", "1"]]],
            "pending": ["2-0", "ann", 1],
        }

    def test_what_one_consumer_left_others_claim_and_release(self, ioredis: Run) -> None:
        one, two = (["1-0", ["number", "1"]], ["2-0", ["number", "2"]])
        assert ioredis("claims") == {
            "claimed": [one],
            "swept": ["0-0", [one, two], ["3-0"]],
            "released": 1,
            # JavaScript rounds the largest delivery count.
            "pending": [["1-0", "cat", False, 3], ["2-0", "", True, 9223372036854776000]],
        }

    def test_a_blocked_reader_gets_what_comes_or_nothing(self, ioredis: Run) -> None:
        assert ioredis("blocking") == {"came": [["s", [["1-0", ["item", "tea"]]]]], "timedOut": None}

    def test_a_pipeline_carries_errors_in_their_place(self, ioredis: Run) -> None:
        assert ioredis("pipeline") == {
            "first": [None, "1-0"],
            "last": [None, "1000-0"],
            "refused": REFUSED,
            "length": [None, 1000],
        }

    def test_calls_of_one_turn_are_pipelined_by_themselves(self, ioredis: Run) -> None:
        assert ioredis("autoPipelining") == [100, 100]

    def test_a_transaction_runs_whole_or_not_at_all(self, ioredis: Run) -> None:
        assert ioredis("transactions") == {
            "replies": [[None, "1-0"], [None, 1], [None, "OK"], [None, "v"]],
            "watched": None,
            "value": "v",
        }

    def test_a_client_whose_connection_was_cut_comes_back(self, ioredis: Run) -> None:
        assert ioredis("reconnect") == {"isAnother": True, "entryId": "1-0"}

    def test_messages_reach_channels_and_patterns(self, ioredis: Run) -> None:
        assert ioredis("messages") == {
            "counts": [2, 3],
            "heard": [["news", "tea"], ["ne*", "news", "tea"]],
            "receivers": 2,
            "left": [1, 0],
        }

    def test_errors_keep_the_word_that_code_matches_on(self, ioredis: Run) -> None:
        assert ioredis("errors") == ["WRONGTYPE", "BUSYGROUP", "NOGROUP", "ERR"]

    def test_a_scan_finds_every_key(self, ioredis: Run) -> None:
        assert ioredis("scan") == {"strings": 50, "streams": 1}


@pytest.mark.parametrize("scenario", ["entries", "groups", "blocking", "pipeline", "transactions"])
@pytest.mark.parametrize(
    ("script", "options", "new", "old"),
    [("node_redis.mjs", ["2"], "redis", "redis5"), ("ioredis.mjs", [], "ioredis", "ioredis5")],
    ids=["node-redis", "ioredis"],
)
def test_the_major_version_before_gets_the_same(
    server: Server, script: str, options: list[str], new: str, old: str, scenario: str
) -> None:
    results = []
    for name in (new, old):
        results.append(run_script(script, scenario, str(server.port), *options, name))
        with server.connect() as wire:
            wire.call("FLUSHALL")
    assert results[0] == results[1]
