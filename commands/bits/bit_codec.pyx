# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Counting, finding and combining the bits of long strings, for installations with a C compiler: `bit_codec_plain` in C.

Both modules behave alike and are tested by the same tests.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcpy, memset

ctypedef unsigned char u8
ctypedef unsigned long long u64

cdef extern from *:
    """
    #include <string.h>

    /* Without an instruction of the processor: the sums of 2, 4 and 8 bits, then of the bytes of a word. */
    static unsigned long long headrace_ones_plain(const unsigned char *at, size_t size) {
        unsigned long long count = 0, word;
        for (; size >= 8; at += 8, size -= 8) {
            memcpy(&word, at, 8);
            word -= word >> 1 & 0x5555555555555555ULL;
            word = (word & 0x3333333333333333ULL) + (word >> 2 & 0x3333333333333333ULL);
            count += ((word + (word >> 4)) & 0x0F0F0F0F0F0F0F0FULL) * 0x0101010101010101ULL >> 56;
        }
        for (; size; at++, size--)
            for (word = *at; word; word &= word - 1) count++;
        return count;
    }

    #if defined(__GNUC__) && defined(__x86_64__)
    /* Four sums, since each addition waits for the one before. */
    __attribute__((target("popcnt")))
    static unsigned long long headrace_ones_popcnt(const unsigned char *at, size_t size) {
        unsigned long long counts[4] = {0, 0, 0, 0}, words[4];
        for (; size >= 32; at += 32, size -= 32) {
            memcpy(words, at, 32);
            counts[0] += (unsigned long long)__builtin_popcountll(words[0]);
            counts[1] += (unsigned long long)__builtin_popcountll(words[1]);
            counts[2] += (unsigned long long)__builtin_popcountll(words[2]);
            counts[3] += (unsigned long long)__builtin_popcountll(words[3]);
        }
        return counts[0] + counts[1] + counts[2] + counts[3] + headrace_ones_plain(at, size);
    }

    static unsigned long long headrace_ones(const unsigned char *at, size_t size) {
        return __builtin_cpu_supports("popcnt") ? headrace_ones_popcnt(at, size) : headrace_ones_plain(at, size);
    }
    #else
    #define headrace_ones headrace_ones_plain
    #endif
    """
    u64 headrace_ones(const u8 *at, size_t size) nogil

cdef enum:
    # Bytes that are combined at a time: the processor's nearest cache holds two of these.
    BLOCK_SIZE = 1 << 13


def count_ones(text not None, Py_ssize_t start, Py_ssize_t stop):
    """See `bit_codec_plain`."""
    if not PyBytes_Check(text):
        raise TypeError("bytes were expected")
    if not 0 <= start <= stop <= PyBytes_GET_SIZE(text):
        raise IndexError("no such bytes")
    return headrace_ones(<const u8 *>PyBytes_AS_STRING(text) + start, stop - start)


def byte_other_than(int byte, text not None, Py_ssize_t start, Py_ssize_t stop):
    """See `bit_codec_plain`."""
    if not PyBytes_Check(text):
        raise TypeError("bytes were expected")
    if not 0 <= start <= stop <= PyBytes_GET_SIZE(text):
        raise IndexError("no such bytes")
    cdef const u8 *at = <const u8 *>PyBytes_AS_STRING(text)
    cdef Py_ssize_t index = start
    cdef u64 same, words[4]
    memset(&same, byte, sizeof(same))
    while stop - index >= <Py_ssize_t>sizeof(words):
        memcpy(words, at + index, sizeof(words))
        if (words[0] ^ same) | (words[1] ^ same) | (words[2] ^ same) | (words[3] ^ same):
            break
        index += sizeof(words)
    while index < stop and at[index] == byte:
        index += 1
    return index


