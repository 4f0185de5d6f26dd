"""The entries of a chunk: `body` for installations without a C compiler. Both behave alike."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate
from operator import sub
from sys import getsizeof
from typing import Final

from .id_bits import SEQ_BITS, SEQ_MASK

# Bytes of a body without its entries.
BODY_SIZE: Final = 80
NUMBER_BYTES: Final = 8
BYTE_ORDER: Final = "little" if array("H", (1,)).tobytes()[0] else "big"


class Body:
    """Entries in their reply form, end to end, with the two halves of each ID and the end offset of each entry.

    A body counts as full from `size_max` bytes or `entries_max` entries on.
    """

    __slots__ = ("_data", "_ends", "_entries_max", "_ms", "_seq", "_size_max")

    def __init__(self, size_max: int, entries_max: int) -> None:
        self._size_max = size_max
        self._entries_max = entries_max
        # A bytearray while entries are added.
        self._data: bytes | bytearray = bytearray()
        self._ms = array("Q")
        self._seq = array("Q")
        self._ends = array("Q")

    @staticmethod
    def of_columns(data: bytes, ms: array[int], seq: array[int], ends: array[int]) -> Body:
        """Return a full body made of `Q` arrays, which it may keep. Raises ValueError if they do not fit together."""
        body = Body(0, 0)
        body._data, body._ms, body._seq, body._ends = data, ms, seq, ends
        if not len(ms) == len(seq) == len(ends) or len(data) != (ends[-1] if ends else 0):
            raise ValueError("columns of different bodies")
        if any(map(int.__lt__, ends[1:], ends)):
            raise ValueError("an entry that ends before it begins")
        return body

    def copy(self) -> Body:
        """An independent body that may grow."""
        twin = Body(self._size_max, self._entries_max)
        twin._data, twin._ms, twin._seq, twin._ends = bytearray(self._data), self._ms[:], self._seq[:], self._ends[:]
        return twin

    @property
    def count(self) -> int:
        """How many entries there are."""
        return len(self._ends)

    @property
    def is_full(self) -> bool:
        """Whether no more should be added."""
        return len(self._data) >= self._size_max or len(self._ends) >= self._entries_max

    @property
    def last_id(self) -> int:
        """ID of the last entry. Raises IndexError if there is none."""
        return self.id_at(len(self._ends) - 1)

    @property
    def memory_size(self) -> int:
        """Bytes held."""
        return BODY_SIZE + sum(map(getsizeof, (self._data, self._ms, self._seq, self._ends)))

    def append(self, entry_id: int, entry: bytes) -> bool:
        """Add an entry whose ID is above all others. Returns whether the body is full now."""
        self._ms.append(entry_id >> SEQ_BITS)
        self._seq.append(entry_id & SEQ_MASK)
        self._data += entry
        self._ends.append(len(self._data))
        return self.is_full

    def extend(self, added: Body, low: int) -> int:
        """Add the entries of another body from position `low` on, until this one is full.

        Returns the position after the last entry added. Raises IndexError if `added` has no entry at `low`.
        """
        _check_run(added, low, low + 1)
        ends = added._ends
        start = ends[low - 1] if low else 0
        shift = len(self._data) - start
        high = min(low + max(self._entries_max - len(self._ends), 1), len(ends))
        high = min(bisect_left(ends, self._size_max - shift, low, high) + 1, high)
        self._data += added._data[start : ends[high - 1]]
        self._ms += added._ms[low:high]
        self._seq += added._seq[low:high]
        self._ends += array("Q", map(shift.__add__, ends[low:high])) if shift else ends[low:high]
        return high

    def fit(self) -> None:
        """Free the spare room that was kept for more entries."""
        self._data, self._ms, self._seq, self._ends = bytes(self._data), self._ms[:], self._seq[:], self._ends[:]

    def id_at(self, position: int) -> int:
        """ID of the entry at `position`. Raises IndexError."""
        _check_run(self, position, position + 1)
        return self._ms[position] << SEQ_BITS | self._seq[position]

    def position(self, entry_id: int) -> int:
        """Position of the first entry whose ID is not below `entry_id`."""
        ms = self._ms
        wanted_ms = entry_id >> SEQ_BITS
        low = bisect_left(ms, wanted_ms)
        if low == len(ms) or ms[low] != wanted_ms:
            return low
        return bisect_left(self._seq, entry_id & SEQ_MASK, low, bisect_right(ms, wanted_ms, low))

    def count_found(self, ids: list[int], start: int) -> int:
        """Return how many of `ids[start:]` are in the body, counting up to the first that is not."""
        for index in range(start, len(ids)):
            at = self.position(ids[index])
            if at == self.count or self.id_at(at) != ids[index]:
                return index - start
        return len(ids) - start

    def ids(self, low: int, high: int) -> list[int]:
        """IDs of the entries `low` to `high` (excluded). Raises IndexError if the body has not all of them."""
        _check_run(self, low, high)
        return [ms << SEQ_BITS | seq for ms, seq in zip(self._ms[low:high], self._seq[low:high], strict=True)]

    def columns(self, low: int, high: int) -> tuple[array[int], array[int]]:
        """IDs of the entries `low` to `high` (excluded) as two arrays, ms and seq. Raises IndexError."""
        _check_run(self, low, high)
        return self._ms[low:high], self._seq[low:high]

    def ends(self, low: int, high: int) -> array[int]:
        """End offset of each of the entries `low` to `high` (excluded) in the bytes that `slice` returns. Raises
        IndexError."""
        _check_run(self, low, high)
        start = self._ends[low - 1] if low else 0
        return array("Q", [end - start for end in self._ends[low:high]])

    def slice(self, low: int, high: int) -> bytes:
        """The bytes of the entries `low` to `high` (excluded). Raises IndexError."""
        _check_run(self, low, high)
        start = self._ends[low - 1] if low else 0
        return bytes(self._data[start : self._ends[high - 1] if high else 0])

    def slice_back(self, low: int, high: int) -> bytes:
        """The bytes of the entries `low` to `high` (excluded), last entry first. Raises IndexError."""
        _check_run(self, low, high)
        return b"".join([self.slice(position, position + 1) for position in range(high - 1, low - 1, -1)])

    def block(self) -> bytes:
        """The whole body as one block: count, columns, then bytes. Ascending columns are stored as differences, which
        compress to almost nothing."""
        head = array("Q", (len(self._ends),)) + _differences(self._ms) + self._seq + _differences(self._ends)
        return head.tobytes() + self._data

    @staticmethod
    def of_block(block: bytes) -> Body:
        """Return a full body made of the bytes that `block` returned. Raises ValueError for other bytes."""
        count = int.from_bytes(block[:NUMBER_BYTES], BYTE_ORDER)
        head_size = NUMBER_BYTES * (1 + 3 * count)
        if len(block) < max(head_size, NUMBER_BYTES):
            raise ValueError("a block that is cut off")
        numbers = array("Q", block[NUMBER_BYTES:head_size])
        ms, ends = _running_sums(numbers[:count]), _running_sums(numbers[2 * count :])
        return Body.of_columns(block[head_size:], ms, numbers[count : 2 * count], ends)


def _check_run(body: Body, low: int, high: int) -> None:
    if not 0 <= low <= high <= body.count:
        raise IndexError("no such entries")


def _differences(column: array[int]) -> array[int]:
    """The first number of an ascending column, followed by the difference of each number to the one before."""
    steps = column[:1]
    steps.extend(array("Q", map(sub, column[1:], column)))
    return steps


def _running_sums(steps: array[int]) -> array[int]:
    """The inverse of `_differences`."""
    return array("Q", accumulate(steps))
