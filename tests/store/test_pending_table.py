"""The tables of pending entries, alike in both forms; and that the compiled one keeps its hands off other memory."""

from __future__ import annotations

import gc
import random
import sys
import tracemalloc
from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import ModuleType
from typing import Any

import pytest

from headrace.store import pending_table_plain
from headrace.store.ids import ID_MAX, U64_MAX, StreamID, id_after, make_id

try:
    from headrace.store import pending_table
except ImportError:
    pending_table = None  # type: ignore[assignment]

FORMS = [pending_table_plain, *([pending_table] if pending_table is not None else [])]
forms = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__.rpartition(".")[2])
needs_both = pytest.mark.skipif(pending_table is None, reason="there is only the plain twin")
NAMES = (b"a", b"b", b"c")
EDGES = [0, 1, 2, 3, 2**29, 2**30, 2**31, 2**32, 2**60, 2**63, U64_MAX - 1, U64_MAX]

Row = tuple[StreamID, bytes | None, int, int]


def row(entry_id: StreamID, delivery: Any) -> Row:
    """What is known of an entry."""
    return entry_id, delivery.consumer.name if delivery.consumer else None, delivery.time_ms, delivery.count


def rows(pairs: Iterable[tuple[StreamID, Any]]) -> list[Row]:
    return [row(*pair) for pair in pairs]


class Subject:
    """A table of one form with its consumers, and its deliveries in the order in which they came."""

    def __init__(self, form: ModuleType) -> None:
        self.form = form
        self.table = form.PendingTable()
        self.consumers = {name: form.Consumer(name, 0) for name in NAMES}
        self.deliveries: list[Any] = []

    def deliver(self, ids: list[StreamID], name: bytes, time_ms: int, count: int) -> None:
        self.deliveries += self.table.deliver(ids, self.consumers[name], time_ms, count)

    def by_delivery(self) -> list[Row]:
        return [row(entry_id, each) for each in self.deliveries for entry_id in self.table.members(each)]

    def image(self) -> tuple[Any, list[Row], list[Row]]:
        """An image, and what it must still show after changes."""
        live = [each for each in self.deliveries if each.remaining]
        return self.table.image(live), rows(self.table.walk()), self.by_delivery()


def halves(source: random.Random, kind: str) -> StreamID:
    """An ID: any there can be, or one of few that follow each other."""
    if kind == "edges":
        return make_id(source.choice(EDGES), source.choice(EDGES))
    return make_id(1_700_000_000_000 + source.randrange(30), source.randrange(20))


def assert_alike(one: Subject, other: Subject, source: random.Random, kind: str) -> None:
    for each in (one, other):
        each.table.check(each.consumers)
    start, count = source.choice([0, halves(source, kind), id_after(ID_MAX)]), source.choice([0, 1, 5, 1000])
    end, now_ms = max(halves(source, kind), start) if start <= ID_MAX else ID_MAX, source.randrange(300)
    seen: list[list[Any]] = []
    for each in (one, other):
        table = each.table
        owners = [None, *each.consumers.values()]
        seen.append(
            [
                len(table),
                rows(table.walk()),
                [rows(table.walk(start, owner)) for owner in owners],
                [table.take(start, count, owner) for owner in owners],
                table.stretch(start, count),
                [table.list_times(count, owner) for owner in owners],
                [
                    table.list_idle(min(start, ID_MAX), end, count, now_ms, idle, owner)
                    for owner in owners
                    for idle in (0, 9)
                ],
                [
                    (*described[:4], b"".join(described[4]))
                    for count in (0, 2)
                    for described in table.list_consumers(list(each.consumers.values()), count)
                ],
                table.summary(list(each.consumers.values())) if len(table) else None,
                each.form.idle_states(list(each.consumers.values()), now_ms),
                [row(*pair) for pair in table.released.items()],
                each.by_delivery(),
                table.last_id() if len(table) else None,
                [consumer.pending_count for consumer in each.consumers.values()],
            ]
        )
    assert seen[0] == seen[1]


