"""CRC-64 "Jones", the checksum of RDB files and DUMP payloads: `crc64` for installations without a C compiler. Both
behave alike.

A CRC is the remainder of the data, read as a polynomial over two elements, divided by another one, P. Python's long
integers add such polynomials (`^`) and multiply them by powers of x (`<<`) at memory speed, so most of the division is
done on whole blocks. It rests on one congruence: x^214 has an unusually short remainder modulo P, a sum of twenty
powers of x. In this field squaring squares every term, so x^(214 m) is the sum of the same powers, each times m, for
every m that is a power of two. The front of a block represents `head * x^(214 m)`. It is therefore replaced by adding
it to the rest twenty times, shifted. Halving a block in this way until 214 bytes are left takes some 6 ns a byte, a
fifteenth of going through a table byte by byte, which only the last bytes do.

Bits are reflected as in the CRC itself: the lowest bit of the first byte is the highest power of x, so multiplying by a
power of x is a shift to the right, and what is shifted to the left is everything else.

Check value: the CRC of `123456789` is 0xe9c6d914c4b8d9ca. Source: Redis 8.10.2, as observed.
"""

from __future__ import annotations

from typing import Final

# P without x^64, reflected.
POLYNOMIAL: Final = 0x95AC9329AC4BC9B5

# Bytes of the end of a payload: its version and its checksum.
VERSION_SIZE: Final = 2
CHECKSUM_SIZE: Final = 8

# Bytes divided at once: few enough to stay in the processor's cache.
BLOCK_SIZE: Final = 256 * 1024

# x^214 to the power of eight, so that all shifts are whole bytes; also the bits that go through the table.
FOLD_BITS: Final = 214 * 8


def _table() -> list[int]:
    """The CRC of each byte."""
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ (POLYNOMIAL if crc & 1 else 0)
        table.append(crc)
    return table


def _remainder_exponents(power: int) -> list[int]:
    """The powers of x, ascending, whose sum is the remainder of x^power."""
    remainder = 1 << 63  # x^0, reflected
    for _ in range(power):
        remainder = remainder >> 1 ^ (POLYNOMIAL if remainder & 1 else 0)
    return [exponent for exponent in range(64) if remainder >> (63 - exponent) & 1]


_TABLE: Final = _table()
_EXPONENTS: Final = [8 * exponent for exponent in _remainder_exponents(214)]
_LARGEST: Final = _EXPONENTS[-1]


def crc64(data: bytes | memoryview[int], crc: int = 0) -> int:
    """Return the CRC of `data`, continued from `crc`, that of the bytes before."""
    if len(data) <= BLOCK_SIZE:
        return _block_crc(data, crc)
    view = memoryview(data)
    for start in range(0, len(data), BLOCK_SIZE):
        crc = _block_crc(view[start : start + BLOCK_SIZE], crc)
    return crc


def _block_crc(data: bytes | memoryview[int], crc: int) -> int:
    bits = 8 * len(data)
    if bits > FOLD_BITS:
        data = _folded(int.from_bytes(data, "little") ^ crc, bits)
        crc = 0
    table = _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc


def _folded(number: int, bits: int) -> bytes:
    """Return data of FOLD_BITS with the remainder of `number`, which has more `bits`."""
    while bits > FOLD_BITS:
        scale = ((bits - 1) // FOLD_BITS).bit_length() - 1
        # The head is as long as possible, but once shifted it must not exceed the rest.
        room = (FOLD_BITS - _LARGEST) << scale
        head_bits = min(bits - (FOLD_BITS << scale), room)
        head = number & ((1 << head_bits) - 1)
        total = 0
        for exponent in _EXPONENTS:
            total ^= head << ((_LARGEST - exponent) << scale)
        number = number >> head_bits ^ total << (room - head_bits)
        bits -= head_bits
    return number.to_bytes(FOLD_BITS // 8, "little")


def payload_end(pieces: list[bytes], version: int) -> bytes:
    """The end of a payload of DUMP: its version, in two bytes, and the CRC of all before."""
    crc = 0
    for piece in pieces:
        crc = crc64(piece, crc)
    packed = version.to_bytes(VERSION_SIZE, "little")
    return packed + crc64(packed, crc).to_bytes(CHECKSUM_SIZE, "little")


def has_right_end(payload: bytes, version_max: int) -> bool:
    """Whether a payload has a version that is known, and the CRC of all before or, as if it had none, zero."""
    size = len(payload) - CHECKSUM_SIZE
    if size < VERSION_SIZE or int.from_bytes(payload[size - VERSION_SIZE : size], "little") > version_max:
        return False
    checksum = int.from_bytes(payload[size:], "little")
    return not checksum or checksum == crc64(memoryview(payload)[:size])
