# Streams of a few entries in C, from the copies that `Stream.short` makes to their values and back: see
# `node_codec_plain`. Included by `node_codec.pyx`.

cdef enum:
    EXPIRY_MS = 252
    STREAM_TYPE = 27
    # Bytes of a file from which on a call returns, so that each call is short.
    READ_SIZE = 16 * 1024
    DURATION_S_MAX = 86400
    PAIRS_COUNT_MAX = 10000

# The numbers that follow the node of a short stream, in this order.
cdef enum:
    LENGTH
    LAST_MS
    LAST_SEQ
    FIRST_MS
    FIRST_SEQ
    MAX_DELETED_MS
    MAX_DELETED_SEQ
    ENTRIES_ADDED
    GROUPS_COUNT
    # The groups are here.
    DURATION_S
    PAIRS_MAX
    PRODUCERS_COUNT
    ADDED
    DUPLICATES
    NUMBERS_COUNT


# -- writing -----------------------------------------------------------------------------------------


def encode_short(list streams not None, dict expires not None, bint compress, bint compress_nodes):
    """See `node_codec_plain.encode_short`."""
    cdef NodeEncoder encoder = NodeEncoder([], compress_nodes)
    cdef Buffer done = encoder.done
    cdef bint has_expiries = bool(expires)
    cdef object expires_ms
    cdef bytes key
    cdef tuple short
    for key, short in streams:
        expires_ms = expires.get(key) if has_expiries else None
        done.reserve(1 + NUMBER_SIZE + 1)
        if expires_ms is not None:
            done.at[0] = EXPIRY_MS
            write_little(done.at + 1, <u64><i64>expires_ms, NUMBER_SIZE)
            done.at += 1 + NUMBER_SIZE
        done.at[0] = STREAM_TYPE
        done.at += 1
        append_string(done, key, compress)
        append_short(encoder, short)
    return done.take()


def encode_short_value(tuple short not None, bint compress):
    """See `node_codec_plain.encode_short_value`."""
    cdef NodeEncoder encoder = NodeEncoder([], compress)
    append_short(encoder, short)
    return encoder.done.take()


cdef int append_short(NodeEncoder encoder, tuple short) except -1:
    """Append the value of a short stream to what is complete."""
    cdef bytes block = short[0]
    cdef const char *at = PyBytes_AS_STRING(block)
    cdef const char *end = at + PyBytes_GET_SIZE(block)
    cdef const char *columns = at + NUMBER_SIZE
    cdef u64 count = 0, row, ms = 0
    cdef Buffer done = encoder.done
    if end - at >= NUMBER_SIZE:
        count = get(at, 0)
    if not count or count > <u64>(end - columns) // (3 * NUMBER_SIZE):
        raise ValueError("a block without entries, or that is cut off")
    at = columns + 3 * NUMBER_SIZE * count
    done.reserve(1)
    done.at = write_length(done.at, 1)
    encoder.first.ms, encoder.first.seq = get(columns, 0), get(columns, count)
    encoder.open(count, names_of(at, end, encoder.names) if short[1] is None else short[1].field_names)
    for row in range(count):
        ms += get(columns, row)
        encoder.packed.reserve(end - at + NUMBERS_SIZE_MAX)
        encoder.add_entry(ms, get(columns, count + row), &at, end)
    encoder.missing_count = 0
    encoder.complete()
    return append_numbers(done, count, &encoder.first, short, encoder.compress)


cdef int append_numbers(Buffer to, u64 count, const Place *first, tuple short, bint compress) except -1:
    """Append the numbers and the groups that follow the node of a short stream."""
    cdef list groups = short[9]
    cdef u64 numbers[NUMBERS_COUNT]
    cdef Place last_id, max_deleted_id
    cdef int index
    read_place(short[2], &last_id)
    read_place(short[3], &max_deleted_id)
    numbers[LENGTH] = count
    numbers[LAST_MS], numbers[LAST_SEQ] = last_id.ms, last_id.seq
    numbers[FIRST_MS], numbers[FIRST_SEQ] = first.ms, first.seq
    numbers[MAX_DELETED_MS], numbers[MAX_DELETED_SEQ] = max_deleted_id.ms, max_deleted_id.seq
    numbers[ENTRIES_ADDED], numbers[GROUPS_COUNT] = short[4], len(groups)
    numbers[DURATION_S], numbers[PAIRS_MAX], numbers[PRODUCERS_COUNT] = short[5], short[6], 0
    numbers[ADDED], numbers[DUPLICATES] = short[7], short[8]
    to.reserve(NUMBERS_COUNT * LENGTH_SIZE_MAX)
    for index in range(DURATION_S):
        to.at = write_length(to.at, numbers[index])
    if groups:
        for group in groups:
            append_group(to, group, compress)
        to.reserve(NUMBERS_COUNT * LENGTH_SIZE_MAX)
    for index in range(DURATION_S, NUMBERS_COUNT):
        to.at = write_length(to.at, numbers[index])
    return 0


