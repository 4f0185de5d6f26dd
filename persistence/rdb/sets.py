"""Sets: a list of strings, an intset, or a listpack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...store.companions.integers import as_integer
from ...store.companions.set_value import HASHTABLE, INTSET, LISTPACK, SetValue
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
# Members that are encoded at a time.
_MEMBERS_AT_ONCE: Final = 256


def set_type(value: SetValue) -> int:
    """The type byte of a set."""
    return _TYPES[value.encoding]


def packed_set(value: SetValue, *, compress: bool) -> bytes | None:
    """A set that is an intset or a listpack, without its type; None if it is not one."""
    if value.encoding == INTSET:
        return encode_strings([value.integers.intset() or pack_integers(value.integers.numbers())], compress)
    if value.encoding == LISTPACK:
        return encode_strings([value.listpack() or pack_texts(value.members())], compress)
    return None


def encode_set(value: SetValue, *, compress: bool) -> Iterator[bytes]:
    """Yield a set without its type."""
    packed = packed_set(value, compress=compress)
    if packed is not None:
        yield packed
        return
    yield encode_length(len(value))
    for members in value.member_parts(_MEMBERS_AT_ONCE):
        yield encode_strings(members, compress)


def read_set(source: Source, kind: int, limits: Limits) -> SetValue:
    """The set of type `kind`. Raises RdbError."""
    value = SetValue(limits)
    if kind == SET:
        value = _read_members(source, limits)
    elif kind == SET_INTSET:
        value.load_integers(unpack_integers(read_string(source)))
    else:
        listpack = read_string(source)
        if not value.load_listpack(listpack):
            members = unpack_texts(listpack)
            if len(set(members)) < len(members):
                raise _double()
            value.load_members(members)
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
