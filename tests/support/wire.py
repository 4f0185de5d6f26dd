"""A client that shows the bytes: raw argument vectors out, exactly one raw reply back."""

from __future__ import annotations

import socket
import ssl
from typing import Any

from support.replies import Incomplete, frame_end, parse, plain

Argument = bytes | str | int
# Longer than any reply takes on a busy machine: after this time, a reply is lost.
REPLY_TIMEOUT_S = 15.0
RECEIVE_SIZE = 1 << 20


def encode(arguments: tuple[Argument, ...] | list[Argument]) -> bytes:
    """One request as an array of bulk strings."""
    parts = [b"*%d\r\n" % len(arguments)]
    for argument in arguments:
        data = argument if isinstance(argument, bytes) else str(argument).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


class Wire:
    """A blocking connection. With `protocol` 3 it sends HELLO 3 at once; `hello` is its reply. With a `context` it uses
    TLS.
    """

    def __init__(
        self,
        port: int,
        *,
        protocol: int = 2,
        timeout_s: float = REPLY_TIMEOUT_S,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_hostname="127.0.0.1")
        self.timeout_s = timeout_s
        self.buffer = bytearray()
        self.hello = self.call("HELLO", 3) if protocol == 3 else b""

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket; the server sees the end of the stream."""
        self.socket.close()

    def send(self, *arguments: Argument) -> None:
        """Send one request and do not wait."""
        self.socket.sendall(encode(arguments))

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are: inline requests, broken frames, halves."""
        self.socket.sendall(data)

    def receive(self) -> bytes:
        """The next reply, raw. Raises TimeoutError, and ConnectionError when the server closes first."""
        while True:
            reply = self._take_reply()
            if reply is not None:
                return reply
            self._fill()

    def receive_if_arrived(self) -> bytes | None:
        """The next reply if it has arrived whole; never waits."""
        self.socket.setblocking(False)
        try:
            while True:
                self._fill()
        except BlockingIOError:
            return self._take_reply()
        finally:
            self.socket.settimeout(self.timeout_s)

    def wait(self) -> None:
        """Until some of a reply has arrived; it stays unread. Raises TimeoutError, and ConnectionError."""
        if not self.buffer:
            self._fill()

    def call(self, *arguments: Argument) -> bytes:
        """Send a request and return its raw reply."""
        self.send(*arguments)
        return self.receive()

    def ask(self, *arguments: Argument) -> Any:
        """Send a request and return its reply as Python values; an error reply is returned as a Node."""
        return plain(parse(self.call(*arguments)))

    def wait_for_close(self) -> bytes:
        """Everything the server still sends before it closes the connection."""
        rest = bytes(self.buffer)
        self.buffer.clear()
        try:
            while data := self.socket.recv(RECEIVE_SIZE):
                rest += data
        except ConnectionResetError:
            pass  # the server closed with our bytes unread: an end like any other
        return rest

    def _take_reply(self) -> bytes | None:
        if not self.buffer:
            return None
        try:
            end = frame_end(self.buffer)
        except Incomplete:
            return None
        reply = bytes(self.buffer[:end])
        del self.buffer[:end]
        return reply

    def _fill(self) -> None:
        data = self.socket.recv(RECEIVE_SIZE)
        if not data:
            raise ConnectionError(f"the server closed the connection; unread: {bytes(self.buffer)!r}")
        self.buffer += data
