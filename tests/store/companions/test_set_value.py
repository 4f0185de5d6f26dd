"""Sets have the members of a Python set, and the encodings and the order of Redis."""

from __future__ import annotations

from random import Random

import pytest

from headrace.store.companions.set_value import SetValue, as_integer
from headrace.store.limits import Limits

SEED = 24


def set_of(*members: bytes, limits: Limits | None = None) -> SetValue:
    value = SetValue.for_member(limits or Limits(), members[0], len(members))
    for member in members:
        value.add(member)
    return value


@pytest.mark.parametrize(
    ("members", "encoding", "order"),
    [
        ([b"3", b"1", b"2"], b"intset", [b"1", b"2", b"3"]),
        ([b"b", b"1", b"a"], b"listpack", [b"b", b"1", b"a"]),
        ([b"3", b"1", b"x", b"2"], b"listpack", [b"1", b"3", b"x", b"2"]),
        ([b"01"], b"listpack", [b"01"]),
        ([b"x" * 65], b"hashtable", [b"x" * 65]),
        ([b"1", b"x" * 65], b"hashtable", [b"1", b"x" * 65]),
        ([b"%d" % number for number in range(512)], b"intset", [b"%d" % number for number in range(512)]),
    ],
)
def test_the_encoding_and_the_order_follow_from_the_members(
    members: list[bytes], encoding: bytes, order: list[bytes]
) -> None:
    value = set_of(*members)
    assert value.encoding == encoding
    assert value.members() == order
    value.check()


def test_too_many_members_make_a_hash_table_for_good() -> None:
    integers = set_of(*[b"%d" % number for number in range(512)])
    integers.add(b"512")
    texts = set_of(*[b"m%d" % number for number in range(128)])
    texts.add(b"m128")
    assert (integers.encoding, texts.encoding) == (b"hashtable", b"hashtable")
    for value in (integers, texts):
        while len(value) > 1:
            value.discard(value.at(0))
        assert value.encoding == b"hashtable"
        value.check()


@pytest.mark.parametrize("universe", ["integers", "texts", "both"])
def test_random_changes_are_those_of_a_set(universe: str) -> None:
    draw = Random(SEED)
    value, model = SetValue(Limits(set_integers_max=50, set_entries_max=30)), set[bytes]()
    for _ in range(5_000):
        member = b"%d" % draw.randrange(-80, 80) if universe != "texts" else b"m%d" % draw.randrange(80)
        if universe == "both" and draw.random() < 0.1:
            member = b"t" + member
        if draw.random() < 0.4:
            assert value.discard(member) is (member in model)
            model.discard(member)
        else:
            assert value.add(member) is (member not in model)
            model.add(member)
        assert (len(value), member in value) == (len(model), member in model)
    assert set(value.members()) == model
    value.check()


def test_a_copy_is_independent() -> None:
    for value in (set_of(b"1", b"2"), set_of(b"a", b"b"), set_of(*[b"m%d" % number for number in range(2_000)])):
        twin = value.copy()
        member = value.members()[0]
        value.discard(member)
        assert member in twin
        assert twin.encoding == value.encoding
        twin.check()


@pytest.mark.parametrize(
    ("member", "number"),
    [
        (b"0", 0), (b"-1", -1), (b"9223372036854775807", 2**63 - 1), (b"-9223372036854775808", -(2**63)),
        (b"9223372036854775808", None), (b"-0", None), (b"00", None), (b"+1", None), (b"", None), (b"-", None),
        (b"1.0", None), (b"1" * 30, None), ("\u0661".encode(), None),
    ],
)  # fmt: skip
def test_only_canonical_numbers_are_integers(member: bytes, number: int | None) -> None:
    assert as_integer(member) == number


def test_members_are_added_many_at_once_as_one_after_the_other() -> None:
    draw = Random(SEED)
    for count in (1, 5, 200, 2000):
        members = [b"%d" % draw.randrange(count) for _ in range(count)]
        for added in (members, [*members, b"text"], [b"text", *members]):
            at_once, one_by_one = SetValue(Limits()), SetValue(Limits())
            assert at_once.add_all(added) == sum([one_by_one.add(member) for member in added])
            assert at_once.encoding == one_by_one.encoding
            assert at_once.members() == one_by_one.members()
            assert sorted(member for part in at_once.parts(7) for member in part) == sorted(at_once.members())
            asked = [b"%d" % draw.randrange(2 * count) for _ in range(20)] + [b"text", b"other"]
            assert at_once.having(asked) == [member for member in asked if member in added]
            assert at_once.lacking(asked) == [member for member in asked if member not in added]
            assert at_once.has_each(asked) == [int(member in added) for member in asked]
            at_once.check()


def test_a_set_that_gets_nothing_new_keeps_its_encoding_under_a_lower_limit() -> None:
    limits = Limits()
    value = set_of(*[b"m%d" % number for number in range(20)], limits=limits)
    limits.set_entries_max = 10
    limits.set_value_max = 1
    assert value.add_all([b"m1", b"m2", b"m1"]) == 0
    assert value.encoding == b"listpack"
    assert value.add_all([b"m1", b"new"]) == 1
    assert value.encoding == b"hashtable"
    value.check()


@pytest.mark.parametrize("count", [1, 2, 40, 500])
def test_parts_of_a_set_have_no_more_members_than_are_wanted(count: int) -> None:
    for value in (
        set_of(*[b"%d" % number for number in range(500)]),
        set_of(*[b"m%d" % number for number in range(100)]),
        set_of(*[b"m%d" % number for number in range(500)]),
    ):
        found, cursor = list[bytes](), 0
        while True:
            members, cursor = value.part(cursor, count)
            assert len(members) <= count
            found += members
            if not cursor:
                break
        assert found == value.members()
