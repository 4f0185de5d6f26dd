"""One of the two servers of the differential machine, and the connections to it.

Steps are sent in batches, and the number of replies to a request is not assumed. After a batch, two PINGs on another
connection prove that the server has run the batch and sent its replies. Then everything that any client has received
belongs to this batch. A blocked client is one that has received nothing.
"""

from __future__ import annotations

import contextlib
import select
import subprocess

from differential.values import CLIENTS, LOADED_LIBRARY, LOADED_SCRIPT, WORDS, ClientId, Dump, Duration, Payload, Token
from support.replies import Incomplete, Node, frame_end, parse
from support.servers import Server
from support.wire import RECEIVE_SIZE, REPLY_TIMEOUT_S, encode

RESP3_CLIENTS = ("b",)
# Marks the end of a connection among its replies.
CLOSED = b"(closed)\r\n"
SYNC = b"--sync--"
# The databases that requests name. Their keys are compared at the end.
DATABASES = (0, 1, 2, 15)
GROUPS = (b"g", b"h")
# A process that closes its connections ends within this time.
ENDING_S = 0.2
# How many of the last characters in the server log are shown.
LOG_SHOWN = 3000
# Requests before every sequence, on the control connection.
SET_UP = [
    [b"DEBUG", b"SET-ACTIVE-EXPIRE", b"0"],  # else DBSIZE depends on how long ago a key expired
    [b"ACL", b"DELUSER", b"alice", *(word for word in WORDS if isinstance(word, bytes))],
    [b"FLUSHALL"],
    [b"SCRIPT", b"FLUSH"],
    [b"CONFIG", b"SET", b"stream-node-max-entries", b"100", b"stream-node-max-bytes", b"4096"],
    [b"CONFIG", b"SET", b"stream-idmp-duration", b"100", b"stream-idmp-maxsize", b"100"],
    [b"CONFIG", b"SET", b"notify-keyspace-events", b"KEAmnoc"],
    [b"FUNCTION", b"FLUSH"],
    [b"FUNCTION", b"LOAD", LOADED_LIBRARY],
    [b"SCRIPT", b"LOAD", LOADED_SCRIPT],  # otherwise few sequences would run a script by its digest
]

# Received frames by client.
Frames = dict[str, list[bytes]]


class Connection:
    """A client of one server."""

    def __init__(self, server: Server, name: str) -> None:
        self.name = name
        self.wire = server.connect(3 if name in RESP3_CLIENTS else 2)
        self.id = self.wire.ask("CLIENT", "ID")
        self.is_closed = False

    def send(self, requests: list[list[bytes]]) -> None:
        """Send without waiting. Does nothing after the server has closed the connection."""
        if not self.is_closed:
            with contextlib.suppress(ConnectionError):
                self.wire.send_bytes(b"".join(map(encode, requests)))

    def take(self) -> list[bytes]:
        """Returns every complete reply that has arrived."""
        wire = self.wire
        has_ended = False
        wire.socket.setblocking(False)
        try:
            while data := wire.socket.recv(RECEIVE_SIZE):
                wire.buffer += data
            has_ended = True
        except BlockingIOError:
            pass
        except ConnectionResetError:
            has_ended = True
        finally:
            wire.socket.settimeout(wire.timeout_s)
        frames = _split_frames(wire.buffer)
        if has_ended and not self.is_closed:
            self.is_closed = True
            frames.append(CLOSED)
        return frames

    def renew(self) -> bool:
        """Restore the state of a new connection. Returns False if it is blocked or closed and must be replaced."""
        if self.is_closed:
            return False
        requests = [[b"RESET"], *([[b"HELLO", b"3"]] if self.name in RESP3_CLIENTS else []), [b"PING", SYNC]]
        self.send(requests)
        while True:
            try:
                if SYNC in self.wire.receive():
                    return True
            except (OSError, ValueError):
                return False


