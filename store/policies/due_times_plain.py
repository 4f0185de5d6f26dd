"""When entries become due: `due_times` for installations without a C compiler. Both behave alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from sys import getsizeof
from typing import Final

from ..ids import StreamID
from ..object_sizes import ID_SIZE, NUMBER_SIZE, REFERENCE_SIZE

# Bytes of an item of the heap: a pair, and its two numbers.
ITEM_SIZE: Final = getsizeof((0, 0)) + REFERENCE_SIZE + ID_SIZE + NUMBER_SIZE
# The heap is made anew when more items than this, and more than half of all, have left or moved.
STALE_SLACK: Final = 64


class DueTimes:
    """Entry IDs, each with the Unix time in ms from which on its entry may be handed out: 0 to 2**63 - 1.

    The order is by due time and, among equal times, by ID. Raises MemoryError without any change. The form in C raises
    TypeError for what is no number, and OverflowError for a number that is no ID or no time.
    """

    __slots__ = ("_due_of", "_heap")

    def __init__(self) -> None:
        self._due_of: dict[StreamID, int] = {}
        # Pairs of due time and ID. Those that `_due_of` contradicts are stale.
        self._heap: list[tuple[int, StreamID]] = []

    def __len__(self) -> int:
        return len(self._due_of)

    def __contains__(self, entry_id: StreamID) -> bool:
        return entry_id in self._due_of

    def get(self, entry_id: StreamID) -> int | None:
        """The due time of an entry, None if it has none."""
        return self._due_of.get(entry_id)

    def set(self, entry_id: StreamID, due_ms: int) -> None:
        """Give an entry a due time, instead of the one that it may have."""
        if self._due_of.get(entry_id) != due_ms:
            self._due_of[entry_id] = due_ms
            heappush(self._heap, (due_ms, entry_id))
            self._clean()

    def set_many(self, ids: Iterable[StreamID], due_ms: int) -> None:
        """Give entries one due time."""
        for entry_id in ids:
            self.set(entry_id, due_ms)

    def discard(self, entry_id: StreamID) -> bool:
        """Remove an entry. Returns False if it has no due time."""
        if self._due_of.pop(entry_id, None) is None:
            return False
        self._clean()
        return True

    def discard_many(self, ids: Iterable[StreamID]) -> int:
        """Remove entries. Returns how many had a due time."""
        return sum([self.discard(entry_id) for entry_id in ids])

    def first(self) -> tuple[StreamID, int] | None:
        """The entry that is due first, and its due time. None if there is no entry."""
        heap = self._heap
        while heap and self._due_of.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return (heap[0][1], heap[0][0]) if heap else None

    def take_due(self, now_ms: int, count: int) -> list[StreamID]:
        """Remove up to `count` entries that are due at `now_ms`. Returns their IDs, first due first."""
        taken: list[StreamID] = []
        while len(taken) < count:
            first = self.first()
            if first is None or first[1] > now_ms:
                break
            taken.append(first[0])
            del self._due_of[first[0]]
        self._clean()
        return taken

    def walk(self) -> Iterator[tuple[StreamID, int]]:
        """Yield all entries with their due times as they are now, in order. Entries may be changed meanwhile."""
        for due_ms, entry_id in sorted([(due_ms, entry_id) for entry_id, due_ms in self._due_of.items()]):
            yield entry_id, due_ms

    def copy(self) -> DueTimes:
        """An independent object with the same entries."""
        twin = DueTimes()
        twin._due_of = self._due_of.copy()
        twin._heap = self._heap.copy()
        return twin

    @property
    def memory_size(self) -> int:
        """Bytes held."""
        return getsizeof(self) + getsizeof(self._due_of) + getsizeof(self._heap) + len(self._heap) * ITEM_SIZE

    def check(self) -> None:
        """Assert that the two views agree."""
        assert set(self._heap) >= {(due_ms, entry_id) for entry_id, due_ms in self._due_of.items()}
        assert len(self._heap) <= 2 * len(self._due_of) + STALE_SLACK

    def _clean(self) -> None:
        """Make both views anew if most of the heap is stale."""
        if len(self._heap) > 2 * len(self._due_of) + STALE_SLACK:
            self._due_of = dict(self._due_of)
            self._heap = [(due_ms, entry_id) for entry_id, due_ms in self._due_of.items()]
            heapify(self._heap)
