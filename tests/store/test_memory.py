"""The sizes of keys against what the process really gets back when they go, measured by tracemalloc.

Unpacked copies of chunks belong to no key, so they are let go of before the first measurement.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from random import Random

import pytest

from headrace.protocol.packing import pack_command
from headrace.store.chunk import UNPACKED_SIZE_MAX, drop_unpacked, pack_sealed, unpacked_size
from headrace.store.database import Database, KeyTable
from headrace.store.group import Group
from headrace.store.idempotence import Idempotence
from headrace.store.ids import StreamID, format_id, make_id
from headrace.store.limits import Limits
from headrace.store.memory import GROUP_COUNT_AT_ONCE_MAX, group_size
from headrace.store.object_sizes import BLOCK_SIZE
from headrace.store.stream import Stream

FIRST_MS = 1_700_000_000_000
SEED = 20


def id_of(number: int) -> StreamID:
    return make_id(FIRST_MS + number, 0)


# As in a server, all streams have the same.
LIMITS = Limits()


def make_stream(count: int, value_size: int) -> Stream:
    """`count` entries of two fields with random values."""
    random = Random(SEED)
    stream = Stream(LIMITS)
    for number in range(count):
        pairs = (b"first-field", random.randbytes(value_size), b"second-field", random.randbytes(value_size))
        entry_id = id_of(number)
        stream.append(entry_id, b"*2\r\n" + pack_command((format_id(entry_id),))[4:] + pack_command(pairs))
    return stream


def pend(stream: Stream, count: int, run_length: int) -> Group:
    """A group of ten consumers that got the first `count` entries, `run_length` at a time."""
    group = stream.groups[b"group"] = Group(b"group", 0)
    consumers = [group.add_consumer(b"consumer-%d" % number, FIRST_MS) for number in range(10)]
    for start in range(0, count, run_length):
        ids = [id_of(number) for number in range(start, start + run_length)]
        group.pending.deliver(ids, consumers[start // run_length % 10], time_ms=FIRST_MS + start, count=1)
    return group


def fill_short(db: Database) -> None:
    db.put(b"key", make_stream(100_000, 8))


def fill_long(db: Database) -> None:
    db.put(b"key", make_stream(100_000, 300))


def fill_many_streams(db: Database) -> None:
    for number in range(2_000):
        db.put(b"stream:%d" % number, make_stream(20, 8))


def fill_runs(db: Database) -> None:
    stream = make_stream(10, 8)
    pend(stream, 100_000, 100)
    db.put(b"key", stream)


def fill_single_deliveries(db: Database) -> None:
    stream = make_stream(10, 8)
    pend(stream, 100_000, 1)
    db.put(b"key", stream)


def fill_strings(db: Database) -> None:
    random = Random(SEED)
    for number in range(100_000):
        db.put(b"key:%07d" % number, random.randbytes(10))


def fill_expiring_strings(db: Database) -> None:
    for number in range(50_000):
        key = b"key:%07d" % number
        db.put(key, b"value:%d" % number)
        db.expires[key] = FIRST_MS + number


def fill_settled_nodes(db: Database) -> None:
    stream = make_stream(50_000, 8)
    stream.settle_nodes()
    db.put(b"key", stream)


def fill_counted_trees(db: Database) -> None:
    """Streams of which XINFO STREAM was called."""
    fill_settled_nodes(db)
    for stream in db.streams.values():
        assert stream.nodes.radix_nodes_count > 1


def fill_huge_entries(db: Database) -> None:
    db.put(b"key", make_stream(300, 50_000))


def fill_unpacked(db: Database) -> None:
    pack_sealed(False)
    db.put(b"key", make_stream(50_000, 8))
    pack_sealed(True)


def fill_every_second_deleted(db: Database) -> None:
    stream = make_stream(50_000, 8)
    for number in range(0, 50_000, 2):
        stream.delete(id_of(number))
    db.put(b"key", stream)


def fill_groups(db: Database) -> None:
    stream = make_stream(10, 8)
    for number in range(20_000):
        name = b"group-%d" % number
        stream.groups[name] = Group(name, id_of(number))
    db.put(b"key", stream)


def fill_consumers(db: Database) -> None:
    stream = make_stream(10, 8)
    group = stream.groups[b"group"] = Group(b"group", 0)
    for number in range(50_000):
        consumer = group.add_consumer(b"consumer-%d" % number, FIRST_MS + number)
        group.pending.deliver([id_of(number)], consumer, time_ms=FIRST_MS + number, count=1)
    db.put(b"key", stream)


def shuffled(count: int) -> list[int]:
    return Random(SEED).sample(range(count), count)


def fill_claimed_at_random(db: Database) -> None:
    stream = make_stream(10, 8)
    group = pend(stream, 50_000, 100)
    claimer = group.add_consumer(b"claimer", FIRST_MS)
    for turn, number in enumerate(shuffled(50_000)):
        run: list[StreamID] = []
        run.append(id_of(number))  # as XCLAIM gathers them
        group.pending.deliver(run, claimer, time_ms=FIRST_MS + 50_000 + turn, count=2)
    db.put(b"key", stream)


def fill_released_at_random(db: Database) -> None:
    stream = make_stream(10, 8)
    group = pend(stream, 50_000, 100)
    for number in shuffled(50_000):
        group.pending.release(id_of(number), count=1)
    db.put(b"key", stream)


def fill_released_with_counts_of_their_own(db: Database) -> None:
    stream = make_stream(10, 8)
    group = pend(stream, 50_000, 100)
    for number in shuffled(50_000):
        group.pending.release(id_of(number), count=1_000 + number)
    db.put(b"key", stream)


def fill_made_as_released(db: Database) -> None:
    """As FORCE does, and as loading does."""
    stream = make_stream(10, 8)
    group = stream.groups[b"group"] = Group(b"group", 0)
    for number in range(50_000):
        group.release(id_of(number), count=number % 3)
    db.put(b"key", stream)


def fill_mostly_acknowledged(db: Database) -> None:
    stream = make_stream(10, 8)
    group = pend(stream, 50_000, 100)
    for number in shuffled(50_000)[5_000:]:
        group.pending.drop(id_of(number))
    db.put(b"key", stream)


def fill_long_strings(db: Database) -> None:
    for number in range(100):
        db.put(b"key:%d" % number, Random(number).randbytes(100_000))


def fill_producers(db: Database) -> None:
    """Idempotent producers with ever more pairs."""
    random = Random(SEED)
    for number in range(10):
        stream = make_stream(10, 8)
        stream.idempotence = Idempotence(100, 1000)
        for producer_number in range(40):
            for pair_number in range(10 * producer_number):
                iid = random.randbytes(16)
                stream.idempotence.record(b"producer-%d" % producer_number, iid, id_of(pair_number))
        db.put(b"key-%d" % number, stream)


def fill_expiring_streams(db: Database) -> None:
    for number in range(2_000):
        key = b"stream:%d" % number
        db.put(key, make_stream(1, 8))
        db.expires[key] = FIRST_MS + number


def allocated_size() -> int:
    """Bytes of all blocks in use, each rounded up as the allocator does."""
    return sum(trace.size + BLOCK_SIZE - 1 & -BLOCK_SIZE for trace in tracemalloc.take_snapshot().traces)


@pytest.mark.parametrize(
    "fill",
    [
        fill_short, fill_long, fill_huge_entries, fill_unpacked, fill_every_second_deleted, fill_many_streams,
        fill_settled_nodes, fill_counted_trees,
        fill_groups, fill_consumers, fill_runs, fill_single_deliveries, fill_claimed_at_random, fill_released_at_random,
        fill_released_with_counts_of_their_own, fill_made_as_released,
        fill_mostly_acknowledged, fill_strings, fill_expiring_strings, fill_long_strings, fill_producers,
        fill_expiring_streams,
    ],
)  # fmt: skip
def test_memory_size_is_within_a_tenth_of_what_is_freed(fill: Callable[[Database], None]) -> None:
    empty_size = Database(0).memory_size
    db = Database(0)
    gc.collect()
    tracemalloc.start()
    try:
        fill(db)
        db.ready.clear()
        drop_unpacked()
        for stream in db.streams.values():
            db.recount(stream)
            del stream
        counted = db.memory_size - empty_size
        tables = db.memory_size - empty_size - db.size
        by_key = sum(map(db.key_size, db.keys)) + tables
        gc.collect()
        before = allocated_size()
        db.clear()
        db.garbage.free()
        db.ready.clear()
        gc.collect()
        freed = before - allocated_size()
    finally:
        tracemalloc.stop()
    assert freed * 0.9 <= counted <= freed * 1.1
    assert freed * 0.9 <= by_key <= freed * 1.1


@pytest.mark.parametrize("expire", [False, True])
@pytest.mark.parametrize("kind", [bytes, Stream])
@pytest.mark.parametrize("count", [100, 1000])
def test_the_sizes_of_keys_add_up_to_that_of_the_database(count: int, kind: type, expire: bool) -> None:
    db = Database(0)
    for number in range(count):
        key = b"key:%d" % number
        db.put(key, b"value" if kind is bytes else make_stream(1, 8))
        if expire:
            db.expires[key] = FIRST_MS
    assert db.memory_size == sum(map(db.key_size, db.keys)) + db.table_size + db.keys.expiry_size


def test_size_of_a_key_does_not_depend_on_other_keys() -> None:
    db = Database(0)
    db.put(b"mykey", b"hello")
    db.put(b"stream", make_stream(1, 8))
    alone = db.key_size(b"mykey"), db.key_size(b"stream")
    for number in range(1_000):
        db.put(b"key:%d" % number, b"value")
    assert (db.key_size(b"mykey"), db.key_size(b"stream")) == alone
    # Twelve bytes of header, and twice five; or two byte strings of 38 bytes with their headers. In blocks of 16.
    assert alone[0] == (96 if KeyTable.__module__.endswith("_plain") else 32)


def test_size_follows_every_way_a_key_comes_and_goes() -> None:
    db, other = Database(0), Database(1)
    empty_size = db.size
    db.put(b"a", b"text")
    db.put(b"b", make_stream(50, 8))
    db.put(b"a", make_stream(5, 8))
    db.put(b"b", b"no longer a stream")
    db.check()
    moved = db.remove(b"a")
    assert moved is not None
    other.put(b"c", moved)
    db.check()
    other.check()
    db.swap_with(other, 0)
    db.check()
    other.check()
    db.clear()
    other.remove(b"b")
    assert db.size == other.size == empty_size == 0


def test_recount_notices_entries_and_pending_ones() -> None:
    db = Database(0)
    stream = make_stream(10, 8)
    db.put(b"key", stream)
    sizes = [db.size]
    for number in range(10, 5_000):
        stream.append(id_of(number), b"*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n")
    db.recount(stream)
    sizes.append(db.size)
    pend(stream, 1_000, 10)
    db.recount(stream)
    sizes.append(db.size)
    assert sizes == sorted(set(sizes))
    for number in range(1_000):
        stream.groups[b"group"].pending.drop(id_of(number))
    stream.log.trim_head(4_990)
    db.recount(stream)
    assert db.size < sizes[2]
    db.check()


def test_deleted_entries_of_a_sealed_chunk_are_counted_until_it_goes() -> None:
    stream = make_stream(5_000, 8)
    before = stream.log.memory_size
    for number in range(0, 2_000, 2):
        stream.log.delete(id_of(number))
    half_deleted = stream.log.memory_size
    assert half_deleted > before
    for number in range(1, 2_000, 2):
        stream.log.delete(id_of(number))
    assert stream.log.memory_size < half_deleted
    stream.log.check()


def test_unpacked_copies_are_bounded_in_bytes_however_huge_the_entries() -> None:
    drop_unpacked()
    stream = make_stream(60, 500_000)
    assert stream.log.length == 60
    assert 0 < unpacked_size() <= UNPACKED_SIZE_MAX
    for number in range(60):
        assert stream.log.get(id_of(number))
        assert 0 < unpacked_size() <= UNPACKED_SIZE_MAX
    drop_unpacked()
    assert unpacked_size() == 0
    assert id_of(7) in stream.log
    assert unpacked_size() == 0  # an ID is found without unpacking entries


def test_a_chunk_above_the_cache_limit_stays_cached_until_another_is_read() -> None:
    stream = make_stream(2, UNPACKED_SIZE_MAX)
    drop_unpacked()
    for number in (0, 1):
        assert stream.log.get(id_of(number))
        assert 2 * UNPACKED_SIZE_MAX < unpacked_size() < 3 * UNPACKED_SIZE_MAX
    drop_unpacked()


# -- very many groups ------------------------------------------------------------------------------


def all_groups_size(stream: Stream) -> int:
    """Every group measured."""
    return sum(map(group_size, stream.groups.values()))


def stream_of_groups(count: int) -> Stream:
    stream = make_stream(10, 8)
    for number in range(count):
        name = b"group-%d" % number
        stream.groups[name] = Group(name, 0)
    return stream


def test_groups_that_are_not_too_many_are_measured_each_time() -> None:
    stream = stream_of_groups(GROUP_COUNT_AT_ONCE_MAX)
    assert stream.measure_groups() == all_groups_size(stream)
    stream.groups[b"group-7"].add_consumer(b"consumer", FIRST_MS)
    assert stream.measure_groups() == all_groups_size(stream)
    assert stream.group_sizes is None


def test_only_some_of_very_many_groups_are_measured_at_once() -> None:
    """Method: all groups grow by the same size, and none is looked up. The total has the growth of those measured."""
    rounds = 10
    stream = stream_of_groups(rounds * GROUP_COUNT_AT_ONCE_MAX)
    before = stream.measure_groups()
    assert before == pytest.approx(all_groups_size(stream), rel=0.2)
    small = all_groups_size(stream)
    for group in stream.groups.values():
        group.add_consumer(b"consumer", FIRST_MS)
    growth_of_all = all_groups_size(stream) - small
    assert growth_of_all > 0
    for count in range(1, rounds + 1):
        assert stream.measure_groups() - before == growth_of_all * count // rounds


def test_the_group_that_a_command_looked_up_is_measured_next() -> None:
    stream = stream_of_groups(10 * GROUP_COUNT_AT_ONCE_MAX)
    before = stream.measure_groups()
    group = stream.find_group(b"group-77")
    assert group is not None
    consumer = group.add_consumer(b"consumer", FIRST_MS)
    group.pending.deliver([id_of(number) for number in range(100_000)], consumer, time_ms=FIRST_MS, count=1)
    assert stream.measure_groups() - before == pytest.approx(group_size(group), rel=0.01)


def test_a_removed_group_takes_no_memory() -> None:
    stream = stream_of_groups(10 * GROUP_COUNT_AT_ONCE_MAX)
    pend(stream, 100_000, 100)
    stream.find_group(b"group")
    stream.measure_groups()
    stream.find_group(b"group")
    assert stream.drop_group(b"group")
    assert not stream.drop_group(b"group")
    for _ in range(11):
        size = stream.measure_groups()
        assert size - all_groups_size(stream) < 100 * len(stream.groups)


def test_a_new_group_counts_at_once_and_is_measured_next() -> None:
    stream = stream_of_groups(10 * GROUP_COUNT_AT_ONCE_MAX)
    before = stream.measure_groups()
    group = Group(b"new", 0)
    stream.add_group(group)
    for number in range(1000):
        group.add_consumer(b"consumer-%d" % number, FIRST_MS)
    assert stream.measure_groups() - before == pytest.approx(group_size(group), rel=0.1)


def test_the_sizes_of_many_groups_go_with_most_of_them() -> None:
    stream = stream_of_groups(GROUP_COUNT_AT_ONCE_MAX + 1)
    stream.measure_groups()
    assert stream.group_sizes is not None
    stream.drop_group(b"group-1")
    assert stream.measure_groups() == all_groups_size(stream)
    assert stream.group_sizes is None
