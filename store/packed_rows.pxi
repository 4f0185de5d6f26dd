# The entries of a sealed chunk, packed so that each can be read without the others. Included by `body.pyx`.
#
# Entries with equally many texts (names and values of fields) have one shape. A text with the same place in all entries
# of a shape belongs to one column. What all texts of a column have in common is stored once, in the layout; a row has
# the rest. So a row can be turned back into its entry in a tenth of a microsecond, and takes less memory than what a
# general compressor makes of many short entries at once.

cdef enum:
    # How a column is stored. The last piece of a shape has no column.
    CODING_NONE
    # Texts of one size: the characters after a common prefix.
    CODING_FIXED
    # Texts of several sizes: the number of these characters, then the characters.
    CODING_SIZED
    # Few different texts: the number of one.
    CODING_NUMBERED

    # More shapes, more columns of one shape, or more bytes of a body are not packed as rows.
    SHAPES_MAX = 8
    TEXTS_MAX = 128
    BODY_BYTES_MAX = 1 << 22
    # Mean bytes of an entry up to which they are packed as rows.
    ENTRY_BYTES_MAX = 512
    # Different texts of a column that are numbered; and how many rows there must be, at least, for each of them.
    NUMBERED_MAX = 64
    ROWS_PER_NUMBERED = 4
    # Slots of the table that finds the number of a text, a power of two.
    SLOTS = 256
    # Characters of an ID at most, and of any number.
    ID_TEXT_MAX = 41
    NUMBER_TEXT_MAX = 20
    # Bytes of the two objects, and of what the allocator adds to their blocks.
    ROWS_SIZE = 120
    LAYOUT_SIZE = 112
    # Numbers at the beginning of a block.
    ROWS_HEADS = 6
    # Bytes of the widest end of a row, and of the widest size of a text.
    WIDTH_MAX = 4
    # Bytes after the texts of a layout that was read: a character can have a code that is not in its alphabet.
    SPARE_TEXTS = 256

cdef struct Text:
    # A text in a block of memory.
    u32 at
    u32 size

cdef struct Piece:
    # Bytes that all entries of the shape have here; the variable part of a column follows them.
    Text literal
    # What each text of a sized column begins with.
    Text prefix
    # Characters of a row in a fixed column; the fewest of them in a sized one; the different texts of a numbered one.
    u32 size
    # Where the alphabet is, or the table of ends of the numbered texts.
    u32 table_at
    unsigned char coding
    # Bits of a character, and bytes of the size of a sized one.
    unsigned char bits
    unsigned char size_width

cdef struct Block:
    # Bytes that grow.
    char *data
    Py_ssize_t size, room

cdef struct Reading:
    # Entries taken apart: the bytes with their texts, the texts, the index of the first one of each row, and the row's
    # shape.
    const char *data
    Text *texts
    u32 *firsts
    unsigned char *shapes
    Py_ssize_t texts_count
    # By shape: the number of its texts.
    u32 texts_counts[SHAPES_MAX]
    Py_ssize_t shapes_count
    # The packed variable parts, a column at a time. Then `texts` are places in it.
    Block packed

cdef struct Progress:
    # What was read of the entry that the pieces of a shape make.
    bint has_header
    # The texts that are not read yet, with the one that is being read.
    u64 texts_left
    # Whether the header of a text was read and the line end after the text was not; and the bytes until that.
    bint is_in_text
    u64 size_left
    # Whether the `$` of a header was read, and not its number.
    bint is_before_size

cdef struct Column:
    # What the texts of a column have in common.
    Py_ssize_t prefix_size, size_min, size_max
    # Codes of its characters, how many there are, and the alphabet.
    unsigned char codes[256]
    unsigned char alphabet[256]
    int characters, bits, size_width
    # The different texts, if they are numbered, and their slots: number + 1, or 0.
    Text numbered[NUMBERED_MAX]
    int numbered_count
    unsigned char slots[SLOTS]


cdef class Layout:
    """What the entries of a chunk have in common. It does not change, and copies of a chunk share it."""

    # By shape: index of its first piece.
    cdef u32 firsts[SHAPES_MAX]
    cdef Py_ssize_t shapes_count
    cdef Piece *pieces
    cdef Py_ssize_t pieces_count
    cdef Block texts

    def __dealloc__(self):
        PyMem_Free(self.pieces)
        PyMem_Free(self.texts.data)


