# The signed integer of 64 bits of which a text is the canonical form. Included by `companions/array_slices.pyx` and, in
# `commands`, by `core/integers.pyx`.

cdef enum:
    # Digits of a number that always fits 64 bits with its sign. One digit more needs a check.
    DIGITS_FIT = 18
    DIGITS_MAX = 19


cdef bint read_integer(const char *at, Py_ssize_t size, long long *number) noexcept:
    """Read the number that the text is. Returns whether it is one."""
    cdef unsigned long long found = 0
    cdef Py_ssize_t index
    cdef bint is_negative = size > 1 and at[0] == c'-'
    if is_negative:
        at += 1
        size -= 1
    if not 0 < size <= DIGITS_MAX or (at[0] == c'0' and (size > 1 or is_negative)):
        return False
    for index in range(size):
        if not c'0' <= at[index] <= c'9':
            return False
        found = found * 10 + <unsigned long long>(at[index] - c'0')
    # Nineteen digits fit 64 bits without a sign.
    if size > DIGITS_FIT and found > (<unsigned long long>1 << 63) - (0 if is_negative else 1):
        return False
    number[0] = <long long>(0 - found) if is_negative else <long long>found
    return True
