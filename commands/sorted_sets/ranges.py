"""Ranges of a sorted set: their limits, and the ranks between which they are."""

from __future__ import annotations

import math
from typing import Final

from ...store.companions.scores import SCORE_SIZE
from ...store.companions.sorted_set_value import LISTPACK, SortedSetValue
from ...store.errors import GenericError
from ..core.numbers import parse_float

try:
    from ...store.companions.places import bytes_after, place_of, score_bytes
except ImportError:  # there was no C compiler at installation
    from ...store.companions.places_plain import bytes_after, place_of, score_bytes

NOT_A_RANGE: Final = b"min or max is not a float"
NOT_A_LEX_RANGE: Final = b"min or max not valid string range item"
_BLANKS: Final = b" \t\n\v\f\r"
# Compiled code calls these in less time than names that are imported, which it looks up at each call.
_bytes_after: Final = bytes_after
_score_bytes: Final = score_bytes


class LexBound:
    """One end of a range of members. `infinity`: -1 before all members, 1 after all."""

    __slots__ = ("after", "before", "infinity", "is_exclusive", "member")

    def __init__(self, member: bytes, is_exclusive: bool, infinity: int) -> None:
        self.member = member
        self.is_exclusive = is_exclusive
        self.infinity = infinity
        # What follows the member in the first text of a range that begins with it, and in the first one after a range
        # that ends with it: a zero byte makes the next text.
        self.after = b"\0" if is_exclusive else b""
        self.before = b"" if is_exclusive else b"\0"


def score_place(token: bytes, *, is_high: bool) -> bytes:
    """The place that the places in a range of scores come after, or with `is_high` before, for an end of it as `1.5`,
    `(1.5` or `-inf`. As in C, a zero byte ends it. Raises GenericError."""
    is_exclusive = token[:1] == b"("
    if is_exclusive:
        token = token[1:]
    score = parse_float(token)
    if score is None:
        text = token.partition(b"\0")[0].lstrip(_BLANKS)
        score = parse_float(text) if text else 0.0
        if score is None:
            score = _beyond(text)
    return _score_bytes(score) if is_high is is_exclusive else _bytes_after(score)


def _beyond(text: bytes) -> float:
    """The number that C reads where it is too large or too small. Raises GenericError."""
    try:
        score = float(text) if text.isascii() and b"_" not in text and text == text.rstrip() else math.nan
    except ValueError:
        score = math.nan
    if math.isnan(score):
        raise GenericError(NOT_A_RANGE)
    return score


def lex_bound(token: bytes) -> LexBound:
    """An end of a range of members: `-`, `+`, `[member` or `(member`. Raises GenericError.

    As in C, a zero byte ends the signs.
    """
    infinity = token.partition(b"\0")[0]
    if infinity in (b"-", b"+"):
        return LexBound(b"", False, -1 if infinity == b"-" else 1)
    if token[:1] not in (b"[", b"("):
        raise GenericError(NOT_A_LEX_RANGE)
    return LexBound(token[1:], token[:1] == b"(", 0)


def score_ranks(value: SortedSetValue, low: bytes, high: bytes) -> tuple[int, int]:
    """The ranks from and before which the members are between two places."""
    start, stop = value.rank_of_place(low), value.rank_of_place(high)
    return start, max(start, stop)


def _is_above(member: bytes, low: LexBound) -> bool:
    if low.infinity:
        return low.infinity < 0
    return member > low.member or (member == low.member and not low.is_exclusive)


def _is_below(member: bytes, high: LexBound) -> bool:
    if high.infinity:
        return high.infinity > 0
    return member < high.member or (member == high.member and not high.is_exclusive)


def _is_empty(low: LexBound, high: LexBound) -> bool:
    """Whether no member can be in a range."""
    if low.infinity > 0 or high.infinity < 0:
        return True
    if low.infinity or high.infinity:
        return False
    return low.member > high.member or (low.member == high.member and (low.is_exclusive or high.is_exclusive))


def lex_ranks(value: SortedSetValue, low: LexBound, high: LexBound, *, reverse: bool = False) -> tuple[int, int]:
    """The ranks from and before which the members are in a range.

    All members should have one score. Otherwise the range of a listpack begins with the first member that is not before
    `low` and ends before the next one beyond `high`, as in Redis; with `reverse` it is found from the last member on.
    In a skiplist of Redis the result then depends on chance.
    """
    size = len(value)
    if not size or _is_empty(low, high):
        return 0, 0
    score_text = value.place_at(0)[:SCORE_SIZE]
    if value.place_at(size - 1)[:SCORE_SIZE] == score_text:
        start = 0 if low.infinity else value.rank_of_place(score_text + low.member + low.after)
        stop = size if high.infinity else value.rank_of_place(score_text + high.member + high.before)
        return start, max(start, stop)
    if value.encoding == LISTPACK:
        return _listpack_ranks(value.members(0, size), low, high, reverse=reverse)
    first, last = value.members(0, 1)[0], value.members(size - 1, size)[0]
    if not _is_above(last, low) or not _is_below(first, high):
        return 0, 0
    score = value.score(first)
    assert score is not None
    start = 0 if low.infinity else value.rank_of_place(place_of(score, low.member))
    if start < size and not low.infinity and not _is_above(value.members(start, start + 1)[0], low):
        start += 1
    stop = size if high.infinity else value.rank_of_place(place_of(score, high.member))
    if stop < size and not high.infinity and _is_below(value.members(stop, stop + 1)[0], high):
        stop += 1
    return start, max(start, stop)


def _listpack_ranks(members: list[bytes], low: LexBound, high: LexBound, *, reverse: bool) -> tuple[int, int]:
    """See `lex_ranks`."""
    size = len(members)
    if not _is_above(members[-1], low) or not _is_below(members[0], high):
        return 0, 0
    if reverse:
        stop = size
        while stop and not _is_below(members[stop - 1], high):
            stop -= 1
        start = stop
        while start and _is_above(members[start - 1], low):
            start -= 1
        return start, stop
    start = 0
    while start < size and not _is_above(members[start], low):
        start += 1
    stop = start
    while stop < size and _is_below(members[stop], high):
        stop += 1
    return start, stop


def index_ranks(size: int, start: int, stop: int) -> tuple[int, int]:
    """The ranks from and before which the members are that two indexes name; negative ones count from the end."""
    start = max(start + size, 0) if start < 0 else start
    stop = stop + size if stop < 0 else stop
    if start > stop or start >= size:
        return 0, 0
    return start, min(stop, size - 1) + 1
