"""Sets: a list of strings, an intset, or a listpack.

`intset: <bytes of a number: 2, 4 or 8> <count> numbers`, ascending, little-endian; the two of the header have 4 bytes.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from itertools import pairwise
from sys import byteorder
from typing import Final

from ...store.companions.set_value import HASHTABLE, INTSET, LISTPACK, SetValue
from ...store.limits import Limits
from ..errors import EmptyValue, RdbError
from .lengths import encode_length, read_length, read_string
from .source import Source
from .texts import encode_strings, pack_texts, read_strings, unpack_texts

SET: Final = 2
SET_INTSET: Final = 11
SET_LISTPACK: Final = 20
SET_TYPES: Final = (SET, SET_INTSET, SET_LISTPACK)

_TYPES: Final = {HASHTABLE: SET, INTSET: SET_INTSET, LISTPACK: SET_LISTPACK}
# Array codes of the numbers of an intset, by bytes.
_CODES: Final = {2: "h", 4: "i", 8: "q"}
_HEADER_SIZE: Final = 8
# Members that are encoded at a time.
_MEMBERS_AT_ONCE: Final = 256


def set_type(value: SetValue) -> int:
    """The type byte of a set."""
    return _TYPES[value.encoding]


def packed_set(value: SetValue, *, compress: bool) -> bytes | None:
    """A set that is an intset or a listpack, without its type; None if it is not one."""
    if value.encoding == INTSET:
        return encode_strings([_pack_integers(list(map(int, value.members())))], compress)
    if value.encoding == LISTPACK:
        return encode_strings([pack_texts(value.members())], compress)
    return None


def encode_set(value: SetValue, *, compress: bool) -> Iterator[bytes]:
    """Yield a set without its type."""
    packed = packed_set(value, compress=compress)
    if packed is not None:
        yield packed
        return
    members = value.members()
    yield encode_length(len(members))
    for start in range(0, len(members), _MEMBERS_AT_ONCE):
        yield encode_strings(members[start : start + _MEMBERS_AT_ONCE], compress)


def _pack_integers(numbers: list[int]) -> bytes:
    size = next(size for size in _CODES if -(1 << 8 * size - 1) <= numbers[0] and numbers[-1] < 1 << 8 * size - 1)
    return struct.pack("<II", size, len(numbers)) + struct.pack(f"<{len(numbers)}{_CODES[size]}", *numbers)


def read_set(source: Source, kind: int, limits: Limits) -> SetValue:
    """The set of type `kind`. Raises RdbError."""
    value = SetValue(limits)
    if kind == SET:
        _read_members(value, source)
    elif kind == SET_INTSET:
        numbers = _unpack_integers(read_string(source))
        value.load_integers(numbers)
    else:
        members = unpack_texts(read_string(source))
        if len(set(members)) < len(members):
            raise _double()
        value.load_listpack(members)
    if not len(value):
        raise EmptyValue
    return value


def _read_members(value: SetValue, source: Source) -> None:
    count = read_length(source)
    if count > value.limits.set_integers_max:
        value.become_table()
    while count:
        members = read_strings(source, count)
        if value.add_all(members) < len(members):
            raise _double()
        count -= len(members)


def _unpack_integers(data: bytes) -> list[int]:
    """The numbers of an intset. Raises RdbError."""
    if len(data) < _HEADER_SIZE:
        raise RdbError("Intset integrity check failed: too short")
    size, count = struct.unpack_from("<II", data)
    if size not in _CODES or len(data) != _HEADER_SIZE + size * count:
        raise RdbError("Intset integrity check failed: the length is not the announced one")
    numbers = array(_CODES[size])
    numbers.frombytes(data[_HEADER_SIZE:])
    if byteorder == "big":
        numbers.byteswap()
    ascending = numbers.tolist()
    if any(after <= before for before, after in pairwise(ascending)):
        raise RdbError("Intset integrity check failed: the numbers do not ascend")
    return ascending


def _double() -> RdbError:
    return RdbError("Duplicate set members detected")
