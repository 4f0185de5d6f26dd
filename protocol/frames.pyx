# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Requests out of bytes and commands into bytes, for machines with a C compiler: `plain_frames` in C.

Both modules do the same, and the same tests hold for both; `packing` and `reader` take this one where it was built.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF
from libc.string cimport memcpy

ctypedef unsigned long long u64

cdef enum:
    SIZE_DIGITS_MAX = 18
    # Digits of a length that surely fits 64 bits; a longer one is left to the careful way.


cdef inline Py_ssize_t read_size(const char **place, const char *end) noexcept:
    """The canonical decimal at `place`, which is moved behind its CR LF; -1 if there is none, or not all of it."""
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
    """Whether this is `POST` or `Host:` in any case: their bytes are compared with the bit of case set."""
    if size == 4:
        return word[0] | 32 == c'p' and word[1] | 32 == c'o' and word[2] | 32 == c's' and word[3] | 32 == c't'
    return (
        size == 5 and word[0] | 32 == c'h' and word[1] | 32 == c'o' and word[2] | 32 == c's' and word[3] | 32 == c't'
        and word[4] == c':'
    )


def splitter():
    """What takes plain requests off the front of bytes, for one reader."""
    return split


def split(bytes data, Py_ssize_t bulk_size_max):
    """The whole requests that `data` begins with, and how many bytes they take. What follows is for the careful way.

    The list of a request is made for no more arguments than there are bytes for.
    """
    cdef const char *at = PyBytes_AS_STRING(data)
    cdef const char *start = at
    cdef const char *end = at + PyBytes_GET_SIZE(data)
    cdef Py_ssize_t taken = 0, count, index, size
    cdef list request
    cdef object argument
    cdef list requests = []
    while at < end and at[0] == c'*':
        at += 1
        count = read_size(&at, end)
        if count <= 0 or count > (end - at) // 6:
            break
        request = PyList_New(count)
        for index in range(count):
            if at == end or at[0] != c'$':
                return requests, taken
            at += 1
            size = read_size(&at, end)
            if size < 0 or size > bulk_size_max or size > end - at - 2 or at[size] != c'\r' or at[size + 1] != c'\n':
                return requests, taken
            if index == 0 and is_cross_protocol(at, size):
                return requests, taken
            argument = PyBytes_FromStringAndSize(at, size)
            Py_INCREF(argument)
            PyList_SET_ITEM(request, index, argument)
            at += size + 2
        requests.append(request)
        taken = at - start
    return requests, taken


cdef inline Py_ssize_t count_digits(u64 number) noexcept:
    cdef Py_ssize_t digits = 1
    while number >= 10:
        number //= 10
        digits += 1
    return digits


cdef inline char *write_number(char *at, u64 number) noexcept:
    """Its digits; answers where they end."""
    cdef char *end = at + count_digits(number)
    at = end
    while True:
        at -= 1
        at[0] = c'0' + <char>(number % 10)
        number //= 10
        if not number:
            return end


cdef inline char *write_header(char *at, char mark, Py_ssize_t number) noexcept:
    """`$5` or `*3` with its CR LF; answers where it ends."""
    at[0] = mark
    at = write_number(at + 1, number)
    at[0] = c'\r'
    at[1] = c'\n'
    return at + 2


cdef Py_ssize_t packed_size(words, Py_ssize_t start, Py_ssize_t end) except -1:
    """Bytes of the words from `start` to `end` (excluded) as bulk strings. Raises TypeError unless they are bytes."""
    cdef Py_ssize_t total = 0, size, index
    cdef object word
    for index in range(start, end):
        word = words[index]
        if not PyBytes_Check(word):
            raise TypeError(f"a word of a command is bytes, not {type(word).__name__}")
        size = PyBytes_GET_SIZE(word)
        total += count_digits(size) + size + 5
    return total


cdef char *write_words(char *at, words, Py_ssize_t start, Py_ssize_t end) except NULL:
    cdef Py_ssize_t size, index
    cdef object word
    for index in range(start, end):
        word = words[index]
        size = PyBytes_GET_SIZE(word)
        at = write_header(at, c'$', size)
        memcpy(at, PyBytes_AS_STRING(word), size)
        at += size
        at[0] = c'\r'
        at[1] = c'\n'
        at += 2
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
    """What an XADD leads to: the ID `ms-seq` as a bulk string; the entry in its reply form; and the record of it, which
    repeats `argv[:id_at]`, names the ID and then has the fields and values, `argv[pairs_at:]`.
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


def pack_adds(
    bytes key not None, const unsigned char[::1] data, const unsigned long long[::1] ends, Py_ssize_t low, Py_ssize_t high
):
    """The records `XADD key id field value ...` of the entries `low` to `high` (excluded) of a chunk.

    `data` holds entries in their reply form, of which `ends` has the ends: `*2 <id> *4 <f> <v> <f> <v>` becomes
    `*7 XADD <key> <id> <f> <v> <f> <v>`.
    """
    if not 0 <= low < high <= ends.shape[0] or ends[high - 1] > <unsigned long long>data.shape[0]:
        raise ValueError("no such entries")
    cdef bytes start = pack_command((b"XADD", key))[4:]
    cdef Py_ssize_t start_size = PyBytes_GET_SIZE(start)
    cdef const char *first = <const char *>&data[0]
    cdef const char *entry = first + (ends[low - 1] if low else 0)
    cdef const char *end = first + ends[high - 1]
    cdef const char *at_pairs
    cdef Py_ssize_t size, position, count
    # A record has a word more than its entry's reply has arrays, and its count may have a digit more.
    cdef bytes packed = PyBytes_FromStringAndSize(NULL, (end - entry) + (high - low) * start_size)
    cdef char *out = PyBytes_AS_STRING(packed)
    cdef char *at = out
    for position in range(low, high):
        end = first + ends[position]
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
