"""MEMORY USAGE compared with the resident memory of the process: `python -m benchmarks.footprint [--redis]`.

Each shape is made on a server of its own. `grown` is the growth of the process while it is made, `returned` what it
gives back when the keys are deleted, both after MEMORY PURGE; the last two columns are MEMORY USAGE divided by them.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.load import REPLY_DEADLINE_S, Batch, benchmark, prepared, resident_size
from benchmarks.peers import MissingPeer, Peer, PeerServer, find_peer
from benchmarks.streams import SEED, ask, deliver, entry_id, fill, fill_numbered, lanes, new_group

from support.wire import Argument, encode

OPTIONS = ("--appendonly", "no")
FREEING_DEADLINE_S = 60.0
# Memory is read until it has not changed for this long.
SETTLED_S = 1.0
BATCH_COUNT = 100


@dataclass(frozen=True)
class Shape:
    """Keys of one kind. `make` returns their names."""

    title: str
    make: Callable[[PeerServer], list[str]]


def send(server: PeerServer, commands: list[tuple[Argument, ...]], reply: bytes) -> None:
    """Send commands that all get the same reply."""
    prepared(server, len(commands), lanes([(encode(words), reply) for words in commands], pipeline=16, clients=1))


def small_entries(server: PeerServer) -> list[str]:
    """A million entries of one short field."""
    benchmark(server, 1_000_000, "XADD", "s", "*", "f", "__rand_int__", pipeline=100, clients=1, random_below=1_000_000)
    return ["s"]


def usual_entries(server: PeerServer) -> list[str]:
    """A million entries of three fields."""
    fill(server, "s", 1_000_000)
    return ["s"]


def looked_at(server: PeerServer) -> list[str]:
    """A million entries of three fields, after XINFO STREAM."""
    usual_entries(server)
    with server.connect() as wire:
        wire.socket.settimeout(REPLY_DEADLINE_S)
        ask(wire, "XINFO", "STREAM", "s")
    return ["s"]


def large_values(server: PeerServer) -> list[str]:
    """Entries with ten thousand random bytes each."""
    draw = random.Random(SEED)
    batches = []
    for number in range(10_000):
        name = entry_id(number)
        request = encode(("XADD", "s", name, "value", draw.randbytes(10_000)))
        batches.append(Batch(request, f"${len(name)}\r\n{name}\r\n".encode()))
    prepared(server, len(batches), [batches])
    return ["s"]


def half_deleted(server: PeerServer) -> list[str]:
    """Entries of which every second is deleted."""
    fill_numbered(server, "s", 300_000)
    send(server, [("XDEL", "s", entry_id(number)) for number in range(0, 300_000, 2)], b":1\r\n")
    return ["s"]


def short_streams(server: PeerServer) -> list[str]:
    """Twenty thousand streams of some ten entries."""
    add = ("XADD", "s:__rand_int__", "*", "field", "__rand_int__")
    benchmark(server, 200_000, *add, pipeline=100, clients=1, random_below=20_000)
    with server.connect() as wire:
        return [name.decode() for name in wire.ask("KEYS", "*")]


def groups(server: PeerServer) -> list[str]:
    """Twenty thousand groups of one stream."""
    fill_numbered(server, "s", 10)
    send(server, [("XGROUP", "CREATE", "s", f"group-{number}", "0") for number in range(20_000)], b"+OK\r\n")
    return ["s"]


def consumers(server: PeerServer) -> list[str]:
    """A hundred thousand consumers, each with an entry."""
    fill_numbered(server, "s", 100_000)
    new_group(server, "s")
    command = ("XREADGROUP", "GROUP", "g", "worker-__rand_int__", "COUNT", "1", "STREAMS", "s", ">")
    benchmark(server, 100_000, *command, pipeline=16, clients=1, random_below=10_000_000)
    return ["s"]


def pending_runs(server: PeerServer) -> list[str]:
    """A million pending entries, delivered a hundred at a time."""
    fill_numbered(server, "s", 1_000_000)
    new_group(server, "s")
    deliver(server, "s", 1_000_000)
    return ["s"]


def pending_single(server: PeerServer) -> list[str]:
    """Pending entries delivered one by one."""
    fill_numbered(server, "s", 300_000)
    new_group(server, "s")
    read = ("XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "STREAMS", "s", ">")
    benchmark(server, 300_000, *read, pipeline=16, clients=1)
    return ["s"]


def pending_claimed(server: PeerServer) -> list[str]:
    """Pending entries that were claimed one by one, in random order."""
    fill_numbered(server, "s", 300_000)
    new_group(server, "s")
    deliver(server, "s", 300_000)
    requests = []
    for number in random.Random(SEED).sample(range(300_000), 300_000):
        name = entry_id(number)
        claim = encode(("XCLAIM", "s", "g", "claimer", 0, name, "JUSTID"))
        requests.append((claim, f"*1\r\n${len(name)}\r\n{name}\r\n".encode()))
    prepared(server, len(requests), lanes(requests, pipeline=16, clients=1))
    return ["s"]


def pending_acked(server: PeerServer) -> list[str]:
    """Pending entries of which nine in ten were acknowledged, in random order."""
    fill_numbered(server, "s", 500_000)
    new_group(server, "s")
    deliver(server, "s", 500_000)
    numbers = random.Random(SEED).sample(range(500_000), 450_000)
    send(server, [("XACK", "s", "g", entry_id(number)) for number in numbers], b":1\r\n")
    return ["s"]


def pending_released(server: PeerServer) -> list[str]:
    """Pending entries that were released in random order."""
    fill_numbered(server, "s", 300_000)
    new_group(server, "s")
    deliver(server, "s", 300_000)
    numbers = random.Random(SEED).sample(range(300_000), 300_000)
    send(server, [("XNACK", "s", "g", "FAIL", "IDS", 1, entry_id(number)) for number in numbers], b":1\r\n")
    return ["s"]


def strings(server: PeerServer) -> list[str]:
    """Strings of some twenty bytes."""
    names = [f"key:{number:07}" for number in range(200_000)]
    send(server, [("SET", name, f"value of {name}") for name in names], b"+OK\r\n")
    return names


def long_strings(server: PeerServer) -> list[str]:
    """Strings of a megabyte."""
    names = [f"key:{number}" for number in range(100)]
    send(server, [("SET", name, "x" * 1_000_000) for name in names], b"+OK\r\n")
    return names


SHAPES = (
    Shape("small entries", small_entries),
    Shape("entries of three fields", usual_entries),
    Shape("the same, after XINFO STREAM", looked_at),
    Shape("entries of 10 kB", large_values),
    Shape("entries, every second deleted", half_deleted),
    Shape("20,000 short streams", short_streams),
    Shape("20,000 groups", groups),
    Shape("100,000 consumers", consumers),
    Shape("1 M pending, by 100", pending_runs),
    Shape("300 k pending, by one", pending_single),
    Shape("300 k pending, claimed at random", pending_claimed),
    Shape("50 k pending of 500 k, at random", pending_acked),
    Shape("300 k released, at random", pending_released),
    Shape("200 k short strings", strings),
    Shape("100 strings of 1 MB", long_strings),
)


def settled_size(server: PeerServer) -> int:
    """Resident bytes once they do not change any more: keys are freed, and nodes counted, in the background."""
    deadline_s = time.monotonic() + FREEING_DEADLINE_S
    size, since_s = -1, 0.0
    with server.connect() as wire:
        while time.monotonic() < deadline_s:
            wire.call("MEMORY", "PURGE")
            now = resident_size(server)
            if abs(now - size) > 1 << 16 or b"lazyfree_pending_objects:0\r\n" not in wire.call("INFO", "memory"):
                size, since_s = now, time.monotonic()
            elif time.monotonic() - since_s >= SETTLED_S:
                break
            time.sleep(0.1)
    return size


def measure(server: PeerServer, shape: Shape) -> tuple[int, int, int]:
    """(MEMORY USAGE of all keys, growth, memory returned by deletion), in bytes."""
    fill_numbered(server, "warm", 1_000)
    with server.connect() as wire:
        wire.call("DEL", "warm")
        empty = settled_size(server)
        names = shape.make(server)
        full = settled_size(server)
        usage = sum(wire.ask("MEMORY", "USAGE", name, "SAMPLES", 0) for name in names)
        for first in range(0, len(names), BATCH_COUNT):
            wire.call("DEL", *names[first : first + BATCH_COUNT])
        return usage, full - empty, full - settled_size(server)


def report(peer: Peer, only: str) -> None:
    """Measure a server's shapes and print them."""
    print(f"{peer.title:36}{'MEMORY USAGE':>14}{'grown':>14}{'returned':>14}{'of grown':>10}{'of returned':>12}")
    for shape in SHAPES:
        if only not in shape.title:
            continue
        with tempfile.TemporaryDirectory(prefix="headrace-footprint-") as folder:
            server = PeerServer(peer, Path(folder), *OPTIONS)
            server.start()
            try:
                usage, grown, returned = measure(server, shape)
            finally:
                server.kill()
        ratios = f"{usage / max(grown, 1):>10.2f}{usage / max(returned, 1):>12.2f}"
        print(f"{shape.title:36}{usage:>14,}{grown:>14,}{returned:>14,}{ratios}", flush=True)


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser("python -m benchmarks.footprint", description=__doc__)
    parser.add_argument("--only", metavar="TEXT", default="", help="shapes whose title has this in it")
    parser.add_argument("--redis", action="store_true", help="measure Redis as well, if it is installed")
    options = parser.parse_args()
    try:
        for name in ("headrace", *(["redis"] if options.redis else [])):
            report(find_peer(name), options.only)
    except MissingPeer as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
