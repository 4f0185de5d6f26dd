"""How Redis would keep a string: what OBJECT ENCODING tells."""

from __future__ import annotations

from ..store.database import Value
from ..store.text import EMBEDDED_SIZE_MAX, EditedText, SumText, edited
from .numbers import is_canonical_integer


def string_encoding(key: bytes, text: bytes) -> bytes:
    """`int`, `embstr` or `raw`."""
    if isinstance(text, EditedText):
        return b"raw"
    if is_canonical_integer(text) and not isinstance(text, SumText):
        return b"int"
    return b"embstr" if len(key) + len(text) <= EMBEDDED_SIZE_MAX else b"raw"


def as_kept_under(key: bytes, value: Value) -> Value:
    """The value of `key` for another key: a string that is kept apart stays so, however short the new key is."""
    return edited(value) if isinstance(value, bytes) and string_encoding(key, value) == b"raw" else value
