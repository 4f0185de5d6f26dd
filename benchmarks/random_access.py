"""Rows about entries at random in a long stream: reading, deleting and claiming one, and what their memory costs."""

from __future__ import annotations

import random
import string

from benchmarks.load import Batch, CountedBatch, Refused, prepared, resident_size
from benchmarks.peers import PeerServer
from benchmarks.row import Row, Sample
from benchmarks.streams import FILL_PIPELINE, SEED, ask, deliver, entry_id, fill_numbered, lanes, new_group

from support.wire import Argument, encode

CLIENTS = 50
PIPELINE = 16
ENTRIES = 1_000_000
REQUESTS = 100_000
# Lines of an entry of three fields in a reply.
ENTRY_LINES = 16
SMALL_SIZE = 5


def prepare(server: PeerServer) -> None:
    """A stream of a million entries."""
    fill_numbered(server, "s", ENTRIES)


def prepare_pending(server: PeerServer) -> None:
    """A stream of a million entries, all of them pending with ten consumers."""
    prepare(server)
    new_group(server, "s")
    deliver(server, "s", ENTRIES)


def present_ids(server: PeerServer) -> list[str]:
    """IDs of entries that no run has deleted, in random order. A run deletes the first `REQUESTS` of them."""
    with server.connect() as wire:
        deleted = ENTRIES - int(ask(wire, "XLEN", "s")[1:])
    numbers = random.Random(SEED).sample(range(ENTRIES), ENTRIES)
    return [entry_id(number) for number in numbers[deleted : deleted + REQUESTS]]


def read(server: PeerServer, *, count: int, command: str, range_of: str, options: str = "") -> Sample:
    """Read `count` entries at random, `{id}` in `range_of` being the ID of the first one."""
    names = [entry_id(number) for number in random.Random(SEED).choices(range(count, ENTRIES - count), k=REQUESTS)]
    requests = [encode([command, "s", *range_of.format(id=name).split(), *options.split()]) for name in names]
    batches = [
        CountedBatch(b"".join(requests[first : first + PIPELINE]), (1 + ENTRY_LINES * count) * PIPELINE)
        for first in range(0, REQUESTS, PIPELINE)
    ]
    return prepared(server, REQUESTS, [batches[client::CLIENTS] for client in range(CLIENTS)])


def xrange_one(server: PeerServer) -> Sample:
    """XRANGE of one entry by its ID."""
    return read(server, count=1, command="XRANGE", range_of="{id} {id}")


def xrevrange_one(server: PeerServer) -> Sample:
    """XREVRANGE COUNT 1: the last entry up to an ID."""
    return read(server, count=1, command="XREVRANGE", range_of="{id} -", options="COUNT 1")


def xrange_few(server: PeerServer) -> Sample:
    """XRANGE COUNT 10 from an ID on."""
    return read(server, count=10, command="XRANGE", range_of="{id} +", options="COUNT 10")


def change(server: PeerServer, command: tuple[Argument, ...], reply: str) -> Sample:
    """Send a command for each of the IDs, which follows its words. `{id}` in the reply is the ID, `{size}` its size."""
    requests = [
        (encode((*command, name)), reply.format(id=name, size=len(name)).encode()) for name in present_ids(server)
    ]
    return prepared(server, len(requests), lanes(requests, pipeline=PIPELINE, clients=CLIENTS))


def xdel(server: PeerServer) -> Sample:
    """XDEL of one entry."""
    return change(server, ("XDEL", "s"), ":1\r\n")


def xackdel(server: PeerServer) -> Sample:
    """XACKDEL of one pending entry."""
    return change(server, ("XACKDEL", "s", "g", "IDS", 1), "*1\r\n:1\r\n")


def xclaim(server: PeerServer) -> Sample:
    """XCLAIM of one pending entry, which is in the reply."""
    requests = [encode(("XCLAIM", "s", "g", "claimer", 0, name)) for name in present_ids(server)]
    batches = [
        CountedBatch(b"".join(requests[first : first + PIPELINE]), (1 + ENTRY_LINES) * PIPELINE)
        for first in range(0, REQUESTS, PIPELINE)
    ]
    return prepared(server, REQUESTS, [batches[client::CLIENTS] for client in range(CLIENTS)])


def small_entry_bytes(server: PeerServer) -> Sample:
    """Growth of the process while a million entries of one field of five random letters are added, divided by a
    million."""
    before = resident_size(server)
    draw = random.Random(SEED)
    batches = []
    for first in range(0, ENTRIES, FILL_PIPELINE):
        names = [entry_id(number) for number in range(first, first + FILL_PIPELINE)]
        values = ["".join(draw.choices(string.ascii_lowercase, k=SMALL_SIZE)) for _ in names]
        requests = [encode(("XADD", "s", name, "f", value)) for name, value in zip(names, values, strict=True)]
        replies = [f"${len(name)}\r\n{name}\r\n".encode() for name in names]
        batches.append(Batch(b"".join(requests), b"".join(replies)))
    prepared(server, ENTRIES, [batches])
    return Sample((resident_size(server) - before) / ENTRIES)


def left_entry_bytes(server: PeerServer) -> Sample:
    """What the process has grown by after half of a million entries were deleted at random, divided by the number of
    those that are left."""
    before = resident_size(server)
    prepare(server)
    numbers = random.Random(SEED).sample(range(ENTRIES), ENTRIES // 2)
    requests = [(encode(("XDEL", "s", entry_id(number))), b":1\r\n") for number in numbers]
    prepared(server, len(requests), lanes(requests, pipeline=PIPELINE, clients=CLIENTS))
    with server.connect() as wire:
        left = int(ask(wire, "XLEN", "s")[1:])
    if left != ENTRIES - len(numbers):
        raise Refused(f"{left} entries are left")
    return Sample((resident_size(server) - before) / left)


RATE = "requests/s"
ROWS = (
    Row("random-xrange", "XRANGE of one, random of 1 M, pipeline 16", RATE, xrange_one, prepare, target=1.0),
    Row("random-xrange-10", "XRANGE COUNT 10, random of 1 M, pipeline 16", RATE, xrange_few, prepare, target=1.0),
    Row("random-xrevrange", "XREVRANGE of one, random of 1 M, pipeline 16", RATE, xrevrange_one, prepare, target=1.0),
    Row("random-xdel", "XDEL, random of 1 M, pipeline 16", RATE, xdel, prepare, target=1.0),
    Row("random-xackdel", "XACKDEL, random of 1 M, pipeline 16", RATE, xackdel, prepare_pending, target=1.0),
    Row("random-xclaim", "XCLAIM, random of 1 M, pipeline 16", RATE, xclaim, prepare_pending, target=1.0),
    Row(
        "small-entry-bytes", "resident bytes per small entry", "bytes", small_entry_bytes, target=1.0, runs=1,
        is_rate=False,
    ),
    Row(
        "left-entry-bytes", "resident bytes per entry, half deleted", "bytes", left_entry_bytes, target=1.0, runs=1,
        is_rate=False,
    ),
)  # fmt: skip
