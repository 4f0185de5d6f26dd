"""The table of keys, in both of its forms, compared with dictionaries."""

from __future__ import annotations

import random
from typing import Any

import pytest

from headrace.store import key_table_plain
from headrace.store.companions.hash_value import HashValue
from headrace.store.companions.set_value import SetValue
from headrace.store.companions.sorted_set_value import SortedSetValue
from headrace.store.limits import Limits
from headrace.store.stream import Stream
from headrace.store.text import EditedText, SumText

try:
    from headrace.store import key_table
except ImportError:  # there was no C compiler at installation
    key_table = key_table_plain  # type: ignore[assignment]

FORMS = [key_table, key_table_plain]
FIRST_MS = 1_700_000_000_000
LENGTHS = (0, 1, 41, 254, 255, 256, 5000)


class Place(bytes):
    """A key whose place in the order of SCAN is that of other keys."""

    def __hash__(self) -> int:
        return 5


class Model:
    """A table, and what it should hold: values and expiry times."""

    def __init__(self, form: Any) -> None:
        self.table = form.KeyTable()
        self.times = form.ExpiryTimes(self.table)
        self.values: dict[bytes, object] = {}
        self.due: dict[bytes, int] = {}

    def put(self, key: bytes, value: object, keep_expiry: bool) -> None:
        """Store a value in both."""
        assert self.table.put(key, value, keep_expiry) is (key not in self.values)
        self.values[key] = value
        if not keep_expiry:
            self.due.pop(key, None)

    def check(self) -> None:
        """Compare all that can be read."""
        self.table.check()
        assert len(self.table) == len(self.values)
        assert dict(self.table.items()) == self.values
        assert all(type(value) is type(self.values[key]) for key, value in self.table.items())
        assert sorted(self.table) == sorted(self.values)
        assert {key: self.times[key] for key in self.times} == self.due
        assert sorted(self.times.values()) == sorted(self.due.values())
        assert len(self.times) == self.table.expiring_count == len(self.due)
        first = self.table.first_due()
        assert (None if first is None else self.due[first]) == min(self.due.values(), default=None)
        assert self.table.first_due_ms == min([*self.due.values(), key_table_plain.NEVER_DUE_MS])
        assert self.table.size == sum(map(self.table.key_size, self.values))


def some_value(source: random.Random) -> object:
    """A string of any kind and length, or an object."""
    text = source.randbytes(source.choice(LENGTHS))
    return source.choice((text, EditedText(text), SumText(text), object()))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(8))
def test_the_table_does_what_dictionaries_do(form: Any, seed: int) -> None:
    source, model = random.Random(seed), Model(form)
    names = [b"k" * source.choice((0, 1, 20, 600)) + b"%d" % number for number in range(60)]
    copies: list[tuple[Any, dict[bytes, object], dict[bytes, int]]] = []
    for turn in range(1500):
        key, step = source.choice(names), source.randrange(100)
        if step < 45:
            model.put(key, some_value(source), keep_expiry=step < 20)
        elif step < 65:
            assert model.table.pop(key) == model.values.pop(key, None)
            model.due.pop(key, None)
        elif step < 85 and key in model.values:
            model.times[key] = model.due[key] = source.randrange(-5, 50)
        elif step < 90:
            assert model.times.pop(key, 7) == model.due.pop(key, 7)
        elif step < 91:
            copies = [*copies[-1:], (model.table.copy(), model.values.copy(), model.due.copy())]
        elif copies and (copy := copies[0])[0]:
            take_some(source.randrange(1, 9), *copy)
        if turn % 10 == 0:
            model.check()
    for table, values, due in copies:
        while table:
            take_some(7, table, values, due)
        assert not values
        assert table.take_some(1) == ([], [], {})
    model.check()


