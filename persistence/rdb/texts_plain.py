"""Texts as elements of a listpack: `texts` for installations without a C compiler. Both behave alike."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from .listpack import encode_text

# Number of short texts whose elements are cached, since values repeat.
_CACHED_COUNT: Final = 4096
_encode_short: Final = lru_cache(_CACHED_COUNT)(encode_text)
_SHORT_SIZE_MAX: Final = 32


def encode_texts(texts: list[bytes]) -> bytes:
    """Return the elements of texts, end to end."""
    return b"".join([_encode_short(text) if len(text) <= _SHORT_SIZE_MAX else encode_text(text) for text in texts])