cdef class PackedRows:
    """The entries of a sealed chunk as rows."""

    cdef readonly PackedIDs ids
    cdef Layout layout
    # The rows end to end, followed by their ends, each of `end_width` bytes. No ends if all have `row_size` bytes.
    cdef unsigned char *rows
    cdef Py_ssize_t size, row_size
    cdef int end_width
    # Bytes of all entries in the reply form.
    cdef readonly Py_ssize_t replies_size

    def __dealloc__(self):
        PyMem_Free(self.rows)

    @property
    def memory_size(self):
        """Bytes held, without the IDs."""
        return (
            ROWS_SIZE + self.size + self.end_width * self.ids.count
            + LAYOUT_SIZE + self.layout.pieces_count * <Py_ssize_t>sizeof(Piece) + self.layout.texts.size
        )

    @staticmethod
    def of_values(
        array.array ms not None, array.array seq not None, list names not None, bytes texts not None,
        array.array ends not None,
    ):
        """Pack entries that have the same fields: see `chunk.EntryValues`. None for long entries, and for many fields.
        Raises ValueError if the columns do not fit together."""
        cdef Values values
        read_values(&values, ms, seq, names, texts, ends)
        return rows_of_values(&values, names)

    def values(self):
        """The entries as `chunk.EntryValues`. None if they do not all have the same fields."""
        return values_of(self)

    def slice(self, Py_ssize_t low, Py_ssize_t high):
        """The bytes of the entries `low` to `high` (excluded). Raises IndexError."""
        check_positions(self.ids, low, high)
        cdef bytes data = PyBytes_FromStringAndSize(NULL, size_of(self, low, high))
        cdef char *at = PyBytes_AS_STRING(data)
        cdef Py_ssize_t position
        for position in range(low, high):
            at = write_entry(self, position, at)
        return data

    def slice_back(self, Py_ssize_t low, Py_ssize_t high):
        """The bytes of the entries `low` to `high` (excluded), last entry first. Raises IndexError."""
        check_positions(self.ids, low, high)
        cdef bytes data = PyBytes_FromStringAndSize(NULL, size_of(self, low, high))
        cdef char *at = PyBytes_AS_STRING(data)
        cdef Py_ssize_t position
        for position in range(high - 1, low - 1, -1):
            at = write_entry(self, position, at)
        return data

    def unpack(self):
        """The entries as a body."""
        cdef Py_ssize_t count = self.ids.count, position
        cdef Body body = new_body(count, self.replies_size)
        cdef char *at = body.data
        for position in range(count):
            at = write_entry(self, position, at)
            read_packed(self.ids, position, &body.rows[position].id)
            body.rows[position].end = at - body.data
        return body

    def without(self, bytearray dead not None, Py_ssize_t head):
        """The entries from position `head` on whose byte in `dead` is 0 or missing."""
        cdef PackedRows rows = PackedRows()
        cdef Py_ssize_t count = self.ids.count, position, kept = 0, size = 0, row_size
        cdef Place *places = <Place *>PyMem_Malloc(count * sizeof(Place))
        if places == NULL:
            raise MemoryError
        try:
            for position in range(head, count):
                if not is_dead(dead, position):
                    read_packed(self.ids, position, &places[kept])
                    kept += 1
                    size += row_end(self, position) - row_start(self, position)
            rows.ids = pack_places(places, kept)
        finally:
            PyMem_Free(places)
        rows.layout = self.layout
        take_rows(rows, size, self.row_size if not self.end_width else -1)
        size = kept = 0
        for position in range(head, count):
            if not is_dead(dead, position):
                row_size = row_end(self, position) - row_start(self, position)
                copy_bytes(rows.rows + size, self.rows + row_start(self, position), row_size)
                size += row_size
                if rows.end_width:
                    write_number_at(rows.rows + rows.size, kept, rows.end_width, size)
                kept += 1
        rows.replies_size = replies_size(rows, 0, kept)
        return rows

    def block(self):
        """The rows as one block, without the IDs: six numbers, where each shape begins, the pieces, the texts, the rows.
        Numbers have the byte order of the machine."""
        cdef Layout layout = self.layout
        cdef Py_ssize_t rows_size = self.size + self.end_width * self.ids.count
        cdef u64[ROWS_HEADS] heads = [
            layout.shapes_count, layout.pieces_count, layout.texts.size, self.size, self.row_size, self.end_width
        ]
        cdef Py_ssize_t pieces_size = layout.pieces_count * sizeof(Piece)
        cdef Py_ssize_t size = sizeof(heads) + sizeof(layout.firsts) + pieces_size + layout.texts.size + rows_size
        cdef bytes block = PyBytes_FromStringAndSize(NULL, size)
        cdef char *at = PyBytes_AS_STRING(block)
        at = write_text(at, heads, sizeof(heads))
        at = write_text(at, layout.firsts, sizeof(layout.firsts))
        at = write_text(at, layout.pieces, pieces_size)
        at = write_text(at, layout.texts.data, layout.texts.size)
        write_text(at, self.rows, rows_size)
        return block

    @staticmethod
    def of_block(PackedIDs ids not None, bytes block not None):
        """Return the rows with these IDs of the bytes that `block` returned. Raises ValueError for other bytes."""
        cdef PackedRows rows = PackedRows()
        rows.ids, rows.layout = ids, Layout()
        read_rows(rows, PyBytes_AS_STRING(block), PyBytes_GET_SIZE(block))
        check_layout(rows.layout)
        rows.replies_size = checked_size(rows)
        return rows


cdef int take_rows(PackedRows rows, Py_ssize_t size, Py_ssize_t row_size) except -1:
    """Take the memory of rows that have `row_size` bytes each; several sizes if negative."""
    rows.size, rows.row_size = size, max(row_size, 0)
    rows.end_width = width_of(size) if row_size < 0 else 0
    rows.rows = <unsigned char *>PyMem_Malloc(size + rows.ids.count * rows.end_width)
    if rows.rows == NULL:
        raise MemoryError
    return 0


cdef inline bint is_dead(bytearray dead, Py_ssize_t position) noexcept:
    return position < PyByteArray_GET_SIZE(dead) and PyByteArray_AS_STRING(dead)[position]


cdef inline Py_ssize_t row_end(PackedRows rows, Py_ssize_t position) noexcept:
    if rows.end_width:
        return number_at(rows.rows + rows.size, position, rows.end_width)
    return (position + 1) * rows.row_size


cdef inline Py_ssize_t row_start(PackedRows rows, Py_ssize_t position) noexcept:
    return row_end(rows, position - 1) if position else 0


# -- from a block to rows ----------------------------------------------------------------------------


