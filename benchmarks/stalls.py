"""How long one client's large command keeps the others waiting: `python -m benchmarks.stalls`.

Another connection sends PING after PING while the command runs, and the worst of them is shown, in ms, next to the time
that the command itself took. Both clients are threads of one process, so the figure also has what the interpreter costs
them: about 5 ms on an idle server, which the first line shows. With `--redis` the same is measured on Redis,
and the last column is the ratio of the two worst PINGs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from benchmarks.load import Refused
from benchmarks.streams import ask, fill

from support.servers import Server, oracle_folder
from support.wire import Wire, encode

RECEIVE_SIZE = 1 << 20
PIPELINE_COUNT = 100_000
PENDING_PER_READ = 10_000
LONG_STRING_SIZE = 64 << 20
# Groups, consumers and pending entries of the cases that list them.
MEMBERS_COUNT = 100_000
FIELDS_COUNT = 200_000
# Requests of one pipeline that prepares a case.
BATCH_COUNT = 1000


@dataclass(frozen=True)
class Case:
    """One command under observation. `prepare` gets what it works on."""

    title: str
    prepare: Callable[[Server, int], None]
    words: tuple[str | int | float, ...]
    # The command is sent so many times in one pipeline.
    repeat: int = 1


def nothing(server: Server, size: int) -> None:
    """No data."""


def keys(server: Server, size: int) -> None:
    """Many small strings."""
    with server.connect() as wire:
        wire.socket.settimeout(300)
        wire.call("DEBUG", "POPULATE", size)


def entries(server: Server, size: int) -> None:
    """One long stream."""
    fill(server, "s", size)


def described_entries(server: Server, size: int) -> None:
    """One long stream after XINFO STREAM."""
    entries(server, size)
    with server.connect() as wire:
        wire.socket.settimeout(300)
        wire.call("XINFO", "STREAM", "s")


def pending(server: Server, size: int) -> None:
    """A long stream, a tenth of it pending."""
    described_entries(server, size)
    with server.connect() as wire:
        wire.call("XGROUP", "CREATE", "s", "g", "0")
        for number in range(0, size // 10, PENDING_PER_READ):
            consumer = f"c{number}"
            wire.call("XREADGROUP", "GROUP", "g", consumer, "COUNT", PENDING_PER_READ, "STREAMS", "s", ">")


def long_string(server: Server, size: int) -> None:
    """A string of 64 MiB."""
    with server.connect() as wire:
        wire.socket.settimeout(300)
        ask(wire, "SET", "t", b"x" * LONG_STRING_SIZE)


def wide_entry(server: Server, size: int) -> None:
    """A stream with one entry of very many fields."""
    with server.connect() as wire:
        wire.socket.settimeout(300)
        pairs = (word for number in range(FIELDS_COUNT) for word in (f"field{number}", f"value{number}"))
        ask(wire, "XADD", "s", "*", *pairs)


def one_entry(server: Server, requests: Iterable[tuple[str | int, ...]]) -> None:
    """A stream with one entry, and these requests, which must not fail."""
    with server.connect() as wire:
        wire.socket.settimeout(300)
        ask(wire, "XADD", "s", "1-1", "f", "v")
        waiting = iter(requests)
        while batch := list(islice(waiting, BATCH_COUNT)):
            wire.send_bytes(b"".join(map(encode, batch)))
            for _ in batch:
                reply = wire.receive()
                if reply.startswith(b"-"):
                    raise Refused(reply.decode().strip())


def groups(server: Server, size: int) -> None:
    """A stream with very many groups."""
    one_entry(server, (("XGROUP", "CREATE", "s", f"g{number}", "0") for number in range(MEMBERS_COUNT)))


def consumers(server: Server, size: int) -> None:
    """A group with very many consumers."""
    create = ("XGROUP", "CREATE", "s", "g", "0")
    names = (("XGROUP", "CREATECONSUMER", "s", "g", f"c{number}") for number in range(MEMBERS_COUNT))
    one_entry(server, chain((create,), names))


def new_entries(server: Server, size: int) -> None:
    """A group that many entries wait for."""
    fill(server, "s", MEMBERS_COUNT)
    with server.connect() as wire:
        ask(wire, "XGROUP", "CREATE", "s", "g", "0")


def listed_pending(server: Server, size: int) -> None:
    """A group with many pending entries of one consumer."""
    new_entries(server, size)
    with server.connect() as wire:
        wire.socket.settimeout(300)
        for _ in range(MEMBERS_COUNT // PENDING_PER_READ):
            ask(wire, "XREADGROUP", "GROUP", "g", "c", "COUNT", PENDING_PER_READ, "STREAMS", "s", ">")


def acknowledged(server: Server, size: int) -> None:
    """Ten groups that have read and acknowledged all."""
    fill(server, "s", MEMBERS_COUNT)
    with server.connect() as wire:
        wire.socket.settimeout(300)
        for number in range(10):
            ask(wire, "XGROUP", "CREATE", "s", f"g{number}", "$")


Words = tuple[str | int | float, ...]


@dataclass(frozen=True)
class LargeValue:
    """A type of values: how one of many members is made, and which commands are of it alone. The key is `v`."""

    name: str
    # The command that adds members, and the words of one.
    command: str
    member: Callable[[int], Words]
    requests: tuple[Words, ...]

    def prepare(self, server: Server, size: int) -> None:
        """A value of so many members, in an order that is not that of their names."""
        with server.connect() as wire:
            wire.socket.settimeout(300)
            for first in range(0, size, BATCH_COUNT):
                numbers = [number * 7919 % size for number in range(first, min(first + BATCH_COUNT, size))]
                ask(wire, self.command, "v", *[word for number in numbers for word in self.member(number)])
            ask(wire, "SET", "string", "x")


LARGE_VALUES = (
    LargeValue("hash", "HSET", lambda number: (f"f{number}", f"v{number}"), (("HGETALL", "v"), ("HVALS", "v"))),
    LargeValue(
        "list",
        "RPUSH",
        lambda number: (number,),
        (("LRANGE", "v", 0, -1), ("SORT", "v"), ("SORT", "v", "STORE", "w"), ("LTRIM", "v", 0, 0)),
    ),
    LargeValue(
        "set",
        "SADD",
        lambda number: (f"m{number}",),
        (("SMEMBERS", "v"), ("SUNIONSTORE", "w", "v"), ("SRANDMEMBER", "v", -MEMBERS_COUNT)),
    ),
    LargeValue(
        "sorted set",
        "ZADD",
        lambda number: (number * 0.5, f"m{number}"),
        (("ZRANGE", "v", 0, -1, "WITHSCORES"), ("ZRANGESTORE", "w", "v", 0, -1), ("ZUNIONSTORE", "w", 1, "v")),
    ),
)
# Commands on values of all types.
ON_ANY_VALUE: tuple[Words, ...] = (
    ("DUMP", "v"),
    ("COPY", "v", "w"),
    ("DEBUG", "OBJECT", "v"),
    ("DEL", "v"),
    ("SET", "v", "x"),
    ("RENAME", "string", "v"),
    ("PEXPIRE", "v", 1),
    ("FLUSHALL", "ASYNC"),
)

READ_NEW = ("XREADGROUP", "GROUP", "g", "c", "COUNT", MEMBERS_COUNT)

CASES = (
    Case("PING only", nothing, ("PING",)),
    Case("pipeline of 100,000 XADD", nothing, ("XADD", "p", "*", "f", "v"), PIPELINE_COUNT),
    Case("KEYS *", keys, ("KEYS", "*")),
    Case("FLUSHALL of strings", keys, ("FLUSHALL",)),
    Case("XRANGE - +", entries, ("XRANGE", "s", "-", "+")),
    Case("XREVRANGE + -", entries, ("XREVRANGE", "s", "+", "-")),
    Case("XINFO STREAM, never asked", entries, ("XINFO", "STREAM", "s")),
    Case("XINFO STREAM FULL COUNT 0", pending, ("XINFO", "STREAM", "s", "FULL", "COUNT", "0")),
    Case("XTRIM MAXLEN 0, never asked", entries, ("XTRIM", "s", "MAXLEN", "0")),
    Case("XTRIM MAXLEN 0", described_entries, ("XTRIM", "s", "MAXLEN", "0")),
    Case("DEL of a stream", pending, ("DEL", "s")),
    Case("FLUSHALL of a stream", pending, ("FLUSHALL",)),
    Case("APPEND to 64 MB", long_string, ("APPEND", "t", "y")),
    Case("SETRANGE in 64 MB", long_string, ("SETRANGE", "t", 1000, "y")),
    Case("DUMP of 200,000 fields", wide_entry, ("DUMP", "s")),
    Case("INFO, 100,000 groups", groups, ("INFO",)),
    Case("MEMORY USAGE, 100,000 groups", groups, ("MEMORY", "USAGE", "s")),
    Case("XINFO STREAM FULL, 100,000 groups", groups, ("XINFO", "STREAM", "s", "FULL")),
    Case("XINFO GROUPS, 100,000 groups", groups, ("XINFO", "GROUPS", "s")),
    Case("XINFO CONSUMERS, 100,000 consumers", consumers, ("XINFO", "CONSUMERS", "s", "g")),
    Case("XPENDING of 100,000 entries", listed_pending, ("XPENDING", "s", "g", "-", "+", MEMBERS_COUNT)),
    Case("XREADGROUP of 100,000 entries", new_entries, (*READ_NEW, "STREAMS", "s", ">")),
    Case("XREADGROUP NOACK of 100,000", new_entries, (*READ_NEW, "NOACK", "STREAMS", "s", ">")),
    Case("COPY of 100,000 pending", listed_pending, ("COPY", "s", "t")),
    Case("XTRIM ACKED of 100,000, 10 groups", acknowledged, ("XTRIM", "s", "MAXLEN", 0, "ACKED")),
    *(
        Case(f"{value.name}: {' '.join(map(str, words))}", value.prepare, words)
        for value in LARGE_VALUES
        for words in (*ON_ANY_VALUE, *value.requests)
    ),
)


class Pings:
    """PINGs in a thread, as fast as they are answered, or with a pause after each."""

    def __init__(self, server: Server, pause_s: float = 0.0) -> None:
        self.worst_s = 0.0
        self._pause_s = pause_s
        self._ended = threading.Event()
        self._wire = server.connect()
        self._wire.socket.settimeout(300)
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Pings:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._wire.close()

    def _run(self) -> None:
        while not self._ended.wait(self._pause_s):
            started_s = time.perf_counter()
            self._wire.call("PING")
            self.worst_s = max(self.worst_s, time.perf_counter() - started_s)


def drain(wire: Wire, count: int, ended: bytes) -> None:
    """Read until the reply of the last request, which is unlike all others, has come."""
    wire.socket.settimeout(300)
    tail = b""
    while not tail.endswith(ended):
        data = wire.socket.recv(RECEIVE_SIZE)
        if not data:
            raise ConnectionError("the server closed the connection")
        tail = (tail + data)[-len(ended) :]


def measure(server: Server, case: Case, size: int) -> tuple[float, float]:
    """(worst PING, duration of the command), in ms."""
    with server.connect() as wire:
        wire.socket.settimeout(300)
        wire.call("FLUSHALL")
        case.prepare(server, size)
        with Pings(server) as pings:
            time.sleep(0.3)
            pings.worst_s = 0.0
            started_s = time.perf_counter()
            sender = threading.Thread(target=wire.send_bytes, args=(request(case),))
            sender.start()
            drain(wire, case.repeat, b"\r\n$3\r\nend\r\n")
            sender.join()
            duration_s = time.perf_counter() - started_s
            time.sleep(0.3)  # what is freed afterwards counts as well
        return pings.worst_s * 1000, duration_s * 1000


def request(case: Case) -> bytes:
    """The command as often as wanted, and a last word."""
    return encode(case.words) * case.repeat + encode(("PING",)) + encode(("ECHO", "end"))


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser("python -m benchmarks.stalls", description=__doc__)
    parser.add_argument("--size", type=int, default=1_000_000, help="keys or entries (default 1,000,000)")
    parser.add_argument("--only", metavar="TEXT", default="", help="cases whose title has this in it")
    parser.add_argument("--redis", action="store_true", help="measure Redis as well, if it is installed")
    options = parser.parse_args()
    names = ["headrace", *(["oracle"] if options.redis and oracle_folder() else [])]
    print(f"{'':36}" + "".join(f"{name + ' PING':>16}{'command':>10}" for name in names) + "  ms", flush=True)
    with tempfile.TemporaryDirectory(prefix="headrace-stalls-") as folder:
        servers = [Server(name, Path(folder) / name, "--appendonly", "no").start() for name in names]
        try:
            for case in CASES:
                if options.only in case.title:
                    print(row(case, [measure(server, case, options.size) for server in servers]), flush=True)
        finally:
            for server in servers:
                server.kill()
    return 0


def row(case: Case, measured: Sequence[tuple[float, float]]) -> str:
    """A line of the table: worst PING and duration on each server, and the ratio of the first to the second PING."""
    line = f"{case.title:36}" + "".join(f"{worst_ms:>16.1f}{duration_ms:>10.1f}" for worst_ms, duration_ms in measured)
    return line if len(measured) < 2 else f"{line}{measured[0][0] / measured[1][0]:>10.1f}x"


if __name__ == "__main__":
    sys.exit(main())
