"""Sorted sets: members with their scores, or a listpack or ziplist of them, ascending.

A score is a double of 8 bytes, little-endian; early versions had its text, after its length. Redis limits the number of
the members of a listpack or a ziplist, but not their sizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from ...store.companions.scores import NEW
from ...store.companions.sorted_set_value import LISTPACK, SortedSetValue
from ...store.image import Packed
from ...store.limits import Limits
from ..errors import EmptyValue, RdbError
from .lengths import encode_length, read_length, read_string
from .source import Source
from .texts import encode_scored, pack_joined_places, pack_places, read_members, unpack_texts
from .ziplist import unpack_ziplist

SORTED_SET_TEXTS: Final = 3
SORTED_SET: Final = 5
SORTED_SET_ZIPLIST: Final = 12
SORTED_SET_LISTPACK: Final = 17
SORTED_SET_TYPES: Final = (SORTED_SET_TEXTS, SORTED_SET, SORTED_SET_ZIPLIST, SORTED_SET_LISTPACK)

NAN_SCORE: Final = "Zset with NAN score detected"
SAME_MEMBER: Final = "Duplicate zset fields detected"
_LISTPACK_HEAD: Final = bytes((SORTED_SET_LISTPACK,))
# Members that are encoded at a time.
_MEMBERS_AT_ONCE: Final = 256
# Lengths of a text that stand for a number without one.
_SPECIAL: Final = {253: math.nan, 254: math.inf, 255: -math.inf}


def sorted_set_type(value: SortedSetValue) -> int:
    """The type byte of a sorted set."""
    return SORTED_SET_LISTPACK if value.encoding == LISTPACK else SORTED_SET


def packed_sorted_set(value: SortedSetValue) -> Packed | None:
    """A sorted set that is a listpack; None if it is not one."""
    if value.encoding != LISTPACK:
        return None
    joined = value.joined_places()
    return _LISTPACK_HEAD, pack_places(value.places()) if joined is None else pack_joined_places(joined)


def encode_sorted_set(value: SortedSetValue, *, compress: bool) -> Iterator[bytes]:
    """Yield a sorted set that is not a listpack, without its type."""
    size = len(value)
    yield encode_length(size)
    # From the highest score on, as in Redis, which adds each at the front then.
    for stop in range(size, 0, -_MEMBERS_AT_ONCE):
        yield encode_scored(value.words(max(stop - _MEMBERS_AT_ONCE, 0), stop, reverse=True), compress)


def read_sorted_set(source: Source, kind: int, limits: Limits) -> SortedSetValue:
    """The sorted set of type `kind`. Raises RdbError."""
    if kind == SORTED_SET_LISTPACK:
        return sorted_set_of_listpack(read_string(source), limits)
    value = SortedSetValue(limits)
    if kind == SORTED_SET:
        value.become_skiplist()
        count = read_length(source)
        while count:
            members, scores = read_members(source, count)
            for score in scores:
                if score != score:
                    raise RdbError(NAN_SCORE)
            if value.add_new(members, scores) < len(members):
                raise RdbError(SAME_MEMBER)
            count -= len(members)
        value.shrink()
    elif kind == SORTED_SET_TEXTS:
        value.become_skiplist()
        for _ in range(read_length(source)):
            _put(value, read_string(source), _text_score(source))
        value.shrink()
    else:
        _fill(value, unpack_ziplist(read_string(source)))
    return _with_members(value)


def sorted_set_of_listpack(listpack: bytes, limits: Limits) -> SortedSetValue:
    """The sorted set of a listpack. Raises RdbError, EmptyValue."""
    value = SortedSetValue(limits)
    if not value.load_listpack(listpack):
        _fill(value, unpack_texts(listpack))
    return _with_members(value)


def _with_members(value: SortedSetValue) -> SortedSetValue:
    if not len(value):
        raise EmptyValue
    return value


def _fill(value: SortedSetValue, words: list[bytes]) -> None:
    """Add the members of a listpack, each with its score after it. Raises RdbError."""
    if len(words) % 2:
        raise RdbError("Zset integrity check failed: a member without a score")
    numbers: list[float] = []
    for text in words[1::2]:
        number = _number(text)
        if math.isnan(number):
            raise RdbError(NAN_SCORE)
        numbers.append(number)
    if value.fill(words[::2], numbers) < len(numbers):
        raise RdbError(SAME_MEMBER)


def _put(value: SortedSetValue, member: bytes, score: float) -> None:
    if math.isnan(score):
        raise RdbError(NAN_SCORE)
    if value.put(member, score) != NEW:
        raise RdbError(SAME_MEMBER)


def _text_score(source: Source) -> float:
    size = source.byte()
    return _SPECIAL[size] if size in _SPECIAL else _number(source.take(size))


def _number(text: bytes) -> float:
    """The number that a text spells; nan for other texts."""
    try:
        return float(text) if b"_" not in text else math.nan
    except ValueError:
        return math.nan
