"""When entries become due, alike in both forms, compared with a dictionary."""

from __future__ import annotations

import gc
import random
import sys
import time
import tracemalloc
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from headrace.store.ids import ID_MAX, U64_MAX, StreamID, make_id
from headrace.store.policies import due_times_plain

try:
    from headrace.store.policies import due_times
except ImportError:
    due_times = None  # type: ignore[assignment]

FORMS = [due_times_plain, *([due_times] if due_times is not None else [])]
forms = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__.rpartition(".")[2])
needs_both = pytest.mark.skipif(due_times is None, reason="there is only the plain twin")
NEVER_MS = 2**63 - 1
HALVES = [0, 1, 2**18, 2**32, 1_700_000_000_000, 2**48, 2**63, U64_MAX - 1, U64_MAX]


def in_order(model: dict[StreamID, int]) -> list[tuple[StreamID, int]]:
    return sorted(model.items(), key=lambda pair: (pair[1], pair[0]))


@forms
@pytest.mark.parametrize("seed", range(8))
def test_due_times_agree_with_a_dictionary(form: ModuleType, seed: int) -> None:
    print("seed", seed)
    source = random.Random(seed)
    known = [make_id(source.choice(HALVES), source.randrange(2**64)) for _ in range(source.choice((5, 60, 900)))]
    times = [*range(source.choice((3, 1000))), NEVER_MS]
    due, model = form.DueTimes(), dict[StreamID, int]()
    copies: list[tuple[Any, list[tuple[StreamID, int]]]] = []
    for turn in range(1500):
        action, entry_id, due_ms = source.random(), source.choice(known), source.choice(times)
        some = source.sample(known, source.randrange(min(30, len(known))))
        if action < 0.4:
            due.set(entry_id, due_ms)
            model[entry_id] = due_ms
        elif action < 0.55:
            due.set_many(some, due_ms)
            model |= dict.fromkeys(some, due_ms)
        elif action < 0.7:
            assert due.discard(entry_id) == (model.pop(entry_id, None) is not None)
        elif action < 0.8:
            assert due.discard_many(some) == sum([model.pop(each, None) is not None for each in some])
        elif action < 0.9:
            count = source.choice((0, 1, 5, 2000))
            expected = [each for each, each_ms in in_order(model) if each_ms <= due_ms][:count]
            assert due.take_due(due_ms, count) == expected
            for each in expected:
                del model[each]
        elif action < 0.91:
            copies.append((due.copy(), in_order(model)))
        assert (len(due), due.get(entry_id), entry_id in due) == (len(model), model.get(entry_id), entry_id in model)
        assert due.first() == next(iter(in_order(model)), None)
        if turn % 50 == 0:
            due.check()
            assert list(due.walk()) == in_order(model)
    for copy, expected_pairs in copies:
        copy.check()
        assert list(copy.walk()) == expected_pairs
        assert copy.take_due(NEVER_MS, len(copy)) == [entry_id for entry_id, _ in expected_pairs]


@forms
def test_every_id_and_time_can_be_stored(form: ModuleType) -> None:
    due = form.DueTimes()
    ids = [make_id(ms, seq) for ms in HALVES for seq in HALVES]
    for number, entry_id in enumerate(ids):
        due.set(entry_id, NEVER_MS - number)
    assert [due.get(entry_id) for entry_id in ids] == [NEVER_MS - number for number in range(len(ids))]
    assert due.first() == (ID_MAX, NEVER_MS - len(ids) + 1)
    assert due.take_due(NEVER_MS, len(ids)) == ids[::-1]


@forms
def test_nothing_is_due_before_its_time(form: ModuleType) -> None:
    due = form.DueTimes()
    assert (due.first(), due.take_due(NEVER_MS, 9), due.discard(1), list(due.walk())) == (None, [], False, [])
    due.set_many([7, 5, 6], 100)
    assert due.take_due(99, 9) == []
    assert due.take_due(100, 2) == [5, 6]
    due.set(7, 101)
    assert due.take_due(100, 9) == []
    assert due.take_due(101, 9) == [7]


@forms
def test_due_times_may_change_while_they_are_walked(form: ModuleType) -> None:
    due = form.DueTimes()
    due.set_many(range(100), 5)
    walk = due.walk()
    seen = [next(walk)]
    due.take_due(5, 60)
    due.set_many(range(200, 900), 1)
    assert [*seen, *walk] == [(number, 5) for number in range(100)]


@forms
def test_memory_is_given_back_with_the_entries(form: ModuleType) -> None:
    due = form.DueTimes()
    empty_size = due.memory_size
    due.set_many(range(10_000), 1)
    full_size = due.memory_size
    due.discard_many(range(9_900))
    assert due.memory_size < full_size / 20
    due.take_due(1, 100)
    assert due.memory_size <= empty_size + (0 if form is due_times else 10_000)


