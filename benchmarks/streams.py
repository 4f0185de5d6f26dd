"""The streams and groups that the rows work on."""

from __future__ import annotations

import random
from collections.abc import Sequence

from benchmarks.load import Batch, Refused, benchmark, prepared
from benchmarks.peers import PeerServer

from support.servers import Server
from support.wire import Argument, Wire, encode

# Three short fields whose values vary: equal values would favour a store that compresses.
FIELDS = ("sensor", "sensor-__rand_int__", "kind", "temperature", "value", "__rand_int__")
RANDOM_BELOW = 1_000_000
FILL_PIPELINE = 100
START_MS = 1_700_000_000_000
CONSUMERS = 10
# Entries of one read where a row begins with pending entries.
DELIVERY_COUNT = 100
SEED = 6


def fill(server: Server, key: str, entries: int) -> None:
    """Add entries with three short fields, one connection, so that IDs and memory grow the same way everywhere."""
    add = ("XADD", key, "*", *FIELDS)
    benchmark(server, entries, *add, pipeline=FILL_PIPELINE, clients=1, random_below=RANDOM_BELOW)


def entry_id(number: int) -> str:
    """ID of the entry with that number, from 0 on, in a stream that `fill_numbered` made."""
    return f"{START_MS + number}-0"


def fill_numbered(server: PeerServer, key: str, entries: int) -> None:
    """Entries with IDs known in advance, and values drawn from a fixed seed."""
    draw = random.Random(SEED)
    batches = []
    for first in range(0, entries, FILL_PIPELINE):
        requests, replies = [], []
        for number in range(first, min(first + FILL_PIPELINE, entries)):
            values = [f"{draw.randrange(RANDOM_BELOW):012}" for _ in range(2)]
            name = entry_id(number)
            fields = ("sensor", f"sensor-{values[0]}", "kind", "temperature", "value", values[1])
            requests.append(encode(("XADD", key, name, *fields)))
            replies.append(f"${len(name)}\r\n{name}\r\n".encode())
        batches.append(Batch(b"".join(requests), b"".join(replies)))
    prepared(server, entries, [batches])


def ask(wire: Wire, *words: Argument) -> bytes:
    """A call that must not be answered by an error. Raises Refused."""
    reply = wire.call(*words)
    if reply.startswith(b"-"):
        raise Refused(reply.decode().strip())
    return reply


def new_group(server: Server, key: str, start: str = "0") -> None:
    """The group `g` with nothing pending, its place after `start`."""
    with server.connect() as wire:
        wire.call("XGROUP", "DESTROY", key, "g")
        ask(wire, "XGROUP", "CREATE", key, "g", start)


def deliver(server: Server, key: str, entries: int, *, consumers: int = CONSUMERS) -> None:
    """Random consumers read `entries` new entries, a hundred at a time."""
    command = ("XREADGROUP", "GROUP", "g", "c__rand_int__", "COUNT", str(DELIVERY_COUNT), "STREAMS", key, ">")
    benchmark(server, entries // DELIVERY_COUNT, *command, clients=1, random_below=consumers)


def lanes(requests: Sequence[tuple[bytes, bytes]], *, pipeline: int, clients: int) -> list[list[Batch]]:
    """Pairs of request and reply as batches of `pipeline`, dealt out among `clients` connections."""
    batches = [
        Batch(b"".join(request for request, _ in group), b"".join(reply for _, reply in group))
        for group in _groups(requests, pipeline)
    ]
    return [batches[client::clients] for client in range(clients)]


def _groups(requests: Sequence[tuple[bytes, bytes]], size: int) -> list[Sequence[tuple[bytes, bytes]]]:
    return [requests[first : first + size] for first in range(0, len(requests), size)]
