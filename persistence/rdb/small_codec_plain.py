"""Keys with small hashes, lists, sets, sorted sets and arrays in RDB files, many at a time: `small_codec` for
installations without a C compiler. Both behave alike.

    key: [0xFC | expiry time, 8 bytes] | type | name | what precedes the string | string
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...protocol.scalars import double_text
from ...store.image import Packed
from ..errors import RdbError
from .keys import EXPIRY_MS
from .lengths import encode_string, encode_time_ms, read_string, read_time_ms
from .listpack import encode_texts, pack
from .source import Source

try:
    from ...store.companions.places import scored_of
except ImportError:  # there was no C compiler at installation
    from ...store.companions.places_plain import scored_of

# Bytes of a file from which on a call returns, so that each call is short.
READ_SIZE: Final = 16 * 1024
# Bytes of a block that one call looks at: they are copied.
LOOKED_AT_SIZE: Final = 64 * 1024

# What precedes the string of a value, by its type. Of a list, it says that there is a single node, which is a listpack;
# a hash with expiry times of fields has the first of them there, any eight bytes.
_BEFORE: Final[dict[int, bytes | None]] = {11: b"", 16: b"", 17: b"", 18: b"\1\2", 20: b"", 25: None}
_TIME_SIZE: Final = 8
# Bytes of the two lengths around a text.
_LENGTHS_SIZE: Final = 2


def encode_small(values: list[tuple[bytes, Packed]], expires: Mapping[bytes, int], compress: bool) -> bytes:
    """Encode keys with packed values. `expires` has the expiry times of those keys that have one."""
    pieces: list[bytes] = []
    for key, (head, text) in values:
        expires_ms = expires.get(key)
        if expires_ms is not None:
            pieces.append(bytes((EXPIRY_MS,)) + encode_time_ms(expires_ms))
        pieces += (head[:1], encode_string(key, compress=compress), head[1:])
        if text is not None:
            pieces.append(encode_string(text, compress=compress))
    return b"".join(pieces)


def read_small(block: bytes, position: int) -> list[tuple[bytes, int, bytes, int | None, int]]:
    """Read the keys that are complete in `block` from `position` on, and have values that are a listpack or an intset,
    up to some other record or to READ_SIZE bytes.

    Returns the name of each, the type and the string of its value, its expiry time in Unix ms, None for never, and the
    position after it. What cannot be read is left to the caller, also if it is damaged.
    """
    keys: list[tuple[bytes, int, bytes, int | None, int]] = []
    if position >= len(block) or (block[position] not in _BEFORE and block[position] != EXPIRY_MS):
        return keys
    source = Source((block[position : position + LOOKED_AT_SIZE],))
    while source.offset < READ_SIZE:
        try:
            kind, expires_ms = source.byte(), None
            if kind == EXPIRY_MS:
                expires_ms, kind = read_time_ms(source), source.byte()
            if kind not in _BEFORE:
                break
            key, before = read_string(source), _BEFORE[kind]
            if before is None:
                source.take(_TIME_SIZE)
            elif source.take(len(before)) != before:
                break
            keys.append((key, kind, read_string(source), expires_ms, position + source.offset))
        except RdbError:
            break
    return keys


def pack_joined_places(joined: bytes) -> bytes:
    """Return a listpack of the members of places, each with its score after it. The places are joined: each is between
    two bytes that are its length, which is less than 255. Raises ValueError."""
    places: list[bytes] = []
    at = 0
    while at < len(joined):
        size = joined[at]
        end = at + size + _LENGTHS_SIZE
        if end > len(joined):
            raise ValueError("a place that is cut off")
        places.append(joined[at + 1 : end - 1])
        at = end
    texts = [text for member, score in scored_of(places) for text in (member, double_text(score))]
    return pack([encode_texts(texts)], len(texts))
