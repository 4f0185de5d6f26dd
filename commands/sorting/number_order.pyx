# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The order of elements by numbers, for installations with a C compiler: `number_order_plain` does the same.

Both modules behave alike and are tested by the same tests; `order` imports this one if it was built.
"""

cimport cython
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


@cython.final
cdef class NumberOrder:
    """See `number_order_plain.NumberOrder`. The elements of each `add` are a sorted run; runs are merged in pairs, then
    pairs of them, and so on."""

    # The list of the caller, which does not change: the items refer to its elements.
    cdef list elements
    cdef bint reverse
    # Those that were added, with their numbers, and room for as many.
    cdef Weighed *items
    cdef Weighed *merged
    cdef Py_ssize_t count
    # Elements of a run; the last one may be shorter.
    cdef Py_ssize_t width
    # How many are merged in this pass, and what the two runs that are merged now still have.
    cdef Py_ssize_t done
    cdef Py_ssize_t left
    cdef Py_ssize_t left_end
    cdef Py_ssize_t right
    cdef Py_ssize_t right_end

    def __init__(self, list elements not None, bint reverse):
        cdef Py_ssize_t size = max(PyList_GET_SIZE(elements), 1) * sizeof(Weighed)
        if self.items != NULL:
            raise RuntimeError("an order is made once")
        self.elements, self.reverse = elements, reverse
        self.items = <Weighed *>PyMem_Malloc(size)
        if self.items == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.items)
        PyMem_Free(self.merged)

    def add(self, list texts not None):
        """See `number_order_plain.NumberOrder`."""
        cdef Py_ssize_t count = PyList_GET_SIZE(texts), index
        cdef Weighed *run = self.items + self.count
        cdef bytes text
        cdef object element
        cdef bint is_ordered = True
        if count > PyList_GET_SIZE(self.elements) - self.count or (self.count and self.count % self.width):
            raise ValueError("texts of more elements, or after the last ones")
        if self.merged != NULL or (self.count and count > self.width):
            raise ValueError("more texts than before, or after the merge began")
        for index in range(count):
            text = texts[index]
            if not read_number(text, &run[index].number):
                return False
            element = self.elements[self.count + index]
            if type(element) is not bytes:
                raise TypeError("an element is bytes")
            run[index].element = <PyObject *>element
            if index and is_ordered:
                is_ordered = self.compare(&run[index - 1], &run[index]) <= 0
        if not is_ordered:
            qsort(run, count, sizeof(Weighed), descending if self.reverse else ascending)
        if not self.count:
            self.width = max(count, 1)
        self.count += count
        return True

    cdef inline int compare(self, const Weighed *one, const Weighed *other) noexcept:
        return descending(one, other) if self.reverse else ascending(one, other)

    def merge(self, Py_ssize_t count):
        """See `number_order_plain.NumberOrder`."""
        cdef Py_ssize_t until
        if self.width >= self.count:
            return False
        if self.merged == NULL:
            self.merged = <Weighed *>PyMem_Malloc(self.count * sizeof(Weighed))
            if self.merged == NULL:
                raise MemoryError
        if self.done == self.count:
            self.items, self.merged = self.merged, self.items
            self.width *= 2
            self.done = self.left = self.left_end = self.right = self.right_end = 0
        until = min(self.done + count, self.count)
        while self.done < until and self.width < self.count:
            if self.left == self.left_end and self.right == self.right_end:
                self.left = self.done
                self.left_end = self.right = min(self.left + self.width, self.count)
                self.right_end = min(self.right + self.width, self.count)
            if self.right == self.right_end or (
                self.left < self.left_end and self.compare(self.items + self.left, self.items + self.right) <= 0
            ):
                self.merged[self.done] = self.items[self.left]
                self.left += 1
            else:
                self.merged[self.done] = self.items[self.right]
                self.right += 1
            self.done += 1
        return self.width < self.count

    def take(self, Py_ssize_t start, Py_ssize_t stop):
        """See `number_order_plain.NumberOrder`."""
        cdef Py_ssize_t index
        cdef object element
        cdef list found
        stop = min(stop, self.count)
        if not 0 <= start <= stop or self.width < self.count:
            raise IndexError("no such elements, or they are not in order yet")
        found = PyList_New(stop - start)
        for index in range(start, stop):
            element = <object>self.items[index].element
            Py_INCREF(element)
            PyList_SET_ITEM(found, index - start, element)
        return found


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
