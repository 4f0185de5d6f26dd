"""Random members of a sorted set: ZRANDMEMBER."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from ...protocol.replies import Reply
from ...store.companions.sorted_set_value import SortedSetValue
from ...store.errors import GenericError, syntax_error
from ..core.numbers import INT64_MAX
from ..core.random_picks import (
    PICKS_PER_PIECE,
    distinct_indexes,
    pick_count,
    random_index,
    repeated_indexes,
    repeated_picks,
)
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context
from .long_ranges import scored_bulks

# With scores, the number of words must be a number of 64 bits too.
PAIRS_COUNT_MAX: Final = INT64_MAX // 2


@command(
    "ZRANDMEMBER",
    arity=-2,
    flags=Flag.READONLY,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("sortedset",),
    group="sorted-set",
    since="6.2.0",
    summary="Returns random members of a sorted set.",
    complexity="O(N) in the number of members returned.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument(
            "options",
            "block",
            optional=True,
            arguments=(
                Argument("count", "integer"),
                Argument("withscores", "pure-token", token="WITHSCORES", optional=True),
            ),
        ),
    ),
    tips=("nondeterministic_output",),
)
def zrandmember(context: Context, argv: list[bytes]) -> Reply:
    """ZRANDMEMBER key [count [WITHSCORES]]

    Without a count returns one member, null if the key is missing. A positive count returns at most so many different
    members, a negative one exactly so many, which may repeat. Raises GenericError, WrongType. Source: Redis 6.2.
    """
    count = None if len(argv) == 2 else pick_count(argv[2])
    has_scores = len(argv) == 4 and argv[3].upper() == b"WITHSCORES"
    if len(argv) > 4 or (len(argv) == 4 and not has_scores):
        raise syntax_error()
    if count is not None and has_scores and not -PAIRS_COUNT_MAX <= count <= PAIRS_COUNT_MAX:
        raise GenericError(b"value is out of range")
    value = context.db.read_companion(argv[1], SortedSetValue, context.now_ms)
    if value is None:
        return None if count is None else []
    size = len(value)
    if count is None:
        return value.at(random_index(size))
    if count < -max(PICKS_PER_PIECE, size):
        if not has_scores:
            return repeated_picks(value.members(0, size), -count)
        return _repeated_pairs(context, list(value.items()), -count)
    if count >= size:
        return _in_turn(context, value.words(0, size)) if has_scores else value.members(0, size)
    indexes = distinct_indexes(size, count) if count >= 0 else repeated_indexes(size, -count)
    return _in_turn(context, value.words_at(indexes)) if has_scores else value.at_each(indexes)


def _in_turn(context: Context, words: list[bytes | float]) -> Reply:
    """Members, each with its score after it: pairs in RESP3, in one array in RESP2."""
    if context.client.protocol == 3:
        return [words[index : index + 2] for index in range(0, len(words), 2)]
    return words


def _repeated_pairs(context: Context, pairs: list[tuple[bytes, float]], count: int) -> Reply:
    """The reply with `count` members and scores, each drawn from all, made while it is sent."""
    has_pairs = context.client.protocol == 3
    return (b"*%d\r\n" % (count if has_pairs else 2 * count), _pieces(pairs, count, has_pairs))


def _pieces(pairs: list[tuple[bytes, float]], count: int, has_pairs: bool) -> Iterator[bytes]:
    while count:
        picked = random.choices(pairs, k=min(count, PICKS_PER_PIECE))
        count -= len(picked)
        yield scored_bulks(picked, has_pairs=has_pairs, has_doubles=has_pairs)
