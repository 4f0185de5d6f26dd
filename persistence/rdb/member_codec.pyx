# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The texts of hashes, lists, sets and sorted sets in RDB files, for installations with a C compiler:
`member_codec_plain` in C.

Both modules behave alike and are tested by the same tests; the modules of these types import this one if it was built.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from libc.string cimport memchr, memcpy

from headrace.persistence.errors import RdbError
from headrace.persistence.rdb.intset import unpack_integers as unpack_slowly
from headrace.persistence.rdb.listpack import unpack

cdef extern from "Python.h":
    double PyOS_string_to_double(const char *text, char **end, PyObject *overflow_exception) except? -1.0

ctypedef unsigned char u8
ctypedef unsigned int u32
ctypedef unsigned long long u64

include "numbers.pxi"
include "../../protocol/double_text.pxi"
include "../../store/companions/place_text.pxi"
include "../../store/decimal_text.pxi"
include "strings.pxi"
include "../../store/listpack.pxi"
include "lzf.pxi"
include "buffer.pxi"

cdef enum:
    SCORE_SIZE = 8
    # Elements of arrays: see `arrays`.
    ELEMENT_STRING = 0
    ELEMENT_INTEGER = 1
    ELEMENT_DOUBLE = 2
    ELEMENT_SHORT = 3
    SHORT_SIZE_MAX = 7
    INTEGER_BITS = 61
    DOUBLE_TEXT_SIZE_MAX = 32
    TAG_MASK = 3
    # Bytes of an intset before its numbers.
    INTSET_HEADER_SIZE = 8

cdef u64 LISTPACK_SIZE_MAX = 0xFFFFFFFF
# Doubles below this have no fraction if they are equal to an integer.
cdef double WHOLE_MAX = <double>(<i64>1 << 53)


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


def encode_timed(list words not None, dict times not None, i64 first_ms, bint compress):
    """See `member_codec_plain`."""
    cdef Buffer to = Buffer()
    cdef Py_ssize_t index
    cdef PyObject *found
    cdef i64 time_ms
    for index in range(0, len(words) - 1, 2):
        found = PyDict_GetItem(times, words[index])
        time_ms = 0
        if found != NULL:
            time_ms = <object>found
        to.reserve(LENGTH_SIZE_MAX)
        to.at = write_length(to.at, <u64>(time_ms - first_ms + 1) if found != NULL else 0)
        append_string(to, words[index], compress)
        append_string(to, words[index + 1], compress)
    return to.take()


cdef bytes double_element(double number):
    """See `array_elements`."""
    cdef char text[TEXT_SIZE_MAX]
    cdef Py_ssize_t size = write_shortest(text, number)
    if memchr(text, c'.', size) == NULL and memchr(text, c'e', size) == NULL:
        memcpy(text + size, b".0", 2)
        size += 2
    return PyBytes_FromStringAndSize(text, size)


cdef bint read_double(bytes text, u64 *bits) except -1:
    """Whether a text is that of a double whose last bits are zero, which is then read."""
    cdef const char *start = PyBytes_AS_STRING(text)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(text), at
    cdef bint has_point = False
    cdef double number
    if size > DOUBLE_TEXT_SIZE_MAX:
        return False
    for at in range(size):
        if start[at] == c'.':
            if has_point:
                return False
            has_point = True
        elif not c'0' <= start[at] <= c'9' and (at or start[at] != c'-'):
            return False
    # A text such as `-.` is not a number.
    if not has_point or not c'0' <= start[size - 1] <= c'9':
        return False
    number = PyOS_string_to_double(start, NULL, NULL)
    memcpy(bits, &number, sizeof(number))
    return not bits[0] & TAG_MASK and double_element(number) == text


def encode_elements(list pairs not None, bint compress):
    """See `member_codec_plain`."""
    cdef Buffer to = Buffer()
    cdef list pair
    cdef bytes text
    cdef Py_ssize_t size
    cdef i64 number = 0
    cdef u64 bits = 0
    for pair in pairs:
        text = pair[1]
        size = PyBytes_GET_SIZE(text)
        to.reserve(LENGTH_SIZE_MAX + 1 + SCORE_SIZE)
        to.at = write_length(to.at, pair[0])
        if (
            size and read_integer(<const unsigned char *>PyBytes_AS_STRING(text), size, &number)
            and -(<i64>1 << INTEGER_BITS) <= number < <i64>1 << INTEGER_BITS
        ):
            to.at[0] = ELEMENT_INTEGER
            write_little(to.at + 1, <u64>number, SCORE_SIZE)
            to.at += 1 + SCORE_SIZE
        elif read_double(text, &bits):
            to.at[0] = ELEMENT_DOUBLE
            write_little(to.at + 1, bits, SCORE_SIZE)
            to.at += 1 + SCORE_SIZE
        elif size <= SHORT_SIZE_MAX:
            to.at[0], to.at[1] = ELEMENT_SHORT, <unsigned char>size
            memcpy(to.at + 2, PyBytes_AS_STRING(text), size)
            to.at += 2 + size
        else:
            to.at[0] = ELEMENT_STRING
            to.at += 1
            append_string(to, text, compress)
    return to.take()