@forms
def test_an_entry_that_is_moved_often_takes_no_more_memory(form: ModuleType) -> None:
    due = form.DueTimes()
    due.set_many(range(100), 1)
    before = due.memory_size
    for now_ms in range(10_000):
        due.set(now_ms % 100, now_ms)
    due.check()
    assert due.memory_size < 4 * before


@needs_both
def test_what_is_no_id_or_no_time_is_refused() -> None:
    due = due_times.DueTimes()
    due.set_many([1, 5], 3)
    for wrong, error in (("1", TypeError), (-1, OverflowError), (1 << 64, OverflowError), (1 << 145, OverflowError)):
        for attempt in (
            lambda wrong=wrong: due.set(wrong, 1),
            lambda wrong=wrong: due.set_many([7, wrong], 1),
            lambda wrong=wrong: due.discard(wrong),
            lambda wrong=wrong: due.discard_many([wrong]),
            lambda wrong=wrong: due.get(wrong),
            lambda wrong=wrong: wrong in due,
        ):
            with pytest.raises(error):
                attempt()
    with pytest.raises(OverflowError):
        due.set(1, 2**63)
    assert list(due.walk()) == [(1, 3), (5, 3)]


def filled(count: int) -> Any:
    due = due_times.DueTimes()
    for number in range(count):
        due.set(make_id(1_700_000_000_000 + number, 7), 10**12 + number * 7919 % 10_007)
    return due


@needs_both
@pytest.mark.parametrize(
    "act",
    [
        lambda due: due.set(5, 5),
        lambda due: due.set_many(range(5_000), 1),
        lambda due: due.discard_many([entry_id for entry_id, _ in due.walk()]),
        lambda due: due.take_due(NEVER_MS, 500),
        lambda due: due.take_due(NEVER_MS, 990),
        lambda due: due.copy(),
        lambda due: list(due.walk()),
    ],
)
def test_without_memory_all_entries_stay_as_they_were(act: Callable[[Any], object]) -> None:
    memory = pytest.importorskip("_testcapi")
    if sys.gettrace() is not None:
        pytest.skip("coverage's tracer ends the process when memory is short")
    count = next(number for number in range(900, 1100) if filled(number).memory_size < filled(number + 1).memory_size)
    pairs = list(filled(count).walk())
    failures = 0
    for number in range(30):
        due = filled(count)
        memory.set_nomemory(number, number + 1)
        try:
            act(due)
        except MemoryError:
            failures += 1
            memory.remove_mem_hooks()
            assert list(due.walk()) == pairs
        finally:
            memory.remove_mem_hooks()
        due.check()
    assert failures


@needs_both
def test_an_entry_costs_less_than_40_bytes_at_every_size() -> None:
    due, at_most, total, sizes = due_times.DueTimes(), 0.0, 0.0, 0
    for number in range(200_000):
        due.set(make_id(1_700_000_000_000 + number, 0), number)
        if number > 1_000:
            each = due.memory_size / len(due)
            at_most, total, sizes = max(at_most, each), total + each, sizes + 1
    assert at_most < 36
    assert total / sizes < 34
    while len(due) > 1_000:
        due.take_due(NEVER_MS, 100)
        assert due.memory_size / len(due) < 41


@needs_both
def test_no_memory_is_lost() -> None:
    def use() -> None:
        for _ in range(5):
            due = filled(2_000)
            next(due.walk())
            due.copy().take_due(NEVER_MS, 1_999)

    use()
    gc.collect()
    tracemalloc.start()
    try:
        use()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        use()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 2_000
    finally:
        tracemalloc.stop()


@needs_both
def test_ids_of_every_kind_of_sequence_are_spread_over_the_index() -> None:
    """Cells of the index are skipped one by one, which `check` does not allow to be many."""
    undone = pow(0xD1B54A32D192ED03, -1, 2**64)  # of a product in `home_of`
    sequences = {
        "a millisecond each": [make_id(1_700_000_000_000 + number, 0) for number in range(20_000)],
        "one millisecond": [make_id(1_700_000_000_000, number) for number in range(20_000)],
        "powers of two": [make_id(number << 32, 0) for number in range(20_000)],
        "counted in the high half": [make_id(1, number << 48) for number in range(20_000)],
        "chosen to meet": [make_id(1, number * undone % 2**64) for number in range(20_000)],
    }
    for title, ids in sequences.items():
        due = due_times.DueTimes()
        due.set_many(ids, 1)
        print(title)
        due.check()


@needs_both
def test_the_time_of_an_operation_hardly_depends_on_the_number_of_entries() -> None:
    """Method: the same work on few and on many entries. The bound leaves room for slower memory and busy machines."""

    def took_s(count: int) -> float:
        due = filled(count)
        ids = [make_id(1, number) for number in range(2_000)]
        start_s = time.process_time()
        for number, entry_id in enumerate(ids):
            due.set(entry_id, number)
            due.first()
        due.take_due(2_000, 2_000)
        return time.process_time() - start_s

    assert min([took_s(100_000) for _ in range(3)]) < 20 * min([took_s(1_000) for _ in range(3)])
