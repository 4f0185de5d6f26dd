# Packs and reads the records of whole streams of few entries, as the base of a log has them: `STREAMS` of `kept`.
# Included by `codec.pyx`.

cdef enum:
    # Bytes of the records of a stream.
    STREAM_SIZE_MAX = 4096
    # Bytes of records from which on a run ends: such a run takes less than half a millisecond.
    STREAMS_SIZE = 16 * 1024
    # Bytes of a number in a block of entries.
    NUMBER_SIZE = 8
    XSETID_SIZE = 16
    # Bytes of the words ENTRIESADDED and MAXDELETEDID as bulk strings.
    OPTION_SIZE = 19
    # Bytes of an ID as a bulk string, and of a number.
    ID_BULK_MAX = 48
    NUMBER_BULK_MAX = 28

cdef const char *XSETID = b"*7\r\n$6\r\nXSETID\r\n"
cdef const char *ENTRIESADDED = b"$12\r\nENTRIESADDED\r\n"
cdef const char *MAXDELETEDID = b"$12\r\nMAXDELETEDID\r\n"

cdef struct Whole:
    # The parts of `XADD <key> <id> ...`, `entries_count` times from `first` to `last`, and of `XSETID <key> <last_id>
    # ENTRIESADDED <entries_added> MAXDELETEDID <max_deleted_id>`.
    Py_ssize_t entries_count
    Addition first
    Addition last
    Place last_id
    u64 entries_added
    Place max_deleted_id


def pack_streams(list streams not None, dict expires not None):
    """See `codec_plain`."""
    cdef Py_ssize_t size = 0
    cdef bint has_expiries = bool(expires)
    cdef object key, expires_ms
    cdef tuple short
    cdef bytes packed, text
    cdef char *at
    for key, short in streams:
        if not PyBytes_Check(key) or not PyBytes_Check(short[0]):
            raise TypeError("a key and its block are bytes")
        if short[9]:
            raise ValueError("a short stream with groups")
        size += records_size_max(bulk_size(key), short[0])
    packed = PyBytes_FromStringAndSize(NULL, size)
    at = PyBytes_AS_STRING(packed)
    for key, short in streams:
        at = write_counters(write_additions(at, key, short[0]), key, short)
        expires_ms = expires.get(key) if has_expiries else None
        if expires_ms is not None:
            text = b"%d" % expires_ms
            at = write_bulk(write_bulk(write_text(at, PEXPIREAT, PEXPIREAT_SIZE), key), text)
    return packed[: at - PyBytes_AS_STRING(packed)]


