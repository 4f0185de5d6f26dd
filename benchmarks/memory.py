"""Rows about memory: what the process has resident for an entry, and for a pending one."""

from __future__ import annotations

from benchmarks.load import resident_size
from benchmarks.peers import PeerServer
from benchmarks.row import Row, Sample
from benchmarks.streams import ask, fill, new_group

MEMORY_ENTRIES = 1_000_000
READ_COUNT = 100


def entry_bytes(server: PeerServer) -> Sample:
    """Growth of the process while a million entries of three short fields are added, divided by a million."""
    before = resident_size(server)
    fill(server, "memory", MEMORY_ENTRIES)
    return Sample((resident_size(server) - before) / MEMORY_ENTRIES)


def prepare_entries(server: PeerServer) -> None:
    """A million entries that have been read once: what reading keeps at hand is not of the pending entries."""
    fill(server, "memory", MEMORY_ENTRIES)
    start = b"0"
    with server.connect() as wire:
        for _ in range(MEMORY_ENTRIES // 1000):
            start = wire.ask("XRANGE", "memory", b"(" + start, "+", "COUNT", 1000)[-1][0]


def pending_bytes(server: PeerServer) -> Sample:
    """Growth of the process while one consumer reads all of them, a hundred at a time, divided by a million."""
    new_group(server, "memory")
    before = resident_size(server)
    with server.connect() as wire:
        for _ in range(MEMORY_ENTRIES // READ_COUNT):
            ask(wire, "XREADGROUP", "GROUP", "g", "c", "COUNT", READ_COUNT, "STREAMS", "memory", ">")
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
