"""What has been removed goes little by little, and nothing that is still read is taken apart."""

from __future__ import annotations

from itertools import pairwise

from headrace.store.companions.array_value import ArrayValue
from headrace.store.companions.set_value import SetValue
from headrace.store.database import Database, Store
from headrace.store.garbage import ITEMS_PER_STEP, PENDING_COUNT_MIN, Garbage
from headrace.store.group import Group
from headrace.store.ids import make_id
from headrace.store.image import StoreImage
from headrace.store.limits import Limits
from headrace.store.stream import Stream

COUNT = PENDING_COUNT_MIN


def stream_with_pending(count: int = COUNT) -> Stream:
    stream = Stream(Limits())
    group = stream.groups[b"g"] = Group(b"g", 0)
    consumer = group.add_consumer(b"c", 1)
    group.pending.deliver([make_id(number, 0) for number in range(1, count + 1)], consumer, time_ms=1, count=1)
    return stream


def test_a_cleared_database_is_given_back_in_steps() -> None:
    db = Database(0)
    for number in range(10_000):
        db.put(b"%d" % number, b"v")
    assert db.clear() == 10_000
    assert not db.keys
    waiting = len(db.garbage)
    assert waiting >= 10_000
    db.garbage.free(lambda: True)
    assert len(db.garbage) == waiting
    left = [waiting]
    db.garbage.free(lambda: left.append(len(db.garbage)) is not None)
    assert (len(db.garbage), db.garbage.freed_count) == (0, waiting)
    assert all(0 <= before - after <= ITEMS_PER_STEP for before, after in pairwise(left))


def test_a_stream_in_a_cleared_database_is_taken_apart_like_one_that_was_deleted() -> None:
    db = Database(0)
    db.put(b"s", stream_with_pending())
    db.clear()
    left: list[int] = []
    db.garbage.free(lambda: left.append(len(db.garbage)) is not None)
    assert left[0] < 10 < COUNT < max(left)
    assert len(db.garbage) == 0


def test_a_deleted_stream_is_taken_apart_and_goes() -> None:
    db = Database(0)
    db.put(b"s", stream_with_pending())
    assert db.delete(b"s")
    assert not db.delete(b"s")
    assert len(db.garbage) >= COUNT
    db.garbage.free()
    assert len(db.garbage) == 0


class Incomparable(list[int]):
    def __eq__(self, other: object) -> bool:
        raise AssertionError("looked for among others")

    __hash__ = None  # type: ignore[assignment]


def test_many_lists_go_without_being_looked_for_among_each_other() -> None:
    garbage = Garbage()
    for _ in range(1_000):
        garbage.add(Incomparable([1]))
    garbage.free()
    assert len(garbage) == 0


def test_a_renamed_stream_is_left_alone() -> None:
    db = Database(0)
    stream = stream_with_pending()
    db.put(b"s", stream)
    value = db.remove(b"s")
    assert value is stream
    db.put(b"t", stream)
    db.garbage.free()
    assert len(stream.groups[b"g"].pending) == COUNT


def test_a_stream_that_a_snapshot_still_reads_is_not_taken_apart() -> None:
    store = Store(1)
    db = store.databases[0]
    stream = stream_with_pending()
    db.put(b"s", stream)
    image = StoreImage(store)
    db.clear()
    store.garbage.free()
    (key_image,) = list(image)
    assert not isinstance(key_image.value, bytes)
    assert len(key_image.value.groups[0].pending) == COUNT


def test_small_streams_go_at_once() -> None:
    garbage = Garbage()
    garbage.add_value(stream_with_pending(PENDING_COUNT_MIN - 1))
    assert len(garbage) == 0


def large_set() -> SetValue:
    value = SetValue(Limits())
    value.add_all([b"%d" % number for number in range(COUNT)])
    return value


def test_a_value_that_is_overwritten_goes_little_by_little() -> None:
    db = Database(0)
    for value in (large_set(), stream_with_pending()):
        db.put(b"v", value)
        db.put(b"v", b"another")
        assert len(db.garbage) >= COUNT
        db.garbage.free()
    db.put(b"v", large_set())
    db.replace(b"v", b"another")
    assert len(db.garbage) == COUNT
    db.check()


def test_a_value_that_is_put_again_is_left_alone() -> None:
    db = Database(0)
    value = large_set()
    db.put(b"v", value)
    db.put(b"v", value)
    db.garbage.free()
    assert len(value) == COUNT
    db.check()


def test_a_large_array_goes_slice_by_slice() -> None:
    value, garbage = ArrayValue(Limits()), Garbage()
    value.put_all(0, [b"%020d" % number for number in range(10_000)])
    garbage.add_value(value)
    lengths = [len(garbage)]
    while len(garbage):
        garbage.free(iter((False, True)).__next__)
        lengths.append(len(garbage))
    assert lengths == [10_000, 8192, 4096, 0]
