# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Integers in arguments, for installations with a C compiler: `integers_plain` in C.

Both modules behave alike and are tested by the same tests; `numbers` imports this one if it was built.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_GET_SIZE

ctypedef unsigned long long u64

cdef enum:
    # Digits of a number that always fits 64 bits with its sign. One digit more needs a check.
    DIGITS_FIT = 18
    DIGITS_MAX = 19


def parse_integer(token):
    """See `integers_plain.parse_integer`."""
    cdef const char *at
    cdef Py_ssize_t size, index
    cdef u64 number = 0
    cdef bint is_negative
    if not PyBytes_Check(token):
        raise TypeError(f"an argument is bytes, not {type(token).__name__}")
    at, size = PyBytes_AS_STRING(token), PyBytes_GET_SIZE(token)
    is_negative = size > 1 and at[0] == c'-'
    if is_negative:
        at += 1
        size -= 1
    if not 0 < size <= DIGITS_MAX or (at[0] == c'0' and (size > 1 or is_negative)):
        return None
    for index in range(size):
        if not c'0' <= at[index] <= c'9':
            return None
        number = number * 10 + <u64>(at[index] - c'0')
    # Nineteen digits fit 64 bits without a sign.
    if size > DIGITS_FIT and number > (<u64>1 << 63) - (0 if is_negative else 1):
        return None
    return <long long>(0 - number) if is_negative else <long long>number
