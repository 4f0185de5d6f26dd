# Packs entry IDs into Python numbers, and unpacks them: see `ids`. Included by the `.pyx` modules.

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
        if (size > HEADRACE_ID_BYTES || (size < 0 && PyErr_ExceptionMatches(PyExc_ValueError))) {
            PyErr_SetString(PyExc_OverflowError, "an entry ID has two halves of 64 bits, and no sign");
            return -1;
        }
        return size < 0 ? -1 : 0;
    #else
        return _PyLong_AsByteArray((PyLongObject *)number, bytes, HEADRACE_ID_BYTES, 1, 0);
    #endif
    }

    /* Numbers of 30 bits a digit are taken apart and put together here: many times a request, and the functions above
       and below go byte by byte. Digit by digit, the lowest first:

           30 of seq | 30 of seq | 4 of seq, 8 that are empty, 18 of ms | 30 of ms | 16 of ms
    */
    #if PYLONG_BITS_IN_DIGIT == 30 && PY_VERSION_HEX < 0x030E0000
    #define HEADRACE_DIGITS 5  /* Of 136 bits. */

    static int headrace_read_digits(PyObject *number, unsigned long long *ms, unsigned long long *seq) {
        unsigned long long all[HEADRACE_DIGITS] = {0};
        if (!PyLong_CheckExact(number)) {
            return 0;
        }
    #if PY_VERSION_HEX >= 0x030C0000
        /* The tag is the count of digits above three bits, of which two are the sign: 2 if negative. */
        const uintptr_t tag = ((PyLongObject *)number)->long_value.lv_tag;
        const Py_ssize_t size = (Py_ssize_t)(tag >> 3);
        const digit *digits = ((PyLongObject *)number)->long_value.ob_digit;
        if ((tag & 3) == 2) {
            return 0;
        }
    #else
        const Py_ssize_t size = Py_SIZE(number);
        const digit *digits = ((PyLongObject *)number)->ob_digit;
    #endif
        if (size < 0 || size > HEADRACE_DIGITS) {
            return 0;
        }
        for (Py_ssize_t index = 0; index < size; index++) {
            all[index] = digits[index];
        }
        if (all[2] >> 4 & 0xFF || all[4] >> 16) {
            return 0;
        }
        *seq = all[0] | all[1] << 30 | all[2] << 60;
        *ms = all[2] >> 12 | all[3] << 18 | all[4] << 48;
        return 1;
    }

    static PyObject *headrace_make_digits(unsigned long long ms, unsigned long long seq) {
        const int size = ms >> 48 ? 5 : 4;
        PyLongObject *number = _PyLong_New(size);
        if (number == NULL) {
            return NULL;
        }
    #if PY_VERSION_HEX >= 0x030C0000
        digit *digits = number->long_value.ob_digit;
    #else
        digit *digits = number->ob_digit;
    #endif
        digits[0] = seq & PyLong_MASK;
        digits[1] = seq >> 30 & PyLong_MASK;
        digits[2] = (seq >> 60 | ms << 12) & PyLong_MASK;
        digits[3] = ms >> 18 & PyLong_MASK;
        if (size == 5) {
            digits[4] = (digit)(ms >> 48);
        }
        return (PyObject *)number;
    }
    #else
    #define headrace_read_digits(number, ms, seq) 0
    #define headrace_make_digits(ms, seq) NULL
    #define HEADRACE_DIGITS 0
    #endif

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
        HAS_DIGITS "HEADRACE_DIGITS"
    int headrace_read_id(object number, unsigned char *data) except -1
    bint headrace_read_digits(object number, u64 *ms, u64 *seq) noexcept
    object headrace_make_digits(u64 ms, u64 seq)
    object headrace_make_id(const unsigned char *data, Py_ssize_t size)

cdef enum:
    # Offset of the milliseconds in the bytes of a packed ID.
    MS_AT = 9
    # Bytes of a packed ID.
    ID_BYTES = 17

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
    """Unpack an ID. Raises TypeError, or OverflowError for a number that is no ID."""
    cdef unsigned char data[READ_BYTES]
    if headrace_read_digits(entry_id, &place.ms, &place.seq):
        return 0
    headrace_read_id(entry_id, data)
    if data[MS_AT - 1] or data[ID_BYTES]:
        raise OverflowError("an entry ID has two halves of 64 bits")
    place.seq = read_u64(data)
    place.ms = read_u64(data + MS_AT)
    return 0


cdef inline object make_id(const Place *place):
    cdef unsigned char data[ID_BYTES]
    cdef int index
    if HAS_DIGITS and place.ms >> 18:
        return headrace_make_digits(place.ms, place.seq)
    memset(data, 0, ID_BYTES)
    for index in range(8):
        data[index] = <unsigned char>(place.seq >> (8 * index))
        data[MS_AT + index] = <unsigned char>(place.ms >> (8 * index))
    return headrace_make_id(data, ID_BYTES)
