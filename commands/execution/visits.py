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
        # Times, numbers in the order of the calls, and places, which cannot all be compared. Those whose time is not
        # that of `_due_of` are void.
        self._heap: list[tuple[int, int, Place]] = []
        self._noted_count = 0

    def __len__(self) -> int:
        return len(self._due_of)

    def note(self, place: Place, due_ms: int) -> None:
        """Visit a place at that time, or before if that is due already. NEVER_MS asks for no visit."""
        if due_ms < self._due_of.get(place, NEVER_MS):
            self._due_of[place] = due_ms
            self._noted_count += 1
            heappush(self._heap, (due_ms, self._noted_count, place))
            if len(self._heap) > VOID_MAX + 4 * len(self._due_of):
                self._heap = [item for item in self._heap if self._due_of.get(item[2]) == item[0]]
                heapify(self._heap)

    def swap(self, first: int, second: int) -> None:
        """Two databases have changed places."""
        other = {first: second, second: first}
        before, self._due_of = self._due_of, {}
        self._heap.clear()
        for (index, key, group_name), due_ms in before.items():
            self.note((other.get(index, index), key, group_name), due_ms)

    def next_due_ms(self) -> int:
        """When the first visit is due; NEVER_MS if there is none."""
        heap = self._heap
        while heap and self._due_of.get(heap[0][2]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else NEVER_MS

    def take_due(self, now_ms: int, count: int) -> list[Place]:
        """Remove and return up to `count` places whose visit is due."""
        taken: list[Place] = []
        while len(taken) < count and self.next_due_ms() <= now_ms:
            place = heappop(self._heap)[2]
            del self._due_of[place]
            taken.append(place)
        return taken
