# Entries with the same fields as columns, for code that reads or makes many of them: the halves of their IDs, the names
# of the fields once, and all values end to end. Included by `body.pyx`, after `packed_rows.pxi`.

cdef enum:
    # Bytes around a text in the reply form, besides the digits of its size: `$` and two line ends.
    BULK_FRAME_SIZE = 5
    # Bytes that are copied at once, however many are wanted: a copy of known size takes a third of the time. There are
    # SPARE_TEXTS more.
    COPIED_SIZE = 32

cdef struct Origin:
    # Where the texts of a column are: a constant one, or what all of them begin with, and the piece that has the rest.
    Text constant
    const Piece *piece

cdef struct Values:
    # Entries as columns: see `EntryValues`.
    const u64 *ms
    const u64 *seq
    const char *texts
    const u64 *ends
    Py_ssize_t count
    # Fields of an entry.
    Py_ssize_t width


cdef int read_values(
    Values *values, array.array ms, array.array seq, list names, bytes texts, array.array ends
) except -1:
    """Take the addresses of columns. Raises ValueError if they do not fit together."""
    cdef Py_ssize_t index
    cdef u64 end = 0
    values.count, values.width = len(ms), len(names)
    values.ms, values.seq = ms.data.as_ulonglongs, seq.data.as_ulonglongs
    values.texts, values.ends = PyBytes_AS_STRING(texts), ends.data.as_ulonglongs
    if len(seq) != values.count or len(ends) != values.count * values.width or not are_columns(ms, seq, ends):
        raise ValueError("columns of different entries")
    for index in range(len(ends)):
        if values.ends[index] < end:
            raise ValueError("a value that ends before it begins")
        end = values.ends[index]
    if not values.count or not values.width or end != <u64>PyBytes_GET_SIZE(texts):
        raise ValueError("columns of different entries")
    return 0


cdef Py_ssize_t values_size(const Values *values, list names) except -1:
    """Return the bytes of the entries in the reply form."""
    cdef Py_ssize_t size = 0, index, length
    cdef u64 start = 0
    cdef bytes name
    for name in names:
        length = PyBytes_GET_SIZE(name)
        size += length + digits_count(length) + BULK_FRAME_SIZE
    # Each entry begins with `*2`. The number of its texts follows the ID.
    size = (size + 4 + 3 + digits_count(2 * values.width)) * values.count
    for index in range(values.count):
        length = digits_count(values.ms[index]) + 1 + digits_count(values.seq[index])
        size += length + digits_count(length) + BULK_FRAME_SIZE
    for index in range(values.count * values.width):
        length = values.ends[index] - start
        size += length + digits_count(length) + BULK_FRAME_SIZE
        start = values.ends[index]
    return size


cdef Body body_of_values(const Values *values, list names):
    """Return a full body of the entries."""
    cdef Body body = new_body(values.count, values_size(values, names))
    cdef Py_ssize_t row, column
    cdef u64 start = 0, end
    cdef const u64 *ends = values.ends
    cdef char *at = body.data
    cdef bytes name
    for row in range(values.count):
        body.rows[row].id.ms, body.rows[row].id.seq = values.ms[row], values.seq[row]
        at = write_id_of(&body.rows[row].id, at)
        at = write_frame(at, c'*', 2 * values.width)
        for column in range(values.width):
            name = names[column]
            at = write_bulk(at, PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name))
            end = ends[column]
            at = write_bulk(at, values.texts + start, end - start)
            start = end
        ends += values.width
        body.rows[row].end = at - body.data
    return body


cdef inline char *write_frame(char *at, char kind, u64 number) noexcept:
    """Write a header of RESP. Returns the place after it."""
    at[0] = kind
    return write_text(write_digits(at + 1, number), b"\r\n", 2)


cdef inline char *write_bulk(char *at, const char *text, Py_ssize_t size) noexcept:
    return write_text(write_text(write_frame(at, c'$', size), text, size), b"\r\n", 2)


cdef PackedRows rows_of_values(const Values *values, list names):
    """Pack entries as `rows_of` does. Returns None if they are none that rows are for."""
    cdef Reading reading
    cdef Layout layout = Layout()
    cdef PackedRows rows = PackedRows()
    cdef Py_ssize_t size = values_size(values, names), index
    cdef u64 start = 0
    memset(&reading, 0, sizeof(Reading))
    if size > min(BODY_BYTES_MAX, ENTRY_BYTES_MAX * values.count) or 2 * values.width > TEXTS_MAX:
        return None
    try:
        take_reading(&reading, values.texts, values.count, values.count * values.width)
        for index in range(values.count * values.width):
            reading.texts[index] = Text(start, values.ends[index] - start)
            start = values.ends[index]
        for index in range(values.count):
            reading.firsts[index], reading.shapes[index] = index * values.width, 0
        reading.shapes_count, reading.texts_counts[0] = 1, values.width
        layout.shapes_count = 1
        lay_out(layout, &reading, values.count, 0, names)
        rows.ids, rows.layout, rows.replies_size = pack_halves(values.ms, values.seq, values.count), layout, size
        join_rows(rows, &reading)
        fit_layout(layout)
        return rows
    finally:
        free_reading(&reading)


