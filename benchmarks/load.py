"""Load on a server: redis-benchmark, prepared requests, and the kernel's figures of the process."""

from __future__ import annotations

import csv
import resource
import select
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import Protocol

from benchmarks.row import Sample

from support.servers import Server
from support.wire import Argument, Wire

Words = tuple[Argument, ...]

# Connections of every measured run of redis-benchmark.
CLIENTS = 50
RECEIVE_SIZE = 1 << 18
REPLY_DEADLINE_S = 60.0


class MissingTool(Exception):
    """A program the benchmark needs is not installed."""


class Refused(Exception):
    """The server answered a request of the load otherwise than it should; mostly it does not know the command."""


def find_redis_benchmark() -> str:
    """The path of redis-benchmark. Raises MissingTool."""
    found = shutil.which("redis-benchmark")
    if found is None:
        raise MissingTool("redis-benchmark is not installed: apt-get install redis-tools")
    return found


def resident_size(server: Server) -> int:
    """Bytes of memory the server process occupies now (VmRSS)."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def read_in_background(connection: socket.socket) -> None:
    """Take what arrives, in a thread, until either side closes the connection."""
    connection.settimeout(None)
    Thread(target=_read_all, args=(connection,), daemon=True).start()


def _read_all(connection: socket.socket) -> None:
    with suppress(OSError):
        while connection.recv(RECEIVE_SIZE):
            pass


def cpu_time(server: Server) -> float:
    """Seconds of processor time the server has taken since it started, all its threads together."""
    return time.clock_gettime(~server.pid << 3 | 2)  # clock_getcpuclockid(3), which Python has for threads only


def timed(server: Server, requests: int, load: Callable[[], float]) -> Sample:
    """Run `load`, which returns the number of the sample, and divide the processor time it cost by its requests."""
    before_s = cpu_time(server)
    number = load()
    return Sample(number, (cpu_time(server) - before_s) * 1e6 / requests)


def benchmark(
    server: Server,
    requests: int,
    *command: str,
    pipeline: int = 1,
    clients: int = CLIENTS,
    random_below: int = 0,
    threads: int = 1,
) -> Sample:
    """Send `command` so many times and return the rate redis-benchmark measured. Raises Refused.

    `__rand_int__` in the command becomes twelve random digits when `random_below` is given. `threads`: those of the
    client, which spends longer on parsing a large reply than a server on making it.
    """
    words = [find_redis_benchmark(), "-p", str(server.port), "-c", str(clients), "-n", str(requests)]
    words += ["--threads", str(threads)] if threads > 1 else []
    words += ["-P", str(pipeline), "--csv", *(["-r", str(random_below)] if random_below else []), *command]

    def run() -> float:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
        if done.returncode or not lines:
            raise Refused((done.stderr or done.stdout).strip() or f"redis-benchmark ended with {done.returncode}")
        return float(list(csv.DictReader(lines))[-1]["rps"])

    before_s = _children_time()
    sample = timed(server, requests, run)
    return replace(sample, client_us=(_children_time() - before_s) * 1e6 / requests / threads)


def _children_time() -> float:
    """Seconds of processor time of all processes that this one has waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@dataclass(frozen=True)
class Batch:
    """Requests sent in one piece, and their replies to the byte."""

    requests: bytes
    replies: bytes

    def is_answered_by(self, received: bytes) -> bool:
        """Whether these are all replies. Raises Refused if they are not what was expected."""
        if not self.replies.startswith(received):
            raise Refused(_shown(received))
        return len(received) == len(self.replies)


@dataclass(frozen=True)
class CountedBatch:
    """Requests sent in one piece, of whose replies only the number of lines is known."""

    requests: bytes
    lines_count: int

    def is_answered_by(self, received: bytes) -> bool:
        """Whether these are all replies. Raises Refused if there is an error among them."""
        lines = received.split(b"\r\n")
        if error := next((line for line in lines if line.startswith(b"-")), None):
            raise Refused(_shown(error))
        return lines[-1] == b"" and len(lines) - 1 == self.lines_count


class AnyBatch(Protocol):
    """Requests sent in one piece, with what is known of their replies."""

    @property
    def requests(self) -> bytes: ...

    def is_answered_by(self, received: bytes) -> bool:
        """Whether these are all replies, all bytes since the requests were sent. Raises Refused."""


def _shown(received: bytes) -> str:
    return received[:200].decode("utf-8", "replace").strip()


class UnixWire(Wire):
    """A connection through a Unix socket."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.timeout_s = REPLY_DEADLINE_S
        self.socket.settimeout(self.timeout_s)
        self.socket.connect(str(path))
        self.buffer = bytearray()
        self.hello = b""


class Lane:
    """A connection with its batches; the next is sent when the replies to the last have arrived. `opening` goes before
    them, a request at a time, after a PING, so that the server has accepted the connection.
    """

    def __init__(self, wire: Wire, batches: Iterable[AnyBatch], opening: Sequence[Words]) -> None:
        for words in (("PING",), *opening):
            if (reply := wire.call(*words)).startswith(b"-"):
                raise Refused(_shown(reply))
        self.socket = wire.socket
        self.socket.settimeout(None)
        self._batches = iter(batches)
        self._batch: AnyBatch = Batch(b"", b"")
        self._received = b""

    def send_next(self) -> bool:
        """Send the next batch; False if there is none."""
        batch = next(self._batches, None)
        if batch is None:
            return False
        self._received, self._batch = b"", batch
        self.socket.sendall(batch.requests)
        return True

    def receive(self) -> bool:
        """Read the replies that have arrived. Returns whether the batch is answered. Raises Refused."""
        data = self.socket.recv(RECEIVE_SIZE)
        if not data:
            raise Refused("the server closed the connection")
        self._received += data
        return self._batch.is_answered_by(self._received)


def prepared(
    server: Server,
    requests: int,
    lanes: Sequence[Iterable[AnyBatch]],
    opening: Sequence[Words] = (),
    unix_path: Path | None = None,
) -> Sample:
    """Send all batches, those of a lane one after the other, and return the rate of requests. Raises Refused.

    Each connection sends the requests of `opening` before the clock starts. They go through the Unix socket at
    `unix_path`, if one is given.

    For requests that redis-benchmark cannot make, each with IDs of its own. They are bytes before the clock starts:
    what this client does for a batch is one send, one poll, one read and one comparison.
    """
    wires = [server.connect() if unix_path is None else UnixWire(unix_path) for _ in lanes]
    opened = {
        lane.socket.fileno(): lane
        for lane in (Lane(wire, batches, opening) for wire, batches in zip(wires, lanes, strict=True))
    }
    poll = select.epoll()

    def run() -> float:
        started_s = time.perf_counter()
        for number, lane in opened.items():
            if lane.send_next():
                poll.register(number, select.EPOLLIN)
        left = len(opened)
        while left:
            events = poll.poll(REPLY_DEADLINE_S)
            if not events:
                raise Refused("no reply")
            for number, _ in events:
                lane = opened[number]
                if lane.receive() and not lane.send_next():
                    poll.unregister(number)
                    left -= 1
        return requests / (time.perf_counter() - started_s)

    try:
        return timed(server, requests, run)
    finally:
        poll.close()
        for lane in opened.values():
            lane.socket.close()
