"""The elements of an array in slices of consecutive indexes, as Redis has them, which ARINFO shows.

A slice is sparse while it has few elements. A dense one has a window of a power of two of places. The specification of
`array_slices`, which holds an element in eight bytes, and its replacement where there is no C compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from sortedcontainers import SortedDict

from ..object_sizes import text_size
from .array_search import ArraySearch
from .integers import as_integer

# The least places of a dense slice, and the room of a new sparse one.
WINDOW_MIN: Final = 8
ROOM_FIRST: Final = 4
# Slices of a block of the directory, in bits, and the room of a new directory of blocks.
BLOCK_BITS: Final = 11
BLOCKS_FIRST: Final = 4
# Integers of 62 bits, which Redis keeps in a word, are below this.
INTEGER_LIMIT: Final = 1 << 61
SLICE_SIZE_MAX: Final = 1 << 16

# Bytes that Redis takes for a slice without its elements, and for an element: they decide when a slice is sparse.
_HEADER_SIZE: Final = 32
_WORD_SIZE: Final = 8

# Bytes of a slice here, and of an element besides its text.
SLICE_SIZE: Final = 300
SLOT_SIZE: Final = 100


def _power_of_two(number: int) -> int:
    """The least power of two that is not less."""
    return 1 << (number - 1).bit_length()


class _Slice:
    """Elements by their places in a slice."""

    __slots__ = ("elements", "is_dense", "room", "start")

    def __init__(self, is_dense: bool, start: int, room: int) -> None:
        self.elements: dict[int, bytes] = {}
        self.is_dense = is_dense
        # The first place of the window of a dense slice, and its places, or the elements for which a sparse one has
        # room.
        self.start = start
        self.room = room

    def copy(self) -> _Slice:
        twin = _Slice(self.is_dense, self.start, self.room)
        twin.elements = dict(self.elements)
        return twin

    def make_dense(self, size: int) -> None:
        """Give a sparse slice a window around its elements."""
        first = min(self.elements)
        room = max(_power_of_two(max(self.elements) - first + 1), WINDOW_MIN)
        self.is_dense, self.room = True, min(room, size)
        self.start = min(first, size - self.room)

    def reach(self, place: int, size: int) -> None:
        """Make the window of a dense slice contain a place: to the right it grows by doubling."""
        end = self.start + self.room
        if place >= end:
            while place >= self.start + self.room and self.room < size:
                self.room <<= 1
            self.start = min(self.start, size - self.room)
        elif place < self.start:
            self.room = min(max(_power_of_two(end - place), WINDOW_MIN), size)
            self.start = max(end - self.room, 0) if self.room < size else 0

    def make_sparse(self, sparse_min: int, sparse_max: int) -> None:
        """Make a dense slice of few elements sparse, if that takes much less memory in Redis."""
        count, room = len(self.elements), self.room
        if count > sparse_min or count > sparse_max or room == WINDOW_MIN or room < 4 * sparse_min:
            return
        sparse_size = _HEADER_SIZE + (2 * sparse_min + _WORD_SIZE - 1 & -_WORD_SIZE) + _WORD_SIZE * sparse_min
        if _HEADER_SIZE + _WORD_SIZE * room >= sparse_size * 5 // 4:
            self.is_dense, self.start, self.room = False, 0, sparse_min


class ArraySlices:
    """Elements by index. `sparse_min` and `sparse_max` are `array-sparse-kmin` and `array-sparse-kmax`."""

    __slots__ = ("_block_room", "_blocks", "_count", "_flat_size", "_slice_bits", "_slices", "_text_size")

    def __init__(self, slice_size: int) -> None:
        """An array whose slices have so many places, a power of two. Raises ValueError."""
        if not WINDOW_MIN <= slice_size <= SLICE_SIZE_MAX or slice_size & (slice_size - 1):
            raise ValueError(slice_size)
        self._slice_bits = slice_size.bit_length() - 1
        # Slices by their numbers. None is empty.
        self._slices: Any = SortedDict()
        self._count = 0
        self._text_size = 0
        # Numbers for which the directory of Redis has room. From some number on, it has blocks instead: slices of each,
        # and the blocks for which it has room, 0 before.
        self._flat_size = 0
        self._blocks: dict[int, int] = {}
        self._block_room = 0

    def __len__(self) -> int:
        """Number of elements."""
        return self._count

    @property
    def slice_size(self) -> int:
        """Places of a slice."""
        return 1 << self._slice_bits

    @property
    def memory_size(self) -> int:
        """Bytes of the slices and of what holds them, without this object."""
        return self._text_size + self._count * SLOT_SIZE + len(self._slices) * SLICE_SIZE

    @property
    def end(self) -> int:
        """The largest index that has an element, plus one."""
        if not self._count:
            return 0
        number, piece = self._slices.peekitem(-1)
        last: int = number << self._slice_bits | max(piece.elements)
        return last + 1

    # -- reading ---------------------------------------------------------------------------------

    def _walk(self, first: int, last: int, descending: bool = False) -> Iterator[tuple[int, bytes]]:
        bits = self._slice_bits
        for number in self._slices.irange(first >> bits, last >> bits, reverse=descending):
            elements: dict[int, bytes] = self._slices[number].elements
            base = number << bits
            low, high = max(first - base, 0), min(last - base, (1 << bits) - 1)
            if high - low < len(elements):
                places = [place for place in range(low, high + 1) if place in elements]
            else:
                places = sorted([place for place in elements if low <= place <= high])
            for place in places[::-1] if descending else places:
                yield base + place, elements[place]

    def at(self, index: int) -> bytes | None:
        """The element at this index, None if there is none."""
        piece: _Slice | None = self._slices.get(index >> self._slice_bits)
        return None if piece is None else piece.elements.get(index & (1 << self._slice_bits) - 1)

    def many(self, indexes: list[int]) -> list[bytes | None]:
        """The elements at some indexes, None for each that is empty."""
        return [self.at(index) for index in indexes]

    def between(self, first: int, last: int) -> list[bytes | None]:
        """The elements from `first` to `last`, both included, None for each empty index."""
        found: list[bytes | None] = [None] * (last - first + 1)
        for index, text in self._walk(first, last):
            found[index - first] = text
        return found

    def encoded_range(self, first: int, last: int, descending: bool, null: bytes) -> bytes:
        """What `between` returns, ascending or descending, as elements of a reply: bulk strings, and `null` for each
        empty index."""
        found = self.between(first, last)
        texts = found[::-1] if descending else found
        return b"".join([null if text is None else b"$%d\r\n%b\r\n" % (len(text), text) for text in texts])

    def pairs(self, first: int, last: int, count: int, descending: bool = False) -> list[list[int | bytes]]:
        """The indexes and elements from `first` to `last`, both included, or from the end: up to so many."""
        found: list[list[int | bytes]] = []
        for index, text in self._walk(first, last, descending):
            if len(found) >= count:
                break
            found.append([index, text])
        return found

    def encoded_pairs(self, first: int, last: int, count: int, descending: bool = False) -> tuple[int, bytes]:
        """How many pairs `pairs` returns, and these as replies, arrays of two in RESP."""
        pieces: list[bytes] = []
        for index, text in self._walk(first, last, descending):
            if len(pieces) >= count:
                break
            pieces.append(b"*2\r\n:%d\r\n$%d\r\n%b\r\n" % (index, len(text), text))
        return len(pieces), b"".join(pieces)

    def encoded_matches(
        self, search: ArraySearch, first: int, last: int, count: int, descending: bool, with_elements: bool
    ) -> tuple[int, bytes]:
        """How many elements a search finds from `first` to `last`, both included, or from the end, up to a count, and
        the replies: as in `encoded_pairs`, or without elements their indexes."""
        pieces: list[bytes] = []
        for index, text in self._walk(first, last, descending):
            if not search.accepts(text):
                continue
            if with_elements:
                pieces.append(b"*2\r\n:%d\r\n$%d\r\n%b\r\n" % (index, len(text), text))
            else:
                pieces.append(b":%d\r\n" % index)
            if len(pieces) == count:
                break
        return len(pieces), b"".join(pieces)

    def count_equal(self, first: int, last: int, text: bytes) -> int:
        """The number of elements from `first` to `last`, both included, that are equal to a text."""
        return self.texts(first, last).count(text)

    def integers(self, first: int, last: int) -> tuple[int, int, int, int, int, int] | None:
        """Of the elements from `first` to `last`, both included: the sum, the least, the greatest, and the bits that
        are set in all, in any, and in an odd number of them.

        None if there are no elements, if one is not an integer of 62 bits, or if a sum on the way is not.
        """
        numbers: list[int] = []
        total = 0
        for _, text in self._walk(first, last):
            number = as_integer(text)
            if number is None or not -INTEGER_LIMIT <= number < INTEGER_LIMIT:
                return None
            numbers.append(number)
            total += number
            if not -2 * INTEGER_LIMIT < total < 2 * INTEGER_LIMIT:
                return None
        if not numbers:
            return None
        all_bits, any_bits, odd_bits = -1, 0, 0
        for number in numbers:
            all_bits &= number
            any_bits |= number
            odd_bits ^= number
        return total, min(numbers), max(numbers), all_bits, any_bits, odd_bits

    def decimals(
        self, first: int, last: int, operation: int, shortest_text: Callable[[float], bytes]
    ) -> tuple[bytes | int | None] | None:
        """One result of the numbers from `first` to `last`, both included, by its place in what `integers` returns: a
        sum or an extreme as Redis prints it, or bits. It is None if there are no numbers. `shortest_text` prints a
        double.

        None, not in a tuple, if `long double` is not as on x86-64, as in Python, or if an element is a number in an
        uncommon form.
        """
        return None

    def texts(self, first: int, last: int) -> list[bytes]:
        """The elements from `first` to `last`, both included."""
        return [text for _, text in self._walk(first, last)]

    def count_between(self, first: int, last: int) -> int:
        """The number of elements from `first` to `last`, both included."""
        return len(self.texts(first, last))

    # -- changes ---------------------------------------------------------------------------------

    def _reserve(self, number: int) -> None:
        """Make the directory large enough for the number of a slice."""
        if not self._block_room and number >> BLOCK_BITS:
            self._block_room = BLOCKS_FIRST
            if self._flat_size:
                self._blocks[0] = len(self._slices)
            self._flat_size = 0
        if not self._block_room and number >= self._flat_size:
            self._flat_size = _power_of_two(number + 1)

    def _add(self, number: int, piece: _Slice) -> None:
        self._slices[number] = piece
        if self._block_room:
            block = number >> BLOCK_BITS
            self._blocks[block] = self._blocks.get(block, 0) + 1
            if len(self._blocks) > self._block_room:
                self._block_room *= 2

    def _drop(self, number: int) -> None:
        """Remove a slice with its elements."""
        piece: _Slice = self._slices.pop(number)
        self._count -= len(piece.elements)
        self._text_size -= sum([text_size(text) for text in piece.elements.values()])
        block = number >> BLOCK_BITS
        if self._block_room:
            self._blocks[block] -= 1
            if not self._blocks[block]:
                del self._blocks[block]

    def _settle(self) -> None:
        """Shrink the directory after slices were dropped."""
        if not self._count or self._block_room:
            return
        last = self._slices.peekitem(-1)[0]
        if last < self._flat_size * 9 // 10:
            self._flat_size = min(_power_of_two(last + 1), self._flat_size)

    def put(self, index: int, text: bytes, sparse_max: int) -> bool:
        """Store an element. Returns whether the index was empty."""
        size = 1 << self._slice_bits
        number, place = index >> self._slice_bits, index & size - 1
        piece: _Slice | None = self._slices.get(number)
        if piece is None:
            self._reserve(number)
            if sparse_max:
                piece = _Slice(False, 0, min(sparse_max, ROOM_FIRST))
            else:
                piece = _Slice(True, min(place, size - WINDOW_MIN), WINDOW_MIN)
            self._add(number, piece)
        elements = piece.elements
        old = elements.get(place)
        if old is None and not piece.is_dense:
            if len(elements) >= sparse_max:
                piece.make_dense(size)
            elif len(elements) >= piece.room:
                piece.room = min(2 * piece.room, sparse_max)
        if piece.is_dense:
            piece.reach(place, size)
        elements[place] = text
        self._text_size += text_size(text) - (0 if old is None else text_size(old))
        self._count += old is None
        return old is None

    def put_all(self, first: int, texts: list[bytes], sparse_max: int) -> int:
        """Store elements at an index and after it. Returns how many of the indexes were empty."""
        last, bits = first + len(texts) - 1, self._slice_bits
        if len(texts) > 1 and sparse_max:
            self._reserve(last >> bits)
            for number in range(first >> bits, (last >> bits) + 1):
                base = number << bits
                self._prepare(number, max(first - base, 0), min(last - base, (1 << bits) - 1), sparse_max)
        added = 0
        for offset, text in enumerate(texts):
            added += self.put(first + offset, text, sparse_max)
        return added

    def put_each(self, indexes: list[int], texts: list[bytes], sparse_max: int) -> int:
        """Store elements at indexes, one by one. Returns how many of the indexes were empty."""
        return sum([self.put(index, text, sparse_max) for index, text in zip(indexes, texts, strict=True)])

    def put_in_ring(self, index: int, size: int, texts: list[bytes], sparse_max: int) -> int:
        """Store elements after an index. Index 0 follows `size - 1`. Returns the last index."""
        for text in texts:
            index = index + 1 if index + 1 < size else 0
            self.put(index, text, sparse_max)
        return index

    def _prepare(self, number: int, first: int, last: int, sparse_max: int) -> None:
        """Make a slice dense that is to get elements at all places from one to another, if it gets too many."""
        piece: _Slice | None = self._slices.get(number)
        size = 1 << self._slice_bits
        if piece is None:
            if last - first + 1 > sparse_max:
                self._add(number, _Slice(True, min(first, size - WINDOW_MIN), WINDOW_MIN))
        elif not piece.is_dense:
            others = [place for place in piece.elements if not first <= place <= last]
            if len(others) + last - first + 1 > sparse_max:
                piece.make_dense(size)

    def remove(self, index: int, sparse_min: int, sparse_max: int) -> bool:
        """Remove an element. Returns whether there was one."""
        return self.at(index) is not None and self.remove_range(index, index, sparse_min, sparse_max) > 0

    def remove_each(self, indexes: list[int], sparse_min: int, sparse_max: int) -> int:
        """Remove the elements at indexes, one by one. Returns how many there were."""
        return sum([self.remove(index, sparse_min, sparse_max) for index in indexes])

    def remove_range(self, first: int, last: int, sparse_min: int, sparse_max: int) -> int:
        """Remove the elements from `first` to `last`, both included. Returns how many there were."""
        bits = self._slice_bits
        count, slice_count = self._count, len(self._slices)
        for number in list(self._slices.irange(first >> bits, last >> bits)):
            piece: _Slice = self._slices[number]
            base = number << bits
            low, high = max(first - base, 0), min(last - base, (1 << bits) - 1)
            gone = [place for place in piece.elements if low <= place <= high]
            if len(gone) == len(piece.elements):
                self._drop(number)
                continue
            for place in gone:
                self._text_size -= text_size(piece.elements.pop(place))
            self._count -= len(gone)
            # As in Redis, a range without an element may make a slice sparse.
            if piece.is_dense:
                piece.make_sparse(sparse_min, sparse_max)
        if len(self._slices) < slice_count:
            self._settle()
        return count - self._count

    # -- as a whole ------------------------------------------------------------------------------

    def directory(self) -> tuple[int, int, int]:
        """The number of slices, the size of the directory, and the blocks of a directory that has some."""
        return len(self._slices), self._block_room or self._flat_size, len(self._blocks)

    def shapes(self) -> tuple[int, int, int, int, int]:
        """The number of dense slices, their elements, and the elements for which they have room; the number of sparse
        slices, and the elements for which they have room."""
        dense = [piece for piece in self._slices.values() if piece.is_dense]
        sparse = [piece for piece in self._slices.values() if not piece.is_dense]
        elements, room = sum([len(piece.elements) for piece in dense]), sum([piece.room for piece in dense])
        return len(dense), elements, room, len(sparse), sum([piece.room for piece in sparse])

    def copy(self) -> ArraySlices:
        """Other slices with the same elements."""
        twin = ArraySlices(self.slice_size)
        for number, piece in self._slices.items():
            twin._slices[number] = piece.copy()
        twin._count, twin._text_size = self._count, self._text_size
        twin._flat_size, twin._blocks, twin._block_room = self._flat_size, dict(self._blocks), self._block_room
        return twin

    def give_back(self, count: int) -> None:
        """Free at least so many elements from the end, up to the beginning of a slice."""
        left = self._count - min(count, self._count)
        while self._count > left:
            self._drop(self._slices.peekitem(-1)[0])
        self._settle()

    def check(self) -> None:
        """Assert that the parts agree. Raises AssertionError."""
        count = size = 0
        for piece in self._slices.values():
            places = list(piece.elements)
            assert 0 < len(places) <= piece.room
            if piece.is_dense:
                assert 0 <= piece.start <= min(places)
                assert max(places) < piece.start + piece.room <= self.slice_size
            count += len(places)
            size += sum([text_size(text) for text in piece.elements.values()])
        assert (count, size) == (self._count, self._text_size)
        assert sum(self._blocks.values()) == (len(self._slices) if self._block_room else 0)