cdef int read_rows(PackedRows rows, const char *at, Py_ssize_t size) except -1:
    """Copy the parts of a block. Raises ValueError unless their sizes are those of the block."""
    cdef Layout layout = rows.layout
    cdef u64[ROWS_HEADS] heads
    cdef u64 sizes_max = size, rows_size
    cdef Py_ssize_t pieces_size
    size -= sizeof(heads) + sizeof(layout.firsts)
    if size < 0:
        raise ValueError("rows that are cut off")
    memcpy(heads, at, sizeof(heads))
    at += sizeof(heads)
    memcpy(layout.firsts, at, sizeof(layout.firsts))
    at += sizeof(layout.firsts)
    if max(heads[1], heads[2], heads[3], heads[4]) > min(sizes_max, <u64>PACKED_COUNT_MAX):
        raise ValueError("rows that are cut off")
    if not 0 < heads[0] <= SHAPES_MAX or heads[5] > WIDTH_MAX:
        raise ValueError("rows of a form that does not exist")
    rows_size = heads[3] + heads[5] * <u64>rows.ids.count
    if heads[1] * sizeof(Piece) + heads[2] + rows_size != <u64>size:
        raise ValueError("rows that are cut off")
    if not heads[5] and heads[4] * <u64>rows.ids.count != heads[3]:
        raise ValueError("rows of another size")
    layout.shapes_count, layout.pieces_count, layout.texts.size = heads[0], heads[1], heads[2]
    rows.size, rows.row_size, rows.end_width = heads[3], heads[4], <int>heads[5]
    layout.texts.room = layout.texts.size + SPARE_TEXTS
    pieces_size = layout.pieces_count * sizeof(Piece)
    layout.pieces = <Piece *>PyMem_Malloc(pieces_size)
    layout.texts.data = <char *>PyMem_Malloc(layout.texts.room)
    rows.rows = <unsigned char *>PyMem_Malloc(rows_size)
    if layout.pieces == NULL or layout.texts.data == NULL or rows.rows == NULL:
        raise MemoryError
    memcpy(layout.pieces, at, pieces_size)
    memcpy(layout.texts.data, at + pieces_size, layout.texts.size)
    memset(layout.texts.data + layout.texts.size, 0, SPARE_TEXTS)
    memcpy(rows.rows, at + pieces_size + layout.texts.size, rows_size)
    return 0


cdef int check_layout(Layout layout) except -1:
    """Raise ValueError unless each piece refers to texts of the layout, and the pieces of each shape make an entry."""
    cdef u64 texts_size = layout.texts.size
    cdef Py_ssize_t shape, index
    cdef Piece *piece
    if not layout.pieces_count or layout.pieces[layout.pieces_count - 1].coding != CODING_NONE:
        raise ValueError("a shape without an end")
    for shape in range(layout.shapes_count):
        if <Py_ssize_t>layout.firsts[shape] >= layout.pieces_count:
            raise ValueError("a shape that does not exist")
    for index in range(layout.pieces_count):
        piece = &layout.pieces[index]
        if <u64>piece.literal.at + piece.literal.size > texts_size:
            raise ValueError("a text that does not exist")
        if piece.coding == CODING_NUMBERED:
            check_numbered(layout, piece)
        elif piece.coding == CODING_FIXED or piece.coding == CODING_SIZED:
            if <u64>piece.prefix.at + piece.prefix.size > texts_size or piece.table_at > texts_size:
                raise ValueError("a text that does not exist")
            if not 0 < piece.bits <= 8 or piece.size_width > WIDTH_MAX:
                raise ValueError("a column of a form that does not exist")
        elif piece.coding != CODING_NONE:
            raise ValueError("a column of a form that does not exist")
    for shape in range(layout.shapes_count):
        check_shape(layout, layout.pieces + layout.firsts[shape])
    return 0


cdef int check_shape(Layout layout, const Piece *piece) except -1:
    """Raise ValueError unless all rows of a shape become entries in the reply form."""
    cdef Progress progress
    memset(&progress, 0, sizeof(Progress))
    while True:
        pass_literal(&progress, layout.texts.data + piece.literal.at, piece.literal.size)
        if piece.coding == CODING_NONE:
            if not progress.has_header or progress.texts_left or progress.is_in_text or progress.is_before_size:
                raise ValueError("a shape that is no entry")
            return 0
        if piece.coding == CODING_FIXED:
            if not progress.is_in_text or progress.size_left < piece.size:
                raise ValueError("a shape that is no entry")
            progress.size_left -= piece.size
        elif piece.coding == CODING_SIZED:
            if not progress.is_before_size:
                raise ValueError("a shape that is no entry")
            progress.is_before_size, progress.is_in_text, progress.size_left = False, True, 0
        else:
            if not progress.texts_left or progress.is_in_text or progress.is_before_size:
                raise ValueError("a shape that is no entry")
            progress.texts_left -= 1
        piece += 1


cdef int pass_literal(Progress *progress, const char *at, Py_ssize_t size) except -1:
    """Read the literal bytes of a piece. Raises ValueError if they do not continue an entry."""
    cdef const char *end = at + size
    cdef u32 number
    if progress.is_before_size:
        raise ValueError("a shape that is no entry")
    while at < end:
        if progress.is_in_text and progress.size_left:
            size = min(<u64>(end - at), progress.size_left)
            progress.size_left -= size
            at += size
        elif progress.is_in_text or not progress.has_header:
            if end - at < 2 or at[0] != c'\r' or at[1] != c'\n':
                raise ValueError("a shape that is no entry")
            at += 2
            if progress.is_in_text:
                progress.is_in_text = False
                progress.texts_left -= 1
            elif not read_header(&at, end, c'*', &number) or not number or number % 2:
                raise ValueError("a shape that is no entry")
            else:
                progress.has_header, progress.texts_left = True, number
        elif not progress.texts_left:
            raise ValueError("a shape that is no entry")
        elif at[0] == c'$' and at + 1 == end:
            progress.is_before_size = True
            at += 1
        elif read_header(&at, end, c'$', &number):
            progress.is_in_text, progress.size_left = True, number
        else:
            raise ValueError("a shape that is no entry")
    return 0


