"""Arrays: elements at indexes of 64 bits, most of which may be empty.

The elements are in slices of consecutive indexes, as Redis has them: a `SortedDict` of slices, each a dict by index. So
an element is found, added or removed at the cost of a dict, ranges skip the empty space between slices, and only a
new slice needs a place in an order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from sortedcontainers import SortedDict

from ..limits import Limits
from ..object_sizes import text_size
from .companion import Companion

# The largest index. One more is the length of an array that has an element there.
INDEX_MAX: Final = (1 << 64) - 2
# Indexes of a slice: 4096, the default of `array-slice-size`.
SLICE_BITS: Final = 12

# Bytes of a slice without its elements, and of an element in it.
SLICE_SIZE: Final = 240
SLOT_SIZE: Final = 100


class ArrayValue(Companion):
    """Elements by index, and a cursor: the index of the last insertion."""

    __slots__ = ("_count", "_end", "_slices", "_text_size", "cursor")

    type_name: ClassVar[bytes] = b"array"
    type_number: ClassVar[int] = 7

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        # Dicts of elements by index, by the number of their slice. None is empty.
        self._slices: Any = SortedDict()
        self._count = 0
        self._text_size = 0
        # The largest index with an element, plus one; -1 if it was removed since.
        self._end = 0
        # Index at which ARINSERT or ARRING stored the last element; None before the first one.
        self.cursor: int | None = None

    def __len__(self) -> int:
        """Number of elements."""
        return self._count

    @property
    def encoding(self) -> bytes:
        """`sliced-array`, the only encoding of arrays."""
        return b"sliced-array"

    @property
    def memory_size(self) -> int:
        """Bytes of the array."""
        return self._text_size + self._count * SLOT_SIZE + len(self._slices) * SLICE_SIZE

    # -- reading ---------------------------------------------------------------------------------

    @property
    def end(self) -> int:
        """The largest index that has an element, plus one."""
        if self._end < 0:
            self._end = max(self._slices.peekitem(-1)[1]) + 1 if self._count else 0
        return self._end

    @property
    def next_index(self) -> int:
        """The index after the cursor. It is `INDEX_MAX + 1` if there is none."""
        return 0 if self.cursor is None else self.cursor + 1

    def at(self, index: int) -> bytes | None:
        """The element at this index, None if there is none."""
        elements: dict[int, bytes] | None = self._slices.get(index >> SLICE_BITS)
        return None if elements is None else elements.get(index)

    def slice_sizes(self) -> list[tuple[int, int]]:
        """The number of each slice, and how many elements it has."""
        return [(number, len(elements)) for number, elements in self._slices.items()]

    def items(self, first: int = 0, last: int = INDEX_MAX, descending: bool = False) -> Iterator[tuple[int, bytes]]:
        """The elements from `first` to `last`, both included. The array must not change meanwhile."""
        for number in self._slices.irange(first >> SLICE_BITS, last >> SLICE_BITS, reverse=descending):
            elements: dict[int, bytes] = self._slices[number]
            if last - first < len(elements):
                indexes = [index for index in range(first, last + 1) if index in elements]
            else:
                indexes = sorted([index for index in elements if first <= index <= last])
            for index in indexes[::-1] if descending else indexes:
                yield index, elements[index]

    def newest(self, count: int) -> list[bytes | None]:
        """Up to so many elements before and at the cursor, the newest first, None at empty indexes.

        Index 0 is followed by the last index that has an element, as in a ring.
        """
        end = self.end
        index = end - 1 if self.cursor is None else self.cursor
        found: list[bytes | None] = []
        for _ in range(min(count, self._count)):
            found.append(self.at(index))
            index = index - 1 if index else end - 1
        return found

    # -- changes ---------------------------------------------------------------------------------

    def put(self, index: int, element: bytes) -> bool:
        """Store an element. Returns whether the index was empty."""
        number = index >> SLICE_BITS
        elements: dict[int, bytes] | None = self._slices.get(number)
        if elements is None:
            elements = self._slices[number] = {}
        old = elements.get(index)
        elements[index] = element
        self._text_size += text_size(element)
        if old is None:
            self._count += 1
            if 0 <= self._end <= index:
                self._end = index + 1
            return True
        self._text_size -= text_size(old)
        return False

    def remove(self, index: int) -> bool:
        """Remove an element. Returns whether there was one."""
        number = index >> SLICE_BITS
        elements: dict[int, bytes] | None = self._slices.get(number)
        old = None if elements is None else elements.pop(index, None)
        if elements is None or old is None:
            return False
        if not elements:
            del self._slices[number]
        if index + 1 == self._end:
            self._end = -1
        self._count -= 1
        self._text_size -= text_size(old)
        return True

    def remove_range(self, first: int, last: int) -> int:
        """Remove the elements from `first` to `last`, both included. Returns how many there were."""
        indexes = [index for index, _ in self.items(first, last)]
        for index in indexes:
            self.remove(index)
        return len(indexes)

    def insert(self, elements: list[bytes]) -> int:
        """Store elements after the cursor, for which there is room, and move it. Returns the last index."""
        index = self.next_index - 1
        for element in elements:
            index += 1
            self.put(index, element)
        self.cursor = index
        return index

    def insert_in_ring(self, size: int, elements: list[bytes]) -> int:
        """Store elements after the cursor, which goes from `size - 1` to 0, and move it. Returns the last index.

        An array that is longer than the ring keeps its newest elements, up to an empty index. One that is shorter and
        has wrapped is put in the order of age, so that the ring can grow at its end.
        """
        end, index = self.end, self.next_index
        if end > size or (self.cursor is not None and 0 < index < end < size):
            index = self._renumber(min(size, self._count))
        index = (index - 1) % size
        for element in elements:
            index = index + 1 if index + 1 < size else 0
            self.put(index, element)
        self.cursor = index
        return index

    def _renumber(self, count: int) -> int:
        """Keep up to so many elements before and at the cursor, at indexes from 0. The first empty index ends them, as
        in Redis. Returns their number."""
        end = self.end
        index = end - 1 if self.cursor is None else self.cursor % end
        kept: list[bytes] = []
        while len(kept) < count:
            element = self.at(index)
            if element is None:
                break
            kept.append(element)
            index = index - 1 if index else end - 1
        self._slices, self._count, self._text_size = SortedDict(), 0, 0
        self._end = 0
        for place, element in enumerate(reversed(kept)):
            self.put(place, element)
        return len(kept)

    # -- as a whole ------------------------------------------------------------------------------

    def copy(self) -> ArrayValue:
        """Another array with the same elements and cursor."""
        twin = ArrayValue(self.limits)
        for number, elements in self._slices.items():
            twin._slices[number] = dict(elements)
        twin._count, twin._text_size, twin._end, twin.cursor = self._count, self._text_size, self._end, self.cursor
        return twin

    def heaps(self) -> list[Any]:
        """The slices of an array of many."""
        return list(self._slices.values()) if len(self._slices) > 1 else []

    def check(self) -> None:
        """Assert that the parts agree. Raises AssertionError."""
        count = size = 0
        for number, elements in self._slices.items():
            assert elements
            for index, element in elements.items():
                assert index >> SLICE_BITS == number
                count += 1
                size += text_size(element)
        assert (count, size) == (self._count, self._text_size)
        assert self._end < 0 or self._end == max([index + 1 for index, _ in self.items()], default=0)
        assert self.cursor is None or 0 <= self.cursor <= INDEX_MAX
