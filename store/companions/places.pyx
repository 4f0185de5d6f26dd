# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The places of members in a sorted set, for installations with a C compiler: `places_plain` in C.

Both modules behave alike and are tested by the same tests; each caller imports this one if it was built.
"""

ctypedef unsigned char u8
ctypedef unsigned long long u64

include "place_text.pxi"


cdef inline object member_in(bytes place):
    return PyBytes_FromStringAndSize(PyBytes_AS_STRING(place) + SCORE_BYTES, PyBytes_GET_SIZE(place) - SCORE_BYTES)


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
    return place_text(score, member)


def score_of(bytes place):
    """See `places_plain`."""
    demand(place)
    return read_score(<const u8 *>PyBytes_AS_STRING(place))


def pack_score(double score):
    """See `places_plain`."""
    return packed_score(score)


def unpack_score(bytes packed not None):
    """See `places_plain`."""
    return unpacked_score(packed)


def unpack_scores(list packed not None):
    """See `places_plain`."""
    cdef list scores = []
    for each in packed:
        scores.append(None if each is None else unpacked_score(each))
    return scores


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