def read_elements(bytes block not None, Py_ssize_t position, Py_ssize_t count):
    """See `member_codec_plain`."""
    cdef const unsigned char *start = <const unsigned char *>PyBytes_AS_STRING(block)
    cdef const unsigned char *end = start + PyBytes_GET_SIZE(block)
    cdef const unsigned char *at
    cdef const unsigned char *done
    cdef list indexes = [], elements = []
    cdef char digits[INTEGER_ROOM]
    cdef u64 index = 0, bits
    cdef double number
    cdef int kind
    if not 0 <= position <= PyBytes_GET_SIZE(block):
        raise IndexError("no such position")
    done = at = start + position
    while len(indexes) < count and read_length(&at, end, &index) and at < end:
        kind = at[0]
        at += 1
        if kind == ELEMENT_STRING:
            try:
                text = read_string(&at, end)
            except RdbError:
                break
            if text is None:
                break
        elif kind == ELEMENT_SHORT:
            if at == end or end - at <= at[0]:
                break
            text = PyBytes_FromStringAndSize(<const char *>at + 1, at[0])
            at += 1 + at[0]
        elif kind > ELEMENT_SHORT or end - at < SCORE_SIZE:
            break
        else:
            bits = read_little(at, SCORE_SIZE)
            at += SCORE_SIZE
            if kind == ELEMENT_INTEGER:
                text = PyBytes_FromStringAndSize(digits, write_decimal(digits, <i64>bits))
            else:
                memcpy(&number, &bits, SCORE_SIZE)
                text = double_element(number)
        indexes.append(index)
        elements.append(text)
        done = at
    return indexes, elements, done - start


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
    return finished(packed, at, len(texts))


def pack_places(list places not None):
    """See `member_codec_plain`."""
    cdef size_t room = LISTPACK_HEADER_SIZE + 1
    cdef bytes packed, place
    cdef char text[TEXT_SIZE_MAX]
    cdef unsigned char *at
    cdef double score
    for place in places:
        demand(place)
        room += PyBytes_GET_SIZE(place) + 2 * ELEMENT_FRAME_MAX + TEXT_SIZE_MAX
    packed = PyBytes_FromStringAndSize(NULL, room)
    at = <unsigned char *>PyBytes_AS_STRING(packed) + LISTPACK_HEADER_SIZE
    for place in places:
        score = read_score(<const unsigned char *>PyBytes_AS_STRING(place))
        at = write_element(
            at, <const unsigned char *>PyBytes_AS_STRING(place) + SCORE_BYTES, PyBytes_GET_SIZE(place) - SCORE_BYTES
        )
        if -WHOLE_MAX < score < WHOLE_MAX and score == <double><i64>score and (score or not signbit(score)):
            at = write_integer(at, <i64>score)
        else:
            at = write_element(at, <const unsigned char *>text, write_double(text, score))
    return finished(packed, at, 2 * len(places))


cdef bytes finished(bytes packed, unsigned char *at, Py_ssize_t count):
    """Return a listpack whose elements end at a place."""
    cdef unsigned char *start = <unsigned char *>PyBytes_AS_STRING(packed)
    at[0] = LISTPACK_END
    at += 1
    if <u64>(at - start) > LISTPACK_SIZE_MAX:
        raise OverflowError("a listpack of more than 4 GiB")
    write_little(start, at - start, 4)
    write_little(start + 4, min(<u64>count, <u64>LISTPACK_COUNT_UNKNOWN), 2)
    return packed[: at - start]


def pack_integers(list numbers not None):
    """See `intset`."""
    cdef Py_ssize_t count = len(numbers), index
    cdef i64 first, last
    cdef int size = 8
    cdef bytes packed
    cdef unsigned char *at
    if not count:
        raise IndexError("there are no numbers")
    first, last = numbers[0], numbers[count - 1]
    if -(1 << 15) <= first and last < 1 << 15:
        size = 2
    elif -(<i64>1 << 31) <= first and last < <i64>1 << 31:
        size = 4
    packed = PyBytes_FromStringAndSize(NULL, INTSET_HEADER_SIZE + size * count)
    at = <unsigned char *>PyBytes_AS_STRING(packed)
    write_little(at, size, 4)
    write_little(at + 4, count, 4)
    at += INTSET_HEADER_SIZE
    for index in range(count):
        write_little(at, <u64><i64>numbers[index], size)
        at += size
    return packed


def unpack_integers(bytes data not None):
    """See `intset`."""
    cdef const unsigned char *at = <const unsigned char *>PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
    cdef u64 width, count, index
    cdef list numbers
    cdef i64 number, before = 0
    if size >= INTSET_HEADER_SIZE:
        width, count = read_little(at, 4), read_little(at + 4, 4)
        if (width == 2 or width == 4 or width == 8) and <u64>size == INTSET_HEADER_SIZE + width * count:
            at += INTSET_HEADER_SIZE
            numbers = []
            for index in range(count):
                # The sign is the top bit of the last byte.
                number = <i64>(read_little(at, <int>width) << 64 - 8 * width) >> 64 - 8 * width
                if index and number <= before:
                    break
                numbers.append(number)
                before = number
                at += width
            else:
                return numbers
    # The slower form tells what is wrong.
    return unpack_slowly(data)


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
            texts.append(PyBytes_FromStringAndSize(digits, write_decimal(digits, element.number)))
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
