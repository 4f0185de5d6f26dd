"""Load whose requests are sent at their times, whether or not the replies to earlier ones have arrived.

The delay of a reply counts from the time that its request was planned for. So a server that stops for a second delays
all requests planned in that second, where a client that waits for replies would see one slow request.

One thread with one epoll does everything, on bytes that exist before the clock starts: client and server share the
processors.
"""

from __future__ import annotations

import gc
import select
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from time import perf_counter, thread_time
from typing import Final

from benchmarks.load import RECEIVE_SIZE, REPLY_DEADLINE_S, Refused
from benchmarks.streams import ask, entry_id

from support.servers import Server
from support.wire import Wire, encode

CONNECTIONS: Final = 50
# The database of the load. Jobs work on database 0, and may flush it.
DATABASE: Final = 1
FIELDS: Final = ("sensor", "sensor-000000000042", "kind", "temperature", "value", "000000000017")
# Bytes of an unexpected reply that Refused shows.
SHOWN_SIZE: Final = 200


def key_of(connection: int) -> str:
    """The stream of a connection; the names are of one length."""
    return f"load:{connection:02}"


def _replies(key: str, name: str) -> tuple[bytes, bytes, bytes]:
    """The replies to XADD, XREADGROUP and XACK of the entry with this ID."""
    entry = encode((name,)).removeprefix(b"*1\r\n")
    read = b"*1\r\n*2\r\n" + encode((key,)).removeprefix(b"*1\r\n") + b"*1\r\n*2\r\n" + entry + encode(FIELDS)
    return entry, read, b":1\r\n"


def _requests(key: str, name: str) -> tuple[bytes, bytes, bytes]:
    """XADD, XREADGROUP and XACK of the entry with this ID."""
    read = ("XREADGROUP", "GROUP", "g", "c", "COUNT", 1, "STREAMS", key, ">")
    return encode(("XADD", key, name, *FIELDS)), encode(read), encode(("XACK", key, "g", name))


@dataclass(frozen=True)
class Plan:
    """The requests of all connections in the order in which they are sent, and what must be received.

    Connections take turns, and each adds an entry to its stream, reads it and acknowledges it.
    """

    requests: list[bytes]
    # All replies to a connection, by its number.
    replies: list[bytes]
    # Where the first, the second, .. reply to a connection ends. Replies to all connections have the same sizes.
    ends: list[int]


