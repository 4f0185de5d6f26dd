"""Keys with strings in RDB files, many at a time: `string_codec` for installations without a C compiler. Both behave
alike.

    key: [0xFC | expiry time, 8 bytes] | 0 | name | string          the last two are strings: see `lengths`
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...store.value import Value
from ..errors import RdbError
from .keys import EXPIRY_MS, LONG_SIZE, STRING, encode_name
from .lengths import encode_string, read_string, read_time_ms
from .source import Source

# Encoded bytes from which on a call returns, so that each call is short.
PIECE_SIZE: Final = 4096
# Keys that are read by one call.
KEYS_COUNT_MAX: Final = 256

# Name, string, and expiry time in Unix ms, None for never.
Key = tuple[bytes, Value, int | None]


def encode_strings(
    pairs: list[tuple[bytes, bytes]], start: int, expires: Mapping[bytes, int], compress: bool
) -> tuple[bytes, int]:
    """Encode names and strings from `start` on, until the piece is large enough or a string is a long one.

    `expires` has the expiry times of those keys that have one. Returns the piece, and the index of the next pair.
    """
    pieces: list[bytes] = []
    size = 0
    for index in range(start, len(pairs)):
        key, value = pairs[index]
        if size >= PIECE_SIZE or len(value) > LONG_SIZE:
            return b"".join(pieces), index
        record = encode_name(key, expires.get(key), compress=compress) + encode_string(value, compress=compress)
        pieces.append(record)
        size += len(record)
    return b"".join(pieces), len(pairs)


def read_strings(block: bytes, position: int) -> tuple[list[Key], int]:
    """Read the keys with strings that are complete in `block` from `position` on, up to some other record or to
    KEYS_COUNT_MAX keys.

    Returns them, and the position after them. What cannot be read is left to the caller, also if it is damaged.
    """
    keys: list[Key] = []
    source = Source((block[position:],))
    while len(keys) < KEYS_COUNT_MAX:
        size = source.offset
        try:
            kind, expires_ms = source.byte(), None
            if kind == EXPIRY_MS:
                expires_ms, kind = read_time_ms(source), source.byte()
            if kind != STRING:
                return keys, position + size
            keys.append((read_string(source), read_string(source), expires_ms))
        except RdbError:
            return keys, position + size
    return keys, position + source.offset
