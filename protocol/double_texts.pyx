# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Doubles as Redis prints them, for installations with a C compiler: `double_texts_plain` in C.

Both modules behave alike and are tested by the same tests; `scalars` imports this one if it was built.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize

ctypedef unsigned long long u64
ctypedef long long i64

include "double_text.pxi"


def shortest_text(double number):
    """See `double_texts_plain`."""
    cdef char text[TEXT_SIZE_MAX]
    return PyBytes_FromStringAndSize(text, write_shortest(text, number))


def double_text(double number):
    """See `double_texts_plain`."""
    cdef char text[TEXT_SIZE_MAX]
    return PyBytes_FromStringAndSize(text, write_double(text, number))
