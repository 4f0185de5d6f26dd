# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Keys with small hashes, lists, sets, sorted sets and arrays in RDB files, for installations with a C compiler:
`small_codec_plain` in C.

Both modules behave alike and are tested by the same tests; their callers import this one if it was built.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcpy

from headrace.persistence.errors import RdbError

ctypedef unsigned char u8
ctypedef unsigned int u32
ctypedef unsigned long long u64

include "numbers.pxi"
include "../../protocol/double_text.pxi"
include "../../store/companions/place_text.pxi"
include "../../store/decimal_text.pxi"
include "strings.pxi"
include "../../store/listpack.pxi"
include "lzf.pxi"
include "buffer.pxi"

cdef enum:
    EXPIRY_MS = 252
    TIME_SIZE = 8
    # Types of values that are a listpack or an intset.
    SET_INTSET = 11
    HASH_LISTPACK = 16
    SORTED_SET_LISTPACK = 17
    QUICKLIST_2 = 18
    SET_LISTPACK = 20
    HASH_LISTPACK_EX = 25
    # The kind of a node of a list that is a listpack.
    PACKED_NODE = 2
    # Bytes of a file from which on a call returns, so that each call is short.
    READ_SIZE = 16 * 1024
    LENGTHS_SIZE = 2
    # Bytes of a listpack that is made without memory of its own.
    ROOM = 4096
    SHORT_PLACES_MAX = 4

# Scores that are tried as decimals with few digits after the point, of 15 digits at most.
cdef double SHORT_SCORE_MIN = 0.01
cdef double SHORT_SCORE_MAX = 1e11

# Doubles below this have no fraction if they are equal to an integer.
cdef double WHOLE_MAX = <double>(<i64>1 << 53)


def encode_small(list values not None, dict expires not None, bint compress):
    """See `small_codec_plain`."""
    cdef Buffer to = Buffer()
    cdef bint has_expiries = bool(expires)
    cdef object expires_ms
    cdef bytes key, head
    cdef tuple packed
    cdef Py_ssize_t size
    for key, packed in values:
        head = packed[0]
        size = PyBytes_GET_SIZE(head)
        if not size:
            raise ValueError("a value without a type")
        expires_ms = expires.get(key) if has_expiries else None
        to.reserve(1 + TIME_SIZE + 1)
        if expires_ms is not None:
            to.at[0] = EXPIRY_MS
            write_little(to.at + 1, <u64><i64>expires_ms, TIME_SIZE)
            to.at += 1 + TIME_SIZE
        to.at[0] = <u8>PyBytes_AS_STRING(head)[0]
        to.at += 1
        append_string(to, key, compress)
        if size > 1:
            to.reserve(size - 1)
            memcpy(to.at, PyBytes_AS_STRING(head) + 1, size - 1)
            to.at += size - 1
        if packed[1] is not None:
            append_string(to, packed[1], compress)
    return to.take()


def read_small(bytes block not None, Py_ssize_t position):
    """See `small_codec_plain`."""
    cdef const u8 *start = <const u8 *>PyBytes_AS_STRING(block)
    cdef const u8 *end = start + PyBytes_GET_SIZE(block)
    cdef const u8 *at
    cdef list keys = []
    cdef object expires_ms, key, text
    cdef int kind
    if not 0 <= position <= PyBytes_GET_SIZE(block):
        raise IndexError("no such position")
    at = start + position
    while at - start - position < READ_SIZE:
        expires_ms = None
        if end - at > TIME_SIZE and at[0] == EXPIRY_MS:
            expires_ms = <i64>read_little(at + 1, TIME_SIZE)
            at += 1 + TIME_SIZE
        if at == end or not is_small(at[0]):
            break
        kind = at[0]
        at += 1
        try:
            key = read_string(&at, end)
            if key is None or not skip_before(kind, &at, end):
                break
            text = read_string(&at, end)
        except RdbError:
            break
        if text is None:
            break
        keys.append((key, kind, text, expires_ms, at - start))
    return keys


