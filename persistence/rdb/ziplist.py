"""Ziplists and zipmaps, in which old versions of Redis kept small values.

`ziplist: <size, 4 bytes> <offset of the last element, 4 bytes> <count, 2 bytes> elements 0xFF`, little-endian. An
element has the size of the one before it (1 byte, or 0xFE and 4 bytes), its kind and length, and its data.

`zipmap: <count, 1 byte> (<length> key <length> <unused, 1 byte> value unused)... 0xFF`; a length has 1 byte, or 0xFE
and 4 bytes.
"""

from __future__ import annotations

import struct
from typing import Final

from ..errors import RdbError

HEADER_SIZE: Final = 10
END: Final = 0xFF
LONG: Final = 0xFE
COUNT_UNKNOWN: Final = 0xFFFF

_INTEGER_SIZES: Final = {0xC0: 2, 0xD0: 4, 0xE0: 8, 0xF0: 3, 0xFE: 1}


def unpack_ziplist(data: bytes) -> list[bytes]:
    """Return the elements as texts. Raises RdbError."""
    try:
        return _unpack_ziplist(data)
    except (IndexError, struct.error):
        raise _damaged("an element that exceeds its end") from None


def _unpack_ziplist(data: bytes) -> list[bytes]:
    total, tail, count = struct.unpack_from("<IIH", data)
    if total != len(data) or data[-1] != END:
        raise _damaged("the length is not the announced one")
    texts: list[bytes] = []
    position, last, previous_size = HEADER_SIZE, HEADER_SIZE, 0
    while data[position] != END:
        start = position
        announced = data[position]
        position += 1
        if announced == LONG:
            announced = struct.unpack_from("<I", data, position)[0]
            position += 4
        if announced != previous_size:
            raise _damaged("an element with a wrong back length")
        text, position = _element(data, position)
        texts.append(text)
        last, previous_size = start, position - start
    if position != len(data) - 1 or count not in (len(texts), COUNT_UNKNOWN) or (texts and tail != last):
        raise _damaged("the number of elements is not the announced one")
    return texts


def _element(data: bytes, position: int) -> tuple[bytes, int]:
    """The element whose kind is at a position, and the position after it."""
    kind = data[position]
    if kind < 0xC0:
        if kind < 0x40:
            size, position = kind, position + 1
        elif kind < 0x80:
            size, position = (kind & 0x3F) << 8 | data[position + 1], position + 2
        else:
            size, position = struct.unpack_from(">I", data, position + 1)[0], position + 5
        if position + size >= len(data):
            raise _damaged("an element that exceeds its end")
        return data[position : position + size], position + size
    if 0xF1 <= kind <= 0xFD:
        return b"%d" % (kind - 0xF1), position + 1
    integer_size = _INTEGER_SIZES.get(kind)
    if integer_size is None:
        raise _damaged("an element of unknown kind")
    end = position + 1 + integer_size
    if end >= len(data):
        raise _damaged("an element that exceeds its end")
    return b"%d" % int.from_bytes(data[position + 1 : end], "little", signed=True), end


def unpack_zipmap(data: bytes) -> list[bytes]:
    """Return keys and values in turn. Raises RdbError."""
    try:
        return _unpack_zipmap(data)
    except (IndexError, struct.error):
        raise RdbError("Zipmap integrity check failed: an element that exceeds its end") from None


def _unpack_zipmap(data: bytes) -> list[bytes]:
    words: list[bytes] = []
    position = 1
    while data[position] != END:
        for is_value in (False, True):
            size = data[position]
            position += 1
            if size == LONG:
                size = struct.unpack_from("<I", data, position)[0]
                position += 4
            unused = 0
            if is_value:
                unused = data[position]
                position += 1
            if position + size + unused >= len(data):
                raise IndexError
            words.append(data[position : position + size])
            position += size + unused
    if position != len(data) - 1:
        raise RdbError("Zipmap integrity check failed: the length is not the announced one")
    return words


def _damaged(reason: str) -> RdbError:
    return RdbError(f"Ziplist integrity check failed: {reason}")