cdef list names_of(const char *at, const char *end, list before):
    """Return the field names of the entry at `at`; the list `before` if it has the same ones. Raises ValueError."""
    cdef Py_ssize_t count = read_entry_head(&at, end), size, index
    cdef bint is_same = before is not None and count == 2 * len(before)
    cdef list names = []
    for index in range(count):
        size = read_text(&at, end)
        if not index & 1:
            is_same = is_same and is_text(before[index >> 1], at, size)
            names.append(before[index >> 1] if is_same else PyBytes_FromStringAndSize(at, size))
        at += size + 2
    return before if is_same else names


# -- reading -----------------------------------------------------------------------------------------


def read_short(bytes block not None, Py_ssize_t position):
    """See `node_codec_plain.read_short`."""
    cdef const unsigned char *start = <const unsigned char *>PyBytes_AS_STRING(block)
    cdef const unsigned char *end = start + PyBytes_GET_SIZE(block)
    cdef const unsigned char *at
    cdef const unsigned char *done
    cdef NodeDecoder decoder = None
    cdef list keys = []
    cdef object expires_ms, key, short
    if not 0 <= position <= PyBytes_GET_SIZE(block):
        raise IndexError("no such position")
    done = at = start + position
    while done - start - position < READ_SIZE:
        expires_ms = None
        if end - at > NUMBER_SIZE and at[0] == EXPIRY_MS:
            expires_ms = <i64>read_little(at + 1, NUMBER_SIZE)
            at += 1 + NUMBER_SIZE
        if at == end or at[0] != STREAM_TYPE:
            break
        at += 1
        if decoder is None:
            decoder = NodeDecoder(refuse, None)
        try:
            key = read_string(&at, end)
            short = None if key is None else take_short(decoder, &at, end)
        except RdbError:
            break
        if short is None:
            break
        keys.append((key, short, expires_ms))
        done = at
    return keys, done - start


def read_short_value(bytes block not None, Py_ssize_t position):
    """See `node_codec_plain.read_short_value`."""
    cdef const unsigned char *start = <const unsigned char *>PyBytes_AS_STRING(block)
    cdef const unsigned char *at = start + position
    if not 0 <= position <= PyBytes_GET_SIZE(block):
        raise IndexError("no such position")
    try:
        return take_short(NodeDecoder(refuse, None), &at, start + PyBytes_GET_SIZE(block))
    except RdbError:
        return None


cdef tuple take_short(NodeDecoder decoder, const unsigned char **place, const unsigned char *end):
    """Read the value of a stream at `place`, and move `place` past it. Returns None, or raises RdbError, if it is
    incomplete, damaged or that of a stream that is not short. This is found out before entries are read, where
    possible."""
    cdef const unsigned char *at = place[0]
    cdef const unsigned char *node_at
    cdef u64 numbers[NUMBERS_COUNT]
    cdef u64 nodes_count = 0
    cdef Place last_id, max_deleted_id
    cdef object key, packed, node
    cdef list groups
    if not read_length(&at, end, &nodes_count) or nodes_count != 1:
        return None
    node_at = at
    if not skip_string(&at, end) or not skip_string(&at, end) or not take_numbers(&at, end, numbers, LENGTH, DURATION_S):
        return None
    if not numbers[LENGTH] <= numbers[ENTRIES_ADDED] <= ENTRIES_ADDED_MAX:
        return None
    groups = take_groups(&at, end, numbers[GROUPS_COUNT], numbers[ENTRIES_ADDED])
    if groups is None or not take_numbers(&at, end, numbers, DURATION_S, NUMBERS_COUNT) or numbers[PRODUCERS_COUNT]:
        return None
    if not 1 <= numbers[DURATION_S] <= DURATION_S_MAX or not 1 <= numbers[PAIRS_MAX] <= PAIRS_COUNT_MAX:
        return None
    decoder.has_entries = decoder.has_nodes = False
    node = decoder.read_node(&node_at, end)
    if node is None:
        key, packed = read_string(&node_at, end), read_string(&node_at, end)
        node = decoder.add(key, packed)
    last_id.ms, last_id.seq = numbers[LAST_MS], numbers[LAST_SEQ]
    max_deleted_id.ms, max_deleted_id.seq = numbers[MAX_DELETED_MS], numbers[MAX_DELETED_SEQ]
    if decoder.count() != numbers[LENGTH] or is_less(&last_id, &decoder.last):
        return None
    place[0] = at
    return (
        decoder.take_block(), node, make_id(&last_id), make_id(&max_deleted_id), numbers[ENTRIES_ADDED],
        numbers[DURATION_S], numbers[PAIRS_MAX], numbers[ADDED], numbers[DUPLICATES], groups,
    )


cdef bint take_numbers(
    const unsigned char **place, const unsigned char *end, u64 *numbers, int first, int past
) noexcept:
    """Read some of the numbers that follow a node, and move `place` past them. Returns False if they are incomplete."""
    cdef int index
    for index in range(first, past):
        if not read_length(place, end, &numbers[index]):
            return False
    return True


def refuse(data, ms, seq, ends):
    """Take the entries of a stream that has more of them than a short one."""
    raise RdbError("The stream is not a short one")
