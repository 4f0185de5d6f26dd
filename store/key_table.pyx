# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The keys of a database with their values and expiry times, for installations with a C compiler: `key_table_plain`
in C, without an object for each key and each short string.

Both modules behave alike and are tested by the same tests; `database` imports this one if it was built.

A key is one *entry*, a block of memory:

    header | [expiry time, place among the expiry times] | the bytes of the key | a short string, or a reference

- Keys are in the order of SCAN. A slot has the entries whose hashes end alike, sorted by the next bits of the hash
  (`key_slots.place_of`), which it keeps next to them: finding a key reads some neighbouring hashes and one entry. A slot
  grows by an eighth, so that no table of all keys is ever made anew.
- A key costs 12 bytes for its header and some 13 in its slot; with an expiry time, 12 more in the entry and some 18 in
  the heap, which has the key that expires first on top.
- A copy of the table, for an image, shares the slots. Whichever of the two changes a slot first makes a slot of its own
  that shares the entries; an entry that is shared is replaced and not changed.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport PyObject, PyObject_Hash
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.string cimport memcmp, memcpy, memmove, memset

from .text import EditedText, SumText

include "block_size.pxi"
include "splicing.pxi"
include "packed_id.pxi"
include "reply_text.pxi"

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define FETCH_SOON(address) __builtin_prefetch(address)
    #else
    #define FETCH_SOON(address) ((void)(address))
    #endif
    """
    void FETCH_SOON(const void *address) noexcept

cdef extern from "Python.h":
    ctypedef int (*visitproc)(PyObject *, void *) noexcept
    ctypedef int (*traverseproc)(PyObject *, visitproc, void *) noexcept
    ctypedef struct PyTypeObject:
        traverseproc tp_traverse
    PyTypeObject *Py_TYPE(PyObject *)

ctypedef unsigned char u8
ctypedef unsigned short u16
ctypedef unsigned int u32
ctypedef long long i64

cdef enum:
    # Requests whose keys are fetched at a time.
    FETCHED_MAX = 64
    # As in `key_slots`.
    SLOT_BITS = 12
    SLOT_COUNT = 1 << SLOT_BITS
    PLACE_BITS = 32
    # Slots whose keys are counted together, to find the key at an index.
    GROUP_BITS = 6
    GROUP_COUNT = SLOT_COUNT >> GROUP_BITS
    # With more indexes than this, it is faster to count the keys before each slot first.
    FEW_INDEXES = 32
    # Slots that are looked at one after the other for the next index.
    NEAR_SLOTS = 16
    # Longer strings are objects to which the entry refers: reading them copies nothing.
    INLINE_SIZE_MAX = 255
    # Bytes of encoded texts that are a piece of a reply.
    BULKS_SIZE = 1 << 16
    # Children of a node of the heap, which are next to each other.
    ARITY = 4
    # Objects to which a value refers that are fetched at most, and bytes of a line of the processor's cache.
    REFERRED_MAX = 8
    LINE_SIZE = 64

# `first_due_ms` of a table without expiry times, and of one whose times are all later: a number of 62 bits, which
# compiled code compares without making an object.
NEVER_DUE_MS = (1 << 62) - 1

cdef i64 NEVER = NEVER_DUE_MS

cdef enum Kind:
    # A string in the entry, and those whose class says how they were made.
    PLAIN
    EDITED
    SUM
    # A reference to a stream or a long string.
    OBJECT

cdef struct Entry:
    # Slots that refer to the entry: more than one once a shared slot was copied.
    u32 references
    u32 key_size
    u16 value_size
    u8 kind
    # Whether the expiry time follows.
    u8 expires

cdef struct Due:
    i64 time_ms
    Entry *entry

cdef struct Slot:
    # Tables that share the slot.
    u32 references
    u32 count
    # `entries[capacity]` and then `codes[capacity]` follow, both sorted by code.
    u32 capacity
    u32 unused

cdef struct Found:
    # Where a key is or would be.
    u32 number
    u32 code
    u32 index

cdef enum:
    # Sizes within an entry. The expiry time is at an address that is not aligned, as the rest.
    HEADER_SIZE = 12
    TIME_SIZE = 8
    DUE_SIZE = 12


cdef inline char *key_of(Entry *entry) noexcept:
    return <char *>entry + HEADER_SIZE + (DUE_SIZE if entry.expires else 0)


cdef inline char *value_at(Entry *entry) noexcept:
    return key_of(entry) + entry.key_size


cdef inline size_t size_of(Entry *entry) noexcept:
    """Return the bytes of the entry's block."""
    cdef size_t size = HEADER_SIZE + (DUE_SIZE if entry.expires else 0) + <size_t>entry.key_size
    return size + (sizeof(PyObject *) if entry.kind == OBJECT else entry.value_size)


cdef inline PyObject *object_of(Entry *entry) noexcept:
    cdef PyObject *value
    memcpy(&value, value_at(entry), sizeof(value))
    return value


cdef inline size_t weight_of(Entry *entry) noexcept:
    """Return the bytes of the entry with its string. A stream counts nothing: `Database` counts it."""
    cdef size_t size = block_size(size_of(entry))
    cdef PyObject *value
    if entry.kind == OBJECT:
        value = object_of(entry)
        if PyBytes_Check(<object>value):
            size += block_size(<size_t>PyBytes_GET_SIZE(<object>value) + TEXT_HEADER_SIZE)
    return size


cdef inline i64 due_of(Entry *entry) noexcept:
    cdef i64 time_ms
    memcpy(&time_ms, <char *>entry + HEADER_SIZE, sizeof(time_ms))
    return time_ms


