"""Replies with many members of a sorted set, which are encoded while they are sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ...protocol.encoder import bulks, encode2, encode3
from ...protocol.replies import Reply
from ...store.companions.sorted_set_value import SortedSetValue
from ..execution.context import Context

# Members that are encoded at once.
PER_PIECE: Final = 500


def long_range(
    context: Context, value: SortedSetValue, start: int, stop: int, *, reverse: bool, has_scores: bool
) -> Reply:
    """The members from rank `start` on, before rank `stop`. The caller must not use the sorted set afterwards."""
    count = stop - start
    if not has_scores:
        return (b"*%d\r\n" % count, _members(context, value, start, stop, reverse))
    has_pairs = context.client.protocol == 3
    header = b"*%d\r\n" % (count if has_pairs else 2 * count)
    pieces = scored_pieces(context, value, start, stop, reverse=reverse, has_pairs=has_pairs, has_doubles=has_pairs)
    return (header, pieces)


def _members(context: Context, value: SortedSetValue, start: int, stop: int, reverse: bool) -> Iterator[bytes]:
    for first, last in _spans(start, stop, reverse):
        yield bulks(value.members(first, last, reverse=reverse))
    context.store.garbage.add_value(value)


def scored_pieces(
    context: Context,
    value: SortedSetValue,
    start: int,
    stop: int,
    *,
    reverse: bool,
    has_pairs: bool,
    has_doubles: bool,
) -> Iterator[bytes]:
    """The members from rank `start` on, before rank `stop`, with their scores, as elements of a reply: see
    `scored_bulks`. The caller must not use the sorted set afterwards."""
    for first, last in _spans(start, stop, reverse):
        words = value.words(first, last, reverse=reverse)
        yield _elements(words, has_pairs=has_pairs, has_doubles=has_doubles)
    context.store.garbage.add_value(value)


def _spans(start: int, stop: int, reverse: bool) -> list[tuple[int, int]]:
    """The ranks of the pieces, in their order."""
    spans = [(first, min(first + PER_PIECE, stop)) for first in range(start, stop, PER_PIECE)]
    return spans[::-1] if reverse else spans


def long_pairs(pairs: list[tuple[bytes, float]], *, has_pairs: bool, has_doubles: bool) -> Iterator[bytes]:
    """Members with their scores, as elements of a reply: see `scored_bulks`. The caller must not use the list
    afterwards: its pairs are freed one piece after the other."""
    pairs.reverse()
    while pairs:
        part = pairs[: -PER_PIECE - 1 : -1]
        del pairs[-PER_PIECE:]
        yield scored_bulks(part, has_pairs=has_pairs, has_doubles=has_doubles)


def scored_bulks(pairs: list[tuple[bytes, float]], *, has_pairs: bool, has_doubles: bool) -> bytes:
    """Members with their scores, as elements of a reply: in pairs or in turn, with the doubles of RESP3 or bulk
    strings."""
    words: list[bytes | float] = [word for pair in pairs for word in pair]
    return _elements(words, has_pairs=has_pairs, has_doubles=has_doubles)


def _elements(words: list[bytes | float], *, has_pairs: bool, has_doubles: bool) -> bytes:
    """Like `scored_bulks`, of members that each have their score after them."""
    value: list[Any] = [words[index : index + 2] for index in range(0, len(words), 2)] if has_pairs else words
    encoded: list[bytes] = []
    (encode3 if has_doubles else encode2)(value, encoded)
    array = b"".join(encoded)
    # The reply has a header of its own.
    return array[array.index(b"\n") + 1 :]
