# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Integers in arguments, for installations with a C compiler: `integers_plain` in C.

Both modules behave alike and are tested by the same tests; `numbers` imports this one if it was built.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_GET_SIZE

include "../../store/integer_text.pxi"


def parse_integer(token):
    """See `integers_plain.parse_integer`."""
    cdef long long number
    if not PyBytes_Check(token):
        raise TypeError(f"an argument is bytes, not {type(token).__name__}")
    return number if read_integer(PyBytes_AS_STRING(token), PyBytes_GET_SIZE(token), &number) else None


def plain_numbers(list tokens not None, Py_ssize_t first, Py_ssize_t step):
    """See `integers_plain.plain_numbers`."""
    cdef list numbers = []
    cdef Py_ssize_t at, index, size
    cdef const char *text
    cdef unsigned long long number
    cdef bytes token
    if first < 0 or step < 1:
        raise ValueError(first, step)
    for at in range(first, len(tokens), step):
        token = tokens[at]
        text, size, number = PyBytes_AS_STRING(token), PyBytes_GET_SIZE(token), 0
        if not 0 < size <= DIGITS_FIT:
            return None
        for index in range(size):
            if not c'0' <= text[index] <= c'9':
                return None
            number = number * 10 + <unsigned long long>(text[index] - c'0')
        numbers.append(number)
    return numbers