cdef inline u32 heap_index(Entry *entry) noexcept:
    cdef u32 index
    memcpy(&index, <char *>entry + HEADER_SIZE + TIME_SIZE, sizeof(index))
    return index


cdef inline void set_heap_index(Entry *entry, u32 index) noexcept:
    memcpy(<char *>entry + HEADER_SIZE + TIME_SIZE, &index, sizeof(index))


cdef inline Entry **entries_of(Slot *slot) noexcept:
    return <Entry **>(slot + 1)


cdef inline u32 *codes_of(Slot *slot) noexcept:
    return <u32 *>(entries_of(slot) + slot.capacity)


cdef inline size_t slot_size(size_t capacity) noexcept:
    return sizeof(Slot) + capacity * (sizeof(Entry *) + sizeof(u32))


cdef inline u32 lower_bound(Slot *slot, u32 code) noexcept:
    """Return the index of the first entry whose code is not below `code`. Codes are spread evenly: the search begins
    where the code should be."""
    cdef u32 *codes = codes_of(slot)
    cdef u32 index = <u32>((<u64>code * slot.count) >> 32)
    while index and codes[index - 1] >= code:
        index -= 1
    while index < slot.count and codes[index] < code:
        index += 1
    return index


cdef Slot *new_slot(size_t capacity) except NULL:
    cdef Slot *slot
    if capacity >> 31:
        raise MemoryError
    slot = <Slot *>PyMem_Malloc(slot_size(capacity))
    if slot == NULL:
        raise MemoryError
    slot.references = 1
    slot.count = 0
    slot.capacity = <u32>capacity
    return slot


cdef int fetch_referred(PyObject *value, void *left) noexcept:
    """Fetch an object to which a value refers, until no more are left. As tp_traverse calls it."""
    FETCH_SOON(value)
    (<u32 *>left)[0] -= 1
    return (<u32 *>left)[0] == 0


cdef inline object key_text(Entry *entry):
    return PyBytes_FromStringAndSize(key_of(entry), entry.key_size)


cdef inline object value_of(Entry *entry):
    if entry.kind == OBJECT:
        return <object>object_of(entry)
    text = PyBytes_FromStringAndSize(value_at(entry), entry.value_size)
    if entry.kind == PLAIN:
        return text
    return (EditedText if entry.kind == EDITED else SumText)(text)


cdef Entry *new_entry(const char *key, size_t key_size, u8 kind, const char *value, size_t value_size, bint expires) except NULL:
    """Make an entry. `value` is the text, or the address of a reference, which the entry then holds."""
    cdef size_t size = HEADER_SIZE + (DUE_SIZE if expires else 0) + key_size + value_size
    cdef Entry *entry
    if key_size >> 32:
        raise MemoryError
    entry = <Entry *>PyMem_Malloc(size)
    if entry == NULL:
        raise MemoryError
    entry.references = 1
    entry.key_size = <u32>key_size
    entry.value_size = 0 if kind == OBJECT else <u16>value_size
    entry.kind = kind
    entry.expires = expires
    memcpy(key_of(entry), key, key_size)
    memcpy(value_at(entry), value, value_size)
    if kind == OBJECT:
        Py_INCREF(<object>object_of(entry))
    return entry


cdef Entry *remade(Entry *entry, bint expires) except NULL:
    """Return a copy of an entry, with or without room for an expiry time."""
    cdef size_t value_size = sizeof(PyObject *) if entry.kind == OBJECT else entry.value_size
    return new_entry(key_of(entry), entry.key_size, entry.kind, value_at(entry), value_size, expires)


cdef Entry *entry_with(object key, object value, bint expires) except NULL:
    """Return a new entry of this key and value."""
    cdef PyObject *reference = <PyObject *>value
    cdef size_t size
    cdef u8 kind = OBJECT
    if PyBytes_Check(value) and PyBytes_GET_SIZE(value) <= INLINE_SIZE_MAX:
        if PyBytes_CheckExact(value):
            kind = PLAIN
        elif type(value) is EditedText:
            kind = EDITED
        elif type(value) is SumText:
            kind = SUM
    if kind == OBJECT:
        return new_entry(
            PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key), kind, <const char *>&reference, sizeof(reference), expires
        )
    size = PyBytes_GET_SIZE(value)
    return new_entry(PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key), kind, PyBytes_AS_STRING(value), size, expires)


cdef void let_go(Entry *entry) noexcept:
    """Give up one reference to an entry. Freeing a value may run other code."""
    cdef PyObject *value = NULL
    entry.references -= 1
    if entry.references:
        return
    if entry.kind == OBJECT:
        value = object_of(entry)
    PyMem_Free(entry)
    if value != NULL:
        Py_DECREF(<object>value)


cdef void let_go_of_slot(Slot *slot) noexcept:
    cdef u32 index
    slot.references -= 1
    if not slot.references:
        for index in range(slot.count):
            let_go(entries_of(slot)[index])
        PyMem_Free(slot)


cdef inline char *write_text(char *at, const char *text, size_t size) noexcept:
    """Write a bulk string. Returns where it ends."""
    at = write_line(at, c'$', size)
    memcpy(at, text, size)
    at += size
    at[0] = c'\r'
    at[1] = c'\n'
    return at + 2


cdef char *write_apart(list pieces, char *room, char *at, bytes text) except NULL:
    """Append a long text as a piece of its own, after what is written before it. Returns where to continue."""
    at = write_line(at, c'$', PyBytes_GET_SIZE(text))
    pieces.append(PyBytes_FromStringAndSize(room, at - room))
    pieces.append(text)
    room[0] = c'\r'
    room[1] = c'\n'
    return room + 2


