"""MIGRATE between real servers of both kinds: whichever sends and whichever receives, all is as between two Redis."""

from __future__ import annotations

import re
from itertools import product

import pytest

from conftest import StartServer
from support.append_only_file import parse_records
from support.lines import split
from support.links import field, follow, settle
from support.servers import Server
from support.wire import Wire

pytestmark = pytest.mark.oracle

# One key of each type, and of the encodings of large values.
KEYS = (
    "SET string value", "SET number 12", "SETBIT bits 9 1", "PFADD hll a b c", "RPUSH list a b c", "SADD set a b",
    "SADD ints 1 2 3", "ZADD zset 1 a 2.5 b", "HSET hash a 1 b 2", "HSET times a 1 b 2",
    "HEXPIRE times 5000 FIELDS 1 a", "GEOADD places 13.361389 38.115556 Palermo",
    "XADD stream 1-1 f v g w", "XADD stream 2-1 f v g w",
    "XADD stream 3-1 h x", "XGROUP CREATE stream g 0", "XGROUP CREATE stream idle $",
    "XREADGROUP GROUP g c COUNT 2 STREAMS stream >", "XGROUP CREATECONSUMER stream g d", "XACK stream g 1-1",
    "XDEL stream 2-1",
    *(f"RPUSH long-list {number} {'x' * 100}" for number in range(200)),
    *(f"HSET large-hash f{number} {'x' * 100}" for number in range(100)),
    *(f"SADD large-set m{number} {'x' * number}" for number in range(200)),
    *(f"ZADD large-zset {number} m{number}" for number in range(200)),
)  # fmt: skip
NAMES = (
    "string", "number", "bits", "hll", "list", "set", "ints", "zset", "hash", "times", "places", "stream", "long-list",
    "large-hash", "large-set", "large-zset",
)  # fmt: skip

# `T` is the address of the other server, `D` one where no server is. `there ` begins requests to the other server.
SCRIPT = (
    *(f"MIGRATE T {name} 0 5000" for name in NAMES), "EXISTS " + " ".join(NAMES),
    "there XINFO GROUPS stream", "there XPENDING stream g", "there HTTL times FIELDS 2 a b",
    *(f"there OBJECT ENCODING {name}" for name in NAMES),
    "MIGRATE T string 0 5000", "MIGRATE T '' 0 5000 KEYS string none", "MIGRATE T '' 0 5000 KEYS",
    "SET a 1", "SET b 2", "SET c 3", "MIGRATE T '' 0 5000 KEYS a none b a c", "MGET a b c", "there MGET a b c",
    "SET a 4", "SET d 5", "MIGRATE T a 0 5000", "MIGRATE T '' 0 5000 KEYS a d", "MGET a d", "there MGET a d",
    "MIGRATE T a 0 5000 COPY REPLACE", "GET a", "there GET a", "MIGRATE T a 0 5000 replace copy copy", "GET a",
    "MIGRATE T a 3 5000 COPY", "MIGRATE T a 99 5000", "GET a",
    "MIGRATE T '' 99 5000 KEYS a none", "there SELECT 3", "there GET a", "there SELECT 0",
    "SET e 1 PX 100000", "MIGRATE T e 0 5000", "there PTTL e", "PTTL e", "MIGRATE T a 0 0 REPLACE", "GET a",
    "SET a 4", "MIGRATE T a 0 -7 REPLACE", "GET a", "SET a 4", "MIGRATE T a 0 x", "MIGRATE T a x 5000",
    "MIGRATE T a x x", "MIGRATE T none x 5000", "MIGRATE T a 0 5000 AUTH", "MIGRATE T a 0 5000 AUTH2 x",
    "MIGRATE T a 0 5000 NO", "MIGRATE T a 0 5000 KEYS a", "MIGRATE T '' 0 5000 COPY REPLACE KEYS a REPLACE COPY",
    "SET dup 1", "MIGRATE T '' 0 5000 KEYS dup dup", "SET dup 2", "MIGRATE T '' 0 5000 REPLACE KEYS dup dup",
    "MIGRATE T a 0", "MIGRATE D a 0 200", "MIGRATE D none 0 200", "MIGRATE D '' 0 200 KEYS a none b", "GET a",
    "there SET x 1", "there DEBUG SLEEP 0",
    # Passwords.
    "there CONFIG SET requirepass secret", "MIGRATE T a 0 5000 REPLACE", "MIGRATE T a 0 5000 REPLACE AUTH wrong",
    "GET a", "MIGRATE T a 0 5000 REPLACE AUTH secret", "GET a", "SET a 5",
    "MIGRATE T a 0 5000 REPLACE AUTH2 default secret", "GET a", "SET a 6",
    "MIGRATE T a 0 5000 REPLACE AUTH2 nobody secret", "MIGRATE T a 0 5000 AUTH2 default wrong AUTH secret REPLACE",
    "there ACL SETUSER mover on >pass ~a +restore +select", "SET a 7", "SET b 7",
    "MIGRATE T '' 0 5000 REPLACE AUTH2 mover pass KEYS b a", "MGET a b", "there CONFIG SET requirepass ''",
    # Rights here.
    "ACL SETUSER limited on nopass ~c +migrate", "SET c 7", "limited MIGRATE T c 0 5000 REPLACE", "SET c 8", "SET d 8",
    "limited MIGRATE T d 0 5000", "limited MIGRATE T '' 0 5000 KEYS c d", "limited MIGRATE T d 0 x",
    "ACL SETUSER limited -migrate", "limited MIGRATE T c 0 5000", "ACL SETUSER limited +migrate %R~d",
    "limited MIGRATE T d 0 5000", "ACL DRYRUN limited MIGRATE h 1 d 0 5", "ACL DRYRUN limited MIGRATE h 1 c 0 5",
    # What the other server refuses.
    "there CONFIG SET maxmemory 1", "MIGRATE T c 0 5000 REPLACE", "there CONFIG SET maxmemory 0",
    "there SET c old", "MIGRATE T '' 0 5000 KEYS c d", "MGET c d", "there MGET c d",
    "SET r 1", "there REPLICAOF 127.0.0.1 1", "MIGRATE T r 0 5000", "there REPLICAOF NO ONE", "GET r", "there GET r",
    "there CONFIG SET min-replicas-to-write 3", "MIGRATE T r 0 5000", "there CONFIG SET min-replicas-to-write 0",
    "GET r", "CONFIG SET min-replicas-to-write 3", "MIGRATE T r 0 5000", "MIGRATE T none 0 5000", "GET r",
    "there GET r", "CONFIG SET min-replicas-to-write 0", "there CLIENT PAUSE 300 WRITE", "MIGRATE T r 0 100", "GET r",
    "there CLIENT UNPAUSE", "MIGRATE T r 0 5000 REPLACE", "GET r", "there GET r",
    "SET r 1", "CLIENT PAUSE 100 WRITE", "MIGRATE T r 0 5000 REPLACE", "GET r", "there GET r",
    # A transaction that watches the key.
    "WATCH w", "SET w 1", "MULTI", "GET w", "EXEC", "WATCH w", "other MIGRATE T w 0 5000 REPLACE", "MULTI", "PING",
    "EXEC", "SET w 1", "WATCH w", "other MIGRATE T w 0 5000 REPLACE COPY", "MULTI", "PING", "EXEC",
    "SELECT 2", "SET z 1", "MIGRATE T z 1 5000", "EXISTS z", "there SELECT 1", "there GET z", "there SELECT 0",
    "XADD s 1-1 f v", "XGROUP CREATE s g 0", "MIGRATE T s 0 5000", "there XLEN s", "SELECT 0",
    "COMMAND GETKEYS MIGRATE h 1 a 0 5", "COMMAND GETKEYSANDFLAGS MIGRATE h 1 '' 0 5 COPY KEYS a b",
)  # fmt: skip