# The servers of a row get the same requests.
@lru_cache(maxsize=1)
def planned(requests: int) -> Plan:
    """A plan of at least so many requests."""
    rounds = -(-requests // CONNECTIONS)
    cycles = -(-rounds // 3)
    keys = [key_of(connection) for connection in range(CONNECTIONS)]
    names = [entry_id(number) for number in range(cycles)]
    sent = (step for name in names for step in zip(*(_requests(key, name) for key in keys), strict=True))
    ends, size = [], 0
    for name in names:
        for reply in _replies(keys[0], name):
            ends.append(size := size + len(reply))
    replies = [b"".join(reply for name in names for reply in _replies(key, name)) for key in keys]
    return Plan([request for step in sent for request in step], replies, ends)


class Conversation:
    """A connection of the load."""

    def __init__(self, wire: Wire, replies: bytes, ends: Sequence[int]) -> None:
        self.socket = wire.socket
        self.socket.settimeout(REPLY_DEADLINE_S)
        self._replies = replies
        self._ends = ends
        self._size = 0
        self._answered = 0

    def receive(self) -> range:
        """Read what has arrived. Returns the numbers, in this connection, of the requests that it answers. Raises
        Refused if it differs from the expected replies.
        """
        data = self.socket.recv(RECEIVE_SIZE)
        if not data or not self._replies.startswith(data, self._size):
            raise Refused(data[:SHOWN_SIZE].decode("utf-8", "replace") or "the server closed the connection")
        self._size += len(data)
        first = answered = self._answered
        while answered < len(self._ends) and self._ends[answered] <= self._size:
            answered += 1
        self._answered = answered
        return range(first, answered)


@dataclass(frozen=True)
class Disturbance:
    """Requests of another client: seconds after the start of the load, and bytes. Replies are read and dropped."""

    times_s: Sequence[float] = ()
    requests: Sequence[bytes] = ()


class Disturber:
    """The client of a disturbance."""

    def __init__(self, wire: Wire, disturbance: Disturbance) -> None:
        self.socket = wire.socket
        self.socket.settimeout(REPLY_DEADLINE_S)
        self._waiting = list(zip(disturbance.times_s, disturbance.requests, strict=True))[::-1]
        self._is_answered = False

    def send(self, elapsed_s: float) -> None:
        """Send the next request if it is due."""
        if self._waiting and self._waiting[-1][0] <= elapsed_s:
            self.socket.sendall(self._waiting.pop()[1])

    def receive(self) -> None:
        """Read what has arrived. Raises Refused if the first reply is an error; later ones are in any pieces."""
        data = self.socket.recv(RECEIVE_SIZE)
        is_first, self._is_answered = not self._is_answered, True
        if not data or (is_first and data.startswith(b"-")):
            raise Refused(data[:SHOWN_SIZE].decode("utf-8", "replace") or "the server closed the connection")


@dataclass
class Delays:
    """Seconds from the planned time of each request, in the order of the plan."""

    # Until the request was sent.
    sent_s: list[float]
    # Until its reply was read.
    replied_s: list[float]
    # The share of one processor that the client took.
    client_share: float = 0.0


def run(server: Server, rate: float, requests: int, disturbance: Disturbance | None = None) -> Delays:
    """Send `requests` requests, `rate` in a second, and a disturbance with them. Raises Refused."""
    plan = planned(requests)
    with _connected(server) as wires, server.connect() as other:
        talks = [Conversation(*each, plan.ends) for each in zip(wires, plan.replies, strict=True)]
        disturber = Disturber(other, disturbance or Disturbance())
        with _without_collector():
            return _exchange(talks, disturber, plan.requests[:requests], rate)


@contextmanager
def _connected(server: Server) -> Iterator[list[Wire]]:
    """The connections of the load, each with a new stream and a group."""
    wires = [server.connect() for _ in range(CONNECTIONS)]
    try:
        for connection, wire in enumerate(wires):
            ask(wire, "SELECT", DATABASE)
            ask(wire, "DEL", key_of(connection))
            ask(wire, "XGROUP", "CREATE", key_of(connection), "g", "0", "MKSTREAM")
        yield wires
    finally:
        for wire in wires:
            wire.close()


@contextmanager
def _without_collector() -> Iterator[None]:
    """The collector of the client would be measured as a delay of the server."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _exchange(talks: list[Conversation], disturber: Disturber, requests: list[bytes], rate: float) -> Delays:
    count, sent, left = len(requests), 0, len(requests)
    delays = Delays([0.0] * count, [0.0] * count)
    numbers = {talk.socket.fileno(): number for number, talk in enumerate(talks)}
    disturbing = disturber.socket.fileno()
    sends = [talk.socket.sendall for talk in talks]
    with select.epoll() as poll:
        for number in (*numbers, disturbing):
            poll.register(number, select.EPOLLIN)
        started_s, cpu_s = perf_counter(), thread_time()
        while left:
            now_s = perf_counter() - started_s
            disturber.send(now_s)
            while sent < count and (due_s := sent / rate) <= now_s:
                sends[sent % CONNECTIONS](requests[sent])
                now_s = perf_counter() - started_s
                delays.sent_s[sent] = now_s - due_s
                sent += 1
            wait_s = sent / rate - now_s if sent < count else REPLY_DEADLINE_S
            # The timeout of an epoll has whole milliseconds, that of a select has microseconds.
            if not select.select((poll,), (), (), max(0.0, wait_s))[0] and sent == count:
                raise Refused(f"{left} requests were not answered")
            events = poll.poll(0)
            now_s = perf_counter() - started_s
            for number, _ in events:
                if number == disturbing:
                    disturber.receive()
                    continue
                connection = numbers[number]
                for answered in talks[connection].receive():
                    index = answered * CONNECTIONS + connection
                    delays.replied_s[index] = now_s - index / rate
                    left -= 1
        delays.client_share = (thread_time() - cpu_s) / (perf_counter() - started_s)
    return delays
