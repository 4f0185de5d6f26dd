# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""What a HyperLogLog takes long for, for installations with a C compiler: `hyperloglog_codec_plain` in C.

Both modules behave alike and are tested by the same tests.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcpy, memmove, memset

ctypedef unsigned char u8
ctypedef unsigned long long u64

include "byte_order.pxi"

cdef extern from *:
    """
    #if defined(__GNUC__) && defined(__x86_64__)
    #include <immintrin.h>

    /* Each number of 32 bits gets the three bytes of four registers, then a byte for each of them. Two times sixteen
       bytes are read, of which twelve are used. */
    __attribute__((target("avx2")))
    static size_t headrace_raise_blocks(unsigned char *out, const unsigned char *at, size_t size) {
        const __m256i spread = _mm256_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1,
                                                0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
        const __m256i first = _mm256_set1_epi32(0x3F), second = _mm256_set1_epi32(0x3F00);
        const __m256i third = _mm256_set1_epi32(0x3F0000), fourth = _mm256_set1_epi32(0x3F000000);
        __m256i found, four;
        size_t done = 0;
        for (; size - done >= 28; done += 24, out += 32) {
            four = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(at + done)));
            four = _mm256_inserti128_si256(four, _mm_loadu_si128((const __m128i *)(at + done + 12)), 1);
            four = _mm256_shuffle_epi8(four, spread);
            found = _mm256_and_si256(four, first);
            found = _mm256_or_si256(found, _mm256_and_si256(_mm256_slli_epi32(four, 2), second));
            found = _mm256_or_si256(found, _mm256_and_si256(_mm256_slli_epi32(four, 4), third));
            found = _mm256_or_si256(found, _mm256_and_si256(_mm256_slli_epi32(four, 6), fourth));
            found = _mm256_max_epu8(found, _mm256_loadu_si256((const __m256i *)out));
            _mm256_storeu_si256((__m256i *)out, found);
        }
        return done;
    }

    /* The inverse. Two times sixteen bytes are written, of which what follows replaces the last four. */
    __attribute__((target("avx2")))
    static size_t headrace_pack_blocks(unsigned char *out, const unsigned char *at, size_t size) {
        const __m256i join = _mm256_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1,
                                              0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
        const __m256i first = _mm256_set1_epi32(0x3F), second = _mm256_set1_epi32(0xFC0);
        const __m256i third = _mm256_set1_epi32(0x3F000), fourth = _mm256_set1_epi32(0xFC0000);
        __m256i found, four;
        size_t done = 0;
        for (; size - done >= 28; done += 24, at += 32) {
            four = _mm256_loadu_si256((const __m256i *)at);
            found = _mm256_and_si256(four, first);
            found = _mm256_or_si256(found, _mm256_and_si256(_mm256_srli_epi32(four, 2), second));
            found = _mm256_or_si256(found, _mm256_and_si256(_mm256_srli_epi32(four, 4), third));
            found = _mm256_or_si256(found, _mm256_and_si256(_mm256_srli_epi32(four, 6), fourth));
            found = _mm256_shuffle_epi8(found, join);
            _mm_storeu_si128((__m128i *)(out + done), _mm256_castsi256_si128(found));
            _mm_storeu_si128((__m128i *)(out + done + 12), _mm256_extracti128_si256(found, 1));
        }
        return done;
    }

    static size_t headrace_raise(unsigned char *out, const unsigned char *at, size_t size) {
        return __builtin_cpu_supports("avx2") ? headrace_raise_blocks(out, at, size) : 0;
    }

    static size_t headrace_pack(unsigned char *out, const unsigned char *at, size_t size) {
        return __builtin_cpu_supports("avx2") ? headrace_pack_blocks(out, at, size) : 0;
    }
    #else
    #define headrace_raise(out, at, size) ((size_t)0)
    #define headrace_pack(out, at, size) ((size_t)0)
    #endif
    """
    # Raise registers to those of `size` packed bytes, and write the bytes of registers, as far as the processor has
    # instructions for many at once. Both return the packed bytes that are done, a multiple of three.
    size_t headrace_raise(u8 *out, const u8 *at, size_t size) nogil
    size_t headrace_pack(u8 *out, const u8 *at, size_t size) nogil

