"""Arrays: elements at indexes of 64 bits, most of which may be empty, and a cursor.

The elements are in slices of consecutive indexes: see `array_slices_plain`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from ..class_marks import mypyc_attr
from ..limits import Limits
from .companion import Companion

try:
    from .array_slices import ArraySearch, ArraySlices
except ImportError:  # there was no C compiler at installation
    from .array_search import ArraySearch  # type: ignore[assignment]
    from .array_slices_plain import ArraySlices  # type: ignore[assignment]

__all__ = ["INDEX_MAX", "ArraySearch", "ArrayValue"]

# The largest index. One more is the length of an array that has an element there.
INDEX_MAX: Final = (1 << 64) - 2
# Elements that `ArrayValue.items` reads at a time.
_ITEMS_AT_ONCE: Final = 256
# Arrays with more elements are freed a little at a time.
_FREED_AT_ONCE: Final = 4096


@mypyc_attr(acyclic=True)
class ArrayValue(Companion):
    """Elements by index, and a cursor: the index of the last insertion."""

    __slots__ = ("cursor", "slices")

    type_name: ClassVar[bytes] = b"array"
    type_number: ClassVar[int] = 7

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self.slices = ArraySlices(limits.array_slice_size)
        # Index at which ARINSERT or ARRING stored the last element; None before the first one.
        self.cursor: int | None = None

    def __len__(self) -> int:
        """Number of elements."""
        return len(self.slices)

    @property
    def encoding(self) -> bytes:
        """`sliced-array`, the only encoding of arrays."""
        return b"sliced-array"

    @property
    def memory_size(self) -> int:
        """Bytes of the array."""
        return self.slices.memory_size

    # -- reading ---------------------------------------------------------------------------------

    @property
    def end(self) -> int:
        """The largest index that has an element, plus one."""
        return self.slices.end

    @property
    def next_index(self) -> int:
        """The index after the cursor. It is `INDEX_MAX + 1` if there is none."""
        return 0 if self.cursor is None else self.cursor + 1

    def at(self, index: int) -> bytes | None:
        """The element at this index, None if there is none."""
        return self.slices.at(index)

    def pages(self, first: int, last: int, descending: bool = False) -> Iterator[list[Any]]:
        """Pairs of an index and its element from `first` to `last`, both included, a number of them at a time. The
        array must not change meanwhile."""
        while first <= last:
            page: list[Any] = self.slices.pairs(first, last, _ITEMS_AT_ONCE, descending)
            yield page
            if len(page) < _ITEMS_AT_ONCE:
                return
            if descending:
                last = page[-1][0] - 1
            else:
                first = page[-1][0] + 1

    def items(self, first: int = 0, last: int = INDEX_MAX, descending: bool = False) -> Iterator[tuple[int, bytes]]:
        """The elements from `first` to `last`, both included. The array must not change meanwhile."""
        for page in self.pages(first, last, descending):
            for pair in page:
                yield pair[0], pair[1]

    def encoded_newest(self, count: int, newest_first: bool, null: bytes) -> bytes:
        """So many elements before and at the cursor, the newest first or last, as `ArraySlices.encoded_range` returns
        them.

        Index 0 is followed by the last index that has an element, as in a ring.
        """
        last = self.end - 1 if self.cursor is None else self.cursor
        first = max(last - count + 1, 0)
        before = count - (last - first + 1)
        newest = self.slices.encoded_range(first, last, newest_first, null)
        if not before:
            return newest
        oldest = self.slices.encoded_range(self.end - before, self.end - 1, newest_first, null)
        return newest + oldest if newest_first else oldest + newest

    # -- changes ---------------------------------------------------------------------------------

    def put(self, index: int, element: bytes) -> bool:
        """Store an element. Returns whether the index was empty."""
        return self.slices.put(index, element, self.limits.array_sparse_max)

    def put_all(self, first: int, elements: list[bytes]) -> int:
        """Store elements at an index and after it. Returns how many of the indexes were empty."""
        return self.slices.put_all(first, elements, self.limits.array_sparse_max)

    def put_each(self, indexes: list[int], elements: list[bytes]) -> int:
        """Store elements at indexes. Returns how many of the indexes were empty."""
        return self.slices.put_each(indexes, elements, self.limits.array_sparse_max)

    def remove(self, index: int) -> bool:
        """Remove an element. Returns whether there was one."""
        return self.slices.remove(index, self.limits.array_sparse_min, self.limits.array_sparse_max)

    def remove_each(self, indexes: list[int]) -> int:
        """Remove the elements at indexes. Returns how many there were."""
        return self.slices.remove_each(indexes, self.limits.array_sparse_min, self.limits.array_sparse_max)

    def remove_range(self, first: int, last: int) -> int:
        """Remove the elements from `first` to `last`, both included. Returns how many there were."""
        return self.slices.remove_range(first, last, self.limits.array_sparse_min, self.limits.array_sparse_max)

    def insert(self, elements: list[bytes]) -> int:
        """Store elements after the cursor, for which there is room, and move it. Returns the last index."""
        first = self.next_index
        self.put_all(first, elements)
        self.cursor = first + len(elements) - 1
        return self.cursor

    def insert_in_ring(self, size: int, elements: list[bytes]) -> int:
        """Store elements after the cursor, which goes from `size - 1` to 0, and move it. Returns the last index.

        An array that is longer than the ring keeps its newest elements, up to an empty index. One that is shorter and
        has wrapped is put in the order of age, so that the ring can grow at its end.
        """
        end, index = self.end, self.next_index
        if end > size or (self.cursor is not None and 0 < index < end < size):
            index = self._renumber(min(size, len(self)))
        self.cursor = index = self.slices.put_in_ring((index - 1) % size, size, elements, self.limits.array_sparse_max)
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
        self.slices = ArraySlices(self.limits.array_slice_size)
        for place, element in enumerate(reversed(kept)):
            self.put(place, element)
        return len(kept)

    # -- as a whole ------------------------------------------------------------------------------

    def copy(self) -> ArrayValue:
        """Another array with the same elements and cursor."""
        twin = ArrayValue(self.limits)
        twin.slices, twin.cursor = self.slices.copy(), self.cursor
        return twin

    def heaps(self) -> list[Any]:
        """The slices of an array of many elements."""
        return [self.slices] if len(self) > _FREED_AT_ONCE else []

    def check(self) -> None:
        """Assert that the parts agree. Raises AssertionError."""
        self.slices.check()
        assert self.cursor is None or 0 <= self.cursor <= INDEX_MAX
