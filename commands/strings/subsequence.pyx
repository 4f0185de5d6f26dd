# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The longest common subsequence of two strings, for installations with a C compiler: `subsequence_plain` in C.

Both modules behave alike and are tested by the same tests.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.string cimport memset

ctypedef unsigned char u8
ctypedef unsigned long long u64

cdef enum:
    WORD_BITS = 64
    CODES_COUNT = 256


cdef class Table:
    """The lengths of the common subsequences of all beginnings of `a` and `b`, as far as the walk back needs them.

    The rows are those of the shorter text. A row has a bit for each byte of the longer one. For a row of `a`, the bit
    of a byte of `b` is set if the subsequence gets longer with that byte; for a row of `b`, the bit of a byte of `a` is
    set if it gets longer with the byte of the row. So in both, a bit is set if the subsequence gets longer with the
    last byte of `b`.
    """

    cdef const u8 *a
    cdef const u8 *b
    cdef Py_ssize_t a_size, b_size
    cdef bint has_rows_of_b
    # Words of a row.
    cdef Py_ssize_t width
    # What was allocated; the last row of the algorithm, in which a bit is cleared for each byte of the subsequence; and
    # the rows.
    cdef u64 *memory
    cdef u64 *last
    cdef u64 *rows

    def __dealloc__(self):
        PyMem_Free(self.memory)

    cdef int fill(self, a, b, bint keeps_rows) except -1:
        """Compute the rows, or only the last one."""
        cdef const u8 *rows
        cdef const u8 *columns
        cdef Py_ssize_t rows_count, columns_count, index, at, codes_count = 0
        cdef short number_of[CODES_COUNT]
        cdef u64 *mask
        cdef u64 *row
        cdef u64 before, equal, total, carry, words_count
        if not PyBytes_Check(a) or not PyBytes_Check(b):
            raise TypeError("bytes were expected")
        self.a, self.a_size = <const u8 *>PyBytes_AS_STRING(a), PyBytes_GET_SIZE(a)
        self.b, self.b_size = <const u8 *>PyBytes_AS_STRING(b), PyBytes_GET_SIZE(b)
        self.has_rows_of_b = self.b_size < self.a_size
        rows, rows_count, columns, columns_count = self.a, self.a_size, self.b, self.b_size
        if self.has_rows_of_b:
            rows, rows_count, columns, columns_count = self.b, self.b_size, self.a, self.a_size
        self.width = (columns_count + WORD_BITS - 1) // WORD_BITS
        # Numbers of the bytes that rows have.
        memset(number_of, 0xFF, sizeof(number_of))
        for index in range(rows_count):
            if number_of[rows[index]] < 0:
                number_of[rows[index]] = <short>codes_count
                codes_count += 1
        words_count = <u64>self.width * <u64>(1 + codes_count + (rows_count if keeps_rows else 0))
        if words_count >> 48:
            raise MemoryError
        self.memory = <u64 *>PyMem_Malloc(words_count * sizeof(u64))
        if self.memory == NULL:
            raise MemoryError
        self.last = self.memory + self.width * codes_count
        self.rows = row = self.last + self.width
        memset(self.memory, 0, self.width * codes_count * sizeof(u64))
        memset(self.last, 0xFF, self.width * sizeof(u64))
        # Each byte of the columns that rows have, in the row of bits of its number.
        for index in range(columns_count):
            if number_of[columns[index]] >= 0:
                self.memory[number_of[columns[index]] * self.width + index // WORD_BITS] |= <u64>1 << index % WORD_BITS
        for index in range(rows_count):
            mask = self.memory + number_of[rows[index]] * self.width
            carry = 0
            for at in range(self.width):
                before = self.last[at]
                equal = before & mask[at]
                total = before + equal
                # One of the two additions overflows at most.
                self.last[at] = total + carry
                carry = (total < equal) | (self.last[at] < carry)
                total = self.last[at]
                self.last[at] |= before & ~mask[at]
                if keeps_rows:
                    # The carries of the addition are what the row adds to the lengths.
                    row[at] = equal | (before & ~total) if self.has_rows_of_b else ~self.last[at]
            if keeps_rows:
                row += self.width
        return 0

    cdef Py_ssize_t size(self) noexcept:
        """The length of the longest common subsequence."""
        cdef Py_ssize_t at, found = 0
        cdef u64 bits
        for at in range(self.width):
            bits = ~self.last[at]
            while bits:
                bits &= bits - 1
                found += 1
        return found

    cdef bint step_back(self, Py_ssize_t *i, Py_ssize_t *j) noexcept:
        """Go back to the next byte of the subsequence, before the first `i` bytes of `a` and `j` of `b`. Returns
        whether there is one: it is then at both indexes."""
        cdef Py_ssize_t row, column
        while i[0] and j[0]:
            if self.a[i[0] - 1] == self.b[j[0] - 1]:
                i[0] -= 1
                j[0] -= 1
                return True
            row, column = i[0] - 1, j[0] - 1
            if self.has_rows_of_b:
                row, column = column, row
            # A byte of b is skipped if the subsequence without it has the same length.
            if self.rows[row * self.width + column // WORD_BITS] >> column % WORD_BITS & 1:
                i[0] -= 1
            else:
                j[0] -= 1
        return False


def common_size(a not None, b not None):
    """See `subsequence_plain`."""
    cdef Table table = Table()
    table.fill(a, b, False)
    return table.size()


def common_text(a not None, b not None):
    """See `subsequence_plain`."""
    cdef Table table = Table()
    table.fill(a, b, True)
    cdef Py_ssize_t i = table.a_size, j = table.b_size, left = table.size()
    cdef bytes text = PyBytes_FromStringAndSize(NULL, left)
    cdef char *start = PyBytes_AS_STRING(text)
    while left and table.step_back(&i, &j):
        left -= 1
        start[left] = <char>table.a[i]
    return text


def common_ranges(a not None, b not None, size_min, bint with_sizes):
    """See `subsequence_plain`."""
    cdef Table table = Table()
    table.fill(a, b, True)
    cdef Py_ssize_t i = table.a_size, j = table.b_size, size = 0, a_start = 0, b_start = 0, found_size = 0
    cdef list ranges = []
    while table.step_back(&i, &j):
        found_size += 1
        if size and i == a_start - 1 and j == b_start - 1:
            size += 1
        else:
            add_range(ranges, a_start, b_start, size, size_min, with_sizes)
            size = 1
        a_start, b_start = i, j
    add_range(ranges, a_start, b_start, size, size_min, with_sizes)
    return ranges, found_size


cdef int add_range(
    list ranges, Py_ssize_t a_start, Py_ssize_t b_start, Py_ssize_t size, size_min, bint with_sizes
) except -1:
    """Add a range that has ended, if there is one and it is long enough."""
    cdef list found
    if size and size >= size_min:
        found = [[a_start, a_start + size - 1], [b_start, b_start + size - 1]]
        if with_sizes:
            found.append(size)
        ranges.append(found)
    return 0