cdef bint is_entry(const char *at, const char *end, const Place *place) noexcept:
    """Whether these bytes are the reply form of an entry with this ID."""
    cdef char id_text[ID_TEXT_MAX + 16]
    cdef Py_ssize_t id_size = write_id_of(place, id_text) - id_text
    cdef u32 count, size
    if end - at < id_size or memcmp(at, id_text, id_size):
        return False
    at += id_size
    if not read_header(&at, end, c'*', &count) or not count or count % 2:
        return False
    while count:
        if not read_header(&at, end, c'$', &size) or end - at < <Py_ssize_t>size + 2:
            return False
        at += size
        if at[0] != c'\r' or at[1] != c'\n':
            return False
        at += 2
        count -= 1
    return at == end


cdef int check_numbered(Layout layout, const Piece *piece) except -1:
    """Raise ValueError unless the different texts of a column are in the layout."""
    cdef u64 texts_size = layout.texts.size
    cdef u32 before = 0, end
    cdef Py_ssize_t number
    if not 0 < piece.size <= NUMBERED_MAX or piece.table_at + (piece.size + 1) * sizeof(u32) > texts_size:
        raise ValueError("a text that does not exist")
    for number in range(piece.size + 1):
        memcpy(&end, layout.texts.data + piece.table_at + number * sizeof(u32), sizeof(u32))
        if end < before or end > texts_size:
            raise ValueError("a text that does not exist")
        if number and not is_bulk(layout.texts.data + before, layout.texts.data + end):
            raise ValueError("a text that is no bulk string")
        before = end
    return 0


cdef bint is_bulk(const char *at, const char *end) noexcept:
    """Whether these bytes are one bulk string of RESP."""
    cdef u32 size
    if not read_header(&at, end, c'$', &size) or end - at != <Py_ssize_t>size + 2:
        return False
    return at[size] == c'\r' and at[size + 1] == c'\n'


cdef Py_ssize_t checked_size(PackedRows rows) except -1:
    """Return the bytes of all entries. Raises ValueError unless each row has exactly what its shape says."""
    cdef Py_ssize_t position, start = 0, end
    cdef u64 size, total = 0
    cdef Place place
    for position in range(rows.ids.count):
        end = row_end(rows, position)
        if not start <= end <= rows.size:
            raise ValueError("a row that ends before it begins")
        total += checked_row(rows, rows.rows + start, rows.rows + end)
        read_packed(rows.ids, position, &place)
        size = digits_count(place.ms) + 1 + digits_count(place.seq)
        total += 5 + digits_count(size) + 2 + size
        start = end
    if start != rows.size or total > <u64>PACKED_COUNT_MAX:
        raise ValueError("rows of another size")
    return total


cdef u64 checked_row(PackedRows rows, const unsigned char *row, const unsigned char *end) except? 0:
    """Return the bytes of the entry of a row, after its ID. Raises ValueError unless the row ends at `end`."""
    cdef Layout layout = rows.layout
    cdef Piece *piece
    cdef u64 size, total = 0
    cdef u32 bounds[2]
    if layout.shapes_count > 1 and (row == end or row[0] >= layout.shapes_count):
        raise ValueError("a row of a shape that does not exist")
    piece = first_piece(rows, &row)
    while piece.coding != CODING_NONE:
        total += piece.literal.size
        size = piece.size
        if piece.coding == CODING_NUMBERED:
            if row == end or row[0] >= piece.size:
                raise ValueError("a row with a text that does not exist")
            memcpy(bounds, layout.texts.data + piece.table_at + row[0] * sizeof(u32), sizeof(bounds))
            total += bounds[1] - bounds[0]
            row += 1
        else:
            if piece.coding == CODING_SIZED:
                if end - row < piece.size_width:
                    raise ValueError("a row that is cut off")
                size += number_at(row, 0, piece.size_width)
                row += piece.size_width
                total += digits_count(piece.prefix.size + size) + 2 + piece.prefix.size
            total += size
            size = (size * piece.bits + 7) // 8
            if <u64>(end - row) < size:
                raise ValueError("a row that is cut off")
            row += size
        piece += 1
    if row != end:
        raise ValueError("a row that is too long")
    return total + piece.literal.size


# -- from rows to entries ----------------------------------------------------------------------------


cdef inline Py_ssize_t digits_count(u64 number) noexcept:
    cdef Py_ssize_t count = 1
    if number >= 1000000000000ULL:  # a time, as most long numbers
        number //= 1000000000000ULL
        count += 12
    while number >= 10000:
        number //= 10000
        count += 4
    return count + (number >= 10) + (number >= 100) + (number >= 1000)


cdef inline char *write_digits(char *at, u64 number) noexcept:
    """Write a number in decimal. Returns the place after it."""
    cdef char *end = at + digits_count(number)
    cdef char *digit = end
    while True:
        digit -= 1
        digit[0] = <char>(c'0' + number % 10)
        number //= 10
        if not number:
            return end


cdef inline char *write_text(char *at, const void *text, Py_ssize_t size) noexcept:
    memcpy(at, text, size)
    return at + size


cdef inline Py_ssize_t packed_size(Py_ssize_t size, int bits) noexcept:
    """Bytes that hold so many characters."""
    return (size * bits + 7) // 8


cdef inline Piece *first_piece(PackedRows rows, const unsigned char **row) noexcept:
    """The first piece of the row's shape, which the row begins with if there are several."""
    cdef Layout layout = rows.layout
    cdef Py_ssize_t shape = 0
    if layout.shapes_count > 1:
        shape = row[0][0]
        row[0] += 1
    return layout.pieces + layout.firsts[shape]


