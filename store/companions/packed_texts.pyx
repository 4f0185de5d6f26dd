# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Few byte strings in one block of memory, for installations with a C compiler: `packed_texts_plain` in C, without an
object for each string.

Both modules behave alike and are tested by the same tests; those who use them import this one if it was built.

A text is one *item* of the block:

    its length, one byte | its bytes | its length again

So the block can be read from both ends. A text of `LONG_SIZE` bytes or more is an object to which its item refers, so
that changes of the block do not move it. To find a text takes a time that grows with the number of texts, as in the
listpack of Redis.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.string cimport memcmp, memcpy, memmove

ctypedef unsigned char u8
ctypedef unsigned int u32
ctypedef unsigned long long u64
ctypedef long long i64

cdef enum:
    # The length that says that the text is an object.
    LONG_SIZE = 255
    # Bytes of the two lengths of an item.
    LENGTHS_SIZE = 2
    # Blocks up to this size come from Python's pools, without a header of their own, and grow by steps of 16 bytes.
    POOLED_SIZE_MAX = 512
    MALLOC_HEADER_SIZE = 8
    # Bytes of a byte string without its text.
    TEXT_HEADER_SIZE = 33
    # Digits of a signed integer of 64 bits, with its sign.
    INTEGER_SIZE_MAX = 20

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


cdef inline size_t block_size(size_t size) noexcept:
    """Return the bytes that the allocator takes for a block."""
    if size > POOLED_SIZE_MAX:
        size += MALLOC_HEADER_SIZE
    return (size + 15) & ~<size_t>15


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


cdef inline bint ends_with(const u8 *item, const Needle *needle, Py_ssize_t skip) noexcept:
    """Whether the bytes after the first `skip` ones are the needle."""
    cdef PyObject *text
    if item[0] != LONG_SIZE:
        return item[0] == needle.size + skip and not memcmp(item + 1 + skip, needle.data, needle.size)
    text = object_of(item)
    return PyBytes_GET_SIZE(<object>text) == needle.size + skip and not memcmp(
        PyBytes_AS_STRING(<object>text) + skip, needle.data, needle.size
    )


cdef inline bint is_less(const u8 *item, const Needle *other) noexcept:
    """Whether the text comes before another one."""
    cdef Py_ssize_t size
    cdef const char *data
    cdef int order
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


cdef int replace_item(Block *block, u8 *item, bytes text) except -1:
    """Put another text in the place of an item."""
    cdef size_t old = item_size(item), new = needed_size(text)
    cdef size_t at = item - block.data
    if new > old:
        open_gap(block, item + old, new - old)
        item = block.data + at
    let_go(block, item)
    write_item(block, item, text)
    if new < old:
        close_gap(block, item + new, old - new)
    return 0


cdef u8 *find_item(Block *block, bytes text, Py_ssize_t skip, bint are_pairs, u32 *index) noexcept:
    """Return the first item that ends with the text after its first `skip` bytes, and its index; NULL if there is none.
    Of pairs, only the first texts are looked at."""
    cdef Needle needle
    cdef u8 *item = block.data
    cdef u32 at = 0
    cdef u8 first
    set_needle(&needle, text)
    while at < block.count:
        if ends_with(item, &needle, skip):
            index[0] = at
            return item
        item += item_size(item)
        at += 1
        if are_pairs:
            item += item_size(item)
            at += 1
    return NULL


cdef list texts_between(Block *block, u32 start, u32 stop):
    cdef list texts = []
    cdef u8 *item = item_at(block, start)
    while start < stop:
        texts.append(text_of(item))
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


