# The place of a member: eight bytes that are ordered as its score is, then the member. Included by `places.pyx` and
# `score_order.pyx`, which define `u8` and `u64`.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcpy

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


cdef inline bytes place_text(double score, bytes member):
    cdef bytes place = PyBytes_FromStringAndSize(NULL, SCORE_BYTES + PyBytes_GET_SIZE(member))
    write_score(<u8 *>PyBytes_AS_STRING(place), score)
    memcpy(PyBytes_AS_STRING(place) + SCORE_BYTES, PyBytes_AS_STRING(member), PyBytes_GET_SIZE(member))
    return place


cdef inline bytes packed_score(double score):
    return PyBytes_FromStringAndSize(<char *>&score, SCORE_BYTES)


cdef inline double unpacked_score(bytes packed) except? -1.0:
    cdef double score
    demand(packed)
    memcpy(&score, PyBytes_AS_STRING(packed), SCORE_BYTES)
    return score


cdef inline int demand(bytes place) except -1:
    """Raises ValueError for what is too short for a score."""
    if place is None or PyBytes_GET_SIZE(place) < SCORE_BYTES:
        raise ValueError(place)
    return 0
