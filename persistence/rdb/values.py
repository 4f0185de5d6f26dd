"""Values by their type byte: those that can be kept, and the names of all others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...store.companions.array_value import ArrayValue
from ...store.companions.companion import Companion
from ...store.companions.hash_value import HashValue
from ...store.companions.list_value import ListValue
from ...store.companions.set_value import SetValue
from ...store.companions.sorted_set_value import SortedSetValue
from ...store.image import StreamImage
from ...store.limits import Limits
from ...store.value import Value
from ..errors import RdbError
from .arrays import ARRAY, encode_array, read_array, short_array
from .foreign import FOREIGN_TYPES
from .hashes import HASH_TYPES, encode_hash, hash_type, packed_hash, read_hash
from .lengths import read_string, string_parts
from .lists import LIST_TYPES, QUICKLIST_2, encode_list, read_list, short_list
from .sets import SET_TYPES, encode_set, packed_set, read_set, set_type
from .sorted_sets import SORTED_SET_TYPES, encode_sorted_set, packed_sorted_set, read_sorted_set, sorted_set_type
from .source import Source
from .stream import STREAM_TYPES, WITH_RELEASED, encode_stream, read_stream

# Version of the format that is written, and the newest that is read.
VERSION: Final = 15
STRING: Final = 0
# Types of values that can be kept.
READABLE_TYPES: Final = frozenset(
    (STRING, *STREAM_TYPES, *HASH_TYPES, *LIST_TYPES, *SET_TYPES, *SORTED_SET_TYPES, ARRAY)
)


# What a file may have of a key.
Content = bytes | StreamImage | Companion


def type_of(value: Content) -> int:
    """Return the type byte of a value."""
    if isinstance(value, bytes):
        return STRING
    if isinstance(value, HashValue):
        return hash_type(value)
    if isinstance(value, SortedSetValue):
        return sorted_set_type(value)
    if isinstance(value, ListValue):
        return QUICKLIST_2
    if isinstance(value, ArrayValue):
        return ARRAY
    return set_type(value) if isinstance(value, SetValue) else WITH_RELEASED


def packed_value(value: Value, *, compress: bool) -> bytes | None:
    """A small value without its type; None for another value. This is a shorter way than `encode_value`."""
    if isinstance(value, HashValue):
        return packed_hash(value, compress=compress)
    if isinstance(value, SortedSetValue):
        return packed_sorted_set(value, compress=compress)
    if isinstance(value, ListValue):
        return short_list(value, compress=compress)
    if isinstance(value, ArrayValue):
        return short_array(value, compress=compress)
    return packed_set(value, compress=compress) if isinstance(value, SetValue) else None


def encode_value(value: Content, *, now_ms: int, compress: bool) -> Iterator[bytes]:
    """Yield a value without its type, in pieces; see `encode_stream`."""
    if isinstance(value, bytes):
        yield from string_parts(value, compress=compress)
    elif isinstance(value, HashValue):
        yield from encode_hash(value, compress=compress)
    elif isinstance(value, SortedSetValue):
        yield from encode_sorted_set(value, compress=compress)
    elif isinstance(value, ListValue):
        yield from encode_list(value, compress=compress)
    elif isinstance(value, ArrayValue):
        yield from encode_array(value, compress=compress)
    elif isinstance(value, SetValue):
        yield from encode_set(value, compress=compress)
    else:
        assert isinstance(value, StreamImage)
        yield from encode_stream(value, now_ms=now_ms, compress=compress)


def read_value(source: Source, kind: int, limits: Limits, *, now_ms: int) -> Value:
    """The value of type `kind`. Raises RdbError."""
    if kind == STRING:
        return read_string(source)
    if kind in STREAM_TYPES:
        return read_stream(source, kind, limits, now_ms=now_ms)
    if kind in HASH_TYPES:
        return read_hash(source, kind, limits)
    if kind in SORTED_SET_TYPES:
        return read_sorted_set(source, kind, limits)
    if kind in LIST_TYPES:
        return read_list(source, kind, limits)
    if kind in SET_TYPES:
        return read_set(source, kind, limits)
    if kind == ARRAY:
        return read_array(source, limits)
    raise RdbError(type_error(kind))


def type_error(kind: int) -> str:
    """Why a value of this type cannot be read."""
    name = FOREIGN_TYPES.get(kind)
    if name is None:
        return f"Unknown RDB encoding type {kind}"
    return f"it is {name} (RDB type {kind}), which Headrace does not have"
