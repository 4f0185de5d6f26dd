"""A blocking connection to a server: requests in pipelines, replies parsed by hiredis."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import hiredis

from ..protocol.packing import pack_command
from .address import Address
from .errors import CannotCompare

Request = tuple[bytes, ...]

RECEIVE_SIZE: Final = 1 << 18
CONNECT_TIMEOUT_S: Final = 5.0
# Greetings that an older server or a user with few rights may refuse: without them, the comparison is seen in times of
# access, and has no name in CLIENT LIST.
OPTIONAL: Final[tuple[Request, ...]] = (
    (b"CLIENT", b"SETNAME", b"headrace-compare"),
    (b"CLIENT", b"NO-TOUCH", b"ON"),
)


class ErrorReply(Exception):
    """An error reply. It is a value among replies, and is not raised."""

    @property
    def code(self) -> str:
        """The first word of the reply, for example `WRONGTYPE`."""
        return str(self).partition(" ")[0]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of `rediss://` connections, in PEM; None for those of the system, and for no certificate."""

    authority: str | None = None
    certificate: str | None = None
    key: str | None = None


class Connection:
    """One connection. Every failure raises CannotCompare."""

    def __init__(self, address: Address, tls: TlsFiles, timeout_s: float) -> None:
        self.address = address
        self._reader = hiredis.Reader(replyError=ErrorReply)
        self._buffer = bytearray(RECEIVE_SIZE)
        try:
            self._socket = self._connect(tls)
        except (OSError, UnicodeError) as error:
            raise self._failed(error) from None
        self._socket.settimeout(timeout_s)
        self._greet()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _connect(self, tls: TlsFiles) -> socket.socket:
        address = self.address
        if address.socket_path is not None:
            connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connected.settimeout(CONNECT_TIMEOUT_S)
            connected.connect(address.socket_path)
            return connected
        connected = socket.create_connection((address.host, address.port), CONNECT_TIMEOUT_S)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not address.is_tls:
            return connected
        context = ssl.create_default_context(cafile=tls.authority)
        if tls.certificate is not None:
            context.load_cert_chain(tls.certificate, tls.key)
        return context.wrap_socket(connected, server_hostname=address.host)

    def _greet(self) -> None:
        address = self.address
        if address.password is not None:
            user = () if address.user is None else (address.user.encode(),)
            self.call(b"AUTH", *user, address.password.encode("utf-8", "surrogateescape"))
        self.call_all(OPTIONAL)
        self.call(b"PING")

    def _failed(self, error: Exception) -> CannotCompare:
        why = getattr(error, "strerror", None) or getattr(error, "reason", None) or str(error)
        if isinstance(error, TimeoutError):
            why = "it does not answer"
        return CannotCompare(f"{self.address}: {str(why)[:1].lower()}{str(why)[1:]}")

    def call(self, *request: bytes) -> Any:
        """The reply to one request. Raises CannotCompare for an error reply."""
        return self.accepted(request, self.call_all([request])[0])

    def accepted(self, request: Request, reply: Any) -> Any:
        """A reply that is no error. Raises CannotCompare, with the command of the request and not its arguments."""
        if isinstance(reply, ErrorReply):
            raise CannotCompare(f"{self.address} refuses {request[0].decode()}: {reply}")
        return reply

    def call_all(self, requests: Sequence[Request]) -> list[Any]:
        """The replies to a pipeline; error replies are among them."""
        self.send(requests)
        return self.receive(len(requests))

    def send(self, requests: Sequence[Request]) -> None:
        """Send a pipeline; `receive` returns the replies."""
        try:
            self._socket.sendall(b"".join([pack_command(request) for request in requests]))
        except OSError as error:
            raise self._failed(error) from None

    def receive(self, count: int) -> list[Any]:
        """The next `count` replies."""
        replies: list[Any] = []
        reader, buffer = self._reader, self._buffer
        try:
            while len(replies) < count:
                reply = reader.gets()
                if reply is not False:  # RESP2 has no boolean
                    replies.append(reply)
                    continue
                size = self._socket.recv_into(buffer)
                if not size:
                    raise self._failed(ConnectionError("it has closed the connection"))
                reader.feed(bytes(buffer[:size]))
        except hiredis.HiredisError:
            raise CannotCompare(f"{self.address} is not a Redis server") from None
        except OSError as error:
            raise self._failed(error) from None
        return replies