cdef inline Py_ssize_t count_of(bytes block) except -1:
    """Return the number of entries of a block. Raises ValueError."""
    cdef Py_ssize_t size = PyBytes_GET_SIZE(block) - NUMBER_SIZE
    cdef u64 count = get(PyBytes_AS_STRING(block), 0) if size >= 0 else 0
    if not count or count > <u64>(size // (3 * NUMBER_SIZE)):
        raise ValueError("a block without entries, or that is cut off")
    return count


cdef Py_ssize_t records_size_max(Py_ssize_t key_size, bytes block) except -1:
    """Return how many bytes the records of a stream take at most."""
    cdef Py_ssize_t counters_size = XSETID_SIZE + key_size + 2 * (OPTION_SIZE + ID_BULK_MAX) + NUMBER_BULK_MAX
    # A record has the command name and the key in addition to its entry, and its count may have a digit more.
    cdef Py_ssize_t entries_size = PyBytes_GET_SIZE(block) + count_of(block) * (XADD_SIZE + key_size + 1)
    return entries_size + counters_size + PEXPIREAT_SIZE + key_size + NUMBER_BULK_MAX


cdef char *write_additions(char *to, key, bytes block) except NULL:
    """Write the records of the entries of a block. Returns where they end. Raises ValueError."""
    cdef Py_ssize_t count = count_of(block), index, size, texts_count
    cdef const char *columns = PyBytes_AS_STRING(block) + NUMBER_SIZE
    cdef const char *entry = columns + NUMBER_SIZE * 3 * count
    cdef const char *end = PyBytes_AS_STRING(block) + PyBytes_GET_SIZE(block)
    cdef const char *at
    for index in range(count):
        at = entry + 4  # *2
        if get(columns, 2 * count + index) > <u64>(end - entry) or end - entry < 4:
            raise ValueError("a block that is cut off")
        size = read_bulk(&at, end, end - at)
        texts_count = -1
        if size >= 0 and at + size + 2 < end and at[size + 2] == c'*':
            size = at + size + 2 - (entry + 4)
            at = entry + 4 + size + 1
            texts_count = read_size(&at, end)
        if texts_count < 0:
            raise ValueError("an entry that is not in the reply form")
        to = write_text(write_header(to, c'*', texts_count + 3), XADD_UPPER, XADD_SIZE)
        to = write_text(write_bulk(to, key), entry + 4, size)
        entry += get(columns, 2 * count + index)
        if at > entry:
            raise ValueError("an entry that is not in the reply form")
        to = write_text(to, at, entry - at)
    if entry != end:
        raise ValueError("a block of more bytes than its entries")
    return to


cdef char *write_counters(char *to, key, tuple short) except NULL:
    """Write the XSETID of a stream. Returns where it ends."""
    to = write_id(write_bulk(write_text(to, XSETID, XSETID_SIZE), key), short[2])
    to = write_bulk_number(write_text(to, ENTRIESADDED, OPTION_SIZE), short[4])
    return write_id(write_text(to, MAXDELETEDID, OPTION_SIZE), short[3])


cdef char *write_id(char *to, entry_id) except NULL:
    """Write an ID as a bulk string. Returns where it ends."""
    cdef Place place
    read_place(entry_id, &place)
    to = write_number(write_header(to, c'$', count_digits(place.ms) + 1 + count_digits(place.seq)), place.ms)
    to[0] = c'-'
    return write_text(write_number(to + 1, place.seq), b"\r\n", 2)


cdef bint read_whole(const char **place, const char *end, Py_ssize_t size_max, Whole *whole) noexcept:
    """Read the records of a stream at `place`, and move `place` past them. Returns False if they are incomplete, of
    another form, or such that one of them is refused."""
    cdef const char *at = place[0]
    cdef Addition addition
    whole.entries_count = 0
    if end - at > STREAM_SIZE_MAX:
        end = at + STREAM_SIZE_MAX
    while read_record(&at, end, size_max, &addition):
        if not whole.entries_count:
            whole.first = addition
        elif not follows(&addition, &whole.last):
            return False
        whole.last = addition
        whole.entries_count += 1
    if not whole.entries_count or not read_counters(&at, end, size_max, whole):
        return False
    if is_below(&whole.last_id, &whole.last.id) or is_below(&whole.last_id, &whole.max_deleted_id):
        return False
    if whole.entries_added < <u64>whole.entries_count:
        return False
    place[0] = at
    return True


cdef bint read_counters(const char **place, const char *end, Py_ssize_t size_max, Whole *whole) noexcept:
    """Read the XSETID of a stream at `place`, and move `place` past it. Returns False if it is incomplete, or of
    another form or key."""
    cdef const char *at = place[0]
    if end - at < XSETID_SIZE or memcmp(at, XSETID, XSETID_SIZE):
        return False
    at += XSETID_SIZE
    if read_bulk(&at, end, size_max) != whole.first.key_size or memcmp(at, whole.first.key, whole.first.key_size):
        return False
    at += whole.first.key_size + 2
    if not read_id(&at, end, &whole.last_id) or not is_one_of(at, end, ENTRIESADDED, ENTRIESADDED, OPTION_SIZE):
        return False
    at += OPTION_SIZE
    if not read_bulk_number(&at, end, &whole.entries_added):
        return False
    if not is_one_of(at, end, MAXDELETEDID, MAXDELETEDID, OPTION_SIZE):
        return False
    at += OPTION_SIZE
    if not read_id(&at, end, &whole.max_deleted_id):
        return False
    place[0] = at
    return True


cdef list read_streams_run(const char **place, const char *end, Py_ssize_t size_max):
    """Read a run of records at `place` as `STREAMS` describes, and move `place` past it. Returns None if there is
    none."""
    cdef const char *start = place[0]
    cdef Py_ssize_t taken = 0
    cdef Whole whole
    while place[0] - start < STREAMS_SIZE and read_whole(place, end, size_max, &whole):
        taken += whole.entries_count + 1
    if not taken:
        return None
    return [STREAMS, b"", PyBytes_FromStringAndSize(start, place[0] - start), b"%d" % taken]


def read_streams(list run not None, duration_s, entries_max):
    """See `codec_plain`."""
    if len(run) != KEPT_COUNT or run[0] is not STREAMS:
        raise ValueError("no run of records")
    cdef bytes sent = run[2]
    cdef const char *at = PyBytes_AS_STRING(sent)
    cdef const char *end = at + PyBytes_GET_SIZE(sent)
    cdef const char *start
    cdef Py_ssize_t missing = int(run[3])
    cdef Whole whole
    cdef list streams = []
    while missing > 0:
        start = at
        if not read_whole(&at, end, end - at, &whole):
            raise ValueError("no run of records")
        missing -= whole.entries_count + 1
        short = (
            block_of(start, at, whole.entries_count), None, make_id(&whole.last_id), make_id(&whole.max_deleted_id),
            whole.entries_added, duration_s, entries_max, 0, 0, [],
        )
        streams.append((PyBytes_FromStringAndSize(whole.first.key, whole.first.key_size), short))
    if missing or at != end or not streams:
        raise ValueError("no run of records")
    return streams


cdef bytes block_of(const char *start, const char *end, Py_ssize_t count):
    """Return the entries of some additions, which are complete, in the form of `Body.block`."""
    cdef Py_ssize_t size = NUMBER_SIZE * (1 + 3 * count), index
    cdef const char *at = start
    cdef Addition addition
    cdef bytes block
    cdef char *first
    cdef char *columns
    cdef char *to
    cdef u64 ms = 0
    for index in range(count):
        read_record(&at, end, end - at, &addition)
        size += 4 + (addition.texts - addition.id_at) + 3 + count_digits(addition.texts_count) + (at - addition.texts)
    block = PyBytes_FromStringAndSize(NULL, size)
    columns = PyBytes_AS_STRING(block) + NUMBER_SIZE
    put(columns, -1, count)
    to = columns + NUMBER_SIZE * 3 * count
    at = start
    for index in range(count):
        read_record(&at, end, end - at, &addition)
        first = to
        to = write_header(to, c'*', 2)
        to = write_text(to, addition.id_at, addition.texts - addition.id_at)
        to = write_header(to, c'*', addition.texts_count)
        to = write_text(to, addition.texts, at - addition.texts)
        put(columns, index, addition.id.ms - ms)
        put(columns, count + index, addition.id.seq)
        put(columns, 2 * count + index, to - first)
        ms = addition.id.ms
    return block


cdef inline void put(char *columns, Py_ssize_t index, u64 number) noexcept:
    memcpy(columns + NUMBER_SIZE * index, &number, NUMBER_SIZE)


cdef inline u64 get(const char *columns, Py_ssize_t index) noexcept:
    cdef u64 number
    memcpy(&number, columns + NUMBER_SIZE * index, NUMBER_SIZE)
    return number
