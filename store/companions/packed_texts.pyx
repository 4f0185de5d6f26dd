# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Few byte strings in one block of memory, for installations with a C compiler: `packed_texts_plain` in C, without an
object for each string.

Both modules behave alike and are tested by the same tests; each caller imports this one if it was built. To find
a text takes a time that grows with the number of texts, as in the listpack of Redis.
"""

cimport cython
from cpython.dict cimport PyDict_GetItem
from cpython.long cimport PyLong_AsLongLong
from libc.string cimport memset

include "text_block.pxi"
include "place_text.pxi"
include "../byte_order.pxi"
include "score_text.pxi"
include "../decimal_text.pxi"
include "../listpack.pxi"
include "packed_listpack.pxi"


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

    def joined(self):
        """See `packed_texts_plain`."""
        if self.block.long_count:
            return None
        return PyBytes_FromStringAndSize(<const char *>self.block.data, self.block.size)

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

    def load_scored(self, bytes data not None):
        """See `packed_texts_plain`."""
        cdef const u8 *at = <const u8 *>PyBytes_AS_STRING(data) + LISTPACK_HEADER_SIZE
        cdef const u8 *end = <const u8 *>PyBytes_AS_STRING(data) + PyBytes_GET_SIZE(data) - 1
        cdef size_t room = 0
        cdef u32 before = 0, here
        cdef Element member, text
        cdef Needle needle
        cdef double score = 0
        # Every second element is a member.
        cdef Py_ssize_t count = measure(data, 2, 1, SCORE_BYTES, &room)
        if self.block.count or count < 0 or count % 2 or count // 2 > NAMES_MAX:
            return False
        set_room(&self.block, room)
        while at < end:
            read_element(&at, end, &member)
            read_element(&at, end, &text)
            here = self.block.size
            if not read_score_of(&text, &score):
                break
            append_place(&self.block, &member, score, end)
            if here:
                refer(self.block.data + here, 0, &needle)
                needle.head = head_of(<const u8 *>needle.data)
                if not is_less(self.block.data + before, &needle):
                    break
            before = here
        else:
            if not has_twins(&self.block, SCORE_BYTES, 1):
                return True
        clear(&self.block)
        return False

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

    def load(self, bytes data not None, int step):
        """See `packed_texts_plain`."""
        cdef const u8 *at = <const u8 *>PyBytes_AS_STRING(data) + LISTPACK_HEADER_SIZE
        cdef const u8 *end = <const u8 *>PyBytes_AS_STRING(data) + PyBytes_GET_SIZE(data) - 1
        cdef size_t room = 0
        cdef u32 name_at
        cdef Element element
        cdef dict times = {}
        cdef Py_ssize_t count
        if self.block.count or not 1 <= step <= 3:
            return None
        count = measure(data, step, min(step, 2), 0, &room)
        if count < 0 or count % step or count // step > NAMES_MAX:
            return None
        # Names of a set have an empty text each.
        set_room(&self.block, room + (LENGTHS_SIZE * count if step == 1 else 0))
        while at < end:
            name_at = self.block.size
            read_element(&at, end, &element)
            append_element(&self.block, &element, end)
            if step == 1:
                append_nothing(&self.block)
                continue
            read_element(&at, end, &element)
            append_element(&self.block, &element, end)
            if step == 3:
                read_element(&at, end, &element)
                if element.text != NULL or not 0 <= element.number <= TIME_MAX:
                    break
                if element.number:
                    times[text_of(self.block.data + name_at)] = element.number
        else:
            if not has_twins(&self.block, 0, 2):
                return times
        clear(&self.block)
        return None

    def fill(self, list words not None, int step):
        """See `packed_texts_plain`."""
        cdef size_t room = 0
        cdef Py_ssize_t count = len(words), index
        cdef bytes word
        if self.block.count or not 1 <= step <= 2 or count % step or count // step > NAMES_MAX:
            return False
        for word in words:
            if word is None:
                raise TypeError("bytes were expected")
            room += needed_size(word) + (LENGTHS_SIZE if step == 1 else 0)
        set_room(&self.block, room)
        for index in range(count):
            word = words[index]
            write_item(&self.block, self.block.data + self.block.size, word)
            self.block.size += <u32>needed_size(word)
            self.block.count += 1
            if step == 1:
                append_nothing(&self.block)
        if has_twins(&self.block, 0, 2):
            clear(&self.block)
            return False
        return True

    def listpack(self, int step, dict times):
        """See `packed_texts_plain`."""
        cdef u8 *item = self.block.data
        cdef u8 *end = item + self.block.size
        cdef size_t room = LISTPACK_HEADER_SIZE + 1 + self.block.long_size
        cdef u8 *start
        cdef u8 *at
        cdef bytes packed
        cdef PyObject *due_ms
        cdef u32 count = self.block.count
        if not 1 <= step <= 3:
            raise ValueError(step)
        # Each text takes its bytes, which are in the block or counted with the objects, and so do the times.
        room += self.block.size + <size_t>count * (ELEMENT_FRAME_MAX + DIGITS_SIZE_MAX)
        packed = PyBytes_FromStringAndSize(NULL, room)
        start = <u8 *>PyBytes_AS_STRING(packed)
        at = start + LISTPACK_HEADER_SIZE
        while item != end:
            at = write_text(at, item)
            name = text_of(item) if step == 3 and times is not None else None
            item += item_size(item)
            if step > 1:
                at = write_text(at, item)
            item += item_size(item)
            if step == 3:
                due_ms = PyDict_GetItem(times, name) if name is not None else NULL
                at = write_integer(at, 0 if due_ms == NULL else <i64>PyLong_AsLongLong(<object>due_ms))
        at[0] = LISTPACK_END
        at += 1
        if <u64>(at - start) >> 32:
            raise OverflowError("a listpack of more than 4 GiB")
        write_little(start, at - start, 4)
        write_little(start + 4, min(count // 2 * step, <u32>LISTPACK_COUNT_UNKNOWN), 2)
        return PyBytes_FromStringAndSize(<char *>start, at - start)

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
