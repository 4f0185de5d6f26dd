# Scores from texts. Included by `packed_texts.pyx`, which defines `u8` and `u64`.

from cpython.object cimport PyObject
from libc.string cimport memcpy

cdef extern from "Python.h":
    double PyOS_string_to_double(const char *text, char **end, PyObject *overflow_exception) except? -1.0

cdef extern from "float.h":
    const int LDBL_MANT_DIG

cdef enum:
    # Characters of a score that is read here.
    SCORE_TEXT_MAX = 39
    # Bits of the wide numbers of x86 processors, which hold all integers of 19 digits and powers of ten up to this one.
    WIDE_BITS = 64
    WIDE_DIGITS_MAX = 19
    WIDE_POWER_MAX = 27
    # The bits that a wide number has more than a double, and of these the highest.
    SPARE_MASK = 0x7FF
    SPARE_HALF = 0x400

cdef long double powers[WIDE_POWER_MAX + 1]


cdef void fill_powers() noexcept:
    cdef int index
    powers[0] = 1
    for index in range(1, WIDE_POWER_MAX + 1):
        powers[index] = powers[index - 1] * 10


fill_powers()


cdef inline bint read_plain_score(const u8 *text, Py_ssize_t size, double *score) noexcept:
    """Whether a text is digits with a point among them, and maybe a sign, whose number is read without a doubt."""
    cdef u64 digits = 0, mantissa
    cdef Py_ssize_t at = size > 0 and text[0] == c'-', first = at
    cdef int fraction = -1, count = 0
    cdef long double wide
    if LDBL_MANT_DIG != WIDE_BITS:
        return False
    while at < size:
        if text[at] == c'.' and fraction < 0 and at > first:
            fraction = 0
        elif c'0' <= text[at] <= c'9' and count < WIDE_DIGITS_MAX:
            digits = digits * 10 + (text[at] - c'0')
            count += digits != 0
            fraction += 0 <= fraction <= WIDE_POWER_MAX
        else:
            return False
        at += 1
    if not digits or fraction <= 0 or fraction > WIDE_POWER_MAX:
        return False
    wide = <long double>digits / powers[fraction]
    memcpy(&mantissa, &wide, sizeof(mantissa))
    # The quotient is rounded to 64 bits, then to those of a double. Only in the middle between two doubles may this
    # differ from the double that is nearest to the text.
    if mantissa & SPARE_MASK == SPARE_HALF:
        return False
    score[0] = <double>(-wide if first else wide)
    return True


cdef bint read_score_text(const u8 *text, Py_ssize_t size, double *score) except -1:
    """Whether a text is a score that is read here. A zero, infinities and all that is unusual are not."""
    cdef char digits[SCORE_TEXT_MAX + 1]
    cdef char *end = NULL
    cdef Py_ssize_t index
    if read_plain_score(text, size, score):
        return True
    if not 0 < size <= SCORE_TEXT_MAX:
        return False
    for index in range(size):
        if not c'0' <= text[index] <= c'9' and text[index] != c'.' and text[index] != c'-' and text[index] != c'e' and (
            text[index] != c'+'
        ):
            return False
    memcpy(digits, text, size)
    digits[size] = 0
    try:
        score[0] = PyOS_string_to_double(digits, &end, NULL)
    except ValueError:
        return False
    return end == digits + size and score[0] != 0
