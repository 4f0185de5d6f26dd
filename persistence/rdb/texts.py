"""Many texts at once, as hashes, lists, sets and sorted sets have them: in C if that was compiled."""

from __future__ import annotations

from typing import Final

from .lengths import read_string
from .source import Source

try:
    from .member_codec import encode_scored, encode_strings, encode_timed, pack_texts, read_some, unpack_texts
except ImportError:  # there was no C compiler at installation
    from .member_codec_plain import encode_scored, encode_strings, encode_timed, pack_texts, read_some, unpack_texts

__all__ = ["encode_scored", "encode_strings", "encode_timed", "pack_texts", "read_strings", "unpack_texts"]

# Strings that are read at a time.
COUNT_MAX: Final = 1024


def read_strings(source: Source, count: int) -> list[bytes]:
    """The next strings: at least one, and at most `count`, which is not 0. Raises RdbError."""
    block, position = source.ahead()
    texts, position = read_some(block, position, min(count, COUNT_MAX))
    source.skip_ahead(position)
    return texts or [read_string(source)]
