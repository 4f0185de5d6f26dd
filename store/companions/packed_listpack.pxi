# Listpacks of Redis, which become the texts of a block or are made of them, without an object for each element.
# Included by `packed_texts.pyx`, after `text_block.pxi`, `place_text.pxi`, `score_text.pxi`, `../decimal_text.pxi` and
# `../listpack.pxi`.

cdef enum:
    # Names that are taken at once. More are in a table anyway.
    NAMES_MAX = 512
    # Bytes that are copied at once.
    STRIDE = 16

# The latest expiry time of a field: 48 bits.
cdef i64 TIME_MAX = (<i64>1 << 48) - 1


cdef inline size_t digits_size(i64 number) noexcept:
    """Characters that `write_decimal` writes."""
    cdef u64 left = 0 - <u64>number if number < 0 else <u64>number
    cdef size_t size = 2 if number < 0 else 1
    while left >= 10:
        left //= 10
        size += 1
    return size


cdef inline size_t room_of(const Element *element, size_t skip) noexcept:
    """Bytes of the item of an element that follows `skip` other bytes."""
    cdef size_t size = skip + (digits_size(element.number) if element.text == NULL else <size_t>element.size)
    return (size if size < LONG_SIZE else sizeof(PyObject *)) + LENGTHS_SIZE


cdef Py_ssize_t measure(bytes data, int step, int kept, size_t skip, size_t *room) noexcept:
    """Return how many elements a listpack has; -1 if it is damaged. `room` gets the bytes of the items of the first
    `kept` of every `step` elements, each of which follows `skip` other bytes."""
    cdef const u8 *at = <const u8 *>PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data), count = 0
    cdef const u8 *end = at + size - 1
    cdef Element element
    cdef u64 announced
    cdef int index = 0
    room[0] = 0
    if size <= LISTPACK_HEADER_SIZE or read_little(at, 4) != <u64>size or end[0] != LISTPACK_END:
        return -1
    announced = read_little(at + 4, 2)
    at += LISTPACK_HEADER_SIZE
    while at < end:
        if not read_element(&at, end, &element):
            return -1
        if index < kept:
            room[0] += room_of(&element, skip)
        count += 1
        index = 0 if index + 1 == step else index + 1
    return count if announced == LISTPACK_COUNT_UNKNOWN or announced == <u64>count else -1


cdef inline void copy_short(Block *block, u8 *to, const u8 *text, Py_ssize_t size, const u8 *after) noexcept:
    """Copy a text to a block. A short one is copied with what follows, if both have as many bytes: `after` is the end of
    what the text is part of."""
    if size <= STRIDE and after - text >= STRIDE and block.data + block.room - to >= STRIDE:
        memcpy(to, text, STRIDE)
    else:
        memcpy(to, text, size)


cdef int append_element(Block *block, const Element *element, const u8 *after) except -1:
    """Add the text of an element to a block that has room for it; see `copy_short`."""
    cdef u8 *item = block.data + block.size
    cdef Py_ssize_t size = element.size
    cdef bytes text
    if element.text == NULL:
        size = write_decimal(<char *>item + 1, element.number)
    elif size < LONG_SIZE:
        copy_short(block, item + 1, element.text, size, after)
    else:
        text = PyBytes_FromStringAndSize(<const char *>element.text, size)
        write_item(block, item, text)
        size = sizeof(PyObject *)
        block.size += <u32>size + LENGTHS_SIZE
        block.count += 1
        return 0
    item[0] = item[size + 1] = <u8>size
    block.size += <u32>size + LENGTHS_SIZE
    block.count += 1
    return 0


cdef inline void append_nothing(Block *block) noexcept:
    """Add an empty text to a block that has room for it."""
    block.data[block.size] = block.data[block.size + 1] = 0
    block.size += LENGTHS_SIZE
    block.count += 1


cdef inline void refer(const u8 *item, Py_ssize_t skip, Needle *needle) noexcept:
    """Make a needle of the text of an item, without its first `skip` bytes."""
    if item[0] == LONG_SIZE:
        needle.data = PyBytes_AS_STRING(<object>object_of(item)) + skip
        needle.size = PyBytes_GET_SIZE(<object>object_of(item)) - skip
    else:
        needle.data = <const char *>item + 1 + skip
        needle.size = item[0] - skip


cdef inline bint read_score_of(const Element *element, double *score) except -1:
    """Whether an element is a score that is read here: see `read_score_text`."""
    if element.text != NULL:
        return read_score_text(element.text, element.size, score)
    score[0] = <double>element.number
    return True


cdef int append_place(Block *block, const Element *member, double score, const u8 *after) except -1:
    """Add the place of a member to a block that has room for it; see `copy_short`."""
    cdef u8 *item = block.data + block.size
    cdef Py_ssize_t size
    cdef bytes text
    if member.text == NULL:
        size = SCORE_BYTES + write_decimal(<char *>item + 1 + SCORE_BYTES, member.number)
    else:
        size = SCORE_BYTES + member.size
        if size >= LONG_SIZE:
            text = PyBytes_FromStringAndSize(NULL, size)
            write_score(<u8 *>PyBytes_AS_STRING(text), score)
            memcpy(PyBytes_AS_STRING(text) + SCORE_BYTES, member.text, member.size)
            write_item(block, item, text)
            block.size += sizeof(PyObject *) + LENGTHS_SIZE
            block.count += 1
            return 0
        copy_short(block, item + 1 + SCORE_BYTES, member.text, member.size, after)
    write_score(item + 1, score)
    item[0] = item[size + 1] = <u8>size
    block.size += <u32>size + LENGTHS_SIZE
    block.count += 1
    return 0


cdef void clear(Block *block) noexcept:
    """Remove all items."""
    free_block(block)
    memset(block, 0, sizeof(Block))


cdef inline u8 *write_text(u8 *at, const u8 *item) noexcept:
    """Write the text of an item as an element of a listpack. Returns where it ends."""
    if item[0] != LONG_SIZE:
        return write_element(at, item + 1, item[0])
    return write_element(
        at, <const u8 *>PyBytes_AS_STRING(<object>object_of(item)), PyBytes_GET_SIZE(<object>object_of(item))
    )
