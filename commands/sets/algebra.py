"""Intersections, unions and differences of sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from ...protocol.encoder import bulks
from ...protocol.replies import Reply, SetReply
from ...store.companions.set_value import INTSET, SetValue
from ...store.errors import GenericError, syntax_error
from ...store.events import DEL, SDIFFSTORE, SINTERSTORE, SUNIONSTORE, Event
from ...store.limits import Limits
from ..core.long_replies import bulks_of, header_of
from ..core.numbers import INT64_MAX, integer_between
from ..core.table import Argument, Flag, KeySpec, Trait, command
from ..execution.context import Context
from ..execution.sliced_work import Steps
from ..execution.slices import LONG_COUNT, STEP_COUNT, carried_out, is_awaited

try:
    from ...store.companions.packed_integers import PackedIntegers
except ImportError:  # there was no C compiler at installation
    from ...store.companions.packed_integers_plain import PackedIntegers  # type: ignore[assignment]

LIMIT_NEGATIVE: Final = b"LIMIT can't be negative"

# Members of the first part that is looked at, at least; others have more.
PART_COUNT_MIN: Final = 4

# The members of a result, a part at a time; the parts are made of so many members of a set.
Parts = Iterator[list[bytes]]
Combine = Callable[[list[SetValue | None], int], Parts]
# Returns how many members are looked at.
Measure = Callable[[list[SetValue | None]], int]
CombineIntegers = Callable[[list[SetValue | None]], PackedIntegers]


class Operation:
    """What a command does with sets. `may_repeat`: whether parts have the same members."""

    __slots__ = ("combine", "combine_integers", "may_repeat", "measure")

    def __init__(
        self, combine: Combine, combine_integers: CombineIntegers, measure: Measure, *, may_repeat: bool = False
    ) -> None:
        self.combine: Final = combine
        self.combine_integers: Final = combine_integers
        self.measure: Final = measure
        self.may_repeat: Final = may_repeat


def _sets(context: Context, keys: list[bytes]) -> list[SetValue | None]:
    """The sets at these keys, None for a missing key. Raises WrongType."""
    db, now_ms = context.db, context.now_ms
    return [db.read_companion(key, SetValue, now_ms) for key in keys]


def _intersection(sets: list[SetValue | None], count: int) -> Parts:
    """The members that all sets have, in the order of the smallest set."""
    present = sorted([value for value in sets if value is not None], key=len)
    if len(present) < len(sets):
        return
    first, cursor = present[0], 0
    others = [value for value in present if value is not first]
    while True:
        members, cursor = first.part(cursor, count)
        for other in others:
            members = other.having(members)
        yield members
        if not cursor:
            break
        count = min(2 * count, STEP_COUNT)


def _union(sets: list[SetValue | None], count: int) -> Parts:
    """The members that any set has; those of several sets come several times."""
    for value in sets:
        if value is not None:
            cursor = 0
            while True:
                members, cursor = value.part(cursor, count)
                yield members
                if not cursor:
                    break
                count = min(2 * count, STEP_COUNT)


def _difference(sets: list[SetValue | None], count: int) -> Parts:
    """The members of the first set that no other set has."""
    first = sets[0]
    if first is None or first in sets[1:]:
        return
    others = sorted([value for value in sets[1:] if value is not None], key=len, reverse=True)
    cursor = 0
    while True:
        members, cursor = first.part(cursor, count)
        for other in others:
            members = other.lacking(members)
        yield members
        if not cursor:
            break
        count = min(2 * count, STEP_COUNT)


def _all_count(sets: list[SetValue | None]) -> int:
    """What a union looks at."""
    count = 0
    for value in sets:
        if value is not None:
            count += len(value)
    return count


def _smallest_count(sets: list[SetValue | None]) -> int:
    """What an intersection looks at, in each of the other sets too."""
    count = _first_count(sets)
    for value in sets:
        size = 0 if value is None else len(value)
        if size < count:
            count = size
    return count


def _first_count(sets: list[SetValue | None]) -> int:
    """What a difference looks at, in each of the other sets too."""
    return 0 if sets[0] is None else len(sets[0])


def _are_integers(sets: list[SetValue | None]) -> bool:
    """Whether all sets are intsets: then Redis' order of a result is ascending."""
    return all(value is None or value.encoding == INTSET for value in sets)


def _common_integers(sets: list[SetValue | None]) -> PackedIntegers:
    present = sorted([value for value in sets if value is not None], key=len)
    if len(present) < len(sets):
        return PackedIntegers()
    return present[0].integers.common([value.integers for value in present[1:]])


def _all_integers(sets: list[SetValue | None]) -> PackedIntegers:
    present = [value.integers for value in sets if value is not None]
    return present[0].union(present[1:]) if present else PackedIntegers()


