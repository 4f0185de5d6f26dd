"""Expiry times by name, in Unix ms: those of the fields of a hash, and of the hashes of a database."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from sys import getsizeof
from typing import Any, Final

from .class_marks import mypyc_attr

# Later than any expiry time, as in `key_table`.
NEVER_DUE_MS: Final = (1 << 62) - 1

# Bytes of a time, in the table of times and in the heap.
TIME_SIZE: Final = 96
# Changed and dropped times stay in the heap until they are this many more than the others.
STALE_SLACK: Final = 64
# To make the heap anew takes no more time than to add this part of it.
HEAP_PART: Final = 8


@mypyc_attr(acyclic=True)
class DueTimes:
    """Times by name, and which one is the first."""

    __slots__ = ("_due", "_heap")

    def __init__(self) -> None:
        self._due: dict[bytes, int] = {}
        # (time, name), also of times that no longer hold. None after times came at once, until the first is wanted.
        self._heap: list[tuple[int, bytes]] | None = []

    @staticmethod
    def of(times: dict[bytes, int]) -> DueTimes:
        """These times by name. The dictionary is kept."""
        due_times = DueTimes()
        due_times._due = times
        due_times._heap = None
        return due_times

    def __len__(self) -> int:
        return len(self._due)

    @property
    def by_name(self) -> dict[bytes, int]:
        """The times by name, which must not be changed."""
        return self._due

    def names(self) -> list[bytes]:
        """The names that have a time."""
        return list(self._due)

    def get(self, name: bytes) -> int:
        """The time of a name; NEVER_DUE_MS if it has none."""
        return self._due.get(name, NEVER_DUE_MS)

    def put(self, name: bytes, due_ms: int) -> None:
        """Set the time of a name."""
        self._due[name] = due_ms
        if self._heap is not None:
            heappush(self._heap, (due_ms, name))
            self._forget_stale(self._heap)

    def put_all(self, names: list[bytes], due_ms: int) -> None:
        """Set the time of names."""
        if len(names) == 1:
            self.put(names[0], due_ms)
            return
        self._due.update(dict.fromkeys(names, due_ms))
        heap = self._heap
        if heap is not None and len(names) < len(heap) // HEAP_PART:
            for name in names:
                heappush(heap, (due_ms, name))
            self._forget_stale(heap)
        else:
            self._heap = None

    def drop(self, name: bytes) -> bool:
        """Remove the time of a name. Returns whether it had one."""
        if self._due.pop(name, None) is None:
            return False
        if self._heap is not None:
            self._forget_stale(self._heap)
        return True

    def _forget_stale(self, heap: list[tuple[int, bytes]]) -> None:
        """Make the heap anew if most of its times no longer hold."""
        if len(heap) > 2 * len(self._due) + STALE_SLACK:
            self._make_heap()

    def _make_heap(self) -> list[tuple[int, bytes]]:
        self._heap = heap = [(due_ms, name) for name, due_ms in self._due.items()]
        heapify(heap)
        return heap

    def first(self) -> tuple[int, bytes]:
        """The first time, with its name. There is one."""
        heap = self._make_heap() if self._heap is None else self._heap
        while self._due.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0]

    def copy(self) -> DueTimes:
        """Other times that are alike."""
        twin = DueTimes()
        twin._due, twin._heap = self._due.copy(), None if self._heap is None else self._heap.copy()
        return twin

    @property
    def memory_size(self) -> int:
        """Bytes of the times."""
        return getsizeof(self._due) + TIME_SIZE * len(self._due)

    def heaps(self) -> list[Any]:
        """What `Garbage` frees a little at a time."""
        return [self._due, self._heap or []]

    def check(self) -> None:
        """Assert that the parts agree. Raises AssertionError."""
        if self._heap is not None:
            assert {(time_ms, name) for name, time_ms in self._due.items()} <= set(self._heap)
            assert len(self._heap) <= 2 * len(self._due) + STALE_SLACK
