# Where the names of a block are: an index for many lookups at once, and what is noted of pairs between two commands.
# Included by `packed_texts.pyx`, after `packed_listpack.pxi`.

cdef enum:
    # Places in which names are looked for: twice as many as names.
    SLOTS_MAX = 2 * NAMES_MAX
    # With no more names, they are looked for one by one.
    FEW_NAMES = 8
    # Pairs whose names are noted at a time, and how many of them are looked for before. A scan notes its order at once.
    NOTED_COUNT = 64
    LOOKED_MIN = 8
    # With no more names than in a listpack of Redis, it is not noted where they are, only their order in a scan.
    UNNOTED_MAX = 128
    # As in `key_slots`.
    SLOT_BITS = 12
    SLOT_COUNT = 1 << SLOT_BITS
    PLACE_BITS = 32
    # By the highest bits of a place, names are near their place in the order of a scan.
    PART_BITS = 9
    PART_COUNT = 1 << PART_BITS
    PART_SHIFT = SLOT_BITS + PLACE_BITS - PART_BITS

cdef u64 HASH_FACTOR = 0x9E3779B97F4A7C15ULL


cdef inline u64 hash_of(const Needle *needle) noexcept:
    cdef const u8 *at = <const u8 *>needle.data
    cdef Py_ssize_t left = needle.size
    cdef u64 found = <u64>left
    while left >= HEAD_SIZE:
        found = (found ^ head_of(at)) * HASH_FACTOR
        found ^= found >> 32
        at += HEAD_SIZE
        left -= HEAD_SIZE
    if left and needle.size >= HEAD_SIZE:
        # The last bytes, with some before them.
        found = (found ^ head_of(at + left - HEAD_SIZE)) * HASH_FACTOR
    elif left:
        found = (found ^ read_little(at, <int>left)) * HASH_FACTOR
    return found >> 32


cdef struct Names:
    # Where names are in a block: each slot has the number of bytes before an item, plus one, or 0.
    u32 slots[SLOTS_MAX]
    u32 mask


cdef inline u32 slot_of(const Names *names, const Block *block, const Needle *needle, Py_ssize_t skip) noexcept:
    """Return the slot of the item that ends with the needle after its first `skip` bytes, else the empty one for it."""
    cdef u32 slot = <u32>hash_of(needle) & names.mask
    while names.slots[slot] and not ends_with(block.data + names.slots[slot] - 1, needle, skip):
        slot = slot + 1 & names.mask
    return slot


cdef bint gather_names(Names *names, Block *block, Py_ssize_t skip, int step) noexcept:
    """Note where items are, without their first `skip` bytes: of every `step` items, the first ones. They are
    `NAMES_MAX` at most. Returns False if two are alike."""
    cdef u8 *item = block.data
    cdef u8 *end = item + block.size
    cdef Needle needle
    cdef u32 slot
    cdef int index
    names.mask = 15
    while names.mask + 1 < 2 * (block.count // step):
        names.mask = names.mask << 1 | 1
    memset(names.slots, 0, (names.mask + 1) * sizeof(u32))
    while item != end:
        refer(item, skip, &needle)
        slot = slot_of(names, block, &needle, skip)
        if names.slots[slot]:
            return False
        names.slots[slot] = <u32>(item - block.data) + 1
        for index in range(step):
            item += item_size(item)
    return True


cdef bint has_twins(Block *block, Py_ssize_t skip, int step) noexcept:
    """Whether two of the items are alike: see `gather_names`."""
    cdef Names names
    return not gather_names(&names, block, skip, step)


cdef bint note_names(Names *names, Block *block, Py_ssize_t skip, int step, Py_ssize_t wanted) noexcept:
    """Note where items are, if that is worth its time for so many texts that are looked for: see `find_noted`."""
    cdef u32 count = block.count // step
    return FEW_NAMES < count <= NAMES_MAX and wanted > FEW_NAMES and gather_names(names, block, skip, step)


cdef u8 *find_noted(const Names *names, bint are_noted, Block *block, bytes text, Py_ssize_t skip, int step) noexcept:
    """Return the item that is a text after its first `skip` bytes, of every `step` items only the first; NULL if there
    is none. `are_noted`: whether `note_names` has noted where they are."""
    cdef Needle needle
    cdef u32 at
    set_needle(&needle, text)
    if not are_noted:
        return find_nth(block, &needle, skip, step)
    at = names.slots[slot_of(names, block, &needle, skip)]
    return block.data + at - 1 if at else NULL


cdef struct ScanItem:
    # The place of a name in the order of a scan, and the number of bytes before its item.
    u64 place
    u32 at


cdef struct Noted:
    # The pairs that have the names, and the block that they had then. They are not referred to: those that end give up
    # what they have noted.
    PyObject *owner
    u8 *data
    u32 size
    # Names that were looked for since the block changed.
    u32 looked_count
    bint is_ready
    Names names
    # The names in the order of a scan.
    bint is_ordered
    ScanItem order[NAMES_MAX]


# Where the names of pairs are that were looked for or scanned last: of many names, each is found in the time that it
# takes in a table, and no pairs take more memory.
cdef Noted noted_pairs[NOTED_COUNT]


cdef inline u64 place_in_scan(bytes name) except? 0:
    """See `key_slots.place_of`."""
    cdef u64 code = <u64>PyObject_Hash(name)
    return (code & (SLOT_COUNT - 1)) << PLACE_BITS | (code >> SLOT_BITS & 0xFFFFFFFFULL)


cdef int put_in_scan_order(Block *block, int step, ScanItem *order) except -1:
    """Note the first ones of every `step` items, `NAMES_MAX` at most, ascending by their places."""
    cdef ScanItem items[NAMES_MAX]
    cdef u32 starts[PART_COUNT + 1]
    cdef ScanItem moved
    cdef u8 *item = block.data
    cdef u32 count = block.count // step, index, to, part
    cdef int number
    memset(starts, 0, sizeof(starts))
    for index in range(count):
        items[index].place, items[index].at = place_in_scan(text_of(item)), <u32>(item - block.data)
        starts[(items[index].place >> PART_SHIFT) + 1] += 1
        for number in range(step):
            item += item_size(item)
    for part in range(PART_COUNT):
        starts[part + 1] += starts[part]
    for index in range(count):
        part = <u32>(items[index].place >> PART_SHIFT)
        order[starts[part]] = items[index]
        starts[part] += 1
    # Those of a part are few: each moves a few places at most.
    for index in range(1, count):
        moved, to = order[index], index
        while to and order[to - 1].place > moved.place:
            order[to] = order[to - 1]
            to -= 1
        order[to] = moved
    return 0


cdef u32 first_in_scan(const ScanItem *order, u32 count, u64 cursor) noexcept:
    """Return the index of the first name whose place is not before the cursor; `count` if there is none."""
    cdef u32 low = 0, high = count, middle
    while low < high:
        middle = (low + high) >> 1
        if order[middle].place < cursor:
            low = middle + 1
        else:
            high = middle
    return low
