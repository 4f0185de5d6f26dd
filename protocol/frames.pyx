# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Parses requests and packs commands, for installations with a C compiler: `frames_plain` in C.

Both modules behave alike and are tested by the same tests; `packing` imports this one if it was built.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Check, PyByteArray_GET_SIZE

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


def read_words(data, Py_ssize_t position, Py_ssize_t count, Py_ssize_t size_max, list words not None):
    """See `frames_plain`."""
    cdef const char *start
    cdef const char *end
    cdef const char *at
    cdef Py_ssize_t size
    if not PyByteArray_Check(data):
        raise TypeError("a bytearray was expected")
    start = PyByteArray_AS_STRING(data)
    end = start + PyByteArray_GET_SIZE(data)
    if not 0 <= position <= end - start:
        raise IndexError(position)
    at = start + position
    while count > 0:
        size = read_bulk(&at, end, size_max)
        if size < 0:
            break
        words.append(PyBytes_FromStringAndSize(at, size))
        at += size + 2
        count -= 1
    return at - start


def pack_command(words not None):
    """`(b"XLEN", b"s")` -> `*2\\r\\n$4\\r\\nXLEN\\r\\n$1\\r\\ns\\r\\n`. Raises TypeError unless all are bytes."""
    cdef Py_ssize_t count = len(words)
    cdef Py_ssize_t size = count_digits(count) + 3 + packed_size(words, 0, count)
    cdef bytes packed = PyBytes_FromStringAndSize(NULL, size)
    cdef char *at = write_header(PyBytes_AS_STRING(packed), c'*', count)
    write_words(at, words, 0, count)
    return packed
