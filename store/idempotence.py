"""Idempotent producers: which (producer ID, idempotent ID) pairs a stream remembers, and which entry each one made."""

from __future__ import annotations

from .class_marks import mypyc_attr
from .ids import StreamID

try:
    from .producer import Producer, automatic_iid
except ImportError:  # there was no C compiler at installation
    from .producer_plain import Producer, automatic_iid  # type: ignore[assignment]

__all__ = ["Idempotence", "Producer", "automatic_iid"]


@mypyc_attr(acyclic=True)
class Idempotence:
    """The pairs of one stream. `duration_s` and `entries_max` are copied from the directives at its creation."""

    __slots__ = ("added", "duplicates", "duration_s", "entries_max", "producers")

    def __init__(self, duration_s: int, entries_max: int) -> None:
        self.duration_s = duration_s
        self.entries_max = entries_max
        self.producers: dict[bytes, Producer] = {}
        # Entries added, and duplicates refused, with an idempotent ID. Neither wraps at 64 bits; replies and payloads
        # have the low 64 bits.
        self.added = 0
        self.duplicates = 0

    def find(self, producer_id: bytes, iid: bytes) -> StreamID | None:
        """The ID of the entry that this pair added, None if the pair is not remembered."""
        producer = self.producers.get(producer_id)
        return None if producer is None else producer.get(iid)

    def register(self, producer_id: bytes) -> Producer:
        """The producer of that ID; a new one has no pairs."""
        producer = self.producers.get(producer_id)
        if producer is None:
            producer = self.producers[producer_id] = Producer()
        return producer

    def record(self, producer_id: bytes, iid: bytes, entry_id: StreamID) -> None:
        """Remember a new pair."""
        self.register(producer_id).add(iid, entry_id, self.entries_max)
        self.added += 1

    def forget(self, producer_id: bytes, iid: bytes) -> None:
        """Forget one pair that is remembered."""
        self.producers[producer_id].forget(iid)

    def configure(self, duration_s: int, entries_max: int) -> bool:
        """Change the settings that are not 0 (XCFGSET). A different value drops all pairs. Returns whether a value
        changed."""
        duration_s, entries_max = duration_s or self.duration_s, entries_max or self.entries_max
        if duration_s == self.duration_s and entries_max == self.entries_max:
            return False
        self.duration_s, self.entries_max = duration_s, entries_max
        self.producers = {}
        return True

    def expire(self, now_ms: int) -> None:
        """Forget pairs older than the duration, and producers that lose their last one."""
        before_ms = now_ms - self.duration_s * 1000
        for producer_id, producer in list(self.producers.items()):
            if producer:
                producer.expire(before_ms)
                if not producer:
                    del self.producers[producer_id]

    @property
    def pairs_count(self) -> int:
        """All remembered pairs."""
        return sum(map(len, self.producers.values()))

    def copy(self) -> Idempotence:
        """An independent copy."""
        twin = Idempotence(self.duration_s, self.entries_max)
        twin.producers = {producer_id: producer.copy() for producer_id, producer in self.producers.items()}
        twin.added, twin.duplicates = self.added, self.duplicates
        return twin
