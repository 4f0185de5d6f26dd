"""What policies cost: `python -m benchmarks.policies [--entries N] [--rounds N]`, best in the compiled form.

The commands run on servers in this process, without sockets and files, each with a policy and without. Their rounds
take turns, and a figure is the ratio of the processor times of neighbouring rounds. Bytes are what MEMORY USAGE says.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable, Iterator
from statistics import median
from time import process_time_ns
from typing import Final

from headrace import is_compiled
from support.inprocess import Rig, finish_turns

Request = list[bytes]

# Requests that a client sends together.
BATCH: Final = 16
# Entries that are added or read in one request while a server is filled.
FILL_COUNT: Final = 1000
# Longer than any run: nothing becomes due.
LONG_MS: Final = 10**9
# One entry in so many fails.
FAILING: Final = 100
FIELDS: Final = [b"sensor", b"7", b"kind", b"temperature", b"value", b"21"]

# The settings that a group of many pending entries has, by row.
READS: Final = {
    "REDELIVER": "REDELIVER 1000000000",
    "REDELIVER, dead letters": "REDELIVER 1000000000 MAX-DELIVERIES 5 DEADLETTER dead",
    "REDELIVER of three steps": "REDELIVER 1000000000,1000000001,1000000002",
    "GUARD": "GUARD yes REDELIVER 1000000000",
    "MAX-PENDING": "MAX-PENDING 1000000000 REDELIVER 1000000000",
    "ORDER-BY": "ORDER-BY order REDELIVER 1000000000",
}


class NoLog:
    """Takes records and drops them."""

    mark = 0

    def append(self, effects: list[tuple[int, bytes]], grouped: bool) -> None:
        """Drop the records."""


class Server:
    """A server with the stream `s` and the group `g`, and one client."""

    def __init__(self, settings: str = "", stream_settings: str = "") -> None:
        self.rig = Rig()
        self.rig.dispatcher.units.log_to(NoLog())
        self._caller = self.rig.connect()
        self.call("XGROUP CREATE s g 0 MKSTREAM", "XGROUP CREATECONSUMER s g c")
        if settings:
            self.call(f"XGROUP CONFIG s g {settings}")
        if stream_settings:
            self.call(f"XCFGSET s {stream_settings}")
        self.last = 0

    def call(self, *lines: str) -> bytes:
        """Run lines, none of which may fail, and return the replies."""
        reply = self._caller.call(*lines)
        assert not reply.startswith(b"-"), reply
        return reply

    def run(self, requests: list[Request]) -> None:
        """Run requests as one pipeline, and drop their replies."""
        session = self._caller.session
        self.rig.dispatcher.execute(session, requests, self.rig.clock())
        finish_turns(self.rig.dispatcher, self.rig.clock())
        session.out.clear()
        self.rig.dispatcher.outgoing.clear()

    def additions(self, count: int, options: list[bytes] | None = None) -> list[Request]:
        """Requests that add entries."""
        self.last += count
        return [
            [b"XADD", b"s", *(options or []), b"%d-1" % number, *FIELDS]
            for number in range(self.last - count + 1, self.last + 1)
        ]

    def fill(self, count: int) -> None:
        """Add entries and let the consumer have them."""
        for _ in range(count // FILL_COUNT):
            self.run(self.additions(FILL_COUNT))
            self.run([read(FILL_COUNT)])

    @property
    def size(self) -> int:
        """Bytes of the stream."""
        return int(self.call("MEMORY USAGE s SAMPLES 0")[1:])


def read(count: int) -> Request:
    """A plain read."""
    return [b"XREADGROUP", b"GROUP", b"g", b"c", b"COUNT", b"%d" % count, b"STREAMS", b"s", b">"]


def on_ids(name: bytes, ids: Iterator[int]) -> Request:
    """A request with IDs as its last words."""
    return [*name.split(), *[b"%d-1" % number for number in ids]]


def timed_us(work: Callable[[], object], count: int) -> float:
    """Processor time of `work` in microseconds, divided by a count."""
    gc.collect()
    started_ns = process_time_ns()
    work()
    return (process_time_ns() - started_ns) / 1000 / count


def compare(name: str, plain: Callable[[], float], governed: Callable[[], float], rounds: int) -> None:
    """Run both in turn, and print the ratio of their times."""
    plain(), governed()
    pairs = [(plain(), governed()) for _ in range(rounds)]
    ratios = sorted(with_policy / without for without, with_policy in pairs)
    without_us = median(without for without, _ in pairs)
    print(f"{name:42} {median(ratios):5.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) of {without_us:.2f} us")


def reads_of(server: Server, count: int) -> Callable[[], float]:
    """The time of a read of one new entry, which `count` are added for."""

    def work() -> float:
        server.run(server.additions(count))
        batches = [[read(1)] * BATCH] * (count // BATCH)
        return timed_us(lambda: [server.run(batch) for batch in batches], count)

    return work


def cycles_of(server: Server, count: int, failing: int = 0) -> Callable[[], float]:
    """The time of an entry that is added, read by ten and acknowledged; one of `failing` is released once before."""

    def work() -> float:
        requests: list[Request] = []
        for _ in range(count // 10):
            first = server.last + 1
            requests += server.additions(10)
            requests.append(read(10))
            if failing and first % failing < 10:
                requests.append(on_ids(b"XNACK s g FAIL IDS 1", iter([first])))
            requests.append(
                on_ids(b"XACK s g", iter(range(first + (1 if failing and first % failing < 10 else 0), first + 10)))
            )
        batches = [requests[start : start + BATCH] for start in range(0, len(requests), BATCH)]
        took_us = timed_us(lambda: [server.run(batch) for batch in batches], count)
        server.call("XTRIM s MAXLEN 1000")
        return took_us

    return work


def run_all(server: Server, requests: list[Request]) -> None:
    """Run requests in pipelines."""
    for start in range(0, len(requests), BATCH):
        server.run(requests[start : start + BATCH])


def measure_delays(count: int) -> None:
    """Print what delayed entries take, released ones and new ones, each with a due time of its own."""
    server, other = Server("REDELIVER 1000000000"), Server("REDELIVER 1000000000")
    for each in (server, other):
        each.fill(count)
    release = [on_ids(b"XNACK s g FAIL IDS 1", iter([number])) for number in range(1, count + 1)]
    other_us = timed_us(lambda: run_all(other, release), count)
    delayed = [[*request, b"DELAY", b"%d" % (1000 + number)] for number, request in enumerate(release)]
    server_us = timed_us(lambda: run_all(server, delayed), count)
    print(f"XNACK DELAY: {(server.size - other.size) / count:.1f} bytes, {server_us - other_us:.2f} us to delay")
    server.rig.clock.advance(1000 + count)
    reads = [read(FILL_COUNT)] * (count // FILL_COUNT)
    plain_us = timed_us(lambda: [other.run([each]) for each in reads], count)
    due_us = timed_us(lambda: [server.run([each]) for each in reads], count)
    print(f"when it is due: {due_us - plain_us:.2f} us more than a released entry of {plain_us:.2f} us")
    server, other = Server(), Server()
    size_us = timed_us(lambda: run_all(other, other.additions(count)), count)
    requests = [
        request for number in range(count) for request in server.additions(1, [b"DELAY", b"%d" % (1000 + number)])
    ]
    server_us = timed_us(lambda: run_all(server, requests), count)
    print(f"XADD DELAY: {(server.size - other.size) / count:.1f} bytes, {server_us - size_us:.2f} us to delay")


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=1_000_000, help="pending entries (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of each row (default %(default)s)")
    arguments = parser.parse_args()
    entries, rounds = arguments.entries, arguments.rounds
    print(f"{'compiled' if is_compiled() else 'interpreted'} form, {entries} pending entries; ratio with and without")
    plain = Server()
    plain.fill(entries)
    for name, settings in READS.items():
        governed = Server(settings)
        governed.fill(entries)
        compare(f"read of one, {name}", reads_of(plain, 4096), reads_of(governed, 4096), rounds)
    everything = "REDELIVER 1000000000 MAX-DELIVERIES 5 DEADLETTER dead BACKOFF 1"
    plain, governed = Server(), Server(everything)
    compare("cycle of ten", cycles_of(plain, 20_000), cycles_of(governed, 20_000), rounds)
    compare(
        "cycle of ten, one in 100 fails",
        cycles_of(plain, 20_000, FAILING),
        cycles_of(governed, 20_000, FAILING),
        rounds,
    )
    compare(
        "cycle of ten, RETAIN-ACKED no",
        cycles_of(Server(), 20_000),
        cycles_of(Server("", "RETAIN-ACKED no"), 20_000),
        rounds,
    )
    measure_delays(entries)


if __name__ == "__main__":
    main()
