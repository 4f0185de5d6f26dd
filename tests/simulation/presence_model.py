"""A model of which consumers of a group are absent, and since when (CONSUMER-TTL)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Presence:
    """The uses of a group's consumers. Times are Unix ms."""

    # When a consumer was used last, or when the last open connection that had used it was closed.
    seen_ms: dict[bytes, int] = field(default_factory=dict)
    # The open connections that have used a consumer.
    connections: dict[bytes, set[int]] = field(default_factory=dict)

    def begin(self, seen_ms: dict[bytes, int]) -> None:
        """The server has started, or CONSUMER-TTL is set: it knows when consumers were seen, and no connection."""
        self.seen_ms |= seen_ms
        self.connections.clear()

    def note_use(self, consumer: bytes, connection: int, now_ms: int) -> None:
        """A connection uses a consumer."""
        self.seen_ms[consumer] = now_ms
        self.connections.setdefault(consumer, set()).add(connection)

    def note_close(self, connection: int, now_ms: int) -> None:
        """A connection is closed."""
        for consumer, connections in self.connections.items():
            if connections == {connection}:
                self.seen_ms[consumer] = now_ms
            connections.discard(connection)

    def absent_since_ms(self, consumer: bytes) -> int | None:
        """Since when a consumer is absent; None if it is not."""
        return None if self.connections.get(consumer) else self.seen_ms[consumer]

    def forget(self, consumer: bytes) -> None:
        """A consumer is deleted."""
        self.seen_ms.pop(consumer, None)
        self.connections.pop(consumer, None)
