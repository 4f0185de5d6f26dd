# cython: language_level=3
"""Changes long strings in place, for machines with a C compiler.

Python's byte strings never change. But no other code can see a change of a string to which only its key refers. Python
resizes such strings itself, in `_PyBytes_Resize`. That function frees the string when memory is short, so it is not
used here.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem, PyDict_SetItem
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.string cimport memcpy, memset

cdef extern from *:
    """
    #include <stddef.h>

    /* The text with another size, NULL without memory: the text is as it was then. */
    static PyObject *resized_text(PyObject *text, Py_ssize_t size) {
        PyObject *moved = (PyObject *)PyObject_Realloc(text, offsetof(PyBytesObject, ob_sval) + 1 + (size_t)size);
        if (moved != NULL) {
            Py_SET_SIZE((PyVarObject *)moved, size);
            PyBytes_AS_STRING(moved)[size] = 0;
        }
        return moved;
    }

    #if defined(__GNUC__)
    #pragma GCC diagnostic push
    #pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    #endif
    static void forget_hash(PyObject *text) {
        ((PyBytesObject *)text)->ob_shash = -1;
    }
    #if defined(__GNUC__)
    #pragma GCC diagnostic pop
    #endif

    #if defined(Py_GIL_DISABLED) || defined(Py_TRACE_REFS)
    #define CAN_RESIZE_TEXTS 0
    #else
    #define CAN_RESIZE_TEXTS 1
    #endif
    """
    PyObject *resized_text(PyObject *text, Py_ssize_t size)
    void forget_hash(PyObject *text)
    Py_ssize_t Py_REFCNT(PyObject *value)
    bint CAN_RESIZE_TEXTS

cdef enum:
    # Copying a shorter string takes no longer. It is also more than Redis keeps in one object with the key.
    SIZE_MIN = 4096


def splice_in_place(dict values, bytes key, Py_ssize_t offset, bytes piece):
    """Write `piece` over the string of `key` from `offset` on; bytes missing before it become zeros.

    Returns False, without a change, for a short string and for one that has other references than its key. Raises
    MemoryError, also without a change.
    """
    cdef PyObject *text = <PyObject *>PyDict_GetItem(values, key)
    cdef PyObject *moved
    cdef Py_ssize_t size, end = offset + PyBytes_GET_SIZE(piece)
    if not CAN_RESIZE_TEXTS or text == NULL or not PyBytes_CheckExact(<object>text) or Py_REFCNT(text) != 1:
        return False
    size = PyBytes_GET_SIZE(<object>text)
    if size < SIZE_MIN:
        return False
    if end > size:
        # The table must not refer to a text that may move.
        Py_INCREF(<object>text)
        PyDict_SetItem(values, key, None)
        moved = resized_text(text, end)
        if moved != NULL:
            text = moved
        PyDict_SetItem(values, key, <object>text)
        Py_DECREF(<object>text)
        if moved == NULL:
            raise MemoryError
        if offset > size:
            memset(PyBytes_AS_STRING(<object>text) + size, 0, offset - size)
    memcpy(PyBytes_AS_STRING(<object>text) + offset, PyBytes_AS_STRING(piece), PyBytes_GET_SIZE(piece))
    forget_hash(text)
    return True
