# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Keys with strings in RDB files, for installations with a C compiler: `string_codec_plain` in C.

Both modules behave alike and are tested by the same tests; `file` imports this one if it was built.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcpy

from headrace.persistence.errors import RdbError
from headrace.persistence.rdb.lzf import compress as compress_lzf

ctypedef unsigned long long u64

include "numbers.pxi"
include "../../store/decimal_text.pxi"
include "strings.pxi"

cdef enum:
    EXPIRY_MS = 252
    STRING = 0
    PIECE_SIZE = 4096
    KEYS_COUNT_MAX = 256
    LONG_SIZE = 64 * 1024
    # Characters of the longest integer of 32 bits.
    INTEGER_TEXT_SIZE_MAX = 11
    COMPRESSED_SIZE_MIN = 21
    COMPRESSION_GAIN_MIN = 4
    # Bytes of a key without name and string.
    FRAME_SIZE_MAX = 10 + 2 * 19
    # Bytes of a piece that have room without another allocation.
    ROOM = PIECE_SIZE + 1024


def encode_strings(list pairs not None, Py_ssize_t start, dict expires not None, bint compress):
    """See `string_codec_plain`."""
    cdef unsigned char room[ROOM]
    cdef unsigned char *at = room
    cdef unsigned char *end = room + ROOM
    cdef Py_ssize_t index = max(start, 0), count = len(pairs)
    cdef bint has_expiries = bool(expires)
    cdef object key, value, expires_ms
    cdef bytes one
    while index < count and at - room < PIECE_SIZE:
        key, value = pairs[index]
        if not PyBytes_Check(key) or not PyBytes_Check(value):
            raise TypeError("bytes were expected")
        if PyBytes_GET_SIZE(value) > LONG_SIZE:
            break
        expires_ms = expires.get(key) if has_expiries else None
        if PyBytes_GET_SIZE(key) + PyBytes_GET_SIZE(value) + FRAME_SIZE_MAX > end - at:
            # A piece ends before a pair for which it has no room, unless that is its only one.
            if at == room:
                one = PyBytes_FromStringAndSize(NULL, PyBytes_GET_SIZE(key) + PyBytes_GET_SIZE(value) + FRAME_SIZE_MAX)
                at = write_key(<unsigned char *>PyBytes_AS_STRING(one), key, value, expires_ms, compress)
                return one[: at - <unsigned char *>PyBytes_AS_STRING(one)], index + 1
            break
        at = write_key(at, key, value, expires_ms, compress)
        index += 1
    return PyBytes_FromStringAndSize(<char *>room, at - room), index


cdef unsigned char *write_key(unsigned char *at, key, value, expires_ms, bint compress) except NULL:
    """Write a key. Returns where it ends."""
    if expires_ms is not None:
        at[0] = EXPIRY_MS
        write_little(at + 1, <u64><i64>expires_ms, 8)
        at += 9
    at[0] = STRING
    return write_string(write_string(at + 1, key, compress), value, compress)


cdef unsigned char *write_string(unsigned char *at, text, bint compress) except NULL:
    """Write a string in its shortest form. Returns where it ends."""
    cdef const unsigned char *start = <const unsigned char *>PyBytes_AS_STRING(text)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(text)
    cdef i64 number = 0
    cdef object compressed
    if size <= INTEGER_TEXT_SIZE_MAX:
        if read_number(start, size, &number):
            return write_number(at, number)
    elif compress and size >= COMPRESSED_SIZE_MIN:
        compressed = compress_lzf(text, size - COMPRESSION_GAIN_MIN)
        if compressed is not None:
            at[0] = LZF
            at = write_length(write_length(at + 1, PyBytes_GET_SIZE(compressed)), size)
            memcpy(at, PyBytes_AS_STRING(compressed), PyBytes_GET_SIZE(compressed))
            return at + PyBytes_GET_SIZE(compressed)
    at = write_length(at, size)
    memcpy(at, start, size)
    return at + size


cdef inline bint read_number(const unsigned char *at, Py_ssize_t size, i64 *number) noexcept:
    """Whether a text of at most 11 characters is a canonical signed 32-bit number, which is then read."""
    cdef Py_ssize_t index = size > 0 and at[0] == c'-'
    cdef bint is_negative = index
    cdef i64 value = 0
    if index == size or (at[index] == c'0' and size > 1):
        return False
    while index < size:
        if not c'0' <= at[index] <= c'9':
            return False
        value = value * 10 + (at[index] - c'0')
        index += 1
    number[0] = -value if is_negative else value
    return -(<i64>1 << 31) <= number[0] < <i64>1 << 31


cdef inline unsigned char *write_number(unsigned char *at, i64 number) noexcept:
    cdef int size = 4
    at[0] = INT32
    if -128 <= number < 128:
        at[0], size = INT8, 1
    elif -32768 <= number < 32768:
        at[0], size = INT16, 2
    write_little(at + 1, <u64>number, size)
    return at + 1 + size


def read_strings(bytes block not None, Py_ssize_t position):
    """See `string_codec_plain`."""
    cdef const unsigned char *start = <const unsigned char *>PyBytes_AS_STRING(block)
    cdef const unsigned char *end = start + PyBytes_GET_SIZE(block)
    cdef const unsigned char *at
    cdef const unsigned char *done
    cdef list keys = []
    cdef object expires_ms, key, value
    if not 0 <= position <= PyBytes_GET_SIZE(block):
        raise IndexError("no such position")
    done = at = start + position
    while len(keys) < KEYS_COUNT_MAX:
        expires_ms = None
        if end - at >= 9 and at[0] == EXPIRY_MS:
            expires_ms = <i64>read_little(at + 1, 8)
            at += 9
        if at == end or at[0] != STRING:
            break
        at += 1
        try:
            key = read_string(&at, end)
            value = None if key is None else read_string(&at, end)
        except RdbError:
            break
        if value is None:
            break
        keys.append((key, value, expires_ms))
        done = at
    return keys, done - start
