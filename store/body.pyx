# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The entries of a chunk, for installations with a C compiler: `body_plain` in C.

Both modules behave alike and are tested by the same tests; `chunk` imports this one if it was built. A body is a small
object with two blocks of memory, the bytes and the rows. So adding to one of ten thousand streams touches little memory
that is not in the processor's cache (benchmark row XADD over 10,000 keys).
"""

from array import array as new_array

from cpython cimport array
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.ref cimport Py_INCREF
from libc.string cimport memcmp, memcpy

include "packed_id.pxi"

ctypedef unsigned int u32

include "packed_ids.pxi"

cdef enum:
    NUMBER_BYTES = 8
    # Bytes of a body without its entries.
    BODY_SIZE = 80
    # Spare room, in rows and bytes, that a growing body always takes.
    ROWS_SPARE = 4
    BYTES_SPARE = 32
    # A growing body also takes half of its present size, up to these limits; a quarter of its size if that is more.
    ROWS_AHEAD_MAX = 64
    BYTES_AHEAD_MAX = 4096

cdef struct Row:
    Place id
    u64 end

cdef array.array COLUMN = new_array("Q")


cdef class Body:
    """Entries in their reply form, end to end, with the two halves of each ID and the end offset of each entry.

    A body counts as full from `size_max` bytes or `entries_max` entries on.
    """

    cdef char *data
    cdef Row *rows
    # Number of entries.
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t size, data_room, rows_room, size_max, entries_max

    def __init__(self, Py_ssize_t size_max, Py_ssize_t entries_max):
        self.size_max, self.entries_max = size_max, entries_max

    def __dealloc__(self):
        PyMem_Free(self.data)
        PyMem_Free(self.rows)

    @staticmethod
    def of_columns(bytes data not None, array.array ms not None, array.array seq not None, array.array ends not None):
        """Return a full body made of `Q` arrays, which it may keep. Raises ValueError if they do not fit together."""
        cdef Py_ssize_t count = len(ends), index
        cdef Body body = new_body(count, PyBytes_GET_SIZE(data))
        if len(ms) != count or len(seq) != count or not are_columns(ms, seq, ends):
            raise ValueError("columns of different bodies")
        for index in range(count):
            body.rows[index].id.ms = ms.data.as_ulonglongs[index]
            body.rows[index].id.seq = seq.data.as_ulonglongs[index]
            body.rows[index].end = ends.data.as_ulonglongs[index]
        check_ends(body.rows, count, body.size)
        copy_bytes(body.data, PyBytes_AS_STRING(data), body.size)
        return body

    @staticmethod
    def of_values(
        array.array ms not None, array.array seq not None, list names not None, bytes texts not None,
        array.array ends not None,
    ):
        """Return a full body of entries that have the same fields: see `chunk.EntryValues`. Raises ValueError if the
        columns do not fit together."""
        cdef Values values
        read_values(&values, ms, seq, names, texts, ends)
        return body_of_values(&values, names)

    def copy(self):
        """An independent body that may grow."""
        cdef Body twin = new_body(self.count, self.size)
        twin.size_max, twin.entries_max = self.size_max, self.entries_max
        copy_bytes(twin.data, self.data, self.size)
        copy_bytes(twin.rows, self.rows, self.count * sizeof(Row))
        return twin

    @property
    def is_full(self):
        """Whether no more should be added."""
        return self.size >= self.size_max or self.count >= self.entries_max

    @property
    def last_id(self):
        """ID of the last entry. Raises IndexError if there is none."""
        return self.id_at(self.count - 1)

    @property
    def memory_size(self):
        """Bytes held."""
        return BODY_SIZE + self.data_room + self.rows_room * <Py_ssize_t>sizeof(Row)

    def append(self, entry_id, bytes entry not None):
        """Add an entry whose ID is above all others. Returns whether the body is full now."""
        cdef Py_ssize_t size = PyBytes_GET_SIZE(entry)
        cdef Place both
        cdef Row *row
        read_place(entry_id, &both)
        make_room(self, 1, size)
        copy_bytes(self.data + self.size, PyBytes_AS_STRING(entry), size)
        self.size += size
        row = self.rows + self.count
        row.id, row.end = both, self.size
        self.count += 1
        return self.size >= self.size_max or self.count >= self.entries_max

    def extend(self, Body added not None, Py_ssize_t low):
        """Add the entries of another body from position `low` on, until this one is full.

        Returns the position after the last entry added. Raises IndexError if `added` has no entry at `low`.
        """
        check_run(added, low, low + 1)
        cdef Py_ssize_t start = start_of(added, low), high = low, index
        cdef u64 shift = self.size - start
        while high < added.count:
            high += 1
            if self.count + high - low >= self.entries_max or <Py_ssize_t>(added.rows[high - 1].end + shift) >= self.size_max:
                break
        cdef Py_ssize_t size = start_of(added, high) - start
        make_room(self, high - low, size)
        copy_bytes(self.data + self.size, added.data + start, size)
        memcpy(self.rows + self.count, added.rows + low, (high - low) * sizeof(Row))
        for index in range(self.count, self.count + high - low):
            self.rows[index].end += shift
        self.size += size
        self.count += high - low
        return high

    def fit(self):
        """Free the spare room that was kept for more entries."""
        take_room(self, self.count, self.size)

    def id_at(self, Py_ssize_t position):
        """ID of the entry at `position`. Raises IndexError."""
        check_run(self, position, position + 1)
        return make_id(&self.rows[position].id)

    def position(self, entry_id):
        """Position of the first entry whose ID is not below `entry_id`."""
        cdef Place wanted
        try:
            read_place(entry_id, &wanted)
        except OverflowError:
            return self.count
        return position_of(self, &wanted)

    def find(self, entry_id):
        """Position of the entry with this ID, -1 if there is none."""
        cdef Place wanted
        read_place(entry_id, &wanted)
        cdef Py_ssize_t at = position_of(self, &wanted)
        return at if at < self.count and is_place(self, at, &wanted) else -1

    def count_found(self, list ids not None, Py_ssize_t start):
        """Return how many of `ids[start:]` are in the body, counting up to the first that is not."""
        cdef Py_ssize_t index, at
        cdef Place wanted
        for index in range(max(start, 0), len(ids)):
            read_place(ids[index], &wanted)
            at = position_of(self, &wanted)
            if at == self.count or not is_place(self, at, &wanted):
                return index - start
        return len(ids) - start

    def count_run(self, list ids not None, Py_ssize_t start, Py_ssize_t position):
        """Return how many of `ids[start:]` are, one by one, those of the entries from `position` on."""
        cdef Py_ssize_t index = start
        cdef Place wanted
        while index < len(ids) and position < self.count:
            read_place(ids[index], &wanted)
            if not is_place(self, position, &wanted):
                break
            index += 1
            position += 1
        return index - start

    def ids(self, Py_ssize_t low, Py_ssize_t high):
        """IDs of the entries `low` to `high` (excluded). Raises IndexError if the body has not all of them."""
        check_run(self, low, high)
        cdef list ids = PyList_New(high - low)
        cdef Py_ssize_t index
        cdef object entry_id
        for index in range(low, high):
            entry_id = make_id(&self.rows[index].id)
            Py_INCREF(entry_id)
            PyList_SET_ITEM(ids, index - low, entry_id)
        return ids

    def columns(self, Py_ssize_t low, Py_ssize_t high):
        """IDs of the entries `low` to `high` (excluded) as two arrays, ms and seq. Raises IndexError."""
        check_run(self, low, high)
        cdef array.array ms = array.clone(COLUMN, high - low, False)
        cdef array.array seq = array.clone(COLUMN, high - low, False)
        cdef Py_ssize_t index
        for index in range(high - low):
            ms.data.as_ulonglongs[index] = self.rows[low + index].id.ms
            seq.data.as_ulonglongs[index] = self.rows[low + index].id.seq
        return ms, seq

    def ends(self, Py_ssize_t low, Py_ssize_t high):
        """End offset of each of the entries `low` to `high` (excluded) in the bytes that `slice` returns. Raises
        IndexError."""
        check_run(self, low, high)
        cdef array.array ends = array.clone(COLUMN, high - low, False)
        cdef u64 start = start_of(self, low)
        cdef Py_ssize_t index
        for index in range(high - low):
            ends.data.as_ulonglongs[index] = self.rows[low + index].end - start
        return ends

    def slice(self, Py_ssize_t low, Py_ssize_t high):
        """The bytes of the entries `low` to `high` (excluded). Raises IndexError."""
        check_run(self, low, high)
        cdef Py_ssize_t start = start_of(self, low)
        return PyBytes_FromStringAndSize(self.data + start, start_of(self, high) - start)

    def slice_back(self, Py_ssize_t low, Py_ssize_t high):
        """The bytes of the entries `low` to `high` (excluded), last entry first. Raises IndexError."""
        check_run(self, low, high)
        cdef Py_ssize_t start = start_of(self, low), size, position
        cdef bytes turned = PyBytes_FromStringAndSize(NULL, start_of(self, high) - start)
        cdef char *at = PyBytes_AS_STRING(turned)
        for position in range(high - 1, low - 1, -1):
            start = start_of(self, position)
            size = self.rows[position].end - start
            copy_bytes(at, self.data + start, size)
            at += size
        return turned

    def without(self, bytearray dead not None, Py_ssize_t head):
        """A full body of the entries from position `head` on whose byte in `dead` is 0 or missing."""
        cdef Py_ssize_t position, kept = 0, size = 0, start
        for position in range(head, self.count):
            if not is_dead(dead, position):
                kept += 1
                size += self.rows[position].end - start_of(self, position)
        cdef Body body = new_body(kept, size)
        kept = size = 0
        for position in range(head, self.count):
            if not is_dead(dead, position):
                start = start_of(self, position)
                copy_bytes(body.data + size, self.data + start, self.rows[position].end - start)
                size += self.rows[position].end - start
                body.rows[kept].id, body.rows[kept].end = self.rows[position].id, size
                kept += 1
        return body

    def pack_ids(self):
        """The IDs, packed."""
        cdef Place *places = <Place *>PyMem_Malloc(self.count * sizeof(Place))
        cdef Py_ssize_t index
        if places == NULL:
            raise MemoryError
        try:
            for index in range(self.count):
                places[index] = self.rows[index].id
            return pack_places(places, self.count)
        finally:
            PyMem_Free(places)

    def pack_rows(self, PackedIDs ids not None):
        """The entries as rows, which can be read one by one. `ids` are the packed IDs of this body. None for long
        entries, for very different ones, and for bytes that are not the reply form of an entry."""
        return rows_of(self, ids)

    def block(self):
        """The whole body as one block: count, columns, then bytes. Ascending columns are stored as differences, which
        compress to almost nothing."""
        cdef Py_ssize_t count = self.count, index
        cdef bytes block = PyBytes_FromStringAndSize(NULL, NUMBER_BYTES * (1 + 3 * count) + self.size)
        cdef char *at = PyBytes_AS_STRING(block)
        cdef u64 ms = 0, end = 0
        cdef Row *row
        put(at, 0, count)
        at += NUMBER_BYTES
        for index in range(count):
            row = self.rows + index
            put(at, index, row.id.ms - ms)
            put(at, count + index, row.id.seq)
            put(at, 2 * count + index, row.end - end)
            ms, end = row.id.ms, row.end
        copy_bytes(at + NUMBER_BYTES * 3 * count, self.data, self.size)
        return block

    @staticmethod
    def of_block(bytes block not None):
        """Return a full body made of the bytes that `block` returned. Raises ValueError for other bytes."""
        cdef Body body = Body(0, 0)
        read_block(body, block)
        return body

    def has_entries(self):
        """Whether all entries are in the reply form, with ascending IDs. There is at least one."""
        cdef Py_ssize_t position
        cdef const Place *before = NULL
        cdef const Place *here
        for position in range(self.count):
            here = &self.rows[position].id
            if position and (here.ms < before.ms or (here.ms == before.ms and here.seq <= before.seq)):
                return False
            if not is_entry(self.data + start_of(self, position), self.data + self.rows[position].end, here):
                return False
            before = here
        return self.count > 0

    def read_block(self, bytes block not None):
        """Take the entries of the bytes that `block` returned into this body, which has none and gets no spare room.
        Raises ValueError for other bytes."""
        if self.count:
            raise ValueError("a body with entries")
        read_block(self, block)


cdef int read_block(Body body, bytes block) except -1:
    """Fill an empty body with the entries of a block."""
    cdef const char *at = PyBytes_AS_STRING(block)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(block) - NUMBER_BYTES, index, count
    cdef u64 announced, ms = 0, end = 0
    if size < 0:
        raise ValueError("a block that is cut off")
    announced = get(at, 0)
    if announced > <u64>(size // (3 * NUMBER_BYTES)):
        raise ValueError("a block that is cut off")
    count = announced
    size -= 3 * NUMBER_BYTES * count
    take_room(body, count, size)
    at += NUMBER_BYTES
    for index in range(count):
        ms += get(at, index)
        end += get(at, 2 * count + index)
        body.rows[index].id.ms, body.rows[index].end = ms, end
        body.rows[index].id.seq = get(at, count + index)
    check_ends(body.rows, count, size)
    copy_bytes(body.data, at + 3 * NUMBER_BYTES * count, size)
    body.count, body.size = count, size
    return 0


cdef Body new_body(Py_ssize_t count, Py_ssize_t size):
    """Return a body that counts as full, with room for exactly `count` entries and `size` bytes, for the caller to
    fill."""
    cdef Body body = Body(0, 0)
    take_room(body, count, size)
    body.count, body.size = count, size
    return body


cdef inline int make_room(Body body, Py_ssize_t count, Py_ssize_t size) except -1:
    """Make room for `count` more entries of `size` bytes."""
    cdef Py_ssize_t rows_room = body.rows_room, data_room = body.data_room
    count += body.count
    size += body.size
    if count > rows_room:
        rows_room = count + max(count // 4, min(count // 2, ROWS_AHEAD_MAX)) + ROWS_SPARE
    if size > data_room:
        data_room = size + max(size // 4, min(size // 2, BYTES_AHEAD_MAX)) + BYTES_SPARE
        if data_room > body.size_max:  # it will be full: freed blocks of one size can be reused
            data_room = max(size, body.size_max) + BYTES_SPARE
    if rows_room != body.rows_room or data_room != body.data_room:
        take_room(body, rows_room, data_room)
    return 0


cdef int take_room(Body body, Py_ssize_t rows_room, Py_ssize_t data_room) except -1:
    cdef void *moved
    if rows_room != body.rows_room:
        moved = PyMem_Realloc(body.rows, rows_room * sizeof(Row))
        if moved == NULL:
            raise MemoryError
        body.rows, body.rows_room = <Row *>moved, rows_room
    if data_room != body.data_room:
        moved = PyMem_Realloc(body.data, data_room)
        if moved == NULL:
            raise MemoryError
        body.data, body.data_room = <char *>moved, data_room
    return 0


cdef inline int check_run(Body body, Py_ssize_t low, Py_ssize_t high) except -1:
    if not 0 <= low <= high <= body.count:
        raise IndexError("no such entries")
    return 0


cdef inline void copy_bytes(void *to, const void *source, size_t size) noexcept:
    """Copy bytes; with size 0 the pointers may be NULL."""
    if size:
        memcpy(to, source, size)


cdef inline bint are_columns(array.array ms, array.array seq, array.array ends) noexcept:
    return ms.ob_descr.typecode == c'Q' and seq.ob_descr.typecode == c'Q' and ends.ob_descr.typecode == c'Q'


cdef int check_ends(const Row *rows, Py_ssize_t count, Py_ssize_t size) except -1:
    """Raise ValueError unless the rows' ends ascend and the last one is the end of the bytes."""
    cdef u64 end = 0
    cdef Py_ssize_t index
    for index in range(count):
        if rows[index].end < end:
            raise ValueError("an entry that ends before it begins")
        end = rows[index].end
    if end != <u64>size:
        raise ValueError("columns of different bodies")
    return 0


cdef inline Py_ssize_t position_of(Body body, const Place *wanted) noexcept:
    cdef Py_ssize_t low = 0, high = body.count, middle
    cdef const Place *here
    while low < high:
        middle = (low + high) // 2
        here = &body.rows[middle].id
        if here.ms < wanted.ms or (here.ms == wanted.ms and here.seq < wanted.seq):
            low = middle + 1
        else:
            high = middle
    return low


cdef inline bint is_place(Body body, Py_ssize_t position, const Place *wanted) noexcept:
    return body.rows[position].id.ms == wanted.ms and body.rows[position].id.seq == wanted.seq


cdef inline Py_ssize_t start_of(Body body, Py_ssize_t position) noexcept:
    """Offset of the entry at `position`; for the position after the last entry, the end of the bytes."""
    return body.rows[position - 1].end if position else 0


cdef inline void put(char *column, Py_ssize_t index, u64 number) noexcept:
    memcpy(column + NUMBER_BYTES * index, &number, NUMBER_BYTES)


cdef inline u64 get(const char *column, Py_ssize_t index) noexcept:
    cdef u64 number
    memcpy(&number, column + NUMBER_BYTES * index, NUMBER_BYTES)
    return number


include "packed_rows.pxi"
include "entry_values.pxi"