cdef inline bint is_small(int kind) noexcept:
    """Whether values of a type are a listpack or an intset, or can be."""
    return kind == HASH_LISTPACK or kind == SORTED_SET_LISTPACK or kind == SET_LISTPACK or kind == QUICKLIST_2 or (
        kind == SET_INTSET or kind == HASH_LISTPACK_EX
    )


cdef inline bint skip_before(int kind, const u8 **place, const u8 *end) noexcept:
    """Move `place` past what precedes the string of a value. Returns False if that is not all, or some other value."""
    cdef const u8 *at = place[0]
    if kind == QUICKLIST_2:
        if end - at < 2 or at[0] != 1 or at[1] != PACKED_NODE:
            return False
        place[0] = at + 2
    elif kind == HASH_LISTPACK_EX:
        if end - at < TIME_SIZE:
            return False
        place[0] = at + TIME_SIZE
    return True


cdef inline Py_ssize_t write_short_score(char *text, double score) noexcept:
    """Like `write_double`, for a score that is often a number of few digits.

    A decimal of up to 15 digits that is the nearest one to a double is its shortest text, since any two such decimals
    are nearest to different doubles.
    """
    cdef double size = fabs(score), scale = 1
    cdef u64 digits, whole
    cdef int places, index
    cdef char *at = text
    if SHORT_SCORE_MIN <= size < SHORT_SCORE_MAX:
        for places in range(1, SHORT_PLACES_MAX + 1):
            scale *= 10
            digits = <u64>(size * scale + 0.5)
            if <double>digits / scale == size:
                if score < 0:
                    at[0] = c'-'
                    at += 1
                whole = digits // <u64>scale
                digits -= whole * <u64>scale
                at += write_decimal(at, <i64>whole)
                at[0] = c'.'
                for index in range(places, 0, -1):
                    at[index] = c'0' + <char>(digits % 10)
                    digits //= 10
                return at + 1 + places - text
    return write_double(text, score)


def pack_joined_places(bytes joined not None):
    """See `small_codec_plain`."""
    cdef const u8 *item = <const u8 *>PyBytes_AS_STRING(joined)
    cdef const u8 *end = item + PyBytes_GET_SIZE(joined)
    cdef const u8 *each = item
    cdef u8 room[ROOM]
    cdef u8 *start = room
    cdef u8 *at
    cdef bytes packed = None
    cdef char text[TEXT_SIZE_MAX]
    cdef size_t needed = LISTPACK_HEADER_SIZE + 1
    cdef u64 count = 0
    cdef double score
    while each < end:
        if each[0] < SCORE_BYTES or end - each < each[0] + LENGTHS_SIZE:
            raise ValueError("a place that is cut off")
        needed += each[0] + 2 * ELEMENT_FRAME_MAX + TEXT_SIZE_MAX
        each += each[0] + LENGTHS_SIZE
        count += 2
    if needed > ROOM:
        packed = PyBytes_FromStringAndSize(NULL, needed)
        start = <u8 *>PyBytes_AS_STRING(packed)
    at = start + LISTPACK_HEADER_SIZE
    while item < end:
        score = read_score(item + 1)
        at = write_element(at, item + 1 + SCORE_BYTES, item[0] - SCORE_BYTES)
        if -WHOLE_MAX < score < WHOLE_MAX and score == <double><i64>score and (score or not signbit(score)):
            at = write_integer(at, <i64>score)
        else:
            at = write_element(at, <const u8 *>text, write_short_score(text, score))
        item += item[0] + LENGTHS_SIZE
    at[0] = LISTPACK_END
    at += 1
    write_little(start, at - start, 4)
    write_little(start + 4, min(count, <u64>LISTPACK_COUNT_UNKNOWN), 2)
    return PyBytes_FromStringAndSize(<const char *>start, at - start)
