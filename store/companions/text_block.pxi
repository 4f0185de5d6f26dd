# Few byte strings in one block of memory. Included by `packed_texts.pyx` and `score_order.pyx`.
#
# A text is one *item* of the block:
#
#     its length, one byte | its bytes | its length again
#
# So the block can be read from both ends. A text of `LONG_SIZE` bytes or more is an object to which its item refers, so
# that changes of the block do not move it.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Realloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.string cimport memcmp, memcpy, memmove

include "../block_size.pxi"

ctypedef unsigned char u8
ctypedef unsigned int u32
ctypedef unsigned long long u64

cdef enum:
    # The length that says that the text is an object.
    LONG_SIZE = 255
    # Bytes of the two lengths of an item.
    LENGTHS_SIZE = 2
    # Bytes that are compared as a number.
    HEAD_SIZE = 8

cdef struct Block:
    u8 *data
    u32 size
    u32 room
    u32 count
    # Items that refer to an object, and the bytes of these objects.
    u32 long_count
    u64 long_size

cdef struct Needle:
    # A text that is looked for, without the bytes that all items have before it.
    const char *data
    Py_ssize_t size
    # Its first bytes as a number that compares as they do, if it has so many.
    u64 head


cdef inline u32 payload_size(u8 length) noexcept:
    return sizeof(PyObject *) if length == LONG_SIZE else length


cdef inline u32 item_size(const u8 *item) noexcept:
    return payload_size(item[0]) + LENGTHS_SIZE


cdef inline PyObject *object_of(const u8 *item) noexcept:
    cdef PyObject *text
    memcpy(&text, item + 1, sizeof(text))
    return text


cdef inline object text_of(const u8 *item):
    if item[0] == LONG_SIZE:
        return <object>object_of(item)
    return PyBytes_FromStringAndSize(<const char *>item + 1, item[0])


cdef inline object tail_of(const u8 *item, Py_ssize_t skip):
    """Return the bytes of the text after the first `skip` ones."""
    if not skip:
        return text_of(item)
    if item[0] == LONG_SIZE:
        return (<object>object_of(item))[skip:]
    return PyBytes_FromStringAndSize(<const char *>item + 1 + skip, max(item[0] - skip, 0))


cdef inline bint ends_with(const u8 *item, const Needle *needle, Py_ssize_t skip) noexcept:
    """Whether the bytes after the first `skip` ones are the needle."""
    cdef PyObject *text
    cdef Py_ssize_t size = needle.size
    if item[0] != LONG_SIZE:
        if item[0] != size + skip:
            return False
        # Texts of the same length differ at their end more often than at their beginning.
        if size and item[item[0]] != <u8>needle.data[size - 1]:
            return False
        return not memcmp(item + 1 + skip, needle.data, size)
    text = object_of(item)
    return PyBytes_GET_SIZE(<object>text) == needle.size + skip and not memcmp(
        PyBytes_AS_STRING(<object>text) + skip, needle.data, needle.size
    )


cdef inline u64 head_of(const u8 *text) noexcept:
    """Return the first `HEAD_SIZE` bytes of a text as a number, which compares as they do. Compilers make one load of
    it."""
    return (
        <u64>text[0] << 56 | <u64>text[1] << 48 | <u64>text[2] << 40 | <u64>text[3] << 32
        | <u64>text[4] << 24 | <u64>text[5] << 16 | <u64>text[6] << 8 | <u64>text[7]
    )


cdef inline bint is_less(const u8 *item, const Needle *other) noexcept:
    """Whether the text comes before another one."""
    cdef Py_ssize_t size
    cdef const char *data
    cdef u64 head
    cdef int order
    if HEAD_SIZE <= item[0] < LONG_SIZE and other.size >= HEAD_SIZE:
        head = head_of(item + 1)
        if head != other.head:
            return head < other.head
    if item[0] == LONG_SIZE:
        data = PyBytes_AS_STRING(<object>object_of(item))
        size = PyBytes_GET_SIZE(<object>object_of(item))
    else:
        data = <const char *>item + 1
        size = item[0]
    order = memcmp(data, other.data, min(size, other.size))
    return order < 0 or (order == 0 and size < other.size)


cdef inline void set_needle(Needle *needle, bytes text) noexcept:
    needle.data = PyBytes_AS_STRING(text)
    needle.size = PyBytes_GET_SIZE(text)
    needle.head = head_of(<const u8 *>needle.data) if needle.size >= HEAD_SIZE else 0