def take_some(count: int, table: Any, values: dict[bytes, object], due: dict[bytes, int]) -> None:
    """Take some keys of a copy, which must be among these values and times, and remove them there."""
    expected_count = min(count, len(table))
    strings, others, expires = table.take_some(count)
    assert len(strings) + len(others) == expected_count == len(values) - len(table)
    for name, value in strings + others:
        assert (value, expires.pop(name, None)) == (values.pop(name), due.pop(name, None))
    assert all(isinstance(value, bytes) for _, value in strings)
    assert not any(isinstance(value, bytes) for _, value in others)
    assert not expires


@pytest.mark.parametrize("form", FORMS)
def test_a_million_steps_of_time_leave_in_order(form: Any) -> None:
    table, source = form.KeyTable(), random.Random(3)
    times = [source.randrange(1000) for _ in range(5000)]
    for number, time_ms in enumerate(times):
        table.put(b"%d" % number, b"v")
        table.expire_at(b"%d" % number, time_ms)
    seen = []
    while (key := table.first_due()) is not None:
        seen.append(table.first_due_ms)
        table.pop(key)
    assert seen == sorted(times)
    assert len(table) == 0
    table.check()


@pytest.mark.parametrize("form", FORMS)
def test_a_missing_key_has_no_value_and_no_time(form: Any) -> None:
    table = form.KeyTable()
    times = form.ExpiryTimes(table)
    table.put(b"other", b"v")
    table.expire_at(b"other", 5)
    assert (table.get(b"key"), table.pop(b"key"), table.due_ms(b"key"), table.persist(b"key")) == (None,) * 3 + (False,)
    assert (times.get(b"key"), times.get(b"key", 3), times.pop(b"key", 4), b"key" in times) == (None, 3, 4, False)
    for fails in (
        lambda: table[b"key"],
        lambda: table.key_size(b"key"),
        lambda: table.expire_at(b"key", 1),
        lambda: times[b"key"],
        lambda: times.__delitem__(b"key"),
    ):
        with pytest.raises(KeyError):
            fails()
    with pytest.raises(OverflowError):
        table.expire_at(b"other", 1 << 63)
    assert (times[b"other"], len(table), table.give_back(5)) == (5, 1, [] if form is not key_table_plain else [b"v"])


@pytest.mark.parametrize("form", FORMS)
def test_what_is_given_back_names_the_objects(form: Any) -> None:
    table, values = form.KeyTable(), [object() for _ in range(1000)]
    for number, value in enumerate(values):
        table.put(b"%d" % number, value)
    back: list[object] = []
    while table:
        part = table.give_back(300)
        assert len(part) == min(300, 1000 - len(back))
        back += part
    assert set(map(id, back)) == set(map(id, values))
    assert table.give_back(1) == []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", [1, 3, 17])
def test_scan_meets_every_key_once_and_keys_of_one_place_together(form: Any, count: int) -> None:
    table = form.KeyTable()
    keys = [b"key:%d" % number for number in range(3000)] + [Place(b"place:%d" % number) for number in range(20)]
    for key in keys:
        table.put(key, b"v")
    met, cursor = table.scan(0, count)
    steps = [len(met)]
    while cursor:
        assert cursor < 2**44
        found, cursor = table.scan(cursor, count)
        steps.append(len(found))
        met += found
    assert sorted(met) == sorted(keys)
    assert sum(step > count for step in steps) == (count < 20)
    assert table.scan(2**64 - 1, count) == ([], 0)
    assert form.KeyTable().scan(0, count) == ([], 0)


@pytest.mark.parametrize("form", FORMS)
def test_keys_with_a_prefix_are_those_that_begin_so_in_the_order_of_all(form: Any) -> None:
    table = form.KeyTable()
    assert table.beginning(b"") == []
    for number in range(3000):
        table.put(b"k%d" % number if number % 3 else b"\0other%d" % number, b"value")
    for prefix in (b"", b"k", b"k1", b"k1001", b"\0", b"\0other", b"none", b"k" * 300):
        assert table.beginning(prefix) == [key for key in table if key.startswith(prefix)]


