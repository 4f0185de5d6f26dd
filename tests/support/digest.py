"""Everything that a restart must restore, as one comparable value.

Left out is what `persistence.snapshot` does not carry: seen and active times of consumers, counters of duplicates.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from headrace.store.companions.array_value import ArrayValue
from headrace.store.companions.hash_value import HashValue
from headrace.store.companions.list_value import ListValue
from headrace.store.companions.set_value import SetValue
from headrace.store.companions.sorted_set_value import SortedSetValue
from headrace.store.database import Store
from headrace.store.group import Group
from headrace.store.stream import Stream
from headrace.store.value import Value

# What each key holds, by (database index, key).
Digest = dict[tuple[int, bytes], object]


def digest_of(store: Store) -> Digest:
    """The digest of the whole store. Takes no image, so that one that is being written is not disturbed."""
    return {
        (db.index, key): (value_digest(value), db.expires.get(key))
        for db in store.databases
        for key, value in db.keys.items()
    }


def value_digest(value: Value) -> object:
    """One value."""
    if isinstance(value, Stream):
        return stream_digest(value)
    if isinstance(value, HashValue):
        return "hash", frozenset((field, text, value.due_ms(field)) for field, text in value.items())
    if isinstance(value, ListValue):
        return "list", tuple(value)
    if isinstance(value, ArrayValue):
        return "array", tuple(value.items()), value.cursor
    if isinstance(value, SortedSetValue):
        return "zset", tuple(value.items())
    if isinstance(value, SetValue):
        return "set", frozenset(value.members())
    assert isinstance(value, bytes)
    return value


def stream_digest(stream: Stream) -> tuple[object, ...]:
    """One stream, groups and producers included."""
    entries = tuple(pair for pairs in stream.log.copy().all_entries() for pair in pairs)
    idempotence = stream.idempotence
    producers = {
        (producer_id, iid, entry_id)
        for producer_id, producer in idempotence.producers.items()
        for iid, entry_id in producer.pairs()
    }
    return (
        entries,
        (stream.last_id, stream.max_deleted_id, stream.entries_added),
        tuple(tuple(group_digest(group)) for group in stream.sorted_groups()),
        (idempotence.duration_s, idempotence.entries_max, frozenset(producers)),
    )


def group_digest(group: Group) -> Iterator[object]:
    """A group. What is pending is in the order in which it is given out again. An RDB file does not keep that order
    among entries of one delivery time, in Redis neither: here they are in the order of their IDs.
    """
    yield group.name, group.last_id, group.entries_read
    yield tuple(consumer.name for consumer in group.sorted_consumers())
    walk = group.pending.image().walk_by_time()
    for (is_released, time_ms), tied in groupby(walk, key=lambda each: (each[1].consumer is None, each[1].time_ms)):
        for entry_id, delivery in tied if is_released else sorted(tied, key=lambda each: each[0]):
            owner = None if delivery.consumer is None else delivery.consumer.name
            yield entry_id, owner, time_ms, delivery.count
