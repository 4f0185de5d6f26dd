"""The pairs of an idempotent producer, for installations without a C compiler: `producer` does the same in C."""

from __future__ import annotations

import struct
from collections import deque
from sys import getsizeof
from typing import Final

import xxhash

from .ids import SEQ_BITS, U64_MAX, StreamID
from .object_sizes import ID_SIZE, text_size

# The first block of the queue.
QUEUE_BLOCK_SIZE: Final = 528


class Producer:
    """Which entry each idempotent ID made, oldest first."""

    __slots__ = ("_ids", "_order", "_texts_size")

    def __init__(self) -> None:
        self._ids: dict[bytes, StreamID] = {}
        self._order: deque[bytes] = deque()
        # Bytes of all idempotent IDs.
        self._texts_size = 0

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, iid: bytes) -> bool:
        return iid in self._ids

    def get(self, iid: bytes) -> StreamID | None:
        """The ID of the entry that was added with this idempotent ID, None if it is not remembered."""
        return self._ids.get(iid)

    def add(self, iid: bytes, entry_id: StreamID, entries_max: int) -> None:
        """Remember a new pair. Above `entries_max` pairs the oldest is dropped."""
        self._ids[iid] = entry_id
        self._order.append(iid)
        self._texts_size += text_size(iid)
        while len(self._order) > entries_max:
            self._drop(self._order.popleft())

    def expire(self, before_ms: int) -> None:
        """Forget pairs from the front whose entry's ms part is not above `before_ms`."""
        while self._order and self._ids[self._order[0]] >> SEQ_BITS <= before_ms:
            self._drop(self._order.popleft())

    def forget(self, iid: bytes) -> None:
        """Forget one pair. Raises KeyError if it is not remembered."""
        self._drop(iid)
        self._order.remove(iid)

    def _drop(self, iid: bytes) -> None:
        del self._ids[iid]
        self._texts_size -= text_size(iid)

    def pairs(self) -> list[tuple[bytes, StreamID]]:
        """All pairs, oldest first."""
        return [(iid, self._ids[iid]) for iid in self._order]

    def copy(self) -> Producer:
        """An independent copy."""
        twin = Producer()
        twin._ids, twin._order, twin._texts_size = self._ids.copy(), self._order.copy(), self._texts_size
        return twin

    @property
    def memory_size(self) -> int:
        """Bytes of the producer and its pairs."""
        tables_size = getsizeof(self) + getsizeof(self._ids) + max(getsizeof(self._order), QUEUE_BLOCK_SIZE)
        return tables_size + len(self._ids) * ID_SIZE + self._texts_size

    def check(self) -> None:
        """Assert that all views agree. Raises AssertionError."""
        assert sorted(self._ids) == sorted(self._order)
        assert self._texts_size == sum(map(text_size, self._order))


def automatic_iid(words: list[bytes], first: int = 0) -> bytes:
    """IDMPAUTO's idempotent ID: 16 bytes from the fields and values in `words[first:]`, whatever their order
    (Redis 8.6)."""
    sum_low = sum_high = xor_low = xor_high = 0
    for name, value in zip(words[first::2], words[first + 1 :: 2], strict=True):
        digest = xxhash.xxh3_128_intdigest(name + struct.pack("<Q", len(name)) + value)
        low, high = digest & U64_MAX, digest >> 64
        sum_low, sum_high = (sum_low + low) & U64_MAX, (sum_high + high) & U64_MAX
        xor_low, xor_high = xor_low ^ low, xor_high ^ high
    return struct.pack("<QQ", sum_low ^ _rotate_left(xor_high), sum_high ^ _rotate_left(xor_low))


def _rotate_left(number: int) -> int:
    return (number << 1 | number >> 63) & U64_MAX
