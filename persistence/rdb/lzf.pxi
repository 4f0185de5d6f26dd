# LZF in C: see `lzf_plain`. Included by the `.pyx` modules, which define `u32` and `u64` and import RdbError.

from libc.string cimport memcpy, memset

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
    # Bytes that `compress_into` may write beyond its limit.
    COMPRESSED_SPARE = 8

cdef u64 PLACES_COUNT = <u64>1 << 32

# Last position of three bytes with each hash, plus `first_place`. Values up to `first_place` are from other texts.
# Numbers of 32 bits take half of the processor's cache.
cdef u32 seen[SLOTS_COUNT]
cdef u64 first_place = 0


cdef int require_possible(Py_ssize_t size, u64 full_size) except -1:
    """Raise RdbError if so many compressed bytes cannot become `full_size` bytes."""
    if full_size > <u64>size * EXPANSION_MAX:
        raise RdbError("Invalid LZF compressed string: the announced length is impossible")
    return 0


cdef int decompress_into(
    unsigned char *first, Py_ssize_t size, const unsigned char *at, const unsigned char *end
) except -1:
    """Decompress the bytes from `at` to `end` to `size` bytes. Raises RdbError if the result has another size."""
    cdef unsigned char *out = first
    cdef unsigned char *out_end = first + size
    cdef Py_ssize_t length, distance, copied
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
        if distance >= STRIDE and out_end - out >= REFERENCE_SIZE_MAX + STRIDE:
            # Strides do not overlap. The last one may copy too much.
            memcpy(out, out - distance, STRIDE)
            copied = STRIDE
            while copied < length:
                memcpy(out + copied, out + copied - distance, STRIDE)
                copied += STRIDE
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
    return 0


cdef object wrong_size():
    return RdbError("Invalid LZF compressed string: the length is not the announced one")


cdef Py_ssize_t compress_into(
    unsigned char *out_first, Py_ssize_t size_max, const unsigned char *first, Py_ssize_t size
) except -2:
    """Compress `size` bytes, after which one more can be read, to at most `size_max` bytes. Returns their number; -1 if
    that is impossible, or if it is too close to the limit for Redis. COMPRESSED_SPARE bytes more may be written."""
    cdef Py_ssize_t position = 0, literals_start = 0
    cdef Py_ssize_t last_start = size - 2
    cdef Py_ssize_t length, distance, literals_size
    # In a variable of its own: what is written to `out` could change the global one.
    cdef u32 place = begin(size)
    cdef u32 *slot
    cdef unsigned char *out = out_first
    cdef const unsigned char *out_end = out_first + size_max + COMPRESSED_SPARE
    while position < last_start:
        slot = &seen[slot_of(first + position)]
        distance = <u32>(place + <u32>position - slot[0])
        slot[0] = place + <u32>position
        # Position 0 is never referred to, and what other texts left is farther away.
        if distance >= position or distance > DISTANCE_MAX or not are_alike(first + position - distance, first + position):
            position += 1
            continue
        literals_size = position - literals_start
        if reach(out - out_first, literals_size) + 4 >= size_max:
            return -1
        out = append_literals(out, out_end, first + literals_start, first + size, literals_size)
        length = match_length(first, size, position - distance, position)
        distance -= 1
        # A short reference takes one byte less. Which it is cannot be predicted, so that a branch would take longer.
        out[0] = <unsigned char>((min(length, <Py_ssize_t>9) - 2) << 5 | distance >> 8)
        out[1] = <unsigned char>(length - 9)
        out += 1 + (length >= 9)
        out[0] = <unsigned char>(distance & 0xFF)
        out += 1
        position += length
        literals_start = position
        if position < last_start:
            # Of the bytes that are referred to, only the last two positions are stored.
            seen[slot_of(first + position - 2)] = place + <u32>(position - 2)
            seen[slot_of(first + position - 1)] = place + <u32>(position - 1)
    literals_size = position - literals_start
    if reach(out - out_first, literals_size) + (literals_size % LITERALS_MAX == 0) + 3 > size_max:
        return -1
    out = append_literals(out, out_end, first + literals_start, first + size, size - literals_start)
    return out - out_first


cdef u32 begin(Py_ssize_t size) except? 0xFFFFFFFF:
    """Prepare for a text of this size. Returns what its places are counted from. Raises OverflowError for a text of more
    than 4 GiB, which Redis has not."""
    global first_place
    cdef u32 place
    if first_place + <u64> size >= PLACES_COUNT:
        if <u64> size >= PLACES_COUNT:
            raise OverflowError("a text of more than 4 GiB")
        memset(seen, 0, sizeof(seen))
        first_place = 0
    place = <u32>first_place
    first_place += <u64>size
    return place


cdef inline Py_ssize_t slot_of(const unsigned char *at) noexcept:
    """The hash of three bytes."""
    return ((at[0] << 8) - 1279 * at[1] - 5 * at[2]) & 0xFFFF


cdef inline bint are_alike(const unsigned char *one, const unsigned char *other) noexcept:
    """Whether three bytes are equal. A fourth is read: the NUL after the end of a text, at most."""
    cdef u32 here, there
    memcpy(&here, one, 4)
    memcpy(&there, other, 4)
    return not (here ^ there) & THREE_BYTES


cdef inline Py_ssize_t reach(Py_ssize_t out_size, Py_ssize_t literals_size) noexcept:
    """Return the output size with these literals, including a control byte for each run of them."""
    return out_size + literals_size + (literals_size + LITERALS_MAX - 1) // LITERALS_MAX


cdef inline unsigned char *append_literals(
    unsigned char *out, const unsigned char *out_end, const unsigned char *at, const unsigned char *end, Py_ssize_t size
) noexcept:
    """Append literals. Returns where they end. Bytes up to `end` may be read, and up to `out_end` be written."""
    cdef Py_ssize_t run
    if size < LITERALS_MAX and end - at >= LITERALS_MAX and out_end - out > LITERALS_MAX:
        # Without a branch for no literals: their control byte is overwritten.
        out[0] = <unsigned char>(size - 1)
        memcpy(out + 1, at, LITERALS_MAX)
        return out + size + (size > 0)
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


cdef inline Py_ssize_t match_length(
    const unsigned char *first, Py_ssize_t size, Py_ssize_t origin, Py_ssize_t position
) noexcept:
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