def _integers_of_first(sets: list[SetValue | None]) -> PackedIntegers:
    first = sets[0]
    if first is None or first in sets[1:]:
        return PackedIntegers()
    return first.integers.difference([value.integers for value in sets[1:] if value is not None])


INTERSECTION: Final = Operation(_intersection, _common_integers, _smallest_count)
UNION: Final = Operation(_union, _all_integers, _all_count, may_repeat=True)
DIFFERENCE: Final = Operation(_difference, _integers_of_first, _first_count)


def _members(parts: Parts, *, may_repeat: bool) -> list[bytes]:
    """The different members of all parts, in the order of their first arrival."""
    found: list[bytes] = []
    for part in parts:
        found += part
    return list(dict.fromkeys(found)) if may_repeat else found


def _steps(context: Context, parts: Parts, *, may_repeat: bool) -> Steps:
    """Like `_members`, a part at a time."""
    found: list[bytes] = []
    if not may_repeat:
        for part in parts:
            found += part
            yield
        return found
    # What has arrived; a table of Python would grow in one step.
    known = SetValue(context.limits)
    known.become_table()
    for part in parts:
        part = known.lacking(part)
        known.add_all(part)
        found += part
        yield
    context.store.garbage.add_value(known)
    return found


def _result(limits: Limits, parts: Parts) -> Steps:
    """Makes the set with these members, in the encoding that Redis chooses for a result."""
    result = SetValue(limits)
    for part in parts:
        result.add_all(part)
        yield
    return result


def _store(context: Context, argv: list[bytes], operation: Operation, event: Event) -> Reply:
    """Stores the result of sets under `argv[1]`. Returns its number of members; Blocked while they are combined."""
    db, key = context.db, argv[1]
    sets = _sets(context, argv[2:])
    result = SetValue(context.limits)
    if _are_integers(sets):
        result.take_integers(operation.combine_integers(sets))
    elif _all_count(sets) > STEP_COUNT:
        steps = _result(context.limits, operation.combine(sets, STEP_COUNT))
        made = carried_out(context, argv, operation.measure(sets), steps)
        if is_awaited(made):
            return made
        result = made
    else:
        for part in operation.combine(sets, STEP_COUNT):
            result.add_all(part)
    if not len(result):
        if db.delete(key, DEL):
            context.log_words(argv)
        return 0
    db.overwrite(key, result, event, context.now_ms)
    context.log_words(argv)
    return len(result)


def _read(context: Context, argv: list[bytes], operation: Operation) -> Reply:
    """The members of a result; Blocked or POSTPONED while many are combined."""
    sets = _sets(context, argv[1:])
    if not operation.measure(sets):
        return SetReply([])
    if _are_integers(sets):
        return _integers(context, operation.combine_integers(sets))
    parts = operation.combine(sets, STEP_COUNT)
    if _all_count(sets) <= STEP_COUNT:
        return SetReply(_members(parts, may_repeat=operation.may_repeat))
    steps = _steps(context, parts, may_repeat=operation.may_repeat)
    found = carried_out(context, argv, operation.measure(sets), steps)
    return found if is_awaited(found) else bulks_of(found, is_set=context.client.protocol == 3)


def _integers(context: Context, numbers: PackedIntegers) -> Reply:
    """The reply with these integers, in their order. Many are encoded while they are sent."""
    if len(numbers) <= STEP_COUNT:
        return SetReply(numbers.between(0, len(numbers)))
    return (header_of(len(numbers), is_set=context.client.protocol == 3), _pieces(numbers))


def _pieces(numbers: PackedIntegers) -> Iterator[bytes]:
    for start in range(0, len(numbers), STEP_COUNT):
        yield bulks(numbers.between(start, start + STEP_COUNT))


def _count(parts: Parts, limit: int) -> Steps:
    """The number of the members of all parts, which are different, at most `limit`; a part at a time."""
    found = 0
    for part in parts:
        found += len(part)
        if found >= limit:
            return limit
        yield
    return found


def _different_count(context: Context, parts: Parts, limit: int) -> Steps:
    """Like `_count`, of parts that may have the same members."""
    known = SetValue(context.limits)
    known.become_table()
    for part in parts:
        known.add_all(part)
        if len(known) >= limit:
            break
        yield
    context.store.garbage.add_value(known)
    return min(len(known), limit)


