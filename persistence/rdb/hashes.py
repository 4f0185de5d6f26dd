"""Hashes: fields and values one by one, or as a listpack, a ziplist or a zipmap."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from ...store.companions.hash_value import LISTPACK, HashValue
from ...store.limits import Limits
from ..errors import EmptyValue, RdbError
from .lengths import encode_length, encode_string, read_length, read_string
from .listpack import encode_texts, pack, unpack_texts
from .source import Source
from .ziplist import unpack_ziplist, unpack_zipmap

HASH: Final = 4
HASH_ZIPMAP: Final = 9
HASH_ZIPLIST: Final = 13
HASH_LISTPACK: Final = 16
HASH_TYPES: Final = (HASH, HASH_ZIPMAP, HASH_ZIPLIST, HASH_LISTPACK)

# Fields that are encoded at a time.
_FIELDS_AT_ONCE: Final = 128


def hash_type(value: HashValue) -> int:
    """The type byte of a hash."""
    return HASH_LISTPACK if value.encoding == LISTPACK else HASH


def encode_hash(value: HashValue, *, compress: bool) -> Iterator[bytes]:
    """Yield a hash without its type."""
    if value.encoding == LISTPACK:
        words = [word for pair in value.items() for word in pair]
        yield encode_string(pack([encode_texts(words)], len(words)), compress=compress)
        return
    yield encode_length(len(value))
    pairs = iter(value.items())
    while piece := list(islice(pairs, _FIELDS_AT_ONCE)):
        yield b"".join([encode_string(word, compress=compress) for pair in piece for word in pair])


def read_hash(source: Source, kind: int, limits: Limits) -> HashValue:
    """The hash of type `kind`. Raises RdbError."""
    value = HashValue(limits)
    if kind == HASH:
        count = read_length(source)
        if count > limits.hash_entries_max:
            value.become_table()
        for _ in range(count):
            if not value.set(read_string(source), read_string(source)):
                raise RdbError("Duplicate hash fields detected")
    else:
        _set_all(value, _UNPACK[kind](read_string(source)))
    if not len(value):
        raise EmptyValue
    return value


def _set_all(value: HashValue, words: list[bytes]) -> None:
    if len(words) % 2:
        raise RdbError("Hash integrity check failed: a field without a value")
    for index in range(0, len(words), 2):
        if not value.set(words[index], words[index + 1]):
            raise RdbError("Hash integrity check failed: a field twice")


_UNPACK: Final = {HASH_ZIPMAP: unpack_zipmap, HASH_ZIPLIST: unpack_ziplist, HASH_LISTPACK: unpack_texts}
