# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""What a HyperLogLog takes long for, for installations with a C compiler: `hyperloglog_codec_plain` in C.

Both modules behave alike and are tested by the same tests.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memset

ctypedef unsigned char u8
ctypedef unsigned long long u64

cdef u64 MULTIPLIER = 0xC6A4A7935BD1E995ULL
cdef u64 SEED = 0xADC83B19ULL

cdef enum:
    SHIFT = 47
    WORD_SIZE = 8
    REGISTER_MAX = 63
    XZERO = 0x40
    VAL = 0x80


def murmur64(bytes text not None):
    """Return the hash of a text, a number of 64 bits without a sign."""
    cdef const u8 *at = <const u8 *>PyBytes_AS_STRING(text)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(text), index
    cdef Py_ssize_t whole_size = size - size % WORD_SIZE
    cdef u64 found = SEED ^ (<u64>size * MULTIPLIER), word
    for index in range(0, whole_size, WORD_SIZE):
        word = word_at(at + index, WORD_SIZE) * MULTIPLIER
        found = (found ^ ((word ^ (word >> SHIFT)) * MULTIPLIER)) * MULTIPLIER
    if whole_size < size:
        found = (found ^ word_at(at + whole_size, size - whole_size)) * MULTIPLIER
    found = (found ^ (found >> SHIFT)) * MULTIPLIER
    return found ^ (found >> SHIFT)


cdef inline u64 word_at(const u8 *at, Py_ssize_t size) noexcept:
    """The number that `size` bytes are, the lowest first."""
    cdef u64 word = 0
    cdef Py_ssize_t index
    for index in range(size):
        word |= <u64>at[index] << (8 * index)
    return word


def unpacked(bytes packed not None):
    """See `hyperloglog_codec_plain.unpacked`."""
    cdef Py_ssize_t count = PyBytes_GET_SIZE(packed) // 3, index
    cdef const u8 *at = <const u8 *>PyBytes_AS_STRING(packed)
    cdef bytes registers = PyBytes_FromStringAndSize(NULL, 4 * count)
    cdef u8 *out = <u8 *>PyBytes_AS_STRING(registers)
    cdef unsigned int bits
    for index in range(count):
        bits = at[3 * index] | <unsigned int>at[3 * index + 1] << 8 | <unsigned int>at[3 * index + 2] << 16
        out[4 * index] = bits & REGISTER_MAX
        out[4 * index + 1] = bits >> 6 & REGISTER_MAX
        out[4 * index + 2] = bits >> 12 & REGISTER_MAX
        out[4 * index + 3] = bits >> 18
    return registers


def packed(bytes registers not None):
    """See `hyperloglog_codec_plain.packed`."""
    cdef Py_ssize_t count = PyBytes_GET_SIZE(registers) // 4, index
    cdef const u8 *at = <const u8 *>PyBytes_AS_STRING(registers)
    cdef bytes found = PyBytes_FromStringAndSize(NULL, 3 * count)
    cdef u8 *out = <u8 *>PyBytes_AS_STRING(found)
    cdef unsigned int bits
    for index in range(count):
        bits = (
            at[4 * index]
            | <unsigned int>at[4 * index + 1] << 6
            | <unsigned int>at[4 * index + 2] << 12
            | <unsigned int>at[4 * index + 3] << 18
        )
        out[3 * index] = bits & 0xFF
        out[3 * index + 1] = bits >> 8 & 0xFF
        out[3 * index + 2] = bits >> 16
    return found


def merged(bytes one not None, bytes other not None):
    """See `hyperloglog_codec_plain.merged`."""
    cdef Py_ssize_t size = PyBytes_GET_SIZE(one), index
    cdef const u8 *left = <const u8 *>PyBytes_AS_STRING(one)
    cdef const u8 *right = <const u8 *>PyBytes_AS_STRING(other)
    cdef bytes found = PyBytes_FromStringAndSize(NULL, size)
    cdef u8 *out = <u8 *>PyBytes_AS_STRING(found)
    if PyBytes_GET_SIZE(other) != size:
        raise ValueError("not as many registers")
    for index in range(size):
        out[index] = left[index] if left[index] > right[index] else right[index]
    return found


def histogram(bytes registers not None):
    """How many registers have each value; there is a byte for each register."""
    cdef const u8 *at = <const u8 *>PyBytes_AS_STRING(registers)
    cdef Py_ssize_t index
    cdef unsigned int counts[256]
    memset(counts, 0, sizeof(counts))
    for index in range(PyBytes_GET_SIZE(registers)):
        counts[at[index]] += 1
    return [counts[index] for index in range(REGISTER_MAX + 1)]


def spread_runs(bytes text not None, Py_ssize_t start, Py_ssize_t registers_count):
    """The registers of the runs from `start` on, a byte for each; None if the runs are not exactly as many."""
    cdef const u8 *at = <const u8 *>PyBytes_AS_STRING(text)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(text), index = start, filled = 0, span
    cdef bytes registers = PyBytes_FromStringAndSize(NULL, registers_count)
    cdef char *out = PyBytes_AS_STRING(registers)
    while index < size:
        span = span_of(at, index, size)
        if span > registers_count - filled:
            return None
        memset(out + filled, (at[index] >> 2 & 31) + 1 if at[index] >= VAL else 0, span)
        filled += span
        index += 2 if XZERO <= at[index] < VAL else 1
    return registers if filled == registers_count else None


cdef inline Py_ssize_t span_of(const u8 *at, Py_ssize_t index, Py_ssize_t size) noexcept:
    cdef u8 code = at[index]
    if code >= VAL:
        return (code & 3) + 1
    if code < XZERO:
        return code + 1
    return ((code & 63) << 8 | (at[index + 1] if index + 1 < size else 0)) + 1


def find_run(bytearray data not None, Py_ssize_t index, Py_ssize_t first, Py_ssize_t register):
    """See `hyperloglog_codec_plain`."""
    cdef const u8 *at = <const u8 *>PyByteArray_AS_STRING(data)
    cdef Py_ssize_t size = PyByteArray_GET_SIZE(data), before = -1, previous = -1, span
    while index < size:
        span = span_of(at, index, size)
        if register < first + span:
            return index, first, previous, before
        before = previous
        previous = index
        first += span
        index += 2 if XZERO <= at[index] < VAL else 1
    return None

