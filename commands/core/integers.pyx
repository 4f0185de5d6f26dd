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
