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
from ..core.samples import samples
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

# The members of a result, a part at a time.
Parts = Iterator[list[bytes]]
Keep = Callable[[list[bytes], list[SetValue]], list[bytes]]


class Operation:
    """What a command does with sets."""

    __slots__ = ("choose", "combine_integers", "keep")

    def __init__(
        self,
        choose: Callable[[list[SetValue | None]], list[SetValue]],
        combine_integers: Callable[[PackedIntegers, list[PackedIntegers]], PackedIntegers],
        keep: Keep | None = None,
    ) -> None:
        # The sets that decide. There are none if the result is empty.
        self.choose: Final = choose
        # The result of the first of these sets and the others, if all are intsets.
        self.combine_integers: Final = combine_integers
        # Those of some members of the first set that are in the result, by the others. Without it, all members of all
        # sets are.
        self.keep: Final = keep


def _to_intersect(sets: list[SetValue | None]) -> list[SetValue]:
    """The smallest set first, and not again."""
    present = sorted([value for value in sets if value is not None], key=len)
    if len(present) < len(sets):
        return []
    first = present[0]
    return [first, *[value for value in present if value is not first]]


def _to_unite(sets: list[SetValue | None]) -> list[SetValue]:
    """All sets that there are; the first one not again."""
    present = [value for value in sets if value is not None]
    return [*present[:1], *[value for value in present if value is not present[0]]]


def _to_subtract(sets: list[SetValue | None]) -> list[SetValue]:
    """The first set, and the others from the largest on."""
    first, others = sets[0], sets[1:]
    if first is None or first in others:
        return []
    return [first, *sorted([value for value in others if value is not None], key=len, reverse=True)]


def _common(members: list[bytes], others: list[SetValue]) -> list[bytes]:
    """Those of the members that all sets have."""
    for other in others:
        members = other.having(members)
    return members


def _lacking(members: list[bytes], others: list[SetValue]) -> list[bytes]:
    """Those of the members that no set has."""
    for other in others:
        members = other.lacking(members)
    return members


def _common_integers(first: PackedIntegers, others: list[PackedIntegers]) -> PackedIntegers:
    return first.common(others)


def _all_integers(first: PackedIntegers, others: list[PackedIntegers]) -> PackedIntegers:
    return first.union(others)


def _lacking_integers(first: PackedIntegers, others: list[PackedIntegers]) -> PackedIntegers:
    return first.difference(others)


INTERSECTION: Final = Operation(_to_intersect, _common_integers, _common)
UNION: Final = Operation(_to_unite, _all_integers)
DIFFERENCE: Final = Operation(_to_subtract, _lacking_integers, _lacking)


def _chosen(context: Context, keys: list[bytes], operation: Operation) -> list[SetValue]:
    """Of the sets at these keys those that decide. Raises WrongType."""
    db, now_ms = context.db, context.now_ms
    return operation.choose([db.read_companion(key, SetValue, now_ms) for key in keys])


def _looked_at(chosen: list[SetValue], operation: Operation) -> int:
    """How many members are looked at, in each of the other sets too."""
    if operation.keep is not None:
        return len(chosen[0]) if chosen else 0
    count = 0
    for value in chosen:
        count += len(value)
    return count


def _integers_of(chosen: list[SetValue], operation: Operation) -> PackedIntegers | None:
    """The result of intsets, whose order is ascending in Redis too; None if some are other sets."""
    for value in chosen:
        if value.encoding != INTSET:
            return None
    if not chosen:
        return PackedIntegers()
    integers = [value.integers for value in chosen]
    return operation.combine_integers(integers[0], integers[1:])


def _parts(chosen: list[SetValue], operation: Operation, count: int = STEP_COUNT) -> Parts:
    """Yield the members of the result. Those of a union that several sets have come several times.

    So many members of a set are looked at for the first part, and up to STEP_COUNT for others.
    """
    keep, others = operation.keep, chosen[1:]
    for value in chosen if keep is None else chosen[:1]:
        cursor = 0
        while True:
            members, cursor = value.part(cursor, count)
            yield members if keep is None else keep(members, others)
            if not cursor:
                break
            count = min(2 * count, STEP_COUNT)


def _at_once(chosen: list[SetValue], operation: Operation) -> list[bytes]:
    """The members of the result."""
    if operation.keep is not None:
        return operation.keep(chosen[0].members(), chosen[1:]) if chosen else []
    found: list[bytes] = []
    for value in chosen:
        found += value.members()
    return found if len(chosen) == 1 else list(dict.fromkeys(found))


def _steps(context: Context, chosen: list[SetValue], operation: Operation) -> Steps:
    """Like `_at_once`, a part at a time."""
    found: list[bytes] = []
    if operation.keep is not None:
        for part in _parts(chosen, operation):
            found += part
            yield
        return found
    # What has arrived; a table of Python would grow in one step.
    known = SetValue(context.limits)
    known.become_table()
    for part in _parts(chosen, operation):
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
    chosen = _chosen(context, argv[2:], operation)
    result = SetValue(context.limits)
    integers = _integers_of(chosen, operation)
    if integers is not None:
        result.take_integers(integers)
    elif operation.keep is not None and len(chosen[0]) <= STEP_COUNT:
        result.add_all(_at_once(chosen, operation))
    else:
        steps = _result(context.limits, _parts(chosen, operation))
        made = carried_out(context, argv, _looked_at(chosen, operation), steps)
        if is_awaited(made):
            return made
        result = made
    if not len(result):
        if db.delete(key, DEL):
            context.log_words(argv)
        return 0
    db.overwrite(key, result, event, context.now_ms)
    context.log_words(argv)
    return len(result)


def _read(context: Context, argv: list[bytes], operation: Operation) -> Reply:
    """The members of a result; Blocked or POSTPONED while many are combined."""
    chosen = _chosen(context, argv[1:], operation)
    integers = _integers_of(chosen, operation)
    if integers is not None:
        return _integers(context, integers)
    looked_at = _looked_at(chosen, operation)
    if looked_at <= STEP_COUNT:
        return SetReply(_at_once(chosen, operation))
    found = carried_out(context, argv, looked_at, _steps(context, chosen, operation))
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
    chosen = _chosen(context, argv[2 : 2 + count], operation)
    looked_at, keep = _looked_at(chosen, operation), operation.keep
    if len(chosen) < 2:
        return min(looked_at, limit)
    if keep is None:
        if any(len(value) >= limit for value in chosen):
            return limit
    else:
        for indexes in samples(looked_at, limit):
            if len(keep(chosen[0].at_each(indexes), chosen[1:])) >= limit:
                return limit
    integers = _integers_of(chosen, operation)
    if integers is not None:
        return min(len(integers), limit)
    parts = _parts(chosen, operation, max(min(limit, STEP_COUNT), PART_COUNT_MIN))
    if looked_at >= LONG_COUNT:
        steps = _different_count(context, parts, limit) if keep is None else _count(parts, limit)
        return carried_out(context, argv, looked_at, steps)
    if keep is None:
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
