"""The encoding that Redis would use for a value, as OBJECT ENCODING shows it."""

from __future__ import annotations

from ...store.editing import edited
from ...store.stream import Stream
from ...store.text import EMBEDDED_SIZE_MAX, EditedText, SumText
from ...store.value import STREAM, Value
from ..core.numbers import is_canonical_integer


def string_encoding(key: bytes, text: bytes) -> bytes:
    """Returns the encoding of a string: `int`, `embstr` or `raw`."""
    if isinstance(text, EditedText):
        return b"raw"
    if is_canonical_integer(text) and not isinstance(text, SumText):
        return b"int"
    return b"embstr" if len(key) + len(text) <= EMBEDDED_SIZE_MAX else b"raw"


def encoding_of(key: bytes, value: Value) -> bytes:
    """Returns the encoding of the value of `key`."""
    if isinstance(value, bytes):
        return string_encoding(key, value)
    return STREAM if isinstance(value, Stream) else value.encoding


def keep_encoding(key: bytes, value: Value) -> Value:
    """Returns the value of `key` for a new key, so that OBJECT ENCODING stays `raw` even if the new key is shorter."""
    if type(value) is bytes and len(key) + len(value) <= EMBEDDED_SIZE_MAX:
        return value
    return edited(value) if isinstance(value, bytes) and string_encoding(key, value) == b"raw" else value
