"""The entries of a chunk: `body` for installations without a C compiler. Both behave alike."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate, chain, zip_longest
from operator import sub
from sys import getsizeof
from typing import Final

from hiredis import ProtocolError, Reader

from .id_bits import SEQ_BITS, SEQ_MASK

# Bytes of a body without its entries.
BODY_SIZE: Final = 80
NUMBER_BYTES: Final = 8
# Bytes of packed IDs, of packed rows and of a column, without what is in them.
PACKED_SIZE: Final = 64
# Mean bytes of an entry up to which entries are packed as rows; how many different numbers of texts they may have, and
# how many texts each.
ENTRY_BYTES_MAX: Final = 512
SHAPES_MAX: Final = 8
TEXTS_MAX: Final = 128
# Different texts of a column that are numbered, at most; and how many rows there must be, at least, for each of them.
NUMBERED_MAX: Final = 64
ROWS_PER_NUMBERED: Final = 4
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

    @staticmethod
    def of_values(ms: array[int], seq: array[int], names: list[bytes], texts: bytes, ends: array[int]) -> Body:
        """Return a full body of entries that have the same fields: see `chunk.EntryValues`. Raises ValueError if the
        columns do not fit together."""
        return _rows_of(ms, seq, names, texts, ends).unpack()

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

    def find(self, entry_id: int) -> int:
        """Position of the entry with this ID, -1 if there is none."""
        at = self.position(entry_id)
        return at if at < self.count and self.id_at(at) == entry_id else -1

    def count_found(self, ids: list[int], start: int) -> int:
        """Return how many of `ids[start:]` are in the body, counting up to the first that is not."""
        for index in range(start, len(ids)):
            at = self.position(ids[index])
            if at == self.count or self.id_at(at) != ids[index]:
                return index - start
        return len(ids) - start

    def count_run(self, ids: list[int], start: int, position: int) -> int:
        """Return how many of `ids[start:]` are, one by one, those of the entries from `position` on."""
        return _count_equal(ids, start, self.ids(position, min(self.count, position + len(ids) - start)))

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

    def without(self, dead: bytearray, head: int) -> Body:
        """A full body of the entries from position `head` on whose byte in `dead` is 0 or missing."""
        live = _live_positions(self.count, dead, head)
        data = b"".join([self.slice(position, position + 1) for position in live])
        ends = array("Q", accumulate([self._ends[at] - (self._ends[at - 1] if at else 0) for at in live]))
        ms, seq = array("Q", [self._ms[at] for at in live]), array("Q", [self._seq[at] for at in live])
        return Body.of_columns(data, ms, seq, ends)

    def pack_ids(self) -> PackedIDs:
        """The IDs, packed."""
        return PackedIDs(self._ms, self._seq)

    def pack_rows(self, ids: PackedIDs) -> PackedRows | None:
        """The entries as rows, which can be read one by one. `ids` are the packed IDs of this body. None for long
        entries, for very different ones, and for bytes that are not the reply form of an entry."""
        if not 0 < len(self._data) <= ENTRY_BYTES_MAX * self.count:
            return None
        texts = _texts_of(self.slice(0, self.count), self.count)
        if texts is None or len(set(map(len, texts))) > SHAPES_MAX or max(map(len, texts)) > TEXTS_MAX:
            return None
        columns = [_pack_column(list(column)) for column in zip_longest(*texts, fillvalue=b"")]
        rows = PackedRows(ids, _pack_numbers(list(map(len, texts))), columns)
        return rows if rows.slice(0, self.count) == self._data else None

    def block(self) -> bytes:
        """The whole body as one block: count, columns, then bytes. Ascending columns are stored as differences, which
        compress to almost nothing."""
        head = array("Q", (len(self._ends),)) + _differences(self._ms) + self._seq + _differences(self._ends)
        return head.tobytes() + self._data

    @staticmethod
    def of_block(block: bytes) -> Body:
        """Return a full body made of the bytes that `block` returned. Raises ValueError for other bytes."""
        body = Body(0, 0)
        body.read_block(block)
        body.fit()
        return body

    def read_block(self, block: bytes) -> None:
        """Take the entries of the bytes that `block` returned into this body, which has none and gets no spare room.
        Raises ValueError for other bytes."""
        count = int.from_bytes(block[:NUMBER_BYTES], BYTE_ORDER)
        head_size = NUMBER_BYTES * (1 + 3 * count)
        if self.count:
            raise ValueError("a body with entries")
        if len(block) < max(head_size, NUMBER_BYTES):
            raise ValueError("a block that is cut off")
        numbers = array("Q", block[NUMBER_BYTES:head_size])
        ms, ends = _running_sums(numbers[:count]), _running_sums(numbers[2 * count :])
        read = Body.of_columns(block[head_size:], ms, numbers[count : 2 * count], ends)
        self._data, self._ms, self._seq, self._ends = bytearray(read._data), read._ms, read._seq, read._ends


def _check_run(body: Body | PackedIDs, low: int, high: int) -> None:
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


class PackedIDs:
    """The IDs of a sealed chunk in two columns: the difference of each half from the smallest such half."""

    __slots__ = ("_ms", "_ms_base", "_seq", "_seq_base")

    def __init__(self, ms: array[int], seq: array[int]) -> None:
        self._ms_base, self._seq_base = min(ms, default=0), min(seq, default=0)
        self._ms = _pack_numbers([each - self._ms_base for each in ms])
        self._seq = _pack_numbers([each - self._seq_base for each in seq])

    @property
    def count(self) -> int:
        """How many entries there are."""
        return len(self._ms)

    @property
    def memory_size(self) -> int:
        """Bytes held."""
        return PACKED_SIZE + getsizeof(self._ms) + getsizeof(self._seq)

    def id_at(self, position: int) -> int:
        """ID of the entry at `position`. Raises IndexError."""
        _check_run(self, position, position + 1)
        return self._ms_base + self._ms[position] << SEQ_BITS | self._seq_base + self._seq[position]

    def position(self, entry_id: int) -> int:
        """Position of the first entry whose ID is not below `entry_id`."""
        ms = self._ms
        wanted_ms = (entry_id >> SEQ_BITS) - self._ms_base
        low = bisect_left(ms, wanted_ms)
        if low == len(ms) or ms[low] != wanted_ms:
            return low
        high = bisect_right(ms, wanted_ms, low)
        return bisect_left(self._seq, (entry_id & SEQ_MASK) - self._seq_base, low, high)

    def find(self, entry_id: int) -> int:
        """Position of the entry with this ID, -1 if there is none."""
        at = self.position(entry_id)
        return at if at < self.count and self.id_at(at) == entry_id else -1

    def count_found(self, ids: list[int], start: int) -> int:
        """Return how many of `ids[start:]` are those of entries, counting up to the first that is not."""
        for index in range(start, len(ids)):
            if self.find(ids[index]) < 0:
                return index - start
        return len(ids) - start

    def count_run(self, ids: list[int], start: int, position: int) -> int:
        """Return how many of `ids[start:]` are, one by one, those of the entries from `position` on."""
        return _count_equal(ids, start, self.ids(position, min(self.count, position + len(ids) - start)))

    def ids(self, low: int, high: int) -> list[int]:
        """IDs of the entries `low` to `high` (excluded). Raises IndexError if there are not all of them."""
        _check_run(self, low, high)
        return [self.id_at(position) for position in range(low, high)]

    def columns(self, positions: list[int]) -> tuple[array[int], array[int]]:
        """IDs of entries as two arrays, ms and seq."""
        ms = array("Q", [self._ms_base + self._ms[at] for at in positions])
        return ms, array("Q", [self._seq_base + self._seq[at] for at in positions])


class PackedRows:
    """The entries of a sealed chunk, packed so that each can be read without the others.

    The texts with the same place in all entries are a column. `counts` has the number of texts of each entry; a column
    has an empty text for those that have fewer.
    """

    __slots__ = ("_columns", "_counts", "ids")

    def __init__(self, ids: PackedIDs, counts: array[int], columns: list[Column]) -> None:
        self.ids = ids
        self._counts = counts
        self._columns = columns

    @staticmethod
    def of_values(
        ms: array[int], seq: array[int], names: list[bytes], texts: bytes, ends: array[int]
    ) -> PackedRows | None:
        """Pack entries that have the same fields: see `chunk.EntryValues`. None for long entries, and for many fields.
        Raises ValueError if the columns do not fit together."""
        rows = _rows_of(ms, seq, names, texts, ends)
        return rows if rows.replies_size <= ENTRY_BYTES_MAX * len(ms) and 2 * len(names) <= TEXTS_MAX else None

    def values(self) -> tuple[array[int], array[int], list[bytes], bytes, array[int]] | None:
        """The entries as `chunk.EntryValues`. None if they do not all have the same fields."""
        width = self._counts[0]
        names = [text for column in self._columns[::2] if (text := column.sole_text()) is not None]
        if not width or width & 1 or set(self._counts) != {width} or 2 * len(names) != width:
            return None
        texts = [text for row in zip(*(column.texts() for column in self._columns[1::2]), strict=True) for text in row]
        ms, seq = self.ids.columns(list(range(self.ids.count)))
        return ms, seq, names, b"".join(texts), array("Q", accumulate(map(len, texts)))

    @property
    def replies_size(self) -> int:
        """Bytes of all entries in the reply form."""
        return sum(map(len, self._entries(0, self.ids.count)))

    @property
    def memory_size(self) -> int:
        """Bytes held, without the IDs."""
        return PACKED_SIZE + getsizeof(self._counts) + sum(column.memory_size for column in self._columns)

    def slice(self, low: int, high: int) -> bytes:
        """The bytes of the entries `low` to `high` (excluded). Raises IndexError."""
        _check_run(self.ids, low, high)
        return b"".join(self._entries(low, high))

    def slice_back(self, low: int, high: int) -> bytes:
        """The bytes of the entries `low` to `high` (excluded), last entry first. Raises IndexError."""
        _check_run(self.ids, low, high)
        return b"".join(reversed(self._entries(low, high)))

    def unpack(self) -> Body:
        """The entries as a body."""
        entries = self._entries(0, self.ids.count)
        ms, seq = self.ids.columns(list(range(self.ids.count)))
        return Body.of_columns(b"".join(entries), ms, seq, array("Q", accumulate(map(len, entries))))

    def without(self, dead: bytearray, head: int) -> PackedRows:
        """The entries from position `head` on whose byte in `dead` is 0 or missing."""
        live = _live_positions(self.ids.count, dead, head)
        counts = _pack_numbers([self._counts[at] for at in live])
        return PackedRows(PackedIDs(*self.ids.columns(live)), counts, [column.some(live) for column in self._columns])

    def _entries(self, low: int, high: int) -> list[bytes]:
        """The entries `low` to `high` (excluded), a column at a time."""
        counts = self._counts[low:high]
        names = [b"%d-%d" % (each >> SEQ_BITS, each & SEQ_MASK) for each in self.ids.ids(low, high)]
        heads = zip(names, counts, strict=True)
        parts = [[b"*2\r\n$%d\r\n%b\r\n*%d\r\n" % (len(name), name, count) for name, count in heads]]
        fewest = min(counts, default=0)
        for number, column in enumerate(self._columns):
            part = column.bulks(low, high)
            if number >= fewest:
                part = [bulk if number < count else b"" for bulk, count in zip(part, counts, strict=True)]
            parts.append(part)
        return list(map(b"".join, zip(*parts, strict=True)))


class Column:
    """Texts with the same place in all entries: a number for each, if there are few different ones, otherwise what
    follows a common prefix."""

    __slots__ = ("_data", "_ends", "_numbered", "_prefix")

    def __init__(self, prefix: bytes, data: bytes, ends: array[int], numbered: list[bytes]) -> None:
        self._prefix = prefix
        # The rests of the texts, up to `ends`; or their numbers, by which `numbered` has the texts.
        self._data = data
        self._ends = ends
        self._numbered = numbered

    @property
    def memory_size(self) -> int:
        """Bytes held."""
        parts = (self._prefix, self._data, self._ends, self._numbered, *self._numbered)
        return PACKED_SIZE + sum(map(getsizeof, parts))

    def sole_text(self) -> bytes | None:
        """The text that all entries have; None if there are several."""
        return self._numbered[0] if len(self._numbered) == 1 else None

    def texts(self) -> list[bytes]:
        """The texts of all entries."""
        if self._numbered:
            return [self._numbered[number] for number in self._data]
        return [self._prefix + rest for rest in self._rests(0, len(self._ends))]

    def bulks(self, low: int, high: int) -> list[bytes]:
        """The texts of the entries `low` to `high` (excluded), as bulk strings of RESP."""
        if self._numbered:
            bulks = [b"$%d\r\n%b\r\n" % (len(text), text) for text in self._numbered]
            return [bulks[number] for number in self._data[low:high]]
        prefix = self._prefix
        return [b"$%d\r\n%b%b\r\n" % (len(prefix) + len(rest), prefix, rest) for rest in self._rests(low, high)]

    def _rests(self, low: int, high: int) -> list[bytes]:
        ends = self._ends[low:high]
        starts = [self._ends[low - 1] if low else 0, *ends[:-1]]
        return [self._data[start:end] for start, end in zip(starts, ends, strict=False)]

    def some(self, positions: list[int]) -> Column:
        """The texts of some entries."""
        if self._numbered:
            return Column(b"", bytes([self._data[at] for at in positions]), self._ends, self._numbered)
        all_rests = self._rests(0, len(self._ends))
        rests = [all_rests[at] for at in positions]
        return Column(self._prefix, b"".join(rests), _pack_numbers(list(accumulate(map(len, rests)))), [])


def _rows_of(ms: array[int], seq: array[int], names: list[bytes], texts: bytes, ends: array[int]) -> PackedRows:
    """Pack entries that have the same fields."""
    width = len(names)
    if not ms or not width or len(seq) != len(ms) or len(ends) != width * len(ms) or ends[-1] != len(texts):
        raise ValueError("columns of different entries")
    if any(map(int.__lt__, ends[1:], ends)):
        raise ValueError("a value that ends before it begins")
    values = [texts[start:end] for start, end in zip((0, *ends), ends, strict=False)]
    columns: list[Column] = []
    for number, name in enumerate(names):
        columns += _pack_column([name] * len(ms)), _pack_column(values[number::width])
    return PackedRows(PackedIDs(ms, seq), _pack_numbers([2 * width] * len(ms)), columns)


def _pack_column(texts: list[bytes]) -> Column:
    different = set(texts)
    if len(different) <= NUMBERED_MAX and (len(different) - 1) * ROWS_PER_NUMBERED < len(texts):
        numbered = sorted(different)
        number_of = {text: number for number, text in enumerate(numbered)}
        return Column(b"", bytes(map(number_of.__getitem__, texts)), array("B"), numbered)
    prefix = _common_prefix(different)
    rests = [text[len(prefix) :] for text in texts]
    return Column(prefix, b"".join(rests), _pack_numbers(list(accumulate(map(len, rests)))), [])


def _common_prefix(texts: set[bytes]) -> bytes:
    first, last = min(texts), max(texts)
    size = next((index for index, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
    return first[:size]


def _texts_of(data: bytes, count: int) -> list[list[bytes]] | None:
    """The texts of each entry; None if there is another thing in the data."""
    reader = Reader()
    reader.feed(b"*%d\r\n%b" % (count, data))
    try:
        entries = reader.gets()
    except ProtocolError:
        return None
    if not entries or any(
        type(entry) is not list or len(entry) != 2 or type(entry[1]) is not list for entry in entries
    ):
        return None
    texts: list[list[bytes]] = [entry[1] for entry in entries]
    return texts if set(map(type, chain.from_iterable(texts))) <= {bytes} else None


def _pack_numbers(numbers: list[int]) -> array[int]:
    """Numbers as an array of the smallest elements that they fit in."""
    largest = max(numbers, default=0)
    return array("B" if largest < 2**8 else "H" if largest < 2**16 else "I" if largest < 2**32 else "Q", numbers)


def _count_equal(ids: list[int], start: int, others: list[int]) -> int:
    """Return how many of `ids[start:]` equal those of the other list, up to the first that differs."""
    for index, other in enumerate(others):
        if ids[start + index] != other:
            return index
    return len(others)


def _live_positions(count: int, dead: bytearray, head: int) -> list[int]:
    return [position for position in range(head, count) if position >= len(dead) or not dead[position]]
