# Numbers among the elements of an array, as Redis has them on x86-64: `long double`s with 64 significant bits. Included
# by `array_slices.pyx`.

from libc.stdio cimport snprintf
from libc.stdlib cimport strtold

cdef extern from "Python.h":
    double PyOS_string_to_double(const char *text, char **end, PyObject *overflow_exception) except? -1.0

cdef extern from "float.h":
    const int LDBL_MANT_DIG

cdef extern from *:
    """
    #define TWO_TO_63 9223372036854775808.0L
    static const long double powers_of_ten[] = {
        1e0L, 1e1L, 1e2L, 1e3L, 1e4L, 1e5L, 1e6L, 1e7L, 1e8L, 1e9L, 1e10L, 1e11L, 1e12L, 1e13L, 1e14L, 1e15L, 1e16L,
        1e17L, 1e18L, 1e19L, 1e20L, 1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L,
    };
    """
    const long double powers_of_ten[28]
    const long double TWO_TO_63

cdef enum:
    LONG_DOUBLE_BITS = 64
    # A `long double` is exactly each power of ten up to this one.
    EXACT_POWER_MAX = 27
    # Digits of a number that fits 64 bits.
    EXACT_DIGITS_MAX = 19
    # Longer texts of digits are not read here.
    DECIMAL_SIZE_MAX = 32
    RESULT_SIZE_MAX = 64
    # Bits that are zero in the doubles that Redis keeps in a pointer.
    TAG_MASK = 3
    # What a text is: not a number, a number, or a text that this module does not read.
    NO_NUMBER = 0
    NUMBER = 1
    UNREAD = 2
    # As in `array_slices_plain`.
    SUM = 0
    MIN = 1
    MAX = 2
    AND = 3
    OR = 4
    XOR = 5


cdef inline long double quotient(u64 digits, int fraction_size, bint is_negative) noexcept:
    """Return `digits / 10 ** fraction_size`. The division rounds, as both numbers are exact."""
    cdef long double number = <long double>digits / powers_of_ten[fraction_size]
    return -number if is_negative else number


cdef int read_decimal(const char *text, Py_ssize_t size, long double *number) noexcept:
    """Read a text that may be a number."""
    cdef char copy[DECIMAL_SIZE_MAX + 1]
    cdef Py_ssize_t at, start = size and (text[0] == c'-' or text[0] == c'+'), point = -1
    cdef u64 digits = 0
    cdef int digits_count = 0
    cdef char letter, letter_before = 0
    cdef bint is_hexadecimal, is_plain = True
    if start == size:
        return NO_NUMBER
    if text[start] | 32 == c'i':
        # It may be infinite.
        return UNREAD if size - start == 3 or size - start == 8 else NO_NUMBER
    is_hexadecimal = size - start > 2 and text[start] == c'0' and text[start + 1] | 32 == c'x'
    for at in range(start, size):
        letter = text[at] | 32
        if c'0' <= text[at] <= c'9':
            digits = digits * 10 + <u64>(text[at] - c'0')
            digits_count += 1
        elif text[at] == c'.':
            if point >= 0:
                return NO_NUMBER
            point = at
        else:
            is_plain = False
            if text[at] == c'-' or text[at] == c'+':
                # The sign of an exponent.
                if letter_before != c'e' and letter_before != c'p':
                    return NO_NUMBER
            elif letter != c'e' and not (is_hexadecimal and (c'a' <= letter <= c'f' or letter in (c'x', c'p'))):
                return NO_NUMBER
        letter_before = letter
    if not digits_count:
        return NO_NUMBER
    if not is_plain or size > DECIMAL_SIZE_MAX:
        return UNREAD
    if digits_count <= EXACT_DIGITS_MAX:
        # There are no more digits after the point than digits.
        number[0] = quotient(digits, <int>(size - 1 - point) if point >= 0 else 0, text[0] == c'-')
        return NUMBER
    memcpy(copy, text, size)
    copy[size] = 0
    number[0] = strtold(copy, NULL)
    return NUMBER


cdef inline int read_number(u64 word, long double *number) noexcept:
    """Read an element that may be a number."""
    cdef char digits[NUMBER_SIZE_MAX]
    cdef const char *text = NULL
    cdef Py_ssize_t size
    cdef int fraction_size
    if word & KIND_MASK == INTEGER:
        number[0] = <long double>(<i64>word >> 2)
        return NUMBER
    fraction_size = word >> 3 & FRACTION_MAX
    if word & KIND_MASK == DECIMAL and fraction_size <= EXACT_POWER_MAX:
        number[0] = quotient(word >> 8, fraction_size, word >> 2 & 1)
        return NUMBER
    size = view(word, digits, &text)
    return read_decimal(text, size, number)


cdef long double kept_number(bytes text, long double number, shortest_text) except? -1.0:
    """Return the number that Redis has of a text: it keeps a double in place of a text that is printed again as it is,
    if the last bits of the double are zero."""
    cdef double kept
    cdef u64 bits
    if not c'0' <= PyBytes_AS_STRING(text)[PyBytes_GET_SIZE(text) - 1] <= c'9' or b"." not in text:
        return number
    kept = PyOS_string_to_double(PyBytes_AS_STRING(text), NULL, NULL)
    memcpy(&bits, &kept, sizeof(kept))
    return kept if not bits & TAG_MASK and shortest_text(kept) in (text, text.removesuffix(b".0")) else number
