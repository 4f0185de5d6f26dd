# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""When entries become due, for installations with a C compiler: `due_times_plain` in C.

Both modules behave alike and are tested by the same tests.

The entries are a heap in one array, 24 bytes each: an entry is due no earlier than its parent, which has up to four
children. An index, open addressing with linear probing, leads from an ID to its position in the heap (5 to 7 bytes).
With the room for growth an entry takes some 33 bytes, and no more than 40.

Memory is allocated before anything is changed: MemoryError leaves all as it was.
"""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.stdlib cimport qsort
from libc.string cimport memcpy, memset

ctypedef unsigned int u32
ctypedef long long i64

include "../packed_id.pxi"
include "../id_hash.pxi"

cdef enum:
    # Stands for no position.
    NONE = 0xFFFFFFFF
    # At most this many entries, so that positions and cells of the index fit 32 bits.
    ENTRIES_MAX = 1 << 30
    # Children of a position: with four, the way down is half as long as with two.
    WIDTH = 4
    BLOCK_SIZE = 16

cdef struct Due:
    Place entry
    i64 due_ms


cdef inline bint is_before(const Due *one, const Due *other) noexcept nogil:
    """Whether one entry is due before another. Among equal times it is the one with the smaller ID."""
    if one.due_ms != other.due_ms:
        return one.due_ms < other.due_ms
    return one.entry.ms < other.entry.ms or (one.entry.ms == other.entry.ms and one.entry.seq < other.entry.seq)


cdef int compare(const void *one, const void *other) noexcept nogil:
    if is_before(<const Due *>one, <const Due *>other):
        return -1
    return is_before(<const Due *>other, <const Due *>one)


cdef inline size_t roomier(size_t count) noexcept:
    """The capacity to allocate for `count` entries: an eighth more."""
    return count + (count >> 3) + 4


@cython.final
@cython.no_gc
cdef class DueTimes:
    """See `due_times_plain.DueTimes`."""

    cdef Due *heap
    cdef size_t count
    cdef size_t capacity
    # Positions in the heap, NONE where a cell is free.
    cdef u32 *cells
    cdef size_t cells_count

    def __dealloc__(self):
        PyMem_Free(self.heap)
        PyMem_Free(self.cells)

    # -- the index -------------------------------------------------------------------------------

    cdef inline Py_ssize_t cell_of(self, const Place *entry) noexcept:
        """Return the cell of the index that has this ID, -1 if none has."""
        cdef size_t cell
        cdef const Place *other
        if not self.count:
            return -1
        cell = home_of(entry, self.cells_count)
        while self.cells[cell] != NONE:
            other = &self.heap[self.cells[cell]].entry
            if other.ms == entry.ms and other.seq == entry.seq:
                return cell
            cell = cell + 1 if cell + 1 < self.cells_count else 0
        return -1

    cdef inline size_t cell_at(self, u32 position) noexcept:
        """Return the cell of the index that has this position, which one has."""
        cdef size_t cell = home_of(&self.heap[position].entry, self.cells_count)
        while self.cells[cell] != position:
            cell = cell + 1 if cell + 1 < self.cells_count else 0
        return cell

    cdef inline void enter(self, u32 position) noexcept:
        """Add a position to the index, which has room."""
        cdef size_t cell = home_of(&self.heap[position].entry, self.cells_count)
        while self.cells[cell] != NONE:
            cell = cell + 1 if cell + 1 < self.cells_count else 0
        self.cells[cell] = position

    cdef void leave(self, size_t cell) noexcept:
        """Free a cell, and move those after it that are there only because it was taken."""
        cdef size_t other = cell, home, from_home, from_cell
        while True:
            other = other + 1 if other + 1 < self.cells_count else 0
            if self.cells[other] == NONE:
                break
            home = home_of(&self.heap[self.cells[other]].entry, self.cells_count)
            from_home = other - home if other >= home else other + self.cells_count - home
            from_cell = other - cell if other >= cell else other + self.cells_count - cell
            if from_home >= from_cell:
                self.cells[cell] = self.cells[other]
                cell = other
        self.cells[cell] = NONE

    # -- memory ----------------------------------------------------------------------------------

    cdef int resize(self, size_t capacity) except -1:
        """Make room for so many entries, and the index anew."""
        cdef size_t cells_count = capacity + capacity // 3 + 2, position
        cdef u32 *cells
        cdef Due *heap
        if capacity > ENTRIES_MAX:
            raise MemoryError
        cells = <u32 *>PyMem_Malloc(cells_count * sizeof(u32))
        if cells == NULL:
            raise MemoryError
        heap = <Due *>PyMem_Realloc(self.heap, capacity * sizeof(Due))
        if heap == NULL:
            PyMem_Free(cells)
            raise MemoryError
        PyMem_Free(self.cells)
        memset(cells, 0xFF, cells_count * sizeof(u32))
        self.heap, self.cells = heap, cells
        self.capacity, self.cells_count = capacity, cells_count
        for position in range(self.count):
            self.enter(<u32>position)
        return 0

    cdef int reserve(self, size_t more) except -1:
        """Make room for `more` entries."""
        if self.count + more > self.capacity:
            self.resize(roomier(self.count + more))
        return 0

    cdef void give_back(self) noexcept:
        """Free unused room if it is more than a quarter."""
        if self.count + 8 < self.capacity // 4 * 3:
            if not self.count:
                PyMem_Free(self.heap)
                PyMem_Free(self.cells)
                self.heap, self.cells, self.capacity, self.cells_count = NULL, NULL, 0, 0
                return
            try:
                self.resize(roomier(self.count))
            except MemoryError:
                pass

    # -- the heap --------------------------------------------------------------------------------

    cdef void rise(self, u32 position, Due due, size_t cell) noexcept:
        """Put an entry, which has this cell, at this position or, if it is due before the parent, nearer to the top."""
        cdef u32 parent
        while position:
            parent = (position - 1) // WIDTH
            if not is_before(&due, &self.heap[parent]):
                break
            self.cells[self.cell_at(parent)] = position
            self.heap[position] = self.heap[parent]
            position = parent
        self.heap[position] = due
        self.cells[cell] = position

    cdef void sink(self, u32 position, Due due, size_t cell) noexcept:
        """Put an entry, which has this cell, at this position or, if a child is due before it, further down."""
        cdef size_t child, first, end
        while True:
            first = <size_t>position * WIDTH + 1
            end = min(first + WIDTH, self.count)
            if first >= end:
                break
            child = first
            for first in range(first + 1, end):
                if is_before(&self.heap[first], &self.heap[child]):
                    child = first
            if not is_before(&self.heap[child], &due):
                break
            self.cells[self.cell_at(<u32>child)] = position
            self.heap[position] = self.heap[child]
            position = <u32>child
        self.heap[position] = due
        self.cells[cell] = position

    cdef inline void place(self, u32 position, Due due, size_t cell) noexcept:
        """Put an entry, which has this cell, where it belongs, from this position on."""
        if position and is_before(&due, &self.heap[(position - 1) // WIDTH]):
            self.rise(position, due, cell)
        else:
            self.sink(position, due, cell)

    cdef inline void put(self, const Place *entry, i64 due_ms) noexcept:
        """Add an entry, for which there is room, or move it."""
        cdef Py_ssize_t cell = self.cell_of(entry)
        cdef Due due
        cdef u32 position
        due.entry, due.due_ms = entry[0], due_ms
        if cell >= 0:
            self.place(self.cells[cell], due, cell)
            return
        position = <u32>self.count
        self.count += 1
        self.heap[position] = due
        self.enter(position)
        if position and is_before(&due, &self.heap[(position - 1) // WIDTH]):
            self.rise(position, due, self.cell_at(position))

    cdef inline void remove(self, size_t cell) noexcept:
        """Remove the entry that has this cell."""
        cdef u32 position = self.cells[cell], last = <u32>self.count - 1
        cdef Due moved
        self.leave(cell)
        self.count -= 1
        if position != last:
            moved = self.heap[last]
            cell = self.cell_at(last)
            self.place(position, moved, cell)

    # -- entries ---------------------------------------------------------------------------------

    def __len__(self):
        return self.count

    def __contains__(self, entry_id):
        cdef Place entry
        read_place(entry_id, &entry)
        return self.cell_of(&entry) >= 0

    def get(self, entry_id):
        """See `due_times_plain.DueTimes`."""
        cdef Place entry
        cdef Py_ssize_t cell
        read_place(entry_id, &entry)
        cell = self.cell_of(&entry)
        return None if cell < 0 else self.heap[self.cells[cell]].due_ms

    def set(self, entry_id, i64 due_ms):
        """See `due_times_plain.DueTimes`."""
        cdef Place entry
        read_place(entry_id, &entry)
        self.reserve(1)
        self.put(&entry, due_ms)

    def set_many(self, ids, i64 due_ms):
        """See `due_times_plain.DueTimes`."""
        cdef list listed = list(ids)
        cdef Place entry
        for entry_id in listed:
            read_place(entry_id, &entry)
        self.reserve(len(listed))
        for entry_id in listed:
            read_place(entry_id, &entry)
            self.put(&entry, due_ms)
        self.give_back()

    def discard(self, entry_id):
        """See `due_times_plain.DueTimes`."""
        cdef Place entry
        cdef Py_ssize_t cell
        read_place(entry_id, &entry)
        cell = self.cell_of(&entry)
        if cell < 0:
            return False
        self.remove(cell)
        self.give_back()
        return True

    def discard_many(self, ids):
        """See `due_times_plain.DueTimes`."""
        cdef Place entry
        cdef Py_ssize_t cell
        cdef size_t before = self.count
        if not before:
            return 0
        for entry_id in ids:
            read_place(entry_id, &entry)
            cell = self.cell_of(&entry)
            if cell >= 0:
                self.remove(cell)
        before -= self.count
        if before:
            self.give_back()
        return before

    def first(self):
        """See `due_times_plain.DueTimes`."""
        return (make_id(&self.heap[0].entry), self.heap[0].due_ms) if self.count else None

    def take_due(self, i64 now_ms, Py_ssize_t count):
        """See `due_times_plain.DueTimes`."""
        cdef list taken = []
        cdef size_t before = self.count, position
        cdef Due due
        # What is taken stays after the end of the heap until the list of its IDs is made.
        while self.count and <Py_ssize_t>(before - self.count) < count and self.heap[0].due_ms <= now_ms:
            due = self.heap[0]
            self.remove(self.cell_at(0))
            self.heap[self.count] = due
        try:
            position = before
            while position > self.count:
                position -= 1
                taken.append(make_id(&self.heap[position].entry))
        except MemoryError:
            while self.count < before:
                due = self.heap[self.count]
                self.put(&due.entry, due.due_ms)
            raise
        if taken:
            self.give_back()
        return taken

    def walk(self):
        """See `due_times_plain.DueTimes`."""
        cdef DueTimes image = DueTimes.__new__(DueTimes)
        cdef size_t position
        image.take_heap(self)
        qsort(image.heap, image.count, sizeof(Due), compare)
        for position in range(image.count):
            yield make_id(&image.heap[position].entry), image.heap[position].due_ms

    # -- whole -----------------------------------------------------------------------------------

    cdef int take_heap(self, DueTimes other) except -1:
        """Copy the heap of `other` without its index. For an object that was just made."""
        if other.count:
            self.heap = <Due *>PyMem_Malloc(other.count * sizeof(Due))
            if self.heap == NULL:
                raise MemoryError
            memcpy(self.heap, other.heap, other.count * sizeof(Due))
            self.count = self.capacity = other.count
        return 0

    def copy(self):
        """See `due_times_plain.DueTimes`."""
        cdef DueTimes twin = DueTimes.__new__(DueTimes)
        if self.count:
            twin.take_heap(self)
            twin.resize(self.count)
        return twin

    @property
    def memory_size(self):
        """See `due_times_plain.DueTimes`."""
        cdef size_t size = OBJECT_SIZE
        if self.capacity:
            size += rounded(self.capacity * sizeof(Due)) + rounded(self.cells_count * sizeof(u32))
        return size

    def check(self):
        """See `due_times_plain.DueTimes`."""
        cdef size_t position, cell, used = 0, passed = 0
        assert self.count <= self.capacity
        assert not self.capacity or self.capacity < self.cells_count
        for position in range(self.count):
            assert not position or not is_before(&self.heap[position], &self.heap[(position - 1) // WIDTH])
            cell = home_of(&self.heap[position].entry, self.cells_count)
            while self.cells[cell] != position:
                assert self.cells[cell] != NONE
                cell = cell + 1 if cell + 1 < self.cells_count else 0
                passed += 1
            assert self.cell_of(&self.heap[position].entry) == <Py_ssize_t>cell
        for cell in range(self.cells_count):
            used += self.cells[cell] != NONE
        assert used == self.count
        assert passed <= 4 * self.count + 64, "IDs are not spread over the index"


cdef inline size_t rounded(size_t size) noexcept:
    return (size + BLOCK_SIZE - 1) & ~<size_t>(BLOCK_SIZE - 1)


cdef size_t OBJECT_SIZE = rounded(DueTimes.__basicsize__)
