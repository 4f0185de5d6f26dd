# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The elements of a list in nodes that are listpacks, for installations with a C compiler: `quicklist_plain` in C,
without an object for each element or node.

Both modules behave alike and are tested by the same tests; each caller imports this one if it was built. A node has the
bytes of a listpack without its header and its end, and each element is in its shortest form: equal elements have equal
bytes. The nodes are in an array with free places on both sides; a single one is in the object itself.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.string cimport memcmp, memcpy, memmove, memset

ctypedef unsigned char u8
ctypedef unsigned int u32
ctypedef unsigned long long u64

include "../block_size.pxi"
include "../byte_order.pxi"
include "../listpack.pxi"
include "../../protocol/resp.pxi"

cdef enum:
    # As in `quicklist_plain`.
    EMPTY_SIZE = 7
    OVERHEAD = 8
    SAFE_SIZE = 8192
    SMALLEST_SIZE = 4096
    LAST_FILL = -5
    # Bytes of the object itself.
    OBJECT_SIZE = 96
    # Places of an array that is not worth making smaller.
    PLACES_MIN = 64
    # Nodes are counted in 31 bits.
    PLACES_MAX = 0x7FFFFFFF
    # Bytes of a bulk string without its text, at most.
    BULK_SIZE_MAX = 32

cdef struct Node:
    # The elements; of a plain node, a reference to its element, an object.
    u8 *data
    # Bytes in use, and the capacity. Both are 0 for a plain node.
    u32 size
    u32 room
    u32 count
    bint is_plain


cdef inline i64 size_max(int fill) noexcept:
    return <i64>SMALLEST_SIZE << -max(fill, <int>LAST_FILL) - 1


cdef inline bint exceeds(int fill, i64 size, i64 count) noexcept:
    if fill < 0:
        return size > size_max(fill)
    return size > SAFE_SIZE or count > max(fill, 1)


cdef inline bint is_large(int fill, i64 size) noexcept:
    return size > (SAFE_SIZE if fill >= 0 else size_max(fill))


cdef inline Py_ssize_t packed_size_of(bytes text) noexcept:
    """Bytes of the element that a text becomes."""
    return element_size(<const u8 *>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))


cdef inline void write(u8 *at, bytes text) noexcept:
    """Write a text as an element, of `packed_size_of` bytes."""
    write_element(at, <const u8 *>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))


cdef inline Py_ssize_t size_at(const u8 *at) noexcept:
    """Bytes of the element at this place."""
    cdef u8 first = at[0]
    cdef Py_ssize_t size
    if first < 0x80:
        return 2
    if first < 0xC0:
        return (first & 0x3F) + 2
    if first < 0xE0:
        return 3
    if first > 0xF0:
        return 10 if first == 0xF4 else first - 0xEF + 2
    size = 2 + ((first & 0x0F) << 8 | at[1]) if first < 0xF0 else 5 + <Py_ssize_t>read_little(at + 1, 4)
    return size + back_length_size(size)


cdef inline Py_ssize_t size_before(const u8 *end) noexcept:
    """Bytes of the element that ends at this place."""
    cdef const u8 *at = end - 1
    cdef Py_ssize_t size = at[0] & 0x7F
    cdef int shift = 0
    while at[0] & 0x80:
        at -= 1
        shift += 7
        size |= <Py_ssize_t>(at[0] & 0x7F) << shift
    return size + (end - at)


cdef inline u8 *element_at(const Node *node, u32 index) noexcept:
    """Return the element at an index of a packed node, or the end, from the nearer side."""
    cdef u8 *at
    if index <= node.count >> 1:
        at = node.data
        while index:
            at += size_at(at)
            index -= 1
    else:
        at = node.data + node.size
        index = node.count - index
        while index:
            at -= size_before(at)
            index -= 1
    return at


cdef inline Py_ssize_t view(const u8 **place, const u8 *end, const char **text, char *digits) noexcept:
    """Find the text of the element at `place`, or write it to `digits`, and move `place` past it. Returns its size."""
    cdef Element element
    cdef char *at = digits
    read_element(place, end, &element)
    if element.text != NULL:
        text[0] = <const char *>element.text
        return element.size
    if element.number < 0:
        at[0] = c'-'
        at += 1
    text[0] = digits
    return write_number(at, 0 - <u64>element.number if element.number < 0 else <u64>element.number) - digits