cdef inline Py_ssize_t size_of(PackedRows rows, Py_ssize_t low, Py_ssize_t high) noexcept:
    """Bytes of the entries `low` to `high` (excluded): known for all of them, counted for some."""
    return rows.replies_size if high - low == rows.ids.count else replies_size(rows, low, high)


cdef Py_ssize_t replies_size(PackedRows rows, Py_ssize_t low, Py_ssize_t high) noexcept:
    """Bytes of the entries `low` to `high` (excluded)."""
    cdef const char *texts = rows.layout.texts.data
    cdef const unsigned char *row
    cdef Piece *piece
    cdef Py_ssize_t total = 0, size, position
    cdef Place place
    cdef u32 bounds[2]
    for position in range(low, high):
        row = rows.rows + row_start(rows, position)
        read_packed(rows.ids, position, &place)
        size = digits_count(place.ms) + 1 + digits_count(place.seq)
        total += 5 + digits_count(size) + 2 + size
        piece = first_piece(rows, &row)
        while True:
            total += piece.literal.size
            if piece.coding == CODING_NONE:
                break
            if piece.coding == CODING_FIXED:
                total += piece.size
                row += packed_size(piece.size, piece.bits)
            elif piece.coding == CODING_SIZED:
                size = piece.size + number_at(row, 0, piece.size_width)
                row += piece.size_width + packed_size(size, piece.bits)
                total += digits_count(piece.prefix.size + size) + 2 + piece.prefix.size + size
            else:
                memcpy(bounds, texts + piece.table_at + row[0] * sizeof(u32), sizeof(bounds))
                total += bounds[1] - bounds[0]
                row += 1
            piece += 1
    return total


cdef char *write_entry(PackedRows rows, Py_ssize_t position, char *at) noexcept:
    """Write the entry at `position`. Returns the place after it."""
    cdef const char *texts = rows.layout.texts.data
    cdef const unsigned char *row = rows.rows + row_start(rows, position)
    cdef Piece *piece = first_piece(rows, &row)
    cdef Py_ssize_t size
    cdef u32 bounds[2]
    at = write_id(rows, position, at)
    while True:
        at = write_text(at, texts + piece.literal.at, piece.literal.size)
        if piece.coding == CODING_NONE:
            return at
        if piece.coding == CODING_NUMBERED:
            memcpy(bounds, texts + piece.table_at + row[0] * sizeof(u32), sizeof(bounds))
            at = write_text(at, texts + bounds[0], bounds[1] - bounds[0])
            row += 1
        else:
            size = piece.size
            if piece.coding == CODING_SIZED:
                size += number_at(row, 0, piece.size_width)
                row += piece.size_width
                at = write_text(write_digits(at, piece.prefix.size + size), b"\r\n", 2)
                at = write_text(at, texts + piece.prefix.at, piece.prefix.size)
            unpack_text(at, row, size, piece.bits, texts + piece.table_at)
            at += size
            row += packed_size(size, piece.bits)
        piece += 1


cdef inline char *write_id(PackedRows rows, Py_ssize_t position, char *at) noexcept:
    """Write an entry up to the digits of its ID, these included."""
    cdef Place place
    read_packed(rows.ids, position, &place)
    at = write_text(at, b"*2\r\n$", 5)
    at = write_digits(at, digits_count(place.ms) + 1 + digits_count(place.seq))
    at = write_digits(write_text(at, b"\r\n", 2), place.ms)
    return write_digits(write_text(at, b"-", 1), place.seq)


