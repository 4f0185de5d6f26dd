"""The consumer groups of a stream: positions, pending entries lists, consumers, and released entries in their order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, islice
from typing import Final

from ...store.group import ENTRIES_READ_UNKNOWN, Group
from ...store.ids import SEQ_BITS, SEQ_MASK, StreamID, make_id
from ...store.image import GroupImage
from ...store.pending import DELIVERY_COUNT_MAX, Consumer
from ...store.stream import Stream
from ..errors import RdbError
from .ids import ID_SIZE, decode_id, encode_id
from .lengths import UNKNOWN, encode_length, encode_string, encode_time_ms, read_length, read_string, read_time_ms
from .source import Source

# Pending entries that are encoded at once.
PIECE_COUNT: Final = 256

# Delivery time in Unix ms and delivery count of each pending entry.
PendingTimes = dict[StreamID, tuple[int, int]]


def encode_split_id(entry_id: StreamID) -> bytes:
    """Encode an ID as two lengths."""
    return encode_length(entry_id >> SEQ_BITS) + encode_length(entry_id & SEQ_MASK)


def read_split_id(source: Source) -> StreamID:
    """The inverse. Raises RdbError."""
    ms = read_length(source)
    return make_id(ms, read_length(source))


# -- writing -----------------------------------------------------------------------------------------


def encode_group(group: GroupImage, *, compress: bool) -> Iterator[bytes]:
    """One group, in pieces."""
    entries_read = UNKNOWN if group.entries_read == ENTRIES_READ_UNKNOWN else group.entries_read
    yield b"".join(
        (
            encode_string(group.name, compress=compress),
            encode_split_id(group.last_id),
            encode_length(entries_read),
            encode_length(len(group.pending)),
        )
    )
    owned: dict[bytes, list[StreamID]] = {}
    pending = group.pending.walk()
    while piece := list(islice(pending, PIECE_COUNT)):
        for entry_id, delivery in piece:
            if delivery.consumer is not None:
                owned.setdefault(delivery.consumer.name, []).append(entry_id)
        yield b"".join(
            encode_id(entry_id) + encode_time_ms(delivery.time_ms) + encode_length(delivery.count)
            for entry_id, delivery in piece
        )
    yield encode_length(len(group.consumers))
    for consumer in group.consumers:
        yield encode_string(consumer.name, compress=compress)
        yield encode_time_ms(consumer.seen_ms) + encode_time_ms(consumer.active_ms)
        yield from _encode_ids(owned.get(consumer.name, []))
    yield from _encode_ids(list(group.pending.released))


def _encode_ids(ids: list[StreamID]) -> Iterator[bytes]:
    yield encode_length(len(ids))
    for start in range(0, len(ids), PIECE_COUNT):
        yield b"".join(map(encode_id, ids[start : start + PIECE_COUNT]))


# -- reading -----------------------------------------------------------------------------------------


class GroupReader:
    """Reads the groups of a stream whose entries and counters were read before. The flags say what the stream's type
    has."""

    def __init__(self, source: Source, *, has_entries_read: bool, has_active_times: bool, has_released: bool) -> None:
        self._source = source
        self._has_entries_read = has_entries_read
        self._has_active_times = has_active_times
        self._has_released = has_released

    def read_into(self, stream: Stream) -> None:
        """Read all groups into `stream`. Raises RdbError."""
        for _ in range_of(read_length(self._source)):
            group = self._read_head(stream)
            if group.name in stream.groups:
                raise RdbError(f"Duplicated consumer group name {group.name!r} in a stream")
            stream.groups[group.name] = group
            self._read_pending(group)

    def _read_head(self, stream: Stream) -> Group:
        group = Group(read_string(self._source), read_split_id(self._source))
        if self._has_entries_read:
            entries_read = read_length(self._source)
            if entries_read != UNKNOWN:
                if entries_read > stream.entries_added:
                    raise RdbError("Stream consumer group has read more entries than were added")
                group.entries_read = entries_read
        else:
            estimated = stream.entries_up_to(group.last_id)
            group.entries_read = ENTRIES_READ_UNKNOWN if estimated is None else estimated
        return group

    def _read_pending(self, group: Group) -> None:
        source = self._source
        times: PendingTimes = {}
        for _ in range_of(read_length(source)):
            entry_id = self._read_id()
            if entry_id in times:
                raise RdbError("Duplicated global PEL entry loading a stream consumer group")
            times[entry_id] = (read_time_ms(source), min(read_length(source), DELIVERY_COUNT_MAX))
        owners: dict[StreamID, Consumer] = {}
        for _ in range_of(read_length(source)):
            self._read_consumer(group, times, owners)
        released = [self._read_id() for _ in range_of(read_length(source))] if self._has_released else []
        if len(set(released)) != len(released) or any(each in owners or each not in times for each in released):
            raise RdbError("Released entry is not in the group's PEL, is duplicated, or has an owner")
        if len(owners) + len(released) != len(times):
            raise RdbError("Pending entry without an owner that has not been released")
        _deliver(group, times, owners)
        for entry_id in released:
            group.pending.release(entry_id, count=times[entry_id][1])

    def _read_consumer(self, group: Group, times: PendingTimes, owners: dict[StreamID, Consumer]) -> None:
        name = read_string(self._source)
        if name in group.consumers:
            raise RdbError(f"Duplicated stream consumer name {name!r}")
        consumer = group.add_consumer(name, read_time_ms(self._source))
        consumer.active_ms = read_time_ms(self._source) if self._has_active_times else consumer.seen_ms
        for _ in range_of(read_length(self._source)):
            entry_id = self._read_id()
            if entry_id not in times:
                raise RdbError("Consumer entry not found in group global PEL")
            if entry_id in owners:
                raise RdbError("Duplicated consumer PEL entry loading a stream consumer group")
            owners[entry_id] = consumer

    def _read_id(self) -> StreamID:
        return decode_id(self._source.take(ID_SIZE))


def range_of(count: int) -> Iterator[int]:
    """Yield the numbers below `count`, which may exceed a C integer: the data ends before."""
    number = 0
    while number < count:
        yield number
        number += 1


def _deliver(group: Group, times: PendingTimes, owners: dict[StreamID, Consumer]) -> None:
    """Add owned entries to the group, oldest first, and by ID for equal times."""

    def delivery(entry_id: StreamID) -> tuple[int, int, int]:
        time_ms, count = times[entry_id]
        return time_ms, count, id(owners[entry_id])

    by_time = sorted(sorted(owners), key=lambda entry_id: times[entry_id][0])
    for (time_ms, count, _), ids in groupby(by_time, key=delivery):
        run = list(ids)
        group.pending.deliver(run, owners[run[0]], time_ms=time_ms, count=count)
