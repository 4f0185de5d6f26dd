"""The elements of arrays after their indexes: see `arrays`."""

from __future__ import annotations

import struct
from typing import Final

from ...protocol.scalars import shortest_text
from ..errors import RdbError
from .lengths import read_string
from .source import Source

# Kinds of the elements of arrays.
STRING_ELEMENT: Final = 0
INTEGER_ELEMENT: Final = 1
DOUBLE_ELEMENT: Final = 2
SHORT_ELEMENT: Final = 3


def double_element(number: float) -> bytes:
    """The text of a double in an array, with a point also if it is whole."""
    text = shortest_text(number)
    return text if b"." in text or b"e" in text else text + b".0"


def read_element(source: Source) -> bytes:
    """The element of an array after its index. Raises RdbError."""
    kind = source.byte()
    if kind == STRING_ELEMENT:
        return read_string(source)
    if kind == INTEGER_ELEMENT:
        return b"%d" % int.from_bytes(source.take(8), "little", signed=True)
    if kind == DOUBLE_ELEMENT:
        return double_element(struct.unpack("<d", source.take(8))[0])
    if kind == SHORT_ELEMENT:
        return source.take(source.byte())
    raise RdbError(f"Unknown array element type {kind}")
