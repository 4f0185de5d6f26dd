"""Unions, intersections and differences of sorted sets and sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ...protocol.replies import Reply
from ...store.companions.set_value import SetValue
from ...store.companions.sorted_set_value import SortedSetValue
from ...store.errors import GenericError, WrongType, syntax_error
from ...store.events import DEL, ZDIFFSTORE, ZINTERSTORE, ZUNIONSTORE, Event
from ..core.numbers import INT64_MAX, integer, integer_between, parse_float
from ..core.table import Argument, Flag, KeySpec, Trait, command
from ..execution.context import Context
from ..execution.slices import LONG_COUNT, carried_out, is_awaited
from .combining import (
    Parts,
    common_count,
    difference_parts,
    intersection_parts,
    members_in_parts,
    result_of_parts,
    union_parts,
)
from .long_ranges import long_range
from .operands import Operand, Scores, as_numbers, common_pairs, merged

LIMIT_NEGATIVE: Final = b"LIMIT can't be negative"
AGGREGATES: Final = frozenset((b"SUM", b"MIN", b"MAX", b"COUNT"))

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


class Operands:
    """What is combined, in the order of the keys; None for a missing one."""

    __slots__ = ("aggregate", "operands", "with_scores")

    def __init__(self, operands: list[Operand | None], aggregate: bytes, with_scores: bool) -> None:
        self.operands: Final = operands
        self.aggregate: Final = aggregate
        self.with_scores: Final = with_scores


class Combination:
    """How operands are combined: few members at once, and many in parts. `measure` is how many are looked at."""

    __slots__ = ("few", "many", "measure")

    def __init__(
        self,
        few: Callable[[Operands], Scores],
        many: Callable[[list[Operand | None], bytes], Parts],
        measure: Callable[[list[Operand | None]], int],
    ) -> None:
        self.few: Final = few
        self.many: Final = many
        self.measure: Final = measure


def _value(context: Context, key: bytes) -> SortedSetValue | SetValue | None:
    """The set or sorted set at a key; None if there is none. Raises WrongType."""
    value = context.db.read(key, context.now_ms)
    if value is None or isinstance(value, SetValue):
        return value
    if not isinstance(value, SortedSetValue):
        raise WrongType
    value.used_ms = context.now_ms
    return value


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
    values = [_value(context, key) for key in argv[at + 1 : at + 1 + count]]
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
    is_counted = aggregate == b"COUNT"
    operands = [
        None if value is None else Operand(value, weight, is_counted=is_counted)
        for value, weight in zip(values, weights, strict=True)
    ]
    return Operands(operands, aggregate, with_scores)


def _union(operands: Operands) -> Scores:
    """The members of all operands."""
    found: Scores = {}
    for operand in sorted([each for each in operands.operands if each is not None], key=len):
        scores = dict(as_numbers(operand.pairs()))
        for member in found.keys() & scores.keys():
            scores[member] = merged(operands.aggregate, found[member], scores[member])
        found.update(scores)
    return found


def _intersection(operands: Operands) -> Scores:
    """The members that all operands have."""
    present = sorted([each for each in operands.operands if each is not None], key=len)
    if len(present) < len(operands.operands):
        return {}
    pairs = as_numbers(present[0].pairs())
    for operand in present[1:]:
        pairs = common_pairs(pairs, operand, operands.aggregate)
    return dict(pairs)


def _common_count(smallest: SortedSetValue | SetValue, others: list[SortedSetValue | SetValue], limit: int) -> int:
    """The number of members that all values have, at most `limit`."""
    found = 0
    for members in members_in_parts(smallest, limit):
        for other in others:
            members = other.having(members)
        found += len(members)
        if found >= limit:
            return limit
    return found


def _difference(operands: Operands) -> Scores:
    """The members of the first operand that no other one has."""
    first = operands.operands[0]
    if first is None:
        return {}
    found = dict(first.pairs())
    for operand in operands.operands[1:]:
        if not found:
            break
        if operand is not None:
            for member in operand.value.having(list(found)):
                del found[member]
    return found


def _all_count(operands: list[Operand | None]) -> int:
    """What a union looks at."""
    count = 0
    for each in operands:
        if each is not None:
            count += len(each.value)
    return count


def _smallest_count(operands: list[Operand | None]) -> int:
    """What an intersection looks at, in each of the other operands too."""
    return min([0 if each is None else len(each) for each in operands])


def _first_count(operands: list[Operand | None]) -> int:
    """What a difference looks at, in each of the other operands too."""
    first = operands[0]
    return 0 if first is None else len(first)


UNION: Final = Combination(_union, union_parts, _all_count)
INTERSECTION: Final = Combination(_intersection, intersection_parts, _smallest_count)
DIFFERENCE: Final = Combination(_difference, difference_parts, _first_count)


def _of_many(context: Context, argv: list[bytes], operands: Operands, combination: Combination) -> Any:
    """A sorted set with the result; None if few members are looked at. See `carried_out` for other results."""
    count = combination.measure(operands.operands)
    if count < LONG_COUNT:
        return None
    parts = combination.many(operands.operands, operands.aggregate)
    return carried_out(context, argv, count, result_of_parts(context.limits, parts))


def _read(
    context: Context, argv: list[bytes], name: bytes, combination: Combination, *, has_weights: bool = True
) -> Reply:
    """Returns the result, ascending. Raises GenericError, WrongType."""
    operands = _operands(context, argv, 1, name, has_weights=has_weights)
    result = _of_many(context, argv, operands, combination)
    if result is not None:
        if is_awaited(result):
            return result
        return long_range(context, result, 0, len(result), reverse=False, has_scores=operands.with_scores)
    scores = combination.few(operands)
    members = _in_order(scores)
    if not operands.with_scores:
        return members
    if context.client.protocol == 3:
        return [[member, scores[member]] for member in members]
    return [word for member in members for word in (member, scores[member])]


def _in_order(scores: Scores) -> list[bytes]:
    """The members, ascending by score, then by their bytes."""
    score_of = scores.__getitem__
    # It takes a fraction of the time to compare nothing but numbers.
    has_equal = len(set(scores.values())) < len(scores)
    return sorted(sorted(scores) if has_equal else scores, key=score_of)


def _store(
    context: Context,
    argv: list[bytes],
    name: bytes,
    combination: Combination,
    event: Event,
    *,
    has_weights: bool = True,
) -> Reply:
    """Stores the result at `argv[1]`. Returns its number of members. Raises GenericError, WrongType."""
    operands = _operands(context, argv, 2, name, has_weights=has_weights, takes_scores=False)
    found = _of_many(context, argv, operands, combination)
    if found is None:
        scores = combination.few(operands)
        result = SortedSetValue(context.limits)
        if scores:
            result.expect(len(scores), max(map(len, scores)))
        result.add_different(list(scores), list(scores.values()))
    elif is_awaited(found):
        return found
    else:
        result = found
    key, db = argv[1], context.db
    if not len(result):
        if db.delete(key, DEL):
            context.log_words(argv)
        return 0
    db.overwrite(key, result, event, context.now_ms)
    context.log_words(argv)
    return len(result)


@command(
    "ZUNION",
    arity=-3,
    flags=Flag.READONLY | Flag.MOVABLEKEYS,
    traits=Trait.IN_SLICES,
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
    return _read(context, argv, b"zunion", UNION)


@command(
    "ZUNIONSTORE",
    arity=-4,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.MOVABLEKEYS,
    traits=Trait.IN_SLICES,
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
    return _store(context, argv, b"zunionstore", UNION, ZUNIONSTORE)


@command(
    "ZINTER",
    arity=-3,
    flags=Flag.READONLY | Flag.MOVABLEKEYS,
    traits=Trait.IN_SLICES,
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
    return _read(context, argv, b"zinter", INTERSECTION)


@command(
    "ZINTERSTORE",
    arity=-4,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.MOVABLEKEYS,
    traits=Trait.IN_SLICES,
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
    return _store(context, argv, b"zinterstore", INTERSECTION, ZINTERSTORE)


@command(
    "ZDIFF",
    arity=-3,
    flags=Flag.READONLY | Flag.MOVABLEKEYS,
    traits=Trait.IN_SLICES,
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
    return _read(context, argv, b"zdiff", DIFFERENCE, has_weights=False)


@command(
    "ZDIFFSTORE",
    arity=-4,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.MOVABLEKEYS,
    traits=Trait.IN_SLICES,
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
    return _store(context, argv, b"zdiffstore", DIFFERENCE, ZDIFFSTORE, has_weights=False)


@command(
    "ZINTERCARD",
    arity=-3,
    flags=Flag.READONLY | Flag.MOVABLEKEYS,
    traits=Trait.IN_SLICES,
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
    present = [value for value in values if value is not None]
    if len(present) < count:
        return 0
    present.sort(key=len)
    smallest, others = present[0], present[1:]
    if len(smallest) >= LONG_COUNT:
        return carried_out(context, argv, len(smallest), common_count(smallest, others, limit or INT64_MAX))
    return _common_count(smallest, others, limit or INT64_MAX)
