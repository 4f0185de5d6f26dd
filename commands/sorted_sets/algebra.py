"""Unions, intersections and differences of sorted sets and sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from ...protocol.replies import Reply
from ...store.companions.set_value import SetValue
from ...store.companions.sorted_set_value import SortedSetValue
from ...store.errors import GenericError, WrongType, syntax_error
from ...store.events import DEL, ZDIFFSTORE, ZINTERSTORE, ZUNIONSTORE, Event
from ..core.numbers import INT64_MAX, integer, integer_between, parse_float
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context

LIMIT_NEGATIVE: Final = b"LIMIT can't be negative"
AGGREGATES: Final = frozenset((b"SUM", b"MIN", b"MAX", b"COUNT"))

Scores = dict[bytes, float]

# How members of several sets are combined, as COMMAND DOCS prints it.
WEIGHED: Final = (
    Argument("weight", "integer", token="WEIGHTS", optional=True, multiple=True),
    Argument(
        "aggregate",
        "oneof",
        token="AGGREGATE",
        optional=True,
        arguments=(
            Argument("sum", "pure-token", token="SUM"),
            Argument("min", "pure-token", token="MIN"),
            Argument("max", "pure-token", token="MAX"),
            Argument("count", "pure-token", token="COUNT", since="8.8.0"),
        ),
    ),
)
WEIGHED_HISTORY: Final = (("8.8.0", "Added `COUNT` aggregate option."),)


class Operands(NamedTuple):
    """What is combined: the scores of each key, weighted, by member; None for a missing key."""

    tables: list[Scores | None]
    aggregate: bytes
    with_scores: bool


Combine = Callable[[Operands], Scores]


def _value(context: Context, key: bytes) -> SortedSetValue | SetValue | None:
    """The set or sorted set at a key; None if there is none. Raises WrongType."""
    value = context.db.read(key, context.now_ms)
    if value is None or isinstance(value, SetValue):
        return value
    if not isinstance(value, SortedSetValue):
        raise WrongType
    value.used_ms = context.now_ms
    return value


def _table(context: Context, key: bytes) -> Scores | None:
    """The scores at a key by member; those of a set are 1. Raises WrongType."""
    value = _value(context, key)
    if value is None:
        return None
    return dict.fromkeys(value.members(), 1.0) if isinstance(value, SetValue) else dict(value.items())


def _keys_count(argv: list[bytes], at: int, name: bytes) -> int:
    """The number of keys at index `at`. Raises GenericError."""
    count = integer(argv[at])
    if count < 1:
        raise GenericError(b"at least 1 input key is needed for '%b' command" % name)
    if count > len(argv) - at - 1:
        raise syntax_error()
    return count


def _operands(
    context: Context, argv: list[bytes], at: int, name: bytes, *, has_weights: bool = True, takes_scores: bool = True
) -> Operands:
    """What a request combines; its number of keys is at index `at`. Raises GenericError, WrongType."""
    count = _keys_count(argv, at, name)
    tables = [_table(context, key) for key in argv[at + 1 : at + 1 + count]]
    weights = [1.0] * count
    aggregate, with_scores = b"SUM", False
    index = at + 1 + count
    while index < len(argv):
        word, left = argv[index].upper(), len(argv) - index - 1
        if word == b"WEIGHTS" and has_weights and left >= count:
            for number in range(count):
                weight = parse_float(argv[index + 1 + number])
                if weight is None:
                    raise GenericError(b"weight value is not a float")
                weights[number] = weight
            index += count
        elif word == b"AGGREGATE" and has_weights and left and argv[index + 1].upper() in AGGREGATES:
            aggregate = argv[index + 1].upper()
            index += 1
        elif word == b"WITHSCORES" and takes_scores:
            with_scores = True
        else:
            raise syntax_error()
        index += 1
    weighted: list[Scores | None] = []
    for table, weight in zip(tables, weights, strict=True):
        if table is not None and has_weights and (weight != 1.0 or aggregate == b"COUNT"):
            table = {member: weight if aggregate == b"COUNT" else weight * score for member, score in table.items()}
        weighted.append(table)
    return Operands(weighted, aggregate, with_scores)


def _number(score: float) -> float:
    """The score; 0 for what is no number, as infinity times 0."""
    return score if score == score else 0.0


def _merged(aggregate: bytes, first: float, second: float) -> float:
    """Two scores as one."""
    if aggregate == b"MIN":
        return min(first, second)
    if aggregate == b"MAX":
        return max(first, second)
    return _number(first + second)


def _by_size(tables: list[Scores | None]) -> list[Scores]:
    """The tables that are there, the smallest first."""
    return sorted([table for table in tables if table is not None], key=len)


def _union(operands: Operands) -> Scores:
    """The members of all tables."""
    found: Scores = {}
    for table in _by_size(operands.tables):
        if not found:
            found = {member: _number(score) for member, score in table.items()}
            continue
        for member, score in table.items():
            old = found.get(member)
            number = _number(score)
            found[member] = number if old is None else _merged(operands.aggregate, old, number)
    return found


def _intersection(operands: Operands) -> Scores:
    """The members that all tables have."""
    tables = _by_size(operands.tables)
    if len(tables) < len(operands.tables):
        return {}
    found: Scores = {}
    for member, first in tables[0].items():
        score = _number(first)
        for table in tables[1:]:
            other = table.get(member)
            if other is None:
                break
            score = _merged(operands.aggregate, score, other)
        else:
            found[member] = score
    return found


def _common_count(values: list[SortedSetValue | SetValue | None], limit: int) -> int:
    """The number of members that all values have, at most `limit`."""
    present = sorted([value for value in values if value is not None], key=len)
    if len(present) < len(values):
        return 0
    smallest, others = present[0], present[1:]
    found = 0
    for member in smallest.members_in_turn():
        for other in others:
            if member not in other:
                break
        else:
            found += 1
            if found == limit:
                break
    return found


def _difference(operands: Operands) -> Scores:
    """The members of the first table that no other one has."""
    first = operands.tables[0]
    if first is None:
        return {}
    others = [table for table in operands.tables[1:] if table is not None]
    return {member: score for member, score in first.items() if all(member not in table for table in others)}


def _read(context: Context, argv: list[bytes], name: bytes, combine: Combine, *, has_weights: bool = True) -> Reply:
    """Returns the result, ascending. Raises GenericError, WrongType."""
    operands = _operands(context, argv, 1, name, has_weights=has_weights)
    pairs = sorted([(score, member) for member, score in combine(operands).items()])
    if not operands.with_scores:
        return [member for _, member in pairs]
    if context.client.protocol == 3:
        return [[member, score] for score, member in pairs]
    return [word for score, member in pairs for word in (member, score)]


def _store(
    context: Context, argv: list[bytes], name: bytes, combine: Combine, event: Event, *, has_weights: bool = True
) -> Reply:
    """Stores the result at `argv[1]`. Returns its number of members. Raises GenericError, WrongType."""
    operands = _operands(context, argv, 2, name, has_weights=has_weights, takes_scores=False)
    scores = combine(operands)
    key, db = argv[1], context.db
    if not scores:
        if db.delete(key, DEL):
            context.log_words(argv)
        return 0
    result = SortedSetValue(context.limits)
    result.expect(len(scores), max(map(len, scores)))
    for member, score in scores.items():
        result.put(member, score)
    db.overwrite(key, result, event, context.now_ms)
    context.log_words(argv)
    return len(scores)


@command(
    "ZUNION",
    arity=-3,
    flags=Flag.READONLY | Flag.MOVABLEKEYS,
    keys=(KeySpec(2, 0, 1, ("RO", "access"), count_at=1, is_loose=True),),
    categories=("sortedset",),
    group="sorted-set",
    since="6.2.0",
    summary="Returns the members that any of the keys has.",
    complexity="O(N*log(N)) in the number of all members.",
    arguments=(
        Argument("numkeys", "integer"),
        Argument("key", "key", multiple=True, key_spec_index=0),
        *WEIGHED,
        Argument("withscores", "pure-token", token="WITHSCORES", optional=True),
    ),
    history=WEIGHED_HISTORY,
)
def zunion(context: Context, argv: list[bytes]) -> Reply:
    """ZUNION numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX | COUNT>] [WITHSCORES]

    Returns members in the order of their scores, with WITHSCORES also these. Raises GenericError, WrongType.
    Source: Redis 6.2.
    """
    return _read(context, argv, b"zunion", _union)


@command(
    "ZUNIONSTORE",
    arity=-4,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.MOVABLEKEYS,
    keys=(
        KeySpec(1, 1, 1, ("OW", "update")),
        KeySpec(3, 0, 1, ("RO", "access"), count_at=2, is_loose=True),
    ),
    categories=("sortedset",),
    group="sorted-set",
    since="2.0.0",
    summary="Stores the members that any of the keys has as a sorted set.",
    complexity="O(N*log(N)) in the number of all members.",
    arguments=(
        Argument("destination", "key", key_spec_index=0),
        Argument("numkeys", "integer"),
        Argument("key", "key", multiple=True, key_spec_index=1),
        *WEIGHED,
    ),
    history=WEIGHED_HISTORY,
)
def zunionstore(context: Context, argv: list[bytes]) -> Reply:
    """ZUNIONSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX | COUNT>]

    Returns the number of members. Raises GenericError, WrongType. Source: Redis 2.0.
    """
    return _store(context, argv, b"zunionstore", _union, ZUNIONSTORE)


@command(
    "ZINTER",
    arity=-3,
    flags=Flag.READONLY | Flag.MOVABLEKEYS,
    keys=(KeySpec(2, 0, 1, ("RO", "access"), count_at=1, is_loose=True),),
    categories=("sortedset",),
    group="sorted-set",
    since="6.2.0",
    summary="Returns the members that all of the keys have.",
    complexity="O(N*log(N)) in the number of all members.",
    arguments=(
        Argument("numkeys", "integer"),
        Argument("key", "key", multiple=True, key_spec_index=0),
        *WEIGHED,
        Argument("withscores", "pure-token", token="WITHSCORES", optional=True),
    ),
    history=WEIGHED_HISTORY,
)
def zinter(context: Context, argv: list[bytes]) -> Reply:
    """ZINTER numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX | COUNT>] [WITHSCORES]

    Returns members in the order of their scores, with WITHSCORES also these. Raises GenericError, WrongType.
    Source: Redis 6.2.
    """
    return _read(context, argv, b"zinter", _intersection)


@command(
    "ZINTERSTORE",
    arity=-4,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.MOVABLEKEYS,
    keys=(
        KeySpec(1, 1, 1, ("OW", "update")),
        KeySpec(3, 0, 1, ("RO", "access"), count_at=2, is_loose=True),
    ),
    categories=("sortedset",),
    group="sorted-set",
    since="2.0.0",
    summary="Stores the members that all of the keys have as a sorted set.",
    complexity="O(N*log(N)) in the number of all members.",
    arguments=(
        Argument("destination", "key", key_spec_index=0),
        Argument("numkeys", "integer"),
        Argument("key", "key", multiple=True, key_spec_index=1),
        *WEIGHED,
    ),
    history=WEIGHED_HISTORY,
)
def zinterstore(context: Context, argv: list[bytes]) -> Reply:
    """ZINTERSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX | COUNT>]

    Returns the number of members. Raises GenericError, WrongType. Source: Redis 2.0.
    """
    return _store(context, argv, b"zinterstore", _intersection, ZINTERSTORE)


@command(
    "ZDIFF",
    arity=-3,
    flags=Flag.READONLY | Flag.MOVABLEKEYS,
    keys=(KeySpec(2, 0, 1, ("RO", "access"), count_at=1, is_loose=True),),
    categories=("sortedset",),
    group="sorted-set",
    since="6.2.0",
    summary="Returns the members that only the first key has.",
    complexity="O(N*log(N)) in the number of all members.",
    arguments=(
        Argument("numkeys", "integer"),
        Argument("key", "key", multiple=True, key_spec_index=0),
        Argument("withscores", "pure-token", token="WITHSCORES", optional=True),
    ),
)
def zdiff(context: Context, argv: list[bytes]) -> Reply:
    """ZDIFF numkeys key [key ...] [WITHSCORES]

    Returns members in the order of their scores, with WITHSCORES also these. Raises GenericError, WrongType.
    Source: Redis 6.2.
    """
    return _read(context, argv, b"zdiff", _difference, has_weights=False)


@command(
    "ZDIFFSTORE",
    arity=-4,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.MOVABLEKEYS,
    keys=(
        KeySpec(1, 1, 1, ("OW", "update")),
        KeySpec(3, 0, 1, ("RO", "access"), count_at=2, is_loose=True),
    ),
    categories=("sortedset",),
    group="sorted-set",
    since="6.2.0",
    summary="Stores the members that only the first key has as a sorted set.",
    complexity="O(N*log(N)) in the number of all members.",
    arguments=(
        Argument("destination", "key", key_spec_index=0),
        Argument("numkeys", "integer"),
        Argument("key", "key", multiple=True, key_spec_index=1),
    ),
)
def zdiffstore(context: Context, argv: list[bytes]) -> Reply:
    """ZDIFFSTORE destination numkeys key [key ...]

    Returns the number of members. Raises GenericError, WrongType. Source: Redis 2.0.
    """
    return _store(context, argv, b"zdiffstore", _difference, ZDIFFSTORE, has_weights=False)


@command(
    "ZINTERCARD",
    arity=-3,
    flags=Flag.READONLY | Flag.MOVABLEKEYS,
    keys=(KeySpec(2, 0, 1, ("RO", "access"), count_at=1, is_loose=True),),
    categories=("sortedset",),
    group="sorted-set",
    since="7.0.0",
    summary="Counts the members that all of the keys have.",
    complexity="O(N*K) with N members of the smallest of K keys.",
    arguments=(
        Argument("numkeys", "integer"),
        Argument("key", "key", multiple=True, key_spec_index=0),
        Argument("limit", "integer", token="LIMIT", optional=True),
    ),
)
def zintercard(context: Context, argv: list[bytes]) -> Reply:
    """ZINTERCARD numkeys key [key ...] [LIMIT limit]

    Returns the number of members, at most LIMIT unless that is 0. Raises GenericError, WrongType. Source: Redis 7.0.
    """
    count = _keys_count(argv, 1, b"zintercard")
    values = [_value(context, key) for key in argv[2 : 2 + count]]
    limit, index = 0, 2 + count
    while index < len(argv):
        if argv[index].upper() != b"LIMIT" or index + 1 == len(argv):
            raise syntax_error()
        limit = integer_between(argv[index + 1], 0, INT64_MAX, LIMIT_NEGATIVE)
        index += 2
    return _common_count(values, limit or INT64_MAX)
