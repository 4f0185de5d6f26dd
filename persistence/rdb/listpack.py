"""Listpacks: sequences of integers and strings in one block of bytes.

`<size, 4 bytes> <count, 2 bytes> elements 0xFF`, all little-endian. An element has a byte for its kind (short ones
include the length or value in it), data, and its size so far, for walking backwards. Text that is a canonical 64-bit
integer is stored as that integer.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final

from ..errors import RdbError

Element = int | bytes

HEADER_SIZE: Final = 6
COUNT_UNKNOWN: Final = 0xFFFF
END: Final = 0xFF
INTEGER_TEXT_SIZE_MAX: Final = 20

_INT13: Final = 0xC0
_STRING12: Final = 0xE0
_STRING32: Final = 0xF0
_INTEGER_SIZES: Final = {0xF1: 2, 0xF2: 3, 0xF3: 4, 0xF4: 8}


def pack(pieces: list[bytes], count: int) -> bytes:
    """Return a listpack of `count` encoded elements. A piece has any number of elements."""
    body = b"".join(pieces)
    return b"%b%b\xff" % (struct.pack("<IH", HEADER_SIZE + len(body) + 1, min(count, COUNT_UNKNOWN)), body)


def encode_integer(number: int) -> bytes:
    """One element."""
    if 0 <= number <= 127:
        return _SMALL[number]
    if -4096 <= number <= 4095:
        return (_INT13 << 8 | number & 0x1FFF).to_bytes(2, "big") + b"\x02"
    for kind, size in _INTEGER_SIZES.items():
        if -(1 << 8 * size - 1) <= number < 1 << 8 * size - 1:
            return bytes((kind,)) + number.to_bytes(size, "little", signed=True) + bytes((size + 1,))
    raise OverflowError(number)


def encode_text(text: bytes) -> bytes:
    """One element."""
    size = len(text)
    if size <= INTEGER_TEXT_SIZE_MAX and text[-1:].isdigit():
        digits = text[1:] if text[:1] == b"-" else text
        if digits.isdigit() and (digits[:1] != b"0" or text == b"0"):
            number = int(text)
            if -(2**63) <= number < 2**63:
                return encode_integer(number)
    if size <= 63:
        return _SHORT_HEADS[size] + text + _SMALL_BACK[size + 1]
    head = (_STRING12 << 8 | size).to_bytes(2, "big") if size <= 4095 else b"\xf0" + size.to_bytes(4, "little")
    return head + text + _back_length(len(head) + size)


def encode_texts(texts: list[bytes]) -> bytes:
    """Return the elements of texts, end to end."""
    return b"".join([_encode_short(text) if len(text) <= CACHED_SIZE_MAX else encode_text(text) for text in texts])


def _back_length(size: int) -> bytes:
    """Encode the size of an element, 7 bits in a byte, high part first. Every byte except the first has its top bit
    set."""
    back = [size & 0x7F | 0x80]
    while size := size >> 7:
        back.append(size & 0x7F | 0x80)
    back[-1] &= 0x7F
    return bytes(reversed(back))


# Values repeat: the elements of short texts are cached, up to a number of them.
CACHED_SIZE_MAX: Final = 32
_encode_short: Final = lru_cache(4096)(encode_text)

_SMALL: Final = [bytes((number, 1)) for number in range(128)]
_SHORT_HEADS: Final = [bytes((0x80 | size,)) for size in range(64)]
_SMALL_BACK: Final = [bytes((size,)) for size in range(128)]


def unpack(data: bytes) -> list[Element]:
    """Return the elements. Every byte is checked. Raises RdbError."""
    size = len(data)
    if size < HEADER_SIZE + 1:
        raise _damaged("too short")
    total, count = struct.unpack_from("<IH", data)
    if total != size or data[-1] != END:
        raise _damaged("the length is not the announced one")
    elements: list[Element] = []
    position, end = HEADER_SIZE, size - 1
    while position < end:
        first = data[position]
        if first < 0x80:
            elements.append(first)
            body_size = 1
        elif first < _INT13:
            body_size = first - 0x7F
            elements.append(data[position + 1 : position + body_size])
        else:
            body_size = _append_long(elements, data, position, first)
        position += body_size
        if position >= end:
            raise _damaged("an element that exceeds its end")
        if body_size <= 127:
            if data[position] != body_size:
                raise _damaged("an element with a wrong back length")
            position += 1
        else:
            back = _back_length(body_size)
            if not data.startswith(back, position):
                raise _damaged("an element with a wrong back length")
            position += len(back)
    if position != end or count not in (len(elements), COUNT_UNKNOWN):
        raise _damaged("the number of elements is not the announced one")
    return elements


def _append_long(elements: list[Element], data: bytes, position: int, first: int) -> int:
    """Read an element of a rare kind. Returns its size without the back length."""
    if first < _STRING12:
        number = (first & 0x1F) << 8 | data[position + 1]
        elements.append(number - 0x2000 if number >= 0x1000 else number)
        size = 2
    elif first < _STRING32:
        size = 2 + ((first & 0x0F) << 8 | data[position + 1])
        elements.append(data[position + 2 : position + size])
    elif first == _STRING32:
        size = 5 + int.from_bytes(data[position + 1 : position + 5], "little")
        elements.append(data[position + 5 : position + size])
    elif first in _INTEGER_SIZES:
        size = 1 + _INTEGER_SIZES[first]
        elements.append(int.from_bytes(data[position + 1 : position + size], "little", signed=True))
    else:
        raise _damaged("an element of unknown kind")
    return size


def _damaged(reason: str) -> RdbError:
    return RdbError(f"Listpack integrity check failed: {reason}")
