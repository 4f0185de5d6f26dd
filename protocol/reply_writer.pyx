# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Writes reply values, for installations with a C compiler: `reply_writer_plain` in C.

Both modules behave alike and are tested by the same tests; `encoder` imports this one if it was built. A reply becomes
one piece of output, and further ones only around what is encoded already and around long strings.
"""

from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.math cimport floor, signbit

from .replies import BigNumber, DoubleText, FormattedText, NullArray, PairList, Pairs, Push, Pushed, SetReply
from .replies import SimpleString, Verbatim
from .scalars import double_text

ctypedef unsigned long long u64

include "resp.pxi"

cdef extern from "Python.h":
    # Not 0 if it has set RecursionError: -1, or another number, depending on the version of Python.
    int Py_EnterRecursiveCall(const char *where) noexcept
    void Py_LeaveRecursiveCall()

cdef enum:
    # Bytes around a value at most: a mark, the digits of a 64-bit number, a sign, and CR LF twice.
    FRAME_SIZE_MAX = 32
    # Bytes of a reply that needs no memory of its own.
    SHORT_SIZE = 1024
    # A string of this size is a piece of its own, and is not copied.
    LONG_SIZE = 16384

# Larger whole doubles are left to `double_text`.
cdef double WHOLE_MAX = 9007199254740992.0

# By type: one lookup takes less time than comparing a type with a dozen others.
cdef enum Kind:
    LIST = 1, SET, PUSH, MAP, PAIR_LIST, ENCODED, SIMPLE, NULL_ARRAY, VERBATIM, FORMATTED, DOUBLE_TEXT
    BIG_NUMBER, BOOLEAN

cdef dict KINDS = {
    list: LIST, SetReply: SET, Push: PUSH, dict: MAP, Pairs: MAP, PairList: PAIR_LIST, tuple: ENCODED, Pushed: ENCODED,
    SimpleString: SIMPLE, NullArray: NULL_ARRAY, Verbatim: VERBATIM, FormattedText: FORMATTED,
    DoubleText: DOUBLE_TEXT, BigNumber: BIG_NUMBER, bool: BOOLEAN,
}

cdef struct Buffer:
    char *data
    Py_ssize_t size
    Py_ssize_t capacity
    # Memory of its own; NULL while the reply is short.
    char *block


cdef int reserve(Buffer *buffer, Py_ssize_t size) except -1:
    """Make room for that many bytes more."""
    cdef Py_ssize_t capacity = buffer.size + size
    cdef char *block
    if capacity <= buffer.capacity:
        return 0
    capacity += capacity >> 1
    block = <char *>PyMem_Realloc(buffer.block, capacity)
    if block == NULL:
        raise MemoryError
    if buffer.block == NULL:
        memcpy(block, buffer.data, buffer.size)
    buffer.data = buffer.block = block
    buffer.capacity = capacity
    return 0


cdef int flush(Buffer *buffer, list out) except -1:
    """Append what is in the buffer, which is then empty."""
    if buffer.size:
        out.append(PyBytes_FromStringAndSize(buffer.data, buffer.size))
        buffer.size = 0
    return 0


cdef int add_header(Buffer *buffer, char mark, Py_ssize_t number) except -1:
    reserve(buffer, FRAME_SIZE_MAX)
    buffer.size = write_header(buffer.data + buffer.size, mark, number) - buffer.data
    return 0


cdef int add_text(Buffer *buffer, const char *text, Py_ssize_t size) except -1:
    reserve(buffer, size)
    buffer.size = write_text(buffer.data + buffer.size, text, size) - buffer.data
    return 0


cdef int add_line(Buffer *buffer, char mark, bytes text) except -1:
    """Add a mark, a text and CR LF."""
    reserve(buffer, FRAME_SIZE_MAX)
    buffer.data[buffer.size] = mark
    buffer.size += 1
    add_text(buffer, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
    return add_text(buffer, b"\r\n", 2)


cdef int add_bulk(Buffer *buffer, value, list out) except -1:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(value)
    if size < LONG_SIZE:
        reserve(buffer, size + FRAME_SIZE_MAX)
        buffer.size = write_bulk(buffer.data + buffer.size, value) - buffer.data
        return 0
    add_header(buffer, c'$', size)
    flush(buffer, out)
    out.append(value if type(value) is bytes else bytes(value))
    return add_text(buffer, b"\r\n", 2)


cdef int add_integer(Buffer *buffer, value) except -1:
    cdef int overflow = 0
    cdef long long number = PyLong_AsLongLongAndOverflow(value, &overflow)
    cdef char *at
    if overflow:
        return add_line(buffer, c':', b"%d" % value)
    reserve(buffer, FRAME_SIZE_MAX)
    at = buffer.data + buffer.size
    at[0] = c':'
    at += 1
    if number < 0:
        at[0] = c'-'
        at += 1
    at = write_number(at, <u64>number if number >= 0 else 0 - <u64>number)
    at[0] = c'\r'
    at[1] = c'\n'
    buffer.size = at + 2 - buffer.data
    return 0


cdef int add_items(Buffer *buffer, list items, char mark, list out, bint is_resp3) except -1:
    """Add an array, or what looks like one."""
    add_header(buffer, mark, len(items))
    for item in items:
        add(buffer, item, out, is_resp3)
    return 0


cdef int add_map(Buffer *buffer, value, list out, bint is_resp3) except -1:
    cdef object key, item
    if is_resp3:
        add_header(buffer, c'%', len(value))
    else:
        add_header(buffer, c'*', 2 * len(value))
    if type(value) is dict:
        for key, item in (<dict>value).items():
            add(buffer, key, out, is_resp3)
            add(buffer, item, out, is_resp3)
        return 0
    for key, item in <list>value:
        add(buffer, key, out, is_resp3)
        add(buffer, item, out, is_resp3)
    return 0


cdef int add_pair_list(Buffer *buffer, list value, list out, bint is_resp3) except -1:
    cdef object key, item
    add_header(buffer, c'%' if is_resp3 else c'*', len(value))
    for key, item in value:
        if not is_resp3:
            add_header(buffer, c'*', 2)
        add(buffer, key, out, is_resp3)
        add(buffer, item, out, is_resp3)
    return 0


cdef int add_null(Buffer *buffer, bint is_array, bint is_resp3) except -1:
    if is_resp3:
        return add_text(buffer, b"_\r\n", 3)
    return add_text(buffer, b"*-1\r\n" if is_array else b"$-1\r\n", 5)


cdef int add_verbatim(Buffer *buffer, bytes text, bint is_formatted, list out, bint is_resp3) except -1:
    """Add a text for people, which begins with its format if `is_formatted` is set."""
    if is_resp3:
        return add_line(buffer, c'=', b"%d\r\n%b" % (len(text), text) if is_formatted
                        else b"%d\r\ntxt:%b" % (len(text) + 4, text))
    return add_bulk(buffer, text[4:] if is_formatted else text, out)


cdef int add_number_text(Buffer *buffer, char mark, bytes text, list out, bint is_resp3) except -1:
    return add_line(buffer, mark, text) if is_resp3 else add_bulk(buffer, text, out)


cdef int add_double(Buffer *buffer, value, list out, bint is_resp3) except -1:
    """Add a double. The digits of a whole one that 64 bits hold are written here."""
    cdef char text[FRAME_SIZE_MAX]
    cdef char *at = text
    cdef double number = value
    cdef long long whole
    if not -WHOLE_MAX < number < WHOLE_MAX or number != floor(number) or (number == 0 and signbit(number)):
        return add_number_text(buffer, c',', <bytes>double_text(value), out, is_resp3)
    whole = <long long>number
    if whole < 0:
        at[0] = c'-'
        at += 1
    at = write_number(at, <u64>whole if whole >= 0 else 0 - <u64>whole)
    add_header(buffer, c'$', at - text) if not is_resp3 else add_text(buffer, b",", 1)
    add_text(buffer, text, at - text)
    return add_text(buffer, b"\r\n", 2)


cdef int add(Buffer *buffer, value, list out, bint is_resp3) except -1:
    """Add a value. Raises TypeError if it is no reply value."""
    cdef object kind
    if type(value) is bytes:
        return add_bulk(buffer, value, out)
    if type(value) is int:
        return add_integer(buffer, value)
    if type(value) is float:
        return add_double(buffer, value, out, is_resp3)
    if value is None:
        return add_null(buffer, False, is_resp3)
    kind = KINDS.get(type(value))
    if kind is None:
        try:
            text = value.wire_text
        except AttributeError:
            raise TypeError(f"no reply value: {value!r}") from None
        return add_line(buffer, c'-', text)
    if Py_EnterRecursiveCall(" while a reply is written"):
        return -1
    try:
        return add_kind(buffer, <int>kind, value, out, is_resp3)
    finally:
        Py_LeaveRecursiveCall()


cdef int add_kind(Buffer *buffer, int kind, value, list out, bint is_resp3) except -1:
    if kind == LIST:
        return add_items(buffer, <list>value, c'*', out, is_resp3)
    if kind == SET:
        return add_items(buffer, <list>value, c'~' if is_resp3 else c'*', out, is_resp3)
    if kind == PUSH:
        return add_items(buffer, <list>value, c'>' if is_resp3 else c'*', out, is_resp3)
    if kind == MAP:
        return add_map(buffer, value, out, is_resp3)
    if kind == PAIR_LIST:
        return add_pair_list(buffer, <list>value, out, is_resp3)
    if kind == ENCODED:
        flush(buffer, out)
        out.extend(value)
        return 0
    if kind == SIMPLE:
        return add_line(buffer, c'+', <bytes>value)
    if kind == NULL_ARRAY:
        return add_null(buffer, True, is_resp3)
    if kind == BOOLEAN:
        if is_resp3:
            return add_text(buffer, b"#t\r\n" if value else b"#f\r\n", 4)
        return add_integer(buffer, value)
    if kind == VERBATIM or kind == FORMATTED:
        return add_verbatim(buffer, <bytes>value, kind == FORMATTED, out, is_resp3)
    if kind == BIG_NUMBER:
        return add_number_text(buffer, c'(', <bytes>value, out, is_resp3)
    return add_number_text(buffer, c',', <bytes>value, out, is_resp3)


cdef int write(value, list out, bint is_resp3) except -1:
    cdef char short[SHORT_SIZE]
    cdef Buffer buffer
    buffer.data, buffer.size, buffer.capacity, buffer.block = short, 0, SHORT_SIZE, NULL
    try:
        add(&buffer, value, out, is_resp3)
        return flush(&buffer, out)
    finally:
        PyMem_Free(buffer.block)


def bulks(list words not None):
    """See `reply_writer_plain.bulks`."""
    cdef Py_ssize_t size = 0
    cdef bytes word, made
    cdef char *at
    for word in words:
        if word is None:
            raise TypeError("a word is bytes, not NoneType")
        size += bulk_size(word)
    made = PyBytes_FromStringAndSize(NULL, size)
    at = PyBytes_AS_STRING(made)
    for word in words:
        at = write_bulk(at, word)
    return made


def encode2(value, list out not None):
    """See `reply_writer_plain.encode2`."""
    write(value, out, False)


def encode3(value, list out not None):
    """See `reply_writer_plain.encode3`."""
    write(value, out, True)