class Side:
    """One server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.control = server.connect()
        # A server that does not answer for this time hangs.
        self.limit_s = REPLY_TIMEOUT_S
        # Size of the server log when the process was started.
        self._log_size = server.log_path.stat().st_size
        self.clients: dict[str, Connection] = {}
        self.payloads: list[bytes] = []
        self._durations_count = 0
        self._poll = select.poll()
        self._names: dict[int, str] = {}

    def close(self) -> None:
        """Close every connection."""
        for name in list(self.clients):
            self._disconnect(name)
        self.control.close()

    def restart(self) -> str:
        """Restart the server, without clients. Returns the state of the old process and its last log lines."""
        self.close()
        process = self.server.process
        assert process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(ENDING_S)
        found = "is still there" if process.returncode is None else f"has ended with {process.returncode}"
        log = self.server.log_path.read_bytes()[self._log_size :].decode("utf-8", "replace")
        self.server.kill()
        self.server.start()
        self.control = self.server.connect()
        self._log_size = self.server.log_path.stat().st_size
        return f"the process of {self.server.name} {found}\n{log[-LOG_SHOWN:]}".rstrip()

    def begin(self, waiting: set[str]) -> None:
        """Empty the server and reset the clients. Clients in `waiting` are replaced, as they may be blocked."""
        self.control.socket.settimeout(self.limit_s)
        self._durations_count = 0
        for name in CLIENTS:
            if name in self.clients and (name in waiting or not self.clients[name].renew()):
                self._disconnect(name)
            if name not in self.clients:
                self._connect(name)
        for request in SET_UP:
            reply = self.control.call(*request)
            assert reply[:1] != b"-", (request, reply)

    def _connect(self, name: str) -> None:
        connection = self.clients[name] = Connection(self.server, name)
        self._names[connection.wire.socket.fileno()] = name
        self._poll.register(connection.wire.socket, select.POLLIN)

    def _disconnect(self, name: str) -> None:
        connection = self.clients.pop(name)
        self._poll.unregister(connection.wire.socket)
        del self._names[connection.wire.socket.fileno()]
        connection.wire.close()

    def resolve(self, requests: list[tuple[Token, ...]]) -> list[list[bytes]]:
        """The words of a batch for this server, whose state they may name."""
        return [[self._resolve(word) for word in request] for request in requests]

    def send(self, client: str, requests: list[list[bytes]]) -> None:
        """Send a batch."""
        self.clients[client].send(requests)

    def _resolve(self, word: Token) -> bytes:
        if isinstance(word, ClientId):
            return b"%d" % self.clients[word.client].id
        if isinstance(word, Payload):
            return self.payloads[word.number]
        if isinstance(word, Duration):
            self._durations_count += 1
            return word.take(self._durations_count)
        if isinstance(word, Dump):
            return bytes(parse(self.control.call("DUMP", word.key)).value or b"")
        return word

    def settle(self) -> Frames:
        """Everything that the server sends because of the requests so far."""
        for _ in range(2):
            assert self.control.call("PING") == b"+PONG\r\n"
        frames: Frames = {}
        for descriptor, _ in self._poll.poll(0):
            name = self._names[descriptor]
            if not self.clients[name].is_closed and (arrived := self.clients[name].take()):
                frames[name] = arrived
        return frames

    # -- what is left at the end -----------------------------------------------------------------

    def state(self) -> list[tuple[list[bytes], bytes]]:
        """The state of every key, as pairs (request, raw reply)."""
        requests: list[list[bytes]] = []
        for index in DATABASES:
            requests += [[b"SELECT", b"%d" % index], [b"KEYS", b"*"]]
        replies = self._ask_all(requests)
        questions: list[list[bytes]] = []
        for index, names in zip(DATABASES, replies[1::2], strict=True):
            keys = sorted(child.value for child in parse(names).value)
            if keys:
                questions.append([b"SELECT", b"%d" % index])
            for key in keys:
                questions += _questions(key)
        questions.append([b"SELECT", b"0"])
        return [*zip(requests, replies, strict=True), *zip(questions, self._ask_all(questions), strict=True)]

    def _ask_all(self, requests: list[list[bytes]]) -> list[bytes]:
        self.control.send_bytes(b"".join(map(encode, requests)))
        return [self.control.receive() for _ in requests]


def _questions(key: bytes) -> list[list[bytes]]:
    """Requests about a key of any type. Those for another type get the same error from both servers."""
    return [
        [b"TYPE", key],
        [b"PTTL", key],
        [b"PEXPIRETIME", key],
        [b"GET", key],
        [b"XRANGE", key, b"-", b"+"],
        [b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"],
        [b"XINFO", b"GROUPS", key],
        *([b"XPENDING", key, group] for group in GROUPS),
        *([b"XPENDING", key, group, b"-", b"+", b"1000"] for group in GROUPS),
    ]


def _split_frames(buffer: bytearray) -> list[bytes]:
    """Remove every complete reply from the buffer, and return them."""
    frames: list[bytes] = []
    start = 0
    while start < len(buffer):
        try:
            end = frame_end(buffer, start)
        except Incomplete:
            break
        frames.append(bytes(buffer[start:end]))
        start = end
    del buffer[:start]
    return frames


def is_push(node: Node) -> bool:
    """Whether this is a message that answers no request."""
    if node.kind == b">":
        return True
    first = node.value[0] if node.kind == b"*" and node.value else None
    return first is not None and first.kind == b"$" and first.value in (b"message", b"pmessage", b"smessage")
