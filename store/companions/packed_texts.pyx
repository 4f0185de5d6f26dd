# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Few byte strings in one block of memory, for installations with a C compiler: `packed_texts_plain` in C, without an
object for each string.

Both modules behave alike and are tested by the same tests; each caller imports this one if it was built. To find
a text takes a time that grows with the number of texts, as in the listpack of Redis, unless it is noted where each of
many names is.
"""

cimport cython
from cpython.dict cimport PyDict_GetItem
from cpython.long cimport PyLong_AsLongLong
from cpython.object cimport PyObject_Hash
from libc.string cimport memset

include "text_block.pxi"
include "place_text.pxi"
include "../byte_order.pxi"
include "score_text.pxi"
include "../decimal_text.pxi"
include "../listpack.pxi"
include "packed_listpack.pxi"
include "noted_names.pxi"


cdef enum:
    # Bytes of a time, in an item of its own.
    TIME_SIZE = 8
    TIME_ITEM_SIZE = TIME_SIZE + LENGTHS_SIZE
    # Bytes of the items of a name, its text and its time at most.
    PAIR_SIZE_MAX = 2 * (LONG_SIZE + LENGTHS_SIZE) + TIME_ITEM_SIZE


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


cdef u8 *find_item(Block *block, const Needle *needle, Py_ssize_t skip) noexcept:
    """Return the first item that ends with the needle after its first `skip` bytes; NULL if there is none."""
    cdef u8 *item = block.data
    cdef u8 *end = item + block.size
    while item != end:
        if ends_with(item, needle, skip):
            return item
        item += item_size(item)
    return NULL


cdef u8 *find_nth(Block *block, const Needle *needle, Py_ssize_t skip, int step) noexcept:
    """Like `find_item`; of every `step` items, only the first ones are looked at."""
    cdef u8 *item = block.data
    cdef u8 *end = item + block.size
    cdef int index
    while item != end:
        if ends_with(item, needle, skip):
            return item
        for index in range(step):
            item += item_size(item)
    return NULL


cdef inline u8 *next_pair(u8 *item, bint are_timed) noexcept:
    item += item_size(item)
    item += item_size(item)
    return item + TIME_ITEM_SIZE if are_timed else item


cdef inline i64 time_of(const u8 *item) noexcept:
    """Return the time in the item after a name and its text."""
    cdef i64 due_ms
    item += item_size(item)
    item += item_size(item)
    memcpy(&due_ms, item + 1, TIME_SIZE)
    return due_ms


cdef inline u8 *write_time(u8 *item, i64 due_ms) noexcept:
    """Write the item of a time. Returns where it ends."""
    item[0] = item[TIME_SIZE + 1] = TIME_SIZE
    memcpy(item + 1, &due_ms, TIME_SIZE)
    return item + TIME_ITEM_SIZE


cdef void move_bytes(u8 *at, size_t size, u8 *to) noexcept:
    """Move the bytes of a pair so that they are before those at `to`, which is not inside of them."""
    cdef u8 moved[PAIR_SIZE_MAX]
    if to == at or to == at + size:
        return
    memcpy(moved, at, size)
    if to < at:
        memmove(to + size, to, at - to)
        memcpy(to, moved, size)
    else:
        memmove(at, at + size, to - at - size)
        memcpy(to - size, moved, size)


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
        item = find_item(&self.block, &needle, skip)
        return None if item == NULL else text_of(item)

    def score_ranks(self, list ranges not None):
        """See `packed_texts_plain`."""
        cdef list ranks = []
        cdef tuple limits
        cdef u32 start, stop
        for limits in ranges:
            start = self.rank_of_score(limits[0])
            stop = self.rank_of_score(limits[1])
            if start < stop:
                ranks.append((start, stop))
        return ranks

    cdef u32 rank_of_score(self, double score) noexcept:
        """The number of places with lower scores."""
        cdef u8 text[SCORE_BYTES]
        cdef Needle needle
        cdef u8 *item = self.block.data
        cdef u32 rank = 0
        write_score(text, score)
        needle.data, needle.size, needle.head = <const char *>text, SCORE_BYTES, head_of(text)
        while rank < self.block.count and is_less(item, &needle):
            item += item_size(item)
            rank += 1
        return rank

    def scores(self, list members not None):
        """See `packed_texts_plain`."""
        cdef Names names
        cdef list found = []
        cdef u8 *item
        cdef const u8 *place
        cdef bytes member
        cdef bint are_noted = note_names(&names, &self.block, SCORE_BYTES, 1, len(members))
        for member in members:
            item = find_noted(&names, are_noted, &self.block, member, SCORE_BYTES, 1)
            if item == NULL:
                found.append(None)
                continue
            place = item + 1
            if item[0] == LONG_SIZE:
                place = <const u8 *>PyBytes_AS_STRING(<object>object_of(item))
            found.append(read_score(place))
        return found

    def put_sorted(self, bytes text not None, Py_ssize_t skip):
        """See `packed_texts_plain`."""
        cdef Needle needle
        cdef u8 *item
        cdef bint is_new
        if skip < 0 or skip > PyBytes_GET_SIZE(text):
            raise ValueError(skip)
        needle.data = PyBytes_AS_STRING(text) + skip
        needle.size = PyBytes_GET_SIZE(text) - skip
        item = find_item(&self.block, &needle, skip)
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

    def having(self, list texts not None, Py_ssize_t skip, bint wanted):
        """See `packed_texts_plain`."""
        cdef Names noted
        cdef list kept = []
        cdef bytes text
        cdef bint are_noted = note_names(&noted, &self.block, skip, 1, len(texts))
        for text in texts:
            if (find_noted(&noted, are_noted, &self.block, text, skip, 1) != NULL) == wanted:
                kept.append(text)
        return kept

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

    # The name and the text of each pair are two items. After the first time was set, the time of each is a third one, 0
    # for none.
    cdef Block block
    cdef bint are_timed
    cdef readonly u32 timed_count

    def __dealloc__(self):
        self.forget()
        free_block(&self.block)

    cdef inline u32 width(self) noexcept:
        """Return the number of the items of a pair."""
        return 3 if self.are_timed else 2

    cdef inline u32 pairs_count(self) noexcept:
        return self.block.count // 3 if self.are_timed else self.block.count >> 1

    cdef u8 *find_name(self, bytes name) noexcept:
        """Return the item of a name; NULL if there is none."""
        cdef Needle needle
        cdef u8 *item = self.block.data
        cdef u8 *end = item + self.block.size
        cdef const Names *names
        cdef u32 at
        set_needle(&needle, name)
        if self.pairs_count() > UNNOTED_MAX:
            names = self.noted()
            if names != NULL:
                at = names.slots[slot_of(names, &self.block, &needle, 0)]
                return self.block.data + at - 1 if at else NULL
        while item != end:
            if ends_with(item, &needle, 0):
                return item
            item = next_pair(item, self.are_timed)
        return NULL

    cdef inline Noted *notes(self) noexcept:
        """What may be noted of these pairs, or of others."""
        return &noted_pairs[(<size_t><void *>self >> 6) % NOTED_COUNT]

    cdef inline Noted *own_notes(self) noexcept:
        """What is noted of the block as it is."""
        cdef Noted *notes = self.notes()
        if notes.owner != <PyObject *>self or notes.data != self.block.data or notes.size != self.block.size:
            notes.owner, notes.data, notes.size = <PyObject *>self, self.block.data, self.block.size
            notes.is_ready, notes.looked_count, notes.is_ordered = False, 0, False
        return notes

    cdef const Names *noted(self) noexcept:
        """Where the names are; NULL until some were looked for since the block changed."""
        cdef Noted *notes = self.own_notes()
        if not notes.is_ready:
            notes.looked_count += 1
            if notes.looked_count < LOOKED_MIN or self.pairs_count() > NAMES_MAX:
                return NULL
            notes.is_ready = gather_names(&notes.names, &self.block, 0, self.width())
        return &notes.names if notes.is_ready else NULL

    cdef inline void forget(self) noexcept:
        """Give up what is noted, since the block changes."""
        cdef Noted *notes = self.notes()
        if notes.owner == <PyObject *>self:
            notes.owner = NULL

    cdef inline void note_last(self, u8 *item, bytes name) noexcept:
        """Note the name of the last pair, which is new, where the others are noted."""
        cdef Noted *notes = self.notes()
        cdef Needle needle
        if notes.owner != <PyObject *>self:
            return
        notes.data, notes.size, notes.is_ordered = self.block.data, self.block.size, False
        # Names that become too many for the slots are noted anew when the next one is looked for.
        notes.is_ready = notes.is_ready and 2 * self.pairs_count() <= notes.names.mask
        if notes.is_ready:
            set_needle(&needle, name)
            notes.names.slots[slot_of(&notes.names, &self.block, &needle, 0)] = <u32>(item - self.block.data) + 1

    cdef bint note_few(self, Names *names, Py_ssize_t wanted) noexcept:
        """Note where the names are while these are few, if that is worth its time: see `find_among`."""
        return self.pairs_count() <= UNNOTED_MAX and note_names(names, &self.block, 0, self.width(), wanted)

    cdef u8 *find_among(self, const Names *names, bint are_noted, bytes name) noexcept:
        """Like `find_name`, for one of many names. `are_noted`: what `note_few` has returned."""
        return find_noted(names, True, &self.block, name, 0, self.width()) if are_noted else self.find_name(name)

    def __len__(self):
        return self.pairs_count()

    def __contains__(self, bytes name not None):
        return self.find_name(name) != NULL

    @property
    def memory_size(self):
        """See `packed_texts_plain`."""
        return block_weight(&self.block)

    def get(self, bytes name not None):
        """See `packed_texts_plain`."""
        cdef u8 *item = self.find_name(name)
        return None if item == NULL else text_of(item + item_size(item))

    def get_all(self, list names not None):
        """See `packed_texts_plain`."""
        cdef Names noted
        cdef list texts = []
        cdef u8 *item
        cdef bytes name
        cdef bint are_noted = self.note_few(&noted, len(names))
        for name in names:
            item = self.find_among(&noted, are_noted, name)
            texts.append(None if item == NULL else text_of(item + item_size(item)))
        return texts

    def has_each(self, list names not None):
        """See `packed_texts_plain`."""
        cdef Names noted
        cdef list found = []
        cdef bytes name
        cdef bint are_noted = self.note_few(&noted, len(names))
        for name in names:
            found.append(0 if self.find_among(&noted, are_noted, name) == NULL else 1)
        return found

    def having(self, list names not None, bint wanted):
        """See `packed_texts_plain`."""
        cdef Names noted
        cdef list kept = []
        cdef bytes name
        cdef bint are_noted = self.note_few(&noted, len(names))
        for name in names:
            if (self.find_among(&noted, are_noted, name) != NULL) == wanted:
                kept.append(name)
        return kept

    def put(self, bytes name not None, bytes text not None):
        """See `packed_texts_plain`."""
        cdef u8 *item = self.find_name(name)
        if item != NULL:
            item += item_size(item)
            if needed_size(text) != item_size(item):
                self.forget()
            replace_item(&self.block, item, text)
            return False
        self.append(name, text)
        return True

    cdef int append(self, bytes name, bytes text) except -1:
        cdef size_t name_size = needed_size(name), text_size = needed_size(text)
        cdef size_t size = name_size + text_size + (TIME_ITEM_SIZE if self.are_timed else 0)
        cdef u8 *item = open_gap(&self.block, self.block.data + self.block.size, size)
        write_item(&self.block, item, name)
        write_item(&self.block, item + name_size, text)
        if self.are_timed:
            write_time(item + name_size + text_size, 0)
        self.block.count += self.width()
        self.note_last(item, name)
        return 0

    def load(self, bytes data not None, int step):
        """See `packed_texts_plain`."""
        cdef const u8 *at = <const u8 *>PyBytes_AS_STRING(data) + LISTPACK_HEADER_SIZE
        cdef const u8 *end = <const u8 *>PyBytes_AS_STRING(data) + PyBytes_GET_SIZE(data) - 1
        cdef size_t room = 0
        cdef Element element
        cdef i64 first_ms = 0
        cdef u32 timed_count = 0
        cdef Py_ssize_t count
        if self.block.count or self.are_timed or not 1 <= step <= 3:
            return -1
        count = measure(data, step, min(step, 2), 0, &room)
        if count < 0 or count % step or count // step > NAMES_MAX:
            return -1
        # Names of a set have an empty text each.
        if step != 2:
            room += count * LENGTHS_SIZE if step == 1 else count // 3 * TIME_ITEM_SIZE
        set_room(&self.block, room)
        while at < end:
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
                write_time(self.block.data + self.block.size, element.number)
                self.block.size += TIME_ITEM_SIZE
                self.block.count += 1
                if element.number:
                    timed_count += 1
                    if not first_ms or element.number < first_ms:
                        first_ms = element.number
        else:
            if not has_twins(&self.block, 0, max(step, 2)):
                self.are_timed, self.timed_count = step == 3, timed_count
                return first_ms
        clear(&self.block)
        return -1

    def fill(self, list words not None, int step):
        """See `packed_texts_plain`."""
        cdef size_t room = 0
        cdef Py_ssize_t count = len(words), index
        cdef bytes word
        if self.block.count or self.are_timed or not 1 <= step <= 2 or count % step or count // step > NAMES_MAX:
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

    def listpack(self, int step):
        """See `packed_texts_plain`."""
        cdef u8 *item = self.block.data
        cdef u8 *end = item + self.block.size
        cdef size_t room = LISTPACK_HEADER_SIZE + 1 + self.block.long_size
        cdef u8 *start
        cdef u8 *at
        cdef bytes packed
        cdef u32 count = self.pairs_count()
        if not 1 <= step <= 3:
            raise ValueError(step)
        # Each text takes its bytes, which are in the block or counted with the objects, and so do the times.
        room += self.block.size + 3 * <size_t>count * (ELEMENT_FRAME_MAX + DIGITS_SIZE_MAX)
        packed = PyBytes_FromStringAndSize(NULL, room)
        start = <u8 *>PyBytes_AS_STRING(packed)
        at = start + LISTPACK_HEADER_SIZE
        while item != end:
            at = write_text(at, item)
            if step > 1:
                at = write_text(at, item + item_size(item))
            if step == 3:
                at = write_integer(at, time_of(item) if self.are_timed else 0)
            item = next_pair(item, self.are_timed)
        at[0] = LISTPACK_END
        at += 1
        if <u64>(at - start) >> 32:
            raise OverflowError("a listpack of more than 4 GiB")
        write_little(start, at - start, 4)
        write_little(start + 4, min(<u64>count * step, <u64>LISTPACK_COUNT_UNKNOWN), 2)
        return PyBytes_FromStringAndSize(<char *>start, at - start)

    def pop(self, bytes name not None):
        """See `packed_texts_plain`."""
        cdef u8 *item = self.find_name(name)
        if item == NULL:
            return None
        text = text_of(item + item_size(item))
        if self.are_timed and time_of(item):
            self.timed_count -= 1
        self.forget()
        remove_items(&self.block, item, self.width())
        return text

    def pop_all(self, list names not None):
        """See `packed_texts_plain`."""
        cdef Names noted
        cdef list texts = []
        cdef bytes name
        cdef u8 *item
        # The items of names that are gone, by the number of bytes before them.
        cdef u8 *gone
        if not note_names(&noted, &self.block, 0, self.width(), len(names)):
            for name in names:
                texts.append(self.pop(name))
            return texts
        gone = <u8 *>PyMem_Calloc(self.block.size, 1)
        if gone == NULL:
            raise MemoryError
        try:
            for name in names:
                item = find_noted(&noted, True, &self.block, name, 0, self.width())
                if item == NULL or gone[item - self.block.data]:
                    texts.append(None)
                else:
                    texts.append(text_of(item + item_size(item)))
                    gone[item - self.block.data] = 1
            self.forget()
            self.remove_gone(gone)
        finally:
            PyMem_Free(gone)
        return texts

    cdef void remove_gone(self, const u8 *gone) noexcept:
        """Remove the pairs whose items are marked: see `pop_all`."""
        cdef u8 *item = self.block.data
        cdef u8 *to = item
        cdef u8 *end = item + self.block.size
        cdef u8 *after
        while item != end:
            after = next_pair(item, self.are_timed)
            if gone[item - self.block.data]:
                if self.are_timed and time_of(item):
                    self.timed_count -= 1
                self.block.count -= self.width()
                let_go(&self.block, item)
                let_go(&self.block, item + item_size(item))
            else:
                memmove(to, item, after - item)
                to += after - item
            item = after
        close_gap(&self.block, to, end - to)

    def move(self, bytes name not None, Py_ssize_t index):
        """See `packed_texts_plain`."""
        cdef u8 *item = self.find_name(name)
        cdef u8 *to = self.block.data
        if item == NULL or index < 0 or index >= self.pairs_count():
            raise IndexError(index)
        self.forget()
        while True:
            if to == item:
                to = next_pair(to, self.are_timed)
            if not index:
                break
            to = next_pair(to, self.are_timed)
            index -= 1
        move_bytes(item, next_pair(item, self.are_timed) - item, to)

    # -- times -----------------------------------------------------------------------------------

    def time(self, bytes name not None):
        """See `packed_texts_plain`."""
        cdef u8 *item = self.find_name(name) if self.timed_count else NULL
        return 0 if item == NULL else time_of(item)

    def times(self):
        """See `packed_texts_plain`."""
        cdef dict found = {}
        cdef u8 *item = self.block.data
        cdef u8 *end = item + self.block.size
        while self.timed_count and item != end:
            if time_of(item):
                found[text_of(item)] = time_of(item)
            item = next_pair(item, True)
        return found

    def first_timed(self):
        """See `packed_texts_plain`."""
        cdef u8 *item = self.block.data
        cdef u8 *end = item + self.block.size
        cdef u8 *first = NULL
        cdef i64 due_ms, first_ms = 0
        while self.timed_count and item != end:
            due_ms = time_of(item)
            if due_ms and (first == NULL or due_ms < first_ms):
                first, first_ms = item, due_ms
            item = next_pair(item, True)
        return None if first == NULL else (first_ms, text_of(first))

    cdef int make_timed(self) except -1:
        """Have an item for the time of each pair from now on."""
        cdef Block timed
        cdef u8 *item = self.block.data
        cdef u8 *end = item + self.block.size
        cdef u8 *to
        cdef size_t size
        cdef u32 count = self.pairs_count()
        if self.are_timed:
            return 0
        self.forget()
        memset(&timed, 0, sizeof(Block))
        set_room(&timed, self.block.size + <size_t>count * TIME_ITEM_SIZE)
        to = timed.data
        while item != end:
            size = next_pair(item, False) - item
            memcpy(to, item, size)
            to = write_time(to + size, 0)
            item += size
        PyMem_Free(self.block.data)
        self.block.data, self.block.room, self.block.size = timed.data, timed.room, timed.room
        self.block.count += count
        self.are_timed = True
        return 0

    cdef void put_time(self, u8 *item, i64 due_ms, bint in_order) noexcept:
        """Set the time of a pair; `in_order`: see `set_time`."""
        cdef u8 *to = self.block.data
        cdef u8 *end = to + self.block.size
        cdef i64 old_ms = time_of(item), other_ms
        cdef u8 *after = next_pair(item, True)
        write_time(after - TIME_ITEM_SIZE, due_ms)
        if old_ms:
            self.timed_count -= 1
        if due_ms:
            self.timed_count += 1
        if not in_order:
            return
        self.forget()
        if not due_ms:
            to = end
        while to != end:
            if to != item:
                other_ms = time_of(to)
                if not other_ms or other_ms >= due_ms:
                    break
            to = next_pair(to, True)
        move_bytes(item, after - item, to)

    def set_time(self, bytes name not None, i64 due_ms, bint in_order):
        """See `packed_texts_plain`."""
        cdef u8 *item
        self.make_timed()
        item = self.find_name(name)
        if item == NULL:
            return False
        self.put_time(item, due_ms, in_order)
        return True

    def set_times(self, list names not None, i64 due_ms, bint in_order):
        """See `packed_texts_plain`."""
        cdef list found = []
        cdef u8 *item
        cdef bytes name
        self.make_timed()
        for name in names:
            item = self.find_name(name)
            if item != NULL:
                self.put_time(item, due_ms, in_order)
                found.append(name)
        return found

    def take_times(self, dict times not None):
        """See `packed_texts_plain`."""
        cdef u8 *item
        cdef u8 *end
        cdef PyObject *found
        self.make_timed()
        item = self.block.data
        end = item + self.block.size
        while item != end:
            name = text_of(item)
            found = PyDict_GetItem(times, name)
            if found != NULL:
                self.put_time(item, PyLong_AsLongLong(<object>found), False)
            item = next_pair(item, True)

    def times_of(self, list names not None):
        """See `packed_texts_plain`."""
        cdef Names noted
        cdef list found = []
        cdef u8 *item
        cdef bytes name
        cdef bint are_noted = self.note_few(&noted, len(names))
        for name in names:
            item = self.find_among(&noted, are_noted, name)
            found.append(-1 if item == NULL else time_of(item) if self.are_timed else 0)
        return found

    def drop_times(self, list names not None, i64 now_ms, bint in_order):
        """See `packed_texts_plain`."""
        cdef list states = []
        cdef u8 *item
        cdef bytes name
        cdef i64 due_ms
        for name in names:
            item = self.find_name(name)
            due_ms = time_of(item) if item != NULL and self.are_timed else 0
            if item == NULL or 0 < due_ms < now_ms:
                states.append(-1)
            elif not due_ms:
                states.append(0)
            else:
                self.put_time(item, 0, in_order)
                states.append(1)
        return states

    # -- all -------------------------------------------------------------------------------------

    def names(self):
        """See `packed_texts_plain`."""
        cdef list names = []
        cdef u8 *item = self.block.data
        cdef u8 *end = item + self.block.size
        while item != end:
            names.append(text_of(item))
            item = next_pair(item, self.are_timed)
        return names

    def texts(self):
        """See `packed_texts_plain`."""
        cdef list texts = []
        cdef u8 *item = self.block.data
        cdef u8 *end = item + self.block.size
        while item != end:
            texts.append(text_of(item + item_size(item)))
            item = next_pair(item, self.are_timed)
        return texts

    def words(self):
        """See `packed_texts_plain`."""
        cdef list words = []
        cdef u8 *item = self.block.data
        cdef u8 *end = item + self.block.size
        while item != end:
            words.append(text_of(item))
            words.append(text_of(item + item_size(item)))
            item = next_pair(item, self.are_timed)
        return words

    def items(self):
        """See `packed_texts_plain`."""
        cdef list pairs = []
        cdef u8 *item = self.block.data
        cdef u8 *end = item + self.block.size
        while item != end:
            pairs.append((text_of(item), text_of(item + item_size(item))))
            item = next_pair(item, self.are_timed)
        return pairs

    def at(self, Py_ssize_t index):
        """See `packed_texts_plain`."""
        if index < 0 or index >= self.pairs_count():
            raise IndexError(index)
        return text_of(item_at(&self.block, <u32>index * self.width()))

    def part(self, Py_ssize_t start, Py_ssize_t count):
        """See `packed_texts_plain`."""
        cdef list names = []
        cdef u8 *item
        if start < 0 or start > self.pairs_count() or count < 0:
            raise IndexError(start)
        item = item_at(&self.block, <u32>start * self.width())
        while count and item != self.block.data + self.block.size:
            names.append(text_of(item))
            item = next_pair(item, self.are_timed)
            count -= 1
        return names

    def scan(self, u64 cursor, Py_ssize_t count, bint has_texts):
        """See `packed_texts_plain`."""
        cdef list found = []
        cdef u32 pairs_count = self.pairs_count(), index
        cdef Noted *notes
        cdef const ScanItem *order
        cdef u64 last = 0
        cdef u8 *item
        if count < 1 or pairs_count > NAMES_MAX:
            raise ValueError(count)
        notes = self.own_notes()
        if not notes.is_ordered:
            put_in_scan_order(&self.block, self.width(), notes.order)
            notes.is_ordered = True
        order = notes.order
        for index in range(first_in_scan(order, pairs_count, cursor), pairs_count):
            # Names with the same place are returned together: a cursor cannot be between them.
            if count <= 0 and order[index].place != last:
                return found, order[index].place
            last = order[index].place
            count -= 1
            item = self.block.data + order[index].at
            found.append(text_of(item))
            if has_texts:
                found.append(text_of(item + item_size(item)))
        return found, 0

    def copy(self):
        """See `packed_texts_plain`."""
        cdef PackedPairs twin = PackedPairs.__new__(PackedPairs)
        copy_block(&twin.block, &self.block)
        twin.are_timed, twin.timed_count = self.are_timed, self.timed_count
        return twin
