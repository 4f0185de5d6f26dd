# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Ascending integers in one block of memory, for installations with a C compiler: `packed_integers_plain` in C, without
an object for each number.

Both modules behave alike and are tested by the same tests; `set_value` imports this one if it was built.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.stdlib cimport qsort
from libc.string cimport memcpy, memmove

ctypedef unsigned char u8
ctypedef unsigned long long u64

include "../block_size.pxi"
include "../byte_order.pxi"
include "../decimal_text.pxi"
include "../integer_text.pxi"

cdef enum:
    # Bytes of a number.
    NUMBER_SIZE = 8
    # An intset of Redis has these bytes before its numbers.
    INTSET_HEADER_SIZE = 8
    # If one block has so many times the numbers of the other, each number of the smaller one is looked for alone.
    SEARCH_FACTOR = 16


cdef int compare(const void *one, const void *other) noexcept nogil:
    cdef i64 first = (<const i64 *>one)[0], second = (<const i64 *>other)[0]
    return (first > second) - (first < second)


cdef inline bytes text_of(i64 number):
    cdef char text[DECIMAL_SIZE_MAX]
    return PyBytes_FromStringAndSize(text, write_decimal(text, number))


cdef inline bint read_text(bytes text, i64 *number) noexcept:
    return read_integer(PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text), number)


