"""A key with a string in an RDB file, up to its string."""

from __future__ import annotations

from typing import Final

from .lengths import encode_string, encode_time_ms

EXPIRY_MS: Final = 252
# The type of strings.
STRING: Final = 0
# Longer strings are written one by one, so that they are not copied.
LONG_SIZE: Final = 64 * 1024


def encode_name(key: bytes, expires_ms: int | None, *, compress: bool) -> bytes:
    """Encode a key up to its string. `expires_ms` is Unix ms, None for never."""
    expiry = b"" if expires_ms is None else bytes((EXPIRY_MS,)) + encode_time_ms(expires_ms)
    return expiry + bytes((STRING,)) + encode_string(key, compress=compress)
