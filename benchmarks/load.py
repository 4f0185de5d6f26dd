"""Load on a server: redis-benchmark, prepared requests, and the kernel's figures of the process."""

from __future__ import annotations

import csv
import resource
import select
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.row import Sample

from support.servers import Server

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


class Lane:
    """A connection with its batches; the next is sent when the replies to the last have arrived."""

    def __init__(self, port: int, batches: list[Batch]) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._batches = iter(batches)
        self._expected = b""
        self._received = b""

    def send_next(self) -> bool:
        """Send the next batch; False if there is none."""
        batch = next(self._batches, None)
        if batch is None:
            return False
        self._received, self._expected = b"", batch.replies
        self.socket.sendall(batch.requests)
        return True

    def receive(self) -> bool:
        """Read the replies that have arrived. Returns whether the batch is answered. Raises Refused."""
        self._received += self.socket.recv(RECEIVE_SIZE)
        if not self._expected.startswith(self._received) or not self._received:
            raise Refused(self._received[:200].decode("utf-8", "replace").strip())
        return len(self._received) == len(self._expected)


def prepared(server: Server, requests: int, lanes: list[list[Batch]]) -> Sample:
    """Send all batches, those of a lane one after the other, and return the rate of requests. Raises Refused.

    For requests that redis-benchmark cannot make, each with IDs of its own. They are bytes before the clock starts:
    what this client does for a batch is one send, one poll, one read and one comparison.
    """
    opened = {lane.socket.fileno(): lane for lane in (Lane(server.port, batches) for batches in lanes)}
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