def _card(context: Context, argv: list[bytes], operation: Operation) -> Reply:
    """The number of members of a result, at most LIMIT. Raises GenericError, WrongType."""
    count = integer_between(argv[1], 1, INT64_MAX, b"numkeys should be greater than 0")
    if count > len(argv) - 2:
        raise GenericError(b"Number of keys can't be greater than number of args")
    limit, index = 0, 2 + count
    while index < len(argv):
        word = argv[index].upper()
        if word == b"LIMIT" and index + 1 < len(argv):
            index += 1
            limit = integer_between(argv[index], 0, INT64_MAX, LIMIT_NEGATIVE)
        elif word != b"APPROX" or argv[0].upper() != b"SUNIONCARD":
            raise syntax_error()
        index += 1
    limit = limit or INT64_MAX
    sets = _sets(context, argv[2 : 2 + count])
    if len(sets) == 1 or (operation is not DIFFERENCE and all(value is sets[0] for value in sets)):
        return min(_first_count(sets), limit)
    if operation is UNION and any(value is not None and len(value) >= limit for value in sets):
        return limit
    if _are_integers(sets):
        return min(len(operation.combine_integers(sets)), limit)
    parts = operation.combine(sets, max(min(limit, STEP_COUNT), PART_COUNT_MIN))
    looked_at = operation.measure(sets)
    if looked_at >= LONG_COUNT:
        steps = _different_count(context, parts, limit) if operation.may_repeat else _count(parts, limit)
        return carried_out(context, argv, looked_at, steps)
    if operation.may_repeat:
        found: set[bytes] = set()
        for part in parts:
            found.update(part)
            if len(found) >= limit:
                return limit
        return len(found)
    members_count = 0
    for part in parts:
        members_count += len(part)
        if members_count >= limit:
            return limit
    return members_count


@command(
    "SINTER",
    arity=-2,
    flags=Flag.READONLY,
    traits=Trait.IN_SLICES,
    keys=(KeySpec(1, -1, 1, ("RO", "access")),),
    categories=("set",),
    group="set",
    since="1.0.0",
    summary="Returns the members that all sets have.",
    complexity="O(N*M) with N members of the smallest of M sets.",
    arguments=(Argument("key", "key", multiple=True, key_spec_index=0),),
    tips=("nondeterministic_output_order",),
)
def sinter(context: Context, argv: list[bytes]) -> Reply:
    """SINTER key [key ...]. Returns the members. Raises WrongType. Source: Redis 1.0."""
    return _read(context, argv, INTERSECTION)


@command(
    "SUNION",
    arity=-2,
    flags=Flag.READONLY,
    traits=Trait.IN_SLICES,
    keys=(KeySpec(1, -1, 1, ("RO", "access")),),
    categories=("set",),
    group="set",
    since="1.0.0",
    summary="Returns the members that any set has.",
    complexity="O(N) in the number of all members.",
    arguments=(Argument("key", "key", multiple=True, key_spec_index=0),),
    tips=("nondeterministic_output_order",),
)
def sunion(context: Context, argv: list[bytes]) -> Reply:
    """SUNION key [key ...]. Returns the members. Raises WrongType. Source: Redis 1.0."""
    return _read(context, argv, UNION)


@command(
    "SDIFF",
    arity=-2,
    flags=Flag.READONLY,
    traits=Trait.IN_SLICES,
    keys=(KeySpec(1, -1, 1, ("RO", "access")),),
    categories=("set",),
    group="set",
    since="1.0.0",
    summary="Returns the members of the first set that no other set has.",
    complexity="O(N) in the number of all members.",
    arguments=(Argument("key", "key", multiple=True, key_spec_index=0),),
    tips=("nondeterministic_output_order",),
)
def sdiff(context: Context, argv: list[bytes]) -> Reply:
    """SDIFF key [key ...]. Returns the members. Raises WrongType. Source: Redis 1.0."""
    return _read(context, argv, DIFFERENCE)


@command(
    "SINTERSTORE",
    arity=-3,
    flags=Flag.WRITE | Flag.DENYOOM,
    traits=Trait.IN_SLICES,
    keys=(
        KeySpec(1, 1, 1, ("OW", "update")),
        KeySpec(2, -1, 1, ("RO", "access")),
    ),
    categories=("set",),
    group="set",
    since="1.0.0",
    summary="Stores the members that all sets have as a set.",
    complexity="O(N*M) with N members of the smallest of M sets.",
    arguments=(
        Argument("destination", "key", key_spec_index=0),
        Argument("key", "key", multiple=True, key_spec_index=1),
    ),
)
def sinterstore(context: Context, argv: list[bytes]) -> Reply:
    """SINTERSTORE destination key [key ...]. Returns the size of the result. Raises WrongType. Source: Redis 1.0."""
    return _store(context, argv, INTERSECTION, SINTERSTORE)


