# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The places of members in a sorted set, for installations with a C compiler: `places_plain` in C.

Both modules behave alike and are tested by the same tests; each caller imports this one if it was built.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcpy

ctypedef unsigned char u8
ctypedef unsigned long long u64

cdef enum:
    SCORE_BYTES = 8

cdef u64 SIGN = <u64>1 << 63


cdef inline void write_score(u8 *at, double score, u64 step=0) noexcept:
    cdef u64 bits
    cdef int index
    score += 0.0
    memcpy(&bits, &score, SCORE_BYTES)
    bits = (~bits if bits & SIGN else bits | SIGN) + step
    for index in range(SCORE_BYTES):
        at[index] = <u8>(bits >> (8 * (SCORE_BYTES - 1 - index)))


cdef inline double read_score(const u8 *at) noexcept:
    cdef u64 bits = 0
    cdef double score
    cdef int index
    for index in range(SCORE_BYTES):
        bits = bits << 8 | at[index]
    bits = bits & ~SIGN if bits & SIGN else ~bits
    memcpy(&score, &bits, SCORE_BYTES)
    return score


cdef inline object member_in(bytes place):
    return PyBytes_FromStringAndSize(PyBytes_AS_STRING(place) + SCORE_BYTES, PyBytes_GET_SIZE(place) - SCORE_BYTES)


cdef int demand(bytes place) except -1:
    if place is None or PyBytes_GET_SIZE(place) < SCORE_BYTES:
        raise ValueError(place)
    return 0


def score_bytes(double score):
    """See `places_plain`."""
    cdef bytes place = PyBytes_FromStringAndSize(NULL, SCORE_BYTES)
    write_score(<u8 *>PyBytes_AS_STRING(place), score)
    return place


def bytes_after(double score):
    """See `places_plain`."""
    cdef bytes place = PyBytes_FromStringAndSize(NULL, SCORE_BYTES)
    write_score(<u8 *>PyBytes_AS_STRING(place), score, 1)
    return place


def place_of(double score, bytes member not None):
    """See `places_plain`."""
    cdef bytes place = PyBytes_FromStringAndSize(NULL, SCORE_BYTES + PyBytes_GET_SIZE(member))
    write_score(<u8 *>PyBytes_AS_STRING(place), score)
    memcpy(PyBytes_AS_STRING(place) + SCORE_BYTES, PyBytes_AS_STRING(member), PyBytes_GET_SIZE(member))
    return place


def score_of(bytes place):
    """See `places_plain`."""
    demand(place)
    return read_score(<const u8 *>PyBytes_AS_STRING(place))


def pack_score(double score):
    """See `places_plain`."""
    return PyBytes_FromStringAndSize(<char *>&score, SCORE_BYTES)


def unpack_score(bytes packed not None):
    """See `places_plain`."""
    cdef double score
    demand(packed)
    memcpy(&score, PyBytes_AS_STRING(packed), SCORE_BYTES)
    return score


def words_of(list places not None):
    """See `places_plain`."""
    cdef list words = []
    for place in places:
        demand(place)
        words.append(member_in(place))
        words.append(read_score(<const u8 *>PyBytes_AS_STRING(place)))
    return words


def scored_of(list places not None):
    """See `places_plain`."""
    cdef list pairs = []
    for place in places:
        demand(place)
        pairs.append((member_in(place), read_score(<const u8 *>PyBytes_AS_STRING(place))))
    return pairs
