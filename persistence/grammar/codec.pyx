# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Packs the records of streams and reads them in runs, for installations with a C compiler: `codec_plain` in C.

Both modules behave alike and are tested by the same tests; `streams` imports this one if it was built.
"""

from array import array as new_array

from cpython cimport array
from libc.string cimport memcmp

from headrace.persistence.grammar.kept import ADDITION, ADDITIONS, CLAIMS, STREAMS
from headrace.protocol.packing import pack_command

include "../../store/packed_id.pxi"
include "../../protocol/resp.pxi"

cdef enum:
    # Bytes of records of strings at which no further one is packed at once.
    STRINGS_SIZE = 16 * 1024
    SET_SIZE = 13
    PEXPIREAT_SIZE = 19
    # Bytes of the words XADD and `*` as bulk strings.
    XADD_SIZE = 10
    AUTO_ID_SIZE = 7
    ADDITION_COUNT_MIN = 5
    MAXLEN_SIZE = 12
    ABOUT_SIZE = 7
    XCLAIM_SIZE = 12
    TIME_SIZE = 10
    RETRYCOUNT_SIZE = 17
    FORCE_JUSTID_LASTID_SIZE = 35
    SETID_SIZE = 27
    ENTRIESREAD_SIZE = 18
    # Words of a claim's record without its IDs.
    CLAIM_COUNT = 13
    # Words of a claim's record without its IDs, if it does not set the group's position.
    CLAIM_BARE_COUNT = 11
    JUSTID_FORCE_SIZE = 23
    NOT_IDLE_SIZE = 7
    # Largest size in bytes of a claim's words, without those that the caller gives.
    CLAIM_SIZE_MAX = 160
    POSITION_SIZE = SETID_SIZE + ENTRIESREAD_SIZE
    # Items of the list for a request that is kept as it was sent.
    KEPT_COUNT = 4
    # Words of `MAXLEN ~ n`, and the digits of a number that always fits 64 bits.
    CAP_COUNT = 3
    CAP_DIGITS_MAX = 18
    # Half of an ID with this many digits always fits 64 bits.
    ID_DIGITS_MAX = 19
    # Records of a run, or IDs of its claims, that are taken at once, which takes some 0.5 ms.
    RUN_COUNT_MAX = 1000

cdef const char *SET = b"*3\r\n$3\r\nSET\r\n"
cdef const char *PEXPIREAT = b"*3\r\n$9\r\nPEXPIREAT\r\n"
cdef const char *XADD_UPPER = b"$4\r\nXADD\r\n"
cdef const char *XADD_LOWER = b"$4\r\nxadd\r\n"
cdef const char *AUTO_ID = b"$1\r\n*\r\n"
cdef const char *MAXLEN_UPPER = b"$6\r\nMAXLEN\r\n"
cdef const char *MAXLEN_LOWER = b"$6\r\nmaxlen\r\n"
cdef const char *ABOUT = b"$1\r\n~\r\n"
cdef const char *XCLAIM = b"$6\r\nXCLAIM\r\n"
cdef const char *TIME = b"$4\r\nTIME\r\n"
cdef const char *RETRYCOUNT = b"$10\r\nRETRYCOUNT\r\n"
cdef const char *FORCE_JUSTID_LASTID = b"$5\r\nFORCE\r\n$6\r\nJUSTID\r\n$6\r\nLASTID\r\n"
cdef const char *JUSTID_FORCE = b"$6\r\nJUSTID\r\n$5\r\nFORCE\r\n"
cdef const char *FORCE_JUSTID = b"$5\r\nFORCE\r\n$6\r\nJUSTID\r\n"
cdef const char *NOT_IDLE = b"$1\r\n0\r\n"
cdef const char *SETID = b"*7\r\n$6\r\nXGROUP\r\n$5\r\nSETID\r\n"
cdef const char *ENTRIESREAD = b"$11\r\nENTRIESREAD\r\n"
cdef const char *EXACTLY = b"$1\r\n=\r\n"

cdef array.array COLUMN = new_array("Q")


cdef inline bint is_one_of(const char *at, const char *end, const char *upper, const char *lower, Py_ssize_t size) noexcept:
    return end - at >= size and (not memcmp(at, upper, size) or not memcmp(at, lower, size))


cdef list read_addition(const char **place, const char *end, Py_ssize_t size_max):
    """Read the request at `place` as `ADDITION` describes, and move `place` past it.

    Returns None unless it is complete and `XADD key [MAXLEN ~ n] * field value ...`.
    """
    cdef const char *start = place[0]
    cdef const char *at = start + 1
    cdef const char *key
    cdef const char *cap = NULL
    cdef Py_ssize_t key_size, cap_size = 0, index, count, first_pair = 3
    if start == end or start[0] != c'*':
        return None
    count = read_size(&at, end)
    if count < ADDITION_COUNT_MIN or not is_one_of(at, end, XADD_UPPER, XADD_LOWER, XADD_SIZE):
        return None
    at += XADD_SIZE
    key_size = read_bulk(&at, end, size_max)
    if key_size < 0:
        return None
    key = at
    at += key_size + 2
    if is_one_of(at, end, MAXLEN_UPPER, MAXLEN_LOWER, MAXLEN_SIZE):
        at += MAXLEN_SIZE
        if not is_one_of(at, end, ABOUT, ABOUT, ABOUT_SIZE):
            return None
        at += ABOUT_SIZE
        cap_size = read_bulk(&at, end, CAP_DIGITS_MAX)
        if cap_size < 1 or (cap_size > 1 and at[0] == c'0'):
            return None
        for index in range(cap_size):
            if not c'0' <= at[index] <= c'9':
                return None
        cap = at
        at += cap_size + 2
        first_pair += CAP_COUNT
    if count < first_pair + 2 or (count - first_pair) & 1 or not is_one_of(at, end, AUTO_ID, AUTO_ID, AUTO_ID_SIZE):
        return None
    at += AUTO_ID_SIZE
    if not skip_bulks(&at, end, count - first_pair, size_max):
        return None
    place[0] = at
    return [
        ADDITION,
        PyBytes_FromStringAndSize(key, key_size),
        PyBytes_FromStringAndSize(start, at - start),
        PyBytes_FromStringAndSize(cap, cap_size),
    ]


cdef inline bint read_half(const char **place, const char *end, u64 *half) noexcept:
    """Read the canonical decimal at `place`, and move `place` past it. False if there is none that surely fits."""
    cdef const char *at = place[0]
    cdef u64 number = 0
    while at < end and c'0' <= at[0] <= c'9':
        if at - place[0] == ID_DIGITS_MAX:
            return False
        number = number * 10 + <u64>(at[0] - c'0')
        at += 1
    if at == place[0] or (place[0][0] == c'0' and at - place[0] > 1):
        return False
    place[0] = at
    half[0] = number
    return True


cdef inline bint read_id(const char **place, const char *end, Place *both) noexcept:
    """Read the bulk string at `place` as a canonical `ms-seq`, and move `place` past it. False if it is none."""
    cdef const char *at = place[0]
    cdef Py_ssize_t size = read_bulk(&at, end, 2 * ID_DIGITS_MAX + 1)
    cdef const char *limit = at + size
    if size < 0 or not read_half(&at, limit, &both.ms) or at == limit or at[0] != c'-':
        return False
    at += 1
    if not read_half(&at, limit, &both.seq) or at != limit:
        return False
    place[0] = at + 2
    return True


cdef struct Addition:
    # The parts of `XADD <key> <id> <field> <value> ...`. `id_at` is where the ID begins as a bulk string.
    const char *key
    Py_ssize_t key_size
    const char *id_at
    Place id
    const char *texts
    Py_ssize_t texts_count


cdef bint read_record(const char **place, const char *end, Py_ssize_t size_max, Addition *addition) noexcept:
    """Read the addition at `place`, and move `place` past it. Returns False if it is incomplete or of another form."""
    cdef const char *at = place[0]
    cdef Py_ssize_t count
    if at == end or at[0] != c'*':
        return False
    at += 1
    count = read_size(&at, end)
    if count < ADDITION_COUNT_MIN or not count & 1 or not is_one_of(at, end, XADD_UPPER, XADD_LOWER, XADD_SIZE):
        return False
    at += XADD_SIZE
    addition.key_size = read_bulk(&at, end, size_max)
    if addition.key_size < 0:
        return False
    addition.key = at
    at += addition.key_size + 2
    addition.id_at = at
    if not read_id(&at, end, &addition.id) or not (addition.id.ms or addition.id.seq):
        return False
    addition.texts, addition.texts_count = at, count - 3
    if not skip_bulks(&at, end, addition.texts_count, size_max):
        return False
    place[0] = at
    return True


cdef inline bint is_below(const Place *one, const Place *other) noexcept:
    return one.ms < other.ms or (one.ms == other.ms and one.seq < other.seq)


cdef inline bint follows(const Addition *addition, const Addition *last) noexcept:
    """Whether an addition is one to the stream of another one, with a larger ID."""
    if addition.key_size != last.key_size or memcmp(addition.key, last.key, last.key_size):
        return False
    return is_below(&last.id, &addition.id)


cdef list read_additions(const char **place, const char *end, Py_ssize_t size_max):
    """Read a run of records at `place` as `ADDITIONS` describes, and move `place` past it. Returns None for fewer than
    two."""
    cdef const char *start = place[0]
    cdef const char *at = start
    cdef Addition last, addition
    cdef Py_ssize_t taken = 0
    while taken < RUN_COUNT_MAX and read_record(&at, end, size_max, &addition):
        if taken and not follows(&addition, &last):
            break
        last = addition
        place[0] = at
        taken += 1
    if taken < 2:
        place[0] = start
        return None
    return [
        ADDITIONS,
        PyBytes_FromStringAndSize(last.key, last.key_size),
        PyBytes_FromStringAndSize(start, place[0] - start),
        b"%d" % taken,
    ]


cdef struct Claim:
    # The parts of `XCLAIM <key> <group> <consumer> 0 <ids ..> TIME <time_ms> RETRYCOUNT <count> JUSTID FORCE`.
    const char *key
    # Bytes of key, group and consumer together, as bulk strings.
    Py_ssize_t owner_size
    const char *ids
    Py_ssize_t ids_count
    u64 time_ms
    u64 count


cdef inline bint read_bulk_number(const char **place, const char *end, u64 *number) noexcept:
    """Read the bulk string at `place` as a canonical decimal, and move `place` past it. Returns False if it is none."""
    cdef const char *at = place[0]
    cdef Py_ssize_t size = read_bulk(&at, end, SIZE_DIGITS_MAX)
    cdef const char *limit = at + size
    if size < 0 or not read_half(&at, limit, number) or at != limit:
        return False
    place[0] = at + 2
    return True


cdef bint read_claim(const char **place, const char *end, Py_ssize_t size_max, Claim *claim) noexcept:
    """Read the claim at `place`, and move `place` past it. Returns False if it is incomplete or of another form."""
    cdef const char *at = place[0]
    cdef Py_ssize_t count, index, size
    if at == end or at[0] != c'*':
        return False
    at += 1
    count = read_size(&at, end)
    if count <= CLAIM_BARE_COUNT or end - at < XCLAIM_SIZE or memcmp(at, XCLAIM, XCLAIM_SIZE):
        return False
    at += XCLAIM_SIZE
    claim.key = at
    if not skip_bulks(&at, end, 3, size_max):
        return False
    claim.owner_size = at - claim.key
    if end - at < NOT_IDLE_SIZE or memcmp(at, NOT_IDLE, NOT_IDLE_SIZE):
        return False
    at += NOT_IDLE_SIZE
    claim.ids, claim.ids_count = at, count - CLAIM_BARE_COUNT
    for index in range(claim.ids_count):
        size = read_bulk(&at, end, size_max)
        if size < 1 or not c'0' <= at[0] <= c'9':
            return False
        at += size + 2
    if end - at < TIME_SIZE or memcmp(at, TIME, TIME_SIZE):
        return False
    at += TIME_SIZE
    if not read_bulk_number(&at, end, &claim.time_ms):
        return False
    if end - at < RETRYCOUNT_SIZE or memcmp(at, RETRYCOUNT, RETRYCOUNT_SIZE):
        return False
    at += RETRYCOUNT_SIZE
    if not read_bulk_number(&at, end, &claim.count) or not is_one_of(at, end, JUSTID_FORCE, FORCE_JUSTID, JUSTID_FORCE_SIZE):
        return False
    place[0] = at + JUSTID_FORCE_SIZE
    return True


cdef list read_claims(const char **place, const char *end, Py_ssize_t size_max):
    """Read a run of claims at `place` as `CLAIMS` describes, and move `place` past it. None for fewer than two."""
    cdef const char *start = place[0]
    cdef const char *at = start
    cdef Claim first, claim
    cdef Py_ssize_t taken = 0, ids_count = 0, key_size
    while ids_count < RUN_COUNT_MAX and read_claim(&at, end, size_max, &claim):
        if not taken:
            first = claim
        elif claim.owner_size != first.owner_size or memcmp(claim.key, first.key, first.owner_size):
            break
        place[0] = at
        taken += 1
        ids_count += claim.ids_count
    if taken < 2:
        place[0] = start
        return None
    at = first.key
    key_size = read_bulk(&at, end, size_max)
    return [
        CLAIMS,
        PyBytes_FromStringAndSize(at, key_size),
        PyBytes_FromStringAndSize(start, place[0] - start),
        b"%d" % taken,
    ]


cdef bytes take_bulk(const char **place, const char *end):
    """Read the bulk string at `place`, which is complete, and move `place` past it."""
    cdef Py_ssize_t size = read_bulk(place, end, end - place[0])
    cdef bytes word = PyBytes_FromStringAndSize(place[0], size)
    place[0] += size + 2
    return word


def read_claimed(list run not None):
    """Return the contents of a run of claims (`CLAIMS`). Raises ValueError for any other request."""
    if len(run) != KEPT_COUNT or run[0] is not CLAIMS:
        raise ValueError("no run of records")
    cdef bytes key = run[1], sent = run[2], group, consumer
    cdef const char *at = PyBytes_AS_STRING(sent)
    cdef const char *end = at + PyBytes_GET_SIZE(sent)
    cdef const char *ids_at
    cdef Claim first, claim
    cdef Py_ssize_t index, id_index
    cdef list ids = [], records = []
    for index in range(int(run[3])):
        if not read_claim(&at, end, end - at, &claim):
            raise ValueError("no run of records")
        if not index:
            first = claim
        elif claim.owner_size != first.owner_size or memcmp(claim.key, first.key, first.owner_size):
            raise ValueError("no run of records")
        ids_at = claim.ids
        for id_index in range(claim.ids_count):
            ids.append(take_bulk(&ids_at, end))
        records.append((claim.ids_count, claim.time_ms, claim.count))
    if not records:
        raise ValueError("no run of records")
    at = first.key
    if take_bulk(&at, end) != key:
        raise ValueError("no run of records")
    group = take_bulk(&at, end)
    consumer = take_bulk(&at, end)
    return group, consumer, ids, records


def read_added(list run not None):
    """Return the entries of a run of records (`ADDITIONS`): their reply forms end to end, the halves of their IDs, and
    the end offset of each. Raises ValueError for any other request."""
    if len(run) != KEPT_COUNT or run[0] is not ADDITIONS:
        raise ValueError("no run of records")
    cdef bytes key = run[1], sent = run[2]
    cdef Py_ssize_t count = max(int(run[3]), 0), index, size
    cdef array.array ms = array.clone(COLUMN, count, False)
    cdef array.array seq = array.clone(COLUMN, count, False)
    cdef array.array ends = array.clone(COLUMN, count, False)
    # An entry lacks the command name and the key of its record, and has `*2` in addition.
    cdef bytes data = PyBytes_FromStringAndSize(NULL, PyBytes_GET_SIZE(sent))
    cdef char *out = PyBytes_AS_STRING(data)
    cdef char *to = out
    cdef const char *at = PyBytes_AS_STRING(sent)
    cdef const char *end = at + PyBytes_GET_SIZE(sent)
    cdef const char *id_at
    cdef Place both
    cdef Py_ssize_t words_count
    for index in range(count):
        at += 1
        words_count = read_size(&at, end)
        if words_count < ADDITION_COUNT_MIN or end - at < XADD_SIZE:
            raise ValueError("no run of records")
        at += XADD_SIZE
        size = read_bulk(&at, end, end - at)
        if size != PyBytes_GET_SIZE(key) or memcmp(at, PyBytes_AS_STRING(key), size):
            raise ValueError("no run of records")
        at += size + 2
        id_at = at
        if not read_id(&at, end, &both):
            raise ValueError("no run of records")
        to = write_header(to, c'*', 2)
        to = write_text(to, id_at, at - id_at)
        to = write_header(to, c'*', words_count - 3)
        id_at = at
        if not skip_bulks(&at, end, words_count - 3, end - at):
            raise ValueError("no run of records")
        to = write_text(to, id_at, at - id_at)
        ms.data.as_ulonglongs[index] = both.ms
        seq.data.as_ulonglongs[index] = both.seq
        ends.data.as_ulonglongs[index] = to - out
    return data[: to - out], ms, seq, ends


def addition_splitter():
    """Return the function that splits requests off the front of bytes, for one reader. Each `XADD key [MAXLEN ~ n] *
    field value ...` is in the form of `ADDITION`."""
    return split_keeping_additions


def split_keeping_additions(bytes data not None, Py_ssize_t bulk_size_max):
    """Return the complete requests at the beginning of `data`, and their size in bytes; see `addition_splitter`."""
    cdef const char *start = PyBytes_AS_STRING(data)
    cdef const char *end = start + PyBytes_GET_SIZE(data)
    cdef const char *at = start
    cdef list request
    cdef list requests = []
    while True:
        request = read_addition(&at, end, bulk_size_max)
        if request is None:
            request = read_request(&at, end, bulk_size_max)
            if request is None:
                return requests, at - start
        requests.append(request)


def record_splitter():
    """Return the function that splits records off the front of a log. Streams of few entries are in the form of
    `STREAMS`, consecutive additions to one stream in that of `ADDITIONS`, and claims in that of `CLAIMS`."""
    return split_gathering_runs


def split_gathering_runs(bytes data not None, Py_ssize_t bulk_size_max):
    """Return the complete records at the beginning of `data`, and their size in bytes; see `record_splitter`."""
    cdef const char *start = PyBytes_AS_STRING(data)
    cdef const char *end = start + PyBytes_GET_SIZE(data)
    cdef const char *at = start
    cdef list record
    cdef list records = []
    while True:
        record = read_streams_run(&at, end, bulk_size_max)
        if record is None:
            record = read_additions(&at, end, bulk_size_max)
        if record is None:
            record = read_claims(&at, end, bulk_size_max)
        if record is None:
            record = read_request(&at, end, bulk_size_max)
            if record is None:
                return records, at - start
        records.append(record)


def words_of(list request not None):
    """Return the words of a request, also of one that was kept as it was sent."""
    if len(request) != KEPT_COUNT or request[0] is not ADDITION:
        return request
    cdef bytes sent = request[2]
    cdef const char *at = PyBytes_AS_STRING(sent)
    return read_request(&at, at + PyBytes_GET_SIZE(sent), PyBytes_GET_SIZE(sent))


def pack_added(list argv not None, Py_ssize_t id_at, Py_ssize_t pairs_at, u64 ms, u64 seq):
    """Return what an XADD produces: the ID `ms-seq` as a bulk string, the entry in its reply form, and the record.

    The record consists of `argv[:id_at]`, the ID, and the fields and values, `argv[pairs_at:]`.
    """
    cdef Py_ssize_t count = len(argv)
    cdef Py_ssize_t text_size = count_digits(ms) + 1 + count_digits(seq)
    cdef Py_ssize_t id_size = count_digits(text_size) + text_size + 5
    cdef Py_ssize_t pairs_count = count - pairs_at
    cdef Py_ssize_t pairs_size = packed_size(argv, pairs_at, count)
    cdef Py_ssize_t start_size = packed_size(argv, 0, id_at)
    cdef Py_ssize_t record_count = id_at + 1 + pairs_count
    cdef bytes id_bulk = PyBytes_FromStringAndSize(NULL, id_size)
    cdef bytes entry = PyBytes_FromStringAndSize(NULL, 4 + id_size + count_digits(pairs_count) + 3 + pairs_size)
    cdef bytes record = PyBytes_FromStringAndSize(
        NULL, count_digits(record_count) + 3 + start_size + id_size + pairs_size
    )
    cdef char *id_bytes = PyBytes_AS_STRING(id_bulk)
    cdef char *at = write_number(write_header(id_bytes, c'$', text_size), ms)
    cdef char *pairs
    at[0] = c'-'
    at = write_number(at + 1, seq)
    at[0] = c'\r'
    at[1] = c'\n'
    at = write_header(PyBytes_AS_STRING(entry), c'*', 2)
    memcpy(at, id_bytes, id_size)
    pairs = write_header(at + id_size, c'*', pairs_count)
    write_words(pairs, argv, pairs_at, count)
    at = write_header(PyBytes_AS_STRING(record), c'*', record_count)
    at = write_words(at, argv, 0, id_at)
    memcpy(at, id_bytes, id_size)
    memcpy(at + id_size, pairs, pairs_size)
    return id_bulk, entry, record


cdef const char *find_id(list request, Py_ssize_t *pairs_count) except NULL:
    """Find the ID in an addition that was kept as it was sent, and count the fields and values that follow it."""
    cdef bytes key = request[1], sent = request[2], cap = request[3]
    cdef const char *start = PyBytes_AS_STRING(sent)
    cdef const char *end = start + PyBytes_GET_SIZE(sent)
    cdef const char *at = start + 1
    cdef Py_ssize_t count = read_size(&at, end) - 3
    cdef Py_ssize_t key_size = PyBytes_GET_SIZE(key), cap_size = PyBytes_GET_SIZE(cap)
    at += XADD_SIZE + count_digits(key_size) + key_size + 5
    if cap_size:
        at += MAXLEN_SIZE + ABOUT_SIZE + count_digits(cap_size) + cap_size + 5
        count -= CAP_COUNT
    if count < 2 or end - at <= AUTO_ID_SIZE or memcmp(at, AUTO_ID, AUTO_ID_SIZE):
        raise ValueError("no XADD as it was sent")
    pairs_count[0] = count
    return at


def pack_sent(list request not None, u64 ms, u64 seq):
    """Return the ID `ms-seq` as a bulk string, and the entry in its reply form, of an addition that was kept as it was
    sent. Raises ValueError for any other request."""
    cdef Py_ssize_t pairs_count = 0
    cdef const char *pairs = find_id(request, &pairs_count) + AUTO_ID_SIZE
    cdef Py_ssize_t pairs_size = PyBytes_AS_STRING(request[2]) + PyBytes_GET_SIZE(request[2]) - pairs
    cdef Py_ssize_t text_size = count_digits(ms) + 1 + count_digits(seq)
    cdef Py_ssize_t id_size = count_digits(text_size) + text_size + 5
    cdef bytes id_bulk = PyBytes_FromStringAndSize(NULL, id_size)
    cdef bytes entry = PyBytes_FromStringAndSize(NULL, 4 + id_size + count_digits(pairs_count) + 3 + pairs_size)
    cdef char *id_bytes = PyBytes_AS_STRING(id_bulk)
    cdef char *at = write_number(write_header(id_bytes, c'$', text_size), ms)
    at[0] = c'-'
    at = write_number(at + 1, seq)
    at[0] = c'\r'
    at[1] = c'\n'
    at = write_header(PyBytes_AS_STRING(entry), c'*', 2)
    memcpy(at, id_bytes, id_size)
    memcpy(write_header(at + id_size, c'*', pairs_count), pairs, pairs_size)
    return id_bulk, entry


def record_sent(list request not None, bytes id_bulk not None, u64 length):
    """Return the record of an addition that was kept as it was sent. The ID replaces `*`, and the `length` after
    trimming replaces `MAXLEN ~ n`."""
    cdef Py_ssize_t pairs_count = 0
    cdef bytes sent = request[2], cap = request[3]
    cdef const char *start = PyBytes_AS_STRING(sent)
    cdef const char *id_at = find_id(request, &pairs_count)
    cdef const char *pairs = id_at + AUTO_ID_SIZE
    cdef Py_ssize_t pairs_size = start + PyBytes_GET_SIZE(sent) - pairs
    cdef Py_ssize_t id_size = PyBytes_GET_SIZE(id_bulk), cap_size = PyBytes_GET_SIZE(cap)
    cdef Py_ssize_t start_size = id_at - start, length_size = 0
    if cap_size:
        start_size -= ABOUT_SIZE + count_digits(cap_size) + cap_size + 5
        length_size = count_digits(length)
        length_size += ABOUT_SIZE + count_digits(length_size) + 5
    cdef bytes record = PyBytes_FromStringAndSize(NULL, start_size + length_size + id_size + pairs_size)
    cdef char *at = PyBytes_AS_STRING(record)
    memcpy(at, start, start_size)
    at += start_size
    if cap_size:
        memcpy(at, EXACTLY, ABOUT_SIZE)
        at = write_number(write_header(at + ABOUT_SIZE, c'$', count_digits(length)), length)
        at[0] = c'\r'
        at[1] = c'\n'
        at += 2
    memcpy(at, PyBytes_AS_STRING(id_bulk), id_size)
    memcpy(at + id_size, pairs, pairs_size)
    return record


def pack_claim(
    bytes key not None, bytes group not None, bytes consumer not None, bytes ids not None, Py_ssize_t ids_count,
    u64 time_ms, u64 count, bytes last_id not None,
):
    """`XCLAIM key group consumer 0 id .. TIME time_ms RETRYCOUNT count FORCE JUSTID LASTID last_id`; `ids` has
    `ids_count` bulk strings."""
    cdef bytes packed = PyBytes_FromStringAndSize(
        NULL,
        CLAIM_SIZE_MAX + bulk_size(key) + bulk_size(group) + bulk_size(consumer) + PyBytes_GET_SIZE(ids)
        + bulk_size(last_id),
    )
    cdef char *out = PyBytes_AS_STRING(packed)
    cdef char *at = write_text(write_header(out, c'*', CLAIM_COUNT + ids_count), XCLAIM, XCLAIM_SIZE)
    at = write_bulk(write_bulk(write_bulk(at, key), group), consumer)
    at = write_bulk_number(at, 0)
    at = write_text(at, PyBytes_AS_STRING(ids), PyBytes_GET_SIZE(ids))
    at = write_bulk_number(write_text(at, TIME, TIME_SIZE), time_ms)
    at = write_bulk_number(write_text(at, RETRYCOUNT, RETRYCOUNT_SIZE), count)
    at = write_bulk(write_text(at, FORCE_JUSTID_LASTID, FORCE_JUSTID_LASTID_SIZE), last_id)
    return packed[: at - out]


def pack_position(bytes key not None, bytes group not None, bytes last_id not None, bytes entries_read not None):
    """`XGROUP SETID key group last_id ENTRIESREAD entries_read`."""
    cdef bytes packed = PyBytes_FromStringAndSize(
        NULL,
        POSITION_SIZE + bulk_size(key) + bulk_size(group) + bulk_size(last_id) + bulk_size(entries_read),
    )
    cdef char *at = write_text(PyBytes_AS_STRING(packed), SETID, SETID_SIZE)
    at = write_bulk(write_bulk(write_bulk(at, key), group), last_id)
    write_bulk(write_text(at, ENTRIESREAD, ENTRIESREAD_SIZE), entries_read)
    return packed


def pack_strings(list pairs not None, Py_ssize_t start, dict expires not None):
    """See `codec_plain`."""
    cdef Py_ssize_t size = 0, end = max(start, 0), index
    cdef bint has_expiries = bool(expires)
    cdef list times = []
    cdef object key, value, expires_ms
    cdef bytes packed, text
    cdef char *at
    while end < len(pairs) and size < STRINGS_SIZE:
        key, value = pairs[end]
        if not PyBytes_Check(key) or not PyBytes_Check(value):
            raise TypeError("a key and its string are bytes")
        size += SET_SIZE + bulk_size(key) + bulk_size(value)
        if has_expiries:
            expires_ms = expires.get(key)
            text = None if expires_ms is None else b"%d" % expires_ms
            times.append(text)
            if text is not None:
                size += PEXPIREAT_SIZE + bulk_size(key) + bulk_size(text)
        end += 1
    packed = PyBytes_FromStringAndSize(NULL, size)
    at = PyBytes_AS_STRING(packed)
    for index in range(max(start, 0), end):
        key, value = pairs[index]
        at = write_bulk(write_bulk(write_text(at, SET, SET_SIZE), key), value)
        if has_expiries:
            text = times[index - max(start, 0)]
            if text is not None:
                at = write_bulk(write_bulk(write_text(at, PEXPIREAT, PEXPIREAT_SIZE), key), text)
    return packed, end


def pack_adds(bytes key not None, bytes data not None, array.array ends not None):
    """Return the records `XADD key id field value ...` of entries that are stored end to end.

    `data` has the entries in their reply form, and `ends` the end offset of each: `*2 <id> *4 <f> <v> <f> <v>` becomes
    `*7 XADD <key> <id> <f> <v> <f> <v>`.
    """
    cdef Py_ssize_t entries_count = len(ends)
    if not entries_count or ends.ob_descr.typecode != c'Q':
        raise ValueError("no such entries")
    if ends.data.as_ulonglongs[entries_count - 1] > <u64>PyBytes_GET_SIZE(data):
        raise ValueError("no such entries")
    cdef bytes start = pack_command((b"XADD", key))[4:]
    cdef Py_ssize_t start_size = PyBytes_GET_SIZE(start)
    cdef const char *first = PyBytes_AS_STRING(data)
    cdef const char *entry = first
    cdef const char *end = first + ends.data.as_ulonglongs[entries_count - 1]
    cdef const char *at_pairs
    cdef Py_ssize_t size, position, count
    # A record has the command name and the key in addition, and its count may have a digit more.
    cdef bytes packed = PyBytes_FromStringAndSize(NULL, (end - entry) + entries_count * start_size)
    cdef char *out = PyBytes_AS_STRING(packed)
    cdef char *at = out
    for position in range(entries_count):
        end = first + ends.data.as_ulonglongs[position]
        entry += 4  # *2
        at_pairs = entry + 1
        size = read_size(&at_pairs, end)
        if size < 0 or size + 3 > end - at_pairs:
            raise ValueError("no entry where one should be")
        at_pairs += size + 2
        size = at_pairs - entry
        at_pairs += 1
        count = read_size(&at_pairs, end)
        if count < 0:
            raise ValueError("no entry where one should be")
        at = write_header(at, c'*', count + 3)
        memcpy(at, PyBytes_AS_STRING(start), start_size)
        at += start_size
        memcpy(at, entry, size)
        at += size
        memcpy(at, at_pairs, end - at_pairs)
        at += end - at_pairs
        entry = end
    return packed[: at - out]


include "whole_streams.pxi"
