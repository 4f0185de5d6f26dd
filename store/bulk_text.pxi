# Writes parts of replies in RESP: integers and strings. Included by `reply_text.pxi` and the `.pyx` modules, which define
# `u64`.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memcpy

cdef enum:
    # Bytes of the longest integer reply.
    INTEGER_SIZE_MAX = 23
    # Bytes of a bulk string besides its text, at most.
    BULK_FRAME_SIZE_MAX = 25


cdef inline char *write_number_before(char *end, u64 number) noexcept:
    """Write the digits so that they end before `end`. Returns where they begin."""
    while True:
        end -= 1
        end[0] = c'0' + <char>(number % 10)
        number //= 10
        if not number:
            return end


cdef inline char *write_line(char *at, char mark, long long number) noexcept:
    """Write a line such as `:-1` or `$5`. Returns where it ends."""
    cdef char text[INTEGER_SIZE_MAX]
    cdef char *end = text + INTEGER_SIZE_MAX
    cdef char *start = write_number_before(end, <u64>number if number >= 0 else 0 - <u64>number)
    at[0] = mark
    at += 1
    if number < 0:
        at[0] = c'-'
        at += 1
    memcpy(at, start, end - start)
    at += end - start
    at[0] = c'\r'
    at[1] = c'\n'
    return at + 2


cdef inline char *write_bulk_text(char *at, const char *text, Py_ssize_t size) noexcept:
    """Write a bulk string. Returns where it ends."""
    at = write_line(at, c'$', size)
    memcpy(at, text, size)
    at += size
    at[0] = c'\r'
    at[1] = c'\n'
    return at + 2


cdef inline char *write_bulk_bytes(char *at, bytes text) noexcept:
    return write_bulk_text(at, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