@pytest.mark.parametrize("form", FORMS)
def test_neighbours_start_with_each_key_in_turn(form: Any) -> None:
    table = form.KeyTable()
    with pytest.raises(IndexError):
        table.neighbours(0)
    keys = [b"key:%d" % number for number in range(5000)]
    for key in keys:
        table.put(key, b"v")
    assert sorted(table.neighbours(index)[0] for index in range(5000)) == sorted(keys)
    assert all(len(set(table.neighbours(index))) == len(table.neighbours(index)) for index in (0, 1, 4999))
    with pytest.raises(IndexError):
        table.neighbours(5000)
    for index in (0, 1, 2500, 4999):
        assert table.keys_at([index]) == table.neighbours(index)[:1]
    for key in keys[::2]:
        table.pop(key)
    assert sorted(table.keys_at([index])[0] for index in range(2500)) == sorted(keys[1::2])
    table.check()


@pytest.mark.parametrize("form", FORMS)
def test_keys_at_all_indexes_are_all_keys(form: Any) -> None:
    table = form.KeyTable()
    assert table.keys_at([]) == []
    keys = [b"key:%d" % number for number in range(5000)]
    for key in keys:
        table.put(key, b"v")
    assert sorted(table.keys_at(list(range(5000)))) == sorted(keys)
    assert sorted(table.keys_at([index])[0] for index in range(5000)) == sorted(keys)
    assert len(set(table.keys_at([7, 7, 8]))) == 2
    with pytest.raises(IndexError):
        table.keys_at([5000])


def test_both_forms_scan_in_the_same_order() -> None:
    tables = [form.KeyTable() for form in FORMS]
    for table in tables:
        for number in range(5000):
            table.put(b"key:%d" % number, b"v")
    cursor, is_over = 0, False
    while not is_over:
        one, other = (table.scan(cursor, 7) for table in tables)
        assert one == other
        cursor = one[1]
        is_over = not cursor


@pytest.mark.parametrize("form", FORMS)
def test_a_key_of_another_type_is_refused(form: Any) -> None:
    with pytest.raises((TypeError, KeyError)):
        form.KeyTable()["text"]


@pytest.mark.parametrize("form", FORMS)
def test_values_are_added_up_to_the_first_key_that_exists(form: Any) -> None:
    source = random.Random(5)
    values: list[tuple[bytes, Any, int | None]] = [
        (b"%d" % number, source.randbytes(source.choice(LENGTHS)), source.choice((None, source.randrange(-9, 9))))
        for number in range(500)
    ]
    values += [(b"stream:%d" % number, Stream(Limits()), number or None) for number in range(9)]
    table, one_by_one = form.KeyTable(), form.KeyTable()
    assert table.add_many([]) is None
    assert table.add_many(values[:300]) is None
    assert table.add_many([*values[300:], values[7], (b"last", b"v", None)]) == b"7"
    for key, value, expires_ms in values:
        one_by_one.put(key, value)
        if expires_ms is not None:
            one_by_one.expire_at(key, expires_ms)
    assert dict(table.items()) == dict(one_by_one.items())
    assert [table.due_ms(key) for key in table] == [one_by_one.due_ms(key) for key in table]
    assert (table.size, table.first_due_ms) == (one_by_one.size, one_by_one.first_due_ms)
    table.check()


@pytest.mark.parametrize("form", FORMS)
def test_what_is_fetched_soon_changes_nothing(form: Any) -> None:
    model = Model(form)
    model.table.fetch_soon([[b"GET", b"key"]])
    for number in range(3_000):
        model.put(b"%d" % number, Stream(Limits()) if number % 7 else b"text", False)
    # Values that refer to others in every number, or to none.
    for number, value in enumerate((HashValue(Limits()), SetValue(Limits()), b"v" * 70_000, SortedSetValue(Limits()))):
        model.put(b"%d" % (2_950 + number), value, False)
    requests: list[Any] = [[b"GET", b"%d" % number] for number in range(2_900, 3_100)]
    for some in ([], [[b"PING"]], [(b"GET", b"1")], [[b"GET", None]], requests, requests * 2):
        model.table.fetch_soon(some)
    model.check()


