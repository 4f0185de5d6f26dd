"""Compiled values are no work for Python's collector of cycles."""

from __future__ import annotations

import gc
from collections import Counter

import pytest

from headrace import is_compiled
from headrace.store.companions.kinds import COMPANIONS
from headrace.store.group import Group
from headrace.store.ids import ID_MIN, make_id
from headrace.store.limits import Limits
from headrace.store.stream import Stream

pytestmark = pytest.mark.skipif(not is_compiled(), reason="interpreted objects are all tracked")

LIMITS = Limits()
VALUES = [kind(LIMITS) for kind in (*COMPANIONS, Stream)]
ENTRY = b"*2\r\n$3\r\n1-0\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n"
STREAMS = 100
ENTRIES = 300


@pytest.mark.parametrize("value", VALUES, ids=[type(value).__name__ for value in VALUES])
def test_the_collector_does_not_visit_a_value(value: object) -> None:
    assert not gc.is_tracked(value)


def test_of_streams_and_groups_the_collector_visits_only_tables() -> None:
    before = types_of_visited()
    streams = [Stream(LIMITS) for _ in range(STREAMS)]
    for stream in streams:
        group = stream.groups[b"group"] = Group(b"group", ID_MIN)
        for number in range(1, ENTRIES):
            stream.append(make_id(number, 0), ENTRY)
        group.release(make_id(1, 0), count=1)
    made = {kind for kind, count in (types_of_visited() - before).items() if count >= STREAMS}
    assert made <= {"dict", "list"}


def types_of_visited() -> Counter[str]:
    """How many objects of each type the collector visits."""
    gc.collect()
    return Counter(type(each).__name__ for each in gc.get_objects())
