"""Pending entries: three views of one list, against a model that keeps them apart."""

from __future__ import annotations

import random
from types import ModuleType

import pytest

from headrace.store import pending_table_plain
from headrace.store.id_bits import SEQ_BITS, SEQ_MASK
from headrace.store.pending import DELIVERY_COUNT_MAX, DELIVERY_SIZE, Consumer, PendingEntries
from headrace.store.runs import LATE_COUNT_MAX

try:
    from headrace.store import pending_table
except ImportError:
    pending_table = None  # type: ignore[assignment]

FORMS = [pending_table_plain, *([pending_table] if pending_table is not None else [])]
forms = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__.rpartition(".")[2])


class Model:
    """(consumer name or None, delivery time, count) by ID, and the time order as a list."""

    def __init__(self) -> None:
        self.by_id: dict[int, tuple[bytes | None, int, int]] = {}
        self.order: list[int] = []

    def deliver(self, ids: list[int], name: bytes, time_ms: int, count: int) -> None:
        for entry_id in ids:
            self.drop(entry_id)
        for entry_id in ids:
            self.by_id[entry_id] = (name, time_ms, count)
            position = len(self.order)
            while position and self._sorts_after(self.order[position - 1], time_ms):
                position -= 1
            self.order.insert(position, entry_id)

    def _sorts_after(self, entry_id: int, time_ms: int) -> bool:
        name, other_ms, _ = self.by_id[entry_id]
        return name is not None and other_ms > time_ms

    def release(self, entry_id: int, count: int) -> None:
        self.drop(entry_id)
        zone = sum(1 for other in self.order if self.by_id[other][0] is None)
        self.by_id[entry_id] = (None, 0, count)
        self.order.insert(zone, entry_id)

    def drop(self, entry_id: int) -> bool:
        if entry_id not in self.by_id:
            return False
        del self.by_id[entry_id]
        self.order.remove(entry_id)
        return True


def assert_same(pending: PendingEntries, consumers: dict[bytes, Consumer], model: Model) -> None:
    pending.check(consumers)

    def row(entry_id: int) -> tuple[bytes | None, int, int]:
        delivery = pending.get(entry_id)
        assert delivery is not None
        return (delivery.consumer.name if delivery.consumer else None, delivery.time_ms, delivery.count)

    assert {entry_id: row(entry_id) for entry_id, _ in pending.walk()} == model.by_id
    assert [entry_id for entry_id, _ in pending.walk_by_time()] == model.order
    image = pending.image()
    assert [entry_id for entry_id, _ in image.walk()] == sorted(model.by_id)
    assert [entry_id for entry_id, _ in image.walk_by_time()] == model.order
    for count in (1, 3, 100):
        owners = {name: number for number, name in enumerate(consumers)}
        pages = list(image.columns(owners, count))
        assert [len(page[0]) for page in pages[:-1]] == [count] * (len(pages) - 1)
        rows = [row for page in pages for row in zip(*page, strict=True)]
        assert rows == [
            (entry_id >> SEQ_BITS, entry_id & SEQ_MASK, time_ms, delivery_count, -1 if name is None else owners[name])
            for entry_id, (name, time_ms, delivery_count) in sorted(model.by_id.items())
        ]
    for start in (0, 3, max(model.by_id, default=1)):
        assert pending.first_ids(start, 4) == sorted(each for each in model.by_id if each >= start)[:4]
    if model.by_id:
        assert (pending.first_id(), pending.last_id()) == (min(model.by_id), max(model.by_id))
    owned_times = [time_ms for name, time_ms, _ in model.by_id.values() if name is not None]
    assert pending.oldest_time_ms() == (min(owned_times) if owned_times else None)


