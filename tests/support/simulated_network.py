"""Sockets without a network: transports that hand bytes over when the test says so, and listeners that accept nothing
by themselves.

    network = SimulatedNetwork(loop)
    with network.installed(): ...     `bind` and `port` open simulated sockets
    wire = network.connect()          what `accept` would give the server, and the peer's end of it
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from headrace.server.sockets import tcp_listener
from headrace.server.sockets.listener import ListenError
from support.stepping import SteppingLoop

LOCAL_ADDRESSES = {"*", "::*", "127.0.0.1", "::1", "localhost"}
FIRST_PORT = 50_000
# How much a loop reads from a socket at once.
RECEIVE_SIZE = 256 * 1024


class SimulatedSocket:
    """A listening socket."""

    family = socket.AF_INET

    def __init__(self, address: str, port: int) -> None:
        self._name = (address, port)
        self.is_open = True

    def getsockname(self) -> tuple[str, int]:
        """Address and port."""
        return self._name

    def close(self) -> None:
        """Accept no more."""
        self.is_open = False


class SimulatedListener:
    """What `create_server` returns."""

    def __init__(self, network: SimulatedNetwork, listening: SimulatedSocket, make: Callable[[], Any]) -> None:
        self._network, self.listening, self.make = network, listening, make
        network.listeners.append(self)

    def close(self) -> None:
        """Accept no more."""
        if self in self._network.listeners:
            self._network.listeners.remove(self)


class Wire:
    """One connection: `transport` is the server's end; the methods are what the peer does."""

    def __init__(self, loop: SteppingLoop, number: int, protocol: Any) -> None:
        self._loop = loop
        # What has reached the peer.
        self.received = bytearray()
        # Called with what reaches the peer, in the moment in which the server sends it.
        self.on_received: Callable[[bytes], None] = lambda data: None
        # False while the peer does not read: what is sent stays in the transport.
        self.reads = True
        # The server has closed the socket.
        self.is_closed = False
        # The peer sends no more.
        self.has_ended = False
        # The peer has closed the connection: output to it is refused.
        self.is_gone = False
        # Bytes that the server has not read yet; None is the end.
        self._inbound: list[bytes | None] = []
        self.protocol = protocol
        self.transport = SimulatedTransport(loop, self, ("127.0.0.1", FIRST_PORT + number))
        protocol.connection_made(self.transport)

    def send(self, data: bytes) -> None:
        """Bytes that the server reads in its next turn, if it reads."""
        assert not self.has_ended, "nothing is sent after the end"
        self._inbound += [data[start : start + RECEIVE_SIZE] for start in range(0, len(data), RECEIVE_SIZE)]
        self._loop.call_soon(self.deliver)

    def end(self) -> None:
        """Half close: the server reads the end of the stream after all that was sent."""
        if not self.has_ended:
            self.has_ended = True
            self._inbound.append(None)
            self._loop.call_soon(self.deliver)

    def leave(self) -> None:
        """Close: the server reads the end, and whatever it still sends is refused."""
        self.is_gone = True
        self.end()

    def deliver(self) -> None:
        """Deliver what has arrived, one read at a time."""
        transport = self.transport
        while self._inbound and transport.is_reading() and not transport.is_closing():
            data = self._inbound.pop(0)
            if data is not None:
                self.protocol.data_received(data)
            elif not self.protocol.eof_received():
                transport.close()

    def resume(self) -> None:
        """The peer reads again: at once it takes all that waits."""
        self.reads = True
        self.transport.drain()