cdef inline bytes take_text(const u8 **place, const u8 *end):
    """Read the text at `place`, and move `place` past it."""
    cdef char digits[DIGITS_SIZE_MAX]
    cdef const char *text
    cdef Py_ssize_t size = view(place, end, &text, digits)
    return PyBytes_FromStringAndSize(text, size)


cdef inline object object_of(const Node *node):
    """Return the element of a plain node."""
    return <object><PyObject *>node.data


cdef inline bint is_equal(const u8 *at, bytes packed) noexcept:
    """Whether an element has these bytes."""
    cdef Py_ssize_t size = PyBytes_GET_SIZE(packed)
    return at[0] == <u8>PyBytes_AS_STRING(packed)[0] and size_at(at) == size and not memcmp(
        at, PyBytes_AS_STRING(packed), size
    )


cdef bytes pack_text(bytes text):
    """Return the bytes of the element that a text becomes."""
    cdef bytes packed = PyBytes_FromStringAndSize(NULL, packed_size_of(text))
    write(<u8 *>PyBytes_AS_STRING(packed), text)
    return packed


cdef inline bint skip_shortest(const u8 **place, const u8 *end) noexcept:
    """Move `place` past the element there. Returns False if it is damaged, or not as `write_element` writes it."""
    cdef const u8 *at = place[0]
    cdef Py_ssize_t size
    cdef Element element
    if 0x80 <= at[0] < 0xC0 and end - at > 2 and at[1] > c'9':
        # A short text that is no number.
        size = at[0] & 0x3F
        place[0] = at + size + 2
        return 0 < size and size + 2 <= end - at and at[size + 1] == size + 1
    if not read_element(place, end, &element):
        return False
    if element.text == NULL:
        return place[0] - at == integer_size(element.number)
    return place[0] - at == element_size(element.text, element.size)


