"""What happens to a server in a bad week, in minutes."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter

from support.processes import resident_mib
from support.servers import Server
from support.wire import Wire, encode

PAUSES_S = (0.2, 0.5, 1.0)
STOPPED_S = 0.3
"""How long SIGSTOP holds the server."""
WATCHED_S = 40.0
"""From its last start on, so that its memory can be told to be flat: test_soak.WATCHES asks for 35 at least."""


class Chaos:
    """Does harm to a server, and remembers what."""

    def __init__(self, server: Server, seed: int, stopping: threading.Event) -> None:
        self.server = server
        self._rnd = random.Random(seed)
        self._stopping = stopping
        self.counts: Counter[str] = Counter()
        self.resident: list[tuple[float, float]] = []
        """(seconds since the last start, resident MiB), as long as the server is not killed any more."""
        self._started = time.monotonic()
        self._slow: list[Wire] = []

    def run(self, seconds: float) -> None:
        """Harm for so long. For the first third of it the server is killed as well; then its memory is watched."""
        harms = [self.stop_and_continue, self.rewrite, self.read_slowly, self.kill_clients, self.send_half, self.kill]
        weights = [3, 3, 3, 2, 3, 2]
        start = time.monotonic()
        self.kill()
        while (spent_s := time.monotonic() - start) < seconds or self._must_watch_on(seconds):
            is_killing = spent_s < seconds / 3
            self._rnd.choices(harms, weights if is_killing else [*weights[:-1], 0])[0]()
            self._stopping.wait(self._rnd.choice(PAUSES_S))
            self.weigh()
        self.calm()

    def _must_watch_on(self, seconds: float) -> bool:
        """A run of a minute goes on until it can tell a leak, however late the last start was."""
        return seconds >= 60 and time.monotonic() - self._started < WATCHED_S

    def calm(self) -> None:
        """Let go of the slow readers."""
        for wire in self._slow:
            wire.close()
        self._slow.clear()

    def weigh(self) -> None:
        """Note the resident memory, without what only waits to be collected: closed connections, say."""
        with contextlib.suppress(OSError), self.server.connect() as wire:
            if wire.call("MEMORY", "PURGE") == b"+OK\r\n":
                self.resident.append((time.monotonic() - self._started, resident_mib(self.server.pid)))

    def stop_and_continue(self) -> None:
        """The machine has something better to do."""
        os.kill(self.server.pid, signal.SIGSTOP)
        self._stopping.wait(STOPPED_S)
        os.kill(self.server.pid, signal.SIGCONT)
        self.counts["SIGSTOP"] += 1

    def kill(self) -> None:
        """kill -9, and a new start on the same folder."""
        self.server.kill()
        self.server.start()
        self._started = time.monotonic()
        self.resident.clear()
        self.counts["kill -9"] += 1

    def rewrite(self) -> None:
        """BGREWRITEAOF in the middle of it."""
        with contextlib.suppress(OSError), self.server.connect() as wire:
            wire.call("BGREWRITEAOF")
            self.counts["rewrites"] += 1

    def read_slowly(self) -> None:
        """A client asks for much and reads nothing."""
        if len(self._slow) > 5:
            self.calm()
        with contextlib.suppress(OSError):
            wire = Wire(self.server.port, timeout_s=2)
            self._slow.append(wire)
            wire.send_bytes(encode(["XRANGE", "jobs", "-", "+"]) * 50)
            self.counts["slow readers"] += 1

    def kill_clients(self) -> None:
        """Every connection is closed."""
        with contextlib.suppress(OSError), self.server.connect() as wire:
            wire.call("CLIENT", "KILL", "TYPE", "normal")
            self.counts["disconnects of all"] += 1

    def send_half(self) -> None:
        """A request breaks off; the connection with it."""
        with contextlib.suppress(OSError), Wire(self.server.port, timeout_s=2) as wire:
            request = encode(["XADD", "jobs", "*", "v", "x" * 1000])
            wire.send_bytes(request[: self._rnd.randrange(1, len(request))])
            self.counts["half requests"] += 1


def slope(points: list[tuple[float, float]]) -> float:
    """Of the line through the points, by least squares."""
    if len(points) < 2:
        return 0.0
    mean_x, mean_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
