"""redis-py, synchronous: the calls applications make, in both protocols."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
from redis.commands.core import HotkeysMetricsTypes

from support.servers import Server

DEADLINE_S = 30


def first_stream(reply) -> list:
    """The entries of the only stream of an XREAD or XREADGROUP reply, in the shape of either protocol."""
    if isinstance(reply, dict):
        (entries,) = reply.values()
        # redis-py keeps one more list around RESP3 entries in some releases.
        return entries[0] if entries and isinstance(entries[0], list) else entries
    ((_, entries),) = reply
    return entries


def wait_until_blocked(control: redis.Redis, count: int = 1) -> None:
    """Return when so many clients are blocked."""
    deadline = time.monotonic() + DEADLINE_S
    while control.info("clients")["blocked_clients"] < count:
        assert time.monotonic() < deadline, "nobody blocks"


def test_connecting_tells_the_server_who_is_there(client: redis.Redis, protocol: int) -> None:
    client.ping()
    info = client.client_info()
    assert info["lib-name"].startswith("redis-py")
    assert int(info["resp"]) == protocol


def test_entries_come_back_as_they_were_added(client: redis.Redis) -> None:
    entry_id = client.xadd("s", {"name": "ada", "n": 1})
    client.xadd("s", {"empty": ""})
    assert client.xlen("s") == 2
    assert client.xrange("s")[0] == (entry_id, {"name": "ada", "n": "1"})
    assert [fields for _, fields in client.xrevrange("s", count=1)] == [{"empty": ""}]


def test_a_group_delivers_acknowledges_and_reports(client: redis.Redis) -> None:
    client.xgroup_create("s", "g", id="0", mkstream=True)
    ids = [client.xadd("s", {"n": number}) for number in range(5)]
    delivered = first_stream(client.xreadgroup("g", "alice", {"s": ">"}, count=3))
    assert [entry[0] for entry in delivered] == ids[:3]
    assert client.xpending("s", "g")["pending"] == 3
    assert client.xack("s", "g", *ids[:2]) == 2
    (pending,) = client.xpending_range("s", "g", "-", "+", 10)
    assert (pending["message_id"], pending["consumer"], pending["times_delivered"]) == (ids[2], "alice", 1)
    (group,) = client.xinfo_groups("s")
    assert (group["name"], group["pending"], group["lag"]) == ("g", 1, 2)


def test_what_one_consumer_left_another_claims(client: redis.Redis) -> None:
    client.xgroup_create("s", "g", id="0", mkstream=True)
    ids = [client.xadd("s", {"n": number}) for number in range(3)]
    client.xreadgroup("g", "alice", {"s": ">"})
    assert [entry[0] for entry in client.xclaim("s", "g", "bob", 0, ids[:1])] == ids[:1]
    cursor, entries, deleted = client.xautoclaim("s", "g", "bob", 0, "0-0", count=2)
    assert (cursor, [entry[0] for entry in entries], deleted) == (ids[2], ids[:2], [])
    assert {consumer["name"]: consumer["pending"] for consumer in client.xinfo_consumers("s", "g")} == {
        "alice": 1,
        "bob": 2,
    }


def test_stream_info_is_read_in_full(client: redis.Redis) -> None:
    client.xgroup_create("s", "g", id="0", mkstream=True)
    entry_id = client.xadd("s", {"f": "v"})
    client.xreadgroup("g", "alice", {"s": ">"})
    assert client.xinfo_stream("s")["last-generated-id"] == entry_id
    full = client.xinfo_stream("s", full=True)
    assert full["length"] == 1
    (group,) = full["groups"]
    assert group["pel-count"] == 1


def test_a_blocked_reader_gets_the_entry_that_comes(client: redis.Redis, server: Server, protocol: int) -> None:
    client.xgroup_create("s", "g", id="$", mkstream=True)
    with ThreadPoolExecutor() as threads, redis.Redis(port=server.port, protocol=protocol) as other:
        waiting = threads.submit(client.xreadgroup, "g", "alice", {"s": ">"}, block=1000 * DEADLINE_S)
        wait_until_blocked(other)
        entry_id = other.xadd("s", {"f": "v"})
        assert [entry[0] for entry in first_stream(waiting.result())] == [entry_id.decode()]


def test_a_blocked_reader_gets_nothing_after_its_time(client: redis.Redis) -> None:
    assert not client.xread({"s": "$"}, block=1)


def test_a_pipeline_transaction_answers_in_order(client: redis.Redis) -> None:
    with client.pipeline(transaction=True) as pipe:
        replies = pipe.xadd("s", {"f": "v"}, id="1-1").xlen("s").set("k", "v").get("k").execute()
    assert replies == ["1-1", 1, True, "v"]


def test_a_pipeline_carries_errors_in_their_place(client: redis.Redis) -> None:
    with client.pipeline(transaction=False) as pipe:
        pipe.xadd("s", {"f": "v"}, id="1-1")
        pipe.xadd("s", {"f": "v"}, id="1-1")
        pipe.xlen("s")
        first, second, third = pipe.execute(raise_on_error=False)
    assert (first, third) == ("1-1", 1)
    assert isinstance(second, redis.ResponseError)


def test_a_watched_stream_that_changes_fails_the_transaction(client: redis.Redis, server: Server) -> None:
    with redis.Redis(port=server.port) as other, client.pipeline() as pipe:
        pipe.watch("s")
        other.xadd("s", {"f": "v"})
        pipe.multi()
        pipe.set("k", "v")
        with pytest.raises(redis.WatchError):
            pipe.execute()
    assert client.get("k") is None


def test_a_watched_stream_that_is_only_read_does_not(client: redis.Redis, server: Server) -> None:
    client.xgroup_create("s", "g", id="0", mkstream=True)
    client.xadd("s", {"f": "v"})
    with redis.Redis(port=server.port) as other, client.pipeline() as pipe:
        pipe.watch("s")
        other.xreadgroup("g", "alice", {"s": ">"})
        pipe.multi()
        pipe.set("k", "v")
        assert pipe.execute() == [True]


@pytest.mark.filterwarnings("ignore:Call to .*experimental")
def test_a_lock_is_given_back_by_its_owner_alone(client: redis.Redis) -> None:
    """What redis-py's Lock does by a script, the conditions of SET and DELEX do without, and without lupa."""
    assert client.set("lock", "ann", nx=True, px=60_000)
    assert not client.set("lock", "bob", nx=True, px=60_000)
    assert client.delex("lock", ifeq="bob") == 0
    assert client.set("lock", "ann", ifeq="ann", px=90_000)
    assert client.delex("lock", ifeq="ann") == 1
    assert client.set("lock", "bob", nx=True, px=60_000)


