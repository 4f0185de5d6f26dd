# The IDs of a sealed chunk, which are found without unpacking its entries. Included by `body.pyx`.

cdef enum:
    # Bytes of the object, and of what the allocator adds to its block.
    PACKED_IDS_SIZE = 80
    # Bytes of a number: of the widest column, and at the beginning of a block.
    ID_NUMBER_BYTES = 8
    # Numbers at the beginning of a block: the count, the two bases and the two widths.
    ID_HEADS = 5
    # More IDs than a chunk can have.
    PACKED_COUNT_MAX = 1 << 30


cdef class PackedIDs:
    """The IDs of a sealed chunk in two columns: the difference of each half from the smallest such half, in as few
    bytes as the largest difference takes."""

    cdef readonly Py_ssize_t count
    cdef u64 ms_base, seq_base
    cdef int ms_width, seq_width
    # The column of ms, followed by the column of seq. NULL if both have no bytes.
    cdef unsigned char *columns

    def __dealloc__(self):
        PyMem_Free(self.columns)

    @property
    def memory_size(self):
        """Bytes held."""
        return PACKED_IDS_SIZE + self.count * (self.ms_width + self.seq_width)

    def id_at(self, Py_ssize_t position):
        """ID of the entry at `position`. Raises IndexError."""
        cdef Place place
        check_positions(self, position, position + 1)
        read_packed(self, position, &place)
        return make_id(&place)

    def position(self, entry_id):
        """Position of the first entry whose ID is not below `entry_id`."""
        cdef Place wanted
        try:
            read_place(entry_id, &wanted)
        except OverflowError:
            return self.count
        return packed_position(self, &wanted)

    def find(self, entry_id):
        """Position of the entry with this ID, -1 if there is none."""
        cdef Place wanted
        read_place(entry_id, &wanted)
        return packed_find(self, &wanted)

    def count_found(self, list ids not None, Py_ssize_t start):
        """Return how many of `ids[start:]` are those of entries, counting up to the first that is not."""
        cdef Py_ssize_t index
        cdef Place wanted
        for index in range(max(start, 0), len(ids)):
            read_place(ids[index], &wanted)
            if packed_find(self, &wanted) < 0:
                return index - start
        return len(ids) - start

    def count_run(self, list ids not None, Py_ssize_t start, Py_ssize_t position):
        """Return how many of `ids[start:]` are, one by one, those of the entries from `position` on."""
        cdef Py_ssize_t index = start
        cdef Place wanted, here
        while index < len(ids) and position < self.count:
            read_place(ids[index], &wanted)
            read_packed(self, position, &here)
            if here.ms != wanted.ms or here.seq != wanted.seq:
                break
            index += 1
            position += 1
        return index - start

    def ids(self, Py_ssize_t low, Py_ssize_t high):
        """IDs of the entries `low` to `high` (excluded). Raises IndexError if there are not all of them."""
        check_positions(self, low, high)
        cdef list ids = PyList_New(high - low)
        cdef Py_ssize_t index
        cdef Place place
        cdef object entry_id
        for index in range(low, high):
            read_packed(self, index, &place)
            entry_id = make_id(&place)
            Py_INCREF(entry_id)
            PyList_SET_ITEM(ids, index - low, entry_id)
        return ids

    def block(self):
        """The IDs as one block: five numbers, then the columns. Numbers have the byte order of the machine."""
        cdef Py_ssize_t size = self.count * (self.ms_width + self.seq_width)
        cdef u64[ID_HEADS] heads = [self.count, self.ms_base, self.seq_base, self.ms_width, self.seq_width]
        cdef bytes block = PyBytes_FromStringAndSize(NULL, sizeof(heads) + size)
        memcpy(PyBytes_AS_STRING(block), heads, sizeof(heads))
        copy_bytes(PyBytes_AS_STRING(block) + sizeof(heads), self.columns, size)
        return block

    @staticmethod
    def of_block(bytes block not None):
        """Return the IDs of the bytes that `block` returned. Raises ValueError for other bytes."""
        cdef PackedIDs ids = PackedIDs()
        cdef u64[ID_HEADS] heads
        cdef Py_ssize_t size = PyBytes_GET_SIZE(block) - <Py_ssize_t>sizeof(heads), index
        cdef Place before, here
        if size < 0:
            raise ValueError("IDs that are cut off")
        memcpy(heads, PyBytes_AS_STRING(block), sizeof(heads))
        if heads[3] > ID_NUMBER_BYTES or heads[4] > ID_NUMBER_BYTES or not 0 < heads[0] <= PACKED_COUNT_MAX:
            raise ValueError("IDs of a size that does not exist")
        if heads[0] * (heads[3] + heads[4]) != <u64>size:
            raise ValueError("IDs that are cut off")
        ids.count, ids.ms_base, ids.seq_base = heads[0], heads[1], heads[2]
        ids.ms_width, ids.seq_width = <int>heads[3], <int>heads[4]
        ids.columns = <unsigned char *>PyMem_Malloc(size)
        if ids.columns == NULL:
            raise MemoryError
        copy_bytes(ids.columns, PyBytes_AS_STRING(block) + sizeof(heads), size)
        read_packed(ids, 0, &before)
        for index in range(1, ids.count):
            read_packed(ids, index, &here)
            if here.ms < before.ms or (here.ms == before.ms and here.seq <= before.seq):
                raise ValueError("IDs that do not ascend")
            before = here
        return ids