@needs_both
@pytest.mark.parametrize("kind", ["edges", "near", "queue"])
@pytest.mark.parametrize("seed", range(12))
def test_both_forms_do_the_same_under_random_changes(seed: int, kind: str) -> None:
    print("seed", seed)
    source = random.Random(seed)
    one, other = Subject(pending_table_plain), Subject(pending_table)
    newest = make_id(1_700_000_000_000, 0)
    images: list[tuple[Any, list[Row], list[Row]]] = []
    for turn in range(250):
        name, count, action = source.choice(NAMES), source.randrange(3), source.random()
        pending = [entry_id for entry_id, _ in one.table.walk()]
        some = source.sample(pending, min(len(pending), source.randrange(20)))
        if kind == "queue":
            ids = [newest := newest + source.randrange(1, 3) for _ in range(source.randrange(60))]
        else:
            ids = list({halves(source, kind) for _ in range(source.randrange(40))})
        if action < 0.3:
            if source.random() < 0.5:
                ids.sort()
            for each in (one, other):
                each.deliver(ids, name, turn, count)
        elif action < 0.5:
            ids = list(dict.fromkeys([*some, *ids[: source.randrange(3)]]))
            for each in (one, other):
                each.deliver(ids, name, turn, count)
        elif action < 0.65:
            for entry_id in some[:5] + ids[:1]:
                for each in (one, other):
                    each.table.release(entry_id, count)
        elif action < 0.95:
            # Often those from the start on, now and then nearly all.
            chosen = source.choice([some, pending[: source.randrange(40)], pending[source.randrange(5) :]]) + ids[:1]
            assert one.table.drop_all(chosen) == other.table.drop_all(tuple(chosen))
        else:
            images.append(other.image())
        for entry_id in some + ids:
            found = [each.table.get(entry_id) for each in (one, other)]
            assert (found[0] is None) == (found[1] is None) == (entry_id not in one.table)
            assert (entry_id in one.table) == (entry_id in other.table)
            if found[0] is not None:
                assert row(entry_id, found[0]) == row(entry_id, found[1])
        if source.random() < 0.3:
            assert_alike(one, other, source, kind)
    assert_alike(one, other, source, kind)
    for image, by_id, by_delivery in images:
        assert len(image) == len(by_id)
        assert rows(image.walk()) == by_id
        assert [each for each in rows(image.walk_by_time()) if each[1]] == [each for each in by_delivery if each[1]]


@forms
def test_a_listing_is_that_of_the_walk(form: ModuleType) -> None:
    subject = Subject(form)
    subject.deliver([make_id(5, 1), make_id(7, 0)], b"a", 100, 1)
    subject.deliver([make_id(5, 0)], b"c", 130, 2)
    subject.table.release(make_id(7, 0), 3)
    times = [b"$3\r\n5-0\r\n", b"$3\r\n5-1\r\n", b"$3\r\n7-0\r\n"]
    of_all = [b"$1\r\nc\r\n:130\r\n:2\r\n", b"$1\r\na\r\n:100\r\n:1\r\n", b"$0\r\n\r\n:0\r\n:3\r\n"]
    expected = [b"*4\r\n" + shown + rest for shown, rest in zip(times, of_all, strict=True)]
    assert subject.table.list_times(9) == (3, b"".join(expected))
    assert subject.table.list_times(1, subject.consumers[b"a"]) == (1, b"*3\r\n$3\r\n5-1\r\n:100\r\n:1\r\n")
    listed = subject.table.list_idle(make_id(5, 0), ID_MAX, 9, 135, 10)
    assert listed == (
        2,
        b"*4\r\n$3\r\n5-1\r\n$1\r\na\r\n:35\r\n:1\r\n*4\r\n$3\r\n7-0\r\n$0\r\n\r\n:-1\r\n:3\r\n",
    )
    assert subject.table.list_idle(make_id(5, 0), make_id(6, 0), 9, 1, 0)[1].count(b":0\r\n") == 2
    subject.consumers[b"b"].active_ms = 90
    subject.consumers[b"b"].seen_ms = 110
    assert form.idle_states(list(subject.consumers.values()), 100) == [
        (b"a", 1, 100, -1),
        (b"b", 0, 0, 10),
        (b"c", 1, 100, -1),
    ]
    assert subject.table.summary(list(subject.consumers.values())) == (
        b"*4\r\n:3\r\n$3\r\n5-0\r\n$3\r\n7-0\r\n*2\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n*2\r\n$1\r\nc\r\n$1\r\n1\r\n"
    )
    described = subject.table.list_consumers(list(subject.consumers.values()), 1)
    assert [(*row[:4], b"".join(row[4])) for row in described] == [
        (b"a", 0, -1, 1, b"*1\r\n*3\r\n$3\r\n5-1\r\n:100\r\n:1\r\n"),
        (b"b", 110, 90, 0, b"*0\r\n"),
        (b"c", 0, -1, 1, b"*1\r\n*3\r\n$3\r\n5-0\r\n:130\r\n:2\r\n"),
    ]


