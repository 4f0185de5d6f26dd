# Entry IDs as they are packed into Python numbers, and taken apart again: see `ids`. For the modules in C.

from libc.string cimport memset

ctypedef unsigned long long u64

cdef extern from *:
    """
    #define HEADRACE_ID_BYTES 18  /* Of a packed ID: eight of seq, one that is empty, eight of ms; and one beyond. */

    static int headrace_read_id(PyObject *number, unsigned char *bytes) {
        if (!PyLong_Check(number)) {
            PyErr_SetString(PyExc_TypeError, "an entry ID is an integer");
            return -1;
        }
    #if PY_VERSION_HEX >= 0x030D0000
        Py_ssize_t size = PyLong_AsNativeBytes(
            number, bytes, HEADRACE_ID_BYTES,
            Py_ASNATIVEBYTES_LITTLE_ENDIAN | Py_ASNATIVEBYTES_UNSIGNED_BUFFER | Py_ASNATIVEBYTES_REJECT_NEGATIVE
        );
        if (size > HEADRACE_ID_BYTES) {
            PyErr_SetString(PyExc_OverflowError, "an entry ID has two halves of 64 bits");
            return -1;
        }
        return size < 0 ? -1 : 0;
    #else
        return _PyLong_AsByteArray((PyLongObject *)number, bytes, HEADRACE_ID_BYTES, 1, 0);
    #endif
    }

    static PyObject *headrace_make_id(const unsigned char *bytes, Py_ssize_t size) {
    #if PY_VERSION_HEX >= 0x030D0000
        return PyLong_FromUnsignedNativeBytes(bytes, size, Py_ASNATIVEBYTES_LITTLE_ENDIAN);
    #else
        return _PyLong_FromByteArray(bytes, size, 1, 0);
    #endif
    }
    """
    enum:
        READ_BYTES "HEADRACE_ID_BYTES"
    int headrace_read_id(object number, unsigned char *data) except -1
    object headrace_make_id(const unsigned char *data, Py_ssize_t size)

cdef enum:
    MS_AT = 9
    # Where the milliseconds of an ID stand among its bytes.
    ID_BYTES = 17
    # Of a packed ID.

cdef struct Place:
    # The halves of an ID, by which entries are ordered.
    u64 ms
    u64 seq


cdef inline u64 read_u64(const unsigned char *at) noexcept:
    cdef u64 number = 0
    cdef int index
    for index in range(8):
        number |= <u64>at[index] << (8 * index)
    return number


cdef inline int read_place(object entry_id, Place *place) except -1:
    """Take an ID apart. Raises TypeError, and OverflowError for a number that is none."""
    cdef unsigned char data[READ_BYTES]
    headrace_read_id(entry_id, data)
    if data[MS_AT - 1] or data[ID_BYTES]:
        raise OverflowError("an entry ID has two halves of 64 bits")
    place.seq = read_u64(data)
    place.ms = read_u64(data + MS_AT)
    return 0


cdef inline object make_id(const Place *place):
    cdef unsigned char data[ID_BYTES]
    cdef int index
    memset(data, 0, ID_BYTES)
    for index in range(8):
        data[index] = <unsigned char>(place.seq >> (8 * index))
        data[MS_AT + index] = <unsigned char>(place.ms >> (8 * index))
    return headrace_make_id(data, ID_BYTES)
