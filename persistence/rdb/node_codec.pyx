# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Entries as Redis' nodes and back, for installations with a C compiler: `node_codec_plain` in C.

Both modules behave alike and are tested by the same tests; `nodes` imports this one if it was built. Entries are
converted from one buffer to another: no object is made for an entry, a field or a value.
"""

from array import array as new_array

from cpython cimport array
from libc.string cimport memcmp

from headrace.persistence.errors import RdbError
from headrace.store.nodes import Node

ctypedef unsigned int u32

include "../../store/packed_id.pxi"
include "../../protocol/resp.pxi"
include "numbers.pxi"
include "../../store/decimal_text.pxi"
include "strings.pxi"
include "../../store/listpack.pxi"
include "lzf.pxi"
include "buffer.pxi"

cdef enum:
    DELETED = 1
    SAME_FIELDS = 2
    ID_SIZE = 16
    # Bytes of an entry's numbers in a node. Its texts take no more there than in the reply form: see `write_text`.
    NUMBERS_SIZE_MAX = 48
    # Bytes around a text in the reply form: `$`, the digits of its size, two line ends. Then without the digits.
    FRAME_SIZE_MAX = 24
    BULK_FRAME_SIZE = 5
    # Bytes of an entry in the reply form without its texts: `*2`, the ID, and the number of texts.
    ENTRY_HEAD_MAX = 96
    # Bytes of entries in the reply form, and entries, that are collected before they are handed on. So many fill a chunk.
    RUN_SIZE = 64 * 1024
    RUN_COUNT = 1024
    LISTPACK_SIZE_MAX = 0xFFFFFFFF
    # Bytes that hold every text whose size takes six bits.
    SHORT_TEXT_SIZE = 64
    # Bytes of a number in a block of entries.
    NUMBER_SIZE = 8

cdef u64 ENTRIES_ADDED_MAX = (<u64>1 << 63) - 1
cdef array.array COLUMN = new_array("Q")


cdef struct Row:
    Place id
    u64 end


cdef class NodeEncoder:
    """See `node_codec_plain.NodeEncoder`."""

    cdef bint compress
    cdef list nodes
    # The number of nodes that were begun.
    cdef Py_ssize_t begun_count
    # The open node: its listpack so far, the entries that it still lacks, its first ID, names and elements.
    cdef Buffer packed
    cdef Py_ssize_t missing_count
    cdef Place first
    cdef list names
    cdef Py_ssize_t elements_count
    # Complete nodes.
    cdef Buffer done

    def __init__(self, list nodes not None, bint compress):
        self.compress, self.nodes = compress, nodes
        self.packed, self.done = Buffer(), Buffer()

    def add(self, array.array ms not None, array.array seq not None, bytes data not None):
        """See `node_codec_plain.NodeEncoder`."""
        cdef const char *at = PyBytes_AS_STRING(data)
        cdef const char *end = at + PyBytes_GET_SIZE(data)
        cdef Py_ssize_t count = len(ms), row
        if count != len(seq) or ms.ob_descr.typecode != c'Q' or seq.ob_descr.typecode != c'Q':
            raise ValueError("columns of different entries")
        for row in range(count):
            if not self.missing_count:
                self.begin()
            self.packed.reserve(end - at + NUMBERS_SIZE_MAX)
            self.add_entry(ms.data.as_ulonglongs[row], seq.data.as_ulonglongs[row], &at, end)
            self.missing_count -= 1
            if not self.missing_count:
                self.complete()
        return self.done.take()

    def add_values(
        self, array.array ms not None, array.array seq not None, list names not None, bytes texts not None,
        array.array ends not None, Py_ssize_t low, Py_ssize_t high,
    ):
        """See `node_codec_plain.NodeEncoder`."""
        cdef Py_ssize_t width = len(names), count, row
        cdef u64 start
        cdef bint has_same
        cdef const unsigned char *first = <const unsigned char *>PyBytes_AS_STRING(texts)
        check_values(ms, seq, names, texts, ends)
        if not 0 <= low <= high <= len(ms):
            raise IndexError("no such entries")
        while low < high:
            if not self.missing_count:
                self.begin()
            has_same = names == self.names
            count = min(high - low, self.missing_count)
            start = ends.data.as_ulonglongs[low * width - 1] if low else 0
            self.reserve_values(names, count, ends.data.as_ulonglongs[(low + count) * width - 1] - start, has_same)
            for row in range(low, low + count):
                self.write_values(
                    ms.data.as_ulonglongs[row], seq.data.as_ulonglongs[row], None if has_same else names, width,
                    first, first + PyBytes_GET_SIZE(texts), &start, ends.data.as_ulonglongs + row * width
                )
            low += count
            self.missing_count -= count
            if not self.missing_count:
                self.complete()
        return self.done.take()

    cdef int reserve_values(self, list names, Py_ssize_t count, Py_ssize_t texts_size, bint has_same) except -1:
        """Make room for so many entries, with values of so many bytes in total."""
        cdef Py_ssize_t size = NUMBERS_SIZE_MAX + len(names) * ELEMENT_FRAME_MAX
        cdef bytes name
        for name in () if has_same else names:
            size += PyBytes_GET_SIZE(name) + ELEMENT_FRAME_MAX
        return self.packed.reserve(count * size + texts_size + SHORT_TEXT_SIZE)

    cdef int write_values(
        self, u64 ms, u64 seq, list names, Py_ssize_t width, const unsigned char *texts, const unsigned char *texts_end,
        u64 *start, const u64 *ends,
    ) except -1:
        """Write an entry, for which there is room, whose first value begins at `start`; its names if they are given."""
        cdef unsigned char *to
        cdef Py_ssize_t column, elements_count = 3 + width
        cdef u64 at = start[0]
        cdef bytes name
        if names is None:
            to = self.write_head(SAME_FIELDS, ms, seq)
        else:
            to = write_integer(self.write_head(0, ms, seq), width)
            elements_count = 4 + 2 * width
        for column in range(width):
            if names is not None:
                name = names[column]
                to = write_element(to, <const unsigned char *>PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name))
            to = write_value(to, texts + at, ends[column] - at, texts_end)
            at = ends[column]
        start[0] = at
        self.packed.at = write_integer(to, elements_count)
        self.elements_count += elements_count + 1
        return 0

    def finish(self):
        """See `node_codec_plain.NodeEncoder`."""
        if self.missing_count or self.begun_count != len(self.nodes):
            raise ValueError("nodes with more entries than there are")

    cdef int begin(self) except -1:
        """Begin the next node."""
        if self.begun_count == len(self.nodes):
            raise ValueError("entries that are in no node")
        node = self.nodes[self.begun_count]
        self.begun_count += 1
        read_place(node.first_id, &self.first)
        return self.open(node.live, node.field_names)

    cdef int open(self, Py_ssize_t live, list names) except -1:
        """Begin a node, whose ID is set, with so many entries and these names of fields."""
        cdef Py_ssize_t size = LISTPACK_HEADER_SIZE + NUMBERS_SIZE_MAX
        cdef unsigned char *at
        cdef bytes name
        self.missing_count, self.names = live, names
        if self.missing_count <= 0:
            raise ValueError("a node without entries")
        for name in self.names:
            size += PyBytes_GET_SIZE(name) + ELEMENT_FRAME_MAX
        self.packed.reserve(size)
        at = write_integer(self.packed.at + LISTPACK_HEADER_SIZE, self.missing_count)
        at = write_integer(write_integer(at, 0), len(self.names))
        for name in self.names:
            at = write_element(at, <const unsigned char *>PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name))
        self.packed.at = write_integer(at, 0)
        self.elements_count = 4 + len(self.names)
        return 0

    cdef int add_entry(self, u64 ms, u64 seq, const char **place, const char *end) except -1:
        """Add the entry at `place`, for which there is room, and move `place` past it. As it nearly always has the
        fields of the node, its values are written as if it had until a name differs."""
        cdef const char *at = place[0]
        cdef Py_ssize_t count = read_entry_head(&at, end), size, index
        cdef const char *texts = at
        cdef unsigned char *to
        cdef bint has_same
        has_same = count == 2 * len(self.names)
        to = self.write_head(SAME_FIELDS, ms, seq)
        for index in range(count if has_same else 0):
            size = read_text(&at, end)
            if index & 1:
                to = write_element(to, <const unsigned char *>at, size)
            elif not is_text(self.names[index >> 1], at, size):
                has_same = False
                break
            at += size + 2
        if has_same:
            size = 3 + (count >> 1)
        else:
            at = texts
            to = write_integer(self.write_head(0, ms, seq), count >> 1)
            for index in range(count):
                size = read_text(&at, end)
                to = write_element(to, <const unsigned char *>at, size)
                at += size + 2
            size = 4 + count
        self.packed.at = write_integer(to, size)
        self.elements_count += size + 1
        place[0] = at
        return 0

    cdef inline unsigned char *write_head(self, int flags, u64 ms, u64 seq) noexcept:
        """Write flags and ID of an entry. Returns where they end."""
        cdef unsigned char *to = write_integer(self.packed.at, flags)
        return write_integer(write_integer(to, <i64>(ms - self.first.ms)), <i64>(seq - self.first.seq))

    cdef int complete(self) except -1:
        """Close the open node, and append its ID and its listpack to the complete ones."""
        cdef Buffer packed = self.packed, done = self.done
        cdef Py_ssize_t size
        packed.reserve(1)
        packed.at[0] = LISTPACK_END
        packed.at += 1
        size = packed.at - packed.start
        if size > LISTPACK_SIZE_MAX:
            raise OverflowError("a node of more than 4 GiB")
        write_little(packed.start, size, 4)
        write_little(packed.start + 4, min(self.elements_count, <Py_ssize_t>LISTPACK_COUNT_UNKNOWN), 2)
        done.reserve(1 + ID_SIZE)
        done.at[0] = ID_SIZE
        write_big(done.at + 1, self.first.ms, 8)
        write_big(done.at + 9, self.first.seq, 8)
        done.at += 1 + ID_SIZE
        # Compressing reads one byte more.
        packed.reserve(1)
        append_text(done, packed.start, size, self.compress)
        packed.clear()
        return 0


cdef inline unsigned char *write_value(
    unsigned char *at, const unsigned char *text, Py_ssize_t size, const unsigned char *end
) noexcept:
    """Write a text, which is before `end`, as an element. Returns where it ends."""
    if 0 < size < SHORT_TEXT_SIZE and end - text >= SHORT_TEXT_SIZE and (
        text[0] > c'9' or text[0] < c'-' or (text[0] == c'0' and size > 1)
    ):
        # A short text that is no canonical number, copied without regard to its size.
        at[0] = 0x80 | <unsigned char>size
        memcpy(at + 1, text, SHORT_TEXT_SIZE)
        at[size + 1] = <unsigned char>(size + 1)
        return at + size + 2
    return write_element(at, text, size)


cdef int check_values(array.array ms, array.array seq, list names, bytes texts, array.array ends) except -1:
    """Raise ValueError unless the columns fit together."""
    cdef Py_ssize_t index
    cdef u64 end = 0
    if ms.ob_descr.typecode != c'Q' or seq.ob_descr.typecode != c'Q' or ends.ob_descr.typecode != c'Q':
        raise ValueError("columns of different entries")
    if len(ms) != len(seq) or len(ends) != len(ms) * len(names):
        raise ValueError("columns of different entries")
    for index in range(len(ends)):
        if ends.data.as_ulonglongs[index] < end:
            raise ValueError("columns of different entries")
        end = ends.data.as_ulonglongs[index]
    if not len(names) or end != <u64>PyBytes_GET_SIZE(texts):
        raise ValueError("columns of different entries")
    return 0


cdef inline Py_ssize_t read_entry_head(const char **place, const char *end) except -1:
    """Read an entry in the reply form up to its texts, and move `place` past that. Returns the number of its texts.
    Raises ValueError."""
    cdef const char *at = place[0]
    cdef Py_ssize_t size, count = -1
    if end - at >= 4 and not memcmp(at, b"*2\r\n", 4):
        at += 4
        size = read_bulk(&at, end, end - at)
        at += size + 2
        if size >= 0 and at < end and at[0] == c'*':
            at += 1
            count = read_size(&at, end)
    if count < 2 or count & 1:
        raise ValueError("an entry that is not in the reply form")
    place[0] = at
    return count


cdef inline Py_ssize_t read_text(const char **place, const char *end) except -1:
    """Read the size of the text at `place`, and move `place` to its first byte. Raises ValueError."""
    cdef Py_ssize_t size = read_bulk(place, end, end - place[0])
    if size < 0:
        raise ValueError("an entry that is not in the reply form")
    return size


cdef inline bint is_text(object text, const char *at, Py_ssize_t size) noexcept:
    return size == PyBytes_GET_SIZE(text) and not memcmp(at, PyBytes_AS_STRING(text), size)


cdef class NodeDecoder:
    """See `node_codec_plain.NodeDecoder`."""

    cdef object append
    cdef object append_values
    cdef Place last
    cdef bint has_entries
    # Entries that were read and not handed on, and for each its ID and where it ends in the reply form. As long as all
    # have the same fields, `entries` has their values end to end, `ends` the end of each, and `run_names` the names.
    # Otherwise `entries` has the reply forms.
    cdef Buffer entries
    cdef Buffer rows
    cdef Buffer ends
    cdef list run_names
    cdef bint has_values
    cdef Py_ssize_t replies_size
    # Field names of the last node: one list for all nodes with the same ones, and each name as a bulk string.
    cdef list names
    cdef Buffer bulks
    # The ID of the last node, and a listpack that was compressed.
    cdef Place last_first
    cdef bint has_nodes
    cdef Buffer unpacked

    def __init__(self, append, append_values):
        self.append, self.append_values = append, append_values
        self.entries, self.rows, self.ends, self.bulks = Buffer(), Buffer(), Buffer(), Buffer()
        self.unpacked = Buffer()
        self.names = []

    def add(self, bytes key not None, bytes packed not None):
        """See `node_codec_plain.NodeDecoder`."""
        if PyBytes_GET_SIZE(key) != ID_SIZE:
            raise wrong_key()
        return self.add_node(
            <const unsigned char *>PyBytes_AS_STRING(key), <const unsigned char *>PyBytes_AS_STRING(packed),
            PyBytes_GET_SIZE(packed)
        )

    def add_ahead(self, bytes block not None, Py_ssize_t position, Py_ssize_t count):
        """See `node_codec_plain.NodeDecoder`."""
        cdef const unsigned char *start = <const unsigned char *>PyBytes_AS_STRING(block)
        cdef const unsigned char *at = start + position
        cdef const unsigned char *end = start + PyBytes_GET_SIZE(block)
        cdef list nodes = []
        if not 0 <= position <= PyBytes_GET_SIZE(block):
            raise IndexError("no such position")
        while len(nodes) < count:
            node = self.read_node(&at, end)
            if node is None:
                break
            nodes.append(node)
        return nodes, at - start

    cdef object read_node(self, const unsigned char **place, const unsigned char *end):
        """Read the node at `place`, and move `place` past it. Returns None if it is incomplete, or its strings are not in
        their usual form. Raises RdbError."""
        cdef const unsigned char *key = place[0] + 1
        cdef const unsigned char *at = key + ID_SIZE
        cdef u64 size = 0, full_size = 0
        cdef object node
        if end - place[0] < 2 + ID_SIZE or place[0][0] != ID_SIZE:
            return None
        if at[0] < INT8:
            if not read_length(&at, end, &size) or size > <u64>(end - at):
                return None
            node = self.add_node(key, at, size)
        else:
            if at[0] != LZF:
                return None
            at += 1
            if not read_length(&at, end, &size) or not read_length(&at, end, &full_size) or size > <u64>(end - at):
                return None
            require_possible(size, full_size)
            self.unpacked.clear()
            self.unpacked.reserve(full_size)
            decompress_into(self.unpacked.start, full_size, at, at + size)
            node = self.add_node(key, self.unpacked.start, full_size)
        place[0] = at + size
        return node

    cdef object add_node(self, const unsigned char *key, const unsigned char *packed, Py_ssize_t size):
        cdef const unsigned char *at = packed
        cdef const unsigned char *end = at + size - 1
        cdef Place first, last
        cdef i64 live, deleted, names_count
        cdef u64 index, live_found = 0, elements_count
        if size <= LISTPACK_HEADER_SIZE or read_little(at, 4) != <u64>size or end[0] != LISTPACK_END:
            raise damaged()
        first.ms, first.seq = read_big(key, 8), read_big(key + 8, 8)
        last = first
        at += LISTPACK_HEADER_SIZE
        live, deleted, names_count = require_integer(&at, end), require_integer(&at, end), require_integer(&at, end)
        if live < 1 or deleted < 0 or names_count < 1:
            raise damaged()
        self.read_names(&at, end, names_count)
        if require_integer(&at, end):
            raise damaged()
        elements_count = 4 + names_count
        for index in range(<u64>live + <u64>deleted):
            live_found += self.read_entry(&at, end, &first, &last, &elements_count)
            if self.replies_size >= RUN_SIZE or self.count() >= RUN_COUNT:
                self.flush()
        if at != end or live_found != <u64>live:
            raise damaged()
        if read_little(packed + 4, 2) not in (elements_count, LISTPACK_COUNT_UNKNOWN):
            raise damaged()
        if self.has_nodes and not is_less(&self.last_first, &first):
            raise RdbError("Stream listpack re-added with existing key, or out of order")
        self.last_first, self.has_nodes = first, True
        return Node(make_id(&first), make_id(&last), live, live + deleted, size, self.names)

    def flush(self):
        """See `node_codec_plain.NodeDecoder`."""
        cdef Row *rows = <Row *>self.rows.start
        cdef Py_ssize_t count = self.count(), index
        cdef array.array ms = array.clone(COLUMN, count, False)
        cdef array.array seq = array.clone(COLUMN, count, False)
        cdef array.array ends = array.clone(COLUMN, count, False)
        if not count:
            return
        for index in range(count):
            ms.data.as_ulonglongs[index] = rows[index].id.ms
            seq.data.as_ulonglongs[index] = rows[index].id.seq
            ends.data.as_ulonglongs[index] = rows[index].end
        self.rows.clear()
        self.replies_size = 0
        if not self.has_values:
            self.append(self.entries.take(), ms, seq, ends)
            return
        count = (self.ends.at - self.ends.start) // NUMBER_SIZE
        ends = array.clone(COLUMN, count, False)
        memcpy(ends.data.as_ulonglongs, self.ends.start, count * NUMBER_SIZE)
        self.ends.clear()
        self.append_values(ms, seq, self.run_names, self.entries.take(), ends)

    cdef inline u64 count(self) noexcept:
        """Return the number of entries that were read and not handed on."""
        return (self.rows.at - self.rows.start) // sizeof(Row)

    cdef bytes take_block(self):
        """Return the entries that were read and not handed on in the form of `Body.block`."""
        cdef Row *rows = <Row *>self.rows.start
        cdef Py_ssize_t count = self.count(), size = self.entries.at - self.entries.start, index
        cdef bytes block = PyBytes_FromStringAndSize(NULL, NUMBER_SIZE * (1 + 3 * count) + size)
        cdef unsigned char *at = <unsigned char *>PyBytes_AS_STRING(block)
        cdef u64 ms = 0, end = 0
        put(at, 0, count)
        at += NUMBER_SIZE
        for index in range(count):
            put(at, index, rows[index].id.ms - ms)
            put(at, count + index, rows[index].id.seq)
            put(at, 2 * count + index, rows[index].end - end)
            ms, end = rows[index].id.ms, rows[index].end
        memcpy(at + NUMBER_SIZE * 3 * count, self.entries.start, size)
        self.rows.clear()
        self.entries.clear()
        self.replies_size = 0
        return block

    cdef int read_names(self, const unsigned char **place, const unsigned char *end, i64 count) except -1:
        """Read the names of the fields."""
        cdef Element element
        cdef i64 index
        cdef bint is_changed = count != len(self.names)
        cdef list names = []
        cdef char digits[DIGITS_SIZE_MAX]
        cdef bytes name
        for index in range(count):
            require_element(place, end, &element)
            as_text(&element, digits)
            name = PyBytes_FromStringAndSize(<const char *>element.text, element.size)
            names.append(name)
            is_changed = is_changed or name != self.names[index]
        if not is_changed:
            return 0
        self.names = names
        self.bulks.clear()
        for name in names:
            self.bulks.reserve(PyBytes_GET_SIZE(name) + FRAME_SIZE_MAX)
            self.bulks.at = <unsigned char *>write_bulk(<char *>self.bulks.at, name)
        return 0

    cdef int read_entry(
        self, const unsigned char **place, const unsigned char *end, const Place *first, Place *last, u64 *elements_count
    ) except -1:
        """Read an entry whose ID, if it is not deleted, is above all others. Returns whether it is not deleted."""
        cdef i64 flags = require_integer(place, end)
        cdef i64 difference_ms = require_integer(place, end), difference_seq = require_integer(place, end)
        cdef u64 count = len(self.names), index, size
        cdef bint has_same = flags & SAME_FIELDS
        cdef const unsigned char *bulk = self.bulks.start
        cdef Py_ssize_t name_size
        cdef Element element
        cdef i64 pairs_count
        cdef Row *row
        cdef Buffer entries = self.entries
        if flags & ~(DELETED | SAME_FIELDS):
            raise damaged()
        size = 3 + count
        if not has_same:
            pairs_count = require_integer(place, end)
            # A text takes two bytes.
            if pairs_count <= 0 or pairs_count > (end - place[0]) // 4:
                raise damaged()
            count = pairs_count
            size = 4 + 2 * count
        last.ms, last.seq = first.ms + <u64>difference_ms, first.seq + <u64>difference_seq
        if flags & DELETED:
            for index in range(count if has_same else 2 * count):
                require_element(place, end, &element)
        else:
            self.require_order(first, last)
            if self.rows.at == self.rows.start:
                self.has_values, self.run_names = has_same and self.append_values is not None, self.names
            elif self.has_values and not (has_same and self.run_names is self.names):
                self.spill()
                entries = self.entries
            if self.has_values:
                self.read_values(place, end, last)
            else:
                entries.reserve(ENTRY_HEAD_MAX)
                entries.at = write_entry_head(entries.at, last, 2 * count)
                for index in range(count):
                    if has_same:
                        name_size = bulk_size(self.names[index])
                        entries.reserve(name_size)
                        memcpy(entries.at, bulk, name_size)
                        entries.at += name_size
                        bulk += name_size
                    else:
                        require_element(place, end, &element)
                        append_bulk(entries, &element)
                    require_element(place, end, &element)
                    append_bulk(entries, &element)
                self.replies_size = entries.at - entries.start
            self.rows.reserve(sizeof(Row))
            row = <Row *>self.rows.at
            row.id, row.end = last[0], self.replies_size
            self.rows.at += sizeof(Row)
        if require_integer(place, end) != <i64>size:
            raise damaged()
        elements_count[0] += size + 1
        return not flags & DELETED

    cdef int read_values(self, const unsigned char **place, const unsigned char *end, const Place *entry_id) except -1:
        """Read the values of an entry that has the names of the node."""
        cdef Py_ssize_t width = len(self.names), index
        cdef Py_ssize_t size = self.bulks.at - self.bulks.start + entry_head_size(entry_id, 2 * width)
        cdef Buffer texts = self.entries
        cdef u64 *ends
        cdef const unsigned char *at
        cdef Element element
        cdef char digits[DIGITS_SIZE_MAX]
        self.ends.reserve(width * NUMBER_SIZE)
        ends = <u64 *>self.ends.at
        for index in range(width):
            texts.reserve(SHORT_TEXT_SIZE)
            at = place[0]
            if end - at > SHORT_TEXT_SIZE + 2 and at[0] >> 6 == 2 and at[(at[0] & 0x3F) + 1] == (at[0] & 0x3F) + 1:
                # A short text, as most are: copied without regard to its size.
                element.size = at[0] & 0x3F
                memcpy(texts.at, at + 1, SHORT_TEXT_SIZE)
                place[0] = at + element.size + 2
            else:
                require_element(place, end, &element)
                as_text(&element, digits)
                texts.reserve(element.size)
                memcpy(texts.at, element.text, element.size)
            texts.at += element.size
            size += element.size + count_digits(element.size) + BULK_FRAME_SIZE
            ends[index] = texts.at - texts.start
        self.ends.at += width * NUMBER_SIZE
        self.replies_size += size
        return 0

    cdef int spill(self) except -1:
        """Put the entries that were read as values, of which there are some, into the reply form."""
        cdef Buffer texts = self.entries, entries = Buffer()
        cdef const Row *rows = <const Row *>self.rows.start
        cdef const u64 *ends = <const u64 *>self.ends.start
        cdef Py_ssize_t row
        cdef u64 start = 0
        cdef Element element
        cdef bytes name
        entries.reserve(self.replies_size)
        for row in range(self.count()):
            entries.reserve(ENTRY_HEAD_MAX)
            entries.at = write_entry_head(entries.at, &rows[row].id, 2 * len(self.run_names))
            for name in self.run_names:
                entries.reserve(PyBytes_GET_SIZE(name) + FRAME_SIZE_MAX)
                entries.at = <unsigned char *>write_bulk(<char *>entries.at, name)
                element.text, element.size = texts.start + start, ends[0] - start
                append_bulk(entries, &element)
                start = ends[0]
                ends += 1
        self.ends.clear()
        self.entries, self.has_values = entries, False
        return 0

    cdef inline int require_order(self, const Place *first, const Place *place) except -1:
        """Raise RdbError unless an ID is above all others and not below the first one of its node."""
        if is_less(place, first) or (self.has_entries and not is_less(&self.last, place)) or not (place.ms or place.seq):
            raise RdbError("Stream entries are out of order")
        self.last, self.has_entries = place[0], True
        return 0


cdef inline void put(unsigned char *column, Py_ssize_t index, u64 number) noexcept:
    memcpy(column + NUMBER_SIZE * index, &number, NUMBER_SIZE)


cdef inline u64 get(const char *column, Py_ssize_t index) noexcept:
    cdef u64 number
    memcpy(&number, column + NUMBER_SIZE * index, NUMBER_SIZE)
    return number


cdef inline bint is_less(const Place *one, const Place *other) noexcept:
    return one.ms < other.ms or (one.ms == other.ms and one.seq < other.seq)


cdef inline Py_ssize_t entry_head_size(const Place *entry_id, u64 texts_count) noexcept:
    """Return the bytes of an entry up to its texts."""
    cdef Py_ssize_t size = count_digits(entry_id.ms) + 1 + count_digits(entry_id.seq)
    return 4 + BULK_FRAME_SIZE + count_digits(size) + size + 3 + count_digits(texts_count)


cdef inline unsigned char *write_entry_head(unsigned char *at, const Place *entry_id, u64 texts_count) noexcept:
    """Write an entry up to its texts. Returns where that ends."""
    cdef char *to = write_text(<char *>at, b"*2\r\n", 4)
    cdef Py_ssize_t size = count_digits(entry_id.ms) + 1 + count_digits(entry_id.seq)
    to = write_number(write_header(to, c'$', size), entry_id.ms)
    to[0] = c'-'
    to = write_text(write_number(to + 1, entry_id.seq), b"\r\n", 2)
    return <unsigned char *>write_header(to, c'*', texts_count)


cdef inline int append_bulk(Buffer to, Element *element) except -1:
    """Append an element as a bulk string."""
    cdef char digits[DIGITS_SIZE_MAX]
    cdef char *at
    as_text(element, digits)
    to.reserve(element.size + FRAME_SIZE_MAX)
    at = write_header(<char *>to.at, c'$', element.size)
    at = write_text(at, <const char *>element.text, element.size)
    to.at = <unsigned char *>write_text(at, b"\r\n", 2)
    return 0


cdef inline void as_text(Element *element, char *digits) noexcept:
    """Make an integer a text, in the memory at `digits`."""
    cdef char *at = digits
    if element.text != NULL:
        return
    if element.number < 0:
        at[0] = c'-'
        at = write_number(at + 1, 0 - <u64>element.number)
    else:
        at = write_number(at, element.number)
    element.text, element.size = <const unsigned char *>digits, at - digits


cdef inline int require_element(const unsigned char **place, const unsigned char *end, Element *element) except -1:
    """Read the element at `place`, and move `place` past it. Raises RdbError."""
    if not read_element(place, end, element):
        raise damaged()
    return 0


cdef inline i64 require_integer(const unsigned char **place, const unsigned char *end) except? -1:
    """Read the integer at `place`, and move `place` past it. Raises RdbError. Most are small."""
    cdef const unsigned char *at = place[0]
    cdef Element element
    if end - at >= 2 and at[0] < 0x80 and at[1] == 1:
        place[0] = at + 2
        return at[0]
    if not read_element(place, end, &element) or element.text != NULL:
        raise damaged()
    return element.number


cdef object wrong_key():
    return RdbError("Stream node key entry is not the size of a stream ID")


cdef object damaged():
    return RdbError("Stream listpack integrity check failed.")


include "short_groups.pxi"
include "short_streams.pxi"
