"""Hashes that HIMPORT made: the names of the fields in their order, then the values.

The names are 0 and a listpack if they are short and few, otherwise 1, their number and each name. The values come one
by one, or as a listpack after a number, which means nothing here. In files of Redis, names come before all keys, with a
number, once for all hashes that have them, and hashes have the number instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from ...store.companions.hash_value import TEMPLATE_LISTPACK, HashValue, template_order
from ...store.companions.integers import as_integer
from ...store.limits import Limits
from ..errors import EmptyValue, RdbError
from .lengths import encode_length, encode_string, read_length, read_string
from .source import Source
from .texts import encode_strings, pack_texts, unpack_texts

HASH_TEMPLATE_LISTPACK: Final = 29
HASH_TEMPLATE_ARRAY: Final = 31
HASH_TEMPLATE_TYPES: Final = (HASH_TEMPLATE_LISTPACK, HASH_TEMPLATE_ARRAY)
# With a number instead of the names: only in files.
HASH_NUMBERED_LISTPACK: Final = 30
HASH_NUMBERED_ARRAY: Final = 32
HASH_NUMBERED_TYPES: Final = (HASH_NUMBERED_LISTPACK, HASH_NUMBERED_ARRAY)
# How names are stored.
_NAMES_LISTPACK: Final = 0
_NAMES_ALONE: Final = 1


def imported_hash_type(value: HashValue) -> int:
    """The type byte of a hash that HIMPORT made."""
    return HASH_TEMPLATE_LISTPACK if value.encoding == TEMPLATE_LISTPACK else HASH_TEMPLATE_ARRAY


def encode_imported_hash(value: HashValue, *, compress: bool) -> Iterator[bytes]:
    """Yield a hash that HIMPORT made, without its type."""
    pairs = list(value.items())
    names, texts = [field for field, _ in pairs], [text for _, text in pairs]
    limits = value.limits
    if len(names) <= limits.hash_entries_max and max(map(len, names)) <= limits.hash_value_max:
        yield encode_length(_NAMES_LISTPACK) + encode_string(pack_texts(names), compress=compress)
    else:
        yield encode_length(_NAMES_ALONE) + encode_length(len(names))
        yield encode_strings(names, compress)
    if value.encoding == TEMPLATE_LISTPACK:
        yield encode_string(pack_texts([b"0", *texts]), compress=compress)
    else:
        yield encode_strings(texts, compress)


def read_imported_hash(source: Source, kind: int, limits: Limits) -> HashValue:
    """A hash of one of the types that have the names of the fields. Raises RdbError, EmptyValue."""
    names = _read_names(source)
    if kind == HASH_TEMPLATE_LISTPACK:
        return _made(names, unpack_texts(read_string(source))[1:], limits, is_packed=True)
    return _made(names, [read_string(source) for _ in names], limits)


class Templates:
    """The names of fields that one file has for hashes that HIMPORT made, by number."""

    __slots__ = ("_are_used", "_few", "_names")

    def __init__(self) -> None:
        self._names: dict[int, list[bytes]] = {}
        # Whether the file has had a hash that HIMPORT made, or the names of its fields.
        self._are_used = False
        # Hashes that took an encoding of HIMPORT, by their fields; None from the number on from which they keep it.
        self._few: dict[tuple[bytes, ...], list[HashValue] | None] = {}

    def read(self, source: Source) -> None:
        """Read a number with its names. Raises RdbError."""
        number = read_length(source)
        self._names[number] = _read_names_alone(source)
        self._are_used = True

    def read_hash(self, source: Source, kind: int, limits: Limits) -> HashValue:
        """A hash of one of the types that have a number instead of names. Raises RdbError, EmptyValue."""
        if kind == HASH_NUMBERED_LISTPACK:
            words = unpack_texts(read_string(source))
            number = as_integer(words[0]) if words else None
            names = None if number is None else self._names.get(number)
            texts = words[1:]
        else:
            names = self._names.get(read_length(source))
            texts = [read_string(source) for _ in names or ()]
        if names is None:
            raise RdbError("Hash integrity check failed: names of fields that are not in the file")
        return _made(names, texts, limits, is_packed=kind == HASH_NUMBERED_LISTPACK)

    def note_hash(self, value: HashValue) -> None:
        """Let a hash of the file take an encoding of HIMPORT, as the directives want it, unless the file has had such
        hashes: its other hashes then stay as they are."""
        self._are_used = self._are_used or value.has_template
        if not self._are_used:
            value.take_template_when_loaded()
            if value.has_template and value.limits.loaded_template_hashes_min:
                self._count(value)

    def _count(self, value: HashValue) -> None:
        """Count a hash with those that have the same fields."""
        names = tuple([field for field, _ in value.items()])
        hashes = self._few.setdefault(names, [])
        if hashes is not None:
            hashes.append(value)
            if len(hashes) >= value.limits.loaded_template_hashes_min:
                self._few[names] = None

    def end(self) -> None:
        """After the last key of the file: hashes that are too few with the same fields lose the encoding of HIMPORT."""
        for hashes in self._few.values():
            for value in hashes or ():
                value.undo_template()
        self._few.clear()


def _read_names(source: Source) -> list[bytes]:
    form = read_length(source)
    if form == _NAMES_LISTPACK:
        return _in_order(unpack_texts(read_string(source)))
    if form == _NAMES_ALONE:
        return _read_names_alone(source)
    raise RdbError(f"Unknown form {form} of the names of fields")


def _read_names_alone(source: Source) -> list[bytes]:
    """The number of names, and each name: the form in files. Raises RdbError."""
    names = []
    for _ in range(read_length(source)):
        names.append(read_string(source))
    return _in_order(names)


def _in_order(names: list[bytes]) -> list[bytes]:
    orders = [template_order(name) for name in names]
    if any(first >= second for first, second in pairwise(orders)):
        raise RdbError("Hash integrity check failed: names of fields that are not in order")
    return names


def _made(names: list[bytes], texts: list[bytes], limits: Limits, *, is_packed: bool = False) -> HashValue:
    if len(names) != len(texts):
        raise RdbError("Hash integrity check failed: a field without a value")
    if not names:
        raise EmptyValue
    return HashValue.of_template(names, texts, limits, may_be_long=is_packed)
