"""Unions, intersections and differences of many members, in steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...store.companions.set_value import SetValue
from ...store.companions.sorted_set_value import SortedSetValue
from ...store.limits import Limits
from ..execution.sliced_work import Steps
from ..execution.slices import STEP_COUNT
from .operands import Operand, Pairs, Scores, as_number, as_numbers, common_pairs, merged

# Members of the result, a part at a time; an empty part is work without a result yet.
Parts = Iterator[Pairs]

# Members of which those that all values have are counted at once.
MEMBERS_AT_ONCE: Final = 256
# Members of the first part that is looked at, if few are wanted.
MEMBERS_MIN: Final = 4
# Tables of a union: a power of two, so that each is filled, grows and is freed in little time.
TABLES_COUNT: Final = 512


def union_parts(operands: list[Operand | None], aggregate: bytes) -> Parts:
    """The members that any operand has."""
    tables: list[Scores] = [{} for _ in range(TABLES_COUNT)]
    present = sorted([each for each in operands if each is not None], key=len)
    for operand in present[:-1]:
        for pairs in operand.parts(STEP_COUNT):
            for member, score in pairs:
                table = tables[hash(member) & (TABLES_COUNT - 1)]
                old = table.get(member)
                number = as_number(score)
                table[member] = number if old is None else merged(aggregate, old, number)
            yield []
    # Those of the largest operand have their scores at once.
    for operand in present[-1:]:
        for pairs in operand.parts(STEP_COUNT):
            found: Pairs = []
            for member, score in pairs:
                old = tables[hash(member) & (TABLES_COUNT - 1)].pop(member, None)
                number = as_number(score)
                found.append((member, number if old is None else merged(aggregate, old, number)))
            yield found
    while tables:
        yield list(tables.pop().items())


def intersection_parts(operands: list[Operand | None], aggregate: bytes) -> Parts:
    """The members that all operands have."""
    present = sorted([each for each in operands if each is not None], key=len)
    if len(present) < len(operands):
        return
    for pairs in present[0].parts(STEP_COUNT):
        found = as_numbers(pairs)
        for operand in present[1:]:
            found = common_pairs(found, operand, aggregate)
        yield found


def difference_parts(operands: list[Operand | None], aggregate: bytes) -> Parts:
    """The members of the first operand that no other one has."""
    first = operands[0]
    if first is None:
        return
    others = [each.value for each in operands[1:] if each is not None]
    for pairs in first.parts(STEP_COUNT):
        for other in others:
            common = set(other.having([member for member, _ in pairs]))
            pairs = [pair for pair in pairs if pair[0] not in common]
        yield pairs


def result_of_parts(limits: Limits, parts: Parts) -> Steps:
    """Makes the sorted set with these members, all of which are different, in the encoding that Redis chooses."""
    result = SortedSetValue(limits)
    result.become_skiplist()
    for pairs in parts:
        if pairs:
            result.add_new([member for member, _ in pairs], [score for _, score in pairs])
        yield
    result.shrink()
    return result


def members_in_parts(value: SortedSetValue | SetValue, limit: int) -> Iterator[list[bytes]]:
    """Yield the members, some at a time: first a few if no more than `limit` are wanted. Those of a sorted set are
    descending, as Redis looks at them."""
    count = min(max(limit, MEMBERS_MIN), MEMBERS_AT_ONCE)
    if isinstance(value, SetValue):
        cursor = 0
        while True:
            members, cursor = value.part(cursor, count)
            yield members
            if not cursor:
                return
            count = min(2 * count, MEMBERS_AT_ONCE)
    stop = len(value)
    while stop:
        start = max(stop - count, 0)
        yield value.members(start, stop, reverse=True)
        stop, count = start, min(2 * count, MEMBERS_AT_ONCE)


def common_count(smallest: SortedSetValue | SetValue, others: list[SortedSetValue | SetValue], limit: int) -> Steps:
    """The number of members that all values have, at most `limit`."""
    found = looked_at = 0
    for members in members_in_parts(smallest, limit):
        looked_at += len(members)
        for other in others:
            members = other.having(members)
        found += len(members)
        if found >= limit:
            return limit
        if looked_at >= STEP_COUNT:
            looked_at = 0
            yield
    return found
