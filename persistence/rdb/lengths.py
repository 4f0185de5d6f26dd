"""Lengths and strings, the two things an RDB file is made of.

A length takes 6 bits in one byte, 14 in two, or 32 or 64 bits after a byte, high part first. For a string, the first
byte may instead give its encoding: as an integer of 8, 16 or 32 bits, or compressed. All strings are written in the
shortest of these forms: values, names and whole listpacks alike.
"""

from __future__ import annotations

from sys import maxsize
from typing import Final

from ..errors import RdbError
from . import primitives
from .source import Source

INT8: Final = 0xC0
INT16: Final = 0xC1
INT32: Final = 0xC2
LZF: Final = 0xC3
_INTEGER_SIZES: Final = {INT8: 1, INT16: 2, INT32: 4}

# The length that stands for -1.
UNKNOWN: Final = 2**64 - 1

# Characters of the longest integer of 32 bits.
INTEGER_TEXT_SIZE_MAX: Final = 11
# Shorter strings are not compressed.
COMPRESSED_SIZE_MIN: Final = 21
# Longer strings are not compressed in the pure form, where that takes half a second per MiB.
COMPRESSED_SIZE_MAX: Final = maxsize if primitives.IS_COMPILED else 64 * 1024
# Bytes that compression must save.
COMPRESSION_GAIN_MIN: Final = 4

_LENGTHS: Final = [bytes((number,)) for number in range(64)]


def encode_length(number: int) -> bytes:
    """An unsigned number of 64 bits."""
    if number < 64:
        return _LENGTHS[number]
    if number < 1 << 14:
        return (0x4000 | number).to_bytes(2, "big")
    if number < 1 << 32:
        return b"\x80" + number.to_bytes(4, "big")
    return b"\x81" + number.to_bytes(8, "big")


def encode_string(text: bytes, *, compress: bool) -> bytes:
    """A string in its shortest form; `compress` is `rdbcompression`."""
    return b"".join(string_parts(text, compress=compress))


def string_parts(text: bytes, *, compress: bool) -> tuple[bytes, bytes]:
    """What `encode_string` returns, in two parts: a long text that is not compressed is not copied."""
    size = len(text)
    if size <= INTEGER_TEXT_SIZE_MAX:
        encoded = _encode_integer(text)
        if encoded is not None:
            return encoded, b""
    elif compress and COMPRESSED_SIZE_MIN <= size <= COMPRESSED_SIZE_MAX:
        compressed = primitives.compress(text, size - COMPRESSION_GAIN_MIN)
        if compressed is not None:
            return b"\xc3" + encode_length(len(compressed)) + encode_length(size), compressed
    return encode_length(size), text


def _encode_integer(text: bytes) -> bytes | None:
    """Encode text that is a canonical 32-bit integer; None for other text."""
    digits = text[1:] if text[:1] == b"-" else text
    if not digits.isdigit():
        return None
    number = int(text)
    if b"%d" % number != text:
        return None
    for kind, size in _INTEGER_SIZES.items():
        if -(1 << 8 * size - 1) <= number < 1 << 8 * size - 1:
            return bytes((kind,)) + number.to_bytes(size, "little", signed=True)
    return None


def read_length(source: Source) -> int:
    """The next length. Raises RdbError."""
    first = source.byte()
    if first < 64:
        return first
    if first >= 0xC0:
        raise RdbError(f"A length was expected at offset {source.offset - 1}, not a string of kind {first & 0x3F}")
    return _read_long_length(first, source)


def _read_long_length(first: int, source: Source) -> int:
    if first < 0x80:
        return (first & 0x3F) << 8 | source.byte()
    if first in (0x80, 0x81):
        return int.from_bytes(source.take(4 if first == 0x80 else 8), "big")
    raise RdbError(f"Unknown length encoding {first} at offset {source.offset - 1}")


def read_string(source: Source) -> bytes:
    """The next string. Raises RdbError."""
    first = source.byte()
    if first < 64:
        return source.take(first)
    if first < 0xC0:
        return source.take(_read_long_length(first, source))
    if first in _INTEGER_SIZES:
        return b"%d" % int.from_bytes(source.take(_INTEGER_SIZES[first]), "little", signed=True)
    if first != LZF:
        raise RdbError(f"Unknown RDB string encoding type {first & 0x3F}")
    compressed_size, size = read_length(source), read_length(source)
    return primitives.decompress(source.take(compressed_size), size)


def skip_string(source: Source) -> None:
    """Skip the next string. Raises RdbError."""
    first = source.byte()
    if first in _INTEGER_SIZES:
        source.skip(_INTEGER_SIZES[first])
    elif first == LZF:
        size = read_length(source)
        read_length(source)
        source.skip(size)
    elif first < 64:
        source.skip(first)
    elif first < 0xC0:
        source.skip(_read_long_length(first, source))
    else:
        raise RdbError(f"Unknown RDB string encoding type {first & 0x3F}")


def read_time_ms(source: Source) -> int:
    """Unix time in ms, -1 for never; eight bytes. Raises RdbError."""
    return int.from_bytes(source.take(8), "little", signed=True)


def encode_time_ms(time_ms: int) -> bytes:
    """The inverse."""
    return time_ms.to_bytes(8, "little", signed=True)
