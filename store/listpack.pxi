# Elements of listpacks in C: see `persistence/rdb/listpack.py`. Included by the `.pyx` modules, after
# `byte_order.pxi`.

cdef enum:
    LISTPACK_HEADER_SIZE = 6
    LISTPACK_COUNT_UNKNOWN = 0xFFFF
    LISTPACK_END = 0xFF
    INTEGER_TEXT_SIZE_MAX = 20
    # Digits of a number below 2**63.
    INTEGER_DIGITS_MAX = 19
    # Bytes of an element without its text.
    ELEMENT_FRAME_MAX = 10
    # Bytes of the text of an integer.
    DIGITS_SIZE_MAX = 24

cdef u64 INTEGER_MAX = (<u64>1 << 63) - 1

cdef struct Element:
    # The text, of `size` bytes; NULL for an integer, which is `number`.
    const unsigned char *text
    Py_ssize_t size
    i64 number


cdef inline bint read_integer(const unsigned char *text, Py_ssize_t size, i64 *number) noexcept:
    """Whether a text that is not empty is a canonical signed 64-bit number, which is then read."""
    cdef bint is_negative = text[0] == c'-'
    cdef Py_ssize_t at = is_negative, digits = size - at
    cdef u64 value = 0
    if digits < 1 or digits > INTEGER_DIGITS_MAX or (text[at] == c'0' and size > 1):
        return False
    while at < size:
        if not c'0' <= text[at] <= c'9':
            return False
        value = value * 10 + (text[at] - c'0')
        at += 1
    if value > INTEGER_MAX + is_negative:
        return False
    number[0] = <i64>(0 - value) if is_negative else <i64>value
    return True


cdef inline unsigned char *write_integer(unsigned char *at, i64 number) noexcept:
    """Write an element. Returns where it ends."""
    cdef int size
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
    write_little(at + 1, <u64>number, size)
    at[1 + size] = <unsigned char>(size + 1)
    return at + size + 2


cdef inline Py_ssize_t integer_size(i64 number) noexcept:
    """Bytes that `write_integer` writes."""
    if 0 <= number <= 127:
        return 2
    if -4096 <= number <= 4095:
        return 3
    if -(1 << 15) <= number < 1 << 15:
        return 4
    if -(1 << 23) <= number < 1 << 23:
        return 5
    return 6 if -(<i64>1 << 31) <= number < <i64>1 << 31 else 10


cdef inline Py_ssize_t back_length_size(Py_ssize_t size) noexcept:
    """Bytes of the back length of an element of `size` bytes."""
    cdef Py_ssize_t count = 1
    while size > 127:
        count += 1
        size >>= 7
    return count


cdef inline unsigned char *write_element(unsigned char *at, const unsigned char *text, Py_ssize_t size) noexcept:
    """Write a text as an element, which takes at most as many bytes as a bulk string. Returns where it ends."""
    cdef Py_ssize_t head_size, back_size, index
    cdef i64 number = 0
    if 0 < size <= INTEGER_TEXT_SIZE_MAX and text[size - 1] <= c'9' and read_integer(text, size, &number):
        return write_integer(at, number)
    if size <= 63:
        at[0] = 0x80 | <unsigned char>size
        memcpy(at + 1, text, size)
        at[size + 1] = <unsigned char>(size + 1)
        return at + size + 2
    if size <= 4095:
        write_big(at, 0xE000 | size, 2)
        head_size = 2
    else:
        at[0] = 0xF0
        write_little(at + 1, size, 4)
        head_size = 5
    memcpy(at + head_size, text, size)
    # The size so far, 7 bits in a byte, high part first. Every byte but the first has its top bit set.
    size += head_size
    at += size
    back_size = back_length_size(size)
    for index in range(back_size):
        at[back_size - 1 - index] = <unsigned char>((size >> 7 * index) & 0x7F) | (0x80 if index < back_size - 1 else 0)
    return at + back_size


cdef inline bint read_element(const unsigned char **place, const unsigned char *end, Element *element) noexcept:
    """Read the element at `place`, and move `place` past it. Returns False if it is damaged, or exceeds `end`."""
    cdef const unsigned char *at = place[0]
    cdef Py_ssize_t room = end - at, size, head_size, back_size, index
    cdef int first, bits
    if room < 2:
        return False
    first = at[0]
    element.text, element.size = NULL, 0
    if first < 0x80:
        element.number = first
        size = 1
    elif first < 0xC0:
        element.size = first & 0x3F
        element.text = at + 1
        size = 1 + element.size
    elif first < 0xE0:
        element.number = (first & 0x1F) << 8 | at[1]
        if element.number >= 0x1000:
            element.number -= 0x2000
        size = 2
    elif first <= 0xF0:
        head_size = 2 if first < 0xF0 else 5
        if room < head_size:
            return False
        element.size = (first & 0x0F) << 8 | at[1] if first < 0xF0 else <Py_ssize_t>read_little(at + 1, 4)
        element.text = at + head_size
        size = head_size + element.size
    elif first <= 0xF4:
        bits = 8 * (first - 0xEF) if first < 0xF4 else 64
        size = 1 + (bits >> 3)
        if room < size:
            return False
        # The sign is the top bit of the last byte.
        element.number = <i64>(read_little(at + 1, bits >> 3) << (64 - bits)) >> (64 - bits)
    else:
        return False
    back_size = back_length_size(size)
    if size + back_size > room:
        return False
    at += size
    for index in range(back_size):
        bits = (size >> 7 * (back_size - 1 - index)) & 0x7F | (0x80 if index else 0)
        if at[index] != bits:
            return False
    place[0] = at + back_size
    return True


cdef inline Py_ssize_t element_size(const unsigned char *text, Py_ssize_t size) noexcept:
    """Bytes that `write_element` writes for a text."""
    cdef i64 number = 0
    if 0 < size <= INTEGER_TEXT_SIZE_MAX and text[size - 1] <= c'9' and read_integer(text, size, &number):
        return integer_size(number)
    size += 1 if size <= 63 else 2 if size <= 4095 else 5
    return size + back_length_size(size)
