"""Eviction compared with Redis, where it is deterministic: few keys, whose order their times decide."""

from __future__ import annotations

import pytest

from conftest import StartServer
from support.links import field, until
from support.replica import StreamReader, take_records
from support.servers import Server
from support.wire import Wire

pytestmark = pytest.mark.oracle

# The payload of a short string.
PAYLOAD = b"\x00\xc0\x0c\x0f\x00'\xae\x9d]\xf2\xa8A-"
DUE_MS = 4_000_000_000_000
IDLE_S = {"p": 999, "a": 10, "b": 500, "c": 100, "d": 50}
COUNTERS = {"p": 1, "a": 200, "b": 7, "c": 100, "d": 50}
# Redis keeps the candidates of one policy under the next, so each has keys of its own.
POLICIES = (
    "noeviction", "volatile-ttl", "volatile-lru", "allkeys-lru", "volatile-lfu", "allkeys-lfu", "volatile-lrm",
    "allkeys-lrm",
)  # fmt: skip
# Commands under an LFU policy, after the same keys were made.
USES = (
    "GET s", "MGET s o", "EXISTS s", "TYPE s", "TTL s", "EXPIRETIME s", "OBJECT ENCODING s", "MEMORY USAGE s", "DUMP s",
    "TOUCH s", "SET s 1", "SET new 1", "SET s 1 KEEPTTL", "SETNX s 1", "GETDEL s", "APPEND s x", "INCR s",
    "BITOP AND d s o", "EXPIRE s 100", "RENAME s d", "RENAME s o", "RENAMENX s o", "COPY s d", "COPY s o REPLACE",
    "MSETNX s 1 new 2", "LPUSH l 1 2", "LMOVE l d LEFT LEFT", "LMOVE l l LEFT LEFT", "BLPOP l 1",
    "SADD t 1", "SREM t 9", "SINTERSTORE d t u", "SINTERSTORE t t u", "HGET h a", "ZADD z 1 a", "ZRANGESTORE d z 0 -1",
    "XADD x 9-9 a 1",
    "XLEN x", "XACK x g 1-1", "XINFO STREAM x", "SCAN 0", "WATCH s", "GET l",
)  # fmt: skip
MADE = (
    "SET s 12", "SET o 5", "RPUSH l 1 2 3", "SADD t 1 2 3", "SADD u 3 4", "HSET h a 1", "ZADD z 1 a", "XADD x 1-1 a 1",
    "XGROUP CREATE x g 0",
)  # fmt: skip


def restore(wire: Wire, prefix: str, option: str, values: dict[str, int]) -> None:
    """Make keys with these idle times or counters; all but `p` expire, `a` last."""
    for index, (key, value) in enumerate(values.items()):
        due_ms = 0 if key == "p" else DUE_MS - index
        wire.call("RESTORE", prefix + key, due_ms, PAYLOAD, "ABSTTL", option, value)


def evict_all(wire: Wire, policy: str, keys_count: int) -> None:
    """Set maxmemory so low that every key is evicted that may be, and wait for that."""
    left_count = {"noeviction": keys_count, "volatile": 1, "allkeys": 0}[policy.partition("-")[0]]
    wire.call("CONFIG", "SET", "maxmemory", 1)
    until(lambda: wire.ask("DBSIZE") == left_count, f"{left_count} keys are left under {policy}")


def evictions(server: Server) -> list[object]:
    """Replies, and the records that a replica gets, under each policy."""
    seen: list[object] = []
    with server.connect() as wire, StreamReader(server.port) as reader:
        wire.call("CONFIG", "SET", "maxmemory-samples", 64, "lfu-log-factor", 0)
        for name in POLICIES:
            wire.call("FLUSHALL")
            seen.append(wire.call("CONFIG", "SET", "maxmemory-policy", name))
            option, values = ("FREQ", COUNTERS) if name.endswith("lfu") else ("IDLETIME", IDLE_S)
            restore(wire, name, option, values)
            evict_all(wire, name, len(values))
            seen += [wire.call(*line.split()) for line in ("SET q 1", "GET q", "MULTI", "SET r 1", "EXEC", "DBSIZE")]
            seen.append(wire.call("EVAL", "return redis.call('SET', KEYS[1], 1)", 1, "n"))
            seen.append(field(wire, "evicted_keys", "stats"))
            seen.append(field(wire, "maxmemory_policy", "memory"))
            wire.call("CONFIG", "SET", "maxmemory", 0)
        seen.append(take_records(reader, wire, b"end"))
    return seen


def test_the_same_keys_are_evicted_in_the_same_order(start_server: StartServer) -> None:
    fast = ("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "3600")
    ours, theirs = (evictions(start_server(name, *fast)) for name in ("headrace", "oracle"))
    assert ours == theirs


def uses(server: Server) -> list[object]:
    """The counters of all keys after each command."""
    seen: list[object] = []
    with server.connect() as wire:
        wire.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu", "lfu-log-factor", 0)
        for line in USES:
            wire.call("FLUSHALL")
            for made in MADE:
                wire.call(*made.split())
            wire.call(*line.split())
            seen.append((line, [wire.call("OBJECT", "FREQ", key) for key in (*"soltuhzxd", "new")]))
            wire.call("UNWATCH")
    return seen


def test_the_same_commands_count_as_uses(start_server: StartServer) -> None:
    ours, theirs = (uses(start_server(name)) for name in ("headrace", "oracle"))
    assert ours == theirs


def refusals(server: Server) -> list[bytes]:
    """The replies to settings that are no such values, and to OBJECT under each kind of policy."""
    lines = [
        "SET k v", "OBJECT FREQ k", "OBJECT FREQ none", "CONFIG SET maxmemory-policy x",
        "CONFIG SET maxmemory-samples 0",
        "CONFIG SET maxmemory-eviction-tenacity 101", "CONFIG SET lfu-log-factor -1",
        "CONFIG SET maxmemory-policy ALLKEYS-LFU", "CONFIG GET maxmemory-policy", "OBJECT IDLETIME k",
        "CONFIG SET maxmemory-policy volatile-lrm", "OBJECT IDLETIME k", "OBJECT FREQ k",
        "RESTORE k 0 x FREQ 256", "RESTORE k 0 x IDLETIME 1 FREQ 1",
    ]  # fmt: skip
    with server.connect() as wire:
        return [wire.call(*line.split()) for line in lines]


def test_the_same_is_refused(start_server: StartServer) -> None:
    ours, theirs = (refusals(start_server(name)) for name in ("headrace", "oracle"))
    assert ours == theirs


def times_above(server: Server) -> list[bool]:
    """Whether the time above the limit is counted: while it lasts, and afterwards."""
    with server.connect() as wire:
        wire.call("SET", "k", "v")
        wire.call("CONFIG", "SET", "maxmemory", 1)
        wire.call("SET", "k", "w")
        names = ("current_eviction_exceeded_time", "total_eviction_exceeded_time")
        until(lambda: int(field(wire, names[0], "stats")) > 0, "no time is counted")
        during = [int(field(wire, name, "stats")) > 0 for name in names]
        wire.call("CONFIG", "SET", "maxmemory", "1gb")
        wire.call("SET", "k", "w")
        until(lambda: int(field(wire, names[0], "stats")) == 0, "the time does not end")
        return during + [int(field(wire, name, "stats")) > 0 for name in names]


@pytest.mark.parametrize("name", ["headrace", "oracle"])
def test_time_above_the_limit_is_counted(start_server: StartServer, name: str) -> None:
    assert times_above(start_server(name)) == [True, True, False, True]
