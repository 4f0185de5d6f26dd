"""Arrays: `<count> <whether there is a cursor> [cursor] elements`, in the order of their indexes.

An element is `<index> <kind> <content>`. Integers of 62 bits and some doubles are eight bytes, little-endian; a text of
up to seven bytes is its length in a byte and its bytes; any other text is a string.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ...store.companions.array_value import INDEX_MAX, ArrayValue
from ...store.limits import Limits
from ..errors import EmptyValue, RdbError
from .lengths import encode_length, read_length
from .source import Source
from .texts import encode_elements, read_indexed

ARRAY: Final = 28

# Elements that are encoded at a time.
_ELEMENTS_AT_ONCE: Final = 256


def encode_array(value: ArrayValue, *, compress: bool) -> Iterator[bytes]:
    """Yield an array without its type."""
    cursor = value.cursor
    yield encode_length(len(value)) + (b"\0" if cursor is None else b"\1" + encode_length(cursor))
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
        for index, element in zip(indexes, elements, strict=True):
            if index > INDEX_MAX:
                raise RdbError("Array index out of range")
            if not value.put(index, element):
                raise RdbError("Duplicate array index detected")
        left -= len(indexes)
    return value


def _read_index(source: Source) -> int:
    index = read_length(source)
    if index > INDEX_MAX:
        raise RdbError("Array index out of range")
    return index
