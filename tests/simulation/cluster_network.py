"""The network between the nodes of a cluster: its links have delays, fall silent, and break with what is on the way."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Any

from support.stepping import SteppingLoop

DELAYS_MS = (0, 0, 1, 2, 10, 40)
# What a loop reads at once.
PIECE_SIZE_MAX = 4096


class End(asyncio.Transport):
    """One end of a link, with the behaviour of asyncio's own. Bytes are kept as they were given until they arrive."""

    def __init__(self, link: Link, node: Any, protocol: Any) -> None:
        super().__init__({"peername": ("127.0.0.1", 50_000 + link.number), "sockname": ("127.0.0.1", 6379)})
        self._link = link
        self.node = node
        self.protocol = protocol
        self.other: End
        # (due, bytes) on the way from here; None is the end of the stream.
        self.sent: deque[tuple[int, bytes | memoryview | None]] = deque()
        self._is_closing = self._is_lost = False
        self._is_reading = True

    def write(self, data: Any) -> None:
        """Send."""
        if data and not self._is_closing:
            self._link.send(self, data)

    def get_write_buffer_size(self) -> int:
        """Bytes that have not arrived."""
        return sum(len(data) for _, data in self.sent if data is not None)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There is always room."""

    def is_reading(self) -> bool:
        """Whether bytes are taken."""
        return self._is_reading and not self._is_closing

    def pause_reading(self) -> None:
        """Take no bytes."""
        self._is_reading = False

    def resume_reading(self) -> None:
        """Take bytes."""
        self._is_reading = True

    def is_closing(self) -> bool:
        """See asyncio."""
        return self._is_closing

    def close(self) -> None:
        """Close after what was sent."""
        if not self._is_closing:
            self._is_closing = True
            self._link.send(self, None)
            self.lose(None)

    def abort(self) -> None:
        """Close, and forget what was sent."""
        self.sent.clear()
        self.close()

    def lose(self, error: Exception | None) -> None:
        """The connection is gone, as this end sees it."""
        self._is_closing = True
        if not self._is_lost:
            self._is_lost = True
            self._link.loop.call_soon(self._tell, error)

    def _tell(self, error: Exception | None) -> None:
        if self.node.is_alive(self.protocol):
            self.protocol.connection_lost(error)


class Link:
    """A connection between two nodes."""

    def __init__(self, network: ClusterNetwork, number: int, near: Any, near_protocol: Any, far: Any) -> None:
        self.network, self.number, self.loop = network, number, network.loop
        self.near = End(self, near, near_protocol)
        self.far = End(self, far, far.server.acceptor.new_connection())
        self.near.other, self.far.other = self.far, self.near
        self.names = frozenset((near.name, far.name))

    def open(self) -> None:
        """Both ends learn of it."""
        self.far.protocol.connection_made(self.far)
        self.near.protocol.connection_made(self.near)

    def send(self, end: End, data: bytes | memoryview | None) -> None:
        """Put bytes on the way, after those before."""
        due_ms = self.network.clock() + self.network.rnd.choice(DELAYS_MS)
        if end.sent:
            due_ms = max(due_ms, end.sent[-1][0])
        end.sent.append((due_ms, data))

    def deliver(self) -> bool:
        """Hand over what is due. Returns whether anything was."""
        if self.names in self.network.cut:
            return False
        has_moved = False
        for end in (self.near, self.far):
            other = end.other
            while end.sent and end.sent[0][0] <= self.network.clock():
                if other.is_closing():
                    end.sent.clear()
                    break
                if not other.is_reading():
                    break
                _, data = end.sent.popleft()
                has_moved = True
                if data is None:
                    other.lose(None)
                elif other.node.is_alive(other.protocol):
                    size = self.network.rnd.randrange(1, PIECE_SIZE_MAX)
                    if len(data) > size:
                        end.sent.appendleft((0, data[size:]))
                    other.protocol.data_received(bytes(data[:size]))
        return has_moved

    @property
    def is_gone(self) -> bool:
        """Whether both ends are closed, and nothing is on its way."""
        return all(end.is_closing() and not end.sent for end in (self.near, self.far))

    def reset(self) -> None:
        """Lose the connection with what is on its way."""
        for end in (self.near, self.far):
            end.sent.clear()
            end.lose(ConnectionResetError("reset"))


class ClusterNetwork:
    """Connects nodes, which have a `name`, a `server` and `is_alive(protocol)`. `cut` has the pairs of names between
    which nothing arrives.
    """

    def __init__(self, loop: SteppingLoop, clock: Callable[[], int], rnd: random.Random) -> None:
        self.loop, self.clock, self.rnd = loop, clock, rnd
        # By port.
        self.nodes: dict[int, Any] = {}
        self.cut: set[frozenset[str]] = set()
        self.links: list[Link] = []
        self._count = 0
        # Connections that wait for a way.
        self._waiting: list[tuple[asyncio.Future[None], frozenset[str]]] = []
        loop.create_connection = self._connect  # type: ignore[attr-defined]

    async def _connect(self, make: Callable[[], Any], host: str, port: int, *, ssl: Any = None) -> None:
        protocol = make()
        near = next(node for node in self.nodes.values() if node.is_alive(protocol))
        far = self.nodes[port]
        names = frozenset((near.name, far.name))
        while names in self.cut:
            future = self.loop.create_future()
            self._waiting.append((future, names))
            await future
        if not far.is_up:
            raise ConnectionRefusedError(f"port {port}")
        self._count += 1
        link = Link(self, self._count, near, protocol, far)
        self.links.append(link)
        link.open()

    def deliver(self) -> bool:
        """Hand over what is due. Returns whether anything was."""
        for future, names in list(self._waiting):
            if future.done() or names not in self.cut:
                self._waiting.remove((future, names))
                if not future.done():
                    future.set_result(None)
        self.links = [link for link in self.links if not link.is_gone]
        return sum([link.deliver() for link in self.links]) > 0

    def next_due_ms(self) -> int | None:
        """When something arrives next; None if nothing is on its way."""
        dues = [
            end.sent[0][0]
            for link in self.links
            if link.names not in self.cut
            for end in (link.near, link.far)
            if end.sent and (end.other.is_reading() or end.other.is_closing())
        ]
        return min(dues, default=None)

    def isolate(self, name: str) -> None:
        """Cut a node off from all others."""
        self.cut |= {frozenset((name, node.name)) for node in self.nodes.values() if node.name != name}

    def heal(self) -> None:
        """Let everything through."""
        self.cut.clear()

    def drop_node(self, node: Any) -> None:
        """The process of a node is gone: the other ends learn of it when they are reached."""
        for link in self.links:
            for end in (link.near, link.far):
                if end.node is node and not end.is_closing():
                    end.close()
