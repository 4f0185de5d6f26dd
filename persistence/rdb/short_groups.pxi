# The groups of short streams in C, from the copies that `Group.short` makes to their values and back: see `groups`.
# Included by `node_codec.pyx`, before `short_streams.pxi`.

cdef enum:
    # Of a short stream, at most: groups, the consumers of each, and its pending entries.
    GROUPS_MAX = 8
    CONSUMERS_MAX = 16
    PENDING_MAX = 64
    # Bytes of a pending entry in a block: five columns of numbers, see `PendingTable.block`.
    PENDING_SIZE = 5 * 8
    # Bytes of a pending entry in a file, at most, and of the times of a consumer.
    PENDING_FILE_SIZE_MAX = ID_SIZE + 8 + LENGTH_SIZE_MAX
    TIMES_SIZE = 2 * 8
    NO_OWNER = -1

cdef u64 DELIVERY_COUNT_MAX = (<u64>1 << 63) - 1
# Entries read of a group that does not know them, in a file.
cdef u64 UNKNOWN = <u64>-1


cdef struct Pending:
    # The columns of a block: `count` numbers of each.
    Py_ssize_t count
    u64 ms[PENDING_MAX]
    u64 seq[PENDING_MAX]
    i64 times[PENDING_MAX]
    i64 counts[PENDING_MAX]
    i64 owners[PENDING_MAX]


# -- writing -----------------------------------------------------------------------------------------


cdef int append_group(Buffer to, tuple group, bint compress) except -1:
    """Append a short group. Raises ValueError for pending entries that are damaged."""
    cdef bytes block = group[4]
    cdef list consumers = group[3]
    cdef const char *columns = PyBytes_AS_STRING(block)
    cdef Py_ssize_t count = PyBytes_GET_SIZE(block) // PENDING_SIZE, row, number
    cdef i64 entries_read = group[2]
    cdef Place last_id
    if count * PENDING_SIZE != PyBytes_GET_SIZE(block):
        raise ValueError("a block that is cut off")
    read_place(group[1], &last_id)
    append_string(to, group[0], compress)
    to.reserve(5 * LENGTH_SIZE_MAX + count * PENDING_FILE_SIZE_MAX)
    to.at = write_length(write_length(to.at, last_id.ms), last_id.seq)
    to.at = write_length(to.at, UNKNOWN if entries_read < 0 else <u64>entries_read)
    to.at = write_length(to.at, count)
    for row in range(count):
        if get(columns, 4 * count + row) >= <u64>len(consumers):
            raise ValueError("a block of other consumers")
        append_id(to, columns, count, row)
        write_little(to.at, get(columns, 2 * count + row), 8)
        to.at = write_length(to.at + 8, get(columns, 3 * count + row))
    to.at = write_length(to.at, len(consumers))
    for number in range(len(consumers)):
        append_consumer(to, consumers[number], columns, count, number, compress)
    # No released entries.
    to.reserve(LENGTH_SIZE_MAX)
    to.at = write_length(to.at, 0)
    return 0


cdef int append_consumer(
    Buffer to, tuple consumer, const char *columns, Py_ssize_t count, Py_ssize_t number, bint compress
) except -1:
    """Append a consumer, and the IDs of its entries."""
    cdef Py_ssize_t row, owned_count = 0
    append_string(to, consumer[0], compress)
    to.reserve(TIMES_SIZE + LENGTH_SIZE_MAX + count * ID_SIZE)
    write_little(to.at, <u64><i64>consumer[1], 8)
    write_little(to.at + 8, <u64><i64>consumer[2], 8)
    for row in range(count):
        owned_count += get(columns, 4 * count + row) == <u64>number
    to.at = write_length(to.at + TIMES_SIZE, owned_count)
    for row in range(count):
        if get(columns, 4 * count + row) == <u64>number:
            append_id(to, columns, count, row)
    return 0


cdef inline void append_id(Buffer to, const char *columns, Py_ssize_t count, Py_ssize_t row) noexcept:
    """Append the ID of a pending entry, for which there is room."""
    write_big(to.at, get(columns, row), 8)
    write_big(to.at + 8, get(columns, count + row), 8)
    to.at += ID_SIZE


# -- reading -----------------------------------------------------------------------------------------


cdef list take_groups(const unsigned char **place, const unsigned char *end, u64 groups_count, u64 entries_added):
    """Read the groups of a stream, and move `place` past them. Returns None, or raises RdbError, if they are
    incomplete, damaged, or not all short."""
    cdef list groups = []
    cdef set names = set()
    cdef tuple group
    if groups_count > GROUPS_MAX:
        return None
    for _ in range(groups_count):
        group = take_group(place, end, entries_added)
        if group is None or group[0] in names:
            return None
        names.add(group[0])
        groups.append(group)
    return groups