def test_errors_become_the_exceptions_clients_match_on(client: redis.Redis) -> None:
    client.set("str", "x")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        client.xadd("str", {"f": "v"})
    client.xgroup_create("s", "g", mkstream=True)
    with pytest.raises(redis.ResponseError, match="BUSYGROUP"):
        client.xgroup_create("s", "g")
    with pytest.raises(redis.ResponseError, match="NOGROUP"):
        client.xreadgroup("nog", "c", {"s": ">"})


def test_trimming_while_adding_keeps_the_newest(client: redis.Redis) -> None:
    ids = [client.xadd("s", {"n": number}, maxlen=3, approximate=False) for number in range(6)]
    assert [entry[0] for entry in client.xrange("s")] == ids[3:]
    assert client.xtrim("s", minid=ids[5], approximate=False) == 2


def test_hot_keys_are_measured(client: redis.Redis) -> None:
    metrics = [HotkeysMetricsTypes.NET, HotkeysMetricsTypes.CPU]
    assert client.hotkeys_start(metrics, count=1, duration=600, sample_ratio=1)
    with pytest.raises(redis.ResponseError, match="already in progress"):
        client.hotkeys_start(metrics)
    for key in ("cold", "hot", "hot"):
        client.set(key, "x" * 100)
    (measured,) = client.hotkeys_get()
    assert measured["tracking-active"] == 1
    assert measured["by-net-bytes"][0] == "hot"
    client.hotkeys_stop()
    client.hotkeys_reset()
