"""Arrays: `<count> <whether there is a cursor> [cursor] elements`, in the order of their indexes.

An element is `<index> <kind> <content>`. Integers of 62 bits and some doubles are eight bytes, little-endian; a text of
up to seven bytes is its length in a byte and its bytes; any other text is a string.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from ...protocol.scalars import shortest_text
from ...store.companions.array_value import INDEX_MAX, ArrayValue
from ...store.companions.integers import as_integer
from ...store.limits import Limits
from ..errors import EmptyValue, RdbError
from .lengths import encode_length, encode_string, read_length, read_string
from .source import Source

ARRAY: Final = 28

_STRING: Final = 0
_INTEGER: Final = 1
_DOUBLE: Final = 2
_SHORT: Final = 3
_SHORT_SIZE_MAX: Final = 7
# Integers that Redis keeps in a pointer.
_INTEGER_LIMIT: Final = 1 << 61
# Longest text of a double that Redis keeps in a pointer, and the bits that must be zero for that.
_DOUBLE_TEXT_SIZE_MAX: Final = 32
_TAG_MASK: Final = 3
# Elements that are encoded at a time.
_ELEMENTS_AT_ONCE: Final = 256


def encode_array(value: ArrayValue, *, compress: bool) -> Iterator[bytes]:
    """Yield an array without its type."""
    cursor = value.cursor
    yield encode_length(len(value)) + (b"\0" if cursor is None else b"\1" + encode_length(cursor))
    pieces: list[bytes] = []
    for index, element in value.items():
        pieces.append(encode_length(index) + _encode_element(element, compress=compress))
        if len(pieces) == _ELEMENTS_AT_ONCE:
            yield b"".join(pieces)
            pieces.clear()
    yield b"".join(pieces)


def _encode_element(element: bytes, *, compress: bool) -> bytes:
    number = as_integer(element)
    if number is not None and -_INTEGER_LIMIT <= number < _INTEGER_LIMIT:
        return struct.pack("<Bq", _INTEGER, number)
    if number is None and b"." in element and b"e" not in element and len(element) <= _DOUBLE_TEXT_SIZE_MAX:
        packed = _pack_double(element)
        if packed is not None:
            return bytes((_DOUBLE,)) + packed
    if len(element) <= _SHORT_SIZE_MAX:
        return bytes((_SHORT, len(element))) + element
    return bytes((_STRING,)) + encode_string(element, compress=compress)


def _pack_double(text: bytes) -> bytes | None:
    """The bytes of a double that prints as this text and whose last bits are zero, None for another text."""
    try:
        number = float(text)
    except ValueError:
        return None
    packed = struct.pack("<d", number)
    return packed if _double_text(number) == text and not packed[0] & _TAG_MASK else None


def _double_text(number: float) -> bytes:
    """The text of a double, with a point also if it is whole."""
    text = shortest_text(number)
    return text if b"." in text or b"e" in text else text + b".0"


def read_array(source: Source, limits: Limits) -> ArrayValue:
    """The array at this place of a file. Raises RdbError."""
    value = ArrayValue(limits)
    left = read_length(source)
    if not left:
        raise EmptyValue
    if source.byte():
        value.cursor = _read_index(source)
    while left:
        index = _read_index(source)
        if not value.put(index, _read_element(source)):
            raise RdbError("Duplicate array index detected")
        left -= 1
    return value


def _read_index(source: Source) -> int:
    index = read_length(source)
    if index > INDEX_MAX:
        raise RdbError("Array index out of range")
    return index


def _read_element(source: Source) -> bytes:
    kind = source.byte()
    if kind == _STRING:
        return read_string(source)
    if kind == _INTEGER:
        return b"%d" % int.from_bytes(source.take(8), "little", signed=True)
    if kind == _DOUBLE:
        return _double_text(struct.unpack("<d", source.take(8))[0])
    if kind == _SHORT:
        return source.take(source.byte())
    raise RdbError(f"Unknown array element type {kind}")
