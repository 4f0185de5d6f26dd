"""Rows about many connections: readers woken at once, and ten thousand slow producers."""

from __future__ import annotations

import select
import socket
import statistics
import time
from collections import deque
from contextlib import ExitStack

from benchmarks.load import RECEIVE_SIZE, REPLY_DEADLINE_S, Refused, timed
from benchmarks.peers import PeerServer
from benchmarks.row import Row, Sample
from benchmarks.streams import ask

from support.wire import Wire, encode

READERS = 100
WAKE_UPS = 200
PRODUCERS = 10_000
PRODUCERS_SECONDS = 8
# Connections opened before one is used: fewer than a listener keeps waiting.
CONNECT_AT_ONCE = 200
NOTICE_S = 0.001


def wake_up(server: PeerServer) -> Sample:
    """XADD while a hundred clients wait in XREAD BLOCK: median over 200 times of the last one's delay, in ms."""
    read = encode(("XREAD", "BLOCK", 0, "STREAMS", "woken", "$"))
    delays_ms = []
    with ExitStack() as stack:
        producer = stack.enter_context(server.connect())
        readers = [stack.enter_context(server.connect()) for _ in range(READERS)]
        poll = stack.enter_context(select.epoll())
        by_number = {reader.socket.fileno(): reader for reader in readers}
        for number in by_number:
            poll.register(number, select.EPOLLIN)

        def run() -> float:
            for _ in range(WAKE_UPS):
                for reader in readers:
                    reader.send_bytes(read)
                _wait_for_blocked(producer)
                started_s = time.perf_counter()
                producer.send("XADD", "woken", "*", "field", "value")
                left = READERS
                while left:
                    for number, _ in poll.poll(REPLY_DEADLINE_S):
                        by_number[number].socket.recv(RECEIVE_SIZE)
                        left -= 1
                delays_ms.append((time.perf_counter() - started_s) * 1000)
                producer.receive()
            return statistics.median(delays_ms)

        return Sample(run())


def _wait_for_blocked(wire: Wire) -> None:
    """Until all readers wait."""
    while b"blocked_clients:%d\r\n" % READERS not in ask(wire, "INFO", "clients"):
        time.sleep(NOTICE_S)


def producers(server: PeerServer) -> Sample:
    """Ten thousand connections, each sending one XADD a second: the 99th percentile of the delay, in ms.

    Requests are due at even distances, and a delay counts from when its request was due.
    """
    with ExitStack() as stack:
        poll = stack.enter_context(select.epoll())
        sockets = [stack.enter_context(connection) for connection in _connect(server.port)]
        for connection in sockets:
            connection.setblocking(False)
            poll.register(connection.fileno(), select.EPOLLIN)
        delays_s: list[float] = []
        requests = PRODUCERS * PRODUCERS_SECONDS

        def run() -> float:
            _pace(sockets, poll, requests, delays_s)
            return statistics.quantiles(delays_s[PRODUCERS:], n=100)[98] * 1000  # the first second warms up

        return timed(server, requests, run)


def _connect(port: int) -> list[socket.socket]:
    opened: list[socket.socket] = []
    for number in range(PRODUCERS):
        opened.append(socket.create_connection(("127.0.0.1", port)))
        opened[-1].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if number % CONNECT_AT_ONCE == 0:
            opened[-1].sendall(encode(("PING",)))
            if not opened[-1].recv(RECEIVE_SIZE).startswith(b"+PONG"):
                raise Refused(f"connection {number} of {PRODUCERS} was not accepted")
    return opened


def _pace(sockets: list[socket.socket], poll: select.epoll, requests: int, delays_s: list[float]) -> None:
    """Send `requests` in turn over the sockets, each when it is due, and record the delays of their replies."""
    request = encode(("XADD", "produced", "*", "sensor", "sensor-000000000042", "value", "000000000017"))
    by_number = {connection.fileno(): connection for connection in sockets}
    due_s: dict[int, deque[float]] = {number: deque() for number in by_number}
    numbers = list(by_number)
    started_s = time.perf_counter()
    sent = 0
    while len(delays_s) < requests:
        now_s = time.perf_counter()
        while sent < requests and (due := started_s + sent / PRODUCERS) <= now_s:
            number = numbers[sent % PRODUCERS]
            due_s[number].append(due)
            by_number[number].send(request)
            sent += 1
        wait_s = REPLY_DEADLINE_S if sent == requests else started_s + sent / PRODUCERS - time.perf_counter()
        events = poll.poll(max(0.0, wait_s))
        if not events and sent == requests:
            raise Refused(f"{requests - len(delays_s)} requests were not answered")
        now_s = time.perf_counter()
        for number, _ in events:
            data = by_number[number].recv(RECEIVE_SIZE)
            if data[:1] != b"$":
                raise Refused(data.decode("utf-8", "replace").strip() or "the server closed the connection")
            for _ in range(data.count(b"$")):
                delays_s.append(now_s - due_s[number].popleft())


ROWS = (
    Row("wake-up", "100 blocked readers, until the last has it", "ms", wake_up, target=1.0, is_rate=False),
    Row(
        "producers",
        "10,000 connections, XADD once a second, p99",
        "ms",
        producers,
        target=1.0,
        runs=3,
        is_rate=False,
        is_usual=False,
    ),
)