@cython.final
@cython.no_gc
cdef class PackedIntegers:
    """See `packed_integers_plain.PackedIntegers`."""

    cdef i64 *data
    cdef Py_ssize_t count
    cdef Py_ssize_t room

    def __dealloc__(self):
        PyMem_Free(self.data)

    def __len__(self):
        return self.count

    @property
    def memory_size(self):
        """See `packed_integers_plain`."""
        return block_size(self.room * NUMBER_SIZE) if self.room else 0

    cdef int set_room(self, Py_ssize_t room) except -1:
        """Have room for so many numbers."""
        cdef i64 *data
        if not room:
            PyMem_Free(self.data)
            data = NULL
        else:
            data = <i64 *>PyMem_Realloc(self.data, room * NUMBER_SIZE)
            if data == NULL:
                raise MemoryError
        self.data, self.room = data, room
        return 0

    cdef void shrink(self) noexcept:
        """Give back memory if much is free."""
        if self.count < self.room >> 1:
            try:
                self.set_room(self.count)
            except MemoryError:
                pass

    cdef Py_ssize_t place(self, i64 number) noexcept:
        """Return how many numbers are less."""
        cdef Py_ssize_t low = 0, high = self.count, middle
        # Most numbers are added in their order.
        if high and self.data[high - 1] < number:
            return high
        while low < high:
            middle = (low + high) >> 1
            if self.data[middle] < number:
                low = middle + 1
            else:
                high = middle
        return low

    cdef inline bint has(self, i64 number) noexcept:
        cdef Py_ssize_t index = self.place(number)
        return index < self.count and self.data[index] == number

    def __contains__(self, bytes text not None):
        """See `packed_integers_plain`."""
        cdef i64 number = 0
        return read_text(text, &number) and self.has(number)

    def has_each(self, list texts not None):
        """See `packed_integers_plain`."""
        cdef list found = []
        cdef bytes text
        cdef i64 number = 0
        for text in texts:
            found.append(1 if read_text(text, &number) and self.has(number) else 0)
        return found

    def having(self, list texts not None, bint wanted):
        """See `packed_integers_plain`."""
        cdef list kept = []
        cdef bytes text
        cdef i64 number = 0
        for text in texts:
            if (read_text(text, &number) and self.has(number)) == wanted:
                kept.append(text)
        return kept

    def add(self, bytes text not None):
        """See `packed_integers_plain`."""
        cdef i64 number = 0
        cdef Py_ssize_t index
        if not read_text(text, &number):
            return -1
        index = self.place(number)
        if index < self.count and self.data[index] == number:
            return 0
        if self.count == self.room:
            self.set_room(self.count + 1 + (self.count >> 3))
        memmove(self.data + index + 1, self.data + index, (self.count - index) * NUMBER_SIZE)
        self.data[index] = number
        self.count += 1
        return 1

    def discard(self, bytes text not None):
        """See `packed_integers_plain`."""
        cdef i64 number = 0
        cdef Py_ssize_t index
        if not read_text(text, &number):
            return False
        index = self.place(number)
        if index == self.count or self.data[index] != number:
            return False
        self.count -= 1
        memmove(self.data + index, self.data + index + 1, (self.count - index) * NUMBER_SIZE)
        self.shrink()
        return True

    def discard_all(self, list texts not None):
        """See `packed_integers_plain`."""
        cdef PackedIntegers removed = PackedIntegers.__new__(PackedIntegers)
        cdef Py_ssize_t before = self.count
        cdef bytes text
        removed.set_room(len(texts))
        for text in texts:
            if read_text(text, removed.data + removed.count):
                removed.count += 1
        removed.sort()
        self.keep(removed, False)
        self.shrink()
        return before - self.count

    cdef void sort(self) noexcept:
        """Put numbers in order, of equal ones only the first."""
        cdef Py_ssize_t index, kept = 0
        if not self.count:
            return
        qsort(self.data, self.count, NUMBER_SIZE, compare)
        for index in range(1, self.count):
            if self.data[index] != self.data[kept]:
                kept += 1
                self.data[kept] = self.data[index]
        self.count = kept + 1

    cdef void keep(self, PackedIntegers other, bint common) noexcept:
        """Keep the numbers that the other one has, or with `common` False those that it has not."""
        cdef Py_ssize_t index, at = 0, kept = 0
        cdef bint is_large = other.count > SEARCH_FACTOR * self.count
        cdef i64 number
        for index in range(self.count):
            number = self.data[index]
            if is_large:
                at = other.place(number)
            else:
                while at < other.count and other.data[at] < number:
                    at += 1
            if (at < other.count and other.data[at] == number) == common:
                self.data[kept] = number
                kept += 1
        self.count = kept

    # -- reading ---------------------------------------------------------------------------------

    def at(self, Py_ssize_t index):
        """See `packed_integers_plain`."""
        if index < 0 or index >= self.count:
            raise IndexError(index)
        return text_of(self.data[index])

    def at_each(self, list indexes not None):
        """See `packed_integers_plain`."""
        cdef list found = []
        cdef Py_ssize_t index
        for each in indexes:
            index = each
            if index < 0 or index >= self.count:
                raise IndexError(index)
            found.append(text_of(self.data[index]))
        return found

    def between(self, Py_ssize_t start, Py_ssize_t stop):
        """See `packed_integers_plain`."""
        cdef list texts = []
        cdef Py_ssize_t index
        for index in range(max(start, 0), min(stop, self.count)):
            texts.append(text_of(self.data[index]))
        return texts

    def numbers(self):
        """See `packed_integers_plain`."""
        cdef list numbers = []
        cdef Py_ssize_t index
        for index in range(self.count):
            numbers.append(self.data[index])
        return numbers

    def intset(self):
        """See `packed_integers_plain`."""
        cdef Py_ssize_t index
        cdef bytes packed
        cdef u8 *at
        cdef int size = 8
        if not self.count:
            raise IndexError("there are no numbers")
        if -(1 << 15) <= self.data[0] and self.data[self.count - 1] < 1 << 15:
            size = 2
        elif -(<i64>1 << 31) <= self.data[0] and self.data[self.count - 1] < <i64>1 << 31:
            size = 4
        packed = PyBytes_FromStringAndSize(NULL, INTSET_HEADER_SIZE + size * self.count)
        at = <u8 *>PyBytes_AS_STRING(packed)
        write_little(at, size, 4)
        write_little(at + 4, self.count, 4)
        at += INTSET_HEADER_SIZE
        for index in range(self.count):
            write_little(at, <u64>self.data[index], size)
            at += size
        return packed

    # -- all at once -----------------------------------------------------------------------------

    def load(self, list numbers not None):
        """See `packed_integers_plain`."""
        cdef Py_ssize_t index
        self.set_room(len(numbers))
        for index in range(self.room):
            self.data[index] = numbers[index]
        self.count = self.room

    def copy(self):
        """See `packed_integers_plain`."""
        return self.twin()

    cdef PackedIntegers twin(self):
        cdef PackedIntegers twin = PackedIntegers.__new__(PackedIntegers)
        twin.set_room(self.count)
        memcpy(twin.data, self.data, self.count * NUMBER_SIZE)
        twin.count = self.count
        return twin

    def common(self, list others not None):
        """See `packed_integers_plain`."""
        cdef PackedIntegers found = self.twin()
        cdef PackedIntegers other
        for other in others:
            found.keep(other, True)
        found.shrink()
        return found

    def difference(self, list others not None):
        """See `packed_integers_plain`."""
        cdef PackedIntegers found = self.twin()
        cdef PackedIntegers other
        for other in others:
            found.keep(other, False)
        found.shrink()
        return found

    def union(self, list others not None):
        """See `packed_integers_plain`."""
        cdef PackedIntegers found = PackedIntegers.__new__(PackedIntegers)
        cdef PackedIntegers other
        cdef Py_ssize_t count = self.count
        for other in others:
            count += other.count
        found.set_room(count)
        memcpy(found.data, self.data, self.count * NUMBER_SIZE)
        found.count = self.count
        for other in others:
            memcpy(found.data + found.count, other.data, other.count * NUMBER_SIZE)
            found.count += other.count
        if len(others) == 1:
            found.merge(self.count)
        elif len(others) > 1:
            found.sort()
        found.shrink()
        return found

    cdef int merge(self, Py_ssize_t second) except -1:
        """Put numbers in order, of which those before the index and those from it on are ascending."""
        cdef i64 *merged = <i64 *>PyMem_Malloc(max(self.count, 1) * NUMBER_SIZE)
        cdef Py_ssize_t first = 0, middle = second, count = 0
        cdef i64 number
        if merged == NULL:
            raise MemoryError
        while first < middle or second < self.count:
            if second == self.count or (first < middle and self.data[first] <= self.data[second]):
                number = self.data[first]
                first += 1
            else:
                number = self.data[second]
                second += 1
            if not count or merged[count - 1] != number:
                merged[count] = number
                count += 1
        PyMem_Free(self.data)
        self.data, self.room, self.count = merged, max(self.count, 1), count
        return 0
