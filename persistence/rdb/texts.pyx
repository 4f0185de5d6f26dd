# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Texts as elements of a listpack, for installations with a C compiler: `texts_plain` in C.

Both modules behave alike and are tested by the same tests; `primitives` imports this one if it was built.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcpy

ctypedef unsigned long long u64
ctypedef long long i64

cdef enum:
    INTEGER_TEXT_SIZE_MAX = 20
    # Digits of a number below 2**63.
    DIGITS_MAX = 19
    # Bytes of an element without its text.
    FRAME_SIZE_MAX = 10

cdef u64 NUMBER_MAX = (<u64>1 << 63) - 1


cdef inline bint read_number(const unsigned char *text, Py_ssize_t size, i64 *number) noexcept:
    """Whether the text is a canonical signed 64-bit number, which is then read."""
    cdef bint is_negative = text[0] == c'-'
    cdef Py_ssize_t at = is_negative, digits = size - at
    cdef u64 value = 0
    if digits < 1 or digits > DIGITS_MAX or (text[at] == c'0' and size > 1):
        return False
    while at < size:
        if not c'0' <= text[at] <= c'9':
            return False
        value = value * 10 + (text[at] - c'0')
        at += 1
    if value > NUMBER_MAX + is_negative:
        return False
    number[0] = <i64>(0 - value) if is_negative else <i64>value
    return True


cdef inline unsigned char *write_number(unsigned char *at, i64 number) noexcept:
    cdef int size, index
    if 0 <= number <= 127:
        at[0] = <unsigned char>number
        at[1] = 1
        return at + 2
    if -4096 <= number <= 4095:
        at[0] = 0xC0 | <unsigned char>((number >> 8) & 0x1F)
        at[1] = <unsigned char>(number & 0xFF)
        at[2] = 2
        return at + 3
    if -(1 << 15) <= number < 1 << 15:
        at[0], size = 0xF1, 2
    elif -(1 << 23) <= number < 1 << 23:
        at[0], size = 0xF2, 3
    elif -(<i64>1 << 31) <= number < <i64>1 << 31:
        at[0], size = 0xF3, 4
    else:
        at[0], size = 0xF4, 8
    for index in range(size):
        at[1 + index] = <unsigned char>((number >> 8 * index) & 0xFF)
    at[1 + size] = <unsigned char>(size + 1)
    return at + size + 2


cdef inline unsigned char *write_text(unsigned char *at, const unsigned char *text, Py_ssize_t size) noexcept:
    cdef Py_ssize_t head_size, rest
    cdef int back_count = 1, index
    if size <= 63:
        at[0], head_size = 0x80 | <unsigned char>size, 1
    elif size <= 4095:
        at[0], head_size = 0xE0 | <unsigned char>(size >> 8), 2
        at[1] = <unsigned char>(size & 0xFF)
    else:
        at[0], head_size = 0xF0, 5
        for index in range(4):
            at[1 + index] = <unsigned char>((size >> 8 * index) & 0xFF)
    at += head_size
    memcpy(at, text, size)
    at += size
    # The size so far, 7 bits in a byte, high part first, where every byte but the first has its top bit set.
    size += head_size
    rest = size >> 7
    while rest:
        back_count += 1
        rest >>= 7
    for index in range(back_count):
        at[back_count - 1 - index] = <unsigned char>((size >> 7 * index) & 0x7F) | 0x80
    at[0] &= 0x7F
    return at + back_count


def encode_texts(list texts):
    """Return the elements of texts, end to end."""
    cdef Py_ssize_t size = 0, text_size
    cdef const unsigned char *text
    cdef unsigned char *start
    cdef unsigned char *at
    cdef i64 number = 0
    cdef bytes each, elements
    for each in texts:
        size += PyBytes_GET_SIZE(each) + FRAME_SIZE_MAX
    elements = PyBytes_FromStringAndSize(NULL, size)
    start = at = <unsigned char *>PyBytes_AS_STRING(elements)
    for each in texts:
        text = <const unsigned char *>PyBytes_AS_STRING(each)
        text_size = PyBytes_GET_SIZE(each)
        if 0 < text_size <= INTEGER_TEXT_SIZE_MAX and read_number(text, text_size, &number):
            at = write_number(at, number)
        else:
            at = write_text(at, text, text_size)
    return PyBytes_FromStringAndSize(<const char *>start, at - start)
