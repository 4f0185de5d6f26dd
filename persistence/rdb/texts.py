"""Many texts at once, as hashes, lists, sets and sorted sets have them: in C if that was compiled."""

from __future__ import annotations

import struct
from typing import Final

from .array_elements import read_element
from .lengths import read_length, read_string
from .source import Source

try:
    from .member_codec import (
        encode_elements,
        encode_scored,
        encode_strings,
        encode_timed,
        pack_integers,
        pack_places,
        pack_texts,
        read_elements,
        read_scored,
        read_some,
        read_timed,
        unpack_integers,
        unpack_texts,
    )
except ImportError:  # there was no C compiler at installation
    from .member_codec_plain import (
        encode_elements,
        encode_scored,
        encode_strings,
        encode_timed,
        pack_integers,
        pack_places,
        pack_texts,
        read_elements,
        read_scored,
        read_some,
        read_timed,
        unpack_integers,
        unpack_texts,
    )

try:
    from .small_codec import pack_joined_places
except ImportError:  # there was no C compiler at installation
    from .small_codec_plain import pack_joined_places

__all__ = [
    "encode_elements",
    "encode_scored",
    "encode_strings",
    "encode_timed",
    "pack_integers",
    "pack_joined_places",
    "pack_places",
    "pack_texts",
    "read_indexed",
    "read_members",
    "read_strings",
    "read_timed_fields",
    "unpack_integers",
    "unpack_texts",
]

# Strings that are read at a time.
COUNT_MAX: Final = 1024


def read_strings(source: Source, count: int) -> list[bytes]:
    """The next strings: at least one, and at most `count`, which is not 0. Raises RdbError."""
    block, position = source.ahead()
    texts, position = read_some(block, position, min(count, COUNT_MAX))
    source.skip_ahead(position)
    return texts or [read_string(source)]


def read_members(source: Source, count: int) -> tuple[list[bytes], list[float]]:
    """Like `read_strings`, for members and their scores, doubles. Raises RdbError."""
    block, position = source.ahead()
    members, scores, position = read_scored(block, position, min(count, COUNT_MAX))
    source.skip_ahead(position)
    if not members:
        members, scores = [read_string(source)], [struct.unpack("<d", source.take(8))[0]]
    return members, scores


def read_indexed(source: Source, count: int) -> tuple[list[int], list[bytes]]:
    """Like `read_strings`, for elements of an array and their indexes. Raises RdbError."""
    block, position = source.ahead()
    indexes, elements, position = read_elements(block, position, min(count, COUNT_MAX))
    source.skip_ahead(position)
    if not indexes:
        indexes = [read_length(source)]
        elements = [read_element(source)]
    return indexes, elements


def read_timed_fields(source: Source, count: int) -> tuple[list[bytes], list[int]]:
    """Like `read_strings`, for fields with their values, and the numbers before them. Raises RdbError."""
    block, position = source.ahead()
    words, times, position = read_timed(block, position, min(count, COUNT_MAX))
    source.skip_ahead(position)
    if not times:
        times = [read_length(source)]
        words = [read_string(source), read_string(source)]
    return words, times
