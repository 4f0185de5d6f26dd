# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Parses requests and packs commands, for installations with a C compiler: `frames_plain` in C.

Both modules behave alike and are tested by the same tests; `packing` and `reader` import this one if it was built.
"""

from array import array as new_array

from cpython cimport array
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF
from libc.string cimport memcmp, memcpy

from headrace.protocol.frames_plain import ADDITION, ADDITIONS, CLAIMS

ctypedef unsigned long long u64

ctypedef struct EntryId:
    u64 ms
    u64 seq

cdef enum:
    # A length of this many digits always fits 64 bits. Longer ones are left to the careful parser.
    SIZE_DIGITS_MAX = 18
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


cdef inline Py_ssize_t read_size(const char **place, const char *end) noexcept:
    """Read the canonical decimal at `place`, and move `place` past its CR LF. Returns -1 if it is missing or
    incomplete."""
    cdef const char *at = place[0]
    cdef const char *limit = at + SIZE_DIGITS_MAX
    cdef Py_ssize_t size = 0
    if at < end and at[0] == c'0' and end - at > 1 and at[1] != c'\r':
        return -1
    while at < end and c'0' <= at[0] <= c'9':
        if at == limit:
            return -1
        size = size * 10 + (at[0] - c'0')
        at += 1
    if at == place[0] or end - at < 2 or at[0] != c'\r' or at[1] != c'\n':
        return -1
    place[0] = at + 2
    return size


cdef inline bint is_cross_protocol(const char *word, Py_ssize_t size) noexcept:
    """Whether the word is `POST` or `Host:` in any case. The bytes are compared with the case bit set."""
    if size == 4:
        return word[0] | 32 == c'p' and word[1] | 32 == c'o' and word[2] | 32 == c's' and word[3] | 32 == c't'
    return (
        size == 5 and word[0] | 32 == c'h' and word[1] | 32 == c'o' and word[2] | 32 == c's' and word[3] | 32 == c't'
        and word[4] == c':'
    )


cdef inline Py_ssize_t read_bulk(const char **place, const char *end, Py_ssize_t size_max) noexcept:
    """Read the size of the bulk string at `place`, and move `place` to its first byte. -1 if it is incomplete."""
    cdef const char *at = place[0]
    cdef Py_ssize_t size
    if at == end or at[0] != c'$':
        return -1
    at += 1
    size = read_size(&at, end)
    if size < 0 or size > size_max or size > end - at - 2 or at[size] != c'\r' or at[size + 1] != c'\n':
        return -1
    place[0] = at
    return size


cdef inline bint skip_bulks(const char **place, const char *end, Py_ssize_t count, Py_ssize_t size_max) noexcept:
    """Whether `count` bulk strings are at `place`. Moves `place` past them."""
    cdef Py_ssize_t index, size
    for index in range(count):
        size = read_bulk(place, end, size_max)
        if size < 0:
            return False
        place[0] += size + 2
    return True


cdef inline bint is_one_of(const char *at, const char *end, const char *upper, const char *lower, Py_ssize_t size) noexcept:
    return end - at >= size and (not memcmp(at, upper, size) or not memcmp(at, lower, size))


cdef list read_request(const char **place, const char *end, Py_ssize_t size_max):
    """Read the words of the request at `place`, and move `place` past it. Returns None unless it is complete and an
    array of bulk strings."""
    cdef const char *at = place[0]
    cdef Py_ssize_t count, index, size
    cdef list request
    cdef object argument
    if at == end or at[0] != c'*':
        return None
    at += 1
    count = read_size(&at, end)
    if count <= 0 or count > (end - at) // 6:
        return None
    request = PyList_New(count)
    for index in range(count):
        size = read_bulk(&at, end, size_max)
        if size < 0 or (index == 0 and is_cross_protocol(at, size)):
            return None
        argument = PyBytes_FromStringAndSize(at, size)
        Py_INCREF(argument)
        PyList_SET_ITEM(request, index, argument)
        at += size + 2
    place[0] = at
    return request


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


cdef inline bint read_id(const char **place, const char *end, EntryId *both) noexcept:
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


cdef list read_additions(const char **place, const char *end, Py_ssize_t size_max):
    """Read a run of records at `place` as `ADDITIONS` describes, and move `place` past it. Returns None for fewer than
    two."""
    cdef const char *start = place[0]
    cdef const char *at
    cdef const char *word
    cdef const char *key = NULL
    cdef Py_ssize_t key_size = 0, count, size, taken = 0
    cdef EntryId last, both
    while taken < RUN_COUNT_MAX:
        at = place[0]
        if at == end or at[0] != c'*':
            break
        at += 1
        count = read_size(&at, end)
        if count < ADDITION_COUNT_MIN or not count & 1 or not is_one_of(at, end, XADD_UPPER, XADD_LOWER, XADD_SIZE):
            break
        at += XADD_SIZE
        size = read_bulk(&at, end, size_max)
        word = at
        if size < 0 or (taken and (size != key_size or memcmp(word, key, size))):
            break
        at += size + 2
        if not read_id(&at, end, &both) or not (both.ms or both.seq):
            break
        if taken and (both.ms < last.ms or (both.ms == last.ms and both.seq <= last.seq)):
            break
        if not skip_bulks(&at, end, count - 3, size_max):
            break
        key, key_size, last = word, size, both
        place[0] = at
        taken += 1
    if taken < 2:
        place[0] = start
        return None
    return [
        ADDITIONS,
        PyBytes_FromStringAndSize(key, key_size),
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
    cdef EntryId both
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


def splitter(bint keeps_additions=False):
    """Return the function that splits complete requests off the front of bytes, for one reader. With `keeps_additions`
    additions are kept as they were sent (`ADDITION`)."""
    return split_keeping_additions if keeps_additions else split


def split(bytes data not None, Py_ssize_t bulk_size_max):
    """Return the complete requests at the beginning of `data`, and their size in bytes. The rest is left to the careful
    parser.

    A request's list is not made longer than the number of arguments that fit in the data.
    """
    return take_requests(data, bulk_size_max, False)


def split_keeping_additions(bytes data not None, Py_ssize_t bulk_size_max):
    """Like `split`, with each `XADD key [MAXLEN ~ n] * field value ...` in the form of `ADDITION`."""
    return take_requests(data, bulk_size_max, True)


def record_splitter():
    """Return the function that splits records off the front of a log. Consecutive additions to one stream are in the
    form of `ADDITIONS`, claims in that of `CLAIMS`."""
    return split_gathering_runs


def split_gathering_runs(bytes data not None, Py_ssize_t bulk_size_max):
    """Like `split`, with runs of additions and claims in the forms of `ADDITIONS` and `CLAIMS`."""
    cdef const char *start = PyBytes_AS_STRING(data)
    cdef const char *end = start + PyBytes_GET_SIZE(data)
    cdef const char *at = start
    cdef list record
    cdef list records = []
    while True:
        record = read_additions(&at, end, bulk_size_max)
        if record is None:
            record = read_claims(&at, end, bulk_size_max)
        if record is None:
            record = read_request(&at, end, bulk_size_max)
            if record is None:
                return records, at - start
        records.append(record)


cdef tuple take_requests(bytes data, Py_ssize_t bulk_size_max, bint keeps_additions):
    cdef const char *start = PyBytes_AS_STRING(data)
    cdef const char *end = start + PyBytes_GET_SIZE(data)
    cdef const char *at = start
    cdef list request = None
    cdef list requests = []
    while True:
        if keeps_additions:
            request = read_addition(&at, end, bulk_size_max)
        if request is None:
            request = read_request(&at, end, bulk_size_max)
            if request is None:
                return requests, at - start
        requests.append(request)
        request = None


def words_of(list request not None):
    """Return the words of a request, also of one that was kept as it was sent."""
    if len(request) != KEPT_COUNT or request[0] is not ADDITION:
        return request
    cdef bytes sent = request[2]
    cdef const char *at = PyBytes_AS_STRING(sent)
    return read_request(&at, at + PyBytes_GET_SIZE(sent), PyBytes_GET_SIZE(sent))


cdef inline Py_ssize_t count_digits(u64 number) noexcept:
    cdef Py_ssize_t digits = 1
    while number >= 10:
        number //= 10
        digits += 1
    return digits


cdef inline char *write_number(char *at, u64 number) noexcept:
    """Write the digits of a number. Returns where they end."""
    cdef char *end = at + count_digits(number)
    at = end
    while True:
        at -= 1
        at[0] = c'0' + <char>(number % 10)
        number //= 10
        if not number:
            return end


cdef inline char *write_header(char *at, char mark, Py_ssize_t number) noexcept:
    """Write a header such as `$5` or `*3` with its CR LF. Returns where it ends."""
    at[0] = mark
    at = write_number(at + 1, number)
    at[0] = c'\r'
    at[1] = c'\n'
    return at + 2


cdef inline Py_ssize_t bulk_size(word) noexcept:
    """Size in bytes of a word as a bulk string. The caller checks that the word is bytes, or of a subclass."""
    return count_digits(PyBytes_GET_SIZE(word)) + PyBytes_GET_SIZE(word) + 5


cdef inline char *write_bulk(char *at, word) noexcept:
    """Write a word as a bulk string. Returns where it ends."""
    cdef Py_ssize_t size = PyBytes_GET_SIZE(word)
    at = write_header(at, c'$', size)
    memcpy(at, PyBytes_AS_STRING(word), size)
    at[size] = c'\r'
    at[size + 1] = c'\n'
    return at + size + 2


cdef inline char *write_text(char *at, const char *text, Py_ssize_t size) noexcept:
    memcpy(at, text, size)
    return at + size


cdef inline char *write_bulk_number(char *at, u64 number) noexcept:
    at = write_number(write_header(at, c'$', count_digits(number)), number)
    at[0] = c'\r'
    at[1] = c'\n'
    return at + 2


cdef Py_ssize_t packed_size(words, Py_ssize_t start, Py_ssize_t end) except -1:
    """Bytes of the words from `start` to `end` (excluded) as bulk strings. Raises TypeError unless they are bytes."""
    cdef Py_ssize_t total = 0, index
    cdef object word
    for index in range(start, end):
        word = words[index]
        if not PyBytes_Check(word):
            raise TypeError(f"a word of a command is bytes, not {type(word).__name__}")
        total += bulk_size(word)
    return total


cdef char *write_words(char *at, words, Py_ssize_t start, Py_ssize_t end) except NULL:
    cdef Py_ssize_t index
    for index in range(start, end):
        at = write_bulk(at, words[index])
    return at


def pack_command(words not None):
    """`(b"XLEN", b"s")` -> `*2\\r\\n$4\\r\\nXLEN\\r\\n$1\\r\\ns\\r\\n`. Raises TypeError unless all are bytes."""
    cdef Py_ssize_t count = len(words)
    cdef Py_ssize_t size = count_digits(count) + 3 + packed_size(words, 0, count)
    cdef bytes packed = PyBytes_FromStringAndSize(NULL, size)
    cdef char *at = write_header(PyBytes_AS_STRING(packed), c'*', count)
    write_words(at, words, 0, count)
    return packed


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