cdef tuple values_of(PackedRows rows):
    """Return the entries as columns, None if they have not all the same fields."""
    cdef Layout layout = rows.layout
    cdef Py_ssize_t count = rows.ids.count, width, index
    cdef array.array ms = array.clone(COLUMN, count, False)
    cdef array.array seq = array.clone(COLUMN, count, False)
    cdef array.array ends
    cdef Origin origins[TEXTS_MAX]
    cdef char *texts
    cdef char *common
    cdef char *at
    cdef Place place
    cdef list names = []
    width = read_origins(layout, origins)
    if width == 0 or width & 1:
        return None
    width //= 2
    for index in range(width):
        if origins[2 * index].piece != NULL:
            return None
        names.append(PyBytes_FromStringAndSize(
            layout.texts.data + origins[2 * index].constant.at, origins[2 * index].constant.size
        ))
        origins[index] = origins[2 * index + 1]
    for index in range(count):
        read_packed(rows.ids, index, &place)
        ms.data.as_ulonglongs[index], seq.data.as_ulonglongs[index] = place.ms, place.seq
    ends = array.clone(COLUMN, count * width, False)
    # The values, and a copy of the texts that they have in common, each with room for a copy of COPIED_SIZE at its end.
    # For the spare texts see `read_rows`.
    texts = <char *>PyMem_Malloc(rows.replies_size + COPIED_SIZE + layout.texts.size + SPARE_TEXTS)
    if texts == NULL:
        raise MemoryError
    try:
        common = texts + rows.replies_size + COPIED_SIZE
        memcpy(common, layout.texts.data, layout.texts.size)
        memset(common + layout.texts.size, 0, SPARE_TEXTS)
        at = texts
        for index in range(count):
            at = write_values(rows, index, origins, width, common, at, texts, ends.data.as_ulonglongs + index * width)
        return ms, seq, names, PyBytes_FromStringAndSize(texts, at - texts), ends
    finally:
        PyMem_Free(texts)


cdef Py_ssize_t read_origins(Layout layout, Origin *origins) noexcept:
    """Find the texts of entries in their layout. Returns their number, 0 if there are several shapes, or a text in several
    columns, which only another server can have made."""
    cdef const char *texts = layout.texts.data
    cdef const Piece *piece = layout.pieces
    # A text or a header of the literal bytes begins here, after the line end that the ID is without.
    cdef const char *at = texts + piece.literal.at + 2
    cdef const char *end = texts + piece.literal.at + piece.literal.size
    cdef u32 count = 0, size, index
    if layout.shapes_count != 1 or piece != layout.pieces + layout.firsts[0]:
        return 0
    if not read_header(&at, end, c'*', &count) or count > TEXTS_MAX:
        return 0
    for index in range(count):
        origins[index].piece, origins[index].constant = NULL, Text(0, 0)
        if end - at > 1:
            if not read_header(&at, end, c'$', &size):
                return 0
            if end - at > <Py_ssize_t>size:
                origins[index].constant = Text(at - texts, size)
                at += size + 2
                continue
            # A fixed column: its prefix ends the literal bytes.
            origins[index].constant = Text(at - texts, end - at)
            if piece.coding != CODING_FIXED or end - at + piece.size != size:
                return 0
        elif piece.coding != (CODING_SIZED if at < end else CODING_NUMBERED):
            return 0
        elif at < end:
            origins[index].constant = piece.prefix
        origins[index].piece = piece
        # The line end of a numbered text is part of it.
        size = 0 if piece.coding == CODING_NUMBERED else 2
        piece += 1
        if piece.literal.size < size:
            return 0
        at = texts + piece.literal.at + size
        end = texts + piece.literal.at + piece.literal.size
    return count if piece.coding == CODING_NONE and at == end else 0


cdef inline char *write_values(
    PackedRows rows, Py_ssize_t position, const Origin *origins, Py_ssize_t width, const char *texts, char *at,
    const char *start, u64 *ends,
) noexcept:
    """Write the values of the entry at `position`, and where each ends after `start`. Returns the place after them.

    `texts` has the texts of the layout. COPIED_SIZE bytes more can be read there, and be written.
    """
    cdef const unsigned char *row = rows.rows + row_start(rows, position)
    cdef const Piece *piece
    cdef const char *bulk
    cdef Py_ssize_t column, size
    cdef u32 bounds[2]
    cdef u32 text_size
    for column in range(width):
        piece = origins[column].piece
        if piece != NULL and piece.coding == CODING_NUMBERED:
            memcpy(bounds, texts + piece.table_at + row[0] * sizeof(u32), sizeof(bounds))
            bulk = texts + bounds[0]
            read_header(&bulk, texts + bounds[1], c'$', &text_size)
            at = write_text(at, bulk, text_size)
            row += 1
        else:
            size = origins[column].constant.size
            if size <= COPIED_SIZE:
                memcpy(at, texts + origins[column].constant.at, COPIED_SIZE)
            else:
                memcpy(at, texts + origins[column].constant.at, size)
            at += size
            if piece != NULL:
                size = piece.size
                if piece.coding == CODING_SIZED:
                    size += number_at(row, 0, piece.size_width)
                    row += piece.size_width
                unpack_text(at, row, size, piece.bits, texts + piece.table_at)
                at += size
                row += packed_size(size, piece.bits)
        ends[column] = at - start
    return at
