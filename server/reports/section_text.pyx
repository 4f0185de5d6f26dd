# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The text of a section of INFO, for installations with a C compiler: `section_text_plain` in C.

Both modules behave alike and are tested by the same tests; `info` imports this one if it was built.
"""

from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.mem cimport PyMem_Free, PyMem_Realloc

ctypedef unsigned long long u64

include "../../protocol/resp.pxi"

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL

cdef enum:
    # Bytes of a number at most: a sign, and the digits of 64 bits.
    NUMBER_SIZE_MAX = 21
    # Bytes of the usual section: more memory is reserved for longer ones.
    USUAL_SIZE = 4096

cdef struct Buffer:
    char *data
    Py_ssize_t size
    Py_ssize_t capacity


cdef int add_bytes(Buffer *buffer, const char *text, Py_ssize_t size) except -1:
    cdef Py_ssize_t capacity = buffer.size + size
    cdef char *data
    if capacity > buffer.capacity:
        capacity += max(capacity, <Py_ssize_t>USUAL_SIZE)
        data = <char *>PyMem_Realloc(buffer.data, capacity)
        if data == NULL:
            raise MemoryError
        buffer.data, buffer.capacity = data, capacity
    memcpy(buffer.data + buffer.size, text, size)
    buffer.size += size
    return 0


cdef int add_str(Buffer *buffer, str text) except -1:
    cdef Py_ssize_t size = 0
    cdef const char *data
    cdef bytes encoded
    if PyUnicode_IS_ASCII(text):
        data = PyUnicode_AsUTF8AndSize(text, &size)
        return add_bytes(buffer, data, size)
    encoded = text.encode("utf-8", "surrogateescape")
    return add_bytes(buffer, PyBytes_AS_STRING(encoded), PyBytes_GET_SIZE(encoded))


cdef int add_value(Buffer *buffer, value) except -1:
    cdef char digits[NUMBER_SIZE_MAX]
    cdef char *at = digits
    cdef int overflow = 0
    cdef long long number
    if type(value) is int:
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        if not overflow:
            if number < 0:
                at[0] = c'-'
                at += 1
            at = write_number(at, <u64>number if number >= 0 else 0 - <u64>number)
            return add_bytes(buffer, digits, at - digits)
    return add_str(buffer, value if type(value) is str else str(value))


def section_text(str title not None, list fields not None):
    """See `section_text_plain.section_text`."""
    cdef Buffer buffer
    cdef tuple field
    buffer.data, buffer.size, buffer.capacity = NULL, 0, 0
    try:
        add_bytes(&buffer, b"# ", 2)
        add_str(&buffer, title)
        add_bytes(&buffer, b"\r\n", 2)
        for field in fields:
            add_str(&buffer, field[0])
            add_bytes(&buffer, b":", 1)
            add_value(&buffer, field[1])
            add_bytes(&buffer, b"\r\n", 2)
        return PyBytes_FromStringAndSize(buffer.data, buffer.size)
    finally:
        PyMem_Free(buffer.data)
