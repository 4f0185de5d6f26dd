# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The pairs of an idempotent producer, for installations with a C compiler: `producer_plain` in C.

Both modules behave alike and are tested by the same tests; `idempotence` imports this one if it was built.

A pair is a block of memory: 28 bytes and the idempotent ID. A ring has the blocks in their order (8 bytes a pair), and an
index, open addressing with linear probing, leads from a hash to a place in the ring (5 to 11 bytes a pair). A copy, for
an image, has a ring and an index of its own, and shares the blocks.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject_Hash
from libc.string cimport memcmp, memcpy

from xxhash import xxh3_128_digest

ctypedef unsigned int u32
ctypedef unsigned char u8

include "packed_id.pxi"

cdef enum:
    # Pairs of a producer: so many that places in the ring fit 32 bits. The directive allows fewer.
    PAIRS_MAX = 1 << 30
    BLOCK_SIZE = 16

cdef struct Pair:
    Place entry
    # Producers that have the pair: more than one after a copy.
    u32 references
    # Of the idempotent ID, which follows.
    u32 hash
    u32 size

cdef enum:
    PAIR_SIZE = 28


cdef inline char *text_of(Pair *pair) noexcept:
    return <char *>pair + PAIR_SIZE


cdef inline size_t rounded(size_t size) noexcept:
    return (size + BLOCK_SIZE - 1) & ~<size_t>(BLOCK_SIZE - 1)


cdef inline void let_go(Pair *pair) noexcept:
    pair.references -= 1
    if not pair.references:
        PyMem_Free(pair)


@cython.final
@cython.no_gc
cdef class Producer:
    """See `producer_plain.Producer`."""

    cdef Pair **ring
    cdef u32 capacity
    # The place of the oldest pair.
    cdef u32 first
    cdef u32 count
    # Places in the ring, counted from 1; 0 is free. The length is a power of two.
    cdef u32 *index
    cdef u32 mask
    # Bytes of all pairs.
    cdef size_t pairs_size

    def __dealloc__(self):
        cdef u32 number
        for number in range(self.count):
            let_go(self.pair_at(number))
        PyMem_Free(self.ring)
        PyMem_Free(self.index)

    cdef inline u32 place_of(self, u32 number) noexcept:
        """Return the place in the ring of the pair that is `number` younger than the oldest."""
        cdef size_t place = <size_t>self.first + number
        return <u32>(place if place < self.capacity else place - self.capacity)

    cdef inline Pair *pair_at(self, u32 number) noexcept:
        return self.ring[self.place_of(number)]

    cdef inline Py_ssize_t cell_of(self, bytes iid) except? -1:
        """Return where the index has this ID, -1 if it does not."""
        cdef u32 code, cell
        cdef Pair *pair
        code = <u32>PyObject_Hash(iid)
        if not self.count:
            return -1
        cell = code & self.mask
        while self.index[cell]:
            pair = self.ring[self.index[cell] - 1]
            if pair.hash == code and pair.size == PyBytes_GET_SIZE(iid):
                if not memcmp(text_of(pair), PyBytes_AS_STRING(iid), pair.size):
                    return cell
            cell = (cell + 1) & self.mask
        return -1

    cdef inline void add_to_index(self, u32 place) noexcept:
        cdef u32 cell = self.ring[place].hash & self.mask
        while self.index[cell]:
            cell = (cell + 1) & self.mask
        self.index[cell] = place + 1

    cdef void drop_from_index(self, u32 cell) noexcept:
        """Free a cell, and move those after it that are there only because it was taken."""
        cdef u32 other = cell, home
        while True:
            other = (other + 1) & self.mask
            if not self.index[other]:
                break
            home = self.ring[self.index[other] - 1].hash & self.mask
            if ((other - home) & self.mask) >= ((other - cell) & self.mask):
                self.index[cell] = self.index[other]
                cell = other
        self.index[cell] = 0

    cdef int resize(self, size_t capacity) except -1:
        """Make the ring and its index anew, for so many pairs."""
        cdef size_t cells = 8
        cdef u32 number
        cdef Pair **ring
        cdef u32 *index
        if capacity > PAIRS_MAX:
            raise MemoryError
        while cells * 3 < capacity * 4:
            cells *= 2
        ring = <Pair **>PyMem_Malloc(capacity * sizeof(Pair *))
        index = <u32 *>PyMem_Calloc(cells, sizeof(u32))
        if ring == NULL or index == NULL:
            PyMem_Free(ring)
            PyMem_Free(index)
            raise MemoryError
        for number in range(self.count):
            ring[number] = self.pair_at(number)
        PyMem_Free(self.ring)
        PyMem_Free(self.index)
        self.ring, self.index = ring, index
        self.capacity, self.first, self.mask = <u32>capacity, 0, <u32>(cells - 1)
        for number in range(self.count):
            self.add_to_index(number)
        return 0

    cdef void drop_oldest(self) noexcept:
        cdef Pair *pair = self.ring[self.first]
        cdef u32 cell = pair.hash & self.mask
        while self.index[cell] != self.first + 1:
            cell = (cell + 1) & self.mask
        self.drop_from_index(cell)
        self.first = self.place_of(1)
        self.count -= 1
        self.pairs_size -= rounded(PAIR_SIZE + pair.size)
        let_go(pair)

    cdef void give_back(self) noexcept:
        """Free unused room, if there is much."""
        if self.count + 8 < self.capacity // 2:
            try:
                self.resize(self.count + (self.count >> 3) + 4)
            except MemoryError:
                pass

    def __len__(self):
        return self.count

    def __contains__(self, bytes iid not None):
        return self.cell_of(iid) >= 0

    def get(self, bytes iid not None):
        """See `producer_plain`."""
        cdef Py_ssize_t cell = self.cell_of(iid)
        return None if cell < 0 else make_id(&self.ring[self.index[cell] - 1].entry)

    def add(self, bytes iid not None, entry_id, Py_ssize_t entries_max):
        """See `producer_plain`."""
        cdef Place entry
        cdef Pair *pair
        cdef u32 code = <u32>PyObject_Hash(iid)
        cdef size_t size = PyBytes_GET_SIZE(iid)
        read_place(entry_id, &entry)
        if size >> 32:
            raise MemoryError
        if self.count == self.capacity:
            self.resize(<size_t>self.capacity + (self.capacity >> 3) + 4)
        pair = <Pair *>PyMem_Malloc(PAIR_SIZE + size)
        if pair == NULL:
            raise MemoryError
        pair.entry = entry
        pair.references = 1
        pair.hash = code
        pair.size = <u32>size
        memcpy(text_of(pair), PyBytes_AS_STRING(iid), size)
        self.ring[self.place_of(self.count)] = pair
        self.add_to_index(self.place_of(self.count))
        self.count += 1
        self.pairs_size += rounded(PAIR_SIZE + size)
        if self.count > entries_max:
            while self.count > entries_max:
                self.drop_oldest()
            self.give_back()

    def expire(self, long long before_ms):
        """See `producer_plain`."""
        while self.count and before_ms >= 0 and self.ring[self.first].entry.ms <= <u64>before_ms:
            self.drop_oldest()
        self.give_back()

    def forget(self, bytes iid not None):
        """See `producer_plain`."""
        cdef Py_ssize_t cell = self.cell_of(iid)
        cdef u32 number
        cdef Pair *pair
        if cell < 0:
            raise KeyError(iid)
        pair = self.ring[self.index[cell] - 1]
        # The places of the younger pairs change: the oldest ones make room instead, and then they are in order.
        number = (self.index[cell] - 1 + self.capacity - self.first) % self.capacity
        while number:
            self.ring[self.place_of(number)] = self.pair_at(number - 1)
            number -= 1
        self.ring[self.first] = pair
        self.reindex()
        self.drop_oldest()

    cdef void reindex(self) noexcept:
        cdef u32 number
        for number in range(self.mask + 1):
            self.index[number] = 0
        for number in range(self.count):
            self.add_to_index(self.place_of(number))

    def pairs(self):
        """See `producer_plain`."""
        cdef u32 number
        cdef Pair *pair
        cdef list found = []
        for number in range(self.count):
            pair = self.pair_at(number)
            found.append((PyBytes_FromStringAndSize(text_of(pair), pair.size), make_id(&pair.entry)))
        return found

    def copy(self):
        """See `producer_plain`."""
        cdef Producer twin = Producer.__new__(Producer)
        cdef u32 number
        if self.count:
            twin.resize(self.count)
            for number in range(self.count):
                twin.ring[number] = self.pair_at(number)
                twin.ring[number].references += 1
                twin.add_to_index(number)
            twin.count, twin.pairs_size = self.count, self.pairs_size
        return twin

    @property
    def memory_size(self):
        """See `producer_plain`."""
        cdef size_t size = OBJECT_SIZE + self.pairs_size
        if self.capacity:
            size += rounded(self.capacity * sizeof(Pair *)) + rounded((<size_t>self.mask + 1) * sizeof(u32))
        return size

    def check(self):
        """See `producer_plain`."""
        cdef size_t size = 0
        for iid, entry_id in self.pairs():
            assert self.get(iid) == entry_id
            size += rounded(PAIR_SIZE + <size_t>len(iid))
        assert size == self.pairs_size
        assert sum([self.index[cell] > 0 for cell in range(self.mask + 1 if self.capacity else 0)]) == self.count


