# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""How a digest of a dataset is made of texts, for installations with a C compiler: `digest_codec_plain` in C.

Both modules behave alike and are tested by the same tests.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcpy, memset

ctypedef unsigned char u8
ctypedef unsigned int u32
ctypedef unsigned long long u64

include "../../store/byte_order.pxi"

cdef enum:
    DIGEST_SIZE = 20
    WORDS_COUNT = 5
    BLOCK_SIZE = 64
    # Where the size is in the last block.
    SIZE_AT = 56


cdef inline u32 rotated(u32 word, int bits) noexcept nogil:
    return word << bits | word >> (32 - bits)


cdef void hash_block(u32 *state, const u8 *block) noexcept nogil:
    """Hash 64 bytes. Source: FIPS 180-4, SHA-1."""
    cdef u32 words[80]
    cdef u32 a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], next
    cdef int at
    for at in range(16):
        words[at] = (
            <u32>block[4 * at] << 24 | <u32>block[4 * at + 1] << 16 | <u32>block[4 * at + 2] << 8 | block[4 * at + 3]
        )
    for at in range(16, 80):
        words[at] = rotated(words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16], 1)
    for at in range(20):
        next = rotated(a, 5) + (d ^ (b & (c ^ d))) + e + <u32>0x5A827999U + words[at]
        e, d, c, b, a = d, c, rotated(b, 30), a, next
    for at in range(20, 40):
        next = rotated(a, 5) + (b ^ c ^ d) + e + <u32>0x6ED9EBA1U + words[at]
        e, d, c, b, a = d, c, rotated(b, 30), a, next
    for at in range(40, 60):
        next = rotated(a, 5) + ((b & c) | (d & (b | c))) + e + <u32>0x8F1BBCDCU + words[at]
        e, d, c, b, a = d, c, rotated(b, 30), a, next
    for at in range(60, 80):
        next = rotated(a, 5) + (b ^ c ^ d) + e + <u32>0xCA62C1D6U + words[at]
        e, d, c, b, a = d, c, rotated(b, 30), a, next
    state[0] += a
    state[1] += b
    state[2] += c
    state[3] += d
    state[4] += e


cdef void hash_text(u8 *digest, const u8 *text, Py_ssize_t size) noexcept:
    """The SHA-1 digest of a text."""
    cdef u32 state[WORDS_COUNT]
    cdef u8 last[BLOCK_SIZE]
    cdef Py_ssize_t left = size
    cdef int at
    state[0], state[1], state[2], state[3], state[4] = (
        0x67452301U, 0xEFCDAB89U, 0x98BADCFEU, 0x10325476U, 0xC3D2E1F0U
    )
    while left >= BLOCK_SIZE:
        hash_block(state, text)
        text += BLOCK_SIZE
        left -= BLOCK_SIZE
    memset(last, 0, BLOCK_SIZE)
    memcpy(last, text, left)
    last[left] = 0x80
    if left >= SIZE_AT:
        hash_block(state, last)
        memset(last, 0, BLOCK_SIZE)
    write_big(last + SIZE_AT, <u64>size * 8, 8)
    hash_block(state, last)
    for at in range(WORDS_COUNT):
        write_big(digest + 4 * at, state[at], 4)


cdef inline void add_text(u8 *digest, const u8 *text, Py_ssize_t size) noexcept:
    """Add a text to a digest; the order does not matter."""
    cdef u8 other[DIGEST_SIZE]
    cdef int at
    hash_text(other, text, size)
    for at in range(DIGEST_SIZE):
        digest[at] ^= other[at]


cdef inline void mix_text(u8 *digest, const u8 *text, Py_ssize_t size) noexcept:
    """Add a text to a digest; the order matters."""
    cdef u8 sum[DIGEST_SIZE]
    memcpy(sum, digest, DIGEST_SIZE)
    add_text(sum, text, size)
    hash_text(digest, sum, DIGEST_SIZE)


cdef int load(u8 *digest, bytes given) except -1:
    if PyBytes_GET_SIZE(given) != DIGEST_SIZE:
        raise ValueError("a digest has twenty bytes")
    memcpy(digest, PyBytes_AS_STRING(given), DIGEST_SIZE)
    return 0


cdef inline bytes made(const u8 *digest):
    return PyBytes_FromStringAndSize(<const char *>digest, DIGEST_SIZE)


cdef inline int demand(text) except -1:
    if not PyBytes_Check(text):
        raise TypeError("bytes were expected")
    return 0


def add(bytes digest not None, text):
    """See `digest_codec_plain`."""
    cdef u8 found[DIGEST_SIZE]
    load(found, digest)
    demand(text)
    add_text(found, <const u8 *>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
    return made(found)


def add_each(bytes digest not None, list texts not None):
    """See `digest_codec_plain`."""
    cdef u8 found[DIGEST_SIZE]
    load(found, digest)
    for text in texts:
        demand(text)
        add_text(found, <const u8 *>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
    return made(found)


def mix(bytes digest not None, text):
    """See `digest_codec_plain`."""
    cdef u8 found[DIGEST_SIZE]
    load(found, digest)
    demand(text)
    mix_text(found, <const u8 *>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
    return made(found)


def mix_each(bytes digest not None, list texts not None):
    """See `digest_codec_plain`."""
    cdef u8 found[DIGEST_SIZE]
    load(found, digest)
    for text in texts:
        demand(text)
        mix_text(found, <const u8 *>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
    return made(found)


def mix_often(bytes digest not None, bytes text not None, Py_ssize_t count):
    """See `digest_codec_plain`."""
    cdef u8 found[DIGEST_SIZE]
    cdef u8 of_text[DIGEST_SIZE]
    cdef int at
    load(found, digest)
    hash_text(of_text, <const u8 *>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
    while count > 0:
        for at in range(DIGEST_SIZE):
            found[at] ^= of_text[at]
        hash_text(found, found, DIGEST_SIZE)
        count -= 1
    return made(found)


def add_pairs(bytes digest not None, list words not None, list marked not None, bytes mark not None):
    """See `digest_codec_plain`."""
    cdef u8 found[DIGEST_SIZE]
    cdef u8 one[DIGEST_SIZE]
    cdef Py_ssize_t index
    load(found, digest)
    if len(words) % 2 or (marked and len(marked) != len(words) // 2):
        raise ValueError("pairs were expected, each with a mark")
    for index in range(0, len(words), 2):
        demand(words[index])
        demand(words[index + 1])
        memset(one, 0, DIGEST_SIZE)
        mix_text(one, <const u8 *>PyBytes_AS_STRING(words[index]), PyBytes_GET_SIZE(words[index]))
        mix_text(one, <const u8 *>PyBytes_AS_STRING(words[index + 1]), PyBytes_GET_SIZE(words[index + 1]))
        if marked and marked[index >> 1]:
            add_text(one, <const u8 *>PyBytes_AS_STRING(mark), PyBytes_GET_SIZE(mark))
        add_text(found, one, DIGEST_SIZE)
    return made(found)
