"""The dataset as it was at one moment, while it continues to change."""

from __future__ import annotations

import pytest
from hiredis import pack_command

from headrace.store.database import Store
from headrace.store.group import Group
from headrace.store.ids import format_id, make_id
from headrace.store.image import KeyImage, StoreImage, StreamImage, keys_now
from headrace.store.limits import Limits
from headrace.store.stream import Stream

NOW_MS = 1_700_000_000_000


def add(stream: Stream, ms: int) -> None:
    entry_id = make_id(ms, 0)
    stream.append(entry_id, b"*2\r\n" + pack_command((format_id(entry_id),))[4:] + pack_command((b"f", b"v")))


@pytest.fixture
def store() -> Store:
    """A string in the first database; two streams in the third, of three entries and a pending one each."""
    store = Store(3)
    store.databases[0].put(b"string", b"old")
    store.databases[0].expires[b"string"] = NOW_MS
    for key in (b"s", b"t"):
        stream = Stream(Limits())
        for ms in (1, 2, 3):
            add(stream, ms)
        stream.delete(make_id(2, 0))
        group = stream.groups[b"g"] = Group(b"g", make_id(1, 0), 1)
        consumer = group.add_consumer(b"c", NOW_MS)
        consumer.active_ms = NOW_MS + 1
        group.pending.deliver([make_id(1, 0)], consumer, time_ms=NOW_MS, count=3)
        stream.idempotence.record(b"p", b"i", make_id(1, 0))
        store.databases[2].put(key, stream)
    return store


def assert_old(keys: list[KeyImage]) -> None:
    """Every key of the store, once, as it was at first."""
    by_key = {(each.db_index, each.key): each for each in keys}
    assert len(by_key) == len(keys) == 3
    string = by_key[0, b"string"]
    assert (string.value, string.expires_ms) == (b"old", NOW_MS)
    for key in (b"s", b"t"):
        image, expires_ms = by_key[2, key].value, by_key[2, key].expires_ms
        assert isinstance(image, StreamImage)
        assert expires_ms is None
        assert (len(image), image.last_id, image.max_deleted_id) == (2, make_id(3, 0), make_id(2, 0))
        assert (image.entries_added, image.limits.node_size_max) == (3, 4096)
        assert image.idempotence.find(b"p", b"i") == make_id(1, 0)
        (group,) = image.groups
        assert (group.name, group.last_id, group.entries_read) == (b"g", make_id(1, 0), 1)
        ((entry_id, delivery),) = group.pending.walk()
        assert (entry_id, delivery.time_ms, delivery.count) == (make_id(1, 0), NOW_MS, 3)
        (consumer,) = group.consumers
        assert (consumer.name, consumer.seen_ms, consumer.active_ms) == (b"c", NOW_MS, NOW_MS + 1)
        assert consumer.pending_count == 1


def change(stream: Stream) -> None:
    add(stream, 4)
    stream.delete(make_id(1, 0))
    stream.groups[b"g"].pending.drop(make_id(1, 0))
    stream.idempotence.forget(b"p", b"i")
    stream.groups[b"h"] = Group(b"h", 0)


def test_an_image_is_of_its_moment_whatever_changes_before_and_after_it_is_read(store: Store) -> None:
    first, third = store.databases[0], store.databases[2]
    image = StoreImage(store)
    first.put(b"string", b"new")
    first.put(b"another", b"v")
    streams = list(third.streams.values())
    third.remove(b"t")
    for stream in streams:
        image.preserve(stream)
        change(stream)
        image.preserve(stream)
    keys = list(image)
    for stream in streams:
        add(stream, 5)
    assert_old(keys)


def test_a_stream_that_has_been_read_need_not_be_preserved(store: Store) -> None:
    image = StoreImage(store)
    keys = []
    for key in image:
        keys.append(key)
        if isinstance(key.value, StreamImage):
            stream = store.databases[2].streams[key.key]
            image.preserve(stream)
            change(stream)
    assert_old(keys)


def test_a_later_image_preserves_what_an_earlier_one_did(store: Store) -> None:
    list(StoreImage(store))
    image = StoreImage(store)
    for stream in store.databases[2].streams.values():
        image.preserve(stream)
        change(stream)
    assert_old(list(image))


def test_a_stream_that_is_younger_than_the_image_is_not_copied_for_it(store: Store) -> None:
    image = StoreImage(store)
    stream = Stream(Limits())
    before = stream.image_number
    image.preserve(stream)
    assert stream.image_number == before == Stream.newest_image_number


def test_a_closed_image_has_no_keys_and_preserves_nothing(store: Store) -> None:
    image = StoreImage(store)
    stream = store.databases[2].streams[b"s"]
    before = stream.image_number
    image.close()
    image.preserve(stream)
    assert (list(image), image.is_closed, stream.image_number) == ([], True, before)


def test_progress_is_reported_in_keys(store: Store) -> None:
    image = StoreImage(store)
    assert [(image.keys_read, image.keys_count) for _ in image] == [(1, 3), (2, 3), (3, 3)]
    assert image.is_closed
    image = StoreImage(store)
    assert (image.keys_read, image.keys_count, image.is_closed) == (0, 3, False)


def test_the_keys_of_now_leave_an_image_as_it_is(store: Store) -> None:
    image = StoreImage(store)
    assert_old(list(keys_now(store)))
    for stream in store.databases[2].streams.values():
        image.preserve(stream)
        change(stream)
    assert_old(list(image))
