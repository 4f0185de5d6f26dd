# A buffer that grows, and strings of RDB files in it: see `lengths`. Included by the `.pyx` modules, after `listpack.pxi`
# and `lzf.pxi`.

from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.string cimport memmove

cdef enum:
    # A larger buffer is freed when it was used.
    KEPT_SIZE = 1 << 20
    COMPRESSED_SIZE_MIN = 21
    COMPRESSION_GAIN_MIN = 4
    # Characters of the longest integer of 32 bits.
    SHORT_INTEGER_SIZE_MAX = 11


cdef class Buffer:
    """Bytes that are appended to. `at` is where the next ones go."""

    cdef unsigned char *start
    cdef unsigned char *at
    cdef unsigned char *end

    def __dealloc__(self):
        PyMem_Free(self.start)

    cdef inline int reserve(self, Py_ssize_t more) except -1:
        """Make room for `more` bytes."""
        return 0 if more <= self.end - self.at else self.grow(more)

    cdef int grow(self, Py_ssize_t more) except -1:
        cdef Py_ssize_t size = self.at - self.start
        cdef Py_ssize_t room = size + more + (size >> 1)
        cdef void *moved = PyMem_Realloc(self.start, room)
        if moved == NULL:
            raise MemoryError
        self.start = <unsigned char *>moved
        self.at, self.end = self.start + size, self.start + room
        return 0

    cdef bytes take(self):
        """Return the bytes, and begin again."""
        cdef bytes taken = PyBytes_FromStringAndSize(<char *>self.start, self.at - self.start)
        self.clear()
        return taken

    cdef void clear(self) noexcept:
        if self.end - self.start > KEPT_SIZE:
            PyMem_Free(self.start)
            self.start = self.end = NULL
        self.at = self.start


cdef int append_string(Buffer to, bytes text, bint compress) except -1:
    """Append a string of an RDB file in its shortest form."""
    cdef Py_ssize_t size = PyBytes_GET_SIZE(text)
    cdef i64 number = 0
    cdef int number_size
    if 0 < size <= SHORT_INTEGER_SIZE_MAX and read_integer(<const unsigned char *>PyBytes_AS_STRING(text), size, &number):
        if -(<i64>1 << 31) <= number < <i64>1 << 31:
            number_size = 1 if -128 <= number < 128 else 2 if -32768 <= number < 32768 else 4
            to.reserve(5)
            to.at[0] = INT8 if number_size == 1 else INT16 if number_size == 2 else INT32
            write_little(to.at + 1, <u64>number, number_size)
            to.at += 1 + number_size
            return 0
    return append_text(to, <const unsigned char *>PyBytes_AS_STRING(text), size, compress)


cdef int append_text(Buffer to, const unsigned char *text, Py_ssize_t size, bint compress) except -1:
    """Append a string of an RDB file, compressed if that is wanted and makes it shorter. After the text, one more byte
    can be read."""
    cdef Py_ssize_t compressed_size = -1
    cdef unsigned char *compressed
    to.reserve(1 + 2 * LENGTH_SIZE_MAX + size + COMPRESSED_SPARE)
    # Where the compressed bytes begin depends on their number.
    compressed = to.at + 1 + 2 * LENGTH_SIZE_MAX
    if compress and size >= COMPRESSED_SIZE_MIN:
        compressed_size = compress_into(compressed, size - COMPRESSION_GAIN_MIN, text, size)
    if compressed_size > 0:
        to.at[0] = LZF
        to.at = write_length(write_length(to.at + 1, compressed_size), size)
        memmove(to.at, compressed, compressed_size)
        to.at += compressed_size
    else:
        to.at = write_length(to.at, size)
        memcpy(to.at, text, size)
        to.at += size
    return 0
