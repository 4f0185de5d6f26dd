# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""LZF, the compression of RDB strings, for installations with a C compiler: `lzf_plain` in C.

Both modules behave alike and are tested by the same tests; `primitives` imports this one if it was built.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcpy, memset

from ..errors import RdbError

ctypedef const unsigned char *Place
ctypedef unsigned int u32
ctypedef unsigned long long u64

cdef extern from *:
    """
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    #define first_difference(bits) (__builtin_clzll(bits) >> 3)
    #define THREE_BYTES 0xFFFFFF00u
    #else
    #define first_difference(bits) (__builtin_ctzll(bits) >> 3)
    #define THREE_BYTES 0x00FFFFFFu
    #endif
    """
    # The index of the first of eight bytes that differs, from the exclusive or of two numbers that are not equal.
    int first_difference(u64 bits) nogil
    # The first three of four bytes in a number.
    const u32 THREE_BYTES

cdef enum:
    LITERALS_MAX = 32
    DISTANCE_MAX = 8192
    REFERENCE_SIZE_MAX = 264
    EXPANSION_MAX = 88
    SLOTS_COUNT = 1 << 16

    WORD_SIZE = 8
    # Bytes that are copied at once; there is room for them after what they are copied to.
    STRIDE = 16

cdef u64 PLACES_COUNT = <u64>1 << 32

# Last position of three bytes with each hash, plus `first_place`. Values up to `first_place` are from other texts.
# Numbers of 32 bits take half of the processor's cache.
cdef u32 seen[SLOTS_COUNT]
cdef u64 first_place = 0


def decompress(data, u64 size):
    """Decompress `data` to `size` bytes. Raises RdbError if the result has another size."""
    cdef Place at
    cdef Place end
    cdef bytes made
    cdef unsigned char *first
    cdef unsigned char *out
    cdef unsigned char *out_end
    cdef Py_ssize_t length, distance
    require_bytes(data)
    at = <Place> PyBytes_AS_STRING(data)
    end = at + PyBytes_GET_SIZE(data)
    if size > <u64> PyBytes_GET_SIZE(data) * EXPANSION_MAX:
        raise RdbError("Invalid LZF compressed string: the announced length is impossible")
    made = PyBytes_FromStringAndSize(NULL, <Py_ssize_t> size)
    first = out = <unsigned char *> PyBytes_AS_STRING(made)
    out_end = out + size
    while at < end:
        if at[0] < LITERALS_MAX:
            length = at[0] + 1
            at += 1
            if length > end - at or length > out_end - out:
                raise wrong_size()
            if end - at >= LITERALS_MAX and out_end - out >= LITERALS_MAX:
                memcpy(out, at, LITERALS_MAX)
            else:
                memcpy(out, at, length)
            at += length
            out += length
            continue
        length = (at[0] >> 5) + 2
        distance = (at[0] & 31) << 8
        at += 1
        if length == 9 and at < end:
            length += at[0]
            at += 1
        if at >= end:
            raise wrong_size()
        distance = (distance | at[0]) + 1
        at += 1
        if distance > out - first:
            raise RdbError("Invalid LZF compressed string: a reference to before its beginning")
        if length > out_end - out:
            raise wrong_size()
        if distance >= STRIDE and length <= STRIDE and out_end - out >= STRIDE:
            memcpy(out, out - distance, STRIDE)
            out += length
        elif distance >= length:
            memcpy(out, out - distance, length)
            out += length
        else:
            while length:
                out[0] = (out - distance)[0]
                out += 1
                length -= 1
    if out != out_end:
        raise wrong_size()
    return made


cdef int require_bytes(object data) except -1:
    """Raise TypeError unless `data` is bytes or of a subclass, as some strings of the store are."""
    if not isinstance(data, bytes):
        raise TypeError("bytes were expected")
    return 0


cdef object wrong_size():
    return RdbError("Invalid LZF compressed string: the length is not the announced one")


