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
from ...store.image import Pack, Packed, StreamImage
from ...store.limits import Limits
from ...store.value import Value
from ..errors import RdbError
from .arrays import ARRAY, encode_array, packed_array, read_array
from .foreign import FOREIGN_TYPES
from .hashes import (
    HASH_LISTPACK,
    HASH_LISTPACK_EX,
    HASH_TYPES,
    encode_hash,
    hash_of_listpack,
    hash_type,
    packed_hash,
    read_hash,
    timed_hash_of_listpack,
)
from .keys import STRING
from .lengths import read_string, string_parts
from .lists import LIST_TYPES, QUICKLIST_2, encode_list, list_of_listpack, packed_list, read_list
from .sets import (
    SET_INTSET,
    SET_LISTPACK,
    SET_TYPES,
    encode_set,
    packed_set,
    read_set,
    set_of_intset,
    set_of_listpack,
    set_type,
)
from .sorted_sets import (
    SORTED_SET_LISTPACK,
    SORTED_SET_TYPES,
    encode_sorted_set,
    packed_sorted_set,
    read_sorted_set,
    sorted_set_of_listpack,
    sorted_set_type,
)
from .source import Source
from .stream import STREAM_TYPES, WITH_RELEASED, encode_stream, read_stream
from .texts import encode_strings

# Version of the format that is written, and the newest that is read.
VERSION: Final = 15
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


def packed_value(value: Companion, *, compress: bool) -> Packed | None:
    """A small value; None for a large one."""
    if isinstance(value, HashValue):
        return packed_hash(value)
    if isinstance(value, SetValue):
        return packed_set(value)
    if isinstance(value, SortedSetValue):
        return packed_sorted_set(value)
    if isinstance(value, ListValue):
        return packed_list(value)
    return packed_array(value, compress=compress) if isinstance(value, ArrayValue) else None


def packing(*, compress: bool) -> Pack:
    """What an image of the dataset needs to pack small values for a file."""
    return _pack_compressed if compress else _pack


def _pack_compressed(value: Companion) -> Packed | None:
    return packed_value(value, compress=True)


def _pack(value: Companion) -> Packed | None:
    return packed_value(value, compress=False)


def encode_packed(packed: Packed, *, compress: bool) -> bytes:
    """What `packed_value` returned, without its type."""
    head, text = packed
    return head[1:] if text is None else head[1:] + encode_strings([text], compress)


def value_of_packed(kind: int, text: bytes, limits: Limits) -> Value:
    """A small value that was packed to a text. Raises RdbError, EmptyValue."""
    if kind == HASH_LISTPACK:
        return hash_of_listpack(text, limits)
    if kind == SET_LISTPACK:
        return set_of_listpack(text, limits)
    if kind == SORTED_SET_LISTPACK:
        return sorted_set_of_listpack(text, limits)
    if kind == QUICKLIST_2:
        return list_of_listpack(text, limits)
    if kind == SET_INTSET:
        return set_of_intset(text, limits)
    assert kind == HASH_LISTPACK_EX
    return timed_hash_of_listpack(text, limits)


def encode_value(value: Content, *, now_ms: int, compress: bool) -> Iterator[bytes]:
    """Yield a value without its type, in pieces; see `encode_stream`."""
    packed = packed_value(value, compress=compress) if isinstance(value, Companion) else None
    if packed is not None:
        yield encode_packed(packed, compress=compress)
    elif isinstance(value, bytes):
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