class SimulatedTransport(asyncio.Transport):
    """The server's end of a wire, with the behaviour of asyncio's own."""

    def __init__(self, loop: SteppingLoop, wire: Wire, peer: tuple[str, int]) -> None:
        super().__init__({"peername": peer, "sockname": ("127.0.0.1", 6379)})
        self._stepping, self._wire = loop, wire
        self._buffer = bytearray()
        self._high, self._low = 64 * 1024, 16 * 1024
        self._is_protocol_paused = self._is_reading_paused = False
        self._is_closing = self._is_lost_scheduled = False

    # -- as asyncio has them ---------------------------------------------------------------------

    def write(self, data: Any) -> None:
        """Hand bytes to the peer, or keep them while it does not read."""
        if self._is_lost_scheduled or not data:
            return
        if self._wire.is_gone:
            self._lose(ConnectionResetError())
        elif self._wire.reads and not self._buffer:
            self._hand_over(bytes(data))
        else:
            self._buffer += data
            if len(self._buffer) > self._high and not self._is_protocol_paused:
                self._is_protocol_paused = True
                self._wire.protocol.pause_writing()

    def _hand_over(self, data: bytes) -> None:
        self._wire.on_received(data)
        self._wire.received += data

    def drain(self) -> None:
        """The peer takes what is in the buffer."""
        if self._is_lost_scheduled:
            return
        data = bytes(self._buffer)
        self._buffer.clear()
        if data:
            self._hand_over(data)
        if self._is_protocol_paused:
            self._is_protocol_paused = False
            self._wire.protocol.resume_writing()
        if self._is_closing and not self._buffer:
            self._lose(None)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """See asyncio."""
        assert high is not None
        assert low is not None
        self._high, self._low = high, low
        if len(self._buffer) > self._high and not self._is_protocol_paused:
            self._is_protocol_paused = True
            self._wire.protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        """Bytes that the peer has not taken."""
        return len(self._buffer)

    def is_reading(self) -> bool:
        """Whether the server reads."""
        return not self._is_reading_paused and not self._is_closing

    def pause_reading(self) -> None:
        """Stop reading."""
        self._is_reading_paused = True

    def resume_reading(self) -> None:
        """Read again."""
        self._is_reading_paused = False
        self._stepping.call_soon(self._wire.deliver)

    def is_closing(self) -> bool:
        """See asyncio."""
        return self._is_closing

    def close(self) -> None:
        """Close after the unsent output was sent."""
        if not self._is_closing:
            self._is_closing = True
            if not self._buffer:
                self._lose(None)

    def abort(self) -> None:
        """Close without sending the unsent output."""
        self._is_closing = True
        self._buffer.clear()
        self._lose(None)

    def _lose(self, error: Exception | None) -> None:
        self._is_closing = True
        if not self._is_lost_scheduled:
            self._is_lost_scheduled = True
            self._stepping.call_soon(self._end, error)

    def _end(self, error: Exception | None) -> None:
        self._wire.is_closed = True
        self._wire.protocol.connection_lost(error)


class SimulatedNetwork:
    """The addresses of one machine."""

    def __init__(self, loop: SteppingLoop) -> None:
        self._loop = loop
        self.listeners: list[SimulatedListener] = []
        self._connected_count = 0
        loop.create_server = self._create_server  # type: ignore[attr-defined]

    async def _create_server(
        self, make: Callable[[], Any], *, sock: SimulatedSocket, backlog: int = 100
    ) -> SimulatedListener:
        return SimulatedListener(self, sock, make)

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """`bind` and `port` name addresses of this network."""
        with mock.patch.object(tcp_listener, "open_tcp_sockets", open_simulated_sockets):
            yield

    @property
    def is_listening(self) -> bool:
        """Whether a client can connect."""
        return bool(self.listeners)

    def connect(self) -> Wire:
        """Connect a client. Raises ConnectionRefusedError."""
        if not self.listeners:
            raise ConnectionRefusedError
        self._connected_count += 1
        return Wire(self._loop, self._connected_count, self.listeners[0].make())


def open_simulated_sockets(
    addresses: list[str], port: int, backlog: int, *, directive: str = "port"
) -> list[SimulatedSocket]:
    """Replaces `listener.open_tcp_sockets`. Raises ListenError for addresses that this machine lacks."""
    for word in addresses:
        if word.removeprefix("-") not in LOCAL_ADDRESSES and not word.startswith("-"):
            raise ListenError(f"Failed listening on port {port} (tcp) of {word}, aborting: no such address")
    return [SimulatedSocket(word.removeprefix("-"), port or FIRST_PORT) for word in addresses]