@cython.final
@cython.no_gc
cdef class KeyTable:
    """See `key_table_plain.KeyTable`."""

    # NULL until there is a key. A slot without keys is NULL.
    cdef Slot **slots
    cdef Py_ssize_t count
    # See `size`.
    cdef size_t weight
    # Bytes of all slots.
    cdef size_t slots_weight
    # Keys in each group of slots.
    cdef u32 group_counts[GROUP_COUNT]
    # No slot before this one has keys.
    cdef u32 first_slot
    cdef Due *heap
    cdef u32 heap_count
    cdef u32 heap_capacity
    cdef readonly i64 first_due_ms
    # Whether this is the copy that an image reads, whose entries have their places in the heap of the original.
    cdef bint is_copy
    # Entries of the first slot that `take_some` has taken.
    cdef u32 taken_count

    def __cinit__(self):
        self.first_due_ms = NEVER

    def __dealloc__(self):
        cdef u32 number
        if self.slots != NULL:
            for number in range(SLOT_COUNT):
                if self.slots[number] != NULL:
                    let_go_of_slot(self.slots[number])
        PyMem_Free(self.slots)
        PyMem_Free(self.heap)

    # -- finding ---------------------------------------------------------------------------------

    cdef Entry *find(self, object key, Found *found) except? NULL:
        """Return the entry of a key, or NULL. `found` becomes its place, or the place where it would be."""
        cdef u64 code
        cdef Slot *slot
        cdef Entry *entry
        cdef u32 index
        if not PyBytes_Check(key):
            raise TypeError("a key is a byte string")
        code = <u64>PyObject_Hash(key)
        found.number = code & (SLOT_COUNT - 1)
        found.code = <u32>(code >> SLOT_BITS)
        found.index = 0
        slot = self.slots[found.number] if self.slots != NULL else NULL
        if slot == NULL:
            return NULL
        index = lower_bound(slot, found.code)
        found.index = index
        while index < slot.count and codes_of(slot)[index] == found.code:
            entry = entries_of(slot)[index]
            if entry.key_size == <size_t>PyBytes_GET_SIZE(key) and not memcmp(
                key_of(entry), PyBytes_AS_STRING(key), entry.key_size
            ):
                found.index = index
                return entry
            index += 1
        return NULL

    cdef inline Entry *existing(self, object key, Found *found) except NULL:
        cdef Entry *entry = self.find(key, found)
        if entry == NULL:
            raise KeyError(key)
        return entry

    # -- slots -----------------------------------------------------------------------------------

    cdef Slot *resized(self, u32 number, size_t capacity) except NULL:
        """Give a slot another capacity, and to this table alone."""
        cdef Slot *old = self.slots[number]
        cdef Slot *slot = new_slot(capacity)
        cdef u32 index
        if old != NULL:
            slot.count = old.count
            memcpy(entries_of(slot), entries_of(old), old.count * sizeof(Entry *))
            memcpy(codes_of(slot), codes_of(old), old.count * sizeof(u32))
            self.slots_weight -= block_size(slot_size(old.capacity))
            if old.references > 1:
                old.references -= 1
                for index in range(slot.count):
                    entries_of(slot)[index].references += 1
            else:
                PyMem_Free(old)
        self.slots_weight += block_size(slot_size(capacity))
        self.slots[number] = slot
        return slot

    cdef inline Slot *own_slot(self, u32 number) except NULL:
        """Return a slot that no other table shares."""
        cdef Slot *slot = self.slots[number]
        if slot.references > 1:
            slot = self.resized(number, slot.capacity)
        return slot

    cdef int insert(self, Entry *entry, const Found *found) except -1:
        cdef Slot *slot
        cdef size_t after
        if self.slots == NULL:
            self.slots = <Slot **>PyMem_Calloc(SLOT_COUNT, sizeof(Slot *))
            if self.slots == NULL:
                raise MemoryError
            self.slots_weight += block_size(SLOT_COUNT * sizeof(Slot *))
        slot = self.slots[found.number]
        if slot == NULL:
            slot = self.resized(found.number, 1)
        elif slot.count == slot.capacity:
            slot = self.resized(found.number, slot.capacity + (slot.capacity >> 3) + 1)
        else:
            slot = self.own_slot(found.number)
        after = slot.count - found.index
        memmove(entries_of(slot) + found.index + 1, entries_of(slot) + found.index, after * sizeof(Entry *))
        memmove(codes_of(slot) + found.index + 1, codes_of(slot) + found.index, after * sizeof(u32))
        entries_of(slot)[found.index] = entry
        codes_of(slot)[found.index] = found.code
        slot.count += 1
        self.count += 1
        self.group_counts[found.number >> GROUP_BITS] += 1
        self.weight += weight_of(entry)
        if found.number < self.first_slot:
            self.first_slot = found.number
        return 0

    cdef Entry *exchange(self, const Found *found, Entry *entry) except NULL:
        """Put another entry in the place of one, which is returned with the reference of the slot."""
        cdef Slot *slot = self.own_slot(found.number)
        cdef Entry *old = entries_of(slot)[found.index]
        entries_of(slot)[found.index] = entry
        self.weight += weight_of(entry)
        self.weight -= weight_of(old)
        return old

    cdef Entry *extract(self, const Found *found) except NULL:
        """Take an entry out. It is returned with the reference of the slot."""
        cdef Slot *slot = self.own_slot(found.number)
        cdef Entry *entry = entries_of(slot)[found.index]
        cdef size_t after = slot.count - found.index - 1
        if entry.expires and not self.is_copy:
            self.leave_heap(heap_index(entry))
        memmove(entries_of(slot) + found.index, entries_of(slot) + found.index + 1, after * sizeof(Entry *))
        memmove(codes_of(slot) + found.index, codes_of(slot) + found.index + 1, after * sizeof(u32))
        slot.count -= 1
        self.count -= 1
        self.group_counts[found.number >> GROUP_BITS] -= 1
        self.weight -= weight_of(entry)
        if not slot.count:
            self.slots_weight -= block_size(slot_size(slot.capacity))
            PyMem_Free(slot)
            self.slots[found.number] = NULL
        elif slot.capacity > 8 and slot.count < slot.capacity // 2:
            try:
                self.resized(found.number, slot.count + (slot.count >> 3) + 1)
            except MemoryError:
                pass
        return entry

    cdef Entry *extract_any(self) except? NULL:
        """Take out an entry of the first slot that has one; NULL if there is none."""
        cdef Found found
        if not self.count:
            return NULL
        while self.slots[self.first_slot] == NULL:
            self.first_slot += 1
        found.number = self.first_slot
        found.index = self.slots[self.first_slot].count - 1
        return self.extract(&found)

    cdef u32 drop_shared(self) noexcept:
        """Drop the first slot that has keys if another table has it too: its entries are not looked at, and it still
        counts as memory. Returns the number of keys dropped."""
        cdef Slot *slot
        cdef u32 count
        while self.slots[self.first_slot] == NULL:
            self.first_slot += 1
        slot = self.slots[self.first_slot]
        if slot.references == 1:
            return 0
        count = slot.count
        self.slots[self.first_slot] = NULL
        slot.references -= 1
        self.count -= count
        self.group_counts[self.first_slot >> GROUP_BITS] -= count
        return count

    # -- expiry times ----------------------------------------------------------------------------

    cdef inline void place(self, u32 index, Due due) noexcept:
        self.heap[index] = due
        set_heap_index(due.entry, index)

    cdef void sift(self, u32 index, Due due) noexcept:
        """Put an expiry time in the heap, from a free place on: towards the top, or else towards the bottom."""
        cdef u32 parent, child, last, candidate
        while index:
            parent = (index - 1) // ARITY
            if self.heap[parent].time_ms <= due.time_ms:
                break
            self.place(index, self.heap[parent])
            index = parent
        while True:
            child = index * ARITY + 1
            if child >= self.heap_count:
                break
            last = min(child + ARITY, self.heap_count)
            for candidate in range(child + 1, last):
                if self.heap[candidate].time_ms < self.heap[child].time_ms:
                    child = candidate
            if self.heap[child].time_ms >= due.time_ms:
                break
            self.place(index, self.heap[child])
            index = child
        self.place(index, due)
        self.first_due_ms = min(self.heap[0].time_ms, NEVER)

    cdef int reserve_heap(self) except -1:
        """Make room for another expiry time."""
        cdef size_t capacity
        cdef Due *heap
        if self.heap_count < self.heap_capacity:
            return 0
        capacity = self.heap_capacity + (self.heap_capacity >> 3) + 4
        if capacity >> 28:
            raise MemoryError
        heap = <Due *>PyMem_Realloc(self.heap, capacity * sizeof(Due))
        if heap == NULL:
            raise MemoryError
        self.heap, self.heap_capacity = heap, <u32>capacity
        return 0

    cdef void leave_heap(self, u32 index) noexcept:
        cdef size_t capacity
        cdef Due *heap
        cdef Due last
        self.heap_count -= 1
        last = self.heap[self.heap_count]
        if index < self.heap_count:
            self.sift(index, last)
        if not self.heap_count:
            self.first_due_ms = NEVER
        if self.heap_count < self.heap_capacity // 2:
            capacity = self.heap_count + (self.heap_count >> 3) + 4
            heap = <Due *>PyMem_Realloc(self.heap, capacity * sizeof(Due))
            if heap != NULL:
                self.heap, self.heap_capacity = heap, <u32>capacity

    @property
    def expiring_count(self):
        """See `key_table_plain`."""
        return self.heap_count

    def due_ms(self, key):
        """See `key_table_plain`."""
        cdef Found found
        cdef Entry *entry = self.find(key, &found) if self.heap_count or self.is_copy else NULL
        return due_of(entry) if entry != NULL and entry.expires else None

    def expire_at(self, key, i64 time_ms):
        """See `key_table_plain`."""
        cdef Found found
        cdef Entry *entry = self.existing(key, &found)
        cdef Entry *old
        cdef Due due
        cdef u32 index
        self.own_slot(found.number)
        if not entry.expires:
            self.reserve_heap()
        if not entry.expires or entry.references > 1:
            old = entry
            entry = remade(old, True)
            index = heap_index(old) if old.expires else self.heap_count
            self.heap_count += not old.expires
            let_go(self.exchange(&found, entry))
        else:
            index = heap_index(entry)
        memcpy(<char *>entry + HEADER_SIZE, &time_ms, sizeof(time_ms))
        due.time_ms = time_ms
        due.entry = entry
        self.sift(index, due)

    def persist(self, key):
        """See `key_table_plain`."""
        cdef Found found
        cdef Entry *entry = self.find(key, &found) if self.heap_count else NULL
        cdef Entry *lasting
        if entry == NULL or not entry.expires:
            return False
        self.own_slot(found.number)
        lasting = remade(entry, False)
        self.leave_heap(heap_index(entry))
        let_go(self.exchange(&found, lasting))
        return True

    def first_due(self):
        """See `key_table_plain`."""
        return key_text(self.heap[0].entry) if self.heap_count else None

    def expiring(self):
        """See `key_table_plain`."""
        cdef u32 index
        return [key_text(self.heap[index].entry) for index in range(self.heap_count)]

    def due_times(self, u32 count):
        """See `key_table_plain`."""
        cdef u32 index
        count = min(count, self.heap_count)
        return [self.heap[<u64>index * self.heap_count // count].time_ms for index in range(count)]

    # -- reading ---------------------------------------------------------------------------------

    def __len__(self):
        return self.count

    def __contains__(self, key):
        cdef Found found
        return self.find(key, &found) != NULL

    def __getitem__(self, key):
        cdef Found found
        return value_of(self.existing(key, &found))

    def get(self, key):
        """See `key_table_plain`."""
        cdef Found found
        cdef Entry *entry = self.find(key, &found)
        return None if entry == NULL else value_of(entry)

    def get_live(self, key, i64 now_ms):
        """See `key_table_plain`."""
        cdef Found found
        cdef Entry *entry = self.find(key, &found)
        if entry == NULL or (entry.expires and due_of(entry) < now_ms):
            return None
        return value_of(entry)

    cdef list keys_of(self, u32 number):
        cdef Slot *slot = self.slots[number] if self.slots != NULL else NULL
        cdef u32 index
        if slot == NULL:
            return []
        return [key_text(entries_of(slot)[index]) for index in range(slot.count)]

    def __iter__(self):
        cdef u32 number
        for number in range(SLOT_COUNT if self.slots != NULL else 0):
            if self.slots[number] != NULL:
                yield from self.keys_of(number)

    def beginning(self, bytes prefix not None):
        """See `key_table_plain`."""
        cdef const char *start = PyBytes_AS_STRING(prefix)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(prefix)
        cdef list found = []
        cdef u32 number, index
        cdef Slot *slot
        cdef Entry *entry
        for number in range(SLOT_COUNT if self.slots != NULL else 0):
            slot = self.slots[number]
            if slot == NULL:
                continue
            for index in range(slot.count):
                entry = entries_of(slot)[index]
                if entry.key_size >= size and memcmp(key_of(entry), start, size) == 0:
                    found.append(key_text(entry))
        return found

    def items(self):
        """See `key_table_plain`."""
        cdef u32 number, index
        cdef Slot *slot
        for number in range(SLOT_COUNT if self.slots != NULL else 0):
            slot = self.slots[number]
            if slot != NULL:
                pairs = []
                for index in range(slot.count):
                    pairs.append((key_text(entries_of(slot)[index]), value_of(entries_of(slot)[index])))
                yield from pairs

    def words(self):
        """See `key_table_plain`."""
        cdef list words = []
        cdef u32 number, index
        cdef Slot *slot
        for number in range(SLOT_COUNT if self.slots != NULL else 0):
            slot = self.slots[number]
            if slot != NULL:
                for index in range(slot.count):
                    words.append(key_text(entries_of(slot)[index]))
                    words.append(value_of(entries_of(slot)[index]))
        return words

    def values(self):
        """See `key_table_plain`."""
        cdef list values = []
        cdef u32 number, index
        cdef Slot *slot
        for number in range(SLOT_COUNT if self.slots != NULL else 0):
            slot = self.slots[number]
            if slot != NULL:
                for index in range(slot.count):
                    values.append(value_of(entries_of(slot)[index]))
        return values

    def bulks(self, u32 start, bint has_keys, bint has_values):
        """See `key_table_plain`."""
        cdef list pieces = []
        cdef char *room
        cdef char *at
        cdef char *end
        cdef u32 number, index
        cdef Slot *slot
        cdef Entry *entry
        cdef PyObject *value
        if self.slots == NULL or start >= SLOT_COUNT:
            return pieces, 0
        at = room = <char *>PyMem_Malloc(BULKS_SIZE)
        if room == NULL:
            raise MemoryError
        end = room + BULKS_SIZE
        try:
            for number in range(start, SLOT_COUNT):
                if pieces or at - room >= BULKS_SIZE // 2:
                    pieces.append(PyBytes_FromStringAndSize(room, at - room))
                    return pieces, number
                slot = self.slots[number]
                for index in range(slot.count if slot != NULL else 0):
                    entry = entries_of(slot)[index]
                    if end - at < 2 * INLINE_SIZE_MAX + 4 * BULK_FRAME_SIZE_MAX:
                        pieces.append(PyBytes_FromStringAndSize(room, at - room))
                        at = room
                    if has_keys and entry.key_size <= INLINE_SIZE_MAX:
                        at = write_text(at, key_of(entry), entry.key_size)
                    elif has_keys:
                        at = write_apart(pieces, room, at, key_text(entry))
                    if has_values and entry.kind == OBJECT:
                        value = object_of(entry)
                        at = write_apart(pieces, room, at, bytes(<object>value))
                    elif has_values:
                        at = write_text(at, value_at(entry), entry.value_size)
            pieces.append(PyBytes_FromStringAndSize(room, at - room))
        finally:
            PyMem_Free(room)
        return pieces, 0

    def scan(self, u64 cursor, Py_ssize_t count):
        """See `key_slots.KeySlots`."""
        cdef list found = []
        return found, self.scan_into(found, cursor, count, False)

    def keys(self):
        """See `key_table_plain`."""
        cdef list found = []
        self.scan_into(found, 0, self.count, False)
        return found

    def scan_words(self, u64 cursor, Py_ssize_t count):
        """See `key_table_plain`."""
        cdef list found = []
        return found, self.scan_into(found, cursor, count, True)

    cdef u64 scan_into(self, list found, u64 cursor, Py_ssize_t count, bint has_values) except? 1:
        """Append about `count` keys from a cursor on, each with its value after it if `has_values` is set. Returns the
        next cursor."""
        cdef Py_ssize_t left = count
        cdef u64 number = cursor >> PLACE_BITS
        cdef u32 index, *codes
        cdef Slot *slot
        if self.slots == NULL or number >= SLOT_COUNT:
            return 0
        slot = self.slots[number]
        index = 0 if slot == NULL else lower_bound(slot, <u32>cursor)
        while True:
            if slot != NULL:
                codes = codes_of(slot)
                while index < slot.count:
                    # Keys of one place are returned together; otherwise the next call would skip some of them.
                    if left <= 0 and (not index or codes[index] != codes[index - 1]):
                        return number << PLACE_BITS | codes[index]
                    found.append(key_text(entries_of(slot)[index]))
                    if has_values:
                        found.append(value_of(entries_of(slot)[index]))
                    left -= 1
                    index += 1
            number += 1
            if number == SLOT_COUNT:
                return 0
            slot = self.slots[number]
            index = 0

    cdef int locate(self, Py_ssize_t index, Found *found) except -1:
        """Set the slot and the index in it of the key at `index` in the order of all keys."""
        cdef u32 group = 0, number
        if not 0 <= index < self.count:
            raise IndexError(index)
        while index >= self.group_counts[group]:
            index -= self.group_counts[group]
            group += 1
        number = group << GROUP_BITS
        while self.slots[number] == NULL or index >= self.slots[number].count:
            if self.slots[number] != NULL:
                index -= self.slots[number].count
            number += 1
        found.number, found.index = number, <u32>index
        return 0

    def neighbours(self, Py_ssize_t index):
        """See `key_slots.KeySlots`."""
        cdef Found found
        self.locate(index, &found)
        keys = self.keys_of(found.number)
        return keys[found.index:] + keys[:found.index]

    def keys_at(self, list indexes not None):
        """See `key_table_plain`."""
        # The number of keys in the slots before each slot.
        cdef u32 starts[SLOT_COUNT + 1]
        cdef u32 number, low = 0, high, count = 0
        cdef i64 index
        cdef list found = []
        cdef Found place
        if len(indexes) <= FEW_INDEXES:
            for index in indexes:
                self.locate(index, &place)
                found.append(key_text(entries_of(self.slots[place.number])[place.index]))
            return found
        for number in range(SLOT_COUNT):
            starts[number] = count
            if self.slots != NULL and self.slots[number] != NULL:
                count += self.slots[number].count
        starts[SLOT_COUNT] = count
        for index in indexes:
            if not 0 <= index < count:
                raise IndexError(index)
            # Ascending indexes are near each other.
            high = min(low + NEAR_SLOTS, <u32>SLOT_COUNT)
            if starts[low] <= index < starts[high]:
                while starts[low + 1] <= index:
                    low += 1
            else:
                low, high = 0, SLOT_COUNT
            while starts[low + 1] <= index or starts[low] > index:
                number = (low + high) // 2
                if starts[number] <= index:
                    low = number
                else:
                    high = number
            found.append(key_text(entries_of(self.slots[low])[index - starts[low]]))
        return found

    def fetch_soon(self, list requests not None):
        """See `key_table_plain`."""
        cdef Slot *slots[FETCHED_MAX]
        cdef Entry *entries[FETCHED_MAX]
        cdef PyObject *values[FETCHED_MAX]
        cdef PyObject *value
        cdef u32 codes[FETCHED_MAX]
        cdef Py_ssize_t count = 0, index, found = 0
        cdef u64 code
        cdef u32 at
        if self.slots == NULL:
            return
        for index in range(min(len(requests), <Py_ssize_t>FETCHED_MAX)):
            request = requests[index]
            if type(request) is not list or len(<list>request) < 2:
                continue
            key = (<list>request)[1]
            if not PyBytes_CheckExact(key):
                continue
            code = <u64>PyObject_Hash(key)
            slots[count] = self.slots[code & (SLOT_COUNT - 1)]
            if slots[count] != NULL:
                FETCH_SOON(slots[count])
                codes[count] = <u32>(code >> SLOT_BITS)
                count += 1
        for index in range(count):
            at = lower_bound(slots[index], codes[index])
            if at < slots[index].count and codes_of(slots[index])[at] == codes[index]:
                entries[found] = entries_of(slots[index])[at]
                FETCH_SOON(entries[found])
                found += 1
        count = 0
        for index in range(found):
            if entries[index].kind == OBJECT:
                value = object_of(entries[index])
                if not count or values[count - 1] != value:
                    values[count] = value
                    FETCH_SOON(value)
                    FETCH_SOON(<char *>value + LINE_SIZE)
                    count += 1
        # The members of a value are in objects of their own.
        for index in range(count):
            at = REFERRED_MAX
            if Py_TYPE(values[index]).tp_traverse != NULL:
                Py_TYPE(values[index]).tp_traverse(values[index], fetch_referred, &at)

    # -- sizes -----------------------------------------------------------------------------------

    @property
    def size(self):
        """See `key_table_plain`."""
        return self.weight

    @property
    def memory_size(self):
        """See `key_table_plain`."""
        return self.slots_weight

    @property
    def expiry_size(self):
        """See `key_table_plain`."""
        return block_size(self.heap_capacity * sizeof(Due)) if self.heap_capacity else 0

    def key_size(self, key):
        """See `key_table_plain`."""
        cdef Found found
        return weight_of(self.existing(key, &found))

    # -- changing --------------------------------------------------------------------------------

    def put(self, key, value, bint keep_expiry=False):
        """See `key_table_plain`."""
        return bool(self.store(key, value, keep_expiry))

    cdef int store(self, key, value, bint keep_expiry) except -1:
        """Store a value. Returns whether the key is new."""
        cdef Found found
        cdef Entry *old = self.find(key, &found)
        cdef Entry *entry
        cdef i64 time_ms
        cdef bint expires = keep_expiry and old != NULL and old.expires
        entry = entry_with(key, value, expires)
        try:
            if old == NULL:
                self.insert(entry, &found)
                return 1
            self.own_slot(found.number)
        except MemoryError:
            let_go(entry)
            raise
        if expires:
            memcpy(<char *>entry + HEADER_SIZE, <char *>old + HEADER_SIZE, DUE_SIZE)
            self.heap[heap_index(old)].entry = entry
        elif old.expires:
            self.leave_heap(heap_index(old))
        let_go(self.exchange(&found, entry))
        return 0

    def put_keys(self, list keys not None):
        """See `key_table_plain`."""
        cdef Found found
        cdef Entry *entry
        cdef Py_ssize_t count = self.count
        cdef bytes empty = b""
        for key in keys:
            if self.find(key, &found) == NULL:
                entry = entry_with(key, empty, False)
                try:
                    self.insert(entry, &found)
                except MemoryError:
                    let_go(entry)
                    raise
        return self.count - count

    def put_words(self, list words not None):
        """See `key_table_plain`."""
        cdef Py_ssize_t count = self.count, index
        for index in range(0, len(words) - 1, 2):
            self.store(words[index], words[index + 1], True)
        return self.count - count

    def add_many(self, list values not None):
        """See `key_table_plain`."""
        cdef Found found
        cdef Entry *entry
        cdef Due due
        cdef bint expires
        cdef object key, value, expires_ms
        for key, value, expires_ms in values:
            if self.find(key, &found) != NULL:
                return key
            expires = expires_ms is not None
            if expires:
                due.time_ms = expires_ms
                self.reserve_heap()
            entry = entry_with(key, value, expires)
            try:
                self.insert(entry, &found)
            except MemoryError:
                let_go(entry)
                raise
            if expires:
                memcpy(<char *>entry + HEADER_SIZE, &due.time_ms, sizeof(due.time_ms))
                due.entry = entry
                self.heap_count += 1
                self.sift(self.heap_count - 1, due)
        return None

    def splice(self, key, Py_ssize_t offset, bytes piece):
        """See `key_table_plain`."""
        cdef Found found
        cdef Entry *entry = self.existing(key, &found)
        cdef PyObject *text
        if entry.kind != OBJECT or entry.references > 1 or self.slots[found.number].references > 1:
            return False
        text = object_of(entry)
        self.weight -= weight_of(entry)
        try:
            return spliced_in_place(&text, offset, piece)
        finally:
            memcpy(value_at(entry), &text, sizeof(text))
            self.weight += weight_of(entry)

    def pop(self, key):
        """See `key_table_plain`."""
        cdef Found found
        cdef Entry *entry = self.find(key, &found)
        if entry == NULL:
            return None
        value = value_of(entry)
        let_go(self.extract(&found))
        return value

    cdef void fetch_entries(self, list keys, Py_ssize_t start, Py_ssize_t stop) noexcept:
        """Have the processor fetch the entries of some keys, `FETCHED_MAX` at most, all at once: see `fetch_soon`."""
        cdef Slot *slots[FETCHED_MAX]
        cdef u32 codes[FETCHED_MAX]
        cdef Py_ssize_t index, count = 0
        cdef PyObject *key
        cdef u64 code
        cdef u32 at
        if self.slots == NULL:
            return
        for index in range(start, stop):
            key = PyList_GET_ITEM(keys, index)
            if not PyBytes_CheckExact(<object>key):
                continue
            code = <u64>PyObject_Hash(<object>key)
            slots[count], codes[count] = self.slots[code & (SLOT_COUNT - 1)], <u32>(code >> SLOT_BITS)
            if slots[count] != NULL:
                FETCH_SOON(slots[count])
                count += 1
        for index in range(count):
            at = <u32>((<u64>codes[index] * slots[index].count) >> 32)
            FETCH_SOON(codes_of(slots[index]) + at)
            FETCH_SOON(entries_of(slots[index]) + at)
        for index in range(count):
            at = lower_bound(slots[index], codes[index])
            if at < slots[index].count:
                FETCH_SOON(entries_of(slots[index])[at])

    def get_keys(self, list keys not None):
        """See `key_table_plain`."""
        cdef Found found
        cdef Entry *entry
        cdef Py_ssize_t start, stop, index
        cdef list values = []
        for start in range(0, len(keys), FETCHED_MAX):
            stop = min(start + FETCHED_MAX, len(keys))
            self.fetch_entries(keys, start, stop)
            for index in range(start, stop):
                entry = self.find(keys[index], &found)
                values.append(None if entry == NULL else value_of(entry))
        return values

    def having(self, list keys not None, bint wanted):
        """See `key_table_plain`."""
        cdef Found found
        cdef Py_ssize_t start, stop, index
        cdef list kept = []
        for start in range(0, len(keys), FETCHED_MAX):
            stop = min(start + FETCHED_MAX, len(keys))
            self.fetch_entries(keys, start, stop)
            for index in range(start, stop):
                if (self.find(keys[index], &found) != NULL) == wanted:
                    kept.append(keys[index])
        return kept

    def pop_keys(self, list keys not None):
        """See `key_table_plain`."""
        cdef Py_ssize_t start, stop, index
        cdef list values = []
        for start in range(0, len(keys), FETCHED_MAX):
            stop = min(start + FETCHED_MAX, len(keys))
            self.fetch_entries(keys, start, stop)
            for index in range(start, stop):
                values.append(self.pop(keys[index]))
        return values

    # -- whole -----------------------------------------------------------------------------------

    def copy(self):
        """See `key_table_plain`."""
        cdef KeyTable twin = KeyTable.__new__(KeyTable)
        cdef u32 number
        twin.is_copy = True
        if self.slots == NULL:
            return twin
        twin.slots = <Slot **>PyMem_Malloc(SLOT_COUNT * sizeof(Slot *))
        if twin.slots == NULL:
            raise MemoryError
        memcpy(twin.slots, self.slots, SLOT_COUNT * sizeof(Slot *))
        for number in range(SLOT_COUNT):
            if self.slots[number] != NULL:
                self.slots[number].references += 1
        twin.count, twin.weight, twin.slots_weight = self.count, self.weight, self.slots_weight
        memcpy(twin.group_counts, self.group_counts, sizeof(self.group_counts))
        return twin

    def take_some(self, Py_ssize_t count):
        """See `key_table_plain`."""
        cdef list strings = [], others = []
        cdef dict expires = {}
        cdef Slot *slot
        cdef Entry *entry
        if not self.is_copy:
            raise ValueError("only a copy is taken apart")
        while count > 0 and self.count:
            slot = self.slots[self.first_slot]
            if slot == NULL:
                self.first_slot += 1
                continue
            entry = entries_of(slot)[self.taken_count]
            key, value = key_text(entry), value_of(entry)
            (strings if PyBytes_Check(value) else others).append((key, value))
            if entry.expires:
                expires[key] = due_of(entry)
            self.taken_count += 1
            self.count -= 1
            self.group_counts[self.first_slot >> GROUP_BITS] -= 1
            count -= 1
            # A slot is dropped as a whole: to take entries out of it one by one, it would have to be copied.
            if self.taken_count == slot.count:
                self.taken_count = 0
                self.slots[self.first_slot] = NULL
                let_go_of_slot(slot)
        return strings, others, expires

    def give_back(self, Py_ssize_t count):
        """See `key_table_plain`."""
        cdef list values = []
        cdef Entry *entry
        cdef u32 dropped
        while count > 0:
            if self.count and (self.is_copy or not self.heap_count):
                dropped = self.drop_shared()
                if dropped:
                    count -= dropped
                    continue
            count -= 1
            entry = self.extract_any()
            if entry == NULL:
                break
            if entry.kind == OBJECT:
                values.append(value_of(entry))
            let_go(entry)
        return values

    def check(self):
        """See `key_table_plain`."""
        cdef u32 number, index
        cdef size_t weight = 0, slots_weight = 0
        cdef Py_ssize_t count = 0
        cdef u32 expiring_count = 0
        cdef u32 group_counts[GROUP_COUNT]
        cdef Slot *slot
        cdef Entry *entry
        memset(group_counts, 0, sizeof(group_counts))
        for number in range(SLOT_COUNT if self.slots != NULL else 0):
            slot = self.slots[number]
            if slot == NULL:
                continue
            group_counts[number >> GROUP_BITS] += slot.count
            assert 0 < slot.count <= slot.capacity
            assert number >= self.first_slot
            slots_weight += block_size(slot_size(slot.capacity))
            for index in range(slot.count):
                entry = entries_of(slot)[index]
                code = hash(key_text(entry))
                assert code & (SLOT_COUNT - 1) == number
                assert code >> SLOT_BITS & 0xFFFFFFFF == codes_of(slot)[index]
                assert not index or codes_of(slot)[index - 1] <= codes_of(slot)[index]
                weight += weight_of(entry)
                count += 1
                if entry.expires and not self.is_copy:
                    expiring_count += 1
                    assert self.heap[heap_index(entry)].entry == entry
                    assert self.heap[heap_index(entry)].time_ms == due_of(entry)
        if self.slots != NULL:
            slots_weight += block_size(SLOT_COUNT * sizeof(Slot *))
        assert (count, weight, slots_weight) == (self.count, self.weight, self.slots_weight)
        if not self.is_copy:
            assert memcmp(group_counts, self.group_counts, sizeof(group_counts)) == 0
        assert expiring_count == self.heap_count
        for index in range(1, self.heap_count):
            assert self.heap[(index - 1) // ARITY].time_ms <= self.heap[index].time_ms
        assert self.first_due_ms == (min(self.heap[0].time_ms, NEVER) if self.heap_count else NEVER)


@cython.final
@cython.no_gc
cdef class ExpiryTimes:
    """See `key_table_plain.ExpiryTimes`."""

    cdef KeyTable table

    def __init__(self, KeyTable table not None):
        self.table = table

    def __len__(self):
        return self.table.heap_count

    def __contains__(self, key):
        cdef Found found
        cdef Entry *entry = self.table.find(key, &found) if self.table.heap_count else NULL
        return entry != NULL and entry.expires

    def __iter__(self):
        return iter(self.table.expiring())

    def __getitem__(self, key):
        time_ms = self.table.due_ms(key)
        if time_ms is None:
            raise KeyError(key)
        return time_ms

    def __setitem__(self, key, time_ms):
        self.table.expire_at(key, time_ms)

    def __delitem__(self, key):
        if not self.table.persist(key):
            raise KeyError(key)

    def get(self, key, default=None):
        """See `key_table_plain`."""
        time_ms = self.table.due_ms(key)
        return default if time_ms is None else time_ms

    def pop(self, key, default=None):
        """See `key_table_plain`."""
        time_ms = self.table.due_ms(key)
        if time_ms is None:
            return default
        self.table.persist(key)
        return time_ms

    def values(self):
        """See `key_table_plain`."""
        return self.table.due_times(self.table.heap_count)
