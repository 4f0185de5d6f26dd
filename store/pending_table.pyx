# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The table of the pending entries of a group, for installations with a C compiler: `pending_table_plain` in C.

Both modules behave alike and are tested by the same tests; `pending` imports this one if it was built.

A pending entry is a *slot*: its ID (16 bytes) and the number of its run (4 bytes), at the same index of two arrays.
Slots are used one after the other, and so

- a run, the entries of one `Delivery`, is a range of slots: those of them that still say its number;
- in the usual case, when IDs only grow, the slots are in the order of their IDs;
- any other order is an array of slot numbers (4 bytes each): that of a consumer's entries, and that of all of them once
  an ID came out of order. IDs that come out of order are sorted when the order is read next.

An index, open addressing with linear probing, leads from an ID to its slot (6 to 9 bytes). Removing an entry only marks
its slot. When more than half of the slots are marked, the others are moved together, and the index is built again. In
total an entry takes some 32 bytes.

Memory is allocated before anything is changed: when memory is short, MemoryError is raised and all views still agree.
If that interrupts a claim of scattered entries, those moved by then are missing from the view by time.
"""

from array import array as new_array

cimport cython
from cpython cimport array
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdlib cimport qsort
from libc.string cimport memset
from sys import getsizeof

ctypedef unsigned int u32
ctypedef long long i64

include "packed_id.pxi"
include "id_hash.pxi"
include "reply_text.pxi"

cdef enum:
    # Stands for no slot or no run.
    NONE = 0xFFFFFFFF
    # At most this many slots, so that slot numbers and positions in the index fit 32 bits.
    SLOTS_MAX = 1 << 30
    # An order that is mostly stale is cleaned when it is longer than this.
    STALE_SLACK = 64
    # Bytes of an ID as a Python number. Released entries have one.
    ID_SIZE = 48
    # Bytes of a delivery count as a Python number.
    COUNT_SIZE = 32
    # Numbers of 8 bytes of a pending entry in a block, and their bytes.
    COLUMNS_COUNT = 5
    BLOCK_ROWS_MAX = 64
    ROW_SIZE = 8 * COLUMNS_COUNT
    # Bytes of an entry in a listing, without the name of its owner.
    LISTED_SIZE_MAX = 4 + BULK_ID_SIZE_MAX + BULK_FRAME_SIZE_MAX + 2 * INTEGER_SIZE_MAX
    # Bytes of a summary, without its consumers.
    SUMMARY_SIZE_MAX = 4 + 2 * INTEGER_SIZE_MAX + 2 * BULK_ID_SIZE_MAX

cdef enum:
    # `active_ms` of a consumer without deliveries.
    NEVER_MS = -1
    # Idle time that a listing has for a released entry.
    NOT_OWNED_IDLE_MS = -1

NEVER = NEVER_MS
# Pending entries of a block, at most: see `pending_table_plain`.
BLOCK_COUNT_MAX = BLOCK_ROWS_MAX

cdef array.array COLUMN = new_array("Q")
cdef array.array SIGNED_COLUMN = new_array("q")

cdef struct Run:
    # The slots of a delivery: those of the `length` slots from `first` on that have the number of this run. The slots
    # of released entries, which share one delivery per count, may be anywhere.

    # NULL: this number is free, and `first` is the next free one.
    PyObject *delivery
    # The consumer, to which the delivery holds a reference. NULL for released entries.
    PyObject *owner
    u32 first
    u32 length

cdef struct View:
    # Slots in the order of their IDs. Slots of removed entries stay until a cleaning.
    u32 *slots
    u32 length
    # The slots after these were added out of order.
    u32 sorted_length
    u32 capacity
    # There are no members before this index.
    u32 start

cdef struct Owned:
    # What the table keeps for a consumer with entries.
    View view
    # Number of the last compaction that has visited the consumer.
    u64 stamp
    u32 pending_count

cdef struct Late:
    Place place
    u32 slot


cdef inline bint read_start(object start, Place *place) except -1:
    """Read the first ID that is not below the number `start`. Returns False if there is no such ID."""
    cdef unsigned char data[READ_BYTES]
    headrace_read_id(start, data)
    place.seq = read_u64(data)
    place.ms = read_u64(data + MS_AT)
    if data[MS_AT - 1]:
        place.seq = 0
        place.ms += 1
        return place.ms != 0 and not data[ID_BYTES]
    return not data[ID_BYTES]


cdef inline bint is_less(const Place *one, const Place *other) noexcept nogil:
    return one.ms < other.ms or (one.ms == other.ms and one.seq < other.seq)


cdef inline bint is_same(const Place *one, const Place *other) noexcept nogil:
    return one.ms == other.ms and one.seq == other.seq


cdef int compare_late(const void *one, const void *other) noexcept nogil:
    if is_less(&(<const Late *>one).place, &(<const Late *>other).place):
        return -1
    return is_less(&(<const Late *>other).place, &(<const Late *>one).place)


cdef void *copied(const void *block, size_t size) except NULL:
    """Return a copy of a block of memory, which may be of size 0."""
    cdef void *copy = PyMem_Malloc(size)
    if copy == NULL:
        raise MemoryError
    if block != NULL:
        memcpy(copy, block, size)
    return copy


cdef inline size_t roomier(size_t count) noexcept:
    """The capacity to allocate for `count` items: an eighth more, so that growing costs little time and memory."""
    return count + (count >> 3) + (3 if count < 9 else 6) & ~<size_t>3


# What all consumers without entries have: zeros.
cdef Owned NOTHING_OWNED
# The listing of a consumer without entries.
cdef tuple NOTHING_LISTED = (b"*0\r\n",)


@cython.final
@cython.no_gc
cdef class Consumer:
    """A named member of a group. `seen_ms` and `active_ms` are Unix ms; -1 means never."""

    cdef readonly bytes name
    cdef public i64 seen_ms
    cdef public i64 active_ms
    # Its entries. Consumers without entries share NOTHING_OWNED.
    cdef Owned *owned

    def __init__(self, bytes name not None, i64 seen_ms):
        self.name = name
        self.seen_ms = seen_ms
        self.active_ms = NEVER

    def __cinit__(self):
        self.owned = &NOTHING_OWNED

    def __dealloc__(self):
        free_owned(self)

    @property
    def pending_count(self):
        """Number of the consumer's entries."""
        return self.owned.pending_count

    @property
    def listed_count(self):
        """Number of entries in the consumer's list, including those that have left."""
        return self.owned.view.length


cdef inline void free_owned(Consumer consumer) noexcept:
    """Free what a consumer has for its entries, of which there are none any more."""
    cdef Owned *owned = consumer.owned
    if owned != &NOTHING_OWNED:
        consumer.owned = &NOTHING_OWNED
        PyMem_Free(owned.view.slots)
        PyMem_Free(owned)


