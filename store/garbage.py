"""Removed values, freed a little at a time: freeing a million values at once would delay all clients.

Tables are emptied item by item; arrays, lists and tables of keys and of pending entries free the memory of a number of
them at a time. A large stream is first split into its parts, unless a snapshot may still read it. Then it is freed as a
whole when the snapshot drops it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .companions.companion import Companion
from .pending import PendingTable
from .stream import Stream

try:
    from .companions.array_slices import ArraySlices
except ImportError:  # there was no C compiler at installation
    from .companions.array_slices_plain import ArraySlices  # type: ignore[assignment]
try:
    from .companions.quicklist import Quicklist
except ImportError:
    from .companions.quicklist_plain import Quicklist  # type: ignore[assignment]
try:
    from .key_table import KeyTable
except ImportError:
    from .key_table_plain import KeyTable  # type: ignore[assignment]

Heap = dict[Any, Any] | list[Any] | PendingTable | KeyTable | ArraySlices | Quicklist

# Items that are freed in one step.
ITEMS_PER_STEP: Final = 256

# Streams with fewer pending entries are freed at once.
PENDING_COUNT_MIN: Final = 10_000


class Garbage:
    """Tables and lists whose items are still to be freed."""

    def __init__(self) -> None:
        self._heaps: list[Heap] = []
        # Items freed so far; CONFIG RESETSTAT starts anew.
        self.freed_count = 0

    def __len__(self) -> int:
        """Number of items still to be freed."""
        return sum(map(len, self._heaps))

    def add(self, heap: Heap) -> None:
        """Take over a table to which there is no other reference."""
        if heap:
            self._heaps.append(heap)

    def add_value(self, value: Stream | Companion) -> None:
        """Take over a value that has lost its key."""
        if type(value) is Stream:
            self._add_stream(value)
        elif isinstance(value, Companion) and value.image_number >= Companion.newest_image_number:
            for heap in value.heaps():
                self.add(heap)

    def _add_stream(self, stream: Stream) -> None:
        if stream.image_number < Stream.newest_image_number:
            return
        for group in stream.groups.values():
            if len(group.pending) >= PENDING_COUNT_MIN:
                for heap in group.pending.dismantle(group.consumers.values()):
                    self.add(heap)

    def free(self, is_over: Callable[[], bool] = lambda: False) -> None:
        """Free items until `is_over`, which is called before each step, returns true."""
        while self._heaps and not is_over():
            heap = self._heaps.pop()
            count = len(heap)
            if isinstance(heap, list):
                del heap[-ITEMS_PER_STEP:]
            elif isinstance(heap, (PendingTable, ArraySlices, Quicklist)):
                heap.give_back(ITEMS_PER_STEP)
            elif isinstance(heap, KeyTable):
                for kept in heap.give_back(ITEMS_PER_STEP):
                    if not isinstance(kept, bytes):
                        self.add_value(kept)
            else:
                for _ in range(min(ITEMS_PER_STEP, len(heap))):
                    value = heap.popitem()[1]
                    if isinstance(value, (Stream, Companion)):
                        self.add_value(value)
            self.freed_count += count - len(heap)
            if heap:
                self._heaps.append(heap)
