"""A consumer group gets tables of its own when it needs them first."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.store.group import Group
from headrace.store.memory import group_size
from headrace.store.pending import NOTHING_PENDING

# What gives a group tables of its own.
FIRSTS: dict[str, Callable[[Group], object]] = {
    "consumer": lambda group: group.add_consumer(b"c", 1),
    "released entry": lambda group: group.release(7, count=1),
}


def test_groups_without_consumers_share_empty_tables() -> None:
    first, second = Group(b"g", 0), Group(b"h", 5)
    assert first.pending is second.pending
    assert first.consumers is second.consumers
    assert first.copy().pending is first.pending
    assert first.pending.drop_all([1, 2]) == 0
    assert first.remove_consumer(b"c") is None
    for group in (first, second):
        group.check()


@pytest.mark.parametrize("first", FIRSTS)
def test_a_group_does_not_share_what_it_gets(first: str) -> None:
    group, other = Group(b"g", 0), Group(b"h", 0)
    FIRSTS[first](group)
    assert group.pending is not other.pending
    assert (len(other.pending), len(other.consumers)) == (0, 0)
    assert (len(group.pending) + len(group.consumers)) == 1
    for each in (group, other, group.copy()):
        each.check()


@pytest.mark.parametrize("first", FIRSTS)
def test_a_copy_has_tables_of_its_own(first: str) -> None:
    group = Group(b"g", 0)
    FIRSTS[first](group)
    twin = group.copy()
    assert (len(twin.pending), list(twin.consumers)) == (len(group.pending), list(group.consumers))
    assert twin.pending is not group.pending
    twin.add_consumer(b"another", 2)
    assert b"another" not in group.consumers


@pytest.mark.parametrize("first", FIRSTS)
def test_tables_of_its_own_count_as_memory(first: str) -> None:
    group = Group(b"g", 0)
    before = group_size(group)
    FIRSTS[first](group)
    assert group_size(group) > before + 300


def test_the_shared_list_takes_no_entries() -> None:
    consumer = Group(b"g", 0).add_consumer(b"c", 1)
    with pytest.raises(AssertionError):
        NOTHING_PENDING.deliver([1], consumer, time_ms=1, count=1)
    with pytest.raises(AssertionError):
        NOTHING_PENDING.release(1, count=1)
    assert len(NOTHING_PENDING) == 0
