# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Parses requests and packs commands, for installations with a C compiler: `frames_plain` in C.

Both modules behave alike and are tested by the same tests; `packing` imports this one if it was built.
"""

ctypedef unsigned long long u64

include "resp.pxi"


def splitter():
    """Return the function that splits complete requests off the front of bytes, for one reader."""
    return split


def split(bytes data not None, Py_ssize_t bulk_size_max):
    """Return the complete requests at the beginning of `data`, and their size in bytes. The rest is left to the careful
    parser.

    A request's list is not made longer than the number of arguments that fit in the data.
    """
    cdef const char *start = PyBytes_AS_STRING(data)
    cdef const char *end = start + PyBytes_GET_SIZE(data)
    cdef const char *at = start
    cdef list request
    cdef list requests = []
    while True:
        request = read_request(&at, end, bulk_size_max)
        if request is None:
            return requests, at - start
        requests.append(request)


def pack_command(words not None):
    """`(b"XLEN", b"s")` -> `*2\\r\\n$4\\r\\nXLEN\\r\\n$1\\r\\ns\\r\\n`. Raises TypeError unless all are bytes."""
    cdef Py_ssize_t count = len(words)
    cdef Py_ssize_t size = count_digits(count) + 3 + packed_size(words, 0, count)
    cdef bytes packed = PyBytes_FromStringAndSize(NULL, size)
    cdef char *at = write_header(PyBytes_AS_STRING(packed), c'*', count)
    write_words(at, words, 0, count)
    return packed