cdef PackedIDs pack_places(const Place *places, Py_ssize_t count):
    """Pack ascending IDs."""
    cdef PackedIDs ids = PackedIDs()
    cdef u64 seq_min = places[0].seq if count else 0, seq_max = seq_min
    cdef Py_ssize_t index
    for index in range(count):
        seq_min, seq_max = min(seq_min, places[index].seq), max(seq_max, places[index].seq)
    ids.count = count
    ids.ms_base, ids.seq_base = places[0].ms if count else 0, seq_min
    ids.ms_width = width_of(places[count - 1].ms - ids.ms_base) if count else 0
    ids.seq_width = width_of(seq_max - seq_min)
    ids.columns = <unsigned char *>PyMem_Malloc(count * (ids.ms_width + ids.seq_width))
    if ids.columns == NULL:
        raise MemoryError
    cdef unsigned char *seqs = ids.columns + count * ids.ms_width
    for index in range(count):
        write_number_at(ids.columns, index, ids.ms_width, places[index].ms - ids.ms_base)
        write_number_at(seqs, index, ids.seq_width, places[index].seq - ids.seq_base)
    return ids


cdef PackedIDs pack_halves(const u64 *ms, const u64 *seq, Py_ssize_t count):
    """Pack ascending IDs, which are in two columns."""
    cdef Place *places = <Place *>PyMem_Malloc(count * sizeof(Place))
    cdef Py_ssize_t index
    if places == NULL:
        raise MemoryError
    try:
        for index in range(count):
            places[index] = Place(ms[index], seq[index])
        return pack_places(places, count)
    finally:
        PyMem_Free(places)


cdef inline int width_of(u64 number) noexcept:
    """The number of bytes that a number takes."""
    cdef int width = 0
    while number:
        number >>= 8
        width += 1
    return width


cdef inline u64 number_at(const unsigned char *column, Py_ssize_t index, int width) noexcept:
    """A number of a column whose numbers have `width` bytes each."""
    cdef u64 number = 0
    cdef int byte
    column += index * width
    for byte in range(width):
        number |= <u64>column[byte] << (8 * byte)
    return number


cdef inline void write_number_at(unsigned char *column, Py_ssize_t index, int width, u64 number) noexcept:
    cdef int byte
    column += index * width
    for byte in range(width):
        column[byte] = <unsigned char>(number >> (8 * byte))


cdef inline void read_packed(PackedIDs ids, Py_ssize_t position, Place *place) noexcept:
    place.ms = ids.ms_base + number_at(ids.columns, position, ids.ms_width)
    place.seq = ids.seq_base + number_at(ids.columns + ids.count * ids.ms_width, position, ids.seq_width)


cdef inline Py_ssize_t packed_position(PackedIDs ids, const Place *wanted) noexcept:
    cdef Py_ssize_t low = 0, high = ids.count, middle
    cdef Place here
    while low < high:
        middle = (low + high) // 2
        read_packed(ids, middle, &here)
        if here.ms < wanted.ms or (here.ms == wanted.ms and here.seq < wanted.seq):
            low = middle + 1
        else:
            high = middle
    return low


cdef inline Py_ssize_t packed_find(PackedIDs ids, const Place *wanted) noexcept:
    cdef Py_ssize_t position = packed_position(ids, wanted)
    cdef Place here
    if position == ids.count:
        return -1
    read_packed(ids, position, &here)
    return position if here.ms == wanted.ms and here.seq == wanted.seq else -1


cdef inline int check_positions(PackedIDs ids, Py_ssize_t low, Py_ssize_t high) except -1:
    if not 0 <= low <= high <= ids.count:
        raise IndexError("no such entries")
    return 0