cdef u64 MULTIPLIER = 0xC6A4A7935BD1E995ULL
cdef u64 SEED = 0xADC83B19ULL

cdef enum:
    SHIFT = 47
    WORD_SIZE = 8
    REGISTER_MAX = 63
    XZERO = 0x40
    VAL = 0x80
    INDEX_BITS = 14
    REGISTERS_COUNT = 1 << INDEX_BITS
    RANK_BITS = 64 - INDEX_BITS
    # Six bits for each register.
    PACKED_SIZE = 12288
    HEADER_SIZE = 16
    FLAG_AT = 15
    STALE = 0x80
    # As in `hyperloglog_form`.
    ZERO_SPAN_MAX = 64
    VAL_SPAN_MAX = 4
    VAL_MAX = 32
    JOINED_RUNS_MAX = 5
    SAME = 0
    RAISED = 1
    NO_ROOM = 2
    CORRUPT = 3
    # Bytes of the runs that replace one.
    PARTS_SIZE_MAX = 5


def murmur64(bytes text not None):
    """Return the hash of a text, a number of 64 bits without a sign."""
    return hash_of(text)


cdef u64 hash_of(bytes text) noexcept:
    cdef const u8 *at = <const u8 *>PyBytes_AS_STRING(text)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(text), index
    cdef Py_ssize_t whole_size = size - size % WORD_SIZE
    cdef u64 found = SEED ^ (<u64>size * MULTIPLIER), word
    for index in range(0, whole_size, WORD_SIZE):
        word = whole_word_at(at + index) * MULTIPLIER
        found = (found ^ ((word ^ (word >> SHIFT)) * MULTIPLIER)) * MULTIPLIER
    if whole_size < size:
        found = (found ^ read_little(at + whole_size, <int>(size - whole_size))) * MULTIPLIER
    found = (found ^ (found >> SHIFT)) * MULTIPLIER
    return found ^ (found >> SHIFT)


cdef inline u64 whole_word_at(const u8 *at) noexcept:
    """The number that eight bytes are, the lowest first. Compilers make one load of it."""
    return (
        <u64>at[0] | <u64>at[1] << 8 | <u64>at[2] << 16 | <u64>at[3] << 24
        | <u64>at[4] << 32 | <u64>at[5] << 40 | <u64>at[6] << 48 | <u64>at[7] << 56
    )


def place_of(bytes element not None):
    """See `hyperloglog_codec_plain`."""
    cdef u64 found = hash_of(element)
    return found & (REGISTERS_COUNT - 1), rank_of(found)


cdef inline u8 rank_of(u64 found) noexcept:
    """The rank of the element with this hash."""
    cdef u64 bits = found >> INDEX_BITS | <u64>1 << RANK_BITS
    cdef u8 rank = 1
    while not bits & 1:
        bits >>= 1
        rank += 1
    return rank


def raised_dense(bytes text not None, list elements not None, Py_ssize_t first):
    """See `hyperloglog_codec_plain`."""
    cdef Py_ssize_t raised_count = 0, index, bit
    cdef unsigned int pair, shift, rank
    cdef u64 found
    cdef bytes element, raised = text
    if PyBytes_GET_SIZE(text) != HEADER_SIZE + PACKED_SIZE:
        raise ValueError("not all registers are there")
    if first < 0:
        raise IndexError("no such element")
    cdef u8 *registers = <u8 *>PyBytes_AS_STRING(text) + HEADER_SIZE
    for index in range(first, len(elements)):
        element = elements[index]
        found = hash_of(element)
        rank = rank_of(found)
        bit = <Py_ssize_t>(found & (REGISTERS_COUNT - 1)) * 6
        shift = bit & 7
        # The last register ends with the last byte.
        pair = registers[bit >> 3] | (<unsigned int>registers[(bit >> 3) + 1] << 8 if shift > 2 else 0)
        if (pair >> shift & REGISTER_MAX) >= rank:
            continue
        if not raised_count:
            # Only now is a copy needed.
            raised = PyBytes_FromStringAndSize(PyBytes_AS_STRING(text), HEADER_SIZE + PACKED_SIZE)
            registers = <u8 *>PyBytes_AS_STRING(raised) + HEADER_SIZE
            registers[FLAG_AT - HEADER_SIZE] |= STALE
        pair = (pair & ~(<unsigned int>REGISTER_MAX << shift)) | rank << shift
        registers[bit >> 3] = pair & 0xFF
        if shift > 2:
            registers[(bit >> 3) + 1] = pair >> 8
        raised_count += 1
    return raised, raised_count


