"""Commands that remove a range of a sorted set: ZREMRANGEBYRANK, ZREMRANGEBYSCORE, ZREMRANGEBYLEX."""

from __future__ import annotations

from ...protocol.replies import Reply
from ...store.companions.sorted_set_value import SortedSetValue
from ...store.events import ZREMRANGEBYLEX, ZREMRANGEBYRANK, ZREMRANGEBYSCORE, Event
from ..core.numbers import integer
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context
from .ranges import index_ranks, lex_bound, lex_ranks, score_place, score_ranks


def _remove(context: Context, argv: list[bytes], value: SortedSetValue, ranks: tuple[int, int], event: Event) -> Reply:
    """Removes the members between two ranks. Returns how many there were."""
    start, stop = ranks
    if stop - start == len(value):
        removed = stop - start
        context.store.garbage.add_value(value.take_all())
    else:
        removed = value.remove_range(start, stop)
    if removed:
        context.db.settle(argv[1], value, event)
        context.log_words(argv, removed)
    return removed


@command(
    "ZREMRANGEBYRANK",
    arity=4,
    flags=Flag.WRITE,
    keys=(KeySpec(1, 1, 1, ("RW", "delete")),),
    categories=("sortedset",),
    group="sorted-set",
    since="2.0.0",
    summary="Removes the members between two indexes.",
    complexity="O(log(N)+M) with M members removed.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("start", "integer"),
        Argument("stop", "integer"),
    ),
)
def zremrangebyrank(context: Context, argv: list[bytes]) -> Reply:
    """ZREMRANGEBYRANK key start stop. Returns their number. Raises GenericError, WrongType. Source: Redis 2.8."""
    start, stop = integer(argv[2]), integer(argv[3])
    value = context.db.find_companion(argv[1], SortedSetValue, context.now_ms)
    return 0 if value is None else _remove(context, argv, value, index_ranks(len(value), start, stop), ZREMRANGEBYRANK)


@command(
    "ZREMRANGEBYSCORE",
    arity=4,
    flags=Flag.WRITE,
    keys=(KeySpec(1, 1, 1, ("RW", "delete")),),
    categories=("sortedset",),
    group="sorted-set",
    since="1.2.0",
    summary="Removes the members in a range of scores.",
    complexity="O(log(N)+M) with M members removed.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("min", "double"),
        Argument("max", "double"),
    ),
)
def zremrangebyscore(context: Context, argv: list[bytes]) -> Reply:
    """ZREMRANGEBYSCORE key min max. Returns their number. Raises GenericError, WrongType. Source: Redis 2.8."""
    low, high = score_place(argv[2], is_high=False), score_place(argv[3], is_high=True)
    value = context.db.find_companion(argv[1], SortedSetValue, context.now_ms)
    return 0 if value is None else _remove(context, argv, value, score_ranks(value, low, high), ZREMRANGEBYSCORE)


@command(
    "ZREMRANGEBYLEX",
    arity=4,
    flags=Flag.WRITE,
    keys=(KeySpec(1, 1, 1, ("RW", "delete")),),
    categories=("sortedset",),
    group="sorted-set",
    since="2.8.9",
    summary="Removes the members in a range of members.",
    complexity="O(log(N)+M) with M members removed.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("min"),
        Argument("max"),
    ),
)
def zremrangebylex(context: Context, argv: list[bytes]) -> Reply:
    """ZREMRANGEBYLEX key min max. Returns their number. Raises GenericError, WrongType. Source: Redis 2.8."""
    low, high = lex_bound(argv[2]), lex_bound(argv[3])
    value = context.db.find_companion(argv[1], SortedSetValue, context.now_ms)
    return 0 if value is None else _remove(context, argv, value, lex_ranks(value, low, high), ZREMRANGEBYLEX)