@command(
    "SUNIONSTORE",
    arity=-3,
    flags=Flag.WRITE | Flag.DENYOOM,
    traits=Trait.IN_SLICES,
    keys=(
        KeySpec(1, 1, 1, ("OW", "update")),
        KeySpec(2, -1, 1, ("RO", "access")),
    ),
    categories=("set",),
    group="set",
    since="1.0.0",
    summary="Stores the members that any set has as a set.",
    complexity="O(N) in the number of all members.",
    arguments=(
        Argument("destination", "key", key_spec_index=0),
        Argument("key", "key", multiple=True, key_spec_index=1),
    ),
)
def sunionstore(context: Context, argv: list[bytes]) -> Reply:
    """SUNIONSTORE destination key [key ...]. Returns the size of the result. Raises WrongType. Source: Redis 1.0."""
    return _store(context, argv, UNION, SUNIONSTORE)


@command(
    "SDIFFSTORE",
    arity=-3,
    flags=Flag.WRITE | Flag.DENYOOM,
    traits=Trait.IN_SLICES,
    keys=(
        KeySpec(1, 1, 1, ("OW", "update")),
        KeySpec(2, -1, 1, ("RO", "access")),
    ),
    categories=("set",),
    group="set",
    since="1.0.0",
    summary="Stores the members that only the first set has as a set.",
    complexity="O(N) in the number of all members.",
    arguments=(
        Argument("destination", "key", key_spec_index=0),
        Argument("key", "key", multiple=True, key_spec_index=1),
    ),
)
def sdiffstore(context: Context, argv: list[bytes]) -> Reply:
    """SDIFFSTORE destination key [key ...]. Returns the size of the result. Raises WrongType. Source: Redis 1.0."""
    return _store(context, argv, DIFFERENCE, SDIFFSTORE)


@command(
    "SINTERCARD",
    arity=-3,
    flags=Flag.READONLY | Flag.MOVABLEKEYS,
    traits=Trait.IN_SLICES,
    keys=(KeySpec(2, 0, 1, ("RO", "access"), count_at=1, is_loose=True),),
    categories=("set",),
    group="set",
    since="7.0.0",
    summary="Counts the members that all sets have.",
    complexity="O(N*M) with N members of the smallest of M sets.",
    arguments=(
        Argument("numkeys", "integer"),
        Argument("key", "key", multiple=True, key_spec_index=0),
        Argument("limit", "integer", token="LIMIT", optional=True),
    ),
)
def sintercard(context: Context, argv: list[bytes]) -> Reply:
    """SINTERCARD numkeys key [key ...] [LIMIT limit]

    Returns the number of members, at most LIMIT unless that is 0. Raises GenericError, WrongType. Source: Redis 7.0.
    """
    return _card(context, argv, INTERSECTION)


@command(
    "SUNIONCARD",
    arity=-3,
    flags=Flag.READONLY | Flag.MOVABLEKEYS,
    traits=Trait.IN_SLICES,
    keys=(KeySpec(2, 0, 1, ("RO", "access"), count_at=1, is_loose=True),),
    categories=("set",),
    group="set",
    since="8.10.0",
    summary="Counts the members that any set has.",
    complexity="O(N) in the number of all members.",
    arguments=(
        Argument("numkeys", "integer"),
        Argument("key", "key", multiple=True, key_spec_index=0),
        Argument("approx", "pure-token", token="APPROX", optional=True),
        Argument("limit", "integer", token="LIMIT", optional=True),
    ),
    differs="APPROX counts exactly.",
)
def sunioncard(context: Context, argv: list[bytes]) -> Reply:
    """SUNIONCARD numkeys key [key ...] [APPROX] [LIMIT limit]

    Returns the number of members, at most LIMIT unless that is 0. Raises GenericError, WrongType. Source: Redis 8.10.
    """
    return _card(context, argv, UNION)


@command(
    "SDIFFCARD",
    arity=-3,
    flags=Flag.READONLY | Flag.MOVABLEKEYS,
    traits=Trait.IN_SLICES,
    keys=(KeySpec(2, 0, 1, ("RO", "access"), count_at=1, is_loose=True),),
    categories=("set",),
    group="set",
    since="8.10.0",
    summary="Counts the members that only the first set has.",
    complexity="O(N) in the number of all members.",
    arguments=(
        Argument("numkeys", "integer"),
        Argument("key", "key", multiple=True, key_spec_index=0),
        Argument("limit", "integer", token="LIMIT", optional=True),
    ),
)
def sdiffcard(context: Context, argv: list[bytes]) -> Reply:
    """SDIFFCARD numkeys key [key ...] [LIMIT limit]

    Returns the number of members, at most LIMIT unless that is 0. Raises GenericError, WrongType. Source: Redis 8.10.
    """
    return _card(context, argv, DIFFERENCE)