def unpacked(bytes packed not None, Py_ssize_t start=0):
    """See `hyperloglog_codec_plain`."""
    cdef bytes registers = PyBytes_FromStringAndSize(NULL, REGISTERS_COUNT)
    cdef u8 *out = <u8 *>PyBytes_AS_STRING(registers)
    memset(out, 0, REGISTERS_COUNT)
    raise_to(out, packed, start)
    return registers


def raise_packed(bytearray registers not None, bytes packed not None, Py_ssize_t start=0):
    """See `hyperloglog_codec_plain`."""
    demand_all(registers)
    raise_to(<u8 *>PyByteArray_AS_STRING(registers), packed, start)


cdef int raise_to(u8 *out, bytes packed, Py_ssize_t start) except -1:
    """Raise registers to packed ones, which begin at `start`."""
    cdef const u8 *at = <const u8 *>PyBytes_AS_STRING(packed)
    cdef Py_ssize_t index, each
    cdef unsigned int four
    if start < 0 or PyBytes_GET_SIZE(packed) - start != PACKED_SIZE:
        raise ValueError("not all registers are there")
    at += start
    for index in range(<Py_ssize_t>headrace_raise(out, at, PACKED_SIZE) // 3, PACKED_SIZE // 3):
        four = at[3 * index] | <unsigned int>at[3 * index + 1] << 8 | <unsigned int>at[3 * index + 2] << 16
        for each in range(4):
            out[4 * index + each] = max(<u8>(four >> 6 * each & REGISTER_MAX), out[4 * index + each])
    return 0


cdef int demand_all(bytearray registers) except -1:
    if PyByteArray_GET_SIZE(registers) != REGISTERS_COUNT:
        raise ValueError("not all registers are there")
    return 0


def packed(bytes registers not None):
    """See `hyperloglog_codec_plain`."""
    cdef const u8 *at = <const u8 *>PyBytes_AS_STRING(registers)
    cdef Py_ssize_t index
    cdef unsigned int four
    if PyBytes_GET_SIZE(registers) != REGISTERS_COUNT:
        raise ValueError("not all registers are there")
    cdef bytes found = PyBytes_FromStringAndSize(NULL, PACKED_SIZE)
    cdef u8 *out = <u8 *>PyBytes_AS_STRING(found)
    for index in range(<Py_ssize_t>headrace_pack(out, at, PACKED_SIZE) // 3, PACKED_SIZE // 3):
        four = at[4 * index] | <unsigned int>at[4 * index + 1] << 6
        four |= <unsigned int>at[4 * index + 2] << 12 | <unsigned int>at[4 * index + 3] << 18
        out[3 * index] = four & 0xFF
        out[3 * index + 1] = four >> 8 & 0xFF
        out[3 * index + 2] = four >> 16 & 0xFF
    return found


def histogram(bytes registers not None):
    """How many registers have each value; there is a byte for each register."""
    cdef const u8 *at = <const u8 *>PyBytes_AS_STRING(registers)
    cdef Py_ssize_t index, size = PyBytes_GET_SIZE(registers)
    # Four counts of each value: an addition waits for the one before to the same count, and registers are much alike.
    cdef unsigned int counts[4][256]
    memset(counts, 0, sizeof(counts))
    for index in range(size >> 2):
        counts[0][at[4 * index]] += 1
        counts[1][at[4 * index + 1]] += 1
        counts[2][at[4 * index + 2]] += 1
        counts[3][at[4 * index + 3]] += 1
    for index in range(size & ~<Py_ssize_t>3, size):
        counts[0][at[index]] += 1
    return [
        counts[0][index] + counts[1][index] + counts[2][index] + counts[3][index] for index in range(REGISTER_MAX + 1)
    ]


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


def raise_by_runs(bytearray registers not None, bytes text not None, Py_ssize_t start):
    """See `hyperloglog_codec_plain`."""
    cdef const u8 *at = <const u8 *>PyBytes_AS_STRING(text)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(text), index = start, passed = 0, span, each
    cdef u8 *out
    cdef u8 value
    demand_all(registers)
    if start < 0:
        raise IndexError(start)
    out = <u8 *>PyByteArray_AS_STRING(registers)
    while index < size:
        span = span_of(at, index, size)
        if span > REGISTERS_COUNT - passed:
            return False
        if at[index] >= VAL:
            value = (at[index] >> 2 & 31) + 1
            for each in range(passed, passed + span):
                if out[each] < value:
                    out[each] = value
        passed += span
        index += 2 if XZERO <= at[index] < VAL else 1
    return passed == REGISTERS_COUNT


def run_histogram(bytes text not None, Py_ssize_t start, Py_ssize_t registers_count):
    """See `hyperloglog_codec_plain`."""
    cdef const u8 *at = <const u8 *>PyBytes_AS_STRING(text)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(text), index = start, rest = registers_count, span
    cdef unsigned int counts[REGISTER_MAX + 1]
    memset(counts, 0, sizeof(counts))
    while index < size:
        span = span_of(at, index, size)
        rest -= span
        if rest < 0:
            return None
        if at[index] >= VAL:
            counts[(at[index] >> 2 & 31) + 1] += <unsigned int>span
            index += 1
        else:
            counts[0] += <unsigned int>span
            index += 2 if at[index] >= XZERO else 1
    return [counts[index] for index in range(REGISTER_MAX + 1)] if not rest else None


cdef inline Py_ssize_t span_of(const u8 *at, Py_ssize_t index, Py_ssize_t size) noexcept:
    cdef u8 code = at[index]
    if code >= VAL:
        return (code & 3) + 1
    if code < XZERO:
        return code + 1
    return ((code & 63) << 8 | (at[index + 1] if index + 1 < size else 0)) + 1


# Where the search for a later register may begin: a run, and its first register.
cdef struct Start:
    Py_ssize_t index
    Py_ssize_t register


cdef inline Py_ssize_t write_run(u8 *at, int value, Py_ssize_t span) noexcept:
    """Write a run of so many registers, none if there are none. Returns its bytes."""
    if not span:
        return 0
    if value:
        at[0] = VAL | (value - 1) << 2 | <u8>(span - 1)
        return 1
    if span <= ZERO_SPAN_MAX:
        at[0] = <u8>(span - 1)
        return 1
    at[0] = XZERO | <u8>((span - 1) >> 8)
    at[1] = (span - 1) & 0xFF
    return 2


cdef Py_ssize_t joined(u8 *at, Py_ssize_t index, Py_ssize_t size) noexcept:
    """Put VAL runs with the same value together, in the few runs from `index` on. Returns the new size."""
    cdef int step
    cdef u8 code, following
    for step in range(JOINED_RUNS_MAX):
        if index >= size:
            break
        code = at[index]
        if code < VAL:
            index += 2 if code >= XZERO else 1
            continue
        following = at[index + 1] if index + 1 < size else 0
        if following & ~3 == code & ~3 and (code & 3) + (following & 3) + 2 <= VAL_SPAN_MAX:
            at[index + 1] = (code & ~3) | ((code & 3) + (following & 3) + 1)
            size -= 1
            memmove(at + index, at + index + 1, size - index)
        else:
            index += 1
    return size


cdef int raise_one(bytearray data, Start *start, Py_ssize_t register, int value, Py_ssize_t size_max) except -1:
    """See `hyperloglog_codec_plain.raise_run`."""
    cdef u8 *at = <u8 *>PyByteArray_AS_STRING(data)
    cdef Py_ssize_t size = PyByteArray_GET_SIZE(data), index, first, before, before_register, previous
    cdef Py_ssize_t previous_register, span = 0, width, parts_size = 0, new_size
    cdef u8 parts[PARTS_SIZE_MAX]
    cdef int old_value
    if value > VAL_MAX:
        return NO_ROOM
    if register < start.register:
        start.index, start.register = HEADER_SIZE, 0
    while True:
        index, first = start.index, start.register
        before = previous = -1
        before_register = previous_register = 0
        while index < size:
            # Branches, which the processor guesses: otherwise it waits for each run before it reads the next one.
            if XZERO <= at[index] < VAL:
                width = 2
                span = span_of(at, index, size)
            else:
                width = 1
                span = (at[index] & 3) + 1 if at[index] >= VAL else at[index] + 1
            if register < first + span:
                break
            before, before_register = previous, previous_register
            previous, previous_register = index, first
            first += span
            index += width
        if index >= size:
            return CORRUPT
        if index != start.index or index == HEADER_SIZE:
            break
        # The run before is not known.
        start.index, start.register = HEADER_SIZE, 0
    if before >= 0:
        start.index, start.register = before, before_register
    width = 2 if XZERO <= at[index] < VAL else 1
    old_value = (at[index] >> 2 & 31) + 1 if at[index] >= VAL else 0
    if old_value >= value:
        return SAME
    parts_size = write_run(parts, old_value, register - first)
    parts_size += write_run(parts + parts_size, value, 1)
    parts_size += write_run(parts + parts_size, old_value, first + span - 1 - register)
    new_size = size + parts_size - width
    if parts_size > width and new_size > size_max:
        return NO_ROOM
    if new_size > size:
        PyByteArray_Resize(data, new_size)
        at = <u8 *>PyByteArray_AS_STRING(data)
    # A last XZERO may be cut: then its second byte is not there.
    if index + width < size:
        memmove(at + index + parts_size, at + index + width, size - index - width)
    memcpy(at + index, parts, min(parts_size, new_size - index))
    new_size = joined(at, previous if previous >= 0 else HEADER_SIZE, new_size)
    at[FLAG_AT] |= STALE
    if new_size != PyByteArray_GET_SIZE(data):
        PyByteArray_Resize(data, new_size)
    return RAISED


def raise_run(
    bytearray data not None, Py_ssize_t start, Py_ssize_t start_register, Py_ssize_t register, int value,
    Py_ssize_t size_max,
):
    """See `hyperloglog_codec_plain`."""
    cdef Start place
    cdef int outcome
    demand_header(data, start)
    place.index, place.register = start, start_register
    outcome = raise_one(data, &place, register, value, size_max)
    return outcome, place.index, place.register


def raised_sparse(bytes text not None, list elements not None, Py_ssize_t first, Py_ssize_t size_max):
    """See `hyperloglog_codec_plain`."""
    cdef bytearray data = bytearray(text)
    cdef Py_ssize_t raised_count = 0, index = first
    cdef Start place
    cdef int outcome = SAME
    cdef u64 found
    demand_header(data, HEADER_SIZE)
    if first < 0:
        raise IndexError("no such element")
    place.index, place.register = HEADER_SIZE, 0
    while index < len(elements):
        found = hash_of(elements[index])
        outcome = raise_one(data, &place, found & (REGISTERS_COUNT - 1), rank_of(found), size_max)
        if outcome == NO_ROOM or outcome == CORRUPT:
            break
        raised_count += outcome == RAISED
        index += 1
    return (bytes(data) if raised_count else text), raised_count, index, outcome


def raise_runs(bytearray data not None, bytes registers not None, Py_ssize_t size_max):
    """See `hyperloglog_codec_plain`."""
    cdef const u8 *values = <const u8 *>PyBytes_AS_STRING(registers)
    cdef Py_ssize_t register
    cdef Start place
    cdef int outcome
    demand_header(data, HEADER_SIZE)
    place.index, place.register = HEADER_SIZE, 0
    for register in range(PyBytes_GET_SIZE(registers)):
        if values[register]:
            outcome = raise_one(data, &place, register, values[register], size_max)
            if outcome == NO_ROOM or outcome == CORRUPT:
                return outcome
    return RAISED


cdef int demand_header(bytearray data, Py_ssize_t start) except -1:
    """Raise ValueError if the bytes are too few, or a search would begin outside of the runs."""
    if PyByteArray_GET_SIZE(data) < HEADER_SIZE or start < HEADER_SIZE:
        raise ValueError(start)
    return 0
