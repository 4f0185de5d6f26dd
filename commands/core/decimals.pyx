# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Decimal numbers in arguments, for installations with a C compiler: `decimals_plain` in C.

Both modules behave alike and are tested by the same tests; `numbers` imports this one if it was built.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.math cimport isinf

cdef extern from "Python.h":
    double PyOS_string_to_double(const char *text, char **end, PyObject *overflow_exception) except? -1.0


def parse_decimal(bytes token not None):
    """See `decimals_plain.parse_decimal`."""
    cdef const char *at = PyBytes_AS_STRING(token)
    cdef const char *start = at
    cdef const char *end = at + PyBytes_GET_SIZE(token)
    cdef bint is_zero = True, has_digits = False
    cdef double number
    if at != end and (at[0] == c"-" or at[0] == c"+"):
        at += 1
    while at != end and (c"0" <= at[0] <= c"9"):
        has_digits = True
        is_zero = is_zero and at[0] == c"0"
        at += 1
    if at != end and at[0] == c".":
        at += 1
        while at != end and (c"0" <= at[0] <= c"9"):
            has_digits = True
            is_zero = is_zero and at[0] == c"0"
            at += 1
    if not has_digits:
        return None
    if at != end and (at[0] == c"e" or at[0] == c"E"):
        at += 1
        if at != end and (at[0] == c"-" or at[0] == c"+"):
            at += 1
        if at == end:
            return None
        while at != end and (c"0" <= at[0] <= c"9"):
            at += 1
    if at != end:
        return None
    # Python's byte strings end with a zero byte. Without an exception to raise, what is too large becomes infinite.
    number = PyOS_string_to_double(start, NULL, NULL)
    if isinf(number) or (number == 0 and not is_zero):
        return None
    return number