@forms
def test_every_id_there_can_be_is_kept_and_found(form: ModuleType) -> None:
    subject = Subject(form)
    ids = [make_id(ms, seq) for ms in EDGES for seq in EDGES]
    subject.deliver(ids[::-1], b"a", 1, 1)
    assert subject.table.take(0, len(ids) + 1) == [entry_id for entry_id, _ in subject.table.walk()] == sorted(ids)
    assert subject.table.last_id() == ID_MAX
    for index, entry_id in enumerate(ids):
        assert entry_id in subject.table
        assert subject.table.take(entry_id, 1) == [entry_id]
        assert next(subject.table.walk(id_after(entry_id)), (None,))[0] == (ids[index + 1 :] or [None])[0]
    assert subject.table.take(id_after(ID_MAX), 1) == []
    assert subject.table.drop_all(ids) == len(ids)
    assert len(subject.table) == 0


@forms
def test_entries_may_leave_while_they_are_walked(form: ModuleType) -> None:
    subject = Subject(form)
    ids = list(range(1, 1001))
    subject.deliver(ids, b"a", 1, 1)
    subject.deliver([2000, 1500], b"a", 1, 1)
    walks = [subject.table.walk(), subject.table.walk(1, subject.consumers[b"a"])]
    seen: list[list[StreamID]] = [[], []]
    for entry_id in [*ids, 1500, 2000]:
        for walk, known in zip(walks, seen, strict=True):
            known.append(next(walk)[0])
        # The next one stays, or there would be nothing to see. Later ones are removed now and then.
        subject.table.drop_all([entry_id])
    assert seen == [[*ids, 1500, 2000]] * 2
    assert [next(walk, None) for walk in walks] == [None, None]


@forms
def test_what_an_id_is_not_is_refused(form: ModuleType) -> None:
    if form is pending_table_plain:
        pytest.skip("anything that can be compared will do there")
    subject = Subject(form)
    subject.deliver([1, 5], b"a", 1, 1)
    table, consumer = subject.table, subject.consumers[b"a"]
    for wrong, error in (
        ("1", TypeError),
        (-1, OverflowError),
        (1 << 64, OverflowError),
        (1 << 136, OverflowError),
        (1 << 145, OverflowError),
    ):
        for attempt in (
            lambda wrong=wrong: table.deliver([7, wrong], consumer, 1, 1),
            lambda wrong=wrong: table.drop_all([wrong]),
            lambda wrong=wrong: table.get(wrong),
            lambda wrong=wrong: table.release(wrong, 1),
            lambda wrong=wrong: wrong in table,
        ):
            with pytest.raises(error):
                attempt()
    with pytest.raises(TypeError):
        table.deliver((7,), consumer, 1, 1)
    assert table.take(0, 9) == [1, 5]
    table.check(subject.consumers)


