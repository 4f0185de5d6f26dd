"""Rows about memory: resident memory of the process for an entry, and for a pending one."""

from __future__ import annotations

from benchmarks.load import benchmark, resident_size
from benchmarks.peers import PeerServer
from benchmarks.row import Row, Sample
from benchmarks.streams import deliver, fill, new_group

MEMORY_ENTRIES = 1_000_000


def entry_bytes(server: PeerServer) -> Sample:
    """Growth of the process while a million entries of three short fields are added, divided by a million."""
    before = resident_size(server)
    fill(server, "memory", MEMORY_ENTRIES)
    return Sample((resident_size(server) - before) / MEMORY_ENTRIES)


def prepare_entries(server: PeerServer) -> None:
    """A million entries that were read once, so that the caches of reading are not counted as pending entries."""
    fill(server, "memory", MEMORY_ENTRIES)
    new_group(server, "memory")
    read = ("XREADGROUP", "GROUP", "g", "c", "COUNT", "1000", "NOACK", "STREAMS", "memory", ">")
    benchmark(server, MEMORY_ENTRIES // 1000, *read, clients=1)


def pending_bytes(server: PeerServer) -> Sample:
    """Growth of the process while one consumer reads all of them, a hundred at a time, divided by a million."""
    new_group(server, "memory")
    before = resident_size(server)
    deliver(server, "memory", MEMORY_ENTRIES, consumers=1)
    return Sample((resident_size(server) - before) / MEMORY_ENTRIES)


ROWS = (
    Row("entry-bytes", "resident bytes per entry", "bytes", entry_bytes, target=2.0, runs=1, is_rate=False),
    Row(
        "pending-bytes",
        "resident bytes per pending entry",
        "bytes",
        pending_bytes,
        prepare_entries,
        target=4.0,
        runs=1,
        is_rate=False,
    ),
)
