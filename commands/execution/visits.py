"""When each group with policies must be looked after: bookkeeping without a clock of its own."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

from ...store.policies.agenda import NEVER_MS

# (database index, key, group name). The name is None for what belongs to the stream itself.
Place = tuple[int, bytes, bytes | None]

# Visits in the heap that are no longer wanted, before it is cleaned.
VOID_MAX: Final = 1024


class Visits:
    """The next visit of each place. Times are Unix ms."""

    def __init__(self) -> None:
        self._due_of: dict[Place, int] = {}
        # Entries whose time is not that of `_due_of` are void.
        self._heap: list[tuple[int, Place]] = []

    def __len__(self) -> int:
        return len(self._due_of)

    def note(self, place: Place, due_ms: int) -> None:
        """Visit a place at that time, or before if that is due already. NEVER_MS asks for no visit."""
        if due_ms < self._due_of.get(place, NEVER_MS):
            self._due_of[place] = due_ms
            heappush(self._heap, (due_ms, place))
            if len(self._heap) > VOID_MAX + 4 * len(self._due_of):
                self._heap = [(each_ms, each) for each_ms, each in self._heap if self._due_of.get(each) == each_ms]
                heapify(self._heap)

    def next_due_ms(self) -> int:
        """When the first visit is due; NEVER_MS if there is none."""
        heap = self._heap
        while heap and self._due_of.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else NEVER_MS

    def take_due(self, now_ms: int, count: int) -> list[Place]:
        """Remove and return up to `count` places whose visit is due."""
        taken: list[Place] = []
        while len(taken) < count and self.next_due_ms() <= now_ms:
            _, place = heappop(self._heap)
            del self._due_of[place]
            taken.append(place)
        return taken
