"""Compiled values are no work for Python's collector of cycles."""

from __future__ import annotations

import gc

import pytest

from headrace import is_compiled
from headrace.store.companions.kinds import COMPANIONS
from headrace.store.group import Group
from headrace.store.ids import ID_MIN
from headrace.store.limits import Limits
from headrace.store.stream import Stream

pytestmark = pytest.mark.skipif(not is_compiled(), reason="interpreted objects are all tracked")

VALUES = [kind(Limits()) for kind in (*COMPANIONS, Stream)]


@pytest.mark.parametrize("value", VALUES, ids=[type(value).__name__ for value in VALUES])
def test_the_collector_does_not_visit_a_value(value: object) -> None:
    assert not gc.is_tracked(value)


def test_the_collector_does_not_visit_a_group() -> None:
    assert not gc.is_tracked(Group(b"group", ID_MIN))
