# Strings of RDB files in C: see `lengths`. Included by the `.pyx` modules, after `numbers.pxi` and `decimal_text.pxi`.

from cpython.bytes cimport PyBytes_FromStringAndSize
from headrace.persistence.rdb.lzf import decompress

cdef enum:
    # First bytes of strings: integers, and text that is compressed.
    INT8 = 0xC0
    INT16 = 0xC1
    INT32 = 0xC2
    LZF = 0xC3
    # Bytes of the text of an integer of 32 bits, and its end.
    INTEGER_ROOM = 24


cdef object read_string(const unsigned char **place, const unsigned char *end):
    """Read the string at `place`, and move `place` past it. Returns None if it is incomplete or of another kind. Raises
    RdbError."""
    cdef const unsigned char *at = place[0]
    cdef u64 size = 0, full_size = 0
    cdef int first, number_size
    cdef char digits[INTEGER_ROOM]
    cdef i64 number
    if at == end:
        return None
    first = at[0]
    if first < INT8:
        if not read_length(&at, end, &size) or size > <u64>(end - at):
            return None
        place[0] = at + size
        return PyBytes_FromStringAndSize(<const char *>at, size)
    at += 1
    if first <= INT32:
        number_size = 1 << first - INT8
        if end - at < number_size:
            return None
        # The sign is the top bit of the last byte.
        number = <i64>(read_little(at, number_size) << 64 - 8 * number_size) >> 64 - 8 * number_size
        place[0] = at + number_size
        return PyBytes_FromStringAndSize(digits, write_decimal(digits, number))
    if first != LZF or not read_length(&at, end, &size) or not read_length(&at, end, &full_size):
        return None
    if size > <u64>(end - at):
        return None
    place[0] = at + size
    return decompress(PyBytes_FromStringAndSize(<const char *>at, size), full_size)


cdef inline bint skip_string(const unsigned char **place, const unsigned char *end) noexcept:
    """Move `place` past the string there. Returns False if it is incomplete or of another kind."""
    cdef const unsigned char *at = place[0]
    cdef u64 size = 0, full_size = 0
    cdef int first
    if at == end:
        return False
    first = at[0]
    if INT8 <= first <= INT32:
        at += 1
        size = 1 << first - INT8
    elif first == LZF:
        at += 1
        if not read_length(&at, end, &size) or not read_length(&at, end, &full_size):
            return False
    elif not read_length(&at, end, &size):
        return False
    if size > <u64>(end - at):
        return False
    place[0] = at + size
    return True