@cython.final
@cython.no_gc
cdef class PackedTexts:
    """See `packed_texts_plain.PackedTexts`."""

    cdef Block block

    def __dealloc__(self):
        free_block(&self.block)

    def __len__(self):
        return self.block.count

    def __contains__(self, bytes text not None):
        cdef u32 index
        return find_item(&self.block, text, 0, False, &index) != NULL

    @property
    def memory_size(self):
        """See `packed_texts_plain`."""
        return block_weight(&self.block)

    cdef int demand(self, Py_ssize_t start, Py_ssize_t stop) except -1:
        """Raises IndexError if there are no such places."""
        if start < 0 or start > stop or stop > self.block.count:
            raise IndexError(start)
        return 0

    def at(self, Py_ssize_t index):
        """See `packed_texts_plain`."""
        self.demand(index, index + 1)
        return text_of(item_at(&self.block, <u32>index))

    def all(self):
        """See `packed_texts_plain`."""
        return texts_between(&self.block, 0, self.block.count)

    def between(self, Py_ssize_t start, Py_ssize_t stop):
        """See `packed_texts_plain`."""
        self.demand(start, stop)
        return texts_between(&self.block, <u32>start, <u32>stop)

    def find(self, bytes text not None, Py_ssize_t skip=0):
        """See `packed_texts_plain`."""
        cdef u32 index
        return index if find_item(&self.block, text, skip, False, &index) != NULL else -1

    def rank(self, bytes text not None):
        """See `packed_texts_plain`."""
        cdef Needle needle
        cdef u8 *item = self.block.data
        cdef u32 rank = 0
        set_needle(&needle, text)
        while rank < self.block.count and is_less(item, &needle):
            item += item_size(item)
            rank += 1
        return rank

    def insert(self, Py_ssize_t index, bytes text not None):
        """See `packed_texts_plain`."""
        self.demand(index, index)
        insert_item(&self.block, item_at(&self.block, <u32>index), text)

    def add_sorted(self, bytes text not None):
        """See `packed_texts_plain`."""
        cdef Needle needle
        cdef u8 *item = self.block.data
        cdef u8 *end = item + self.block.size
        set_needle(&needle, text)
        while item != end and is_less(item, &needle):
            item += item_size(item)
        insert_item(&self.block, item, text)

    def extend(self, list texts not None):
        """See `packed_texts_plain`."""
        for text in texts:
            insert_item(&self.block, self.block.data + self.block.size, text)

    def put(self, Py_ssize_t index, bytes text not None):
        """See `packed_texts_plain`."""
        self.demand(index, index + 1)
        replace_item(&self.block, item_at(&self.block, <u32>index), text)

    def remove(self, Py_ssize_t start, Py_ssize_t stop):
        """See `packed_texts_plain`."""
        self.demand(start, stop)
        remove_items(&self.block, item_at(&self.block, <u32>start), <u32>(stop - start))

    def copy(self):
        """See `packed_texts_plain`."""
        cdef PackedTexts twin = PackedTexts.__new__(PackedTexts)
        copy_block(&twin.block, &self.block)
        return twin