@forms
@pytest.mark.parametrize("seed", range(20))
def test_all_views_agree_with_the_model_under_random_changes(seed: int, form: ModuleType) -> None:
    print("seed", seed)
    rng = random.Random(seed)
    pending, model = PendingEntries(form.PendingTable()), Model()
    consumers = {name: form.Consumer(name, 0) for name in (b"a", b"b")}
    now_ms, next_id = 1000, 1
    for _ in range(250):
        now_ms += rng.randrange(3)
        action = rng.random()
        some = rng.sample(range(1, next_id + 3), k=min(next_id, rng.randrange(1, 4)))
        name = rng.choice([b"a", b"b"])
        if action < 0.3:
            ids = list(range(next_id, next_id + rng.randrange(1, 9)))
            next_id = ids[-1] + rng.randrange(1, 3)
            pending.deliver(ids, consumers[name], time_ms=now_ms, count=1)
            model.deliver(ids, name, now_ms, 1)
        elif action < 0.55:
            time_ms, count = rng.choice([now_ms, now_ms, rng.randrange(now_ms)]), rng.randrange(5)
            pending.deliver(some, consumers[name], time_ms=time_ms, count=count)
            model.deliver(some, name, time_ms, count)
        elif action < 0.7:
            count = rng.choice([0, 7, 7, 1000, DELIVERY_COUNT_MAX])
            pending.release(some[0], count=count)
            model.release(some[0], count)
        elif action < 0.97:
            for entry_id in some:
                assert pending.drop(entry_id) == model.drop(entry_id)
        else:
            count = pending.drop_consumer(consumers[name])
            owned = [entry_id for entry_id, row in model.by_id.items() if row[0] == name]
            assert count == len(owned)
            for entry_id in owned:
                model.drop(entry_id)
        # Lists put late IDs in their places when they are read: several changes must be able to gather.
        if rng.random() < 0.4:
            assert_same(pending, consumers, model)
    assert_same(pending, consumers, model)
    twins = {name: form.Consumer(name, 0) for name in consumers}
    assert_same(pending.copy(twins), twins, model)


@forms
def test_tables_are_cleaned_when_most_of_them_has_been_acknowledged(form: ModuleType) -> None:
    pending, consumer = PendingEntries(form.PendingTable()), form.Consumer(b"c", 0)
    empty_size = pending.table_size + pending.runs_size
    for start in range(0, 100_000, 100):
        pending.deliver(list(range(start, start + 100)), consumer, time_ms=start, count=1)
        for entry_id in range(start, start + 100):
            assert pending.drop(entry_id)
    assert len(pending) == 0
    assert max(consumer.listed_count, pending.listed_count) < 1000
    assert pending.table_size + pending.runs_size < empty_size + 100_000
    pending.check({b"c": consumer})


@forms
def test_tables_are_cleaned_of_what_came_out_of_order_too(form: ModuleType) -> None:
    pending, consumer = PendingEntries(form.PendingTable()), form.Consumer(b"c", 0)
    pending.deliver([100_000], consumer, time_ms=0, count=1)
    for start in range(20_000, 0, -100):
        ids = list(range(start, start + 100))
        pending.deliver(ids, consumer, time_ms=1, count=1)
        assert pending.drop_all(ids) == 100
        assert pending.listed_count < 1_000
        assert consumer.listed_count < 1_000
    pending.check({b"c": consumer})


@forms
def test_deliveries_of_earlier_times_are_forgotten_with_their_entries(form: ModuleType) -> None:
    pending, consumer = PendingEntries(form.PendingTable()), form.Consumer(b"c", 0)
    pending.deliver([0], consumer, time_ms=7, count=1)
    size = pending.runs_size
    for entry_id in range(1, 20_000):
        pending.deliver([entry_id], consumer, time_ms=5, count=1)
        assert pending.drop(entry_id)
    assert pending.runs_size < size + 2_000
    few, other = PendingEntries(form.PendingTable()), form.Consumer(b"d", 0)
    size = few.runs_size
    few.deliver([0], other, time_ms=7, count=1)
    for entry_id in range(1, 11):  # too few to be worth a cleaning: they are still there, and counted
        few.deliver([entry_id], other, time_ms=6 + 2 * (entry_id % 2), count=1)
        assert few.drop(entry_id)
    assert few.runs_size >= size + 10 * DELIVERY_SIZE
    assert [entry_id for entry_id, _ in pending.walk_by_time()] == [0]


