"""Hashes have the fields of a dict, the encodings and the order of Redis, and know which field expires first."""

from __future__ import annotations

from random import Random

import pytest

from headrace.protocol.scalars import bulk
from headrace.store.companions.hash_value import HashValue, template_order
from headrace.store.due_times import NEVER_DUE_MS
from headrace.store.limits import Limits

SEED = 24


def hash_of(count: int, limits: Limits | None = None) -> HashValue:
    value = HashValue(limits or Limits())
    for number in range(count):
        value.set(b"f%d" % number, b"v%d" % number)
    return value


@pytest.mark.parametrize(
    ("field", "text", "encoding"),
    [(b"f", b"v", b"listpack"), (b"f" * 65, b"v", b"hashtable"), (b"f", b"v" * 65, b"hashtable")],
)
def test_a_long_field_or_value_makes_a_hash_table(field: bytes, text: bytes, encoding: bytes) -> None:
    value = hash_of(1)
    value.set(field, text)
    assert value.encoding == encoding


def test_many_fields_make_a_hash_table_for_good() -> None:
    value = hash_of(512)
    assert value.encoding == b"listpack"
    value.set(b"one more", b"v")
    assert value.encoding == b"hashtable"
    value.pop(b"one more")
    assert value.encoding == b"hashtable"


def test_fields_with_times_are_in_the_order_of_these() -> None:
    value = hash_of(5)
    value.expire_at(b"f3", 300)
    value.expire_at(b"f1", 100)
    value.expire_at(b"f4", 200)
    assert value.encoding == b"listpackex"
    assert value.live_fields(0) == [b"f1", b"f4", b"f3", b"f0", b"f2"]
    value.persist(b"f1")
    assert value.live_fields(0) == [b"f4", b"f3", b"f0", b"f2", b"f1"]
    value.set(b"f4", b"new")
    assert value.live_fields(0) == [b"f3", b"f0", b"f2", b"f1", b"f4"]
    assert value.due_ms(b"f4") is None
    value.set(b"f3", b"new", keeps_time=True)
    assert value.due_ms(b"f3") == 300
    value.check()


def test_a_field_is_due_after_its_millisecond() -> None:
    value = hash_of(2)
    value.expire_at(b"f0", 100)
    assert not value.is_due(b"f0", 100)
    assert value.is_due(b"f0", 101)
    assert not value.is_due(b"f1", 101)
    assert value.live_fields(101) == [b"f1"]
    assert list(value.live_items(101)) == [(b"f1", b"v1")]
    assert (value.first_due(100), value.first_due(101)) == (None, b"f0")


@pytest.mark.parametrize("count", [20, 600])
def test_random_times_are_those_of_a_model(count: int) -> None:
    draw = Random(SEED)
    value, model = hash_of(count), {b"f%d" % number: NEVER_DUE_MS for number in range(count)}
    for _ in range(5_000):
        field = b"f%d" % draw.randrange(count)
        kind = draw.randrange(5)
        if kind == 0:
            value.set(field, b"w")
            model[field] = NEVER_DUE_MS
        elif kind == 1:
            assert (value.pop(field) is not None) is (field in model)
            model.pop(field, None)
        elif field in model and kind == 2:
            assert value.persist(field) is (model[field] < NEVER_DUE_MS)
            model[field] = NEVER_DUE_MS
        elif field in model:
            time_ms = draw.randrange(1, 1_000)
            value.expire_at(field, time_ms)
            model[field] = time_ms
    now_ms = 500
    assert set(value.live_fields(now_ms)) == {field for field, time_ms in model.items() if time_ms >= now_ms}
    value.check()
    for _ in range(len(model)):
        field = value.first_due(now_ms)
        due = min(model.values(), default=NEVER_DUE_MS)
        if field is None:
            assert due >= now_ms
            break
        assert model.pop(field) == due
        value.pop(field)
    value.check()


