"""The order of ORDER-BY: entries of a group with equal values of a field, of which one at a time has the turn.

Of the pending entries of one value, the one with the smallest ID has the turn. The later ones wait, and entries without
the field never do. An entry that is deleted from the stream has no turn and waits for none.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from sys import getsizeof
from typing import Final

from ..ids import StreamID
from ..log import EntryLog
from ..object_sizes import ID_SIZE, REFERENCE_SIZE, text_size

# MAX-PARKED where it is not set.
WAITING_MAX_DEFAULT: Final = 10_000
# IDs of a queue that have left it, before they are removed.
STALE_SLACK: Final = 32


class ValueQueue:
    """The pending entries of one value. There is at least one."""

    __slots__ = ("heap", "length", "value")

    def __init__(self, value: bytes) -> None:
        self.value: Final = value
        # Their IDs, smallest first, and IDs that have left.
        self.heap: list[StreamID] = []
        self.length = 0


class Ordering:
    """Who has the turn among the pending entries of one group. The caller reports each that comes or leaves."""

    __slots__ = (
        "_field", "_log", "_queue_of", "_queues", "_read_now", "_value_of", "changed", "has_shrunk", "swept_id"
    )  # fmt: skip

    def __init__(self, field: bytes, log: EntryLog) -> None:
        # The field as it is written in an entry.
        self._field: Final = b"$%d\r\n%b\r\n" % (len(field), field)
        self._log: Final = log
        self._queue_of: dict[StreamID, ValueQueue] = {}
        self._queues: dict[bytes, ValueQueue] = {}
        # Values of entries that are being read and not pending yet, and those of them that others wait for.
        self._value_of: dict[StreamID, bytes] = {}
        self._read_now: set[bytes] = set()
        # Entries that have got the turn (True) or lost it, and this is not logged yet.
        self.changed: dict[StreamID, bool] = {}
        # Whether entries have left, and readers that wait have not been woken yet: there may be room for new entries,
        # and new ones that were not read since there was no room may have the turn.
        self.has_shrunk = False
        # Entries before this ID that were trimmed have left.
        self.swept_id: StreamID = 0

    @property
    def waiting_count(self) -> int:
        """Number of pending entries that do not have the turn."""
        return len(self._queue_of) - len(self._queues)

    @property
    def memory_size(self) -> int:
        """Bytes of the queues, within a tenth."""
        size = getsizeof(self._queue_of) + getsizeof(self._queues) + len(self._queue_of) * (ID_SIZE + REFERENCE_SIZE)
        if self._queues:
            value = next(iter(self._queues))
            size += len(self._queues) * (text_size(value) + getsizeof(self._queues[value]) + getsizeof([0]))
        return size

    def has_turn(self, entry_id: StreamID) -> bool:
        """Whether an entry waits for no other: it is the first of its value, or is not ordered."""
        queue = self._queue_of.get(entry_id)
        return queue is None or self._first(queue) == entry_id

    def is_ordered(self, entry_id: StreamID) -> bool:
        """Whether an entry is pending and has the field."""
        return entry_id in self._queue_of

    def is_deleted(self, entry_id: StreamID) -> bool:
        """Whether a pending entry that has the field is not in the stream any more."""
        return entry_id in self._queue_of and not self._log.still_has(entry_id)

    # -- changes -----------------------------------------------------------------------------------

    def enter(self, entry_id: StreamID) -> StreamID:
        """Add a pending entry, if it is not there yet. Returns the entry from which it takes the turn, 0 if none."""
        if entry_id in self._queue_of:
            return 0
        value = self._value_of.pop(entry_id, None)
        if value is None:
            entry = self._log.get(entry_id)
            value = None if entry is None else self.value_in(entry)
            if value is None:
                return 0
        queue = self._queues.get(value)
        if queue is None:
            queue = self._queues[value] = ValueQueue(value)
        first_id = self._first(queue) if queue.length else 0
        heappush(queue.heap, entry_id)
        queue.length += 1
        self._queue_of[entry_id] = queue
        return first_id if entry_id < first_id else 0

    def leave(self, ids: Iterable[StreamID]) -> list[StreamID]:
        """Remove entries. Returns those that get the turn by that."""
        turns: dict[ValueQueue, StreamID] = {}
        for entry_id in ids:
            queue = self._queue_of.get(entry_id)
            if queue is None:
                continue
            if queue not in turns:
                turns[queue] = self._first(queue)
            del self._queue_of[entry_id]
            self.has_shrunk = True
            queue.length -= 1
            if not queue.length:
                del self._queues[queue.value]
            elif len(queue.heap) > 2 * queue.length + STALE_SLACK:
                queue.heap = [each for each in set(queue.heap) if self._queue_of.get(each) is queue]
                heapify(queue.heap)
        return [
            self._first(queue) for queue, first_id in turns.items() if queue.length and self._first(queue) != first_id
        ]

    def _first(self, queue: ValueQueue) -> StreamID:
        """The entry that has the turn, of a queue that is not empty."""
        heap = queue.heap
        while self._queue_of.get(heap[0]) is not queue:
            heappop(heap)
        return heap[0]

    # -- reading -----------------------------------------------------------------------------------

    def value_in(self, entry: bytes) -> bytes | None:
        """The value by which an entry is ordered, None if it does not have the field. The first of several counts."""
        field = self._field
        if field not in entry:
            return None
        # After `*2`, the ID and the number of words.
        at = entry.index(b"\r\n", _end_of_word(entry, 4)) + 2
        while at < len(entry):
            if entry.startswith(field, at):
                start = entry.index(b"\r\n", at + len(field)) + 2
                return entry[start : _end_of_word(entry, at + len(field)) - 2]
            at = _end_of_word(entry, _end_of_word(entry, at))
        return None

    def begin_read(self) -> None:
        """A read of new entries begins."""
        self._value_of.clear()
        self._read_now.clear()

    def must_wait(self, entry_id: StreamID, entry: bytes) -> bool:
        """Whether a new entry, which is being read, waits for an earlier one that is pending, or for which `take_turn`
        was called.
        """
        value = self.value_in(entry)
        if value is None:
            return False
        self._value_of[entry_id] = value
        if value in self._read_now:
            return True
        queue = self._queues.get(value)
        return queue is not None and self._first(queue) < entry_id

    def take_turn(self, entry_id: StreamID) -> None:
        """Let later entries of the read wait for this one, which has been read and becomes pending."""
        value = self._value_of.get(entry_id)
        if value is not None:
            self._read_now.add(value)

    # -- whole -------------------------------------------------------------------------------------

    def check(self) -> None:
        """Assert that both views agree."""
        assert sum(queue.length for queue in self._queues.values()) == len(self._queue_of)
        for entry_id, queue in self._queue_of.items():
            assert self._queues[queue.value] is queue
            assert entry_id in queue.heap
            assert self._first(queue) <= entry_id
            assert len(queue.heap) <= 2 * queue.length + STALE_SLACK + 1


def _end_of_word(entry: bytes, at: int) -> int:
    """Where the word ends that begins at `at` with its size, the line end included."""
    end = entry.index(b"\r\n", at)
    return end + 4 + int(entry[at + 1 : end])
