"""Sets: a list of strings, an intset, or a listpack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...store.companions.integers import as_integer
from ...store.companions.set_value import HASHTABLE, INTSET, LISTPACK, SetValue
from ...store.image import Packed
from ...store.limits import Limits
from ..errors import EmptyValue, RdbError
from .lengths import encode_length, read_length, read_string
from .source import Source
from .texts import encode_strings, pack_integers, pack_texts, read_strings, unpack_integers, unpack_texts

SET: Final = 2
SET_INTSET: Final = 11
SET_LISTPACK: Final = 20
SET_TYPES: Final = (SET, SET_INTSET, SET_LISTPACK)

_TYPES: Final = {HASHTABLE: SET, INTSET: SET_INTSET, LISTPACK: SET_LISTPACK}
_INTSET_HEAD: Final = bytes((SET_INTSET,))
_LISTPACK_HEAD: Final = bytes((SET_LISTPACK,))
# Members that are encoded at a time.
_MEMBERS_AT_ONCE: Final = 256


def set_type(value: SetValue) -> int:
    """The type byte of a set."""
    return _TYPES[value.encoding]


def packed_set(value: SetValue) -> Packed | None:
    """A set that is an intset or a listpack; None if it is not one."""
    encoding = value.encoding
    if encoding == LISTPACK:
        return _LISTPACK_HEAD, value.listpack() or pack_texts(value.members())
    if encoding == INTSET:
        return _INTSET_HEAD, value.integers.intset() or pack_integers(value.integers.numbers())
    return None


def encode_set(value: SetValue, *, compress: bool) -> Iterator[bytes]:
    """Yield a set that is a hash table, without its type."""
    yield encode_length(len(value))
    for members in value.parts(_MEMBERS_AT_ONCE):
        yield encode_strings(members, compress)


def read_set(source: Source, kind: int, limits: Limits) -> SetValue:
    """The set of type `kind`. Raises RdbError."""
    if kind == SET_INTSET:
        return set_of_intset(read_string(source), limits)
    if kind == SET_LISTPACK:
        return set_of_listpack(read_string(source), limits)
    return _with_members(_read_members(source, limits))


def set_of_intset(intset: bytes, limits: Limits) -> SetValue:
    """The set of an intset. Raises RdbError, EmptyValue."""
    value = SetValue(limits)
    value.load_integers(unpack_integers(intset))
    return _with_members(value)


def set_of_listpack(listpack: bytes, limits: Limits) -> SetValue:
    """The set of a listpack. Raises RdbError, EmptyValue."""
    value = SetValue(limits)
    if not value.load_listpack(listpack):
        members = unpack_texts(listpack)
        if len(set(members)) < len(members):
            raise _double()
        value.load_members(members)
    return _with_members(value)


def _with_members(value: SetValue) -> SetValue:
    if not len(value):
        raise EmptyValue
    return value


def _read_members(source: Source, limits: Limits) -> SetValue:
    value, count = SetValue(limits), read_length(source)
    while count:
        members = read_strings(source, count)
        if not len(value) and _will_be_table(members[0], count, limits):
            value.become_table(count)
        if value.add_all(members) < len(members):
            raise _double()
        count -= len(members)
    return value


def _will_be_table(member: bytes, count: int, limits: Limits) -> bool:
    """Whether a set of so many members, of which this is one, is a hash table when it has them all."""
    return count > limits.set_integers_max or (count > limits.set_entries_max and as_integer(member) is None)


def _double() -> RdbError:
    return RdbError("Duplicate set members detected")
