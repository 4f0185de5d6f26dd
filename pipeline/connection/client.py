"""A blocking connection to a server that reconnects automatically: RESP over a socket, packed and parsed by hiredis.

redis-py would need three to six times as much processor time to read entries, because it makes Python objects of them.
`Connection.fetch` returns the raw reply instead.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import hiredis

from ...protocol.packing import pack_command
from ..errors import OptionError, PipelineError, Refused, ServerGone, refused
from ..options.kinds import Endpoint
from .sentinels import NoSentinel, Sentinels
from .tls import client_context, diagnose, is_permanent, tls_error

Argument = bytes | str | int
T = TypeVar("T")

RECEIVE_SIZE: Final = 1 << 20
# Waits between attempts to reconnect; the last one repeats.
BACKOFF_S: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
ERROR_START: Final = ord("-")
# Error codes that mean: try again later.
TRANSIENT: Final = ("LOADING", "BUSY", "TRYAGAIN", "MASTERDOWN", "NOREPLICAS")
# Error codes that mean, where Sentinels are asked: another server has become the primary.
DEMOTED: Final = (*TRANSIENT, "READONLY", "UNBLOCKED")


class ReplyError(Exception):
    """An error reply: a value among replies, or raised."""

    @property
    def code(self) -> str:
        """The first word of the reply, for example `NOGROUP`."""
        return str(self).split(" ", 1)[0]


class LostConnection(Exception):
    """The connection broke; the server may or may not have run what was sent."""


def pack(arguments: Iterable[Argument]) -> bytes:
    """Packs one request."""
    return pack_command(tuple(a if isinstance(a, bytes) else str(a).encode() for a in arguments))


class Connection:
    """One connection to the server of `endpoint`, opened on first use.

    `call`, `call_all` and `fetch` send a request again if the connection is lost, for up to `retryFor` seconds. Use
    them for requests that may run twice. `send` and `receive` do not repeat anything.

    Where Sentinels name the server, each new connection asks them again. With `accepts`, it goes to one of the replicas
    if one is accepted, which may raise LostConnection, else to the primary.
    """

    def __init__(self, endpoint: Endpoint, accepts: Callable[[Connection], bool] | None = None) -> None:
        self.endpoint = endpoint
        self._accepts = accepts
        self._sentinels = Sentinels(endpoint) if endpoint.sentinels else None
        self._transient = DEMOTED if endpoint.sentinels else TRANSIENT
        # The server that is connected to, as the Sentinels named it.
        self._server = endpoint
        self._socket: socket.socket | None = None
        self._reader = self._new_reader()
        # Size in bytes of the last fetched reply.
        self._fetched_size = 0
        self._may_be_silent = False
        # Why the server may close connections, once diagnosed; part of the error message.
        self._hint: str | None = None

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @staticmethod
    def _new_reader() -> hiredis.Reader:
        return hiredis.Reader(replyError=ReplyError)

    def close(self) -> None:
        """Closes the socket; the next request opens a new one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._reader = self._new_reader()

    # -- requests --------------------------------------------------------------------------------

    def call(self, *arguments: Argument, doing: str = "") -> Any:
        """Sends a request and returns its reply. Raises Refused for an error reply, and ServerGone."""
        reply = self.call_all([arguments])[0]
        if isinstance(reply, ReplyError):
            raise self.refused(doing or str(arguments[0]), str(reply))
        return reply

    def call_all(self, requests: Sequence[Sequence[Argument]]) -> list[Any]:
        """Sends a pipeline and returns its replies; an error reply is a `ReplyError` among them. Raises ServerGone."""
        data = b"".join(map(pack, requests))

        def ask() -> list[Any]:
            self.send(data)
            return self.receive(len(requests))

        return self.retry(ask)

    def fetch(self, request: bytes) -> memoryview:
        """Sends a packed request and returns its raw, unparsed reply.

        An ECHO sent after the request marks the end of the reply. Raises Refused for an error reply, and ServerGone.
        """

        def ask() -> memoryview:
            self.start_fetch(request)
            return self.finish_fetch()

        return self.retry(ask)

    def start_fetch(self, request: bytes) -> None:
        """Sends a packed request; `finish_fetch` returns its raw reply. Raises LostConnection."""
        self._mark = os.urandom(16).hex().encode()
        self.send(request + pack((b"ECHO", self._mark)))

    def finish_fetch(self) -> memoryview:
        """Returns the raw reply to the request of `start_fetch`. Raises Refused and LostConnection."""
        end = b"$32\r\n%b\r\n" % self._mark
        # Slightly larger than the last reply: replies to similar requests have similar sizes.
        buffer, size = bytearray(self._fetched_size + RECEIVE_SIZE), 0
        while not buffer.endswith(end, 0, size):
            if size == len(buffer):
                buffer += bytes(size)
            with memoryview(buffer) as view, view[size:] as room:
                size += self._receive_into(room)
        self._fetched_size = size
        reply = memoryview(buffer)[: size - len(end)]
        if reply[0] == ERROR_START:
            self._raise_refused(bytes(reply[1:-2]).decode("utf-8", "replace"))
        return reply

    def _raise_refused(self, text: str) -> None:
        if text.startswith(self._transient):
            raise LostConnection(text)
        raise self.refused("reading", text)

    def refused(self, doing: str, reply: str) -> Refused:
        """Returns the error to raise for an error reply. `doing` names what was attempted, without secrets."""
        return refused(doing, reply, self.endpoint.rights)

    def require_silence(self) -> None:
        """Checks that the server and the user may use CLIENT REPLY. Raises Refused if not.

        If CLIENT REPLY SKIP failed, every later reply would be taken for the reply to another request.
        """
        if not self._may_be_silent:
            self.call("CLIENT", "REPLY", "ON", doing="reading entries")
            self._may_be_silent = True

    # -- one attempt -----------------------------------------------------------------------------

    def send(self, data: bytes | memoryview) -> None:
        """Sends bytes, on a new connection if none is open.

        Raises LostConnection, or PipelineError if trying again is useless.
        """
        if self._socket is None:
            self._open()
        assert self._socket is not None
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise self._lost(error) from error

    def send_all(self, requests: Iterable[Sequence[Argument]]) -> None:
        """Sends a pipeline; `receive` returns the replies. Raises LostConnection."""
        self.send(b"".join(map(pack, requests)))

    def receive(self, count: int) -> list[Any]:
        """Returns the next `count` replies. Raises LostConnection."""
        replies: list[Any] = []
        while len(replies) < count:
            try:
                reply = self._reader.gets()
            except hiredis.HiredisError as error:
                raise self._lost(error) from error
            if reply is False:  # not enough data; RESP2 has no boolean
                self._reader.feed(self._receive_some())
            elif isinstance(reply, ReplyError) and str(reply).startswith(self._transient):
                raise self._lost(reply) from reply
            else:
                replies.append(reply)
        return replies

    def _receive_some(self) -> bytes:
        buffer = bytearray(RECEIVE_SIZE)
        size = self._receive_into(memoryview(buffer))
        return bytes(buffer[:size])

    def _receive_into(self, room: memoryview) -> int:
        assert self._socket is not None
        try:
            size = self._socket.recv_into(room)
        except OSError as error:
            raise self._lost(error) from error
        if not size:
            raise self._lost(ConnectionError("the server closed the connection"))
        return size

    def _lost(self, error: Exception) -> LostConnection | PipelineError:
        """Closes the connection and returns the error to raise."""
        self.close()
        if isinstance(error, ssl.SSLError) and is_permanent(error):
            return tls_error(self._server, error)
        return LostConnection(getattr(error, "strerror", None) or str(error))

    # -- reconnecting ----------------------------------------------------------------------------

    def retry(self, ask: Callable[[], T]) -> T:
        """Returns the result of `ask`, called again for up to `retryFor` seconds after a LostConnection.

        Raises ServerGone.
        """
        deadline: float | None = None
        attempt = 0
        while True:
            try:
                return ask()
            except LostConnection as lost:
                self.close()
                now = time.monotonic()
                deadline = deadline or now + self.endpoint.retry_for
                wait_s = BACKOFF_S[min(attempt, len(BACKOFF_S) - 1)]
                attempt += 1
                if now + wait_s > deadline:
                    raise ServerGone(
                        f"{self.endpoint.address} did not answer for {self.endpoint.retry_for:g} s "
                        f"(options {self.endpoint.address_options}, retryFor): {lost}{self._hint or ''}"
                    ) from None
                time.sleep(wait_s)

    def _open(self) -> None:
        """Connects to the server, or to one that the Sentinels name.

        Raises LostConnection, or PipelineError if trying again is useless.
        """
        sentinels = self._sentinels
        if sentinels is None:
            self._log_in()
            return
        try:
            if self._accepts is not None and self._open_replica(sentinels, self._accepts):
                return
            self._server = self.endpoint.at(*sentinels.primary())
        except NoSentinel as error:
            raise LostConnection(str(error)) from None
        try:
            if self._log_in() != b"master":
                raise self._lost(ConnectionError(f"{self._server.address} is no primary any more"))
        except LostConnection:
            sentinels.turn()
            raise

    def _open_replica(self, sentinels: Sentinels, accepts: Callable[[Connection], bool]) -> bool:
        """Connects to a replica; False if none has what is wanted. Raises NoSentinel and PipelineError."""
        replicas = sentinels.replicas()
        for host, port in random.sample(replicas, len(replicas)):
            self._server = self.endpoint.at(host, port)
            try:
                self._log_in()
                if accepts(self):
                    return True
            except LostConnection:
                pass  # another one may be there
            self.close()
        return False

    def _log_in(self) -> bytes:
        """Connects to a server, authenticates and selects the database. Returns its role if the Sentinels named it.

        Raises LostConnection, or PipelineError if trying again is useless.
        """
        server = self._server
        greeting: list[tuple[Argument, ...]] = []
        password = server.resolve_password()
        if password is not None:
            greeting.append(("AUTH", *([server.username] if server.username else []), password))
        if server.db:
            greeting.append(("SELECT", server.db))
        if self._sentinels is not None:
            greeting.append(("HELLO", 2))  # names the role, and needs no right
        greeting.append(("ECHO", ""))  # `fetch` needs ECHO: without the right to it, it would wait forever
        try:
            self._connect()
            self.send(b"".join(map(pack, greeting)))
            replies = self.receive(len(greeting))
        except LostConnection as lost:
            self._diagnose(lost)
            raise
        for request, reply in zip(greeting, replies, strict=True):
            if isinstance(reply, ReplyError):
                self.close()
                raise self.refused(f"{request[0]!s} at {server.address}", str(reply))
        if self._sentinels is None:
            return b""
        assert self._socket is not None
        self._socket.settimeout(server.read_timeout)  # a server that hangs at once is not waited for that long
        self._hint = ""  # the options are right: a server that hangs later need not be examined
        facts = replies[-2]
        return bytes(facts[facts.index(b"role") + 1])

    def _connect(self) -> None:
        try:
            connected = self._plain_socket()
            if self._server.tls:
                with _closed_on_error(connected):
                    context = client_context(self._server)
                    connected = context.wrap_socket(connected, server_hostname=self._server.host)
        except UnicodeError:
            raise OptionError(f"option host: {self._server.host} is not a valid host name") from None
        except OSError as error:
            raise self._lost(error) from error
        if self._sentinels is None:
            connected.settimeout(self._server.read_timeout)
        self._socket = connected

    def _plain_socket(self) -> socket.socket:
        endpoint = self._server
        if endpoint.socket_path:
            connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connected.settimeout(endpoint.connect_timeout)
            with _closed_on_error(connected):
                connected.connect(endpoint.socket_path)
        else:
            connected = socket.create_connection((endpoint.host, endpoint.port), timeout=endpoint.connect_timeout)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected

    def _diagnose(self, lost: LostConnection) -> None:
        """Diagnoses a connection lost before its first use. Raises PipelineError if trying again is useless."""
        cause = lost.__cause__
        if isinstance(cause, hiredis.HiredisError):
            diagnose(self._server, self._plain_socket)
            raise PipelineError(f"{self._server.address} is not a Redis server (options host, port)") from None
        if self._hint is None and not isinstance(cause, ReplyError | ConnectionRefusedError | socket.gaierror):
            self._hint = diagnose(self._server, self._plain_socket)


@contextlib.contextmanager
def _closed_on_error(connected: socket.socket) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connected.close()
        raise
