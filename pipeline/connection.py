"""A blocking connection that comes back: RESP over a socket, packed and parsed by hiredis.

redis-py would do, but costs three to six times as much on the way of the entries, which never need to be Python
objects: see `Connection.fetch`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import hiredis

from ..protocol.packing import pack_command
from .errors import OptionError, PipelineError, ServerGone, refused
from .options import Endpoint

Argument = bytes | str | int
T = TypeVar("T")

RECEIVE_SIZE: Final = 1 << 20
BACKOFF_S: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Waits between attempts to connect again; the last one repeats."""
ERROR_START: Final = ord("-")
TRANSIENT: Final = ("LOADING", "BUSY", "TRYAGAIN")
"""Replies that mean: ask again later."""


class ReplyError(Exception):
    """An error reply, as a value or raised."""

    @property
    def code(self) -> str:
        """The first word, e.g. `NOGROUP`."""
        return str(self).split(" ", 1)[0]


class LostConnection(Exception):
    """The connection broke; what was sent may or may not have been done."""


def pack(arguments: Iterable[Argument]) -> bytes:
    """One request."""
    return pack_command(tuple(a if isinstance(a, bytes) else str(a).encode() for a in arguments))


class Connection:
    """One connection to the server of `endpoint`, opened when first used.

    `call`, `call_all` and `fetch` repeat what they were asked when the connection is lost, for as long as `retryFor`:
    use them for what may be done twice. `attempt` tries once.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._socket: socket.socket | None = None
        self._reader = self._new_reader()
        self._fetched_size = 0
        """Bytes of the reply that was fetched last."""

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @staticmethod
    def _new_reader() -> hiredis.Reader:
        return hiredis.Reader(replyError=ReplyError)

    def close(self) -> None:
        """Close the socket; the next request opens another one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._reader = self._new_reader()

    # -- requests --------------------------------------------------------------------------------

    def call(self, *arguments: Argument, doing: str = "") -> Any:
        """The reply to one request. Raises Refused for an error reply and ServerGone."""
        reply = self.call_all([arguments])[0]
        if isinstance(reply, ReplyError):
            raise refused(doing or str(arguments[0]), str(reply))
        return reply

    def call_all(self, requests: Sequence[Sequence[Argument]]) -> list[Any]:
        """The replies to a pipeline; error replies are among them as `ReplyError`. Raises ServerGone."""
        data = b"".join(map(pack, requests))

        def ask() -> list[Any]:
            self.send(data)
            return self.receive(len(requests))

        return self.retry(ask)

    def fetch(self, request: bytes) -> memoryview:
        """The raw reply to a packed request, unparsed: its end is found by an ECHO sent behind it.

        Raises Refused for an error reply, and ServerGone.
        """

        def ask() -> memoryview:
            self.start_fetch(request)
            return self.finish_fetch()

        return self.retry(ask)

    def start_fetch(self, request: bytes) -> None:
        """Send a request whose raw reply `finish_fetch` takes. Raises LostConnection."""
        self._mark = os.urandom(16).hex().encode()
        self.send(request + pack((b"ECHO", self._mark)))

    def finish_fetch(self) -> memoryview:
        """The raw reply. Raises Refused and LostConnection."""
        end = b"$32\r\n%b\r\n" % self._mark
        # As large as the reply before, and some more: replies to the same request are about as long.
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
        if text.startswith(TRANSIENT):
            raise LostConnection(text)
        raise refused("reading", text)

    # -- one attempt -----------------------------------------------------------------------------

    def send(self, data: bytes | memoryview) -> None:
        """Send bytes. Raises LostConnection, and ServerGone if none can be opened."""
        if self._socket is None:
            self._open()
        assert self._socket is not None
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise self._lost(error) from error

    def send_all(self, requests: Iterable[Sequence[Argument]]) -> None:
        """Send a pipeline; `receive` takes the replies. Raises LostConnection."""
        self.send(b"".join(map(pack, requests)))

    def receive(self, count: int) -> list[Any]:
        """The next replies. Raises LostConnection."""
        replies: list[Any] = []
        while len(replies) < count:
            try:
                reply = self._reader.gets()
            except hiredis.HiredisError as error:
                raise self._lost(error) from error
            if reply is False:  # not enough data: RESP2 has no false
                self._reader.feed(self._receive_some())
            elif isinstance(reply, ReplyError) and str(reply).startswith(TRANSIENT):
                raise self._lost(reply)
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

    def _lost(self, error: Exception) -> LostConnection:
        self.close()
        return LostConnection(str(error))

    # -- coming back -----------------------------------------------------------------------------

    def retry(self, ask: Callable[[], T]) -> T:
        """`ask()`, again and again for `retryFor` seconds while the connection is lost. Raises ServerGone."""
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
                        f"(options host, port, retryFor): {lost}"
                    ) from None
                time.sleep(wait_s)

    def _open(self) -> None:
        """Connect, say who we are and choose the database. Raises LostConnection, or PipelineError where it is vain."""
        endpoint = self.endpoint
        try:
            self._socket = self._connected_socket()
        except ssl.SSLCertVerificationError as error:
            raise PipelineError(
                f"{endpoint.address} shows a certificate that is not trusted (option tlsCaFile): {error.verify_message}"
            ) from None
        except ssl.SSLError as error:
            raise PipelineError(f"{endpoint.address} does not speak TLS (option tls): {error.reason}") from None
        except OSError as error:
            raise LostConnection(error.strerror or str(error)) from error
        greeting: list[tuple[Argument, ...]] = []
        password = endpoint.resolve_password()
        if password is not None:
            greeting.append(("AUTH", *([endpoint.username] if endpoint.username else []), password))
        if endpoint.db:
            greeting.append(("SELECT", endpoint.db))
        greeting.append(("PING",))
        self.send(b"".join(map(pack, greeting)))
        replies = self._greet(len(greeting))
        for request, reply in zip(greeting, replies, strict=True):
            if isinstance(reply, ReplyError):
                self.close()
                raise refused(f"{request[0]!s} at {endpoint.address}", str(reply))

    def _greet(self, count: int) -> list[Any]:
        try:
            return self.receive(count)
        except LostConnection as lost:
            if "Protocol error" in str(lost):
                raise PipelineError(
                    f"{self.endpoint.address} does not answer as Redis does; if it speaks TLS, set tls=true"
                ) from None
            raise

    def _connected_socket(self) -> socket.socket:
        endpoint = self.endpoint
        if endpoint.socket_path:
            connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connected.settimeout(endpoint.connect_timeout)
            with self._closed_on_error(connected):
                connected.connect(endpoint.socket_path)
        else:
            connected = socket.create_connection((endpoint.host, endpoint.port), timeout=endpoint.connect_timeout)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._closed_on_error(connected):
            if endpoint.tls:
                context = _tls_context(endpoint.tls_ca_file)
                connected = context.wrap_socket(connected, server_hostname=endpoint.host)
            connected.settimeout(endpoint.read_timeout)
        return connected

    @staticmethod
    @contextlib.contextmanager
    def _closed_on_error(connected: socket.socket) -> Any:
        try:
            yield
        except BaseException:
            connected.close()
            raise


def _tls_context(ca_file: str | None) -> ssl.SSLContext:
    """What certificates are trusted. Raises OptionError."""
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError as error:
        raise OptionError(f"option tlsCaFile: {ca_file} holds no certificates in PEM: {error.reason}") from None
    except OSError as error:
        raise OptionError(f"option tlsCaFile: cannot read {ca_file}: {error.strerror}") from None
