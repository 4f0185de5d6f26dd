# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Encodes maps whose fields are always the same, for installations with a C compiler: `map_forms_plain` in C.

Both modules behave alike and are tested by the same tests; `maps` imports this one if it was built.
"""

from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.mem cimport PyMem_Free, PyMem_Realloc

ctypedef unsigned long long u64

include "resp.pxi"

cdef enum:
    # Bytes of an integer or a null, and of what is around a string, at most.
    VALUE_SIZE_MAX = 25
    # Bytes of the beginning of an array, at most.
    HEADER_SIZE_MAX = 24
    # Characters of an integer, at most.
    INTEGER_TEXT_SIZE_MAX = 22


cdef class MapForm:
    """See `map_forms_plain.MapForm`."""

    cdef bytes head, null
    # The names of the fields, encoded.
    cdef tuple names
    cdef Py_ssize_t names_size

    def __init__(self, int protocol, tuple names not None, int more=0):
        cdef int count = len(names) + more
        self.head = b"%%%d\r\n" % count if protocol == 3 else b"*%d\r\n" % (2 * count)
        self.null = b"_\r\n" if protocol == 3 else b"$-1\r\n"
        self.names = tuple([b"$%d\r\n%b\r\n" % (len(name), name) for name in names])
        self.names_size = PyBytes_GET_SIZE(self.head) + sum(map(len, self.names))

    def encode(self, list rows not None):
        """See `map_forms_plain.MapForm`."""
        return self.encoded(rows, False)

    def encode_array(self, list rows not None):
        """See `map_forms_plain.MapForm`."""
        return self.encoded(rows, True)

    cdef bytes encoded(self, list rows, bint is_array):
        cdef Py_ssize_t size = 0, capacity = 0, needed, index, count = len(self.names)
        cdef char *text = NULL
        cdef char *at
        cdef void *block
        cdef tuple row
        cdef bytes name
        try:
            if is_array:
                capacity = HEADER_SIZE_MAX + len(rows) * (self.names_size + count * VALUE_SIZE_MAX)
                text = <char *>PyMem_Realloc(NULL, capacity)
                if text == NULL:
                    raise MemoryError
                size = write_header(text, c'*', len(rows)) - text
            for row in rows:
                if row is None or len(row) != count:
                    raise ValueError("a row has a value for each field")
                needed = size + self.names_size + count * VALUE_SIZE_MAX + values_size(row)
                if needed > capacity:
                    capacity = needed + (needed >> 1 if size else 0)
                    block = PyMem_Realloc(text, capacity)
                    if block == NULL:
                        raise MemoryError
                    text = <char *>block
                at = write_text(text + size, PyBytes_AS_STRING(self.head), PyBytes_GET_SIZE(self.head))
                for index in range(count):
                    name = self.names[index]
                    at = write_text(at, PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name))
                    at = self.write_value(at, row[index])
                size = at - text
            return PyBytes_FromStringAndSize(text, size)
        finally:
            PyMem_Free(text)

    cdef char *write_value(self, char *at, value) except NULL:
        """Write a value of a kind that `values_size` has counted. Returns where it ends."""
        cdef long long number
        cdef int overflow = 0
        cdef bytes digits
        if value is None:
            return write_text(at, PyBytes_AS_STRING(self.null), PyBytes_GET_SIZE(self.null))
        if PyBytes_Check(value):
            return write_bulk(at, value)
        if type(value) is tuple:
            for piece in <tuple>value:
                at = write_text(at, PyBytes_AS_STRING(piece), PyBytes_GET_SIZE(piece))
            return at
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        at[0] = c':'
        at += 1
        if overflow:
            digits = b"%d" % value
            if len(digits) > INTEGER_TEXT_SIZE_MAX:
                raise OverflowError("an integer of a reply is too long")
            return write_text(write_text(at, PyBytes_AS_STRING(digits), PyBytes_GET_SIZE(digits)), b"\r\n", 2)
        if number < 0:
            at[0] = c'-'
            at += 1
        at = write_number(at, <u64>number if number >= 0 else 0 - <u64>number)
        at[0] = c'\r'
        at[1] = c'\n'
        return at + 2


cdef Py_ssize_t values_size(tuple row) except -1:
    """Bytes of the strings and encoded pieces of a row. Raises TypeError for a value of another kind."""
    cdef Py_ssize_t size = 0
    for value in row:
        if PyBytes_Check(value):
            size += PyBytes_GET_SIZE(value)
        elif type(value) is tuple:
            for piece in <tuple>value:
                if not PyBytes_Check(piece):
                    raise TypeError("an encoded piece is bytes")
                size += PyBytes_GET_SIZE(piece)
        elif value is not None and type(value) is not int:
            raise TypeError(f"no value of a map: {type(value).__name__}")
    return size