def grow_and_shrink(form: ModuleType, rounds: int) -> Subject:
    """A table that has gone through everything a few times, and holds a few entries."""
    subject = Subject(form)
    source = random.Random(1)
    for turn in range(rounds):
        ids = list(range(turn * 1000 + 1, turn * 1000 + 1001))
        subject.deliver(ids, b"a", turn, 1)
        subject.deliver(source.sample(ids, 300), b"b", turn, 2)
        for entry_id in source.sample(ids, 50):
            subject.table.release(entry_id, 3)
        image = subject.table.image([each for each in subject.deliveries if each.remaining])
        walk = islice(image.walk(), 10)
        subject.table.drop_all(ids[:-1] if turn == rounds - 1 else ids)
        assert len(list(walk)) == 10
        subject.deliveries = [each for each in subject.deliveries if each.remaining]
    return subject


@forms
def test_memory_does_not_grow_with_entries_that_have_left(form: ModuleType) -> None:
    grow_and_shrink(form, 3)
    gc.collect()
    tracemalloc.start()
    try:
        sizes = []
        for rounds in (3, 30):
            before = tracemalloc.get_traced_memory()[0]
            subject = grow_and_shrink(form, rounds)
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0] - before)
            del subject
            gc.collect()
            assert tracemalloc.get_traced_memory()[0] - before < 4_000
    finally:
        tracemalloc.stop()
    assert sizes[1] < sizes[0] + 100_000  # of 27,000 entries that came and went


@needs_both
@pytest.mark.parametrize(
    "act",
    [
        lambda subject: subject.deliver(list(range(3_000, 3_100)), b"a", 1, 1),
        lambda subject: subject.deliver([5_000, 2_500, 7, 900, 901], b"c", 1, 1),
        lambda subject: subject.table.drop_all(range(1, 1_500)),
        lambda subject: subject.table.release(7, 1),
        lambda subject: subject.table.release(9_000, 1),
        lambda subject: subject.table.image(subject.deliveries),
        lambda subject: list(subject.table.walk(0, subject.consumers[b"b"])),
    ],
)
def test_where_memory_lacks_all_views_agree_still(act: Callable[[Subject], object]) -> None:
    memory = pytest.importorskip("_testcapi")
    if sys.gettrace() is not None:
        pytest.skip("coverage's tracer ends the process when memory lacks")
    failures = 0
    for number in range(25):
        subject = Subject(pending_table)
        subject.deliver(list(range(1, 1_001)), b"a", 1, 1)
        subject.deliver([2_000, 5, 500, 1_800, 3], b"b", 1, 1)
        memory.set_nomemory(number, number + 1)
        try:
            act(subject)
        except MemoryError:
            failures += 1
        finally:
            memory.remove_mem_hooks()
        subject.table.check(subject.consumers)
    assert failures


@forms
def test_nothing_is_held_that_has_left(form: ModuleType) -> None:
    subject = grow_and_shrink(form, 5)
    table, consumer = subject.table, subject.consumers[b"a"]
    before = sys.getrefcount(consumer)
    (delivery,) = table.deliver([50_001, 50_002], consumer, 1, 1)
    assert (sys.getrefcount(delivery), sys.getrefcount(consumer)) == (sys.getrefcount(object()) + 2, before + 1) or (
        form is pending_table_plain
    )
    image = table.image([delivery])
    table.drop_all([50_001, 50_002])
    assert rows(image.walk_by_time()) == [(50_001, b"a", 1, 1), (50_002, b"a", 1, 1)]
    assert (delivery.remaining, list(table.members(delivery))) == (0, [])
    del image, delivery
    gc.collect()
    assert sys.getrefcount(consumer) == before