@cython.final
@cython.no_gc
cdef class Delivery:
    """Entries handed to one consumer at one time, with one delivery count. Times are Unix ms."""

    # The owner. None for released entries: one delivery has all those of one count.
    cdef readonly Consumer consumer
    # Delivery time; 0 for released entries.
    cdef readonly i64 time_ms
    # Delivery count, including this delivery.
    cdef readonly i64 count
    # Number of entries still in this delivery.
    cdef readonly u32 remaining
    # Number of the delivery's run, while entries remain.
    cdef u32 number


DELIVERY_SIZE = getsizeof(Delivery.__new__(Delivery)) + 15 & -16
CONSUMER_SIZE = getsizeof(Consumer(b"", 0)) + 15 & -16
# Bytes, rounded as the allocator does, without names and entries.


def idle_states(list consumers not None, i64 now_ms):
    """See `pending_table_plain.idle_states`."""
    cdef Consumer consumer
    cdef list states = []
    cdef i64 inactive_ms
    for consumer in consumers:
        inactive_ms = NEVER_MS if consumer.active_ms == NEVER_MS else max(now_ms - consumer.active_ms, 0)
        states.append((consumer.name, consumer.owned.pending_count, max(now_ms - consumer.seen_ms, 0), inactive_ms))
    return states


cdef inline Py_ssize_t number_of(Consumer owner, list consumers) except -1:
    """Return the place of a consumer in a list. Raises ValueError."""
    cdef Py_ssize_t number
    for number in range(len(consumers)):
        if consumers[number] is owner:
            return number
    raise ValueError("a pending entry of no consumer of the list")


cdef inline bint is_column(array.array column, char typecode) noexcept:
    return column.ob_descr.typecode == typecode


cdef class Walk

cdef class Members

cdef class PendingTable(PendingSlots)


@cython.no_gc
cdef class PendingSlots:
    """Pending entries that can be read by ID and by delivery."""

    cdef Place *ids
    # The run of each slot; NONE if the entry has left.
    cdef u32 *run_of
    # Used slots, including those of entries that have left.
    cdef size_t total
    cdef size_t capacity
    cdef size_t live
    # The entries of all slots before this one have left.
    cdef size_t head
    # The entries of all slots from this one on have left.
    cdef size_t tail
    cdef Run *runs
    cdef size_t runs_total
    cdef size_t runs_capacity
    # The slots by ID. Empty while the slots themselves are in that order.
    cdef View order
    cdef bint is_ordered
    # How often slots were renumbered.
    cdef u64 renumbered
    # How often indexes in the orders have changed.
    cdef u64 reordered
    # Slot numbers for which all orders together have room.
    cdef size_t views_capacity
    # Consumers with entries.
    cdef size_t owners_count
    # Runs of an image, oldest delivery first.
    cdef u32 *by_time
    cdef size_t by_time_length

    def __cinit__(self):
        self.is_ordered = True

    def __dealloc__(self):
        cdef size_t number
        for number in range(self.runs_total):
            if self.runs[number].delivery != NULL:
                Py_DECREF(<object>self.runs[number].delivery)
        PyMem_Free(self.runs)
        PyMem_Free(self.ids)
        PyMem_Free(self.run_of)
        PyMem_Free(self.order.slots)
        PyMem_Free(self.by_time)

    def __len__(self):
        return self.live

    # -- orders ----------------------------------------------------------------------------------

    cdef inline bint is_member(self, u32 slot, PyObject *owner) noexcept:
        """Whether the slot's entry is pending, and has this owner if one is given."""
        cdef u32 number = self.run_of[slot] if slot < self.total else NONE
        return number != NONE and (owner == NULL or self.runs[number].owner == owner)

    cdef inline int reserve_view(self, View *view, size_t more) except -1:
        """Make room for `more` slots in an order."""
        cdef size_t capacity
        cdef u32 *slots
        if <size_t>view.length + more <= view.capacity:
            return 0
        capacity = roomier(view.length + more)
        slots = <u32 *>PyMem_Realloc(view.slots, capacity * sizeof(u32))
        if slots == NULL:
            raise MemoryError
        self.views_capacity += capacity - view.capacity
        view.slots = slots
        view.capacity = <u32>capacity
        return 0

    cdef void trim_view(self, View *view) noexcept:
        """Free unused room of an order, if there is much."""
        cdef size_t capacity = roomier(view.length) if view.length else 0
        cdef u32 *slots
        if not view.length:
            PyMem_Free(view.slots)
            slots = NULL
        elif view.capacity < 2 * capacity + STALE_SLACK:
            return
        else:
            slots = <u32 *>PyMem_Realloc(view.slots, capacity * sizeof(u32))
            if slots == NULL:
                return
        self.views_capacity -= view.capacity - capacity
        view.slots = slots
        view.capacity = <u32>capacity

    cdef void clear_view(self, View *view) noexcept:
        view.length = view.sorted_length = view.start = 0
        self.trim_view(view)
        self.reordered += 1

    cdef inline void add(self, View *view, u32 slot) noexcept:
        """Add a slot to an order that has room."""
        cdef u32 length = view.length
        if view.sorted_length == length and (
            not length or is_less(&self.ids[view.slots[length - 1]], &self.ids[slot])
        ):
            view.sorted_length = length + 1
        view.slots[length] = slot
        view.length = length + 1

    cdef bint settle(self, View *view, PyObject *owner) noexcept:
        """Sort an order and drop the slots of entries that have left. Returns False when memory is short."""
        cdef size_t late_length = 0, index, kept = 0, left, length
        cdef Late *late = NULL
        cdef u32 slot
        cdef bint is_ascending = True
        if view.length > view.sorted_length:
            late = <Late *>PyMem_Malloc((view.length - view.sorted_length) * sizeof(Late))
            if late == NULL:
                return False
        for index in range(view.sorted_length, view.length):
            slot = view.slots[index]
            if self.is_member(slot, owner):
                late[late_length].place = self.ids[slot]
                late[late_length].slot = slot
                if late_length and not is_less(&late[late_length - 1].place, &late[late_length].place):
                    is_ascending = False
                late_length += 1
        if not is_ascending:
            qsort(late, late_length, sizeof(Late), compare_late)
        for index in range(view.sorted_length):
            slot = view.slots[index]
            if self.is_member(slot, owner):
                view.slots[kept] = slot
                kept += 1
        # Merge from the end, where there is room. A slot that is in both parts, or twice among the late ones, is taken
        # once.
        length = left = kept + late_length
        while late_length:
            if kept and is_less(&late[late_length - 1].place, &self.ids[view.slots[kept - 1]]):
                kept -= 1
                slot = view.slots[kept]
            else:
                late_length -= 1
                slot = late[late_length].slot
                if (late_length and late[late_length - 1].slot == slot) or (kept and view.slots[kept - 1] == slot):
                    continue
            left -= 1
            view.slots[left] = slot
        PyMem_Free(late)
        if left > kept:
            for index in range(left, length):
                view.slots[kept + index - left] = view.slots[index]
            length -= left - kept
        view.length = view.sorted_length = <u32>length
        view.start = 0
        self.trim_view(view)
        self.reordered += 1
        return True

    cdef View *readable(self, Consumer consumer) except? NULL:
        """Return the sorted order of a consumer, or that of all entries. NULL if the slots themselves are in order."""
        cdef View *view = &self.order
        if consumer is not None:
            view = &consumer.owned.view
        elif self.is_ordered:
            return NULL
        if view.length > view.sorted_length:
            if not self.settle(view, <PyObject *>consumer if consumer is not None else NULL):
                raise MemoryError
        return view

    cdef size_t seek(self, View *view, PyObject *owner, const Place *start) noexcept:
        """Return the index in the order from which to search for the first entry at or after `start`."""
        cdef size_t low, high, middle
        if view == NULL:
            while self.head < self.tail and self.run_of[self.head] == NONE:
                self.head += 1
            low, high = self.head, self.tail
        else:
            while view.start < view.length and not self.is_member(view.slots[view.start], owner):
                view.start += 1
            low, high = view.start, view.length
        while low < high:
            middle = (low + high) >> 1
            if is_less(&self.ids[middle if view == NULL else view.slots[middle]], start):
                low = middle + 1
            else:
                high = middle
        return low

    # -- reading ---------------------------------------------------------------------------------

    def walk(self, start=0, Consumer consumer=None):
        """See `pending_table_plain.PendingSlots`."""
        cdef Walk walk = Walk.__new__(Walk)
        walk.table = self
        walk.consumer = consumer
        walk.is_over = not read_start(start, &walk.place)
        return walk

    def walk_by_time(self):
        """See `pending_table_plain.PendingSlots`."""
        cdef u32 number
        cdef size_t index, slot
        for index in range(self.by_time_length):
            number = self.by_time[index]
            for slot in range(self.runs[number].first, self.runs[number].first + self.runs[number].length):
                if self.run_of[slot] == number:
                    yield make_id(&self.ids[slot]), <Delivery>self.runs[number].delivery

    def columns(self, dict owners not None, Py_ssize_t count):
        """See `pending_table_plain.PendingSlots`."""
        cdef list numbers = self.owner_numbers(owners)
        cdef View *view = self.readable(None)
        cdef size_t index = 0, length = self.total if view == NULL else view.length
        while index < length:
            index, page = self.page_from(index, length, view == NULL, numbers, count)
            if len(page[0]):
                yield page

    cdef list owner_numbers(self, dict owners):
        """Return, for each run, the number of its owner, -1 for released entries."""
        cdef list numbers = []
        cdef size_t number
        for number in range(self.runs_total):
            owner = -1
            if self.runs[number].owner != NULL:
                owner = owners[(<Consumer>self.runs[number].owner).name]
            numbers.append(owner)
        return numbers

    cdef tuple page_from(self, size_t index, size_t length, bint is_ordered, list numbers, Py_ssize_t count):
        """Return up to `count` entries as columns, and the index after them in the order."""
        cdef array.array ms = array.clone(COLUMN, count, False)
        cdef array.array seq = array.clone(COLUMN, count, False)
        cdef array.array times = array.clone(SIGNED_COLUMN, count, False)
        cdef array.array counts = array.clone(SIGNED_COLUMN, count, False)
        cdef array.array owners = array.clone(SIGNED_COLUMN, count, False)
        cdef Py_ssize_t row = 0
        cdef u32 slot, number
        cdef Delivery delivery
        while index < length and row < count:
            slot = <u32>index if is_ordered else self.order.slots[index]
            index += 1
            number = self.run_of[slot]
            if number == NONE:
                continue
            delivery = <Delivery>self.runs[number].delivery
            ms.data.as_ulonglongs[row] = self.ids[slot].ms
            seq.data.as_ulonglongs[row] = self.ids[slot].seq
            times.data.as_longlongs[row] = delivery.time_ms
            counts.data.as_longlongs[row] = delivery.count
            owners.data.as_longlongs[row] = numbers[number]
            row += 1
        for column in (ms, seq, times, counts, owners):
            array.resize(column, row)
        return index, (ms, seq, times, counts, owners)


