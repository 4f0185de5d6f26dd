"""Keys, expiry, and notifications of changes."""

from __future__ import annotations

import random

import pytest

from headrace.store.database import Database, Store
from headrace.store.errors import WrongType
from headrace.store.events import DEL, EXPIRED, KEY_MISS, NEW, OVERWRITTEN, SET, TYPE_CHANGED, Event
from headrace.store.limits import Limits
from headrace.store.observed import Watcher
from headrace.store.stream import Stream
from headrace.store.text import EditedText

NOW_MS = 1_700_000_000_000


def filled(count: int) -> Database:
    """A database with that many keys."""
    db = Database(0)
    for index in range(count):
        db.put(b"key:%d" % index, b"v")
    return db


def times(db: Database) -> dict[bytes, int]:
    """The expiry times by key."""
    return {key: db.expires[key] for key in db.expires}


def walk(db: Database, count: int) -> list[bytes]:
    """All keys that one SCAN meets."""
    met, cursor = db.scan(0, count)
    while cursor:
        found, cursor = db.scan(cursor, count)
        met += found
    return met


def told(db: Database) -> list[tuple[Event, bytes]]:
    """The events of a database from now on, with their keys."""
    events: list[tuple[Event, bytes]] = []
    db.listen(on_change=None, on_event=lambda index, event, key: events.append((event, key)))
    return events


def test_typed_reads_refuse_the_other_type() -> None:
    db = Database(0)
    db.put(b"string", b"v")
    db.put(b"stream", Stream(Limits()))
    assert db.get_string(b"string", NOW_MS) == b"v"
    assert isinstance(db.get_stream(b"stream", NOW_MS), Stream)
    assert db.get_string(b"no", NOW_MS) is None
    assert db.get_stream(b"no", NOW_MS) is None
    with pytest.raises(WrongType):
        db.get_stream(b"string", NOW_MS)
    with pytest.raises(WrongType):
        db.get_string(b"stream", NOW_MS)


def test_reads_are_counted_as_hits_and_misses_where_redis_counts_them() -> None:
    db = filled(1)
    db.put(b"stream", Stream(Limits()))
    events = told(db)
    db.get(b"key:0", NOW_MS), db.get_string(b"key:0", NOW_MS), db.get_stream(b"stream", NOW_MS), db.get(b"no", NOW_MS)
    assert (db.hits, db.misses) == (0, 0)
    assert (db.read(b"key:0", NOW_MS), db.read_string(b"key:0", NOW_MS)) == (b"v", b"v")
    assert db.read_stream(b"stream", NOW_MS) is not None
    with pytest.raises(WrongType):
        db.read_stream(b"key:0", NOW_MS)
    assert (db.hits, db.misses, events) == (4, 0, [])
    assert db.read(b"no", NOW_MS) is db.read_string(b"no", NOW_MS) is db.read_stream(b"no", NOW_MS) is None
    assert (db.hits, db.misses, events) == (4, 3, [(KEY_MISS, b"no")] * 3)
    assert (db.inspect(b"key:0", NOW_MS), db.hits, db.misses) == (b"v", 5, 3)
    assert (db.inspect(b"no", NOW_MS), db.hits, db.misses, len(events)) == (None, 5, 4, 3)


def test_strings_of_several_keys_are_read_in_order_and_counted_one_by_one() -> None:
    db = filled(1)
    db.put(b"edited", EditedText(b"w"))
    db.put(b"stream", Stream(Limits()))
    events = told(db)
    found = db.read_strings([b"stream", b"key:0", b"no", b"edited", b"key:0"], NOW_MS)
    assert found == [None, b"v", None, b"w", b"v"]
    assert {type(each) for each in found} == {bytes, type(None)}
    assert (db.hits, db.misses, events) == (4, 1, [(KEY_MISS, b"no")])


def test_a_stream_remembers_when_it_was_last_looked_at() -> None:
    db, stream = Database(0), Stream(Limits())
    assert stream.used_ms == 0
    db.put(b"stream", stream)
    db.put(b"string", b"v")
    for step, look in enumerate((db.get_stream, db.read_stream, db.use), 1):
        look(b"stream", NOW_MS + step)
        assert stream.used_ms == NOW_MS + step
    db.use(b"string", NOW_MS)
    db.read(b"stream", NOW_MS)
    assert stream.used_ms == NOW_MS + 3


def test_strings_that_remember_how_they_were_made_are_read_as_plain_ones() -> None:
    db = Database(0)
    db.put(b"key", EditedText(b"v"))
    assert type(db.get_string(b"key", NOW_MS)) is type(db.read_string(b"key", NOW_MS)) is bytes


# -- expiry ----------------------------------------------------------------------------------------


