"""Members behave alike as a dict and as a table, and become a table when they are many."""

from __future__ import annotations

from random import Random

import pytest

from headrace.store.companions.members import FEW_MAX, Members

SEED = 24


def members_of(count: int) -> Members:
    members = Members()
    for number in range(count):
        members.put(b"m%d" % number, b"t%d" % number)
    return members


@pytest.mark.parametrize("count", [0, 1, FEW_MAX, FEW_MAX + 1, 3 * FEW_MAX])
def test_what_was_put_is_found(count: int) -> None:
    members = members_of(count)
    assert len(members) == count
    assert dict(members.items()) == {b"m%d" % number: b"t%d" % number for number in range(count)}
    assert members.words() == [word for pair in members.items() for word in pair]
    assert sorted(members.names()) == sorted(name for name, _ in members.items())
    assert {members.at(index) for index in range(count)} == set(members.names())
    assert all(name in members and members.get(name) is not None for name in members.names())
    assert b"no" not in members
    assert members.get(b"no") is None
    members.check()


def test_few_are_in_the_order_of_their_arrival() -> None:
    members = members_of(5)
    members.pop(b"m1")
    members.put(b"m3", b"changed")
    members.put(b"m1", b"again")
    assert members.names() == [b"m0", b"m2", b"m3", b"m4", b"m1"]


def test_random_changes_are_those_of_a_dict() -> None:
    draw = Random(SEED)
    members, model = Members(), dict[bytes, bytes]()
    for _ in range(20_000):
        name = b"%d" % draw.randrange(2 * FEW_MAX)
        if draw.random() < 0.3:
            assert members.pop(name) == model.pop(name, None)
        else:
            text = draw.randbytes(draw.randrange(300))
            assert members.put(name, text) is (name not in model)
            model[name] = text
        assert len(members) == len(model)
    assert dict(members.items()) == model
    members.check()


@pytest.mark.parametrize("count", [10, 3 * FEW_MAX])
def test_a_scan_returns_each_member_that_stays(count: int) -> None:
    members = members_of(count)
    seen: list[bytes] = []
    cursor = 0
    while True:
        found, cursor = members.scan(cursor, 7, is_packed=False)
        seen += found
        if not cursor:
            break
        members.pop(b"m%d" % (len(seen) % count))
        members.put(b"new%d" % len(seen))
    stayed = [b"m%d" % number for number in range(count) if b"m%d" % number in members]
    assert set(stayed) <= set(seen)
    assert len(set(seen)) == len(seen)


def test_few_members_of_a_listpack_are_scanned_at_once() -> None:
    assert members_of(9).scan(0, 1, is_packed=True) == ([b"m%d" % number for number in range(9)], 0)


def test_a_scan_continues_when_few_members_become_many() -> None:
    members = members_of(FEW_MAX)
    seen, cursor = members.scan(0, 100, is_packed=False)
    assert len(seen) == 100
    members.put(b"new")
    assert not members.are_few
    while cursor:
        found, cursor = members.scan(cursor, 100, is_packed=False)
        assert len(found) <= 100
        seen += found
    assert len(set(seen)) == len(seen)
    assert {b"m%d" % number for number in range(FEW_MAX)} <= set(seen)


@pytest.mark.parametrize("count", [10, 3 * FEW_MAX])
def test_a_copy_does_not_change_with_the_original(count: int) -> None:
    members = members_of(count)
    twin = members.copy()
    members.put(b"m0", b"changed")
    members.pop(b"m1")
    twin.put(b"only here")
    assert (twin.get(b"m0"), twin.get(b"m1")) == (b"t0", b"t1")
    assert b"only here" not in members
    members.check()
    twin.check()


@pytest.mark.parametrize("count", [10, 3 * FEW_MAX])
def test_the_size_grows_with_members_and_texts(count: int) -> None:
    members = members_of(count)
    before = members.memory_size
    members.put(b"m0", b"x" * 10_000)
    assert members.memory_size - before >= 9_000
    members.put(b"m0", b"t0")
    assert abs(members.memory_size - before) < 200


def test_a_member_is_placed_before_the_first_of_which_the_condition_holds() -> None:
    members = members_of(5)
    members.place(b"m4", lambda name: name >= b"m2")
    assert members.names() == [b"m0", b"m1", b"m4", b"m2", b"m3"]
    members.place(b"m0", lambda name: False)
    assert members.names() == [b"m1", b"m4", b"m2", b"m3", b"m0"]
