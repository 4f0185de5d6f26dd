# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Entry IDs to and from text, for installations with a C compiler: `id_codec_plain` in C.

Both modules behave alike and are tested by the same tests; `ids` imports this one if it was built.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize

include "packed_id.pxi"
include "reply_text.pxi"

cdef enum:
    # A number of this many digits always fits 64 bits.
    DIGITS_MAX = 19


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
    cdef Place both
    both.ms, both.seq = 0, missing_seq
    while dash < size and at[dash] != c'-':
        dash += 1
    if not read_number(at, dash, &both.ms):
        return None
    if dash < size and not read_number(at + dash + 1, size - dash - 1, &both.seq):
        return None
    return make_id(&both)


def read_id(bytes token not None, u64 missing_seq=0):
    """The ID that `ms-seq`, or `ms` with `missing_seq`, means; None for any other form."""
    return read(token, missing_seq)


def read_ids(list tokens not None, Py_ssize_t start):
    """The IDs of `tokens[start:]`; None if one of them has another form than `read_id` accepts."""
    cdef Py_ssize_t index
    cdef list ids = []
    cdef object entry_id
    for index in range(start, len(tokens)):
        entry_id = read(tokens[index], 0)
        if entry_id is None:
            return None
        ids.append(entry_id)
    return ids


def format_id(entry_id):
    """Canonical decimal form, `ms-seq`."""
    cdef char text[ID_TEXT_SIZE_MAX]
    cdef char *end = text + ID_TEXT_SIZE_MAX
    cdef Place both
    read_place(entry_id, &both)
    cdef char *at = write_id_before(end, &both)
    return PyBytes_FromStringAndSize(at, end - at)


def bulk_ids(list ids not None):
    """The IDs as consecutive bulk strings."""
    cdef Py_ssize_t count = len(ids), index
    cdef bytes packed = PyBytes_FromStringAndSize(NULL, count * BULK_ID_SIZE_MAX)
    cdef char *out = PyBytes_AS_STRING(packed)
    cdef char *at = out
    cdef Place both
    for index in range(count):
        read_place(ids[index], &both)
        at = write_bulk_id(at, &both)
    return packed[: at - out]
