# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Few byte strings in one block of memory, for installations with a C compiler: `packed_texts_plain` in C, without an
object for each string.

Both modules behave alike and are tested by the same tests; each caller imports this one if it was built. To find
a text takes a time that grows with the number of texts, as in the listpack of Redis.
"""

cimport cython

include "text_block.pxi"


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


cdef u8 *find_item(Block *block, const Needle *needle, Py_ssize_t skip, bint are_pairs) noexcept:
    """Return the first item that ends with the needle after its first `skip` bytes; NULL if there is none. Of pairs,
    only the first texts are looked at."""
    cdef u8 *item = block.data
    cdef u8 *end = item + block.size
    while item != end:
        if ends_with(item, needle, skip):
            return item
        item += item_size(item)
        if are_pairs:
            item += item_size(item)
    return NULL


cdef inline u8 *find_name(Block *block, bytes name) noexcept:
    """Return the item of a name among pairs; NULL if there is none."""
    cdef Needle needle
    set_needle(&needle, name)
    return find_item(block, &needle, 0, True)


@cython.final
@cython.no_gc
cdef class PackedTexts:
    """See `packed_texts_plain.PackedTexts`."""

    cdef Block block

    def __dealloc__(self):
        free_block(&self.block)

    def __len__(self):
        return self.block.count

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
        return texts_between(&self.block, 0, self.block.count, 0)

    def between(self, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t skip=0):
        """See `packed_texts_plain`."""
        self.demand(start, stop)
        return texts_between(&self.block, <u32>start, <u32>stop, max(skip, 0))

    def find(self, bytes text not None, Py_ssize_t skip=0):
        """See `packed_texts_plain`."""
        cdef Needle needle
        cdef u8 *item = self.block.data
        cdef u32 index
        set_needle(&needle, text)
        for index in range(self.block.count):
            if ends_with(item, &needle, skip):
                return index
            item += item_size(item)
        return -1

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

    def ending(self, bytes text not None, Py_ssize_t skip):
        """See `packed_texts_plain`."""
        cdef Needle needle
        cdef u8 *item
        set_needle(&needle, text)
        item = find_item(&self.block, &needle, skip, False)
        return None if item == NULL else text_of(item)

    def put_sorted(self, bytes text not None, Py_ssize_t skip):
        """See `packed_texts_plain`."""
        cdef Needle needle
        cdef u8 *item
        cdef bint is_new
        if skip < 0 or skip > PyBytes_GET_SIZE(text):
            raise ValueError(skip)
        needle.data = PyBytes_AS_STRING(text) + skip
        needle.size = PyBytes_GET_SIZE(text) - skip
        item = find_item(&self.block, &needle, skip, False)
        is_new = item == NULL
        set_needle(&needle, text)
        if not is_new:
            if ends_with(item, &needle, 0):
                return 0
            remove_items(&self.block, item, 1)
        item = self.block.data
        while item != self.block.data + self.block.size and is_less(item, &needle):
            item += item_size(item)
        insert_item(&self.block, item, text)
        return 2 if is_new else 1

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
        return find_name(&self.block, name) != NULL

    @property
    def memory_size(self):
        """See `packed_texts_plain`."""
        return block_weight(&self.block)

    def get(self, bytes name not None):
        """See `packed_texts_plain`."""
        cdef u8 *item = find_name(&self.block, name)
        return None if item == NULL else text_of(item + item_size(item))

    def put(self, bytes name not None, bytes text not None):
        """See `packed_texts_plain`."""
        cdef u8 *item = find_name(&self.block, name)
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
        cdef u8 *item = find_name(&self.block, name)
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

    def words(self):
        """See `packed_texts_plain`."""
        return texts_between(&self.block, 0, self.block.count, 0)

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
