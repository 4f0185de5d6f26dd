"""A consumer group: its position in the stream, its consumers, and its pending entries."""

from __future__ import annotations

from typing import Final

from .ids import StreamID
from .pending import Consumer, PendingEntries

ENTRIES_READ_UNKNOWN: Final = -1


class Group:
    """`last_id` is the last-delivered ID; `entries_read` counts the stream's entries up to it, -1 when unknown."""

    __slots__ = (
        "_sorted_consumers",
        "acks_count",
        "claims_count",
        "consumers",
        "deliveries_count",
        "entries_read",
        "fatal_releases_count",
        "last_id",
        "name",
        "pending",
        "releases_count",
    )

    def __init__(self, name: bytes, last_id: StreamID, entries_read: int = ENTRIES_READ_UNKNOWN) -> None:
        self.name = name
        self.last_id = last_id
        self.entries_read = entries_read
        self.consumers: dict[bytes, Consumer] = {}
        self.pending = PendingEntries()
        # The consumers by name, until the next one is added or removed.
        self._sorted_consumers: list[Consumer] | None = None
        self.forget_counts()

    def forget_counts(self) -> None:
        """Reset the counters that the server's metrics show: entries since the server started."""
        # New entries delivered.
        self.deliveries_count = 0
        # Entries claimed, owned and released ones.
        self.claims_count = 0
        self.acks_count = 0
        self.releases_count = 0
        # Entries released with XNACK FATAL.
        self.fatal_releases_count = 0

    def add_consumer(self, name: bytes, now_ms: int) -> Consumer:
        """Create a consumer. No consumer may have the name."""
        consumer = self.consumers[name] = Consumer(name, now_ms)
        self._sorted_consumers = None
        return consumer

    def remove_consumer(self, name: bytes) -> int | None:
        """Remove a consumer and its pending entries. Returns how many entries it had, or None if there is no such
        consumer."""
        consumer = self.consumers.get(name)
        if consumer is None:
            return None
        count = self.pending.drop_consumer(consumer)
        del self.consumers[name]
        self._sorted_consumers = None
        return count

    def sorted_consumers(self) -> list[Consumer]:
        """Consumers by name bytes, the order of every listing. The caller must not change the list."""
        if self._sorted_consumers is None:
            self._sorted_consumers = [self.consumers[name] for name in sorted(self.consumers)]
        return self._sorted_consumers

    def copy(self) -> Group:
        """An independent group in the same state."""
        twin = Group(self.name, self.last_id, self.entries_read)
        for consumer in self.consumers.values():
            other = twin.add_consumer(consumer.name, consumer.seen_ms)
            other.active_ms = consumer.active_ms
        twin.pending = self.pending.copy(twin.consumers)
        return twin