def records(server: Server) -> list[list[bytes]]:
    """The log from the first deletion on, without times."""
    (path,) = server.folder.glob("appendonlydir/*.incr.aof")
    found = parse_records(re.sub(rb"(?m)^#.*\r?\n", b"", path.read_bytes()))
    words = [[re.sub(rb"^\d{13}$", b"<ms>", word) for word in record] for record in found]
    return words[[record[0] for record in words].index(b"DEL") :]


def events(wire: Wire) -> list[bytes]:
    """The messages that have arrived."""
    wire.send("PING")
    seen = []
    while b"pong" not in (reply := wire.receive()):
        seen.append(reply)
    return seen


def moved(start_server: StartServer, source: str, target: str) -> list[tuple[str, object]]:
    """What happens to the keys of SCRIPT."""
    options = ("--appendonly", "yes", "--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0")
    here, there = start_server(source, *options), start_server(target, *options)
    below = start_server("oracle")
    seen: list[tuple[str, object]] = []
    with (
        here.connect() as wire, here.connect() as other, here.connect() as limited, there.connect() as target_wire,
        below.connect() as replica, here.connect() as listener, here.connect() as admin,
    ):  # fmt: skip
        follow(replica, here)
        wires = {"there": target_wire, "other": other, "limited": limited}
        admin.call("CONFIG", "SET", "notify-keyspace-events", "KEA")
        for line in KEYS:
            wire.call(*split(line))
        listener.call("PSUBSCRIBE", "__key*__:*")
        before = {name: wire.ask("DEBUG", "DIGEST-VALUE", name) for name in NAMES}
        for line in SCRIPT:
            first, _, rest = line.partition(" ")
            chosen, text = (wires[first], rest) if first in wires else (wire, line)
            if first == "limited":
                assert chosen.call("AUTH", "limited", "x") == b"+OK\r\n"
            words = split(text.replace(" T ", f" 127.0.0.1 {there.port} ").replace(" D ", " 127.0.0.1 1 "))
            # Redis keeps the connection for the next call, with its database and its user; Headrace does not.
            if b"MIGRATE" in words:
                target_wire.call("CLIENT", "KILL", "TYPE", "normal")
            reply: object = chosen.call(*words)
            if b"PTTL" in words and reply != b":-2\r\n":
                reply = "some time"
            changes = field(admin, "rdb_changes_since_last_save", "persistence")
            seen.append((line, (reply, changes, events(listener))))
        seen.append(("digests", {name: target_wire.ask("DEBUG", "DIGEST-VALUE", name) for name in NAMES} == before))
        settle(replica, wire)
        seen.append(("replica", replica.ask("DEBUG", "DIGEST") == wire.ask("DEBUG", "DIGEST")))
        stats = admin.ask("INFO", "commandstats").decode()
        seen.append(("stats", re.findall(r"cmdstat_migrate:(calls=\d+).*(rejected_calls=\d+,failed_calls=\d+)", stats)))
        seen.append(("errors", admin.ask("INFO", "errorstats")))
    seen.append(("log", records(here)))
    return seen


def test_migrate_is_as_between_two_redis(start_server: StartServer) -> None:
    expected = moved(start_server, "oracle", "oracle")
    for source, target in [pair for pair in product(("oracle", "headrace"), repeat=2) if pair != ("oracle", "oracle")]:
        for theirs, ours in zip(expected, moved(start_server, source, target), strict=True):
            assert ours == theirs, (source, target)
