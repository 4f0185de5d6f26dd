"""The texts of hashes, lists, sets and sorted sets in RDB files, many at a time: `member_codec` for installations
without a C compiler. Both behave alike."""

from __future__ import annotations

import struct
from typing import Any, Final

from ...protocol.scalars import double_text
from ...store.companions.integers import as_integer
from ..errors import RdbError
from .array_elements import (
    DOUBLE_ELEMENT,
    INTEGER_ELEMENT,
    SHORT_ELEMENT,
    STRING_ELEMENT,
    double_element,
    read_element,
)
from .intset import pack_integers, unpack_integers
from .lengths import encode_length, encode_string, read_length, read_string
from .listpack import encode_texts, pack, unpack
from .source import Source

try:
    from ...store.companions.places import scored_of
except ImportError:  # there was no C compiler at installation
    from ...store.companions.places_plain import scored_of

__all__ = [
    "encode_elements", "encode_scored", "encode_strings", "encode_timed", "pack_integers", "pack_places", "pack_texts",
    "read_elements", "read_scored", "read_some", "read_timed", "unpack_integers", "unpack_texts",
]  # fmt: skip

# Bytes of a block that one call looks at: they are copied.
LOOKED_AT_SIZE: Final = 64 * 1024

_SHORT_SIZE_MAX: Final = 7
# Integers that Redis keeps in a pointer.
_INTEGER_LIMIT: Final = 1 << 61
# Longest text of a double that Redis keeps in a pointer, and the bits that must be zero for that.
_DOUBLE_TEXT_SIZE_MAX: Final = 32
_TAG_MASK: Final = 3


def encode_strings(texts: list[bytes], compress: bool) -> bytes:
    """Encode texts, one after the other."""
    return b"".join([encode_string(text, compress=compress) for text in texts])


def encode_scored(words: list[bytes | float], compress: bool) -> bytes:
    """Encode members, each with its score after it."""
    return b"".join(
        [
            encode_string(word, compress=compress) if isinstance(word, bytes) else struct.pack("<d", word)
            for word in words
        ]
    )


def encode_timed(words: list[bytes], times: dict[bytes, int], first_ms: int, compress: bool) -> bytes:
    """Encode fields with their values, each after its expiry time: 0 for none, else the ms after the first one."""
    return b"".join(
        [
            encode_length(times[words[index]] - first_ms + 1 if words[index] in times else 0)
            + encode_string(words[index], compress=compress)
            + encode_string(words[index + 1], compress=compress)
            for index in range(0, len(words), 2)
        ]
    )


def encode_elements(pairs: list[list[Any]], compress: bool) -> bytes:
    """Encode elements of an array, each after its index: see `arrays`."""
    return b"".join([encode_length(index) + _encode_element(element, compress) for index, element in pairs])


def _encode_element(element: bytes, compress: bool) -> bytes:
    number = as_integer(element)
    if number is not None and -_INTEGER_LIMIT <= number < _INTEGER_LIMIT:
        return struct.pack("<Bq", INTEGER_ELEMENT, number)
    if number is None and b"." in element and b"e" not in element and len(element) <= _DOUBLE_TEXT_SIZE_MAX:
        packed = _pack_double(element)
        if packed is not None:
            return bytes((DOUBLE_ELEMENT,)) + packed
    if len(element) <= _SHORT_SIZE_MAX:
        return bytes((SHORT_ELEMENT, len(element))) + element
    return bytes((STRING_ELEMENT,)) + encode_string(element, compress=compress)


def _pack_double(text: bytes) -> bytes | None:
    """The bytes of a double that prints as this text and whose last bits are zero, None for another text."""
    try:
        number = float(text)
    except ValueError:
        return None
    packed = struct.pack("<d", number)
    return packed if double_element(number) == text and not packed[0] & _TAG_MASK else None


def read_elements(block: bytes, position: int, count: int) -> tuple[list[int], list[bytes], int]:
    """Like `read_some`, for at most `count` elements of an array: their indexes, and they."""
    indexes: list[int] = []
    elements: list[bytes] = []
    source = Source((block[position : position + LOOKED_AT_SIZE],))
    while len(indexes) < count:
        size = source.offset
        try:
            index, element = read_length(source), read_element(source)
        except RdbError:
            return indexes, elements, position + size
        indexes.append(index)
        elements.append(element)
    return indexes, elements, position + source.offset


def read_scored(block: bytes, position: int, count: int) -> tuple[list[bytes], list[float], int]:
    """Like `read_some`, for at most `count` members and their scores."""
    members: list[bytes] = []
    scores: list[float] = []
    source = Source((block[position : position + LOOKED_AT_SIZE],))
    while len(members) < count:
        size = source.offset
        try:
            member, score = read_string(source), struct.unpack("<d", source.take(8))[0]
        except RdbError:
            return members, scores, position + size
        members.append(member)
        scores.append(score)
    return members, scores, position + source.offset


def read_timed(block: bytes, position: int, count: int) -> tuple[list[bytes], list[int], int]:
    """Like `read_some`, for at most `count` fields with their values, and the numbers before them."""
    words: list[bytes] = []
    times: list[int] = []
    source = Source((block[position : position + LOOKED_AT_SIZE],))
    while len(times) < count:
        size = source.offset
        try:
            after, pair = read_length(source), (read_string(source), read_string(source))
        except RdbError:
            return words, times, position + size
        words += pair
        times.append(after)
    return words, times, position + source.offset


def pack_texts(texts: list[bytes]) -> bytes:
    """Return a listpack of texts."""
    return pack([encode_texts(texts)], len(texts))


def pack_places(places: list[bytes]) -> bytes:
    """Return a listpack of the members of these places, each with its score after it. Raises ValueError."""
    return pack_texts([text for member, score in scored_of(places) for text in (member, double_text(score))])


def unpack_texts(data: bytes) -> list[bytes]:
    """Return the elements of a listpack as texts. Raises RdbError."""
    return [element if isinstance(element, bytes) else b"%d" % element for element in unpack(data)]


def read_some(block: bytes, position: int, count: int) -> tuple[list[bytes], int]:
    """Read at most `count` strings from `position` on, as far as they are complete in the block's next bytes.

    Returns them, and the position after them. What cannot be read is left to the caller, also if it is damaged.
    """
    texts: list[bytes] = []
    source = Source((block[position : position + LOOKED_AT_SIZE],))
    while len(texts) < count:
        size = source.offset
        try:
            texts.append(read_string(source))
        except RdbError:
            return texts, position + size
    return texts, position + source.offset
