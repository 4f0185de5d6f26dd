# Reads and writes RESP: requests, bulk strings and numbers. Included by the `.pyx` modules that do, which define `u64`.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF
from libc.string cimport memcpy

cdef enum:
    # A length of this many digits always fits 64 bits. Longer ones are left to the careful parser.
    SIZE_DIGITS_MAX = 18


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


cdef inline Py_ssize_t count_digits(u64 number) noexcept:
    cdef Py_ssize_t digits = 1
    if number >= 1000000000000ULL:  # a time, as most long numbers
        number //= 1000000000000ULL
        digits += 12
    while number >= 10000:
        number //= 10000
        digits += 4
    return digits + (number >= 10) + (number >= 100) + (number >= 1000)


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