@pytest.mark.parametrize("form", FORMS)
def test_strings_are_read_and_stored_many_at_once(form: Any) -> None:
    texts = {b"k%d" % number * (1 + number % 3 * 60): b"v" * (number * 37 % 600) for number in range(900)}
    texts[b"k" * 70_000] = b"v" * 70_000
    table = form.KeyTable()
    words = [word for pair in texts.items() for word in pair]
    assert table.put_words(words) == len(texts)
    assert table.put_words([b"k0", b"other", b"new", b""]) == 1
    texts |= {b"k0": b"other", b"new": b""}
    keys, values = [key for key, _ in table.items()], [value for _, value in table.items()]
    assert dict(zip(keys, values, strict=True)) == texts
    assert table.values() == values
    both = [word for pair in table.items() for word in pair]
    assert table.words() == both
    keys = all_scanned(table)
    for has_keys, has_values in ((True, False), (False, True), (True, True)):
        expected = [word for key in keys for word in (key, texts[key])[not has_keys : 1 + has_values]]
        pieces, after = table.bulks(0, has_keys, has_values)
        while after:
            part, after = table.bulks(after, has_keys, has_values)
            pieces += part
        assert b"".join(pieces) == b"".join(b"$%d\r\n%b\r\n" % (len(text), text) for text in expected)
    assert form.KeyTable().bulks(0, True, True) == ([], 0)
    table.check()


def all_scanned(table: Any) -> list[bytes]:
    """All keys, in the order of SCAN."""
    keys: list[bytes] = []
    cursor = 0
    while True:
        found, cursor = table.scan(cursor, 100)
        keys += found
        if not cursor:
            return keys


@pytest.mark.parametrize("form", FORMS)
def test_many_keys_are_removed_at_once(form: Any) -> None:
    table = form.KeyTable()
    assert table.pop_keys([b"none"]) == table.get_keys([b"none"]) == [None]
    table.put_keys([b"k%d" % number for number in range(3000)])
    table.expire_at(b"k7", 5)
    copy = table.copy()
    assert table.get_keys([b"k1", b"none", b"k2"]) == [b"", None, b""]
    assert table.keys() == list(table) == [key for key, _ in table.items()]
    assert table.having([b"k1", b"none", b"k2", b"k1"], True) == [b"k1", b"k2", b"k1"]
    assert table.having([b"k1", b"none", b"k2", b"no"], False) == [b"none", b"no"]
    numbers = (*range(0, 2000, 2), 7, 7, 5000)
    assert table.pop_keys([b"k%d" % number for number in numbers]) == [*([b""] * 1001), None, None]
    assert set(table) == {b"k%d" % number for number in range(3000) if number >= 2000 or (number % 2 and number != 7)}
    assert table.expiring_count == 0
    assert len(copy) == 3000
    table.check()
    with pytest.raises(TypeError):
        form.KeyTable().pop_keys([[]])
    assert table.pop_keys(list(table)) == [b""] * 1999
    assert (len(table), table.size) == (0, 0)


@pytest.mark.parametrize("form", FORMS)
def test_what_a_copy_has_is_not_freed(form: Any) -> None:
    table = form.KeyTable()
    table.put_words([b"%d" % number for number in range(6000)])
    copy = table.copy()
    table.put(b"0", b"other")
    values: list[Any] = []
    while len(table):
        values += table.give_back(100)
    assert not values or form is key_table_plain
    assert dict(copy.items()) == {b"%d" % number: b"%d" % (number + 1) for number in range(0, 6000, 2)}
    copy.check()


@pytest.mark.parametrize("form", FORMS)
def test_new_keys_are_added_many_at_once_and_others_stay(form: Any) -> None:
    table = form.KeyTable()
    table.put(b"a", b"kept")
    table.expire_at(b"a", 5)
    assert table.put_keys([b"a", b"b", b"b", b"c"]) == 2
    assert dict(table.items()) == {b"a": b"kept", b"b": b"", b"c": b""}
    assert table.due_ms(b"a") == 5
    table.check()
