# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""LZF, the compression of RDB strings, for installations with a C compiler: `lzf_plain` in C.

Both modules behave alike and are tested by the same tests; `primitives` imports this one if it was built.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from ..errors import RdbError

ctypedef unsigned int u32
ctypedef unsigned long long u64

include "lzf.pxi"


def decompress(data, u64 size):
    """Decompress `data` to `size` bytes. Raises RdbError if the result has another size."""
    cdef const unsigned char *at
    cdef bytes made
    require_bytes(data)
    at = <const unsigned char *>PyBytes_AS_STRING(data)
    require_possible(PyBytes_GET_SIZE(data), size)
    made = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>size)
    decompress_into(<unsigned char *>PyBytes_AS_STRING(made), size, at, at + PyBytes_GET_SIZE(data))
    return made


def compress(data, Py_ssize_t size_max):
    """Compress `data` to at most `size_max` bytes. Returns None if that is impossible, or if the size is too close to
    the limit for Redis."""
    cdef bytes made
    cdef unsigned char *out
    cdef Py_ssize_t size
    require_bytes(data)
    if size_max <= 0:
        return None
    made = PyBytes_FromStringAndSize(NULL, size_max + COMPRESSED_SPARE)
    out = <unsigned char *>PyBytes_AS_STRING(made)
    size = compress_into(out, size_max, <const unsigned char *>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    return None if size < 0 else made[:size]


cdef int require_bytes(object data) except -1:
    """Raise TypeError unless `data` is bytes or of a subclass, as some strings of the store are."""
    if not isinstance(data, bytes):
        raise TypeError("bytes were expected")
    return 0
