"""Commands that remove the members with the lowest or highest scores: ZPOPMIN, ZMPOP, and their waiting forms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...protocol.replies import NULL_ARRAY, Reply
from ...store.companions.sorted_set_value import SortedSetValue
from ...store.errors import syntax_error
from ...store.events import ZPOPMAX, ZPOPMIN
from ..clients.blocking import Blocked
from ..core.numbers import INT64_MAX, integer_between, timeout_in_seconds
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context
from ..execution.slices import LONG_COUNT
from .long_ranges import long_pairs, scored_pieces

POSITIVE: Final = b"value is out of range, must be positive"


class SeveralKeys:
    """The request of ZMPOP or BZMPOP after its timeout."""

    __slots__ = ("from_end", "keys", "limit")

    def __init__(self, keys: list[bytes], from_end: bool, limit: int) -> None:
        self.keys: Final = keys
        self.from_end: Final = from_end
        self.limit: Final = limit


def _pop(
    context: Context, key: bytes, value: SortedSetValue, count: int, *, from_end: bool
) -> list[tuple[bytes, float]]:
    """Removes up to `count` members with the lowest or highest scores. Returns them, the most extreme first."""
    size = len(value)
    count = min(count, size)
    start, stop = (size - count, size) if from_end else (0, count)
    popped = value.scored(start, stop, reverse=from_end)
    value.remove_range(start, stop)
    context.db.settle(key, value, ZPOPMAX if from_end else ZPOPMIN)
    return popped


def _pop_many(
    context: Context, key: bytes, value: SortedSetValue, count: int, *, from_end: bool, has_pairs: bool
) -> Iterator[bytes]:
    """Like `_pop`, for very many members. Returns the elements of the reply, which are encoded while they are sent."""
    has_doubles = context.client.protocol == 3
    if count < len(value):
        popped = _pop(context, key, value, count, from_end=from_end)
        return long_pairs(popped, has_pairs=has_pairs, has_doubles=has_doubles)
    taken = value.take_all()
    context.db.settle(key, value, ZPOPMAX if from_end else ZPOPMIN)
    return scored_pieces(context, taken, 0, count, reverse=from_end, has_pairs=has_pairs, has_doubles=has_doubles)


def _single(context: Context, argv: list[bytes], *, from_end: bool) -> Reply:
    """ZPOPMIN or ZPOPMAX. Raises GenericError, WrongType."""
    if len(argv) > 3:
        raise syntax_error()
    has_count = len(argv) == 3
    count = integer_between(argv[2], 0, INT64_MAX, POSITIVE) if has_count else 1
    key = argv[1]
    value = context.db.find_companion(key, SortedSetValue, context.now_ms)
    if value is None or not count:
        return []
    count = min(count, len(value))
    context.log_words(argv, count)
    has_pairs = has_count and context.client.protocol == 3
    if count >= LONG_COUNT:
        pieces = _pop_many(context, key, value, count, from_end=from_end, has_pairs=has_pairs)
        return (b"*%d\r\n" % (count if has_pairs else 2 * count), pieces)
    popped = _pop(context, key, value, count, from_end=from_end)
    if has_pairs:
        return [list(pair) for pair in popped]
    return [word for pair in popped for word in pair]


def _several(argv: list[bytes], at: int) -> SeveralKeys:
    """The request of ZMPOP, whose number of keys is at index `at`. Raises GenericError."""
    keys_count = integer_between(argv[at], 1, INT64_MAX, b"numkeys should be greater than 0")
    where = at + 1 + keys_count
    if where >= len(argv) or argv[where].upper() not in (b"MIN", b"MAX"):
        raise syntax_error()
    count, has_count, index = 1, False, where + 1
    while index < len(argv):
        if has_count or argv[index].upper() != b"COUNT" or index + 1 == len(argv):
            raise syntax_error()
        count = integer_between(argv[index + 1], 1, INT64_MAX, b"count should be greater than 0")
        has_count = True
        index += 2
    return SeveralKeys(argv[at + 1 : where], argv[where].upper() == b"MAX", count)


def _pop_from_first(context: Context, request: SeveralKeys) -> Reply:
    """Pops from the first sorted set that has members. Returns NULL_ARRAY if there is none. Raises WrongType."""
    for key in request.keys:
        value = context.db.find_companion(key, SortedSetValue, context.now_ms)
        if value is not None:
            count, from_end = min(request.limit, len(value)), request.from_end
            context.log_words([b"ZPOPMAX" if from_end else b"ZPOPMIN", key, b"%d" % count], count)
            if count >= LONG_COUNT:
                pieces = _pop_many(context, key, value, count, from_end=from_end, has_pairs=True)
                return (b"*2\r\n$%d\r\n%b\r\n*%d\r\n" % (len(key), key, count), pieces)
            popped = _pop(context, key, value, count, from_end=from_end)
            return [key, [list(pair) for pair in popped]]
    return NULL_ARRAY


def _wait(context: Context, keys: list[bytes], argv: list[bytes], timeout_ms: int) -> Reply:
    """Waits until one of the keys has a sorted set; not in a transaction or a script."""
    if not context.may_block:
        return NULL_ARRAY
    return Blocked(keys, argv, timeout_ms or None, waits_for=SortedSetValue)


def _wait_for_one(context: Context, argv: list[bytes], *, from_end: bool) -> Reply:
    """BZPOPMIN or BZPOPMAX. Raises GenericError, WrongType."""
    timeout_ms = timeout_in_seconds(argv[-1], context.now_ms)
    keys = argv[1 : len(argv) - 1]
    for key in keys:
        value = context.db.find_companion(key, SortedSetValue, context.now_ms)
        if value is not None:
            member, score = _pop(context, key, value, 1, from_end=from_end)[0]
            context.log(b"ZPOPMAX" if from_end else b"ZPOPMIN", key)
            return [key, member, score]
    return _wait(context, keys, argv, timeout_ms)


@command(
    "ZPOPMIN",
    arity=-2,
    flags=Flag.WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "access", "delete")),),
    categories=("sortedset",),
    group="sorted-set",
    since="5.0.0",
    summary="Removes the members with the lowest scores and returns them.",
    complexity="O(log(N)*M) with M members removed.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("count", "integer", optional=True),
    ),
)
def zpopmin(context: Context, argv: list[bytes]) -> Reply:
    """ZPOPMIN key [count]. Returns members with their scores. Raises GenericError, WrongType. Source: Redis 5.0."""
    return _single(context, argv, from_end=False)


@command(
    "ZPOPMAX",
    arity=-2,
    flags=Flag.WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "access", "delete")),),
    categories=("sortedset",),
    group="sorted-set",
    since="5.0.0",
    summary="Removes the members with the highest scores and returns them.",
    complexity="O(log(N)*M) with M members removed.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("count", "integer", optional=True),
    ),
)
def zpopmax(context: Context, argv: list[bytes]) -> Reply:
    """ZPOPMAX key [count]. Returns members with their scores. Raises GenericError, WrongType. Source: Redis 5.0."""
    return _single(context, argv, from_end=True)


@command(
    "ZMPOP",
    arity=-4,
    flags=Flag.WRITE | Flag.MOVABLEKEYS,
    keys=(KeySpec(2, 0, 1, ("RW", "access", "delete"), count_at=1, is_loose=True),),
    categories=("sortedset",),
    group="sorted-set",
    since="7.0.0",
    summary="Removes members of the first sorted set that has any, and returns them.",
    complexity="O(K)+O(M*log(N)) with K keys and M members removed.",
    arguments=(
        Argument("numkeys", "integer"),
        Argument("key", "key", multiple=True, key_spec_index=0),
        Argument(
            "where",
            "oneof",
            arguments=(
                Argument("min", "pure-token", token="MIN"),
                Argument("max", "pure-token", token="MAX"),
            ),
        ),
        Argument("count", "integer", token="COUNT", optional=True),
    ),
)
def zmpop(context: Context, argv: list[bytes]) -> Reply:
    """ZMPOP numkeys key [key ...] <MIN | MAX> [COUNT count]

    Returns the key, and members with their scores; null if there are none. Raises GenericError, WrongType.
    Source: Redis 7.0.
    """
    return _pop_from_first(context, _several(argv, 1))


@command(
    "BZPOPMIN",
    arity=-3,
    flags=Flag.WRITE | Flag.BLOCKING | Flag.FAST,
    keys=(KeySpec(1, -2, 1, ("RW", "access", "delete")),),
    categories=("sortedset",),
    group="sorted-set",
    since="5.0.0",
    summary="Removes the member with the lowest score of one of the keys, and waits for one.",
    complexity="O(log(N))",
    arguments=(
        Argument("key", "key", multiple=True, key_spec_index=0),
        Argument("timeout", "double"),
    ),
    history=(("6.0.0", "`timeout` is interpreted as a double instead of an integer."),),
)
def bzpopmin(context: Context, argv: list[bytes]) -> Reply:
    """BZPOPMIN key [key ...] timeout

    `timeout` is in seconds, 0 for no end. Returns key, member and score; null after the timeout. Raises GenericError,
    WrongType. Source: Redis 6.0.
    """
    return _wait_for_one(context, argv, from_end=False)


@command(
    "BZPOPMAX",
    arity=-3,
    flags=Flag.WRITE | Flag.BLOCKING | Flag.FAST,
    keys=(KeySpec(1, -2, 1, ("RW", "access", "delete")),),
    categories=("sortedset",),
    group="sorted-set",
    since="5.0.0",
    summary="Removes the member with the highest score of one of the keys, and waits for one.",
    complexity="O(log(N))",
    arguments=(
        Argument("key", "key", multiple=True, key_spec_index=0),
        Argument("timeout", "double"),
    ),
    history=(("6.0.0", "`timeout` is interpreted as a double instead of an integer."),),
)
def bzpopmax(context: Context, argv: list[bytes]) -> Reply:
    """BZPOPMAX key [key ...] timeout

    `timeout` is in seconds, 0 for no end. Returns key, member and score; null after the timeout. Raises GenericError,
    WrongType. Source: Redis 6.0.
    """
    return _wait_for_one(context, argv, from_end=True)


@command(
    "BZMPOP",
    arity=-5,
    flags=Flag.WRITE | Flag.BLOCKING | Flag.MOVABLEKEYS,
    keys=(KeySpec(3, 0, 1, ("RW", "access", "delete"), count_at=2, is_loose=True),),
    categories=("sortedset",),
    group="sorted-set",
    since="7.0.0",
    summary="Removes members of the first sorted set that has any, and waits for one.",
    complexity="O(K)+O(M*log(N)) with K keys and M members removed.",
    arguments=(
        Argument("timeout", "double"),
        Argument("numkeys", "integer"),
        Argument("key", "key", multiple=True, key_spec_index=0),
        Argument(
            "where",
            "oneof",
            arguments=(
                Argument("min", "pure-token", token="MIN"),
                Argument("max", "pure-token", token="MAX"),
            ),
        ),
        Argument("count", "integer", token="COUNT", optional=True),
    ),
)
def bzmpop(context: Context, argv: list[bytes]) -> Reply:
    """BZMPOP timeout numkeys key [key ...] <MIN | MAX> [COUNT count]

    `timeout` is in seconds, 0 for no end. Returns what ZMPOP does; null after the timeout. Raises GenericError,
    WrongType. Source: Redis 7.0.
    """
    request = _several(argv, 2)
    timeout_ms = timeout_in_seconds(argv[1], context.now_ms)
    reply = _pop_from_first(context, request)
    return _wait(context, request.keys, argv, timeout_ms) if reply is NULL_ARRAY else reply
