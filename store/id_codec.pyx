# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Entry IDs to and from text and columns, for machines with a C compiler: `plain_id_codec` in C.

Both modules do the same, and the same tests hold for both; `ids` takes this one where it was built.
"""

from cpython cimport array
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsUnsignedLongLong
from cpython.ref cimport Py_INCREF
from cpython.list cimport PyList_New, PyList_SET_ITEM
from libc.string cimport memcpy

ctypedef unsigned long long u64

cdef extern from "Python.h":
    u64 PyLong_AsUnsignedLongLongMask(object number) except? -1

cdef enum:
    SEQ_BITS = 72
    DIGITS_MAX = 19
    # Digits of a number that surely fits 64 bits.
    TEXT_SIZE_MAX = 41
    BULK_SIZE_MAX = 48
    # Of an ID with its header and line ends.


cdef object U64_MAX = 2**64 - 1


cdef inline object make_id(u64 ms, u64 seq):
    return (<object>ms) << SEQ_BITS | <object>seq


cdef inline bint read_number(const char *at, Py_ssize_t size, u64 *number) noexcept:
    """Read digits that fill `size` bytes; False for anything else."""
    cdef Py_ssize_t index
    cdef u64 value = 0
    if size < 1 or size > DIGITS_MAX:
        return False
    for index in range(size):
        if not c'0' <= at[index] <= c'9':
            return False
        value = value * 10 + <u64>(at[index] - c'0')
    number[0] = value
    return True


cdef object read(bytes token, u64 missing_seq):
    cdef const char *at = PyBytes_AS_STRING(token)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(token)
    cdef Py_ssize_t dash = 0
    cdef u64 ms = 0, seq = missing_seq
    while dash < size and at[dash] != c'-':
        dash += 1
    if not read_number(at, dash, &ms):
        return None
    if dash < size and not read_number(at + dash + 1, size - dash - 1, &seq):
        return None
    return make_id(ms, seq)


def read_id(bytes token not None, u64 missing_seq=0):
    """The ID that `ms-seq`, or `ms` with `missing_seq`, means; None if it is not as plain as that."""
    return read(token, missing_seq)


def read_ids(list tokens not None, Py_ssize_t start):
    """The IDs of `tokens[start:]`; None if one of them is not plain."""
    cdef Py_ssize_t index
    cdef list ids = []
    cdef object entry_id
    for index in range(start, len(tokens)):
        entry_id = read(tokens[index], 0)
        if entry_id is None:
            return None
        ids.append(entry_id)
    return ids


cdef inline char *write_number(char *end, u64 number) noexcept:
    """Write the digits so that they end before `end`; answers where they begin."""
    while True:
        end -= 1
        end[0] = c'0' + <char>(number % 10)
        number //= 10
        if not number:
            return end


def format_id(entry_id):
    """Canonical decimal form, `ms-seq`."""
    cdef char text[TEXT_SIZE_MAX]
    cdef char *end = text + TEXT_SIZE_MAX
    cdef char *at = write_number(end, PyLong_AsUnsignedLongLongMask(entry_id)) - 1
    at[0] = c'-'
    at = write_number(at, PyLong_AsUnsignedLongLong(entry_id >> SEQ_BITS))
    return PyBytes_FromStringAndSize(at, end - at)


def bulk_ids(list ids not None):
    """The IDs as bulk strings, one behind the other."""
    cdef Py_ssize_t count = len(ids), index, size
    cdef bytes packed = PyBytes_FromStringAndSize(NULL, count * BULK_SIZE_MAX)
    cdef char *out = PyBytes_AS_STRING(packed)
    cdef char *at = out
    cdef char text[TEXT_SIZE_MAX]
    cdef char *end = text + TEXT_SIZE_MAX
    cdef char *start
    cdef object entry_id
    for index in range(count):
        entry_id = ids[index]
        start = write_number(end, PyLong_AsUnsignedLongLongMask(entry_id)) - 1
        start[0] = c'-'
        start = write_number(start, PyLong_AsUnsignedLongLong(entry_id >> SEQ_BITS))
        size = end - start
        at[0] = c'$'
        at += 1
        if size >= 10:
            at[0] = c'0' + <char>(size // 10)
            at += 1
        at[0] = c'0' + <char>(size % 10)
        at[1] = c'\r'
        at[2] = c'\n'
        memcpy(at + 3, start, size)
        at += 3 + size
        at[0] = c'\r'
        at[1] = c'\n'
        at += 2
    return packed[: at - out]


def ids_between(array.array ms not None, array.array seq not None, Py_ssize_t low, Py_ssize_t high):
    """The IDs whose halves stand in two columns at `low` to `high` (excluded). Raises IndexError."""
    if not 0 <= low <= high <= len(ms) or high > len(seq):
        raise IndexError("no such entries")
    cdef list ids = PyList_New(high - low)
    cdef Py_ssize_t index
    cdef object entry_id
    for index in range(low, high):
        entry_id = make_id(ms.data.as_ulonglongs[index], seq.data.as_ulonglongs[index])
        Py_INCREF(entry_id)
        PyList_SET_ITEM(ids, index - low, entry_id)
    return ids


def position_of(array.array ms not None, array.array seq not None, entry_id):
    """Index of the first ID in ascending columns that is not below `entry_id`."""
    cdef object half = entry_id >> SEQ_BITS
    if half > U64_MAX:
        return len(ms)
    cdef u64 wanted_ms = PyLong_AsUnsignedLongLong(half)
    cdef u64 wanted_seq = PyLong_AsUnsignedLongLongMask(entry_id)
    cdef Py_ssize_t low = 0, high = min(len(ms), len(seq)), middle
    cdef u64 here
    while low < high:
        middle = (low + high) // 2
        here = ms.data.as_ulonglongs[middle]
        if here < wanted_ms or (here == wanted_ms and seq.data.as_ulonglongs[middle] < wanted_seq):
            low = middle + 1
        else:
            high = middle
    return low


cdef inline int push(array.array column, u64 number) except -1:
    cdef Py_ssize_t size = len(column)
    array.resize_smart(column, size + 1)
    column.data.as_ulonglongs[size] = number
    return 0


def add_row(array.array ms not None, array.array seq not None, array.array ends not None, entry_id, u64 end):
    """Add an ID and an end offset to the columns."""
    push(ms, PyLong_AsUnsignedLongLong(entry_id >> SEQ_BITS))
    push(seq, PyLong_AsUnsignedLongLongMask(entry_id))
    push(ends, end)