@forms
def test_a_walk_outlives_the_table_and_the_consumer_it_is_of(form: ModuleType) -> None:
    def walks() -> Iterator[Iterator[tuple[StreamID, Any]]]:
        subject = grow_and_shrink(form, 2)
        subject.deliver([1, 7], b"c", 9, 9)
        yield subject.table.walk()
        yield subject.table.walk(0, subject.consumers[b"c"])

    every, owned = walks()
    gc.collect()
    assert [entry_id for entry_id, _ in owned] == [1, 7]
    assert [entry_id for entry_id, _ in every][:2] == [1, 7]


@needs_both
def test_an_entry_costs_less_than_40_bytes() -> None:
    subject = Subject(pending_table)
    for start in range(0, 100_000, 100):
        subject.deliver(list(range(start, start + 100)), b"a", start, 1)
    assert subject.table.memory_size < 40 * 100_000


@needs_both
def test_ids_of_every_kind_of_sequence_are_spread_over_the_index() -> None:
    """Slots of one place of the index are skipped one by one, which `check` does not allow to be many."""
    undone = pow(0xD1B54A32D192ED03, -1, 2**64)  # of a product in `home_of`
    sequences = {
        "a millisecond each": [make_id(1_700_000_000_000 + number, 0) for number in range(20_000)],
        "one millisecond": [make_id(1_700_000_000_000, number) for number in range(20_000)],
        "ten a millisecond": [make_id(1_700_000_000_000 + number // 10, number % 10) for number in range(20_000)],
        "seconds": [make_id(1_700_000_000_000 + number * 1000, 0) for number in range(20_000)],
        "powers of two": [make_id(number << 32, 0) for number in range(20_000)],
        "counted in the high half": [make_id(1, number << 48) for number in range(20_000)],
        "chosen to meet": sorted(make_id(1, number * undone % 2**64) for number in range(20_000)),
    }
    for title, ids in sequences.items():
        subject = Subject(pending_table)
        subject.deliver(ids, b"a", 1, 1)
        print(title)
        subject.table.check(subject.consumers)


@forms
def test_a_stretch_is_what_a_walk_begins_with(form: ModuleType) -> None:
    subject = Subject(form)
    subject.deliver([5, 9, 2], b"a", 1, 1)
    subject.deliver([7, 3], b"b", 2, 1)
    ids = [2, 3, 5, 7, 9]
    for start in range(11):
        behind = [entry_id for entry_id in ids if entry_id >= start]
        for count in range(1, 7):
            assert subject.table.take(start, count) == behind[:count]
            found = (behind[0], behind[:count][-1], (behind[count:] or [0])[0]) if behind else None
            assert subject.table.stretch(start, count) == found


@needs_both
@pytest.mark.parametrize("kind", ["edges", "near", "queue"])
@pytest.mark.parametrize("seed", range(6))
def test_a_table_of_columns_has_the_same_owned_entries(seed: int, kind: str) -> None:
    """Columns of either form, in pages of any size, are taken by either form, and change alike afterwards."""
    source = random.Random(seed)
    one, other = Subject(pending_table_plain), Subject(pending_table)
    for turn in range(40):
        ids = sorted({halves(source, kind) for _ in range(30)})
        for each in (one, other):
            each.deliver(ids, NAMES[turn % 3], turn, 1)
            each.table.release(ids[0], 7)
            each.table.drop_all(ids[-3:])
    owners = {name: number for number, name in enumerate(NAMES)}
    copies = []
    for each, form, count in ((one, pending_table, 7), (other, pending_table_plain, 4096)):
        copy = Subject(form)
        for columns in each.table.image([]).columns(owners, count):
            copy.deliveries += copy.table.take_columns(*columns, list(copy.consumers.values()))
        assert rows(copy.table.walk()) == [found for found in rows(each.table.walk()) if found[1] is not None]
        assert [each.remaining for each in copy.deliveries if not each.remaining] == []
        copies.append(copy)
    later, earlier = [make_id(2**63 + number, 0) for number in range(9)], rows(one.table.walk())[3][0]
    for copy in copies:
        copy.deliver([*later, earlier], b"c", 99, 1)
        copy.table.drop_all(later[:4])
        copy.table.release(later[5], 3)
    assert rows(copies[0].table.walk()) == rows(copies[1].table.walk())
    for copy in copies:
        copy.table.check(copy.consumers)


@needs_both
@pytest.mark.parametrize("seed", range(6))
def test_a_block_has_all_entries_for_either_form(seed: int) -> None:
    source = random.Random(seed)
    for count in range(0, 40, 3):
        one, other = Subject(pending_table_plain), Subject(pending_table)
        for turn in range(6):
            ids = [halves(source, "edges") for _ in range(count)]
            dropped = ids[turn::4]
            for each in (one, other):
                each.deliver(list(dict.fromkeys(ids)), NAMES[turn % 3], turn, turn + 1)
                each.table.drop_all(dropped)
        if len(one.table) > pending_table_plain.BLOCK_COUNT_MAX:
            continue
        blocks = [each.table.block(list(each.consumers.values())) for each in (one, other)]
        assert blocks[0] == blocks[1]
        for form in (pending_table_plain, pending_table):
            copy = Subject(form)
            copy.deliveries += copy.table.take_block(blocks[0], list(copy.consumers.values()))
            copy.table.check(copy.consumers)
            assert rows(copy.table.walk()) == rows(one.table.walk())


@forms
def test_no_block_is_made_of_many_entries_released_ones_or_those_of_others(form: ModuleType) -> None:
    subject = Subject(form)
    consumers = list(subject.consumers.values())
    subject.deliver([make_id(number, 0) for number in range(65)], b"b", 1, 1)
    with pytest.raises(ValueError, match="more pending entries"):
        subject.table.block(consumers)
    subject.table.drop_all([make_id(7, 0)])
    assert len(subject.table.block(consumers)) == 64 * 40
    with pytest.raises(ValueError, match="no consumer"):
        subject.table.block(consumers[:1])
    subject.table.release(make_id(8, 0), 2)
    with pytest.raises(ValueError, match="no consumer"):
        subject.table.block(consumers)


@forms
def test_a_damaged_block_is_refused(form: ModuleType) -> None:
    subject = Subject(form)
    consumers = list(subject.consumers.values())
    subject.deliver([make_id(number, 0) for number in range(3)], b"b", 1, 1)
    block = subject.table.block(consumers)
    for damaged in (block[:-1], block + b"x", block[:-8] + b"\xff" * 8, block[:-8] + bytes([9, *[0] * 7]), block * 22):
        with pytest.raises(ValueError, match=r"."):
            Subject(form).table.take_block(damaged, consumers)


@forms
@pytest.mark.parametrize(
    "wrong",
    [
        {"ms": [1, 1, 2]}, {"ms": [1, 3, 2]}, {"owners": [0, 0, 3]}, {"owners": [0, -2, 0]}, {"times": [1, 1]},
        {"seq": [0, 0, 0, 0]},
    ],
    ids=str,
)  # fmt: skip
def test_wrong_columns_are_refused(form: ModuleType, wrong: dict[str, list[int]]) -> None:
    subject = Subject(form)
    columns = {"ms": [1, 2, 3], "seq": [0] * 3, "times": [5] * 3, "counts": [1] * 3, "owners": [0] * 3}
    arrays = [array(code, (columns | wrong)[name]) for code, name in zip("QQqqq", columns, strict=True)]
    with pytest.raises(ValueError, match=r"."):
        subject.table.take_columns(*arrays, list(subject.consumers.values()))


@forms
def test_columns_below_what_is_pending_are_refused(form: ModuleType) -> None:
    subject = Subject(form)
    subject.deliver([make_id(5, 0)], b"a", 1, 1)
    columns = [array(code, [number]) for code, number in zip("QQqqq", (5, 0, 1, 1, 0), strict=True)]
    with pytest.raises(ValueError, match="do not ascend"):
        subject.table.take_columns(*columns, list(subject.consumers.values()))