@cython.final
@cython.no_gc
cdef class Walk:
    """Entries by ID."""

    cdef PendingSlots table
    cdef Consumer consumer
    # The next entry is at or after this ID.
    cdef Place place
    cdef bint is_over
    cdef bint is_placed
    # Index of the next entry, valid while the table's `reordered` is that of this walk.
    cdef size_t index
    cdef u64 reordered

    def __iter__(self):
        return self

    def __next__(self):
        cdef PendingSlots table = self.table
        cdef PyObject *owner = <PyObject *>self.consumer if self.consumer is not None else NULL
        cdef View *view
        cdef size_t length
        cdef u32 slot
        if self.is_over:
            raise StopIteration
        view = table.readable(self.consumer)
        if not self.is_placed or self.reordered != table.reordered:
            self.index = table.seek(view, owner, &self.place)
            self.reordered = table.reordered
            self.is_placed = True
        length = table.tail if view == NULL else view.length
        while self.index < length:
            slot = <u32>self.index if view == NULL else view.slots[self.index]
            self.index += 1
            if table.is_member(slot, owner):
                self.place = table.ids[slot]
                entry_id = make_id(&self.place)
                self.place.seq += 1
                if not self.place.seq:
                    self.place.ms += 1
                    self.is_over = not self.place.ms
                return entry_id, <Delivery>table.runs[table.run_of[slot]].delivery
        self.is_over = True
        raise StopIteration


@cython.final
@cython.no_gc
cdef class Members:
    """IDs of the entries of a delivery, in the order in which they were delivered."""

    cdef PendingTable table
    cdef Delivery delivery
    # Slots of the run that were visited.
    cdef size_t passed
    cdef u64 renumbered

    def __iter__(self):
        return self

    def __next__(self):
        cdef PendingTable table = self.table
        cdef Run *run = table.run_if_any(self.delivery)
        cdef size_t slot
        if table.renumbered != self.renumbered:
            raise RuntimeError("pending entries moved while they were walked by time")
        if run == NULL:
            raise StopIteration
        if not self.passed:
            while run.length and table.run_of[run.first] != self.delivery.number:
                run.first += 1
                run.length -= 1
        while self.passed < run.length:
            slot = run.first + self.passed
            self.passed += 1
            if table.run_of[slot] == self.delivery.number:
                return make_id(&table.ids[slot])
        raise StopIteration