def combined(bytes operation not None, list texts not None):
    """See `bit_codec_plain`."""
    cdef Py_ssize_t size = 0, begin
    cdef object text
    for text in texts:
        if not PyBytes_Check(text):
            raise TypeError("bytes were expected")
        size = max(size, PyBytes_GET_SIZE(text))
    cdef bytes result = PyBytes_FromStringAndSize(NULL, size)
    cdef u8 *out = <u8 *>PyBytes_AS_STRING(result)
    for begin in range(0, size, BLOCK_SIZE):
        combine_block(operation, texts, out + begin, begin, min(BLOCK_SIZE, size - begin))
    return result


cdef int combine_block(bytes operation, list texts, u8 *out, Py_ssize_t begin, Py_ssize_t size) except -1:
    """Write a block of the result, which begins at `begin`."""
    cdef u8 several[BLOCK_SIZE]
    # The operations on the first text and all others begin with what any other has.
    cdef bint of_first = operation in (b"DIFF", b"DIFF1", b"ANDOR")
    cdef Py_ssize_t number = 1 if of_first else 0
    load(texts[number], out, begin, size)
    if operation == b"ONE":
        memset(several, 0, size)
    for number in range(number + 1, len(texts)):
        text = texts[number]
        if operation == b"AND":
            keep(out, bytes_at(text, begin), size_at(text, begin, size))
            if size_at(text, begin, size) < size:
                memset(out + size_at(text, begin, size), 0, size - size_at(text, begin, size))
        elif operation == b"XOR":
            toggle(out, bytes_at(text, begin), size_at(text, begin, size))
        elif operation == b"ONE":
            add_once(out, several, bytes_at(text, begin), size_at(text, begin, size))
        else:
            add(out, bytes_at(text, begin), size_at(text, begin, size))
    if operation == b"ONE":
        clear(out, several, size)
    elif operation == b"NOT":
        invert(out, size)
    elif operation == b"DIFF1":
        clear(out, bytes_at(texts[0], begin), size_at(texts[0], begin, size))
    elif of_first:
        load(texts[0], several, begin, size)
        if operation == b"DIFF":
            invert(out, size)
        keep(out, several, size)
    return 0


cdef inline const u8 *bytes_at(text, Py_ssize_t begin) noexcept:
    """Where the bytes of a text from `begin` on are; they may be none."""
    return <const u8 *>PyBytes_AS_STRING(text) + min(begin, PyBytes_GET_SIZE(text))


cdef inline Py_ssize_t size_at(text, Py_ssize_t begin, Py_ssize_t size) noexcept:
    """How many of the bytes of a block a text has."""
    return max(0, min(size, PyBytes_GET_SIZE(text) - begin))


cdef inline void load(text, u8 *out, Py_ssize_t begin, Py_ssize_t size) noexcept:
    """Copy a block of a text, with zeros after it."""
    cdef Py_ssize_t present = size_at(text, begin, size)
    memcpy(out, bytes_at(text, begin), present)
    memset(out + present, 0, size - present)


# The compiler makes these loops work on the longest words that the processor has.


cdef inline void keep(u8 *out, const u8 *at, Py_ssize_t size) noexcept:
    cdef Py_ssize_t index
    for index in range(size):
        out[index] = out[index] & at[index]


cdef inline void add(u8 *out, const u8 *at, Py_ssize_t size) noexcept:
    cdef Py_ssize_t index
    for index in range(size):
        out[index] = out[index] | at[index]


cdef inline void toggle(u8 *out, const u8 *at, Py_ssize_t size) noexcept:
    cdef Py_ssize_t index
    for index in range(size):
        out[index] = out[index] ^ at[index]


cdef inline void clear(u8 *out, const u8 *at, Py_ssize_t size) noexcept:
    cdef Py_ssize_t index
    for index in range(size):
        out[index] = out[index] & ~at[index]


cdef inline void invert(u8 *out, Py_ssize_t size) noexcept:
    cdef Py_ssize_t index
    for index in range(size):
        out[index] = ~out[index]


cdef inline void add_once(u8 *once, u8 *several, const u8 *at, Py_ssize_t size) noexcept:
    """Add bits; those that were there before are several."""
    cdef Py_ssize_t index
    for index in range(size):
        several[index] = several[index] | (once[index] & at[index])
        once[index] = once[index] | at[index]