@cython.final
@cython.no_gc
cdef class PackedPairs:
    """See `packed_texts_plain.PackedPairs`."""

    # The name and the text of each pair are two items.
    cdef Block block

    def __dealloc__(self):
        free_block(&self.block)

    def __len__(self):
        return self.block.count >> 1

    def __contains__(self, bytes name not None):
        cdef u32 index
        return find_item(&self.block, name, 0, True, &index) != NULL

    @property
    def memory_size(self):
        """See `packed_texts_plain`."""
        return block_weight(&self.block)

    def get(self, bytes name not None):
        """See `packed_texts_plain`."""
        cdef u32 index
        cdef u8 *item = find_item(&self.block, name, 0, True, &index)
        return None if item == NULL else text_of(item + item_size(item))

    def put(self, bytes name not None, bytes text not None):
        """See `packed_texts_plain`."""
        cdef u32 index
        cdef u8 *item = find_item(&self.block, name, 0, True, &index)
        if item != NULL:
            replace_item(&self.block, item + item_size(item), text)
            return False
        self.append(name, text)
        return True

    cdef int append(self, bytes name, bytes text) except -1:
        cdef size_t name_size = needed_size(name)
        cdef u8 *item = open_gap(&self.block, self.block.data + self.block.size, name_size + needed_size(text))
        write_item(&self.block, item, name)
        write_item(&self.block, item + name_size, text)
        self.block.count += 2
        return 0

    def pop(self, bytes name not None):
        """See `packed_texts_plain`."""
        cdef u32 index
        cdef u8 *item = find_item(&self.block, name, 0, True, &index)
        if item == NULL:
            return None
        text = text_of(item + item_size(item))
        remove_items(&self.block, item, 2)
        return text

    def move(self, bytes name not None, Py_ssize_t index):
        """See `packed_texts_plain`."""
        text = self.pop(name)
        if text is None or index < 0 or index > self.block.count >> 1:
            raise IndexError(index)
        insert_item(&self.block, item_at(&self.block, <u32>index * 2), name)
        insert_item(&self.block, item_at(&self.block, <u32>index * 2 + 1), text)

    def names(self):
        """See `packed_texts_plain`."""
        cdef list names = []
        cdef u8 *item = self.block.data
        cdef u8 *end = item + self.block.size
        while item != end:
            names.append(text_of(item))
            item += item_size(item)
            item += item_size(item)
        return names

    def items(self):
        """See `packed_texts_plain`."""
        cdef list pairs = []
        cdef u8 *item = self.block.data
        cdef u8 *end = item + self.block.size
        while item != end:
            name = text_of(item)
            item += item_size(item)
            pairs.append((name, text_of(item)))
            item += item_size(item)
        return pairs

    def at(self, Py_ssize_t index):
        """See `packed_texts_plain`."""
        if index < 0 or index >= self.block.count >> 1:
            raise IndexError(index)
        return text_of(item_at(&self.block, <u32>index * 2))

    def copy(self):
        """See `packed_texts_plain`."""
        cdef PackedPairs twin = PackedPairs.__new__(PackedPairs)
        copy_block(&twin.block, &self.block)
        return twin


cdef bint read_integer(bytes text, i64 *number) noexcept:
    """Read the signed 64-bit integer of which the text is the canonical form. Returns whether it is."""
    cdef const u8 *at = <const u8 *>PyBytes_AS_STRING(text)
    cdef const u8 *end = at + PyBytes_GET_SIZE(text)
    cdef bint is_negative = False
    cdef u64 value = 0
    cdef u64 limit
    cdef u8 digit
    if at == end or end - at > INTEGER_SIZE_MAX:
        return False
    if at[0] == c"-":
        is_negative = True
        at += 1
    if at == end or at[0] < c"0" or at[0] > c"9" or (at[0] == c"0" and PyBytes_GET_SIZE(text) > 1):
        return False
    limit = (<u64>1 << 63) - (0 if is_negative else 1)
    while at != end:
        digit = at[0] - <u8>c"0"
        if digit > 9 or value > (limit - digit) // 10:
            return False
        value = value * 10 + digit
        at += 1
    number[0] = <i64>(0 - value) if is_negative else <i64>value
    return True


cdef i64 listpack_size(bytes text) noexcept:
    cdef i64 number, size = PyBytes_GET_SIZE(text)
    if read_integer(text, &number):
        if 0 <= number <= 127:
            return 2
        if -4096 <= number <= 4095:
            return 3
        if -(1 << 15) <= number < 1 << 15:
            return 4
        if -(1 << 23) <= number < 1 << 23:
            return 5
        return 6 if -(<i64>1 << 31) <= number < <i64>1 << 31 else 10
    size += 1 if size < 64 else 2 if size < 4096 else 5
    return size + (1 if size <= 127 else 2 if size < 16383 else 3 if size < 2097151 else 4 if size < 268435455 else 5)


def entry_size(bytes text not None):
    """See `packed_texts_plain`."""
    return listpack_size(text)


def entries_size(list texts not None):
    """See `packed_texts_plain`."""
    cdef i64 size = 0
    for text in texts:
        size += listpack_size(text)
    return size


def packed_size(list texts not None):
    """See `packed_texts_plain`."""
    cdef u64 size = 0
    cdef Py_ssize_t text_size
    for text in texts:
        text_size = PyBytes_GET_SIZE(text)
        size += needed_size(text)
        if text_size >= LONG_SIZE:
            size += block_size(text_size + TEXT_HEADER_SIZE)
    return size
