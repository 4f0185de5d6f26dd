"""Faults that are injected into a running server: kills, stops, rewrites, slow readers, lost connections."""

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
# How long SIGSTOP stops the server.
STOPPED_S = 0.3
# Seconds to run after the last start, so that the memory can be measured: test_soak.WATCHES needs at least 35.
WATCHED_S = 40.0
KINDS = ("kill -9", "SIGSTOP", "rewrites", "slow readers", "disconnects of all", "half requests")
LONG_KEY = "long"
LONG_COUNT = 20
# The kernel buffers about 4 MiB for a client that does not read. This is much more than that and WAITING_SIZE_MIN.
LONG_VALUE_SIZE = 512 * 1024
RECEIVE_BUFFER_SIZE = 16 * 1024
# A slow reader is a client for which the server buffers more output than this.
WAITING_SIZE_MIN = 1024 * 1024
LOOKS_COUNT_MAX = 50
LOOK_S = 0.1


class Chaos:
    """Injects faults into a server, and counts them."""

    def __init__(self, server: Server, seed: int, stopping: threading.Event) -> None:
        self.server = server
        self._rnd = random.Random(seed)
        self._stopping = stopping
        # How often each kind of fault was injected.
        self.counts = Counter(dict.fromkeys(KINDS, 0))
        # (seconds since the last start, resident MiB), measured after the last kill.
        self.resident: list[tuple[float, float]] = []
        self._started = time.monotonic()
        self._long_reply = b""

    def run(self, seconds: float) -> None:
        """Inject faults for this time, in rounds with one of each kind.

        Rounds in the first third of the time also kill the server. After that its memory is measured.
        """
        faults = [self.stop_and_continue, self.rewrite, self.read_slowly, self.kill_clients, self.send_half]
        self._add_long_stream()
        start = time.monotonic()
        while (spent_s := time.monotonic() - start) < seconds or self._must_continue(seconds):
            faults_now = [*faults, self.kill] if spent_s < seconds / 3 else faults
            for fault in self._rnd.sample(faults_now, len(faults_now)):
                fault()
                self._stopping.wait(self._rnd.choice(PAUSES_S))
                self.measure_memory()

    def _must_continue(self, seconds: float) -> bool:
        """Whether a run of at least a minute must continue, because the last start is too recent to detect a leak."""
        return seconds >= 60 and time.monotonic() - self._started < WATCHED_S

    def _add_long_stream(self) -> None:
        with self.server.connect() as wire:
            for _ in range(LONG_COUNT):
                wire.call("XADD", LONG_KEY, "*", "v", "x" * LONG_VALUE_SIZE)
            self._long_reply = wire.call("XRANGE", LONG_KEY, "-", "+")

    def measure_memory(self) -> None:
        """Note the resident memory, without objects that only wait for the garbage collector."""
        with contextlib.suppress(OSError), self.server.connect() as wire:
            if wire.call("MEMORY", "PURGE") == b"+OK\r\n":
                self.resident.append((time.monotonic() - self._started, resident_mib(self.server.pid)))

    def stop_and_continue(self) -> None:
        """Stop the process for a while, as on a busy machine."""
        os.kill(self.server.pid, signal.SIGSTOP)
        self._stopping.wait(STOPPED_S)
        os.kill(self.server.pid, signal.SIGCONT)
        self.counts["SIGSTOP"] += 1

    def kill(self) -> None:
        """Kill the server with SIGKILL, and start it again on the same folder."""
        self.server.kill()
        self.server.start()
        self._started = time.monotonic()
        self.resident.clear()
        self.counts["kill -9"] += 1

    def rewrite(self) -> None:
        """Rewrite the log under load."""
        with contextlib.suppress(OSError), self.server.connect() as wire:
            if wire.call("BGREWRITEAOF").startswith(b"+"):
                self.counts["rewrites"] += 1

    def read_slowly(self) -> None:
        """A client requests much and reads nothing. Then, in turn, it reads on, is killed, or disconnects."""
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
                raise AssertionError("a slow reader received something else")
            if turn == 1:
                self.kill_clients()

    def _is_output_waiting(self, wire: Wire, client_id: int) -> bool:
        """Whether, after some polls, the server buffers much output for a client."""
        for _ in range(LOOKS_COUNT_MAX):
            line = wire.ask("CLIENT", "LIST", "ID", client_id)
            if int(dict(word.split(b"=", 1) for word in line.split())[b"omem"]) > WAITING_SIZE_MIN:
                return True
            self._stopping.wait(LOOK_S)
        return False

    def kill_clients(self) -> None:
        """Close the connections of all clients."""
        with contextlib.suppress(OSError), self.server.connect() as wire:
            if wire.ask("CLIENT", "KILL", "TYPE", "normal") > 0:
                self.counts["disconnects of all"] += 1

    def send_half(self) -> None:
        """Send an incomplete request, and close the connection."""
        with contextlib.suppress(OSError), Wire(self.server.port, timeout_s=2) as wire:
            request = encode(["XADD", "jobs", "*", "v", "x" * 1000])
            wire.send_bytes(request[: self._rnd.randrange(1, len(request))])
            self.counts["half requests"] += 1


def slope(points: list[tuple[float, float]]) -> float:
    """The slope of the line through the points, by least squares."""
    if len(points) < 2:
        return 0.0
    mean_x, mean_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
