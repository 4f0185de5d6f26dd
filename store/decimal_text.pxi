# Integers as texts. Included by the `.pyx` modules, which define `u64`, after `byte_order.pxi`.

from libc.string cimport memcpy

cdef enum:
    # Characters of a number of 64 bits, and some more.
    DECIMAL_SIZE_MAX = 24


cdef inline int write_decimal(char *to, i64 number) noexcept:
    """Write a number as a text. Returns its characters."""
    cdef char digits[DECIMAL_SIZE_MAX]
    cdef u64 left = 0 - <u64>number if number < 0 else <u64>number
    cdef int at = DECIMAL_SIZE_MAX
    while True:
        at -= 1
        digits[at] = <char>(c'0' + left % 10)
        left //= 10
        if not left:
            break
    if number < 0:
        at -= 1
        digits[at] = c'-'
    memcpy(to, digits + at, DECIMAL_SIZE_MAX - at)
    return DECIMAL_SIZE_MAX - at
