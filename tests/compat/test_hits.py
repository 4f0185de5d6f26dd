"""INFO's keyspace_hits and keyspace_misses: which commands count their reads, and how often."""

from __future__ import annotations

import pytest

from support.servers import Server
from support.wire import Wire

# (hits, misses) with key `k` and stream `s` with group `g`, and (hits, misses) in an empty database, by command.
COUNTS = {
    "XLEN s": ((1, 0), (0, 1)),
    "XRANGE s - +": ((1, 0), (0, 1)),
    "XREVRANGE s + -": ((1, 0), (0, 1)),
    "XREAD STREAMS s 0": ((2, 0), (0, 2)),
    "XREAD STREAMS s none 0 0": ((2, 2), (0, 4)),
    "XREADGROUP GROUP g c STREAMS s >": ((2, 0), (0, 1)),
    "XREADGROUP GROUP none c STREAMS s >": ((1, 0), (0, 1)),
    "XACK s g 9-9": ((1, 0), (0, 1)),
    "XACKDEL s g IDS 1 9-9": ((1, 0), (0, 1)),
    "XCLAIM s g c 0 9-9": ((1, 0), (0, 1)),
    "XAUTOCLAIM s g c 0 0": ((1, 0), (0, 1)),
    "XPENDING s g": ((1, 0), (0, 1)),
    "XINFO STREAM s": ((1, 0), (0, 1)),
    "XINFO STREAM s FULL": ((1, 0), (0, 1)),
    "XINFO GROUPS s": ((1, 0), (0, 1)),
    "XINFO CONSUMERS s g": ((1, 0), (0, 1)),
    "XRANGE s bad +": ((0, 0), (0, 0)),
    "XADD s * a 1": ((0, 0), (0, 0)),
    "XDEL s 9-9": ((0, 0), (0, 0)),
    "XDELEX s IDS 1 9-9": ((0, 0), (0, 0)),
    "XTRIM s MAXLEN 100": ((0, 0), (0, 0)),
    "XNACK s g FAIL IDS 1 9-9": ((0, 0), (0, 0)),
    "XGROUP SETID s g $": ((0, 0), (0, 0)),
    "XGROUP CREATECONSUMER s g new": ((0, 0), (0, 0)),
    "XGROUP DELCONSUMER s g c": ((0, 0), (0, 0)),
    "XSETID s 99999999999999-0": ((0, 0), (0, 0)),
    "GET k": ((1, 0), (0, 1)),
    "GET s": ((1, 0), (0, 1)),
    "GETDEL k": ((1, 0), (0, 1)),
    "GETEX k": ((1, 0), (0, 1)),
    "GETSET k 1": ((1, 0), (0, 1)),
    "MGET k s none": ((2, 1), (0, 3)),
    "STRLEN k": ((1, 0), (0, 1)),
    "SET k 2": ((0, 0), (0, 0)),
    "SET k 2 GET": ((1, 0), (0, 1)),
    "SET k 2 IFEQ 1": ((1, 0), (0, 0)),
    "SET k 2 XX": ((0, 0), (0, 0)),
    "INCR k": ((0, 0), (0, 0)),
    "APPEND k x": ((0, 0), (0, 0)),
    "EXISTS k none": ((1, 1), (0, 2)),
    "TOUCH k none": ((1, 1), (0, 2)),
    "TYPE k": ((1, 0), (0, 1)),
    "TTL k": ((1, 0), (0, 1)),
    "PEXPIRETIME k": ((1, 0), (0, 1)),
    "EXPIRE k 100": ((0, 0), (0, 0)),
    "PERSIST k": ((0, 0), (0, 0)),
    "COPY k k2": ((1, 0), (0, 1)),
    "RENAME k k2": ((0, 0), (0, 0)),
    "OBJECT ENCODING k": ((1, 0), (0, 1)),
    "OBJECT REFCOUNT k": ((1, 0), (0, 1)),
    "OBJECT IDLETIME k": ((1, 0), (0, 1)),
    "LCS s none": ((1, 1), (0, 2)),
    "LCS none s": ((1, 1), (0, 2)),
    "DEL k": ((0, 0), (0, 0)),
    "KEYS *": ((0, 0), (0, 0)),
    "SCAN 0": ((0, 0), (0, 0)),
}


def read_counts(wire: Wire) -> tuple[int, int]:
    text = wire.ask("INFO", "stats").decode()
    fields = dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)
    return int(fields["keyspace_hits"]), int(fields["keyspace_misses"])


def counted(wire: Wire, line: str) -> tuple[int, int]:
    hits, misses = read_counts(wire)
    wire.call(*line.split())
    hits_after, misses_after = read_counts(wire)
    return hits_after - hits, misses_after - misses


@pytest.mark.parametrize("line", COUNTS)
def test_reads_are_counted_as_hits_and_misses(server: Server, line: str) -> None:
    with server.connect() as wire:
        wire.call("SET", "k", "1")
        wire.call("XADD", "s", "1-1", "a", "1")
        wire.call("XGROUP", "CREATE", "s", "g", "0")
        present = counted(wire, line)
        wire.call("FLUSHALL")
        assert (present, counted(wire, line)) == COUNTS[line]


def test_resetting_statistics_forgets_hits_and_misses(server: Server) -> None:
    with server.connect() as wire:
        wire.call("GET", "none")
        wire.call("CONFIG", "RESETSTAT")
        assert read_counts(wire) == (0, 0)