def test_key_ends_after_its_last_millisecond_and_is_reported_once() -> None:
    db = filled(1)
    db.expires[b"key:0"] = NOW_MS
    assert db.get(b"key:0", NOW_MS) == b"v"
    assert db.expired_keys == []
    assert db.get(b"key:0", NOW_MS + 1) is None
    assert db.get(b"key:0", NOW_MS + 1) is None
    assert db.expired_keys == [(0, b"key:0")]
    assert not db.expires
    db.check()


def test_nothing_expires_while_the_store_is_frozen() -> None:
    store = Store(2)
    for db in store.databases:
        db.put(b"k", b"v")
        db.expires[b"k"] = NOW_MS
    store.freeze()
    assert all(db.get(b"k", NOW_MS + 1) == b"v" for db in store.databases)
    store.thaw()
    assert all(db.get(b"k", NOW_MS + 1) is None for db in store.databases)


def test_expired_keys_that_are_kept_are_not_shown_and_go_afterwards() -> None:
    store = Store(2)
    for db in store.databases:
        db.put(b"k", b"v")
        db.expires[b"k"] = NOW_MS
    store.keep_expired(True)
    assert all(db.get(b"k", NOW_MS + 1) is None and b"k" in db.keys for db in store.databases)
    assert not store.expired_keys
    store.keep_expired(False)
    assert all(db.get(b"k", NOW_MS + 1) is None and b"k" not in db.keys for db in store.databases)
    assert store.expired_keys == [(0, b"k"), (1, b"k")]


def test_nothing_expires_while_frozen() -> None:
    db = filled(1)
    db.expires[b"key:0"] = NOW_MS
    db.frozen = True
    assert db.get(b"key:0", NOW_MS + 1) == b"v"
    db.frozen = False
    assert db.expire_if_due(b"key:0", NOW_MS + 1)
    assert not db.expire_if_due(b"key:0", NOW_MS + 1)


def test_new_value_drops_the_expiry_unless_it_is_kept() -> None:
    db = filled(1)
    db.expires[b"key:0"] = NOW_MS
    db.put(b"key:0", b"w", keep_expiry=True)
    assert times(db) == {b"key:0": NOW_MS}
    db.overwrite(b"key:0", b"w", SET, NOW_MS, keep_expiry=True)
    assert times(db) == {b"key:0": NOW_MS}
    db.overwrite(b"key:0", b"w", SET, NOW_MS)
    assert times(db) == {}
    db.expires[b"key:0"] = NOW_MS
    db.put(b"key:0", b"w")
    assert times(db) == {}


def test_index_follows_every_change() -> None:
    source = random.Random(11)
    dbs = [Database(0), Database(1)]
    for _ in range(3000):
        db, key = source.choice(dbs), b"%d" % source.randrange(60)
        step = source.randrange(100)
        if step < 55:
            db.put(key, b"v", keep_expiry=step < 20)
            if step > 40:
                db.expires[key] = NOW_MS + source.randrange(-5, 5)
        elif step < 97:
            db.remove(key)
        elif step < 99:
            db.get(key, NOW_MS)
            dbs[0].swap_with(dbs[1], NOW_MS)
        else:
            db.clear()
        db.check()
    assert sorted(walk(dbs[0], 7)) == sorted(dbs[0].keys)


# -- telling others --------------------------------------------------------------------------------


def test_watcher_is_notified_of_put_remove_and_expiry_of_its_key_only() -> None:
    db = filled(2)
    for change in (
        lambda: db.put(b"key:0", b"w"),
        lambda: db.remove(b"key:0"),
        lambda: (db.put(b"key:0", b"w"), db.keys.expire_at(b"key:0", NOW_MS), db.get(b"key:0", NOW_MS)),
    ):
        watchers = {key: Watcher() for key in (b"key:0", b"key:1")}
        for key, watcher in watchers.items():
            db.watch(key, watcher)
        change()
        assert [watcher.dirty for watcher in watchers.values()] == [True, False]


def test_new_is_announced_before_the_creating_event_and_a_removal_by_its_event() -> None:
    db = Database(0)
    events = told(db)
    db.put(b"a", b"1", SET)
    db.put(b"a", b"2", SET)
    db.put(b"b", b"1")
    db.remove(b"a", DEL)
    db.delete(b"b", DEL)
    db.delete(b"b", DEL)
    assert events == [(NEW, b"a"), (SET, b"a"), (SET, b"a"), (NEW, b"b"), (DEL, b"a"), (DEL, b"b")]


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        (None, b"2", [NEW, SET]),
        (b"1", b"2", [OVERWRITTEN, SET]),
        (b"1", Stream(Limits()), [OVERWRITTEN, TYPE_CHANGED, SET]),
        (Stream(Limits()), b"2", [OVERWRITTEN, TYPE_CHANGED, SET]),
        (Stream(Limits()), Stream(Limits()), [OVERWRITTEN, SET]),
    ],
)
def test_an_overwritten_value_is_announced_before_the_event(
    old: Stream | bytes | None, new: Stream | bytes, names: list[Event]
) -> None:
    db = Database(0)
    if old is not None:
        db.put(b"key", old)
    events = told(db)
    db.overwrite(b"key", new, SET, NOW_MS)
    assert events == [(name, b"key") for name in names]