cdef size_t OBJECT_SIZE = rounded(Producer.__basicsize__)


cdef inline u64 read_big_endian(u8 *data) noexcept:
    cdef u64 number = 0
    cdef int index
    for index in range(8):
        number = number << 8 | data[index]
    return number


cdef inline void write_little_endian(u8 *data, u64 number) noexcept:
    cdef int index
    for index in range(8):
        data[index] = <u8>(number >> 8 * index)


def automatic_iid(list words, Py_ssize_t first=0):
    """See `producer_plain.automatic_iid`."""
    cdef Py_ssize_t position, name_size, value_size, count = len(words)
    cdef u64 low, high, sum_low = 0, sum_high = 0, xor_low = 0, xor_high = 0
    cdef bytes name, value, hashed, digest
    cdef u8 *data
    if (count - first) & 1:
        raise ValueError("a field has no value")
    for position in range(first, count, 2):
        name, value = words[position], words[position + 1]
        name_size, value_size = len(name), len(value)
        hashed = PyBytes_FromStringAndSize(NULL, name_size + 8 + value_size)
        data = <u8 *>PyBytes_AS_STRING(hashed)
        memcpy(data, PyBytes_AS_STRING(name), name_size)
        write_little_endian(data + name_size, name_size)
        memcpy(data + name_size + 8, PyBytes_AS_STRING(value), value_size)
        digest = xxh3_128_digest(hashed)
        data = <u8 *>PyBytes_AS_STRING(digest)
        high, low = read_big_endian(data), read_big_endian(data + 8)
        sum_low, sum_high = sum_low + low, sum_high + high
        xor_low, xor_high = xor_low ^ low, xor_high ^ high
    hashed = PyBytes_FromStringAndSize(NULL, 16)
    data = <u8 *>PyBytes_AS_STRING(hashed)
    write_little_endian(data, sum_low ^ (xor_high << 1 | xor_high >> 63))
    write_little_endian(data + 8, sum_high ^ (xor_low << 1 | xor_low >> 63))
    return hashed