cdef inline void unpack_text(
    char *to, const unsigned char *row, Py_ssize_t size, int bits, const char *alphabet
) noexcept:
    cdef Py_ssize_t index
    cdef unsigned int held = 0
    cdef int held_bits = 0
    if bits == 8:
        copy_bytes(to, row, size)
    elif bits == 4:
        for index in range(size // 2):
            to[2 * index] = alphabet[row[index] & 15]
            to[2 * index + 1] = alphabet[row[index] >> 4]
        if size & 1:
            to[size - 1] = alphabet[row[size // 2] & 15]
    else:
        for index in range(size):
            if held_bits < bits:
                held |= <unsigned int>row[0] << held_bits
                held_bits += 8
                row += 1
            to[index] = alphabet[held & ((1 << bits) - 1)]
            held >>= bits
            held_bits -= bits


# -- from entries to rows ----------------------------------------------------------------------------


cdef PackedRows rows_of(Body body, PackedIDs ids):
    """Pack the entries of a body, whose IDs are `ids`. Returns None if they are none that rows are for."""
    cdef Reading reading
    cdef Layout layout = Layout()
    cdef PackedRows rows = PackedRows()
    cdef Py_ssize_t shape
    memset(&reading, 0, sizeof(Reading))
    if not 0 < body.size <= min(BODY_BYTES_MAX, ENTRY_BYTES_MAX * body.count):
        return None
    try:
        # A text takes five bytes at least.
        take_reading(&reading, body.data, body.count, body.size // 5)
        if not read_entries(&reading, body):
            return None
        layout.shapes_count = reading.shapes_count
        for shape in range(reading.shapes_count):
            lay_out(layout, &reading, body.count, shape, None)
        rows.ids, rows.layout, rows.replies_size = ids, layout, body.size
        join_rows(rows, &reading)
        fit_layout(layout)
        return rows
    finally:
        free_reading(&reading)


cdef void free_reading(Reading *reading) noexcept:
    PyMem_Free(reading.texts)
    PyMem_Free(reading.firsts)
    PyMem_Free(reading.shapes)
    PyMem_Free(reading.packed.data)


cdef int take_reading(Reading *reading, const char *data, Py_ssize_t count, Py_ssize_t texts_max) except -1:
    """Take the memory for `count` entries that have so many texts, at most."""
    reading.data = data
    reading.texts = <Text *>PyMem_Malloc((texts_max + 1) * sizeof(Text))
    reading.firsts = <u32 *>PyMem_Malloc(count * sizeof(u32))
    reading.shapes = <unsigned char *>PyMem_Malloc(count)
    if reading.texts == NULL or reading.firsts == NULL or reading.shapes == NULL:
        raise MemoryError
    return 0


cdef bint read_entries(Reading *reading, Body body) noexcept:
    """Take the entries of a body apart. Returns whether all are in the form that `write_entry` writes, and have few
    shapes."""
    cdef Py_ssize_t row, index, start = 0, shape
    cdef const char *at
    cdef const char *end
    cdef char id_text[ID_TEXT_MAX + 16]
    cdef char *id_end
    cdef u32 size, count
    for row in range(body.count):
        at, end = body.data + start, body.data + body.rows[row].end
        start = body.rows[row].end
        id_end = write_id_of(&body.rows[row].id, id_text)
        if end - at < id_end - id_text or memcmp(at, id_text, id_end - id_text):
            return False
        at += id_end - id_text
        if not read_header(&at, end, c'*', &count) or count > TEXTS_MAX:
            return False
        shape = 0
        while shape < reading.shapes_count and reading.texts_counts[shape] != count:
            shape += 1
        if shape == SHAPES_MAX:
            return False
        if shape == reading.shapes_count:
            reading.texts_counts[shape] = count
            reading.shapes_count += 1
        reading.shapes[row], reading.firsts[row] = shape, reading.texts_count
        for index in range(count):
            if not read_header(&at, end, c'$', &size) or end - at < <Py_ssize_t>size + 2:
                return False
            reading.texts[reading.texts_count] = Text(at - body.data, size)
            reading.texts_count += 1
            at += size
            if at[0] != c'\r' or at[1] != c'\n':
                return False
            at += 2
        if at != end:
            return False
    return True


cdef inline char *write_id_of(const Place *place, char *at) noexcept:
    """Write an entry up to the line end after its ID."""
    at = write_text(at, b"*2\r\n$", 5)
    at = write_digits(at, digits_count(place.ms) + 1 + digits_count(place.seq))
    at = write_digits(write_text(at, b"\r\n", 2), place.ms)
    return write_text(write_digits(write_text(at, b"-", 1), place.seq), b"\r\n", 2)


cdef inline bint read_header(const char **place, const char *end, char kind, u32 *number) noexcept:
    """Read a header of RESP, and move `place` past it. Returns whether there is one, in its shortest form."""
    cdef const char *at = place[0]
    cdef const char *first = at + 1
    if end - at < 4 or at[0] != kind:
        return False
    number[0] = 0
    at += 1
    while at < end and c'0' <= at[0] <= c'9' and at - first < 9:
        number[0] = number[0] * 10 + <u32>(at[0] - c'0')
        at += 1
    if at == first or (first[0] == c'0' and at - first > 1) or end - at < 2 or at[0] != c'\r' or at[1] != c'\n':
        return False
    place[0] = at + 2
    return True


cdef int lay_out(Layout layout, Reading *reading, Py_ssize_t count, Py_ssize_t shape, list names) except -1:
    """Find what the entries of a shape have in common, and pack the rest of each column. With `names`, the texts are
    only values, and these are the names before them."""
    cdef Column column
    cdef Block literal
    cdef Py_ssize_t rows_count = 0, row, index
    cdef u32 *rows = <u32 *>PyMem_Malloc(count * sizeof(u32))
    cdef bytes name
    memset(&literal, 0, sizeof(Block))
    if rows == NULL:
        raise MemoryError
    try:
        for row in range(count):
            if reading.shapes[row] == shape:
                rows[rows_count] = reading.firsts[row]
                rows_count += 1
        layout.firsts[shape] = layout.pieces_count
        add_header(&literal, c'*', reading.texts_counts[shape] * (1 if names is None else 2), b"\r\n")
        for index in range(reading.texts_counts[shape]):
            if names is not None:
                name = names[index]
                add_bulk(&literal, PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name))
            compare(&column, reading, rows, rows_count)
            lay_out_column(layout, reading, &column, &literal, rows, rows_count)
            for row in range(rows_count):
                rows[row] += 1
        add_piece(layout, &literal)
    finally:
        PyMem_Free(rows)
        PyMem_Free(literal.data)
    return 0


cdef int compare(Column *column, Reading *reading, const u32 *rows, Py_ssize_t count) except -1:
    """Find the common prefix and the sizes of the texts of a column."""
    cdef Text first = reading.texts[rows[0]], text
    cdef const char *data = reading.data
    cdef Py_ssize_t index, prefix_size = first.size
    column.size_min = column.size_max = first.size
    for index in range(1, count):
        text = reading.texts[rows[index]]
        column.size_min, column.size_max = min(column.size_min, text.size), max(column.size_max, text.size)
        if text.size < prefix_size:
            prefix_size = text.size
        if prefix_size and memcmp(data + text.at, data + first.at, prefix_size):
            prefix_size = 0
            while data[text.at + prefix_size] == data[first.at + prefix_size]:
                prefix_size += 1
    column.prefix_size = prefix_size
    return 0


cdef int lay_out_column(
    Layout layout, Reading *reading, Column *column, Block *literal, const u32 *rows, Py_ssize_t count
) except -1:
    """Add a column to the literal bytes if it is always the same. Otherwise add a piece for it, and pack its texts."""
    cdef Text first = reading.texts[rows[0]]
    cdef Piece *piece
    cdef Py_ssize_t index, cost
    if column.prefix_size == column.size_max == column.size_min:
        add_bulk(literal, reading.data + first.at, first.size)
        for index in range(count):
            reading.texts[rows[index]].size = 0
        return 0
    cost = choose_alphabet(column, reading, rows, count)
    if number_texts(column, reading, rows, count) and numbered_cost(column, count) < cost:
        piece = add_piece(layout, literal)
        piece.coding = CODING_NUMBERED
        piece.size = column.numbered_count
        add_numbered(layout, piece, column, reading)
        pack_numbers(column, reading, rows, count)
        return 0
    add_text(literal, b"$", 1)
    if column.size_min == column.size_max:
        add_number(literal, column.size_min)
        add_text(literal, b"\r\n", 2)
        add_text(literal, reading.data + first.at, column.prefix_size)
    piece = add_piece(layout, literal)
    piece.coding = CODING_FIXED if column.size_min == column.size_max else CODING_SIZED
    piece.size = column.size_min - column.prefix_size
    piece.bits, piece.size_width = column.bits, column.size_width
    if piece.coding == CODING_SIZED:
        piece.prefix = Text(add_text(&layout.texts, reading.data + first.at, column.prefix_size), column.prefix_size)
    piece.table_at = add_text(&layout.texts, <char *>column.alphabet, column.characters if column.bits < 8 else 0)
    pack_texts(column, reading, rows, count)
    add_text(literal, b"\r\n", 2)
    return 0


cdef Py_ssize_t choose_alphabet(
    Column *column, Reading *reading, const u32 *rows, Py_ssize_t count
) noexcept:
    """Choose how many bits a character takes. Returns the bytes of all rests of the texts."""
    cdef bint seen[256]
    cdef Py_ssize_t index, total = 0, packed = 0
    cdef const unsigned char *at
    cdef const unsigned char *end
    cdef Text text
    cdef int character
    memset(seen, 0, sizeof(seen))
    for index in range(count):
        text = reading.texts[rows[index]]
        at, end = <unsigned char *>reading.data + text.at + column.prefix_size, <unsigned char *>reading.data + text.at + text.size
        total += end - at
        while at < end:
            seen[at[0]] = True
            at += 1
    column.characters = 0
    for character in range(256):
        if seen[character]:
            column.codes[character] = column.characters
            column.alphabet[column.characters] = character
            column.characters += 1
    column.bits = 1
    while column.bits < 8 and 1 << column.bits < column.characters:
        column.bits += 1
    column.size_width = width_of(column.size_max - column.size_min)
    for index in range(count):
        packed += packed_size(reading.texts[rows[index]].size - column.prefix_size, column.bits)
    if packed + column.characters >= total:
        column.bits, packed = 8, total
    return packed + (column.characters if column.bits < 8 else 0) + column.size_width * count


cdef inline unsigned int hash_of(const char *text, Py_ssize_t size) noexcept:
    """A hash of the size and of up to eight bytes at either end."""
    cdef unsigned int hashed = 2166136261u ^ <unsigned int>size
    cdef Py_ssize_t index
    for index in range(min(size, 8)):
        hashed = (hashed ^ <unsigned char>text[index]) * 16777619u
        hashed = (hashed ^ <unsigned char>text[size - 1 - index]) * 16777619u
    return hashed ^ hashed >> 15


cdef int number_of(Column *column, const char *data, Text text) noexcept:
    """The number of a text, or the first free number for a text that has none yet; -1 if there are too many."""
    cdef unsigned int slot = hash_of(data + text.at, text.size) % SLOTS
    cdef Text other
    while column.slots[slot]:
        other = column.numbered[column.slots[slot] - 1]
        if other.size == text.size and not memcmp(data + other.at, data + text.at, text.size):
            return column.slots[slot] - 1
        slot = (slot + 1) % SLOTS
    if column.numbered_count == NUMBERED_MAX:
        return -1
    column.numbered[column.numbered_count] = text
    column.numbered_count += 1
    column.slots[slot] = column.numbered_count
    return column.numbered_count - 1


cdef bint number_texts(Column *column, Reading *reading, const u32 *rows, Py_ssize_t count) noexcept:
    """Number the texts of a column. Returns whether there are few different ones."""
    cdef Py_ssize_t index
    column.numbered_count = 0
    memset(column.slots, 0, sizeof(column.slots))
    for index in range(count):
        if number_of(column, reading.data, reading.texts[rows[index]]) < 0:
            return False
        if column.numbered_count * ROWS_PER_NUMBERED > index + 4 * ROWS_PER_NUMBERED:
            return False
    return True


cdef Py_ssize_t numbered_cost(Column *column, Py_ssize_t count) noexcept:
    """Bytes of numbers instead of texts."""
    cdef Py_ssize_t cost = count + sizeof(u32)
    cdef int number
    for number in range(column.numbered_count):
        cost += column.numbered[number].size + 7 + sizeof(u32)
    return cost


cdef int add_numbered(Layout layout, Piece *piece, Column *column, const Reading *reading) except -1:
    """Add the different texts of a column to the layout, and the table of where they begin and end."""
    cdef u32 ends[NUMBERED_MAX + 1]
    cdef int number
    ends[0] = layout.texts.size
    for number in range(column.numbered_count):
        add_bulk(&layout.texts, reading.data + column.numbered[number].at, column.numbered[number].size)
        ends[number + 1] = layout.texts.size
    piece.table_at = add_text(&layout.texts, <char *>ends, (column.numbered_count + 1) * sizeof(u32))
    return 0


cdef int pack_numbers(Column *column, Reading *reading, const u32 *rows, Py_ssize_t count) except -1:
    """Pack the texts of a column as their numbers."""
    cdef Py_ssize_t index
    cdef char number
    for index in range(count):
        number = number_of(column, reading.data, reading.texts[rows[index]])
        reading.texts[rows[index]] = Text(add_text(&reading.packed, &number, 1), 1)
    return 0


cdef int pack_texts(Column *column, Reading *reading, const u32 *rows, Py_ssize_t count) except -1:
    """Pack the rests of the texts of a column."""
    cdef Py_ssize_t index, start, size
    cdef Text text
    cdef unsigned char *to
    for index in range(count):
        text = reading.texts[rows[index]]
        size = text.size - column.prefix_size
        start = reading.packed.size
        make_block_room(&reading.packed, column.size_width + packed_size(size, column.bits))
        to = <unsigned char *>reading.packed.data + start
        write_number_at(to, 0, column.size_width, text.size - column.size_min)
        pack_text(to + column.size_width, <unsigned char *>reading.data + text.at + column.prefix_size, size, column)
        reading.packed.size += column.size_width + packed_size(size, column.bits)
        reading.texts[rows[index]] = Text(start, reading.packed.size - start)
    return 0


cdef inline void pack_text(unsigned char *to, const unsigned char *text, Py_ssize_t size, Column *column) noexcept:
    cdef Py_ssize_t index
    cdef unsigned int held = 0
    cdef int held_bits = 0
    if column.bits == 8:
        copy_bytes(to, text, size)
        return
    if column.bits == 4:
        for index in range(size // 2):
            to[index] = column.codes[text[2 * index]] | column.codes[text[2 * index + 1]] << 4
        if size & 1:
            to[size // 2] = column.codes[text[size - 1]]
        return
    for index in range(size):
        held |= <unsigned int>column.codes[text[index]] << held_bits
        held_bits += column.bits
        if held_bits >= 8:
            to[0] = <unsigned char>held
            to += 1
            held >>= 8
            held_bits -= 8
    if held_bits:
        to[0] = <unsigned char>held


cdef int join_rows(PackedRows rows, Reading *reading) except -1:
    """Put the packed parts of each row together."""
    cdef Py_ssize_t count = rows.ids.count, row, size = 0, row_size, equal_size = -2, index, first
    cdef bint has_shape = reading.shapes_count > 1
    cdef u32 *ends = reading.firsts
    cdef unsigned char *at
    for row in range(count):
        row_size = has_shape
        for index in range(reading.texts_counts[reading.shapes[row]]):
            row_size += reading.texts[reading.firsts[row] + index].size
        size += row_size
        equal_size = row_size if row == 0 or row_size == equal_size else -1
    take_rows(rows, size, equal_size)
    at = rows.rows
    for row in range(count):
        if has_shape:
            at[0] = reading.shapes[row]
            at += 1
        first = reading.firsts[row]
        for index in range(first, first + reading.texts_counts[reading.shapes[row]]):
            copy_bytes(at, reading.packed.data + reading.texts[index].at, reading.texts[index].size)
            at += reading.texts[index].size
        if rows.end_width:
            write_number_at(rows.rows + size, row, rows.end_width, at - rows.rows)
    return 0


# -- blocks of bytes ---------------------------------------------------------------------------------


cdef int make_block_room(Block *block, Py_ssize_t size) except -1:
    """Make room for `size` more bytes."""
    cdef void *moved
    if block.size + size > block.room:
        moved = PyMem_Realloc(block.data, 2 * (block.size + size) + 64)
        if moved == NULL:
            raise MemoryError
        block.data, block.room = <char *>moved, 2 * (block.size + size) + 64
    return 0


cdef Py_ssize_t add_text(Block *block, const char *text, Py_ssize_t size) except -1:
    """Add bytes. Returns where they begin."""
    make_block_room(block, size)
    copy_bytes(block.data + block.size, text, size)
    block.size += size
    return block.size - size


cdef int add_number(Block *block, u64 number) except -1:
    """Add a number in decimal."""
    make_block_room(block, NUMBER_TEXT_MAX)
    block.size = write_digits(block.data + block.size, number) - block.data
    return 0


cdef int add_header(Block *block, char kind, u64 number, const char *before) except -1:
    """Add a header of RESP after a line end, if `before` is one."""
    add_text(block, before, 2)
    add_text(block, &kind, 1)
    add_number(block, number)
    add_text(block, b"\r\n", 2)
    return 0


cdef int add_bulk(Block *block, const char *text, Py_ssize_t size) except -1:
    """Add a text as a bulk string of RESP."""
    add_text(block, b"$", 1)
    add_number(block, size)
    add_text(block, b"\r\n", 2)
    add_text(block, text, size)
    add_text(block, b"\r\n", 2)
    return 0


cdef Piece *add_piece(Layout layout, Block *literal) except NULL:
    """Add a piece with these literal bytes, which are taken over."""
    cdef void *moved = PyMem_Realloc(layout.pieces, (layout.pieces_count + 1) * sizeof(Piece))
    cdef Piece *piece
    if moved == NULL:
        raise MemoryError
    layout.pieces = <Piece *>moved
    piece = layout.pieces + layout.pieces_count
    layout.pieces_count += 1
    memset(piece, 0, sizeof(Piece))
    piece.literal = Text(add_text(&layout.texts, literal.data, literal.size), literal.size)
    literal.size = 0
    return piece


cdef int fit_layout(Layout layout) except -1:
    """Free the spare room of a layout that is complete."""
    cdef void *moved = PyMem_Realloc(layout.texts.data, layout.texts.size)
    if moved == NULL:
        raise MemoryError
    layout.texts.data, layout.texts.room = <char *>moved, layout.texts.size
    return 0
