# Changes long strings in place: included by `key_table.pyx`.
#
# Python's byte strings never change. But no other code can see a change of a string to which only its key refers. Python
# resizes such strings itself, in `_PyBytes_Resize`. That function frees the string when memory is short, so it is not
# used here.

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
    SPLICED_SIZE_MIN = 4096


cdef bint spliced_in_place(PyObject **place, Py_ssize_t offset, bytes piece) except -1:
    """Write `piece` over the string at `place` from `offset` on; bytes missing before it become zeros.

    Returns False, without a change, for a short string and for one that has other references than this one. Raises
    MemoryError, also without a change.
    """
    cdef PyObject *text = place[0]
    cdef PyObject *moved
    cdef Py_ssize_t size, end = offset + PyBytes_GET_SIZE(piece)
    if not CAN_RESIZE_TEXTS or not PyBytes_CheckExact(<object>text) or Py_REFCNT(text) != 1:
        return False
    size = PyBytes_GET_SIZE(<object>text)
    if size < SPLICED_SIZE_MIN:
        return False
    if end > size:
        moved = resized_text(text, end)
        if moved == NULL:
            raise MemoryError
        text = place[0] = moved
        if offset > size:
            memset(PyBytes_AS_STRING(<object>text) + size, 0, offset - size)
    memcpy(PyBytes_AS_STRING(<object>text) + offset, PyBytes_AS_STRING(piece), PyBytes_GET_SIZE(piece))
    forget_hash(text)
    return True
