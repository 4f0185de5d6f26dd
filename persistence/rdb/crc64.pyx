# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""CRC-64 "Jones", for installations with a C compiler: `crc64_plain` in C, by tables, sixteen bytes at a time.

Both modules behave alike and are tested by the same tests; `primitives` imports this one if it was built.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

ctypedef unsigned long long u64

include "../../store/byte_order.pxi"

cdef enum:
    TABLES_COUNT = 16
    # Bytes of the end of a payload: its version and its checksum.
    VERSION_SIZE = 2
    CHECKSUM_SIZE = 8

# The CRC of each byte, followed by 0 to 15 zeros.
cdef u64 tables[TABLES_COUNT][256]


cdef void fill_tables() noexcept:
    cdef u64 crc
    cdef int byte, bit, index
    for byte in range(256):
        crc = byte
        for bit in range(8):
            crc = crc >> 1 ^ (<u64> 0x95AC9329AC4BC9B5ULL if crc & 1 else 0)
        tables[0][byte] = crc
    for index in range(1, TABLES_COUNT):
        for byte in range(256):
            crc = tables[index - 1][byte]
            tables[index][byte] = tables[0][crc & 0xFF] ^ crc >> 8


fill_tables()


cdef inline u64 word_at(const unsigned char *at) noexcept nogil:
    """Eight bytes, little-endian on every machine. Compilers turn this into one load."""
    return (
        <u64> at[0] | <u64> at[1] << 8 | <u64> at[2] << 16 | <u64> at[3] << 24
        | <u64> at[4] << 32 | <u64> at[5] << 40 | <u64> at[6] << 48 | <u64> at[7] << 56
    )


cdef inline u64 crc_of_word(u64 word, int zeros) noexcept nogil:
    """The CRC of eight bytes that are followed by so many zeros."""
    return (
        tables[zeros + 7][word & 0xFF] ^ tables[zeros + 6][word >> 8 & 0xFF] ^ tables[zeros + 5][word >> 16 & 0xFF]
        ^ tables[zeros + 4][word >> 24 & 0xFF] ^ tables[zeros + 3][word >> 32 & 0xFF]
        ^ tables[zeros + 2][word >> 40 & 0xFF] ^ tables[zeros + 1][word >> 48 & 0xFF] ^ tables[zeros][word >> 56]
    )


cdef u64 crc_of(const unsigned char *at, Py_ssize_t size, u64 crc) noexcept nogil:
    while size >= 16:
        # The second half does not wait for the CRC of the bytes before.
        crc = crc_of_word(crc ^ word_at(at), 8) ^ crc_of_word(word_at(at + 8), 0)
        at += 16
        size -= 16
    while size:
        crc = tables[0][(crc ^ at[0]) & 0xFF] ^ crc >> 8
        at += 1
        size -= 1
    return crc


cdef inline u64 crc_of_bytes(data, Py_ssize_t size, u64 crc) noexcept:
    return crc_of(<const unsigned char *>PyBytes_AS_STRING(data), size, crc)


cdef u64 crc_of_view(const unsigned char[::1] data, u64 crc):
    return crc_of(&data[0], data.shape[0], crc) if data.shape[0] else crc


def crc64(data not None, u64 crc=0):
    """Return the CRC of `data`, continued from `crc`, that of the bytes before."""
    if PyBytes_Check(data):
        return crc_of_bytes(data, PyBytes_GET_SIZE(data), crc)
    return crc_of_view(data, crc)


def payload_end(list pieces not None, int version):
    """See `crc64_plain`."""
    cdef unsigned char end[VERSION_SIZE + CHECKSUM_SIZE]
    cdef u64 crc = 0
    for piece in pieces:
        if not PyBytes_Check(piece):
            raise TypeError("bytes were expected")
        crc = crc_of_bytes(piece, PyBytes_GET_SIZE(piece), crc)
    write_little(end, <u64>version, VERSION_SIZE)
    write_little(end + VERSION_SIZE, crc_of(end, VERSION_SIZE, crc), CHECKSUM_SIZE)
    return PyBytes_FromStringAndSize(<char *>end, VERSION_SIZE + CHECKSUM_SIZE)


def has_right_end(bytes payload not None, int version_max):
    """See `crc64_plain`."""
    cdef const unsigned char *start = <const unsigned char *>PyBytes_AS_STRING(payload)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(payload) - CHECKSUM_SIZE
    cdef u64 checksum
    if size < VERSION_SIZE or read_little(start + size - VERSION_SIZE, VERSION_SIZE) > <u64>version_max:
        return False
    checksum = read_little(start + size, CHECKSUM_SIZE)
    return not checksum or checksum == crc_of(start, size, 0)
