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
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import hiredis

from ..protocol.packing import pack_command
from .errors import OptionError, PipelineError, Refused, ServerGone, refused
from .options import Endpoint
from .tls import client_context, explained, is_explicable, look_closer

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
        self._may_be_silent = False
        self._hint: str | None = None
        """Why connections may end, once that has been looked into."""

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
            raise self.refused(doing or str(arguments[0]), str(reply))
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
        raise self.refused("reading", text)

    def refused(self, doing: str, reply: str) -> Refused:
        """What to raise for an error reply; `doing` says what for, without secrets."""
        return refused(doing, reply, self.endpoint.rights)

    def require_silence(self) -> None:
        """See to it that CLIENT REPLY works: without it the replies that follow would be taken for others."""
        if not self._may_be_silent:
            self.call("CLIENT", "REPLY", "ON", doing="taking entries")
            self._may_be_silent = True

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
        """What to raise."""
        self.close()
        if isinstance(error, ssl.SSLError) and is_explicable(error):
            return explained(self.endpoint, error)
        return LostConnection(getattr(error, "strerror", None) or str(error))

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
                    where = "socketPath" if self.endpoint.socket_path else "host, port"
                    raise ServerGone(
                        f"{self.endpoint.address} did not answer for {self.endpoint.retry_for:g} s "
                        f"(options {where}, retryFor): {lost}{self._hint or ''}"
                    ) from None
                time.sleep(wait_s)

    def _open(self) -> None:
        """Connect, say who we are and choose the database. Raises LostConnection, or PipelineError where it is vain."""
        endpoint = self.endpoint
        greeting: list[tuple[Argument, ...]] = []
        password = endpoint.resolve_password()
        if password is not None:
            greeting.append(("AUTH", *([endpoint.username] if endpoint.username else []), password))
        if endpoint.db:
            greeting.append(("SELECT", endpoint.db))
        greeting.append(("ECHO", ""))  # which `fetch` needs: without the right to it, it would wait for ever
        try:
            self._connect()
            self.send(b"".join(map(pack, greeting)))
            replies = self.receive(len(greeting))
        except LostConnection as lost:
            self._look_closer(lost)
            raise
        for request, reply in zip(greeting, replies, strict=True):
            if isinstance(reply, ReplyError):
                self.close()
                raise self.refused(f"{request[0]!s} at {endpoint.address}", str(reply))

    def _connect(self) -> None:
        try:
            connected = self._plain_socket()
            if self.endpoint.tls:
                with _closed_on_error(connected):
                    context = client_context(self.endpoint)
                    connected = context.wrap_socket(connected, server_hostname=self.endpoint.host)
        except UnicodeError:
            raise OptionError(f"option host: {self.endpoint.host} is no name of a machine") from None
        except OSError as error:
            raise self._lost(error) from error
        connected.settimeout(self.endpoint.read_timeout)
        self._socket = connected

    def _plain_socket(self) -> socket.socket:
        endpoint = self.endpoint
        if endpoint.socket_path:
            connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connected.settimeout(endpoint.connect_timeout)
            with _closed_on_error(connected):
                connected.connect(endpoint.socket_path)
        else:
            connected = socket.create_connection((endpoint.host, endpoint.port), timeout=endpoint.connect_timeout)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected

    def _look_closer(self, lost: LostConnection) -> None:
        """Whether a connection was lost before it could be used for a reason that stays. Raises PipelineError if so."""
        cause = lost.__cause__
        if isinstance(cause, hiredis.HiredisError):
            look_closer(self.endpoint, self._plain_socket)
            raise PipelineError(f"{self.endpoint.address} does not answer as Redis does (options host, port)") from None
        if self._hint is None and not isinstance(cause, ReplyError | ConnectionRefusedError | socket.gaierror):
            self._hint = look_closer(self.endpoint, self._plain_socket)


@contextlib.contextmanager
def _closed_on_error(connected: socket.socket) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connected.close()
        raise
