"""Closing a socket at once, and the transport of a closed connection."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Final


class _ClosedTransport(asyncio.Transport):
    """A transport that ignores all output."""

    def write(self, data: bytes | bytearray | memoryview) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None: ...

    def close(self) -> None: ...


CLOSED_TRANSPORT: Final = _ClosedTransport()


def close_at_once(transport: asyncio.Transport) -> None:
    """Close a connection before anything else leaves the server. `abort` alone keeps the socket until the loop's next
    turn, so the reply to CLIENT KILL would arrive before the killed connection has ended.
    """
    transport_socket = transport.get_extra_info("socket")
    descriptor = -1 if transport_socket is None else transport_socket.fileno()
    if descriptor >= 0:
        borrowed = socket.socket(fileno=descriptor)
        with contextlib.suppress(OSError):  # the peer has already closed it
            borrowed.shutdown(socket.SHUT_RDWR)
        borrowed.detach()
    transport.abort()
