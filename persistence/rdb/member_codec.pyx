# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The texts of hashes, lists, sets and sorted sets in RDB files, for installations with a C compiler:
`member_codec_plain` in C.

Both modules behave alike and are tested by the same tests; the modules of these types import this one if it was built.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcpy

from headrace.persistence.errors import RdbError
from headrace.persistence.rdb.listpack import unpack

ctypedef unsigned int u32
ctypedef unsigned long long u64

include "numbers.pxi"
include "strings.pxi"
include "../../store/listpack.pxi"
include "lzf.pxi"
include "buffer.pxi"

cdef enum:
    SCORE_SIZE = 8

cdef u64 LISTPACK_SIZE_MAX = 0xFFFFFFFF


def encode_strings(list texts not None, bint compress):
    """See `member_codec_plain`."""
    cdef Buffer to = Buffer()
    for text in texts:
        append_string(to, text, compress)
    return to.take()


def encode_scored(list words not None, bint compress):
    """See `member_codec_plain`."""
    cdef Buffer to = Buffer()
    cdef Py_ssize_t index
    cdef double score
    cdef u64 bits
    for index in range(0, len(words) - 1, 2):
        append_string(to, words[index], compress)
        score = words[index + 1]
        memcpy(&bits, &score, SCORE_SIZE)
        to.reserve(SCORE_SIZE)
        write_little(to.at, bits, SCORE_SIZE)
        to.at += SCORE_SIZE
    return to.take()


def encode_timed(list pairs not None, list times not None, i64 first_ms, bint compress):
    """See `member_codec_plain`."""
    cdef Buffer to = Buffer()
    cdef Py_ssize_t index
    cdef object name, text
    cdef i64 time_ms
    if len(times) != len(pairs):
        raise ValueError(len(times))
    for index in range(len(pairs)):
        name, text = pairs[index]
        time_ms = times[index]
        to.reserve(LENGTH_SIZE_MAX)
        to.at = write_length(to.at, <u64>(time_ms - first_ms + 1) if time_ms else 0)
        append_string(to, name, compress)
        append_string(to, text, compress)
    return to.take()


def read_scored(bytes block not None, Py_ssize_t position, Py_ssize_t count):
    """See `member_codec_plain`."""
    cdef const unsigned char *start = <const unsigned char *>PyBytes_AS_STRING(block)
    cdef const unsigned char *end = start + PyBytes_GET_SIZE(block)
    cdef const unsigned char *at
    cdef const unsigned char *done
    cdef list members = [], scores = []
    cdef object member
    cdef u64 bits
    cdef double score
    if not 0 <= position <= PyBytes_GET_SIZE(block):
        raise IndexError("no such position")
    done = at = start + position
    while len(members) < count:
        try:
            member = read_string(&at, end)
        except RdbError:
            break
        if member is None or end - at < SCORE_SIZE:
            break
        bits = read_little(at, SCORE_SIZE)
        memcpy(&score, &bits, SCORE_SIZE)
        members.append(member)
        scores.append(score)
        at += SCORE_SIZE
        done = at
    return members, scores, done - start


def read_timed(bytes block not None, Py_ssize_t position, Py_ssize_t count):
    """See `member_codec_plain`."""
    cdef const unsigned char *start = <const unsigned char *>PyBytes_AS_STRING(block)
    cdef const unsigned char *end = start + PyBytes_GET_SIZE(block)
    cdef const unsigned char *at
    cdef const unsigned char *done
    cdef list words = [], times = []
    cdef object name, text
    cdef u64 after = 0
    if not 0 <= position <= PyBytes_GET_SIZE(block):
        raise IndexError("no such position")
    done = at = start + position
    while len(times) < count:
        if not read_length(&at, end, &after):
            break
        try:
            name = read_string(&at, end)
            text = None if name is None else read_string(&at, end)
        except RdbError:
            break
        if text is None:
            break
        words.append(name)
        words.append(text)
        times.append(after)
        done = at
    return words, times, done - start


def pack_texts(list texts not None):
    """See `member_codec_plain`."""
    cdef Py_ssize_t room = LISTPACK_HEADER_SIZE + 1
    cdef bytes text, packed
    cdef unsigned char *start
    cdef unsigned char *at
    for text in texts:
        room += PyBytes_GET_SIZE(text) + ELEMENT_FRAME_MAX
    packed = PyBytes_FromStringAndSize(NULL, room)
    start = <unsigned char *>PyBytes_AS_STRING(packed)
    at = start + LISTPACK_HEADER_SIZE
    for text in texts:
        at = write_element(at, <const unsigned char *>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
    at[0] = LISTPACK_END
    at += 1
    if <u64>(at - start) > LISTPACK_SIZE_MAX:
        raise OverflowError("a listpack of more than 4 GiB")
    write_little(start, at - start, 4)
    write_little(start + 4, min(<u64>len(texts), <u64>LISTPACK_COUNT_UNKNOWN), 2)
    return packed[: at - start]


def unpack_texts(bytes data not None):
    """See `member_codec_plain`."""
    cdef const unsigned char *at = <const unsigned char *>PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
    cdef const unsigned char *end = at + size - 1
    cdef list texts = []
    cdef Element element
    cdef char digits[INTEGER_ROOM]
    cdef u64 count
    if size <= LISTPACK_HEADER_SIZE or read_little(at, 4) != <u64>size or end[0] != LISTPACK_END:
        raise damaged(data)
    count = read_little(at + 4, 2)
    at += LISTPACK_HEADER_SIZE
    while at < end:
        if not read_element(&at, end, &element):
            raise damaged(data)
        if element.text != NULL:
            texts.append(PyBytes_FromStringAndSize(<const char *>element.text, element.size))
        else:
            texts.append(PyBytes_FromStringAndSize(digits, snprintf(digits, sizeof(digits), b"%lld", element.number)))
    if count != LISTPACK_COUNT_UNKNOWN and count != <u64>len(texts):
        raise damaged(data)
    return texts


cdef object damaged(bytes data):
    """The error of a damaged listpack: the slower form tells what is wrong."""
    try:
        unpack(data)
    except RdbError as error:
        return error
    return AssertionError(data)


def read_some(bytes block not None, Py_ssize_t position, Py_ssize_t count):
    """See `member_codec_plain`."""
    cdef const unsigned char *start = <const unsigned char *>PyBytes_AS_STRING(block)
    cdef const unsigned char *end = start + PyBytes_GET_SIZE(block)
    cdef const unsigned char *at
    cdef const unsigned char *done
    cdef list texts = []
    if not 0 <= position <= PyBytes_GET_SIZE(block):
        raise IndexError("no such position")
    done = at = start + position
    while len(texts) < count:
        try:
            text = read_string(&at, end)
        except RdbError:
            break
        if text is None:
            break
        texts.append(text)
        done = at
    return texts, done - start
