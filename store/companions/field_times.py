"""The expiry times of the fields of a hash, in Unix ms."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from sys import getsizeof
from typing import Any, Final

from .companion import NEVER_DUE_MS

# Bytes of a time, in the table of times and in the heap.
TIME_SIZE: Final = 96
# Changed and dropped times stay in the heap until they are this many more than the others.
STALE_SLACK: Final = 64


class FieldTimes:
    """Times by field, and which one is the first."""

    __slots__ = ("_due", "_heap")

    def __init__(self) -> None:
        self._due: dict[bytes, int] = {}
        # (time, field), also of times that no longer hold.
        self._heap: list[tuple[int, bytes]] = []

    def __len__(self) -> int:
        return len(self._due)

    def fields(self) -> list[bytes]:
        """The fields that have a time."""
        return list(self._due)

    def get(self, field: bytes) -> int:
        """The time of a field; NEVER_DUE_MS if it has none."""
        return self._due.get(field, NEVER_DUE_MS)

    def put(self, field: bytes, due_ms: int) -> None:
        """Set the time of a field."""
        self._due[field] = due_ms
        heappush(self._heap, (due_ms, field))
        if len(self._heap) > 2 * len(self._due) + STALE_SLACK:
            self._heap = [(time_ms, each) for each, time_ms in self._due.items()]
            heapify(self._heap)

    def drop(self, field: bytes) -> bool:
        """Remove the time of a field. Returns whether it had one."""
        return self._due.pop(field, None) is not None

    def first(self) -> tuple[int, bytes]:
        """The first time, with its field. There is one."""
        heap = self._heap
        while self._due.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0]

    def copy(self) -> FieldTimes:
        """Other times that are alike."""
        twin = FieldTimes()
        twin._due, twin._heap = self._due.copy(), self._heap.copy()
        return twin

    @property
    def memory_size(self) -> int:
        """Bytes of the times."""
        return getsizeof(self._due) + TIME_SIZE * len(self._due)

    def heaps(self) -> list[Any]:
        """What `Garbage` frees a little at a time."""
        return [self._due, self._heap]

    def check(self) -> None:
        """Assert that the parts agree. Raises AssertionError."""
        assert {(time_ms, field) for field, time_ms in self._due.items()} <= set(self._heap)