@pytest.mark.parametrize("count", [20, 2_000])
def test_a_copy_is_independent(count: int) -> None:
    value = hash_of(count)
    value.expire_at(b"f0", 100)
    twin = value.copy()
    value.pop(b"f0")
    value.set(b"f1", b"changed")
    assert (twin.get(b"f0"), twin.get(b"f1"), twin.due_ms(b"f0")) == (b"v0", b"v1", 100)
    assert (value.first_due_ms, twin.first_due_ms) == (NEVER_DUE_MS, 100)
    twin.check()


@pytest.mark.parametrize("count", [3, 600])
def test_an_imported_hash_keeps_short_fields_first(count: int) -> None:
    names = sorted([b"f%d" % number for number in range(count)], key=template_order)
    value = HashValue.of_template(names, [b"v"] * count, Limits())
    value.set(b"a", b"v")
    value.set(b"z" * 70, b"v")
    value.pop(b"f1")
    names = [b"a", *[name for name in names if name != b"f1"], b"z" * 70]
    assert [field for field, _ in value.items()] == value.live_fields(0) == names
    assert value.scan(0, 10) == (names, 0)
    assert value.live_words(0)[::2] == names
    value.check()
    value.copy().check()


def test_a_field_with_an_expiry_time_ends_the_encoding_of_an_imported_hash() -> None:
    value = HashValue.of_template([b"a", b"b"], [b"v", b"v"], Limits())
    value.expire_at(b"a", 1)
    assert value.encoding == b"listpackex"
    value.check()


def test_fields_are_set_many_at_once_as_one_after_the_other() -> None:
    for count in (1, 5, 200, 2000):
        words = [b"%d" % (number * 7 % (count + 1)) for number in range(2 * count)]
        at_once, one_by_one = HashValue(Limits()), HashValue(Limits())
        pairs = list(zip(words[::2], words[1::2], strict=True))
        assert at_once.set_words(words) == sum([one_by_one.set(*pair) for pair in pairs])
        assert at_once.encoding == one_by_one.encoding
        assert list(at_once.items()) == list(one_by_one.items())
        fields, values = (list(part) for part in zip(*at_once.items(), strict=True))
        assert at_once.live_fields(0) == fields
        assert at_once.live_values(0) == values
        members = at_once.live_members(0)
        if members is not None:
            scanned = [word for field in at_once.scan(0, 3000)[0] for word in (field, at_once.get(field) or b"")]
            assert b"".join(members.bulks(True, True)) == b"".join([bulk(word) for word in scanned])
        at_once.check()


@pytest.mark.parametrize("count", [1, 7, 200])
def test_times_are_set_many_at_once_as_one_after_the_other(count: int) -> None:
    draw = Random(SEED)
    at_once, one_by_one = hash_of(count), hash_of(count)
    for _ in range(200):
        fields = [b"f%d" % draw.randrange(count) for _ in range(draw.choice((0, 1, 2, 5, count)))]
        due_ms = draw.randrange(1, 9)
        at_once.expire_all_at(fields, due_ms)
        for field in fields:
            one_by_one.expire_at(field, due_ms)
        if draw.random() < 0.3:
            field = b"f%d" % draw.randrange(count)
            assert at_once.persist(field) == one_by_one.persist(field)
        assert at_once.encoding == one_by_one.encoding
        assert list(at_once.items()) == list(one_by_one.items())
        assert (at_once.first_due_ms, at_once.first_due(99)) == (one_by_one.first_due_ms, one_by_one.first_due(99))
        assert at_once.due_times([b"f0"]) == one_by_one.due_times([b"f0"])
        at_once.check()


def test_a_long_listpack_gets_times() -> None:
    limits = Limits()
    limits.hash_entries_max = 2000
    value = hash_of(1000, limits)
    value.expire_all_at([b"f%d" % number for number in range(500)], 7)
    assert value.encoding == b"listpackex"
    assert (value.due_ms(b"f499"), value.due_ms(b"f500")) == (7, None)
    value.check()


def test_fields_that_are_set_many_at_once_lose_their_times() -> None:
    value = HashValue(Limits())
    value.set_words([b"%d" % number for number in range(2000)])
    value.expire_at(b"0", 5)
    assert value.set_words([b"0", b"x", b"new", b"y"]) == 1
    assert value.due_ms(b"0") is None
    value.check()
