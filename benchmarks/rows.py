"""What is measured. Each row is one function that loads one server and returns one number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.durability import prepare_rewrite, reload_seconds, worst_ping_during_rewrite
from benchmarks.load import requests_per_second, resident_size

from support.servers import Server

FIELDS = ("sensor", "sensor-__rand_int__", "kind", "temperature", "value", "__rand_int__")
"""Three short fields whose values vary: equal ones would flatter a store that compresses."""
RANDOM_BELOW = 1_000_000
READ_ENTRIES = 100_000
"""Entries of the stream that XRANGE and XREAD look into."""
GROUP_ENTRIES = 500_000
"""Entries a group reads per run: 5,000 reads of 100."""
MEMORY_ENTRIES = 1_000_000
FILL_PIPELINE = 100
PARSING_THREADS = 2
"""Threads of the client where replies are large: one alone would be what is measured. redis-benchmark with threads
stops the clock at the next quarter of a second, so such a row must run for many of them."""

Measure = Callable[[Server], float]


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    title: str
    unit: str
    measure: Measure
    prepare: Callable[[Server], None] = lambda server: None
    """Done once per server, before the first run."""
    runs: int = 3
    is_rate: bool = True
    """More is better; else less is."""
    is_usual: bool = True
    """Run when no rows are named; those that take minutes are not."""


def fill(server: Server, key: str, entries: int) -> None:
    """Add entries with three short fields, one connection, so that IDs and memory grow the same way everywhere."""
    add = ("XADD", key, "*", *FIELDS)
    requests_per_second(server, entries, *add, pipeline=FILL_PIPELINE, clients=1, random_below=RANDOM_BELOW)


def prepare_read_stream(server: Server) -> None:
    """A stream of 100,000 entries, kept from row to row."""
    with server.connect() as wire:
        length = wire.ask("XLEN", "read")
        if length != READ_ENTRIES:
            wire.call("DEL", "read")
            fill(server, "read", READ_ENTRIES)


def middle_id(server: Server) -> str:
    """The ID of the entry in the middle of the read stream."""
    with server.connect() as wire:
        entries = wire.ask("XRANGE", "read", "-", "+", "COUNT", READ_ENTRIES // 2)
        return str(entries[-1][0].decode())


def ping(server: Server) -> float:
    """PING: what connection handling costs before any store is touched; the ceiling of every other row."""
    return requests_per_second(server, 200_000, "PING")


def xadd(server: Server) -> float:
    """XADD of three short fields, each client waiting for its reply: the common producer."""
    return _add(server, 200_000, 1)


def xadd_pipelined(server: Server) -> float:
    """XADD sixteen at a time: the producer that batches, where the cost per command shows."""
    return _add(server, 800_000, 16)


def _add(server: Server, requests: int, pipeline: int) -> float:
    with server.connect() as wire:
        wire.call("DEL", "added")
    add = ("XADD", "added", "*", *FIELDS)
    return requests_per_second(server, requests, *add, pipeline=pipeline, random_below=RANDOM_BELOW)


def xrange(server: Server) -> float:
    """XRANGE COUNT 1000 from the middle of 100,000 entries: finding a place, and the cost of a long reply."""
    command = ("XRANGE", "read", middle_id(server), "+", "COUNT", "1000")
    return requests_per_second(server, 15_000, *command, threads=PARSING_THREADS)


def xread(server: Server) -> float:
    """XREAD COUNT 100 after the middle entry: a reader that catches up."""
    command = ("XREAD", "COUNT", "100", "STREAMS", "read", middle_id(server))
    return requests_per_second(server, 100_000, *command, threads=PARSING_THREADS)


def xreadgroup(server: Server) -> float:
    """XREADGROUP COUNT 100 of new entries: every reply makes a hundred pending entries and their log records.

    The group is made anew for each run, so each run reads the same 500,000 entries into an empty pending list.
    """
    with server.connect() as wire:
        wire.call("XGROUP", "DESTROY", "group-read", "g")
        wire.call("XGROUP", "CREATE", "group-read", "g", "0")
    command = ("XREADGROUP", "GROUP", "g", "c", "COUNT", "100", "STREAMS", "group-read", ">")
    return requests_per_second(server, GROUP_ENTRIES // 100, *command)


def prepare_group_stream(server: Server) -> None:
    """The entries the group reads."""
    fill(server, "group-read", GROUP_ENTRIES)


def resident_bytes_per_entry(server: Server) -> float:
    """Growth of the process while a million entries of three short fields are added, divided by a million."""
    before = resident_size(server)
    fill(server, "memory", MEMORY_ENTRIES)
    growth = resident_size(server) - before
    with server.connect() as wire:
        wire.call("DEL", "memory")
    return growth / MEMORY_ENTRIES


ROWS = [
    # Memory first: what other rows leave behind in the allocator would hide growth.
    Row("memory", "resident bytes per entry", "bytes", resident_bytes_per_entry, runs=1, is_rate=False),
    Row("ping", "PING", "requests/s", ping),
    Row("xadd", "XADD", "requests/s", xadd),
    Row("xadd-pipelined", "XADD, pipeline 16", "requests/s", xadd_pipelined),
    Row("xrange", "XRANGE COUNT 1000", "requests/s", xrange, prepare_read_stream),
    Row("xread", "XREAD COUNT 100", "requests/s", xread, prepare_read_stream),
    Row("xreadgroup", "XREADGROUP COUNT 100", "requests/s", xreadgroup, prepare_group_stream),
    Row(
        "rewrite",
        "worst PING in a rewrite",
        "ms",
        worst_ping_during_rewrite,
        prepare_rewrite,
        is_rate=False,
        is_usual=False,
    ),
    Row("reload", "reload 500k + 100k pending", "s", reload_seconds, runs=1, is_rate=False, is_usual=False),
]
