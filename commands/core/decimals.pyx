# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Decimal numbers in arguments, for installations with a C compiler: `decimals_plain` in C.

Both modules behave alike and are tested by the same tests; `numbers` imports this one if it was built.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.math cimport isinf
from libc.stdio cimport snprintf
from libc.stdlib cimport strtold

cdef extern from "Python.h":
    double PyOS_string_to_double(const char *text, char **end, PyObject *overflow_exception) except? -1.0

cdef extern from "float.h":
    const int LDBL_MANT_DIG

cdef enum:
    # Bits of the numbers that Redis has on x86-64, and its digits after the point.
    LONG_DOUBLE_BITS = 64
    FRACTION_DIGITS = 17
    SHORT_SIZE_MAX = 32
    SUM_SIZE_MAX = 64


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


def is_short_decimal(bytes token not None):
    """See `decimals_plain.is_short_decimal`."""
    return is_short(token)


def add_decimals(bytes left not None, bytes right not None):
    """See `decimals_plain.add_decimals`."""
    cdef char text[SUM_SIZE_MAX]
    cdef int size
    if not is_short(left) or not is_short(right):
        return None
    size = snprintf(
        text, SUM_SIZE_MAX, "%.*Lf", <int>FRACTION_DIGITS,
        strtold(PyBytes_AS_STRING(left), NULL) + strtold(PyBytes_AS_STRING(right), NULL),
    )
    while text[size - 1] == c"0":
        size -= 1
    if text[size - 1] == c".":
        size -= 1
    if size == 2 and text[0] == c"-" and text[1] == c"0":
        return b"0"
    return text[:size]


cdef inline bint is_short(bytes token) noexcept:
    """Whether a token is a number of few digits, without an exponent."""
    cdef const char *at = PyBytes_AS_STRING(token)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(token), index
    cdef bint has_digits = False, has_point = False
    if size > SHORT_SIZE_MAX or LDBL_MANT_DIG != LONG_DOUBLE_BITS:
        return False
    for index in range(size):
        if c"0" <= at[index] <= c"9":
            has_digits = True
        elif at[index] == c"." and not has_point:
            has_point = True
        elif index or (at[0] != c"-" and at[0] != c"+"):
            return False
    return has_digits
