"""The order of ORDER-BY, compared with lists."""

from __future__ import annotations

import random

import pytest

from headrace.store.ids import StreamID, format_id
from headrace.store.log import EntryLog
from headrace.store.policies.ordering import Ordering

FIELD = b"customer"


def entry_of(entry_id: StreamID, *words: bytes) -> bytes:
    """The reply form of an entry."""
    parts = b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
    text = format_id(entry_id)
    return b"*2\r\n$%d\r\n%b\r\n*%d\r\n%b" % (len(text), text, len(words), parts)


def log_of(values: list[bytes | None]) -> EntryLog:
    """Entries 1, 2, ... with these values; None: without the field."""
    log = EntryLog()
    for number, value in enumerate(values, 1):
        words = [b"f", b"v"] if value is None else [b"f", b"customer", FIELD, value]
        log.append(number, entry_of(number, *words))
    return log


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ([], None),
        ([b"f", b"customer"], None),
        ([FIELD, b""], b""),
        ([b"f", b"$8\r\ncustomer\r\n", FIELD, b"a\r\nb"], b"a\r\nb"),
        ([b"$8\r\ncustomer\r\n", b"$8\r\ncustomer\r\n"], None),
        ([FIELD, b"one", FIELD, b"two"], b"one"),
        ([b"customer2", b"x", b"Customer", b"y"], None),
    ],
)
def test_the_value_is_that_of_the_first_field_of_the_name(words: list[bytes], value: bytes | None) -> None:
    assert Ordering(FIELD, EntryLog()).value_in(entry_of(7, *words)) == value


def test_the_smallest_id_of_a_value_has_the_turn() -> None:
    order = Ordering(FIELD, log_of([b"a", b"b", b"a", None, b"a"]))
    assert [order.enter(entry_id) for entry_id in (3, 2, 4, 5)] == [0, 0, 0, 0]
    assert [entry_id for entry_id in range(1, 6) if order.has_turn(entry_id)] == [1, 2, 3, 4]
    assert order.enter(1) == 3
    assert (order.has_turn(3), order.waiting_count) == (False, 2)
    assert order.leave([3]) == []
    assert order.leave([1, 2, 4]) == [5]
    assert order.leave([5, 5]) == []


@pytest.mark.parametrize("seed", range(6))
def test_an_order_agrees_with_lists(seed: int) -> None:
    print("seed", seed)
    source = random.Random(seed)
    values = [source.choice([None, b"a", b"b", b"c", b"%d" % source.randrange(40)]) for _ in range(150)]
    order, pending = Ordering(FIELD, log_of(values)), set[StreamID]()

    def first_of(value: bytes | None) -> StreamID:
        return min([entry_id for entry_id in pending if values[entry_id - 1] == value], default=0)

    for turn in range(600):
        ids = [source.randrange(1, 151) for _ in range(source.choice((1, 1, 5)))]
        if source.random() < 0.5:
            for entry_id in ids:
                value = values[entry_id - 1]
                before = 0 if value is None else first_of(value)
                assert order.enter(entry_id) == (before if entry_id < before else 0)
                pending.add(entry_id)
        else:
            before_of = {
                values[entry_id - 1]: first_of(values[entry_id - 1]) for entry_id in ids if entry_id in pending
            }
            turns = order.leave(ids)
            pending.difference_update(ids)
            after = [first_of(value) for value, before in before_of.items() if value and first_of(value) != before]
            assert sorted(turns) == sorted([entry_id for entry_id in after if entry_id])
        assert all(
            order.has_turn(each) == (not values[each - 1] or first_of(values[each - 1]) == each) for each in pending
        )
        if turn % 100 == 0:
            order.check()


def test_new_entries_wait_for_pending_ones_and_for_each_other() -> None:
    log = log_of([b"a", b"a", b"b", None, b"b", b"a", b"c", b"c"])
    order, waiting = Ordering(FIELD, log), list[StreamID]()
    order.enter(1)
    order.begin_read()
    for entry_id, entry in log.entries(2, 9):
        if order.must_wait(entry_id, entry):
            waiting.append(entry_id)
        elif entry_id != 7:
            order.take_turn(entry_id)
    assert waiting == [2, 5, 6]
    order.begin_read()
    assert not order.must_wait(3, log.get(3) or b"")


def test_memory_does_not_grow_with_entries_that_have_left() -> None:
    order = Ordering(FIELD, log_of([b"a"] * 5000))
    order.enter(1)
    size = order.memory_size
    for entry_id in range(2, 5000):
        order.enter(entry_id)
        order.leave([entry_id])
        order.check()
    assert order.memory_size < 2 * size
