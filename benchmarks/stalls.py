"""How long one client's large command keeps the others waiting: `python -m benchmarks.stalls`.

Another connection sends PING after PING while the command runs, and the worst of them is shown, in ms, beside the time
that the command itself took. Both clients are threads of one process, so the figure also has what the interpreter costs
them: about 5 ms with nothing else going on, which the first line shows.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.streams import fill

from support.servers import Server, oracle_folder
from support.wire import Wire, encode

RECEIVE_SIZE = 1 << 20
PIPELINE_COUNT = 100_000
PENDING_PER_READ = 10_000


@dataclass(frozen=True)
class Case:
    """One command under observation. `prepare` gets what it works on."""

    title: str
    prepare: Callable[[Server, int], None]
    words: tuple[str, ...]
    repeat: int = 1
    """The command is sent so many times in one pipeline."""


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
    """One long stream that somebody has looked at before."""
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
)


class Pings:
    """PINGs in a thread, as fast as they are answered."""

    def __init__(self, server: Server) -> None:
        self.worst_s = 0.0
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
        while not self._ended.is_set():
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
    with tempfile.TemporaryDirectory(prefix="headrace-stalls-") as folder:
        for name in names:
            server = Server(name, Path(folder) / name, "--appendonly", "no").start()
            try:
                print(f"{name:32}{'worst PING':>12}{'command':>12}  ms")
                for case in CASES:
                    if options.only in case.title:
                        worst_ms, duration_ms = measure(server, case, options.size)
                        print(f"{case.title:32}{worst_ms:>12.1f}{duration_ms:>12.1f}", flush=True)
            finally:
                server.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
