"""What nobody needs any more, given back a little at a time: a million values at once would keep everybody waiting.

Tables are emptied item by item; that of pending entries gives back the memory of so many. A stream with much in it is
taken apart first, unless a snapshot may still read it: then it goes as a whole, when the snapshot has let go of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .pending import PendingTable
from .stream import Stream

Heap = dict[Any, Any] | list[Any] | PendingTable

ITEMS_PER_STEP: Final = 256
"""Items that go in one step."""

PENDING_COUNT_MIN: Final = 10_000
"""Streams with fewer pending entries are not worth the trouble."""


class Garbage:
    """Tables and lists waiting for their end."""

    def __init__(self) -> None:
        self._heaps: list[Heap] = []

    def __len__(self) -> int:
        """Items that wait."""
        return sum(map(len, self._heaps))

    def add(self, heap: Heap) -> None:
        """Take a table over; whoever had it has forgotten it."""
        if heap:
            self._heaps.append(heap)

    def add_stream(self, stream: Stream) -> None:
        """Take a stream over that has no key any more."""
        if stream.image_number < Stream.newest_image_number:
            return
        for group in stream.groups.values():
            if len(group.pending) >= PENDING_COUNT_MIN:
                for heap in group.pending.dismantle(group.consumers.values()):
                    self.add(heap)

    def free(self, is_over: Callable[[], bool] = lambda: False) -> None:
        """Give back until it is over, which is asked before each step."""
        while self._heaps and not is_over():
            heap = self._heaps.pop()
            if isinstance(heap, list):
                del heap[-ITEMS_PER_STEP:]
            elif isinstance(heap, PendingTable):
                heap.give_back(ITEMS_PER_STEP)
            else:
                for _ in range(min(ITEMS_PER_STEP, len(heap))):
                    value = heap.popitem()[1]
                    if type(value) is Stream:
                        self.add_stream(value)
            if heap:
                self._heaps.append(heap)
