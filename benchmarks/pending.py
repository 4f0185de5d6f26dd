"""Rows about pending entries: acknowledging, claiming, releasing, looking for idle ones, and the whole cycle."""

from __future__ import annotations

import random
import re
import select
import socket
import time

from benchmarks.load import RECEIVE_SIZE, REPLY_DEADLINE_S, Refused, benchmark, prepared, timed
from benchmarks.peers import PeerServer
from benchmarks.row import Row, Sample
from benchmarks.streams import SEED, deliver, entry_id, fill_numbered, lanes, new_group

from support.wire import encode

CLIENTS = 50
PIPELINE = 16
PENDING = 100_000
ACKED_AT_ONCE = 100
# Of the pending entries, half are claimed or released in a run, in random order.
RANDOM_REQUESTS = 50_000
HOUR_MS = "3600000"
CYCLE_CLIENTS = 4
CYCLE_COUNT = 10
CYCLE_ENTRIES = 100_000
ONE = b":1\r\n"


def prepare(server: PeerServer) -> None:
    """A stream of 100,000 entries."""
    fill_numbered(server, "s", PENDING)


def prepare_pending(server: PeerServer) -> None:
    """A stream whose entries are all pending with ten consumers."""
    prepare(server)
    make_pending(server)


def make_pending(server: PeerServer) -> None:
    """Make all entries pending, as if they were never read before."""
    new_group(server, "s")
    deliver(server, "s", PENDING)


def xack(server: PeerServer) -> Sample:
    """XACK of single entries in the order of their delivery, out of 100,000."""
    make_pending(server)
    requests = [(encode(("XACK", "s", "g", entry_id(number))), ONE) for number in range(PENDING)]
    return prepared(server, PENDING, lanes(requests, pipeline=PIPELINE, clients=CLIENTS))


def xack_many(server: PeerServer) -> Sample:
    """XACK of a hundred entries at a time."""
    make_pending(server)
    requests = []
    for first in range(0, PENDING, ACKED_AT_ONCE):
        names = [entry_id(number) for number in range(first, first + ACKED_AT_ONCE)]
        requests.append((encode(("XACK", "s", "g", *names)), b":%d\r\n" % ACKED_AT_ONCE))
    return prepared(server, len(requests), lanes(requests, pipeline=1, clients=CLIENTS))


def random_ids() -> list[str]:
    """IDs of half of the pending entries, in an order drawn from a fixed seed."""
    return [entry_id(number) for number in random.Random(SEED).sample(range(PENDING), RANDOM_REQUESTS)]


def xclaim(server: PeerServer) -> Sample:
    """XCLAIM JUSTID of single entries, picked at random among 100,000 pending ones."""
    make_pending(server)
    requests = []
    for name in random_ids():
        reply = f"*1\r\n${len(name)}\r\n{name}\r\n".encode()
        requests.append((encode(("XCLAIM", "s", "g", "claimer", 0, name, "JUSTID")), reply))
    return prepared(server, len(requests), lanes(requests, pipeline=PIPELINE, clients=CLIENTS))


def xnack(server: PeerServer) -> Sample:
    """XNACK of single entries, picked in the same way."""
    make_pending(server)
    requests = [(encode(("XNACK", "s", "g", "FAIL", "IDS", 1, name)), ONE) for name in random_ids()]
    return prepared(server, len(requests), lanes(requests, pipeline=PIPELINE, clients=CLIENTS))


def xautoclaim_ids(server: PeerServer) -> Sample:
    """XAUTOCLAIM COUNT 100 JUSTID from the start of 100,000 pending entries, all idle enough."""
    return _autoclaim(server, 10_000, "0", "JUSTID")


def xautoclaim(server: PeerServer) -> Sample:
    """XAUTOCLAIM COUNT 100 with the entries in the reply."""
    return _autoclaim(server, 10_000, "0")


def xautoclaim_nothing(server: PeerServer) -> Sample:
    """XAUTOCLAIM without an entry that was idle for long enough: a supervisor that finds nothing to do."""
    return _autoclaim(server, 10_000, HOUR_MS)


def _autoclaim(server: PeerServer, requests: int, idle_ms: str, *options: str) -> Sample:
    command = ("XAUTOCLAIM", "s", "g", "claimer", idle_ms, "0", "COUNT", "100", *options)
    return benchmark(server, requests, *command)


