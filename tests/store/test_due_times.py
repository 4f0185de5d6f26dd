"""Expiry times by name are those of a dictionary, and the first of them is known."""

from __future__ import annotations

from random import Random

from headrace.store.due_times import NEVER_DUE_MS, DueTimes

SEED = 24


def test_random_changes_are_those_of_a_dictionary() -> None:
    draw = Random(SEED)
    times, model = DueTimes(), dict[bytes, int]()
    for step in range(20_000):
        name = b"%d" % draw.randrange(100)
        if draw.random() < 0.6:
            due_ms = draw.randrange(1_000)
            times.put(name, due_ms)
            model[name] = due_ms
        elif draw.random() < 0.1:
            names = [b"%d" % draw.randrange(100) for _ in range(draw.choice((0, 1, 5, 90)))]
            due_ms = draw.randrange(1_000)
            times.put_all(names, due_ms)
            model |= dict.fromkeys(names, due_ms)
        else:
            assert times.drop(name) is (model.pop(name, None) is not None)
        assert times.get(name) == model.get(name, NEVER_DUE_MS)
        assert len(times) == len(model)
        if model:
            due_ms, first = times.first()
            assert (due_ms, model[first]) == (min(model.values()), due_ms)
        if not step % 500:
            times.check()
            twin = times.copy()
            times.put(b"other", 0)
            times = twin
            assert set(times.names()) == set(model)


def test_times_that_change_again_and_again_take_no_more_memory() -> None:
    times = DueTimes()
    for due_ms in range(10_000):
        times.put(b"name", due_ms)
        times.check()
    for number in range(1_000):
        times.put(b"%d" % number, number)
    for number in range(1_000):
        times.drop(b"%d" % number)
        times.check()


def test_times_that_come_at_once_are_in_order_when_the_first_is_wanted() -> None:
    for is_wanted in (True, False):
        times = DueTimes.of({b"late": 9, b"second": 4, b"first": 4, b"gone": 1})
        times.check()
        if is_wanted:
            assert times.first() == (1, b"gone")
        twin = times.copy()
        for each in (times, twin):
            assert each.drop(b"gone")
            each.put(b"new", 5)
            assert each.first() == (4, b"first")
            each.check()
            assert len(each) == 4
            assert each.heaps()