cdef tuple take_group(const unsigned char **place, const unsigned char *end, u64 entries_added):
    """Read a group: see `take_groups`."""
    cdef Place last_id
    cdef Pending pending
    cdef u64 entries_read = 0, consumers_count = 0, released_count = 0
    cdef i64 seen_ms, active_ms
    cdef list consumers = []
    cdef set names = set()
    cdef u64 number
    name = read_string(place, end)
    if name is None or not read_length(place, end, &last_id.ms) or not read_length(place, end, &last_id.seq):
        return None
    if not read_length(place, end, &entries_read) or (entries_read != UNKNOWN and entries_read > entries_added):
        return None
    if not take_pending(place, end, &pending) or not read_length(place, end, &consumers_count):
        return None
    if consumers_count > CONSUMERS_MAX:
        return None
    for number in range(consumers_count):
        consumer_name = read_string(place, end)
        if consumer_name is None or consumer_name in names or end - place[0] < TIMES_SIZE:
            return None
        names.add(consumer_name)
        seen_ms, active_ms = <i64>read_little(place[0], 8), <i64>read_little(place[0] + 8, 8)
        place[0] += TIMES_SIZE
        if not take_owned(place, end, &pending, <i64>number):
            return None
        consumers.append((consumer_name, seen_ms, active_ms))
    for number in range(<u64>pending.count):
        if pending.owners[number] == NO_OWNER:
            return None
    if not read_length(place, end, &released_count) or released_count:
        return None
    return (
        name, make_id(&last_id), -1 if entries_read == UNKNOWN else entries_read, consumers, block_of_pending(&pending)
    )


cdef bint take_pending(const unsigned char **place, const unsigned char *end, Pending *pending) noexcept:
    """Read the pending entries of a group, without their owners, and move `place` past them. Returns False if they are
    incomplete, out of order, or many."""
    cdef u64 count = 0, deliveries = 0
    cdef Py_ssize_t row
    if not read_length(place, end, &count) or count > PENDING_MAX:
        return False
    pending.count = <Py_ssize_t>count
    for row in range(pending.count):
        if end - place[0] < ID_SIZE + 8:
            return False
        pending.ms[row], pending.seq[row] = read_big(place[0], 8), read_big(place[0] + 8, 8)
        if row and not is_before(pending, row - 1, row):
            return False
        pending.times[row] = <i64>read_little(place[0] + ID_SIZE, 8)
        place[0] += ID_SIZE + 8
        if not read_length(place, end, &deliveries):
            return False
        pending.counts[row] = <i64>min(deliveries, DELIVERY_COUNT_MAX)
        pending.owners[row] = NO_OWNER
    return True


cdef inline bint is_before(const Pending *pending, Py_ssize_t row, Py_ssize_t other) noexcept:
    if pending.ms[row] != pending.ms[other]:
        return pending.ms[row] < pending.ms[other]
    return pending.seq[row] < pending.seq[other]


cdef bint take_owned(const unsigned char **place, const unsigned char *end, Pending *pending, i64 number) noexcept:
    """Read the IDs of a consumer's entries, and move `place` past them. Returns False if they are incomplete, not
    pending, or have an owner."""
    cdef u64 count = 0, index, ms, seq
    cdef Py_ssize_t row = 0, tried
    if not read_length(place, end, &count) or count > <u64>pending.count or <u64>(end - place[0]) < count * ID_SIZE:
        return False
    for index in range(count):
        ms, seq = read_big(place[0], 8), read_big(place[0] + 8, 8)
        place[0] += ID_SIZE
        # They are in the order of the pending entries, as a rule.
        for tried in range(pending.count):
            if row == pending.count:
                row = 0
            if pending.ms[row] == ms and pending.seq[row] == seq:
                break
            row += 1
        else:
            return False
        if pending.owners[row] != NO_OWNER:
            return False
        pending.owners[row] = number
        row += 1
    return True


cdef bytes block_of_pending(const Pending *pending):
    """Return the pending entries in the form of `PendingTable.block`."""
    cdef size_t size = 8 * pending.count
    cdef bytes block = PyBytes_FromStringAndSize(NULL, 5 * size)
    cdef char *at = PyBytes_AS_STRING(block)
    memcpy(at, pending.ms, size)
    memcpy(at + size, pending.seq, size)
    memcpy(at + 2 * size, pending.times, size)
    memcpy(at + 3 * size, pending.counts, size)
    memcpy(at + 4 * size, pending.owners, size)
    return block
