"""When a group must look whether a consumer is still there (CONSUMER-TTL). Nothing of this is logged."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

from ..pending_parts import Consumer
from .agenda import NEVER_MS

# Looks in the heap that are no longer wanted, before it is cleaned.
VOID_MAX: Final = 256


class Absences:
    """The next look at each consumer of a group, and the open connections that used it. Times are Unix ms.

    A use of a consumer changes only its seen time. A look that comes too early is made again later, so that a consumer
    is looked at once in its longest time of absence.
    """

    __slots__ = ("_connections_of", "_due_of", "_heap", "_left_ms", "_names_of", "ttl_ms")

    def __init__(self, ttl_ms: int) -> None:
        # How long a consumer may be absent.
        self.ttl_ms = ttl_ms
        # By name. Items of the heap whose time is not that of `_due_of` are void.
        self._due_of: dict[bytes, int] = {}
        self._heap: list[tuple[int, bytes]] = []
        self._connections_of: dict[bytes, set[int]] = {}
        self._names_of: dict[int, dict[bytes, None]] = {}
        # When the last open connection of a consumer was closed.
        self._left_ms: dict[bytes, int] = {}

    def expect(self, name: bytes, since_ms: int) -> None:
        """Look at a consumer when it has been absent since then for the longest time."""
        due_ms = since_ms + self.ttl_ms
        self._due_of[name] = due_ms
        heappush(self._heap, (due_ms, name))
        if len(self._heap) > VOID_MAX + 2 * len(self._due_of):
            self._heap = [(due_ms, name) for name, due_ms in self._due_of.items()]
            heapify(self._heap)

    def note_use(self, name: bytes, connection: int) -> None:
        """A connection uses a consumer."""
        if not self.is_used_by(name, connection):
            self._connections_of.setdefault(name, set()).add(connection)
            self._names_of.setdefault(connection, {})[name] = None

    def note_close(self, connection: int, now_ms: int) -> None:
        """A connection is closed: the consumers that no other one has used are absent from now on."""
        for name in self._names_of.pop(connection, {}):
            connections = self._connections_of[name]
            connections.remove(connection)
            if not connections:
                del self._connections_of[name]
                self._left_ms[name] = now_ms

    def is_connected(self, name: bytes) -> bool:
        """Whether a connection that used the consumer is open."""
        return name in self._connections_of

    def is_used_by(self, name: bytes, connection: int) -> bool:
        """Whether an open connection has used the consumer."""
        return connection in self._connections_of.get(name, ())

    def absent_since_ms(self, consumer: Consumer) -> int:
        """Since when a consumer is absent that has no connection."""
        return max(consumer.seen_ms, self._left_ms.get(consumer.name, 0))

    def forget(self, name: bytes) -> None:
        """A consumer does not exist any more."""
        self._due_of.pop(name, None)
        self._left_ms.pop(name, None)
        for connection in self._connections_of.pop(name, ()):
            del self._names_of[connection][name]

    def next_due_ms(self) -> int:
        """When the next look is due; NEVER_MS if there is none."""
        heap = self._heap
        while heap and self._due_of.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else NEVER_MS

    def take_due(self, now_ms: int, count: int) -> list[bytes]:
        """Remove and return up to `count` names of consumers whose look is due."""
        taken: list[bytes] = []
        while len(taken) < count and self.next_due_ms() <= now_ms:
            name = heappop(self._heap)[1]
            del self._due_of[name]
            taken.append(name)
        return taken