@cython.final
@cython.no_gc
cdef class PendingTable(PendingSlots):
    """See `pending_table_plain.PendingTable`."""

    cdef readonly dict released
    # Deliveries of released entries, by delivery count.
    cdef readonly dict released_of
    cdef size_t released_runs_total
    # The index: slot numbers, or NONE.
    cdef u32 *cells
    cdef size_t cells_count
    # The slot after the one found last: entries are often looked up in the order of their slots.
    cdef u32 hint
    # Number of the last compaction.
    cdef u64 stamp
    # The first free run number; NONE if all used numbers are taken.
    cdef size_t free_run
    cdef readonly size_t owned_count

    def __init__(self):
        self.released = {}
        self.released_of = {}
        self.free_run = NONE

    def __dealloc__(self):
        PyMem_Free(self.cells)

    def __contains__(self, entry_id):
        cdef Place place
        read_place(entry_id, &place)
        return self.find(&place) != NONE

    @property
    def listed_count(self):
        """Number of used slots, including those of entries that have left."""
        return self.total

    @property
    def deliveries_count(self):
        """Number of deliveries that have entries, including those of released entries."""
        return self.owned_count + self.released_runs_total

    @property
    def memory_size(self):
        """Bytes of the table, without the consumers."""
        return (
            getsizeof(self)
            + self.capacity * (sizeof(Place) + sizeof(u32))
            + (self.cells_count + self.views_capacity) * sizeof(u32)
            + self.owners_count * sizeof(Owned)
            + self.runs_capacity * sizeof(Run)
            + self.deliveries_count * DELIVERY_SIZE
            + getsizeof(self.released)
            + getsizeof(self.released_of)
            + self.released_runs_total * COUNT_SIZE
            + len(self.released) * ID_SIZE
        )

    # -- finding ---------------------------------------------------------------------------------

    cdef inline size_t home(self, const Place *place) noexcept:
        """Return the cell of the index at which the search for an ID begins."""
        return home_of(place, self.cells_count)

    cdef inline u32 find(self, const Place *place) noexcept:
        """The slot of a pending entry, NONE if the ID is not pending."""
        cdef u32 slot = self.hint
        cdef size_t cell
        if slot < self.total and is_same(&self.ids[slot], place) and self.run_of[slot] != NONE:
            self.hint = slot + 1
            return slot
        if not self.total:
            return NONE
        cell = self.home(place)
        while True:
            slot = self.cells[cell]
            if slot == NONE:
                return NONE
            if is_same(&self.ids[slot], place) and self.run_of[slot] != NONE:
                self.hint = slot + 1
                return slot
            cell += 1
            if cell == self.cells_count:
                cell = 0

    cdef inline void enter(self, u32 slot) noexcept:
        """Add a slot to the index, which has room."""
        cdef size_t cell = self.home(&self.ids[slot])
        while self.cells[cell] != NONE:
            cell += 1
            if cell == self.cells_count:
                cell = 0
        self.cells[cell] = slot

    cdef void fill_index(self) noexcept:
        """Build the index from the used slots."""
        cdef size_t slot
        memset(self.cells, 0xFF, self.cells_count * sizeof(u32))
        for slot in range(self.total):
            if self.run_of[slot] != NONE:
                self.enter(<u32>slot)

    cdef int reserve(self, size_t more) except -1:
        """Make room for new slots."""
        cdef size_t count = self.total + more, capacity
        cdef void *block
        if count > SLOTS_MAX:
            raise MemoryError("a group has too many pending entries")
        if count > self.capacity:
            capacity = roomier(count)
            block = PyMem_Realloc(self.ids, capacity * sizeof(Place))
            if block == NULL:
                raise MemoryError
            self.ids = <Place *>block
            block = PyMem_Realloc(self.run_of, capacity * sizeof(u32))
            if block == NULL:
                raise MemoryError
            self.run_of = <u32 *>block
            self.capacity = capacity
        if count * 3 > self.cells_count * 2:
            # At most two thirds of the cells are used, four ninths after growing.
            block = PyMem_Realloc(self.cells, (count * 9 // 4 + 4) * sizeof(u32))
            if block == NULL:
                raise MemoryError
            self.cells, self.cells_count = <u32 *>block, count * 9 // 4 + 4
            self.fill_index()
        return 0

    def get(self, entry_id):
        """See `pending_table_plain.PendingTable`."""
        cdef Place place
        cdef u32 slot
        read_place(entry_id, &place)
        slot = self.find(&place)
        return None if slot == NONE else <Delivery>self.runs[self.run_of[slot]].delivery

    # -- changing --------------------------------------------------------------------------------

    cdef Delivery open_run(self, Consumer consumer, i64 time_ms, i64 count, size_t first):
        """Return a new delivery without entries. The caller adds one, or closes the run."""
        cdef Delivery delivery
        cdef size_t number = self.free_run, capacity
        cdef Run *runs
        if number == NONE and self.runs_total == self.runs_capacity:
            capacity = roomier(self.runs_total + 1)
            runs = <Run *>PyMem_Realloc(self.runs, capacity * sizeof(Run))
            if runs == NULL:
                raise MemoryError
            self.runs, self.runs_capacity = runs, capacity
        delivery = Delivery.__new__(Delivery)
        delivery.consumer = consumer
        delivery.time_ms = time_ms
        delivery.count = count
        if number == NONE:
            number = self.runs_total
            self.runs_total += 1
        else:
            self.free_run = self.runs[number].first
        delivery.number = <u32>number
        runs = &self.runs[number]
        Py_INCREF(delivery)
        runs.delivery = <PyObject *>delivery
        runs.owner = <PyObject *>consumer if consumer is not None else NULL
        runs.first = <u32>first
        runs.length = 0
        self.owned_count += consumer is not None
        self.released_runs_total += consumer is None
        return delivery

    cdef void close_run(self, u32 number) noexcept:
        """Free the run of a delivery whose entries have all left."""
        cdef Run *run = &self.runs[number]
        cdef PyObject *delivery = run.delivery
        self.owned_count -= run.owner != NULL
        if run.owner == NULL:
            self.released_runs_total -= 1
            try:
                self.released_of.pop((<Delivery>delivery).count, None)
            except MemoryError:
                pass  # it stays there without entries, until others are released with its count
        run.delivery = run.owner = NULL
        run.first = <u32>self.free_run
        run.length = 0
        self.free_run = number
        Py_DECREF(<object>delivery)

    cdef inline void lose(self, Consumer consumer) noexcept:
        """Count one entry less for a consumer."""
        cdef Owned *owned = consumer.owned
        owned.pending_count -= 1
        if not owned.pending_count:
            self.forget(consumer)
        elif owned.view.length > 2 * <size_t>owned.pending_count + STALE_SLACK:
            self.settle(&owned.view, <PyObject *>consumer)

    cdef inline View *reserve_owned(self, Consumer consumer, size_t more) except NULL:
        """Make room for `more` entries of a consumer. Returns its order."""
        cdef Owned *owned = consumer.owned
        if owned == &NOTHING_OWNED:
            owned = <Owned *>PyMem_Calloc(1, sizeof(Owned))
            if owned == NULL:
                raise MemoryError
            consumer.owned = owned
            self.owners_count += 1
        self.reserve_view(&owned.view, more)
        return &owned.view

    cdef void forget(self, Consumer consumer) noexcept:
        """Free what a consumer without entries has."""
        if consumer.owned != &NOTHING_OWNED:
            self.clear_view(&consumer.owned.view)
            free_owned(consumer)
            self.owners_count -= 1

    def deliver(self, list ids not None, Consumer consumer not None, i64 time_ms, i64 count):
        """See `pending_table_plain.PendingTable`."""
        cdef size_t length = len(ids), index, base
        cdef Delivery delivery
        cdef Place *places
        cdef View *view
        cdef list deliveries = [None]
        if not length:
            return []
        if not self.live and self.total:
            self.compact()
        self.reserve(length)
        base = self.total
        places = self.ids + base
        for index in range(length):
            read_place(ids[index], &places[index])
        for index in range(length):
            if base + index and not is_less(&places[index] - 1, &places[index]):
                break
        else:
            if self.is_ordered:
                # All IDs are above those in the table: they are new, and already in order.
                view = self.reserve_owned(consumer, length)
                deliveries[0] = delivery = self.open_run(consumer, time_ms, count, base)
                self.runs[delivery.number].length = <u32>length
                delivery.remaining = <u32>length
                self.total = self.tail = base + length
                self.live += length
                for index in range(base, self.total):
                    self.run_of[index] = delivery.number
                    self.enter(<u32>index)
                consumer.owned.pending_count += <u32>length
                for index in range(base, self.total):
                    self.add(view, <u32>index)
                return deliveries
        return self.deliver_each(ids, consumer, time_ms, count)

    def block(self, list consumers not None):
        """See `pending_table_plain.PendingTable`."""
        cdef View *view = self.readable(None)
        cdef size_t index, length = self.total if view == NULL else view.length
        cdef Py_ssize_t row = 0, count = self.live
        cdef bytes block
        cdef char *columns
        cdef u32 slot, number
        cdef Delivery delivery
        cdef i64 owner
        if count > BLOCK_ROWS_MAX:
            raise ValueError("more pending entries than a block has")
        block = PyBytes_FromStringAndSize(NULL, count * ROW_SIZE)
        columns = PyBytes_AS_STRING(block)
        for index in range(length):
            slot = <u32>index if view == NULL else self.order.slots[index]
            number = self.run_of[slot]
            if number == NONE:
                continue
            if row == count:
                raise RuntimeError("more pending entries than were counted")
            delivery = <Delivery>self.runs[number].delivery
            owner = number_of(delivery.consumer, consumers)
            memcpy(columns + 8 * row, &self.ids[slot].ms, 8)
            memcpy(columns + 8 * (count + row), &self.ids[slot].seq, 8)
            memcpy(columns + 8 * (2 * count + row), &delivery.time_ms, 8)
            memcpy(columns + 8 * (3 * count + row), &delivery.count, 8)
            memcpy(columns + 8 * (4 * count + row), &owner, 8)
            row += 1
        return block

    def take_columns(
        self, array.array ms not None, array.array seq not None, array.array times not None,
        array.array counts not None, array.array owners not None, list consumers not None,
    ):
        """See `pending_table_plain.PendingTable`."""
        cdef Py_ssize_t count = len(ms)
        if len(seq) != count or len(times) != count or len(counts) != count or len(owners) != count:
            raise ValueError("columns of different entries")
        if not (is_column(ms, c"Q") and is_column(seq, c"Q") and is_column(times, c"q") and is_column(counts, c"q")):
            raise ValueError("columns of different entries")
        if not is_column(owners, c"q"):
            raise ValueError("columns of different entries")
        return self.take_rows(
            count, ms.data.as_ulonglongs, seq.data.as_ulonglongs, times.data.as_longlongs, counts.data.as_longlongs,
            owners.data.as_longlongs, consumers,
        )

    def take_block(self, bytes block not None, list consumers not None):
        """See `pending_table_plain.PendingTable`."""
        cdef Py_ssize_t count = PyBytes_GET_SIZE(block) // ROW_SIZE, index
        cdef i64 columns[COLUMNS_COUNT * BLOCK_ROWS_MAX]
        cdef i64 *owners = columns + (COLUMNS_COUNT - 1) * count
        if PyBytes_GET_SIZE(block) % ROW_SIZE or count > BLOCK_ROWS_MAX:
            raise ValueError("a block that is cut off")
        # Numbers in a string need not be aligned.
        memcpy(columns, PyBytes_AS_STRING(block), count * ROW_SIZE)
        for index in range(count):
            if owners[index] < 0:
                raise ValueError("no such consumer")
        return self.take_rows(
            count, <const u64 *>columns, <const u64 *>columns + count, columns + 2 * count, columns + 3 * count, owners,
            consumers,
        )

    cdef list take_rows(
        self, Py_ssize_t count, const u64 *ms, const u64 *seq, const i64 *times, const i64 *counts, const i64 *owners,
        list consumers,
    ):
        """Give entries to consumers: see `pending_table_plain.PendingTable.take_columns`."""
        cdef Py_ssize_t row = 0, end
        cdef list deliveries = []
        self.reserve(count)
        while row < count:
            end = row + 1
            while end < count and (
                owners[end] == owners[row] and times[end] == times[row] and counts[end] == counts[row]
            ):
                end += 1
            if not -1 <= owners[row] < len(consumers):
                raise ValueError("no such consumer")
            if owners[row] >= 0:
                deliveries.append(
                    self.take_run(ms + row, seq + row, end - row, consumers[owners[row]], times[row], counts[row])
                )
            row = end
        return deliveries

    cdef Delivery take_run(
        self, const u64 *ms, const u64 *seq, size_t length, Consumer consumer, i64 time_ms, i64 count
    ):
        """Give IDs above all others, for which there is room, to a consumer in one delivery."""
        cdef size_t base = self.total, index
        cdef Delivery delivery
        cdef View *view
        if not self.is_ordered:
            raise ValueError("pending IDs that do not ascend")
        for index in range(length):
            self.ids[base + index].ms, self.ids[base + index].seq = ms[index], seq[index]
            if base + index and not is_less(&self.ids[base + index - 1], &self.ids[base + index]):
                raise ValueError("pending IDs that do not ascend")
        view = self.reserve_owned(consumer, length)
        delivery = self.open_run(consumer, time_ms, count, base)
        self.runs[delivery.number].length = <u32>length
        delivery.remaining = <u32>length
        for index in range(base, base + length):
            self.run_of[index] = delivery.number
            self.enter(<u32>index)
            self.add(view, <u32>index)
        self.total = self.tail = base + length
        self.live += length
        consumer.owned.pending_count += <u32>length
        return delivery

    cdef list deliver_each(self, list ids, Consumer consumer, i64 time_ms, i64 count):
        """Give IDs, which the caller has put after the last slot, to a consumer. They may be pending, in any order."""
        cdef size_t base = self.total, length = len(ids), index, next_slot = NONE
        cdef list deliveries = []
        cdef Delivery delivery = None, before
        cdef Consumer loser
        cdef Place place
        cdef u32 slot, old
        cdef View *view = self.reserve_owned(consumer, length)
        for index in range(length):
            place = self.ids[base + index]
            slot = self.find(&place)
            if slot == NONE:
                slot = <u32>self.total
                self.prepare_order(&place)
            elif delivery is not None and self.run_of[slot] == delivery.number:
                continue
            if delivery is None or slot != next_slot:
                deliveries.append(None)  # before anything changes
                deliveries[len(deliveries) - 1] = delivery = self.open_run(consumer, time_ms, count, slot)
            next_slot = slot + 1
            if slot == self.total:
                self.ids[slot] = place
                self.run_of[slot] = delivery.number
                self.admit(slot)
                loser = None
            else:
                old = self.run_of[slot]
                before = <Delivery>self.runs[old].delivery
                loser = before.consumer
                before.remaining -= 1
                self.run_of[slot] = delivery.number
                if not before.remaining:
                    self.close_run(old)
                if loser is None:
                    del self.released[ids[index]]
            delivery.remaining += 1
            self.runs[delivery.number].length += 1
            if consumer is loser:
                continue
            if loser is not None:
                self.lose(loser)
            consumer.owned.pending_count += 1
            self.add(view, slot)
        return deliveries

    cdef int prepare_order(self, const Place *place) except -1:
        """Make room in the order by ID. The order is created if this ID is the first out of order."""
        cdef size_t slot
        if self.is_ordered:
            if not self.total or is_less(&self.ids[self.total - 1], place):
                return 0
            self.reserve_view(&self.order, self.total + 1)
            for slot in range(self.total):
                self.order.slots[slot] = <u32>slot
            self.order.length = self.order.sorted_length = <u32>self.total
            self.is_ordered = False
            self.reordered += 1
        return self.reserve_view(&self.order, 1)

    def release(self, entry_id, i64 count):
        """See `pending_table_plain.PendingTable`. Hot: see the benchmark row XNACK."""
        cdef Place place
        cdef Delivery before = None, delivery
        cdef u32 slot, old
        read_place(entry_id, &place)
        slot = self.find(&place)
        if slot == NONE:
            if not self.live and self.total:
                self.compact()
            self.reserve(1)
            self.prepare_order(&place)
        else:
            before = <Delivery>self.runs[self.run_of[slot]].delivery
        delivery = self.released_with(count)
        if before is not None and before.consumer is None:
            del self.released[entry_id]
        try:
            self.released[entry_id] = delivery
        except MemoryError:
            if not delivery.remaining:
                self.close_run(delivery.number)
            if before is not None and before.consumer is None:
                self.leave(slot)
            raise
        if before is delivery:
            return
        delivery.remaining += 1
        if before is None:
            slot = <u32>self.total
            self.ids[slot] = place
            self.run_of[slot] = delivery.number
            self.admit(slot)
            return
        old = self.run_of[slot]
        self.run_of[slot] = delivery.number
        before.remaining -= 1
        if not before.remaining:
            self.close_run(old)
        if before.consumer is not None:
            self.lose(before.consumer)

    cdef Delivery released_with(self, i64 count):
        """Return the delivery of all released entries with this delivery count. It may be new and empty."""
        cdef Delivery delivery = self.released_of.get(count)
        if delivery is None or not delivery.remaining:
            delivery = self.open_run(None, 0, count, 0)
            try:
                self.released_of[count] = delivery
            except MemoryError:
                self.close_run(delivery.number)
                raise
        return delivery

    cdef inline void admit(self, u32 slot) noexcept:
        """Count the next slot as used, and enter it in the index, which has room."""
        self.enter(slot)
        self.total += 1
        self.tail = self.total
        self.live += 1
        if not self.is_ordered:
            self.add(&self.order, slot)

    cdef inline Delivery leave(self, u32 slot):
        """Mark the entry of a slot as left. Returns its delivery."""
        cdef u32 number = self.run_of[slot]
        cdef Delivery delivery = <Delivery>self.runs[number].delivery
        self.run_of[slot] = NONE
        self.live -= 1
        delivery.remaining -= 1
        if not delivery.remaining:
            self.close_run(number)
        return delivery

    def drop_all(self, ids):
        """See `pending_table_plain.PendingTable`."""
        cdef size_t dropped = 0
        cdef Place place
        cdef u32 slot
        cdef Delivery delivery
        for entry_id in ids:
            read_place(entry_id, &place)
            slot = self.find(&place)
            if slot == NONE:
                continue
            dropped += 1
            delivery = self.leave(slot)
            if delivery.consumer is None:
                del self.released[entry_id]
            else:
                self.lose(delivery.consumer)
        if dropped and self.total > 2 * self.live + STALE_SLACK:
            self.compact()
        return dropped

    cdef void remap(self, View *view, PyObject *owner, const u32 *moved) noexcept:
        """Renumber the slots of an order, without those of entries that have left."""
        cdef size_t index, kept = 0, kept_sorted = 0
        cdef u32 slot
        for index in range(view.length):
            if index == view.sorted_length:
                kept_sorted = kept
            slot = view.slots[index]
            if self.is_member(slot, owner):
                view.slots[kept] = moved[slot]
                kept += 1
        view.sorted_length = <u32>(kept if view.sorted_length == view.length else kept_sorted)
        view.length = <u32>kept
        view.start = 0
        self.trim_view(view)

    cdef void compact(self) noexcept:
        """Move used slots and runs together, keeping their order. When memory is short, do nothing: a later call does
        it."""
        cdef u32 *moved = <u32 *>PyMem_Malloc(self.total * sizeof(u32))
        cdef size_t slot, to = 0, number
        cdef Run *run
        cdef Consumer consumer
        cdef bint is_ordered = True
        if moved == NULL:
            return
        for slot in range(self.total):
            moved[slot] = <u32>to
            to += self.run_of[slot] != NONE
        self.stamp += 1
        for number in range(self.runs_total):
            run = &self.runs[number]
            if run.owner != NULL:
                consumer = <Consumer>run.owner
                if consumer.owned.stamp != self.stamp:
                    consumer.owned.stamp = self.stamp
                    self.remap(&consumer.owned.view, run.owner, moved)
        self.remap(&self.order, NULL, moved)
        PyMem_Free(moved)
        to = 0
        for number in range(self.runs_total):
            run = &self.runs[number]
            run.length = 0
            if run.delivery != NULL:
                (<Delivery>run.delivery).number = <u32>to
                to += 1
        to = 0
        for slot in range(self.total):
            if self.run_of[slot] == NONE:
                continue
            run = &self.runs[self.run_of[slot]]
            if not run.length:
                run.first = <u32>to
            run.length = <u32>to - run.first + 1
            self.ids[to] = self.ids[slot]
            self.run_of[to] = (<Delivery>run.delivery).number
            if to and not is_less(&self.ids[to - 1], &self.ids[to]):
                is_ordered = False
            to += 1
        self.total = self.tail = to
        self.head = self.hint = 0
        to = 0
        for number in range(self.runs_total):
            if self.runs[number].delivery != NULL:
                self.runs[to] = self.runs[number]
                to += 1
        self.runs_total = to
        self.free_run = NONE
        if is_ordered and not self.is_ordered:
            self.is_ordered = True
            self.clear_view(&self.order)
        self.renumbered += 1
        self.reordered += 1
        self.fit()

    cdef void fit(self) noexcept:
        """Free unused memory, if there is much, and build the index again."""
        cdef size_t capacity = roomier(self.total), cells_count = capacity * 9 // 4 + 4
        cdef void *block
        if capacity + STALE_SLACK < self.capacity:
            self.cut(capacity)
        if cells_count + 4 * STALE_SLACK < self.cells_count:
            block = PyMem_Realloc(self.cells, cells_count * sizeof(u32))
            if block != NULL:
                self.cells, self.cells_count = <u32 *>block, cells_count
        capacity = roomier(self.runs_total)
        if capacity + STALE_SLACK < self.runs_capacity:
            block = PyMem_Realloc(self.runs, capacity * sizeof(Run))
            if block != NULL:
                self.runs, self.runs_capacity = <Run *>block, capacity
        self.fill_index()

    cdef void cut(self, size_t capacity) noexcept:
        """Shrink the arrays to `capacity` slots."""
        cdef void *block = PyMem_Realloc(self.ids, capacity * sizeof(Place))
        if block != NULL:
            self.ids = <Place *>block
        block = PyMem_Realloc(self.run_of, capacity * sizeof(u32))
        if block != NULL:
            self.run_of = <u32 *>block
        self.capacity = capacity

    # -- reading ---------------------------------------------------------------------------------

    def take(self, start, size_t count, Consumer consumer=None):
        """See `pending_table_plain.PendingTable`."""
        cdef Place place
        cdef View *view
        cdef PyObject *owner = <PyObject *>consumer if consumer is not None else NULL
        cdef size_t index, length
        cdef u32 slot
        cdef list found = []
        if not read_start(start, &place):
            return found
        view = self.readable(consumer)
        length = self.tail if view == NULL else view.length
        for index in range(self.seek(view, owner, &place), length):
            if not count:
                break
            slot = <u32>index if view == NULL else view.slots[index]
            if self.is_member(slot, owner):
                found.append(make_id(&self.ids[slot]))
                count -= 1
        return found

    def stretch(self, start, size_t count):
        """See `pending_table_plain.PendingTable`."""
        cdef Place place
        cdef View *view
        cdef size_t index, length
        cdef u32 slot, first = NONE, last = NONE
        if not count or not read_start(start, &place):
            return None
        view = self.readable(None)
        length = self.tail if view == NULL else view.length
        for index in range(self.seek(view, NULL, &place), length):
            slot = <u32>index if view == NULL else view.slots[index]
            if not self.is_member(slot, NULL):
                continue
            if not count:
                return make_id(&self.ids[first]), make_id(&self.ids[last]), make_id(&self.ids[slot])
            if first == NONE:
                first = slot
            last = slot
            count -= 1
        return None if first == NONE else (make_id(&self.ids[first]), make_id(&self.ids[last]), 0)

    def list_times(self, size_t count, Consumer consumer=None):
        """See `pending_table_plain.PendingTable`."""
        cdef Place first, last
        first.ms = first.seq = 0
        last.ms = last.seq = <u64>-1
        return self.listing(&first, &last, count, consumer, False, 0, 0)

    def list_consumers(self, list consumers not None, size_t count):
        """See `pending_table_plain.PendingTable`."""
        cdef Consumer consumer
        cdef list rows = []
        cdef Place first, last
        cdef char header[INTEGER_SIZE_MAX]
        cdef bytes text
        cdef tuple listed
        first.ms = first.seq = 0
        last.ms = last.seq = <u64>-1
        for consumer in consumers:
            listed = NOTHING_LISTED
            if consumer.owned.pending_count:
                taken, text = self.listing(&first, &last, count, consumer, False, 0, 0)
                listed = (PyBytes_FromStringAndSize(header, write_line(header, c'*', taken) - header), text)
            rows.append(
                (consumer.name, consumer.seen_ms, consumer.active_ms, consumer.owned.pending_count, listed)
            )
        return rows

    def summary(self, list consumers not None):
        """See `pending_table_plain.PendingTable`."""
        cdef Consumer consumer
        cdef Py_ssize_t size = SUMMARY_SIZE_MAX, count = 0
        cdef char digits[INTEGER_SIZE_MAX]
        cdef char *end = digits + INTEGER_SIZE_MAX
        cdef char *start
        for consumer in consumers:
            size += LISTED_SIZE_MAX + PyBytes_GET_SIZE(consumer.name)
            count += consumer.owned.pending_count != 0
        cdef bytes text = PyBytes_FromStringAndSize(NULL, size)
        cdef char *out = PyBytes_AS_STRING(text)
        cdef char *at = write_line(write_line(out, c'*', 4), c':', self.live)
        at = write_bulk_id(at, &self.ids[self.first_slot()])
        at = write_bulk_id(at, &self.ids[self.last_slot()])
        at = write_line(at, c'*', count)
        for consumer in consumers:
            if consumer.owned.pending_count:
                start = write_number_before(end, consumer.owned.pending_count)
                at = write_bulk_bytes(write_line(at, c'*', 2), consumer.name)
                at = write_bulk_text(at, start, end - start)
        return text[: at - out]

    def list_idle(self, start, end, size_t count, i64 now_ms, i64 idle_ms_min, Consumer consumer=None):
        """See `pending_table_plain.PendingTable`."""
        cdef Place first, last
        read_place(start, &first)
        read_place(end, &last)
        return self.listing(&first, &last, count, consumer, True, now_ms, idle_ms_min)

    cdef tuple listing(
        self, const Place *first, const Place *last, size_t count, Consumer consumer,
        bint is_idle, i64 now_ms, i64 idle_ms_min,
    ):
        """Return how many entries are listed, and their arrays end to end. With `is_idle`, idle times are in place of
        delivery times, and the owner is always shown; without it, only if all entries are listed."""
        cdef PyObject *owner = <PyObject *>consumer if consumer is not None else NULL
        cdef bint shows_owner = is_idle or consumer is None
        cdef View *view = self.readable(consumer)
        cdef size_t length = self.tail if view == NULL else view.length
        cdef size_t index, taken = 0, size = 0, capacity = 0, needed
        cdef char *text = NULL
        cdef char *at
        cdef void *block
        cdef bytes name
        cdef Delivery delivery
        cdef u32 slot
        cdef i64 time_ms
        try:
            for index in range(self.seek(view, owner, first), length):
                slot = <u32>index if view == NULL else view.slots[index]
                if taken == count or is_less(last, &self.ids[slot]):
                    break
                if not self.is_member(slot, owner):
                    continue
                delivery = <Delivery>self.runs[self.run_of[slot]].delivery
                name = delivery.consumer.name if delivery.consumer is not None else b""
                time_ms = delivery.time_ms
                if is_idle and delivery.consumer is None:
                    time_ms = NOT_OWNED_IDLE_MS
                elif is_idle:
                    time_ms = max(now_ms - time_ms, 0)
                    if time_ms < idle_ms_min:
                        continue
                needed = size + LISTED_SIZE_MAX + PyBytes_GET_SIZE(name)
                if needed > capacity:
                    capacity = 2 * needed
                    block = PyMem_Realloc(text, capacity)
                    if block == NULL:
                        raise MemoryError
                    text = <char *>block
                at = write_line(text + size, c'*', 3 + shows_owner)
                at = write_bulk_id(at, &self.ids[slot])
                if shows_owner:
                    at = write_bulk_bytes(at, name)
                at = write_line(write_line(at, c':', time_ms), c':', delivery.count)
                size = at - text
                taken += 1
            return taken, PyBytes_FromStringAndSize(text, size)
        finally:
            PyMem_Free(text)

    cdef u32 first_slot(self) except? NONE:
        """Return the slot of the smallest ID. Raises IndexError if there is none."""
        cdef View *view = self.readable(None)
        cdef Place least
        cdef size_t index
        if not self.live:
            raise IndexError("nothing is pending")
        least.ms = least.seq = 0
        index = self.seek(view, NULL, &least)
        return <u32>index if view == NULL else view.slots[index]

    cdef u32 last_slot(self) except? NONE:
        """Return the slot of the largest ID. Raises IndexError if there is none."""
        cdef View *view = self.readable(None)
        if not self.live:
            raise IndexError("nothing is pending")
        if view == NULL:
            while self.run_of[self.tail - 1] == NONE:
                self.tail -= 1
            return <u32>(self.tail - 1)
        while self.run_of[view.slots[view.length - 1]] == NONE:
            view.length -= 1
        view.sorted_length = view.length
        return view.slots[view.length - 1]

    def last_id(self):
        """See `pending_table_plain.PendingTable`."""
        return make_id(&self.ids[self.last_slot()])

    def members(self, Delivery delivery not None):
        """See `pending_table_plain.PendingTable`."""
        cdef Members members = Members.__new__(Members)
        members.table = self
        members.delivery = delivery
        members.renumbered = self.renumbered
        return members

    cdef inline Run *run_if_any(self, Delivery delivery) noexcept:
        """Return the run of a delivery; NULL if the delivery has no entries left."""
        if delivery.number < self.runs_total and self.runs[delivery.number].delivery == <PyObject *>delivery:
            return &self.runs[delivery.number]
        return NULL

    def image(self, list deliveries not None):
        """See `pending_table_plain.PendingTable`."""
        cdef PendingSlots image = PendingSlots.__new__(PendingSlots)
        cdef View *view = self.readable(None)
        cdef size_t number
        cdef Delivery delivery
        cdef Run *run
        image.ids = <Place *>copied(self.ids, self.total * sizeof(Place))
        image.run_of = <u32 *>copied(self.run_of, self.total * sizeof(u32))
        image.runs = <Run *>copied(self.runs, self.runs_total * sizeof(Run))
        image.runs_total = self.runs_total
        for number in range(image.runs_total):
            if image.runs[number].delivery != NULL:
                Py_INCREF(<object>image.runs[number].delivery)
        if view != NULL:
            image.order.slots = <u32 *>copied(view.slots, view.length * sizeof(u32))
            image.order.length = image.order.sorted_length = image.order.capacity = view.length
            image.is_ordered = False
        image.total = image.capacity = self.total
        image.live, image.head, image.tail = self.live, self.head, self.tail
        image.by_time = <u32 *>copied(NULL, len(deliveries) * sizeof(u32))
        for delivery in deliveries:
            if self.run_if_any(delivery) != NULL:
                image.by_time[image.by_time_length] = delivery.number
                image.by_time_length += 1
        return image

    # -- whole -----------------------------------------------------------------------------------

    def disown(self, consumers):
        """See `pending_table_plain.PendingTable`."""
        cdef Consumer consumer
        for consumer in consumers:
            self.forget(consumer)

    def give_back(self, size_t count):
        """See `pending_table_plain.PendingTable`."""
        cdef size_t left = self.live - min(self.live, count), runs_left, number
        cdef void *block
        self.total = self.head = self.tail = 0
        self.is_ordered = True
        self.clear_view(&self.order)
        # Free of each array as large a part as of the entries.
        runs_left = self.runs_total * left // self.live if left else 0
        for number in range(runs_left, self.runs_total):
            if self.runs[number].delivery != NULL:
                Py_DECREF(<object>self.runs[number].delivery)
        self.runs_total = runs_left
        self.cut(self.capacity * left // self.live if left else 0)
        block = PyMem_Realloc(self.cells, self.cells_count * left // self.live * sizeof(u32) if left else 0)
        if block != NULL:
            self.cells = <u32 *>block
            self.cells_count = self.cells_count * left // self.live if left else 0
        self.live = left

    def check(self, consumers):
        """See `pending_table_plain.PendingTable`."""
        cdef size_t slot, index, live = 0, owned = 0, number, runs_count = 0, cell, passed = 0, owners_count = 0
        cdef Consumer consumer
        cdef View *view
        cdef Run *run
        cdef dict remaining = {}
        cdef list places = []
        for slot in range(self.total):
            number = self.run_of[slot]
            if number == NONE:
                continue
            live += 1
            assert number < self.runs_total
            run = &self.runs[number]
            assert run.delivery != NULL
            assert run.owner == NULL or run.first <= slot < <size_t>run.first + run.length
            remaining[number] = remaining.get(number, 0) + 1
            assert self.find(&self.ids[slot]) == slot
            cell = self.home(&self.ids[slot])
            while self.cells[cell] != slot:
                cell = cell + 1 if cell + 1 < self.cells_count else 0
                passed += 1
            places.append((self.ids[slot].ms, self.ids[slot].seq))
        assert live == self.live == len(set(places))
        assert passed <= 4 * self.total + STALE_SLACK, "IDs are not spread over the index"
        for number in range(self.runs_total):
            run = &self.runs[number]
            if run.delivery == NULL:
                continue
            runs_count += 1
            delivery = <Delivery>run.delivery
            assert (<Delivery>delivery).number == number
            assert (<Delivery>delivery).remaining == remaining[number]
            assert run.owner == (<PyObject *>delivery.consumer if delivery.consumer is not None else NULL)
            assert delivery.consumer is not None or self.released_of[(<Delivery>delivery).count] is delivery
            assert delivery.consumer is None or consumers[delivery.consumer.name] is delivery.consumer
        assert runs_count == self.deliveries_count == len(remaining)
        for entry_id, delivery in self.released.items():
            assert delivery.consumer is None
            assert self.get(entry_id) is delivery
        assert len(list(self.walk())) == live
        index = self.order.capacity
        for consumer in consumers.values():
            pairs = list(self.walk(0, consumer))
            assert len(pairs) == consumer.owned.pending_count
            assert not pairs or consumer.owned != &NOTHING_OWNED
            assert all([delivery.consumer is consumer for _, delivery in pairs])
            assert [entry_id for entry_id, _ in pairs] == sorted([entry_id for entry_id, _ in pairs])
            owned += len(pairs)
            index += consumer.owned.view.capacity
            owners_count += consumer.owned != &NOTHING_OWNED
        assert owners_count == self.owners_count
        assert NOTHING_OWNED.pending_count == NOTHING_OWNED.view.length == NOTHING_OWNED.view.capacity == 0
        assert owned + len(self.released) == live
        assert index == self.views_capacity