@cython.final
@cython.no_gc
cdef class Quicklist:
    """See `quicklist_plain.Quicklist`."""

    cdef Node single
    # The first node: `single`, or one in `places`, of which there are `places_count`.
    cdef Node *nodes
    cdef Node *places_start
    cdef int places_count
    cdef readonly int nodes_count
    cdef Py_ssize_t count
    # Bytes of all nodes and places.
    cdef size_t held_size
    cdef int fill
    cdef readonly bint is_packed

    def __cinit__(self, int fill):
        self.nodes = &self.single
        self.fill, self.is_packed = fill, True

    def __dealloc__(self):
        cdef Py_ssize_t at
        for at in range(self.nodes_count):
            self.let_go(self.nodes + at)
        PyMem_Free(self.places_start)

    def __len__(self):
        return self.count

    @property
    def memory_size(self):
        """See `quicklist_plain`."""
        return OBJECT_SIZE + self.held_size

    # -- memory ----------------------------------------------------------------------------------

    cdef int set_room(self, Node *node, size_t room) except -1:
        """Give a packed node another capacity, which is not 0."""
        cdef u8 *data
        if room >> 32:
            raise MemoryError
        data = <u8 *>PyMem_Realloc(node.data, room)
        if data == NULL:
            raise MemoryError
        self.held_size += block_size(room)
        self.held_size -= block_size(node.room) if node.room else 0
        node.data, node.room = data, <u32>room
        return 0

    cdef u8 *open_gap(self, Node *node, size_t at, size_t size) except NULL:
        """Make room for so many bytes before a place of a packed node. Returns where they are."""
        cdef size_t needed = node.size + size
        if needed > node.room:
            self.set_room(node, (needed + 15) & ~<size_t>15 if needed <= POOLED_SIZE_MAX else needed + (needed >> 3))
        memmove(node.data + at + size, node.data + at, node.size - at)
        node.size += <u32>size
        return node.data + at

    cdef void close_gap(self, Node *node, size_t at, size_t size) noexcept:
        """Take so many bytes out of a node, and give back memory if much is free. Other bytes stay."""
        memmove(node.data + at, node.data + at + size, node.size - at - size)
        node.size -= <u32>size
        self.trim(node)

    cdef void trim(self, Node *node) noexcept:
        """Give back memory if much is free. A node without elements will be dropped."""
        cdef u32 wanted = node.room >> 1 if node.room > POOLED_SIZE_MAX else node.room - (node.room >> 2)
        if 0 < node.size < wanted:
            try:
                self.set_room(node, node.size)
            except MemoryError:
                pass

    cdef void let_go(self, Node *node) noexcept:
        """Free what a node refers to."""
        if node.is_plain:
            self.held_size -= block_size(PyBytes_GET_SIZE(object_of(node)) + TEXT_HEADER_SIZE)
            Py_DECREF(object_of(node))
        elif node.room:
            self.held_size -= block_size(node.room)
            PyMem_Free(node.data)

    cdef void hold(self, Node *node, bytes element) noexcept:
        """Make an empty node one with a large element."""
        Py_INCREF(element)
        node.data, node.count, node.is_plain = <u8 *><PyObject *>element, 1, True
        self.held_size += block_size(PyBytes_GET_SIZE(element) + TEXT_HEADER_SIZE)

    # -- the array of nodes ----------------------------------------------------------------------

    cdef int spread(self) except -1:
        """Move the nodes to an array with as many free places on both sides."""
        cdef Py_ssize_t free = self.nodes_count // 4 + 2
        cdef Py_ssize_t room = self.nodes_count + 2 * free
        cdef Node *places = <Node *>PyMem_Malloc(room * sizeof(Node)) if room < PLACES_MAX else NULL
        if places == NULL:
            raise MemoryError
        memcpy(places + free, self.nodes, self.nodes_count * sizeof(Node))
        self.drop_places()
        self.nodes, self.places_start, self.places_count = places + free, places, <int>room
        self.held_size += block_size(room * sizeof(Node))
        return 0

    cdef void drop_places(self) noexcept:
        if self.places_start != NULL:
            self.held_size -= block_size(self.places_count * sizeof(Node))
            PyMem_Free(self.places_start)
            self.places_start = NULL
            self.places_count = 0

    cdef Node *add_node(self, Py_ssize_t at) except NULL:
        """Add an empty node before the one at this index. Other nodes may move."""
        cdef Py_ssize_t after = self.nodes_count - at
        cdef bint to_left = at < after
        if self.places_start == NULL:
            if self.nodes_count:
                self.spread()
        elif self.nodes == self.places_start if to_left else (
            self.nodes + self.nodes_count == self.places_start + self.places_count
        ):
            self.spread()
        if to_left:
            memmove(self.nodes - 1, self.nodes, at * sizeof(Node))
            self.nodes -= 1
        else:
            memmove(self.nodes + at + 1, self.nodes + at, after * sizeof(Node))
        self.nodes_count += 1
        memset(self.nodes + at, 0, sizeof(Node))
        return self.nodes + at

    cdef int add_new_node(self, Py_ssize_t at, bytes element) except -1:
        """Add a node with one element before the one at this index."""
        cdef Node *node = self.add_node(at)
        if not self.is_packed and is_large(self.fill, PyBytes_GET_SIZE(element)):
            self.hold(node, element)
        else:
            self.put_in(node, 0, element)
        return 0

    cdef void drop_nodes(self, Py_ssize_t at, Py_ssize_t count) noexcept:
        """Remove nodes. Their elements are not counted here."""
        cdef Py_ssize_t index, after = self.nodes_count - at - count
        for index in range(at, at + count):
            self.let_go(self.nodes + index)
        if at < after:
            memmove(self.nodes + count, self.nodes, at * sizeof(Node))
            self.nodes += count
        else:
            memmove(self.nodes + at, self.nodes + at + count, after * sizeof(Node))
        self.nodes_count -= <int>count
        if self.nodes_count <= 1:
            if self.nodes != &self.single and self.nodes_count:
                self.single = self.nodes[0]
            self.nodes = &self.single
            self.drop_places()
        elif self.places_count > PLACES_MIN and self.nodes_count < self.places_count >> 2:
            try:
                self.spread()
            except MemoryError:
                pass

    # -- elements of one node --------------------------------------------------------------------

    cdef bint allows(self, const Node *node, bytes element) noexcept:
        """Whether an element may be added to a node."""
        return not node.is_plain and not exceeds(
            self.fill, <i64>EMPTY_SIZE + node.size + PyBytes_GET_SIZE(element) + OVERHEAD, <i64>node.count + 1
        )

    cdef int put_in(self, Node *node, size_t at, bytes element) except -1:
        """Add an element before a place of a packed node."""
        write(self.open_gap(node, at, packed_size_of(element)), element)
        node.count += 1
        return 0

    cdef int insert_in(self, Node *node, u32 index, bytes element) except -1:
        """Add an element before the one at an index of a packed node."""
        return self.put_in(node, element_at(node, index) - node.data, element)

    cdef void cut(self, Node *node, u32 start, u32 count) noexcept:
        """Remove some elements, but not all, of a packed node."""
        cdef u8 *first = element_at(node, start)
        cdef u8 *end = first
        node.count -= count
        while count:
            end += size_at(end)
            count -= 1
        self.close_gap(node, first - node.data, end - first)

    cdef Node *split(self, Py_ssize_t at, u32 index) except NULL:
        """Move the elements of a node from an index on, which is neither the first one nor the end, to a new node after
        it. Returns the node that was split."""
        cdef Node *other = self.add_node(at + 1)
        cdef Node *node = other - 1
        cdef u8 *first = element_at(node, index)
        cdef u32 size = <u32>(node.data + node.size - first)
        self.set_room(other, size)
        memcpy(other.data, first, size)
        other.size, other.count = size, node.count - index
        node.size -= size
        node.count = index
        self.trim(node)
        return node

    cdef int find_text(self, const Node *node, bytes text, bytes packed) noexcept:
        """Return the index of the first element that is a text, which is given packed as well; -1 if there is none."""
        cdef const u8 *at
        cdef u32 index
        if node.is_plain:
            return 0 if <bytes>object_of(node) == text else -1
        at = node.data
        for index in range(node.count):
            if is_equal(at, packed):
                return index
            at += size_at(at)
        return -1

    cdef Py_ssize_t fill_in(self, list texts, Py_ssize_t to, const Node *node, u32 start, u32 count) except -1:
        """Put elements of a node in a new list, from an index on. Returns the index after them."""
        cdef const u8 *at
        cdef const u8 *end
        cdef object text
        if node.is_plain:
            text = object_of(node)
            Py_INCREF(text)
            PyList_SET_ITEM(texts, to, text)
            return to + 1
        at, end = element_at(node, start), node.data + node.size
        while count:
            text = take_text(&at, end)
            Py_INCREF(text)
            PyList_SET_ITEM(texts, to, text)
            to += 1
            count -= 1
        return to

    # -- nodes -----------------------------------------------------------------------------------

    cdef Node *demand_node(self, Py_ssize_t index) except NULL:
        """Raises IndexError."""
        if index < 0 or index >= self.nodes_count:
            raise IndexError
        return self.nodes + index

    def node(self, Py_ssize_t index):
        """See `quicklist_plain`."""
        cdef Node *node = self.demand_node(index)
        cdef list texts = PyList_New(node.count)
        self.fill_in(texts, 0, node, 0, node.count)
        return texts

    def is_plain(self, Py_ssize_t index):
        """See `quicklist_plain`."""
        return self.demand_node(index).is_plain != 0

    def listpack(self, Py_ssize_t index):
        """See `quicklist_plain`."""
        cdef Node *node = self.demand_node(index)
        cdef bytes data
        cdef u8 *at
        if node.is_plain:
            return None
        data = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>EMPTY_SIZE + node.size)
        at = <u8 *>PyBytes_AS_STRING(data)
        write_little(at, <u64>EMPTY_SIZE + node.size, 4)
        write_little(at + 4, min(node.count, <u32>LISTPACK_COUNT_UNKNOWN), 2)
        memcpy(at + LISTPACK_HEADER_SIZE, node.data, node.size)
        at[LISTPACK_HEADER_SIZE + node.size] = LISTPACK_END
        return data

    def append_listpack(self, bytes data not None):
        """See `quicklist_plain`."""
        cdef const u8 *start = <const u8 *>PyBytes_AS_STRING(data)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
        cdef const u8 *at = start + LISTPACK_HEADER_SIZE
        cdef const u8 *end = start + size - 1
        cdef Node *node
        cdef u32 count = 0
        cdef u64 announced
        if size <= EMPTY_SIZE or read_little(start, 4) != <u64>size or end[0] != LISTPACK_END:
            return False
        while at < end:
            if not skip_shortest(&at, end):
                return False
            count += 1
        announced = read_little(start + 4, 2)
        if announced != LISTPACK_COUNT_UNKNOWN and announced != count:
            return False
        node = self.add_node(self.nodes_count)
        self.set_room(node, size - EMPTY_SIZE)
        memcpy(node.data, start + LISTPACK_HEADER_SIZE, size - EMPTY_SIZE)
        node.size, node.count = <u32>(size - EMPTY_SIZE), count
        self.count += count
        self.is_packed = False
        return True

    def append_node(self, list elements not None, bint is_plain):
        """See `quicklist_plain`."""
        cdef Node *node
        cdef bytes element
        self.is_packed = False
        if not elements:
            return
        node = self.add_node(self.nodes_count)
        for element in elements:
            if is_plain:
                self.hold(node, element)
            else:
                self.put_in(node, node.size, element)
            self.count += 1

    def append(self, list elements not None):
        """See `quicklist_plain`."""
        self.is_packed = False
        self.add_at_end(elements, False)

    # -- encodings -------------------------------------------------------------------------------

    def make_room(self, list elements not None, int fill):
        """See `quicklist_plain`."""
        self.choose(elements, fill)

    cdef int choose(self, list elements, int fill) except -1:
        cdef i64 size
        cdef bytes element
        if not self.is_packed:
            return 0
        size = EMPTY_SIZE + self.single.size if self.nodes_count else EMPTY_SIZE
        for element in elements:
            size += PyBytes_GET_SIZE(element)
        if exceeds(fill, size, self.count + len(elements)):
            self.is_packed, self.fill = False, fill
        return 0

    def shrink(self, int fill):
        """See `quicklist_plain`."""
        self.become_packed(fill, 2)

    def settle(self, int fill):
        """See `quicklist_plain`."""
        self.become_packed(fill, 1)

    cdef void become_packed(self, int fill, int part) noexcept:
        cdef i64 used, limit
        if self.is_packed or self.nodes_count != 1 or self.single.is_plain:
            return
        used = <i64>EMPTY_SIZE + self.single.size if fill < 0 else self.count
        limit = size_max(fill) if fill < 0 else max(fill, 1)
        self.is_packed = used <= limit // part

    # -- elements --------------------------------------------------------------------------------

    cdef int demand(self, Py_ssize_t start, Py_ssize_t count) except -1:
        """Raises IndexError if there are no such places."""
        if start < 0 or count < 0 or start > self.count - count:
            raise IndexError
        return 0

    cdef Py_ssize_t find(self, Py_ssize_t place, u32 *index) noexcept:
        """Return the index of the node that has the element at this place, and find its index in the node."""
        cdef Py_ssize_t at, before
        if place < self.count - place:
            at = 0
            while place >= self.nodes[at].count:
                place -= self.nodes[at].count
                at += 1
            index[0] = <u32>place
            return at
        at, before = self.nodes_count, self.count
        while place < before:
            at -= 1
            before -= self.nodes[at].count
        index[0] = <u32>(place - before)
        return at

    def at(self, Py_ssize_t place):
        """See `quicklist_plain`."""
        cdef u32 index = 0
        cdef Node *node
        cdef const u8 *at
        self.demand(place, 1)
        node = self.nodes + self.find(place, &index)
        if node.is_plain:
            return object_of(node)
        at = element_at(node, index)
        return take_text(&at, node.data + node.size)

    def between(self, Py_ssize_t start, Py_ssize_t count):
        """See `quicklist_plain`."""
        cdef list texts
        cdef Py_ssize_t done = 0, at
        cdef u32 index = 0
        self.demand(start, count)
        texts = PyList_New(count)
        at = self.find(start, &index) if count else 0
        while done < count:
            done = self.fill_in(
                texts, done, self.nodes + at, index, <u32>min(count - done, <Py_ssize_t>self.nodes[at].count - index)
            )
            at += 1
            index = 0
        return texts

    def encoded(self, Py_ssize_t start, Py_ssize_t count, bint reverse=False):
        """See `quicklist_plain`."""
        cdef char digits[DIGITS_SIZE_MAX]
        cdef const char *text = NULL
        cdef const u8 *at
        cdef const u8 *place
        cdef const u8 *end
        cdef Node *node
        cdef Py_ssize_t size, room = 0, used = 0, index_of_node
        cdef u32 index = 0, left
        cdef char *buffer = NULL
        cdef char *grown
        cdef char *at_end
        self.demand(start, count)
        index_of_node = self.find(start + count - 1 if reverse else start, &index) if count else 0
        try:
            while count:
                node = self.nodes + index_of_node
                left = <u32>min(count, <Py_ssize_t>index + 1 if reverse else <Py_ssize_t>node.count - index)
                at = end = NULL
                if not node.is_plain:
                    at, end = element_at(node, index + 1 if reverse else index), node.data + node.size
                count -= left
                while left:
                    if node.is_plain:
                        text = PyBytes_AS_STRING(object_of(node))
                        size = PyBytes_GET_SIZE(object_of(node))
                    elif reverse:
                        at -= size_before(at)
                        place = at
                        size = view(&place, end, &text, digits)
                    else:
                        size = view(&at, end, &text, digits)
                    if used + size + BULK_SIZE_MAX > room:
                        room = used + (used >> 1) + (size + BULK_SIZE_MAX) * min(count + left, 16)
                        grown = <char *>PyMem_Realloc(buffer, room)
                        if grown == NULL:
                            raise MemoryError
                        buffer = grown
                    at_end = write_text(write_header(buffer + used, c'$', size), text, size)
                    memcpy(at_end, b"\r\n", 2)
                    used = at_end + 2 - buffer
                    left -= 1
                index_of_node += -1 if reverse else 1
                index = self.nodes[index_of_node].count - 1 if reverse and count else 0
            return PyBytes_FromStringAndSize(buffer, used)
        finally:
            PyMem_Free(buffer)

    def places(
        self, bytes element not None, Py_ssize_t skipped, Py_ssize_t count, Py_ssize_t seen_max, bint from_left
    ):
        """See `quicklist_plain`."""
        cdef list found = []
        cdef bytes packed = pack_text(element)
        cdef Py_ssize_t step, seen = 0
        cdef Node *node
        cdef const u8 *at
        cdef u32 left
        for step in range(self.nodes_count):
            node = self.nodes + (step if from_left else self.nodes_count - 1 - step)
            at = NULL if node.is_plain else node.data if from_left else node.data + node.size
            left = node.count
            while left:
                if seen >= seen_max or len(found) >= count:
                    return found
                if not from_left and not node.is_plain:
                    at -= size_before(at)
                if self.find_text(node, element, packed) == 0 if node.is_plain else is_equal(at, packed):
                    if skipped:
                        skipped -= 1
                    else:
                        found.append(seen if from_left else self.count - 1 - seen)
                if from_left and not node.is_plain:
                    at += size_at(at)
                seen += 1
                left -= 1
        return found

    # -- changes ---------------------------------------------------------------------------------

    def push(self, list elements not None, bint at_left, int fill):
        """See `quicklist_plain`."""
        self.choose(elements, fill)
        self.add_at_end(elements, at_left)

    cdef int add_at_end(self, list elements, bint at_left) except -1:
        cdef bytes element
        cdef Node *node
        for element in elements:
            node = self.nodes + (0 if at_left else self.nodes_count - 1)
            if self.nodes_count and (self.is_packed or self.allows(node, element)):
                self.put_in(node, 0 if at_left else node.size, element)
            else:
                self.add_new_node(0 if at_left else self.nodes_count, element)
            self.count += 1
        return 0

    def pop(self, bint at_left):
        """See `quicklist_plain`."""
        cdef Node *node
        cdef const u8 *at
        cdef size_t size = 0
        cdef bytes element
        self.demand(0, 1)
        node = self.nodes + (0 if at_left else self.nodes_count - 1)
        if node.is_plain:
            element = object_of(node)
        else:
            size = size_at(node.data) if at_left else size_before(node.data + node.size)
            at = node.data if at_left else node.data + node.size - size
            element = take_text(&at, node.data + node.size)
        self.count -= 1
        if node.count == 1:
            self.drop_nodes(0 if at_left else self.nodes_count - 1, 1)
        else:
            node.count -= 1
            self.close_gap(node, 0 if at_left else node.size - size, size)
        return element

    def remove_range(self, Py_ssize_t start, Py_ssize_t count):
        """See `quicklist_plain`."""
        cdef list texts = self.between(start, count)
        self.remove(start, count)
        return texts

    def drop_range(self, Py_ssize_t start, Py_ssize_t count):
        """See `quicklist_plain`."""
        self.demand(start, count)
        self.remove(start, count)

    cdef void remove(self, Py_ssize_t start, Py_ssize_t count) noexcept:
        """Remove so many elements from a place on. Elements of whole nodes are not looked at."""
        cdef u32 index = 0
        cdef Py_ssize_t at, first, taken, left = count
        if not count:
            return
        at = first = self.find(start, &index)
        while left:
            taken = min(left, <Py_ssize_t>self.nodes[at].count - index)
            left -= taken
            if taken < self.nodes[at].count:
                self.cut(self.nodes + at, index, <u32>taken)
                if not left:
                    break
                first = at + 1
            at += 1
            index = 0
        self.count -= count
        if at > first:
            self.drop_nodes(first, at - first)

    def replace_at(self, Py_ssize_t place, bytes element not None):
        """See `quicklist_plain`."""
        cdef u32 index = 0
        cdef Py_ssize_t at
        cdef Node *node
        cdef bint large = not self.is_packed and is_large(self.fill, PyBytes_GET_SIZE(element))
        self.demand(place, 1)
        at = self.find(place, &index)
        node = self.nodes + at
        if not node.is_plain and not large:
            self.replace_in(node, index, element)
        elif not node.is_plain:
            self.replace_by_large(at, index, element)
        else:
            if large:
                self.add_new_node(at + 1, element)
            else:
                self.insert_beside(at, 0, element, True)
            self.drop_nodes(at, 1)

    cdef int replace_in(self, Node *node, u32 index, bytes element) except -1:
        """Replace an element of a packed node."""
        cdef size_t at = element_at(node, index) - node.data
        cdef Py_ssize_t old = size_at(node.data + at), new = packed_size_of(element)
        if new > old:
            self.open_gap(node, at, new - old)
        write(node.data + at, element)
        if new < old:
            self.close_gap(node, at + new, old - new)
        return 0

    cdef int replace_by_large(self, Py_ssize_t at, u32 index, bytes element) except -1:
        if index + 1 < self.nodes[at].count:
            self.split(at, index + 1)
        self.add_new_node(at + 1, element)
        if self.nodes[at].count == 1:
            self.drop_nodes(at, 1)
        else:
            self.cut(self.nodes + at, index, 1)
            self.merge_around(at + 1)
        return 0

    def insert(self, bytes pivot not None, bytes element not None, bint after):
        """See `quicklist_plain`."""
        cdef bytes packed = pack_text(pivot)
        cdef Py_ssize_t at
        cdef int index
        for at in range(self.nodes_count):
            index = self.find_text(self.nodes + at, pivot, packed)
            if index >= 0:
                if self.is_packed:
                    self.insert_in(self.nodes + at, index + 1 if after else index, element)
                else:
                    self.insert_beside(at, index, element, after)
                self.count += 1
                return True
        return False

    cdef int insert_beside(self, Py_ssize_t at, u32 index, bytes element, bint after) except -1:
        """See `quicklist_plain.Quicklist._insert`."""
        cdef Node *node = self.nodes + at
        cdef u32 place = index + 1 if after else index
        cdef bint at_end = place == (node.count if after else 0)
        cdef Py_ssize_t beside = at + 1 if after else at
        cdef Py_ssize_t neighbour = at + 1 if after else at - 1
        if is_large(self.fill, PyBytes_GET_SIZE(element)):
            if not node.is_plain and not at_end:
                self.split(at, place)
                beside = at + 1
            self.add_new_node(beside, element)
        elif self.allows(node, element):
            self.insert_in(node, place, element)
        elif not at_end:
            node = self.split(at, place)
            if after:
                self.insert_in(node + 1, 0, element)
            else:
                self.insert_in(node, node.count, element)
            self.merge_around(at if after else at + 1)
        elif 0 <= neighbour < self.nodes_count and self.allows(self.nodes + neighbour, element):
            node = self.nodes + neighbour
            self.insert_in(node, 0 if after else node.count, element)
        else:
            self.add_new_node(beside, element)
        return 0

    cdef int merge_around(self, Py_ssize_t center) except -1:
        """See `quicklist_plain.Quicklist._merge_around`."""
        if self.merge(center - 2):
            center -= 1
        self.merge(center + 1)
        if self.merge(center - 1):
            center -= 1
        self.merge(center)
        return 0

    cdef bint merge(self, Py_ssize_t at) except -1:
        """See `quicklist_plain.Quicklist._merge`."""
        cdef Node *first
        cdef Node *second
        if at < 0 or at + 1 >= self.nodes_count:
            return False
        first = self.nodes + at
        second = first + 1
        if first.is_plain or second.is_plain or exceeds(
            self.fill, <i64>EMPTY_SIZE + first.size + second.size, <i64>first.count + second.count
        ):
            return False
        memcpy(self.open_gap(first, first.size, second.size), second.data, second.size)
        first.count += second.count
        self.drop_nodes(at + 1, 1)
        return True

    def remove_equal(self, bytes element not None, Py_ssize_t count, bint from_left):
        """See `quicklist_plain`."""
        cdef bytes packed = pack_text(element)
        cdef Py_ssize_t left = count
        cdef Py_ssize_t at = 0 if from_left else self.nodes_count - 1
        cdef Node *node
        while left and 0 <= at < self.nodes_count:
            node = self.nodes + at
            if not node.is_plain:
                left -= self.remove_from(node, packed, left, from_left)
            elif <bytes>object_of(node) == element:
                left -= 1
                node.count = 0
            if not node.count:
                self.drop_nodes(at, 1)
                # The next node from the left is here now.
                at -= from_left
            at += 1 if from_left else -1
        self.count -= count - left
        return count - left

    cdef Py_ssize_t remove_from(self, Node *node, bytes packed, Py_ssize_t count, bint from_left) noexcept:
        """Remove elements of a packed node that have these bytes. Returns how many were removed."""
        cdef Py_ssize_t size, removed = 0
        cdef u8 *at = node.data if from_left else node.data + node.size
        # What is kept ends here, or begins here.
        cdef u8 *kept = at
        cdef u32 left = node.count
        while left and removed < count:
            if from_left:
                size = size_at(at)
            else:
                size = size_before(at)
                at -= size
            if is_equal(at, packed):
                removed += 1
            elif from_left:
                memmove(kept, at, size)
                kept += size
            else:
                kept -= size
                memmove(kept, at, size)
            if from_left:
                at += size
            left -= 1
        if not removed:
            return 0
        node.count -= <u32>removed
        if from_left:
            self.close_gap(node, kept - node.data, at - kept)
        else:
            self.close_gap(node, at - node.data, kept - at)
        return removed

    # -- as a whole ------------------------------------------------------------------------------

    def copy(self):
        """See `quicklist_plain`."""
        cdef Quicklist twin = Quicklist(self.fill)
        cdef Node *node
        cdef Node *other
        cdef Py_ssize_t at
        for at in range(self.nodes_count):
            node, other = self.nodes + at, twin.add_node(at)
            if node.is_plain:
                twin.hold(other, object_of(node))
            else:
                twin.set_room(other, node.size)
                memcpy(other.data, node.data, node.size)
                other.size, other.count = node.size, node.count
        twin.count, twin.is_packed = self.count, self.is_packed
        return twin

    def give_back(self, Py_ssize_t count):
        """See `quicklist_plain`."""
        cdef u32 freed
        while count > 0 and self.nodes_count:
            freed = self.nodes[self.nodes_count - 1].count
            self.drop_nodes(self.nodes_count - 1, 1)
            self.count -= freed
            count -= freed

    def check(self):
        """See `quicklist_plain`."""
        cdef Py_ssize_t at, count = 0, size
        cdef size_t held = block_size(self.places_count * sizeof(Node)) if self.places_count else 0
        cdef Node *node
        assert not self.is_packed or self.nodes_count <= 1
        assert (self.nodes == &self.single) == (self.places_start == NULL)
        for at in range(self.nodes_count):
            node = self.nodes + at
            assert node.count
            count += node.count
            if node.is_plain:
                assert node.count == 1
                held += block_size(PyBytes_GET_SIZE(object_of(node)) + TEXT_HEADER_SIZE)
                continue
            assert node.size <= node.room
            held += block_size(node.room)
            assert b"".join([pack_text(text) for text in self.node(at)]) == node.data[: node.size]
        assert count == self.count
        assert held == self.held_size
