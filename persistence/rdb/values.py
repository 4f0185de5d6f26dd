"""Values by their type byte: strings and streams, and the names of all others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...store.image import StreamImage
from ...store.limits import Limits
from ...store.value import Value
from ..errors import RdbError
from .foreign import FOREIGN_TYPES
from .lengths import read_string, string_parts
from .source import Source
from .stream import STREAM_TYPES, WITH_RELEASED, encode_stream, read_stream

# Version of the format that is written, and the newest that is read.
VERSION: Final = 15
STRING: Final = 0


def type_of(value: bytes | StreamImage) -> int:
    """Return the type byte of a value."""
    return STRING if isinstance(value, bytes) else WITH_RELEASED


def encode_value(value: bytes | StreamImage, *, now_ms: int, compress: bool) -> Iterator[bytes]:
    """Yield a value without its type, in pieces; see `encode_stream`."""
    if isinstance(value, bytes):
        yield from string_parts(value, compress=compress)
    else:
        yield from encode_stream(value, now_ms=now_ms, compress=compress)


def read_value(source: Source, kind: int, limits: Limits, *, now_ms: int) -> Value:
    """The value of type `kind`. Raises RdbError."""
    if kind == STRING:
        return read_string(source)
    if kind in STREAM_TYPES:
        return read_stream(source, kind, limits, now_ms=now_ms)
    raise RdbError(type_error(kind))


def type_error(kind: int) -> str:
    """Why a value of this type cannot be read."""
    name = FOREIGN_TYPES.get(kind)
    if name is None:
        return f"Unknown RDB encoding type {kind}"
    return f"it is {name} (RDB type {kind}), and only strings and streams can be kept"
