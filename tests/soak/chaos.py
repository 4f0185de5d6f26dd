"""What happens to a server in a bad week, in minutes."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import threading
import time
from collections import Counter

from support.processes import resident_mib
from support.servers import Server
from support.wire import Wire, encode

PAUSES_S = (0.2, 0.5, 1.0)
# How long SIGSTOP holds the server.
STOPPED_S = 0.3
# From its last start on, so that its memory can be shown to be flat: test_soak.WATCHES asks for 35 at least.
WATCHED_S = 40.0
KINDS = ("kill -9", "SIGSTOP", "rewrites", "slow readers", "disconnects of all", "half requests")
LONG_KEY = "long"
LONG_COUNT = 20
# The kernel takes some 4 MiB for a client that does not read: this is more by far than that and WAITING_SIZE_MIN.
LONG_VALUE_SIZE = 512 * 1024
RECEIVE_BUFFER_SIZE = 16 * 1024
# A slow reader is one for which the server itself keeps more output than this.
WAITING_SIZE_MIN = 1024 * 1024
LOOKS_COUNT_MAX = 50
LOOK_S = 0.1


class Chaos:
    """Does harm to a server, and remembers what."""

    def __init__(self, server: Server, seed: int, stopping: threading.Event) -> None:
        self.server = server
        self._rnd = random.Random(seed)
        self._stopping = stopping
        # How often each kind of harm was done.
        self.counts = Counter(dict.fromkeys(KINDS, 0))
        # (seconds since the last start, resident MiB), as long as the server is not killed any more.
        self.resident: list[tuple[float, float]] = []
        self._started = time.monotonic()
        self._long_reply = b""

    def run(self, seconds: float) -> None:
        """Harm for so long, in rounds: each kind once. Rounds that begin in the first third of it kill the server as
        well; then its memory is watched."""
        harms = [self.stop_and_continue, self.rewrite, self.read_slowly, self.kill_clients, self.send_half]
        self._add_long_stream()
        start = time.monotonic()
        while (spent_s := time.monotonic() - start) < seconds or self._must_watch_on(seconds):
            harms_now = [*harms, self.kill] if spent_s < seconds / 3 else harms
            for harm in self._rnd.sample(harms_now, len(harms_now)):
                harm()
                self._stopping.wait(self._rnd.choice(PAUSES_S))
                self.weigh()

    def _must_watch_on(self, seconds: float) -> bool:
        """A run of a minute continues until it can detect a leak, however late the last start was."""
        return seconds >= 60 and time.monotonic() - self._started < WATCHED_S

    def _add_long_stream(self) -> None:
        with self.server.connect() as wire:
            for _ in range(LONG_COUNT):
                wire.call("XADD", LONG_KEY, "*", "v", "x" * LONG_VALUE_SIZE)
            self._long_reply = wire.call("XRANGE", LONG_KEY, "-", "+")

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
            if wire.call("BGREWRITEAOF").startswith(b"+"):
                self.counts["rewrites"] += 1

    def read_slowly(self) -> None:
        """A client asks for much and reads nothing; then, by turns, it reads on, is disconnected, or goes."""
        with self.server.connect() as wire, self.server.connect() as other:
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_SIZE)
            client_id = wire.ask("CLIENT", "ID")
            wire.send_bytes(encode(["XRANGE", LONG_KEY, "-", "+"]) * 2)
            if not self._is_output_waiting(other, client_id):
                return
            self._stopping.wait(self._rnd.choice(PAUSES_S))
            turn = self.counts["slow readers"] % 3
            self.counts["slow readers"] += 1
            if turn == 0 and not (wire.receive() == wire.receive() == self._long_reply):
                raise AssertionError("a slow reader was sent something else")
            if turn == 1:
                self.kill_clients()

    def _is_output_waiting(self, wire: Wire, client_id: int) -> bool:
        """Whether the server comes to keep much output for a client."""
        for _ in range(LOOKS_COUNT_MAX):
            line = wire.ask("CLIENT", "LIST", "ID", client_id)
            if int(dict(word.split(b"=", 1) for word in line.split())[b"omem"]) > WAITING_SIZE_MIN:
                return True
            self._stopping.wait(LOOK_S)
        return False

    def kill_clients(self) -> None:
        """Every connection is closed."""
        with contextlib.suppress(OSError), self.server.connect() as wire:
            if wire.ask("CLIENT", "KILL", "TYPE", "normal") > 0:
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
