# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Random numbers below a size, for installations with a C compiler: `random_indexes_plain` in C.

Both modules draw with the same chances and are tested by the same tests. Here a call seeds a generator of its own from
Python's (SplitMix64; Steele, Lea and Flood 2014), so that `random.seed` decides what is drawn.
"""

import random

from libc.stdlib cimport calloc, free

cdef extern from *:
    """
    #include <stdint.h>
    static inline uint64_t next_word(uint64_t *state) {
        uint64_t word = (*state += 0x9e3779b97f4a7c15u);
        word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
        word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
        return word ^ (word >> 31);
    }
    /* The upper half of a product: the bias of a number below 2^32 is less than one in four thousand million. */
    static inline uint64_t below(uint64_t *state, uint64_t size) {
    #ifdef __SIZEOF_INT128__
        return (uint64_t)(((unsigned __int128)next_word(state) * size) >> 64);
    #else  /* Of a machine of 32 bits: sizes fit these. */
        return ((next_word(state) >> 32) * size) >> 32;
    #endif
    }
    """
    ctypedef unsigned long long uint64_t
    uint64_t below(uint64_t *state, uint64_t size)

cdef object _seed = random.getrandbits

cdef enum:
    SEED_BITS = 64
    # A table of drawn numbers has at least this many places for each.
    PLACES_PER_NUMBER = 2


def distinct_indexes(Py_ssize_t size, Py_ssize_t count):
    """See `random_indexes_plain.distinct_indexes`."""
    cdef uint64_t state
    cdef Py_ssize_t index, left, places
    cdef Py_ssize_t *drawn
    cdef list picked = []
    if not 0 <= count <= size:
        raise ValueError(count, size)
    state = _seed(SEED_BITS)
    if count * 3 >= size:
        left = count
        for index in range(size):
            if not left:
                break
            if <Py_ssize_t>below(&state, size - index) < left:
                picked.append(index)
                left -= 1
        return picked
    places = 8
    while places < count * PLACES_PER_NUMBER:
        places *= 2
    drawn = <Py_ssize_t *>calloc(places, sizeof(Py_ssize_t))
    if drawn == NULL:
        raise MemoryError
    try:
        while count:
            index = <Py_ssize_t>below(&state, size)
            if is_new(drawn, places - 1, index):
                picked.append(index)
                count -= 1
    finally:
        free(drawn)
    return picked


cdef bint is_new(Py_ssize_t *drawn, Py_ssize_t mask, Py_ssize_t index) noexcept:
    """Note a number in the table, in which 0 is a free place. Returns whether it was not there."""
    cdef Py_ssize_t place = <Py_ssize_t>(<size_t>index * 0x9e3779b1u) & mask
    while drawn[place]:
        if drawn[place] == index + 1:
            return False
        place = (place + 1) & mask
    drawn[place] = index + 1
    return True


def repeated_indexes(Py_ssize_t size, Py_ssize_t count):
    """See `random_indexes_plain.repeated_indexes`."""
    cdef uint64_t state = _seed(SEED_BITS)
    return [<Py_ssize_t>below(&state, size) for _ in range(count)]