@forms
@pytest.mark.parametrize("late_count", [1, LATE_COUNT_MAX, LATE_COUNT_MAX + 1])
def test_late_deliveries_follow_those_of_equal_time(form: ModuleType, late_count: int) -> None:
    pending, owner = PendingEntries(form.PendingTable()), form.Consumer(b"c", 0)
    for entry_id in range(1, 100):
        pending.deliver([entry_id], owner, time_ms=entry_id // 10, count=1)
    rnd = random.Random(1)
    late = [(rnd.randrange(9), entry_id) for entry_id in range(100, 100 + late_count)]
    for time_ms, entry_id in late:
        pending.deliver([entry_id], owner, time_ms=time_ms, count=1)
    expected = sorted([(entry_id // 10, entry_id) for entry_id in range(1, 100)] + late)
    assert pending.oldest_time_ms() == 0
    assert [(delivery.time_ms, entry_id) for entry_id, delivery in pending.walk_by_time()] == expected
    pending.check({b"c": owner})


@forms
def test_what_is_claimed_again_and_again_costs_no_more(form: ModuleType) -> None:
    pending, consumers = PendingEntries(form.PendingTable()), [form.Consumer(b"a", 0), form.Consumer(b"b", 0)]
    ids = list(range(1, 1001))
    pending.deliver(ids, consumers[0], time_ms=0, count=1)
    pending.deliver(ids, consumers[1], time_ms=0, count=1)
    size = pending.table_size + pending.runs_size
    for turn in range(100):
        for start in range(0, 1000, 100):
            pending.deliver(ids[start : start + 100], consumers[turn % 2], time_ms=turn, count=1)
    assert pending.table_size + pending.runs_size < 2 * size + 50_000
    pending.check({each.name: each for each in consumers})


@forms
def test_what_is_not_pending_does_not_keep_others_from_being_dropped(form: ModuleType) -> None:
    pending, consumer = PendingEntries(form.PendingTable()), form.Consumer(b"c", 0)
    pending.deliver([1, 2, 3], consumer, time_ms=10, count=1)
    assert pending.drop_all([1, 7, 1, 3]) == 2
    assert (pending.first_ids(0, 9), consumer.pending_count) == ([2], 1)


@forms
def test_deliveries_are_those_of_owners_and_those_released(form: ModuleType) -> None:
    pending, consumer = PendingEntries(form.PendingTable()), form.Consumer(b"c", 0)
    pending.deliver([1, 2, 3], consumer, time_ms=10, count=1)
    counts = []
    for change in (
        lambda: pending.release(2, count=1),
        lambda: pending.release(3, count=1),  # shares the one of its count
        lambda: pending.release(2, count=5),
        lambda: pending.drop(1),
        lambda: pending.release(2, count=1),
        lambda: pending.drop_all([2, 3]),
        lambda: pending.release(4, count=1),
    ):
        change()
        pending.check({b"c": consumer})
        counts.append(pending.deliveries_count)
    assert counts == [2, 2, 3, 2, 1, 0, 1]


@forms
def test_an_id_that_comes_back_is_listed_once(form: ModuleType) -> None:
    pending, consumer = PendingEntries(form.PendingTable()), form.Consumer(b"c", 0)
    pending.deliver([1, 2, 3], consumer, time_ms=10, count=1)
    for entry_id in (3, 1):
        pending.drop(entry_id)
        pending.deliver([entry_id], consumer, time_ms=20, count=1)
    assert consumer.listed_count == 5  # duplicates are counted until the next read
    assert pending.first_ids(0, 9) == [entry_id for entry_id, _ in pending.walk()] == [1, 2, 3]
    assert pending.owned_ids(consumer, 0, -1) == [1, 2, 3]
    assert consumer.listed_count == 3


@forms
def test_what_is_taken_apart_is_all_there_was_and_leaves_an_empty_list(form: ModuleType) -> None:
    pending, consumers = PendingEntries(form.PendingTable()), {name: form.Consumer(name, 0) for name in (b"a", b"b")}
    for number, consumer in enumerate(consumers.values()):
        pending.deliver([number + 1, number + 11, number + 21], consumer, time_ms=10, count=1)
    pending.release(21, count=1)
    released = pending.released
    runs, *parts, table = pending.dismantle(consumers.values())
    assert any(part is released for part in parts)
    assert (len(runs), len(table)) == (2, 6)
    assert isinstance(table, form.PendingTable)
    assert (len(pending), pending.listed_count, pending.deliveries_count) == (0, 0, 0)
    assert all((each.listed_count, each.pending_count) == (0, 0) for each in consumers.values())
    pending.deliver([1, 2], consumers[b"a"], time_ms=10, count=1)
    pending.check(consumers)
    for left in (4, 2, 0):
        table.give_back(2)
        assert len(table) == left


@forms
def test_a_walk_starts_at_the_cursor(form: ModuleType) -> None:
    pending, consumer = PendingEntries(form.PendingTable()), form.Consumer(b"c", 0)
    pending.deliver([5, 1, 9], consumer, time_ms=10, count=1)
    assert [entry_id for entry_id, _ in pending.walk(2)] == [5, 9]
    assert pending.owned_ids(consumer, 6, 5) == [9]
    assert [entry_id for entry_id, _ in pending.walk_owned(consumer, 5)] == [5, 9]
    assert [entry_id for entry_id, _ in pending.walk_by_time()] == [5, 1, 9]
