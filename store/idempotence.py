"""Idempotent producers: which (producer ID, idempotent ID) pairs a stream remembers, and which entry each one made."""

from __future__ import annotations

import struct
from collections import deque

import xxhash

from .ids import SEQ_BITS, U64_MAX, StreamID


class Producer:
    """One producer's pairs, oldest first."""

    __slots__ = ("ids", "order")

    def __init__(self) -> None:
        self.ids: dict[bytes, StreamID] = {}
        self.order: deque[bytes] = deque()

    def add(self, iid: bytes, entry_id: StreamID, entries_max: int) -> None:
        """Remember a new pair. Above `entries_max` pairs the oldest is dropped."""
        self.ids[iid] = entry_id
        self.order.append(iid)
        while len(self.order) > entries_max:
            del self.ids[self.order.popleft()]

    def expire(self, before_ms: int) -> None:
        """Forget pairs from the front whose entry's ms part is not above `before_ms`."""
        while self.order and self.ids[self.order[0]] >> SEQ_BITS <= before_ms:
            del self.ids[self.order.popleft()]


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
        return None if producer is None else producer.ids.get(iid)

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
        producer = self.producers[producer_id]
        del producer.ids[iid]
        producer.order.remove(iid)

    def configure(self, duration_s: int | None, entries_max: int | None) -> bool:
        """Change the settings (XCFGSET). A different value drops all pairs. Returns whether a value changed."""
        new = (duration_s or self.duration_s, entries_max or self.entries_max)
        if new == (self.duration_s, self.entries_max):
            return False
        self.duration_s, self.entries_max = new
        self.producers = {}
        return True

    def expire(self, now_ms: int) -> None:
        """Forget pairs older than the duration, and producers that lose their last one."""
        before_ms = now_ms - self.duration_s * 1000
        for producer_id, producer in list(self.producers.items()):
            if producer.order:
                producer.expire(before_ms)
                if not producer.order:
                    del self.producers[producer_id]

    @property
    def pairs_count(self) -> int:
        """All remembered pairs."""
        return sum(len(producer.order) for producer in self.producers.values())

    def copy(self) -> Idempotence:
        """An independent copy."""
        twin = Idempotence(self.duration_s, self.entries_max)
        for producer_id, producer in self.producers.items():
            other = twin.producers[producer_id] = Producer()
            other.ids, other.order = dict(producer.ids), deque(producer.order)
        twin.added, twin.duplicates = self.added, self.duplicates
        return twin


def automatic_iid(pairs: list[bytes]) -> bytes:
    """IDMPAUTO's idempotent ID: 16 bytes from the field-value pairs, whatever their order (Redis 8.6)."""
    sum_low = sum_high = xor_low = xor_high = 0
    for name, value in zip(pairs[::2], pairs[1::2], strict=True):
        digest = xxhash.xxh3_128_intdigest(name + struct.pack("<Q", len(name)) + value)
        low, high = digest & U64_MAX, digest >> 64
        sum_low, sum_high = (sum_low + low) & U64_MAX, (sum_high + high) & U64_MAX
        xor_low, xor_high = xor_low ^ low, xor_high ^ high
    return struct.pack("<QQ", sum_low ^ _rotate_left(xor_high), sum_high ^ _rotate_left(xor_low))


def _rotate_left(number: int) -> int:
    return (number << 1 | number >> 63) & U64_MAX
