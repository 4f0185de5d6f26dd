# Lengths of RDB files in C: see `lengths`. Included by the `.pyx` modules, which define `u64`.

include "../../store/byte_order.pxi"

cdef enum:
    LENGTH_SIZE_MAX = 9


cdef inline unsigned char *write_length(unsigned char *at, u64 number) noexcept:
    """Write a length of an RDB file. Returns where it ends."""
    if number < 64:
        at[0] = <unsigned char>number
        return at + 1
    if number < 1 << 14:
        write_big(at, 0x4000 | number, 2)
        return at + 2
    if number < <u64>1 << 32:
        at[0] = 0x80
        write_big(at + 1, number, 4)
        return at + 5
    at[0] = 0x81
    write_big(at + 1, number, 8)
    return at + 9


cdef inline bint read_length(const unsigned char **place, const unsigned char *end, u64 *number) noexcept:
    """Read the length at `place`, and move `place` past it. Returns False if it is incomplete, or none."""
    cdef const unsigned char *at = place[0]
    cdef int first, size
    if at >= end:
        return False
    first = at[0]
    at += 1
    if first < 64:
        number[0] = first
        place[0] = at
        return True
    if first < 0x80:
        if at == end:
            return False
        number[0] = (first & 0x3F) << 8 | at[0]
        place[0] = at + 1
        return True
    size = 4 if first == 0x80 else 8
    if first > 0x81 or end - at < size:
        return False
    number[0] = read_big(at, size)
    place[0] = at + size
    return True
