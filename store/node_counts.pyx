# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Entries counted into Redis' nodes, for installations with a C compiler: `node_counts_plain` in C.

Both modules behave alike and are tested by the same tests; `nodes` imports this one if it was built.
"""

from cpython cimport array
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcmp

ctypedef unsigned long long u64
ctypedef long long i64

IS_COMPILED = True

cdef enum:
    # Header, end mark, three counts of one byte, and the mark after the names; see `node_counts_plain`.
    NODE_HEAD_SIZE = 13
    INTEGER_SIZE_MAX = 20


cdef inline Py_ssize_t integer_size(i64 number) noexcept:
    """Bytes of an integer in a listpack, its back-length included."""
    if 0 <= number <= 127:
        return 2
    if -4096 <= number <= 4095:
        return 3
    if -32768 <= number <= 32767:
        return 4
    if -8388608 <= number <= 8388607:
        return 5
    if -2147483648LL <= number <= 2147483647LL:
        return 6
    return 10


cdef inline bint read_integer(const char *at, Py_ssize_t size, i64 *number) noexcept:
    """Whether the text is the canonical decimal of a 64-bit signed integer, which is then read."""
    cdef bint is_negative = at[0] == c'-'
    cdef Py_ssize_t index
    cdef u64 value = 0
    if is_negative:
        at += 1
        size -= 1
    if size < 1 or size > 19 or (at[0] == c'0' and (size > 1 or is_negative)):
        return False
    for index in range(size):
        if not c'0' <= at[index] <= c'9':
            return False
        value = value * 10 + <u64>(at[index] - c'0')
    if value > (<u64>1 << 63) - (0 if is_negative else 1):
        return False
    number[0] = <i64>(0 - value) if is_negative else <i64>value
    return True


cdef inline Py_ssize_t text_size(const char *at, Py_ssize_t size) noexcept:
    """Bytes of a string in a listpack, its back-length included; canonical decimals are stored as integers."""
    cdef i64 number = 0
    if 0 < size <= INTEGER_SIZE_MAX and c'0' <= at[size - 1] <= c'9' and read_integer(at, size, &number):
        return integer_size(number)
    if size <= 63:
        return size + 2
    if size <= 4095:
        return size + (3 if size <= 125 else 4)
    return size + (7 if size < 16378 else 8)


cdef inline Py_ssize_t read_count(const char **place) noexcept:
    """Read the number of a RESP header and move `place` past it. The header is well-formed."""
    cdef const char *at = place[0] + 1
    cdef Py_ssize_t number = 0
    while at[0] != c'\r':
        number = number * 10 + (at[0] - c'0')
        at += 1
    place[0] = at + 2
    return number


cdef list read_names(const char *at, Py_ssize_t count):
    """Read every second of the `count` texts at `at`: the field names."""
    cdef list names = []
    cdef Py_ssize_t index, size
    for index in range(count):
        size = read_count(&at)
        if not index & 1:
            names.append(PyBytes_FromStringAndSize(at, size))
        at += size + 2
    return names


def count_run(
    bytes data not None, array.array ms not None, array.array seq not None, Py_ssize_t size_max,
    Py_ssize_t entries_max, tuple node
):
    """Count entries into Redis' nodes: see `node_counts_plain.count_run`."""
    cdef const u64 *ms_at = ms.data.as_ulonglongs
    cdef const u64 *seq_at = seq.data.as_ulonglongs
    cdef const char *at = PyBytes_AS_STRING(data)
    cdef const char *texts
    cdef const char *name
    cdef Py_ssize_t count = len(ms), row, index, size, texts_count, length, same_size, all_size, names_size, one
    cdef Py_ssize_t live = 0, total = 0, node_size = size_max, added = 0, first_row = -1
    cdef u64 first_ms = 0, first_seq = 0
    cdef bint is_same
    cdef list names = None
    cdef Py_ssize_t names_count = -1
    cdef object known
    cdef list opened = []
    cdef object continued = (0, 0)
    if node is not None:
        first_ms, first_seq, live, total, node_size, names = node
        names_count = len(names)
    for row in range(count):
        read_count(&at)
        size = read_count(&at)
        at += size + 2
        texts_count = read_count(&at)
        texts = at
        length = same_size = names_size = 0
        is_same = 2 * names_count == texts_count
        for index in range(texts_count):
            size = read_count(&at)
            length += size
            one = text_size(at, size)
            if index & 1:
                same_size += one
            else:
                names_size += one
                if is_same:
                    known = names[index >> 1]
                    is_same = size == PyBytes_GET_SIZE(known) and not memcmp(at, PyBytes_AS_STRING(known), size)
            at += size + 2
        if node_size + length >= size_max or (entries_max and total >= entries_max):
            if first_row < 0:
                continued = (added, node_size)
            else:
                opened.append((first_row, added, node_size, names))
            if not is_same:
                names = read_names(texts, texts_count)
                names_count = len(names)
                is_same = True
            first_row, first_ms, first_seq = row, ms_at[row], seq_at[row]
            live = total = added = 0
            node_size = NODE_HEAD_SIZE + integer_size(names_count) + names_size
        node_size += integer_size(live + 1) - integer_size(live)
        node_size += integer_size(<i64>(ms_at[row] - first_ms)) + integer_size(<i64>(seq_at[row] - first_seq))
        if is_same:
            node_size += 2 + integer_size(names_count + 3) + same_size
        else:
            node_size += 2 + integer_size(texts_count // 2) + integer_size(texts_count + 4) + names_size + same_size
        live += 1
        total += 1
        added += 1
    if first_row < 0:
        continued = (added, node_size)
    else:
        opened.append((first_row, added, node_size, names))
    return continued, opened