def compress(data, Py_ssize_t size_max):
    """Compress `data` to at most `size_max` bytes. Returns None if that is impossible, or if the size is too close to
    the limit for Redis."""
    global first_place
    cdef Place first
    cdef Py_ssize_t position = 0, literals_start = 0
    cdef Py_ssize_t size, last_start
    cdef Py_ssize_t origin, length, distance, literals_size
    cdef u32 *slot
    cdef bytes made
    cdef unsigned char *out
    cdef unsigned char *out_first
    cdef unsigned char *out_end
    require_bytes(data)
    first = <Place> PyBytes_AS_STRING(data)
    size = PyBytes_GET_SIZE(data)
    last_start = size - 2
    if size_max <= 0:
        return None
    begin(size)
    # The check may miss three literal bytes and a control byte at the end.
    made = PyBytes_FromStringAndSize(NULL, size_max + 8)
    out = out_first = <unsigned char *> PyBytes_AS_STRING(made)
    out_end = out + size_max + 8
    while position < last_start:
        slot = &seen[slot_of(first + position)]
        origin = <Py_ssize_t> (slot[0] - first_place) if slot[0] > first_place else 0
        slot[0] = <u32> (first_place + <u64> position)
        # Position 0 is never referred to, since it marks an empty slot.
        if not origin or position - origin > DISTANCE_MAX or not are_alike(first + origin, first + position):
            position += 1
            continue
        literals_size = position - literals_start
        if reach(out - out_first, literals_size) + 4 >= size_max:
            first_place += <u64> size
            return None
        out = append_literals(out, out_end, first + literals_start, first + size, literals_size)
        length = match_length(first, size, origin, position)
        distance = position - origin - 1
        if length < 9:
            out[0] = <unsigned char> ((length - 2) << 5 | distance >> 8)
            out += 1
        else:
            out[0] = <unsigned char> (7 << 5 | distance >> 8)
            out[1] = <unsigned char> (length - 9)
            out += 2
        out[0] = <unsigned char> (distance & 0xFF)
        out += 1
        position += length
        literals_start = position
        if position < last_start:
            # Of the bytes that are referred to, only the last two positions are stored.
            seen[slot_of(first + position - 2)] = <u32> (first_place + <u64> (position - 2))
            seen[slot_of(first + position - 1)] = <u32> (first_place + <u64> (position - 1))
    first_place += <u64> size
    literals_size = position - literals_start
    if reach(out - out_first, literals_size) + (literals_size % LITERALS_MAX == 0) + 3 > size_max:
        return None
    out = append_literals(out, out_end, first + literals_start, first + size, size - literals_start)
    return made[:out - out_first]


cdef int begin(Py_ssize_t size) except -1:
    """Prepare for a text of this size. Raises OverflowError for one of more than 4 GiB, which Redis has not."""
    global first_place
    if first_place + <u64> size >= PLACES_COUNT:
        if <u64> size >= PLACES_COUNT:
            raise OverflowError("a text of more than 4 GiB")
        memset(seen, 0, sizeof(seen))
        first_place = 0
    return 0


cdef inline Py_ssize_t slot_of(Place at) noexcept:
    """The hash of three bytes."""
    return ((at[0] << 8) - 1279 * at[1] - 5 * at[2]) & 0xFFFF


cdef inline bint are_alike(Place one, Place other) noexcept:
    """Whether three bytes are equal. A fourth is read: the NUL after the end of a text, at most."""
    cdef u32 here, there
    memcpy(&here, one, 4)
    memcpy(&there, other, 4)
    return not (here ^ there) & THREE_BYTES


cdef inline Py_ssize_t reach(Py_ssize_t out_size, Py_ssize_t literals_size) noexcept:
    """Return the output size with these literals, including a control byte for each run of them."""
    return out_size + literals_size + (literals_size + LITERALS_MAX - 1) // LITERALS_MAX


cdef inline unsigned char *append_literals(
    unsigned char *out, const unsigned char *out_end, Place at, Place end, Py_ssize_t size
) noexcept:
    """Append literals. Returns where they end. Bytes up to `end` may be read, and up to `out_end` be written."""
    cdef Py_ssize_t run
    while size:
        run = min(size, <Py_ssize_t> LITERALS_MAX)
        out[0] = <unsigned char> (run - 1)
        if end - at >= LITERALS_MAX and out_end - out > LITERALS_MAX:
            memcpy(out + 1, at, LITERALS_MAX)
        else:
            memcpy(out + 1, at, run)
        out += run + 1
        at += run
        size -= run
    return out


cdef inline Py_ssize_t match_length(Place first, Py_ssize_t size, Py_ssize_t origin, Py_ssize_t position) noexcept:
    """Return how many bytes from `position` on equal those from `origin` on, at least three: see `lzf_plain`."""
    cdef Py_ssize_t length_max = min(size - position - 2, <Py_ssize_t> REFERENCE_SIZE_MAX)
    cdef Py_ssize_t length = 3
    cdef u64 here, there
    if length_max > 16:
        length_max = max(length_max, 19)
    while length + WORD_SIZE <= length_max:
        memcpy(&there, first + origin + length, WORD_SIZE)
        memcpy(&here, first + position + length, WORD_SIZE)
        if here != there:
            return length + first_difference(here ^ there)
        length += WORD_SIZE
    while length < length_max and first[origin + length] == first[position + length]:
        length += 1
    return length
