# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The order of elements by numbers, for installations with a C compiler: `number_order_plain` does the same.

Both modules behave alike and are tested by the same tests; `order` imports this one if it was built.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_SIZE, PyList_New, PyList_SET_ITEM
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdlib cimport qsort
from libc.string cimport memcmp

cdef extern from "Python.h":
    double PyOS_string_to_double(const char *text, char **end, PyObject *overflow_exception) except? -1.0

cdef enum:
    # Digits of integers that a double holds exactly, whatever they are.
    EXACT_DIGITS_MAX = 15
    PLAIN_SIZE_MAX = 300


cdef struct Weighed:
    double number
    PyObject *element


def sorted_by_numbers(list elements not None, list texts not None, bint reverse):
    """See `number_order_plain.sorted_by_numbers`."""
    cdef Py_ssize_t count = PyList_GET_SIZE(elements), index
    cdef Weighed *weighed
    cdef bytes text
    cdef bint is_ordered = True
    cdef list found
    cdef object element
    if PyList_GET_SIZE(texts) != count:
        raise ValueError("each element has a text")
    weighed = <Weighed *>PyMem_Malloc((count or 1) * sizeof(Weighed))
    if weighed == NULL:
        raise MemoryError
    try:
        for index in range(count):
            text = texts[index]
            if not read_number(text, &weighed[index].number):
                return None
            element = elements[index]
            weighed[index].element = <PyObject *>element
            if index and is_ordered:
                if reverse:
                    is_ordered = descending(&weighed[index - 1], &weighed[index]) <= 0
                else:
                    is_ordered = ascending(&weighed[index - 1], &weighed[index]) <= 0
        if not is_ordered:
            qsort(weighed, count, sizeof(Weighed), descending if reverse else ascending)
        found = PyList_New(count)
        for index in range(count):
            element = <object>weighed[index].element
            Py_INCREF(element)
            PyList_SET_ITEM(found, index, element)
        return found
    finally:
        PyMem_Free(weighed)


cdef int ascending(const void *left, const void *right) noexcept nogil:
    cdef const Weighed *one = <const Weighed *>left
    cdef const Weighed *other = <const Weighed *>right
    cdef Py_ssize_t size, other_size
    cdef int order
    if one.number != other.number:
        return -1 if one.number < other.number else 1
    size, other_size = PyBytes_GET_SIZE_(one.element), PyBytes_GET_SIZE_(other.element)
    order = memcmp(PyBytes_AS_STRING_(one.element), PyBytes_AS_STRING_(other.element), min(size, other_size))
    if order:
        return order
    return (size > other_size) - (size < other_size)


cdef int descending(const void *left, const void *right) noexcept nogil:
    return ascending(right, left)


cdef extern from "Python.h":
    Py_ssize_t PyBytes_GET_SIZE_ "PyBytes_GET_SIZE" (const PyObject *text) noexcept nogil
    const char *PyBytes_AS_STRING_ "PyBytes_AS_STRING" (const PyObject *text) noexcept nogil


cdef bint read_number(bytes text, double *number) except -1:
    """Set the number that a text spells in digits; returns False for other spellings."""
    cdef const char *start = PyBytes_AS_STRING(text)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(text), at
    cdef long long value = 0
    cdef bint is_negative = size > 1 and start[0] == c"-"
    at = is_negative
    if 0 < size - at <= EXACT_DIGITS_MAX:
        while at < size and c"0" <= start[at] <= c"9":
            value = value * 10 + (start[at] - c"0")
            at += 1
        if at == size:
            number[0] = -<double>value if is_negative else <double>value
            return True
    if not 0 < size <= PLAIN_SIZE_MAX:
        return False
    for at in range(size):
        if not (c"0" <= start[at] <= c"9" or start[at] == c"-" or start[at] == c"+" or start[at] == c"."):
            return False
    try:
        number[0] = PyOS_string_to_double(start, NULL, NULL)
    except ValueError:
        return False
    return True
