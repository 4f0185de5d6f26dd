"""Arrays: `<count> <whether there is a cursor> [cursor] elements`, in the order of their indexes.

An element is `<index> <kind> <content>`. Integers of 62 bits and some doubles are eight bytes, little-endian; a text of
up to seven bytes is its length in a byte and its bytes; any other text is a string.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ...store.companions.array_value import INDEX_MAX, ArrayValue
from ...store.image import Packed
from ...store.limits import Limits
from ..errors import EmptyValue, RdbError
from .lengths import encode_length, read_length
from .source import Source
from .texts import encode_elements, read_indexed

ARRAY: Final = 28

_TYPE: Final = bytes((ARRAY,))
# Elements that are encoded at a time.
_ELEMENTS_AT_ONCE: Final = 256


def packed_array(value: ArrayValue, *, compress: bool) -> Packed | None:
    """An array of few elements; None for another one."""
    if len(value) > _ELEMENTS_AT_ONCE:
        return None
    elements = encode_elements(value.slices.pairs(0, INDEX_MAX, _ELEMENTS_AT_ONCE), compress)
    return _TYPE + _header(value) + elements, None


def _header(value: ArrayValue) -> bytes:
    cursor = value.cursor
    return encode_length(len(value)) + (b"\0" if cursor is None else b"\1" + encode_length(cursor))


def encode_array(value: ArrayValue, *, compress: bool) -> Iterator[bytes]:
    """Yield an array without its type."""
    yield _header(value)
    first = 0
    while True:
        pairs: list[Any] = value.slices.pairs(first, INDEX_MAX, _ELEMENTS_AT_ONCE)
        if pairs:
            yield encode_elements(pairs, compress)
            first = pairs[-1][0] + 1
        if len(pairs) < _ELEMENTS_AT_ONCE:
            return


def read_array(source: Source, limits: Limits) -> ArrayValue:
    """The array at this place of a file. Raises RdbError."""
    value = ArrayValue(limits)
    left = read_length(source)
    if not left:
        raise EmptyValue
    if source.byte():
        value.cursor = _read_index(source)
    while left:
        indexes, elements = read_indexed(source, left)
        if max(indexes) > INDEX_MAX:
            raise RdbError("Array index out of range")
        if value.put_each(indexes, elements) < len(indexes):
            raise RdbError("Duplicate array index detected")
        left -= len(indexes)
    return value


def _read_index(source: Source) -> int:
    index = read_length(source)
    if index > INDEX_MAX:
        raise RdbError("Array index out of range")
    return index