def xpending_idle(server: PeerServer) -> Sample:
    """XPENDING IDLE 3600000 - + 100 over 100,000 pending entries of which none is idle for so long."""
    requests = 20_000 if server.is_headrace else 200  # Redis looks at each of them, every time
    return benchmark(server, requests, "XPENDING", "s", "g", "IDLE", HOUR_MS, "-", "+", "100", clients=4)


def cycle(server: PeerServer) -> Sample:
    """Four workers, each reading ten new entries and acknowledging the ten: entries a second."""
    new_group(server, "s")
    entries = server.scaled(CYCLE_ENTRIES)
    connections = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(CYCLE_CLIENTS)]
    try:
        workers = {connection.fileno(): Worker(number, connection) for number, connection in enumerate(connections)}
        return timed(server, entries, lambda: _run_cycle(workers, entries))
    finally:
        for connection in connections:
            connection.close()


class Worker:
    """One connection that reads and acknowledges in turn."""

    _ID = re.compile(rb"\r\n\$15\r\n(\d{13}-0)\r\n")

    def __init__(self, number: int, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = connection
        self._read = encode(("XREADGROUP", "GROUP", "g", f"c{number}", "COUNT", CYCLE_COUNT, "STREAMS", "s", ">"))
        self._received = b""
        self._read_size = 0
        self._is_reading = False

    def read(self) -> None:
        """Ask for new entries."""
        self._is_reading = True
        self._received = b""
        self.socket.sendall(self._read)

    def receive(self) -> bool:
        """Read what has arrived, and acknowledge entries. Returns whether the acknowledgement is answered."""
        self._received += self.socket.recv(RECEIVE_SIZE)
        if not self._is_reading:
            if self._received == b":%d\r\n" % CYCLE_COUNT:
                return True
        elif not self._read_size or len(self._received) == self._read_size:
            names = self._ID.findall(self._received)
            if len(names) == CYCLE_COUNT and self._received.endswith(b"\r\n"):
                self._acknowledge(names)
        if self._received.startswith(b"-"):
            raise Refused(self._received.decode().strip())
        return False

    def _acknowledge(self, names: list[bytes]) -> None:
        # Replies of as many entries of the same shape have one size.
        self._read_size = len(self._received)
        self._is_reading = False
        self.socket.sendall(encode(("XACK", "s", "g", *names)))
        self._received = b""


def _run_cycle(workers: dict[int, Worker], entries: int) -> float:
    poll = select.epoll()
    started_s = time.perf_counter()
    for number, worker in workers.items():
        poll.register(number, select.EPOLLIN)
        worker.read()
    turns, waiting = entries // CYCLE_COUNT - len(workers), len(workers)
    while waiting:
        events = poll.poll(REPLY_DEADLINE_S)
        if not events:
            raise Refused("no reply")
        for number, _ in events:
            if not workers[number].receive():
                continue
            if turns:
                turns -= 1
                workers[number].read()
            else:
                waiting -= 1
    poll.close()
    return entries / (time.perf_counter() - started_s)


RATE = "requests/s"
ROWS = (
    Row("xack", "XACK of one, pipeline 16", RATE, xack, prepare, target=1.0),
    Row("xack-100", "XACK of 100", RATE, xack_many, prepare, target=1.5),
    Row("xclaim", "XCLAIM JUSTID, random, pipeline 16", RATE, xclaim, prepare, target=1.0),
    Row("xnack", "XNACK, random, pipeline 16", RATE, xnack, prepare, target=1.0),
    Row("xautoclaim-justid", "XAUTOCLAIM COUNT 100 JUSTID", RATE, xautoclaim_ids, prepare_pending, target=3.0),
    Row("xautoclaim", "XAUTOCLAIM COUNT 100", RATE, xautoclaim, prepare_pending, target=3.0),
    Row("xautoclaim-idle", "XAUTOCLAIM, nothing idle", RATE, xautoclaim_nothing, prepare_pending, target=3.0),
    Row("xpending-idle", "XPENDING IDLE, nothing idle", RATE, xpending_idle, prepare_pending, target=100.0),
    Row("cycle", "read 10, acknowledge 10, four workers", "entries/s", cycle, prepare, target=1.0),
)