cdef u8 *item_at(Block *block, u32 index) noexcept:
    """Return the item at an index, which is at most the number of items, from the nearer end."""
    cdef u8 *item
    if index <= block.count >> 1:
        item = block.data
        while index:
            item += item_size(item)
            index -= 1
    else:
        item = block.data + block.size
        index = block.count - index
        while index:
            item -= payload_size(item[-1]) + LENGTHS_SIZE
            index -= 1
    return item


cdef int set_room(Block *block, size_t room) except -1:
    """Give the block another capacity."""
    cdef u8 *data
    if room >> 32:
        raise MemoryError
    if not room:
        PyMem_Free(block.data)
        data = NULL
    else:
        data = <u8 *>PyMem_Realloc(block.data, room)
        if data == NULL:
            raise MemoryError
    block.data, block.room = data, <u32>room
    return 0


cdef u8 *open_gap(Block *block, u8 *item, size_t size) except NULL:
    """Make room for so many bytes before an item. Returns where they are: the block may have moved."""
    cdef size_t at = item - block.data
    cdef size_t needed = block.size + size
    if needed > block.room:
        set_room(block, needed if needed <= POOLED_SIZE_MAX else needed + (needed >> 3))
    item = block.data + at
    memmove(item + size, item, block.size - at)
    block.size += <u32>size
    return item


cdef void close_gap(Block *block, u8 *item, size_t size) noexcept:
    """Take so many bytes out, and give back memory if much is free."""
    memmove(item, item + size, block.data + block.size - item - size)
    block.size -= <u32>size
    if block.size < block.room >> 1 or block.room <= POOLED_SIZE_MAX:
        try:
            set_room(block, block.size)
        except MemoryError:
            pass


cdef inline size_t needed_size(bytes text) noexcept:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(text)
    return (size if size < LONG_SIZE else <Py_ssize_t>sizeof(PyObject *)) + LENGTHS_SIZE


cdef void write_item(Block *block, u8 *item, bytes text) noexcept:
    """Write a text to a gap of `needed_size` bytes."""
    cdef Py_ssize_t size = PyBytes_GET_SIZE(text)
    cdef PyObject *reference = <PyObject *>text
    if size < LONG_SIZE:
        memcpy(item + 1, PyBytes_AS_STRING(text), size)
    else:
        Py_INCREF(text)
        memcpy(item + 1, &reference, sizeof(reference))
        block.long_count += 1
        block.long_size += block_size(size + TEXT_HEADER_SIZE)
        size = LONG_SIZE
    item[0] = <u8>size
    item[payload_size(<u8>size) + 1] = <u8>size


cdef int insert_item(Block *block, u8 *item, bytes text) except -1:
    write_item(block, open_gap(block, item, needed_size(text)), text)
    block.count += 1
    return 0


cdef void let_go(Block *block, const u8 *item) noexcept:
    """Give up the object of an item, if it has one."""
    cdef PyObject *text
    if item[0] == LONG_SIZE:
        text = object_of(item)
        block.long_count -= 1
        block.long_size -= block_size(PyBytes_GET_SIZE(<object>text) + TEXT_HEADER_SIZE)
        Py_DECREF(<object>text)


cdef void remove_items(Block *block, u8 *item, u32 count) noexcept:
    """Remove so many items from one on."""
    cdef u8 *end = item
    block.count -= count
    while count:
        let_go(block, end)
        end += item_size(end)
        count -= 1
    close_gap(block, item, end - item)


cdef list texts_between(Block *block, u32 start, u32 stop, Py_ssize_t skip):
    cdef list texts = []
    cdef u8 *item = item_at(block, start)
    while start < stop:
        texts.append(tail_of(item, skip))
        item += item_size(item)
        start += 1
    return texts


cdef int copy_block(Block *block, const Block *other) except -1:
    """Fill an empty block with the items of another one."""
    cdef u8 *item
    cdef u32 left = other.count if other.long_count else 0
    set_room(block, other.size)
    memcpy(block.data, other.data, other.size)
    block.size, block.count = other.size, other.count
    block.long_count, block.long_size = other.long_count, other.long_size
    item = block.data
    while left:
        if item[0] == LONG_SIZE:
            Py_INCREF(<object>object_of(item))
        item += item_size(item)
        left -= 1
    return 0


cdef void free_block(Block *block) noexcept:
    cdef u8 *item = block.data
    while block.long_count:
        let_go(block, item)
        item += item_size(item)
    PyMem_Free(block.data)
    block.data = NULL


cdef inline size_t block_weight(const Block *block) noexcept:
    return (block_size(block.room) if block.room else 0) + block.long_size
