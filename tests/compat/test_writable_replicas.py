"""Replicas that clients may write to, and replicas that are short of memory, compared with Redis."""

from __future__ import annotations

import re

import pytest

from conftest import StartServer
from support.append_only_file import parse_records
from support.lines import split
from support.links import field, follow, settle, until
from support.servers import Server
from support.wire import Wire

pytestmark = pytest.mark.oracle

FAST = ("--repl-diskless-sync-delay", "0")
# What a client writes on the replica; `m` and `m2` are of the primary. All of it expires, but for `w3` and its copies.
WRITES = (
    "SET w1 1 PX 1000", "SET w2 1", "PEXPIRE w2 1000", "SETEX w3 100 v", "MSETEX 2 w4 1 w5 1 PX 1000",
    "XADD st 1-1 f v",
    "PEXPIRE st 1000", "COPY w3 w6", "RENAME w4 w7", "COPY w3 w8 DB 3", "SET w9 1 PX 1000", "MOVE w9 4",
    "EVAL \"redis.call('SET','w10','1','PX','1000')\" 0", "MULTI", "SET w11 1 PX 1000", "EXEC", "PEXPIRE m 1000",
    "APPEND m2 x", "GETEX w2 PX 1000",
)  # fmt: skip
# Commands on keys that have expired and that the replica still has.
ON_EXPIRED = (
    "GET w1", "APPEND m2 y", "DBSIZE", "GET m2", "INCR w1", "TTL w1", "STRLEN w11", "DEL w11", "DBSIZE",
    "PEXPIRE w10 1000", "PERSIST w10", "SET w5 2 XX", "SETNX w2 n", "DBSIZE",
)  # fmt: skip


def deletions(server: Server) -> list[bytes]:
    """The keys that the log deletes, in order of their names."""
    (path,) = server.folder.glob("appendonlydir/*.incr.aof")
    records = parse_records(re.sub(rb"(?m)^#.*\r?\n", b"", path.read_bytes()))
    return sorted(record[1] for record in records if record[0].upper() == b"DEL")


def expiry_seen(start_server: StartServer, name: str) -> list[object]:
    """What happens to keys that clients of a writable replica let expire."""
    primary = start_server("oracle", *FAST)
    replica = start_server(name, "--replica-read-only", "no", "--appendonly", "yes", "--hz", "100")
    seen: list[object] = []
    with primary.connect() as above, replica.connect() as below:
        follow(below, primary)
        for wire in (above, below):
            wire.call("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        for line in ("SET m 1 PX 1000", "SET m2 1 PX 1000"):
            above.call(*split(line))
        settle(above, below)
        seen += [below.call(*split(line)) for line in WRITES]
        seen.append(field(below, "slave_expires_tracked_keys", "stats"))
        names = [b"w1", b"w2", b"w5", b"m", b"m2", b"st", b"w10", b"w11"]
        until(lambda: not below.ask("EXISTS", *names), "the keys do not expire")
        seen.append(sorted(below.ask("KEYS", "*")))
        seen += [below.call(*split(line)) for line in ON_EXPIRED]
        seen.append(field(below, "expired_keys", "stats"))
        below.call("DEBUG", "SET-ACTIVE-EXPIRE", 1)
        until(lambda: field(below, "slave_expires_tracked_keys", "stats") == "1", "the keys are not removed")
        seen += [below.ask("DBSIZE"), field(below, "expired_keys", "stats")]
        for index in (3, 4, 0):
            seen += [below.call("SELECT", index), below.ask("DBSIZE")]
        above.call("FLUSHALL")
        settle(above, below)
        until(lambda: field(below, "slave_expires_tracked_keys", "stats") == "0", "a key is not forgotten")
        seen.append(above.ask("DBSIZE"))
        below.call("CONFIG", "SET", "appendfsync", "always")
        below.call("SET", "last", 1)
    seen.append(deletions(replica))
    return seen


def test_what_clients_let_expire_on_a_writable_replica_expires_there(start_server: StartServer) -> None:
    assert expiry_seen(start_server, "headrace") == expiry_seen(start_server, "oracle")


def memory_seen(start_server: StartServer, name: str) -> list[object]:
    """What a replica that is short of memory takes of its primary and of clients."""
    primary = start_server("oracle", *FAST)
    replica = start_server(name, "--replica-read-only", "no", "--hz", "100")
    seen: list[object] = []

    def write(wire: Wire, *lines: str) -> None:
        for line in lines:
            wire.call(*split(line))
        settle(above, below)

    with primary.connect() as above, replica.connect() as below:
        follow(below, primary)
        below.call("CONFIG", "SET", "maxmemory", 2_000_000)
        write(above, *[f"SET k{number} {'x' * 1_000_000}" for number in range(3)])
        seen += [below.ask("DBSIZE"), below.call("SET", "own", 1)]
        seen.append(below.call("CONFIG", "SET", "replica-ignore-maxmemory", "no"))
        until(lambda: below.call("SET", "own", 2).startswith(b"-OOM"), "the limit does not apply")
        write(above, "SET a 1", "MULTI", "SET b 1", "SET c 1", "EXEC", "XADD s 1-1 f v", "DEL k0")
        seen += [sorted(below.ask("KEYS", "*")), field(below, "unexpected_error_replies", "stats")]
        seen.append(below.call("CONFIG", "SET", "slave-ignore-maxmemory", "yes"))
        write(above, "SET d 1")
        seen += [below.call("SET", "own", 3), below.ask("GET", "d")]
        log = replica.log_path.read_text("utf-8", "replace")
        seen += re.findall(r"is sending an error to its master: '-?(OOM.*)", log)[:1]
        below.call("REPLICAOF", "NO", "ONE")
        until(lambda: below.call("SET", "own", 4).startswith(b"-OOM"), "the limit does not apply to a primary")
    return seen


def test_maxmemory_applies_to_a_replica_only_if_it_shall(start_server: StartServer) -> None:
    assert memory_seen(start_server, "headrace") == memory_seen(start_server, "oracle")
