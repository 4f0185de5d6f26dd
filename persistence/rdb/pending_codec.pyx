# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Pending entries in RDB files, for installations with a C compiler: `pending_codec_plain` in C.

Both modules behave alike and are tested by the same tests; `groups` imports this one if it was built.
"""

from cpython cimport array
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdlib cimport qsort
from libc.string cimport memcpy

from headrace.persistence.errors import RdbError

include "../../store/packed_id.pxi"
include "numbers.pxi"

cdef enum:
    ID_SIZE = 16
    # Of an entry with the longest delivery count.
    ENTRY_SIZE_MAX = 33
    # Stands for no owner.
    NO_OWNER = -1
    RELEASED = -2

cdef i64 DELIVERY_COUNT_MAX = 0x7FFFFFFFFFFFFFFF


cdef struct Entry:
    Place id
    i64 time_ms
    i64 count
    # The number of a consumer, NO_OWNER or RELEASED.
    Py_ssize_t owner


cdef class PendingEncoder:
    """See `pending_codec_plain.PendingEncoder`."""

    cdef list owned_ids

    def __init__(self, Py_ssize_t consumers_count):
        self.owned_ids = [bytearray() for _ in range(consumers_count)]

    def add(
        self, array.array ms not None, array.array seq not None, array.array times not None,
        array.array counts not None, array.array owners not None,
    ):
        """See `pending_codec_plain.PendingEncoder`."""
        cdef Py_ssize_t count = len(ms), row, owner
        cdef bytes made = PyBytes_FromStringAndSize(NULL, count * ENTRY_SIZE_MAX)
        cdef unsigned char *start = <unsigned char *>PyBytes_AS_STRING(made)
        cdef unsigned char *at = start
        if len(seq) != count or len(times) != count or len(counts) != count or len(owners) != count:
            raise ValueError("columns of different entries")
        if ms.itemsize != 8 or seq.itemsize != 8 or times.itemsize != 8 or counts.itemsize != 8 or owners.itemsize != 8:
            raise ValueError("columns of different entries")
        for row in range(count):
            owner = <Py_ssize_t>owners.data.as_longlongs[row]
            if owner >= len(self.owned_ids):
                raise IndexError("no such consumer")
            write_big(at, ms.data.as_ulonglongs[row], 8)
            write_big(at + 8, seq.data.as_ulonglongs[row], 8)
            if owner >= 0:
                append(self.owned_ids[owner], at)
            write_little(at + ID_SIZE, <u64>times.data.as_longlongs[row], 8)
            at = write_length(at + ID_SIZE + 8, counts.data.as_ulonglongs[row])
        return made[: at - start]

    def owned(self, Py_ssize_t number):
        """See `pending_codec_plain.PendingEncoder`."""
        if not 0 <= number < len(self.owned_ids):
            raise IndexError("no such consumer")
        owned = bytes(self.owned_ids[number])
        self.owned_ids[number] = bytearray()
        return owned


def encode_ids(list ids not None):
    """See `pending_codec_plain`."""
    cdef bytes made = PyBytes_FromStringAndSize(NULL, len(ids) * ID_SIZE)
    cdef unsigned char *at = <unsigned char *>PyBytes_AS_STRING(made)
    cdef Place place
    cdef object entry_id
    for entry_id in ids:
        read_place(entry_id, &place)
        write_big(at, place.ms, 8)
        write_big(at + 8, place.seq, 8)
        at += ID_SIZE
    return made


cdef inline int append(bytearray ids, const unsigned char *entry_id) except -1:
    """Append an ID of 16 bytes."""
    cdef Py_ssize_t size = PyByteArray_GET_SIZE(ids)
    PyByteArray_Resize(ids, size + ID_SIZE)
    memcpy(PyByteArray_AS_STRING(ids) + size, entry_id, ID_SIZE)
    return 0


cdef class PendingDecoder:
    """See `pending_codec_plain.PendingDecoder`."""

    cdef Entry *entries
    cdef Py_ssize_t count
    cdef Py_ssize_t room
    cdef Py_ssize_t owned_count
    # Whether the entries are in the order of their IDs, each once.
    cdef bint is_ordered
    # The place after the entry that was found last.
    cdef Py_ssize_t hint
    cdef list released

    def __init__(self):
        self.is_ordered, self.released = True, []

    def __dealloc__(self):
        PyMem_Free(self.entries)

    def add(self, bytes block not None, Py_ssize_t position, Py_ssize_t count):
        """See `pending_codec_plain.PendingDecoder`."""
        cdef const unsigned char *start = <const unsigned char *>PyBytes_AS_STRING(block)
        cdef const unsigned char *at = start + position
        cdef const unsigned char *end = start + PyBytes_GET_SIZE(block)
        cdef u64 deliveries = 0
        cdef Py_ssize_t taken = 0
        if not 0 <= position <= PyBytes_GET_SIZE(block):
            raise IndexError("no such position")
        while taken < count and end - at >= ENTRY_SIZE_MAX:
            start = at
            at += ID_SIZE + 8
            if not read_length(&at, end, &deliveries):
                raise RdbError("A length was expected in an entry of a PEL")
            self.append(start, <i64>read_little(start + ID_SIZE, 8), deliveries)
            taken += 1
        return taken, at - <const unsigned char *>PyBytes_AS_STRING(block)

    def add_one(self, bytes entry_id not None, i64 time_ms, u64 count):
        """See `pending_codec_plain.PendingDecoder`."""
        if PyBytes_GET_SIZE(entry_id) != ID_SIZE:
            raise ValueError("an ID of another size")
        self.append(<const unsigned char *>PyBytes_AS_STRING(entry_id), time_ms, count)

    cdef int append(self, const unsigned char *entry_id, i64 time_ms, u64 count) except -1:
        cdef Entry *entry
        cdef void *moved
        if self.count == self.room:
            moved = PyMem_Realloc(self.entries, (self.room + (self.room >> 1) + 64) * sizeof(Entry))
            if moved == NULL:
                raise MemoryError
            self.entries = <Entry *>moved
            self.room += (self.room >> 1) + 64
        entry = &self.entries[self.count]
        entry.id = id_at(entry_id)
        entry.time_ms, entry.count, entry.owner = time_ms, <i64>min(count, <u64>DELIVERY_COUNT_MAX), NO_OWNER
        if self.count and not is_less(&self.entries[self.count - 1].id, &entry.id):
            self.is_ordered = False
        self.count += 1
        return 0

    cdef int settle(self) except -1:
        """Put the entries in the order of their IDs. Raises RdbError if one is there twice."""
        cdef Py_ssize_t index
        if self.is_ordered:
            return 0
        qsort(self.entries, self.count, sizeof(Entry), compare_ids)
        for index in range(1, self.count):
            if not is_less(&self.entries[index - 1].id, &self.entries[index].id):
                raise RdbError("Duplicated global PEL entry loading a stream consumer group")
        self.is_ordered = True
        return 0

    cdef Entry *find(self, const unsigned char *entry_id) noexcept:
        """Return the entry with this ID, NULL if there is none. IDs are mostly looked up in their order."""
        cdef Place place = id_at(entry_id)
        cdef Py_ssize_t low = 0, high = self.count, middle
        if self.hint < self.count and not is_less(&self.entries[self.hint].id, &place):
            if not is_less(&place, &self.entries[self.hint].id):
                low = high = self.hint
        while low < high:
            middle = (low + high) >> 1
            if is_less(&self.entries[middle].id, &place):
                low = middle + 1
            else:
                high = middle
        self.hint = low + 1
        return &self.entries[low] if low < self.count and not is_less(&place, &self.entries[low].id) else NULL

    def own(self, bytes ids not None, Py_ssize_t number):
        """See `pending_codec_plain.PendingDecoder`."""
        cdef const unsigned char *at = <const unsigned char *>PyBytes_AS_STRING(ids)
        cdef Py_ssize_t index
        cdef Entry *entry
        require_ids(ids)
        self.settle()
        for index in range(PyBytes_GET_SIZE(ids) // ID_SIZE):
            entry = self.find(at + ID_SIZE * index)
            if entry == NULL:
                raise RdbError("Consumer entry not found in group global PEL")
            if entry.owner != NO_OWNER:
                raise RdbError("Duplicated consumer PEL entry loading a stream consumer group")
            entry.owner = number
        self.owned_count += PyBytes_GET_SIZE(ids) // ID_SIZE

    def release(self, bytes ids not None):
        """See `pending_codec_plain.PendingDecoder`."""
        cdef const unsigned char *at = <const unsigned char *>PyBytes_AS_STRING(ids)
        cdef Py_ssize_t index
        cdef Entry *entry
        require_ids(ids)
        self.settle()
        for index in range(PyBytes_GET_SIZE(ids) // ID_SIZE):
            entry = self.find(at + ID_SIZE * index)
            if entry == NULL or entry.owner != NO_OWNER:
                raise RdbError("Released entry is not in the group's PEL, is duplicated, or has an owner")
            entry.owner = RELEASED
            self.released.append((make_id(&entry.id), entry.count))

    def finish(self):
        """See `pending_codec_plain.PendingDecoder`."""
        cdef Py_ssize_t index, before
        cdef Entry *entry
        cdef Entry *last = NULL
        cdef list runs = [], ids = []
        cdef bint is_by_time = True
        self.settle()
        if self.owned_count + len(self.released) != self.count:
            raise RdbError("Pending entry without an owner that has not been released")
        for index in range(1, self.count):
            is_by_time = is_by_time and self.entries[index - 1].time_ms <= self.entries[index].time_ms
        if not is_by_time:
            qsort(self.entries, self.count, sizeof(Entry), compare_times)
        for index in range(self.count):
            entry = &self.entries[index]
            if entry.owner == RELEASED:
                continue
            if last == NULL or not is_shared(entry, last):
                ids = []
                runs.append((ids, entry.owner, entry.time_ms, entry.count))
            ids.append(make_id(&entry.id))
            last = entry
        return runs, self.released


cdef int require_ids(bytes ids) except -1:
    if PyBytes_GET_SIZE(ids) % ID_SIZE:
        raise ValueError("IDs of another size")
    return 0


cdef inline Place id_at(const unsigned char *at) noexcept:
    cdef Place place
    place.ms, place.seq = read_big(at, 8), read_big(at + 8, 8)
    return place


cdef inline bint is_less(const Place *one, const Place *other) noexcept nogil:
    return one.ms < other.ms or (one.ms == other.ms and one.seq < other.seq)


cdef inline bint is_shared(const Entry *one, const Entry *other) noexcept:
    return one.owner == other.owner and one.time_ms == other.time_ms and one.count == other.count


cdef int compare_ids(const void *one, const void *other) noexcept nogil:
    if is_less(&(<const Entry *>one).id, &(<const Entry *>other).id):
        return -1
    return is_less(&(<const Entry *>other).id, &(<const Entry *>one).id)


cdef int compare_times(const void *one, const void *other) noexcept nogil:
    cdef i64 time_ms = (<const Entry *>one).time_ms, other_ms = (<const Entry *>other).time_ms
    if time_ms != other_ms:
        return -1 if time_ms < other_ms else 1
    return compare_ids(one, other)