def test_overwriting_what_has_expired_is_making_a_new_key() -> None:
    db = filled(1)
    db.expires[b"key:0"] = NOW_MS - 1
    events = told(db)
    db.overwrite(b"key:0", b"w", SET, NOW_MS, keep_expiry=True)
    assert events == [(EXPIRED, b"key:0"), (NEW, b"key:0"), (SET, b"key:0")]
    assert times(db) == {}


def test_replace_touches_the_key_and_its_caller_announces_new() -> None:
    db, watcher = Database(0), Watcher()
    events = told(db)
    assert db.replace(b"key", b"1") is None
    db.watch(b"key", watcher)
    db.expires[b"key"] = 5
    assert db.replace(b"key", b"2") == b"1"
    assert (dict(db.keys.items()), times(db), watcher.dirty, events) == ({b"key": b"2"}, {}, True, [])
    db.check()


def test_add_announces_new_and_its_caller_touches_the_key() -> None:
    db, watcher = Database(0), Watcher()
    events = told(db)
    db.watch(b"key", watcher)
    db.add(b"key", b"1")
    assert (watcher.dirty, events, list(db.ready)) == (False, [(NEW, b"key")], [b"key"])
    assert dict(db.keys.items()) == {b"key": b"1"}
    db.check()


def test_removing_a_missing_key_notifies_no_watcher() -> None:
    db = Database(0)
    watcher = Watcher()
    db.watch(b"no", watcher)
    assert db.remove(b"no") is None
    assert not watcher.dirty
    assert not db.ready


def test_clear_reports_only_keys_that_existed() -> None:
    db = filled(1)
    present, missing = Watcher(), Watcher()
    db.watch(b"key:0", present)
    db.watch(b"no", missing)
    db.put(b"stream", Stream(Limits()))
    db.ready.clear()
    assert db.clear() == 2
    assert (present.dirty, missing.dirty) == (True, False)
    assert list(db.ready) == [b"stream"]
    assert not db.keys


def test_many_new_keys_are_ready_without_their_names() -> None:
    db = Database(0)
    assert db.add_many([(b"stream", Stream(Limits()), None), (b"text", b"v", NOW_MS)]) is None
    assert db.is_all_ready
    assert not db.ready
    assert (set(db.keys), times(db), set(db.streams)) == ({b"stream", b"text"}, {b"text": NOW_MS}, {b"stream"})
    assert db.add_many([(b"other", b"v", None), (b"text", b"w", None), (b"last", b"v", None)]) == b"text"
    assert set(db.keys) == {b"stream", b"text", b"other"}
    db.check()


def test_swap_exchanges_keys_and_notifies_both_sides() -> None:
    first, second = Store(2).databases
    first.put(b"a", b"1")
    first.expires[b"a"] = NOW_MS
    second.put(b"b", b"2")
    for number, db in enumerate((first, second)):
        db.put(b"stream:%d" % number, Stream(Limits()))
    streams = first.streams, second.streams
    watchers = {(db.index, key): Watcher() for db in (first, second) for key in (b"a", b"b", b"no")}
    for (index, key), watcher in watchers.items():
        (first, second)[index].watch(key, watcher)
    first.ready.clear()
    second.ready.clear()
    first.swap_with(second, NOW_MS)
    assert (first.streams, second.streams) == streams[::-1]
    assert dict(first.keys.items()) == {b"b": b"2", **streams[1]}
    assert dict(second.keys.items()) == {b"a": b"1", **streams[0]}
    assert (times(first), times(second)) == ({}, {b"a": NOW_MS})
    assert [key for key, watcher in watchers.items() if not watcher.dirty] == [(0, b"no"), (1, b"no")]
    assert first.is_all_ready
    assert second.is_all_ready
    assert set(walk(first, 10)) == {b"b", b"stream:1"}
    first.check()
    second.check()


def test_swap_with_itself_changes_nothing() -> None:
    db = filled(1)
    watcher = Watcher()
    db.watch(b"key:0", watcher)
    db.ready.clear()
    db.swap_with(db, NOW_MS)
    assert not watcher.dirty
    assert not db.ready
