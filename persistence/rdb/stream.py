"""A stream as an RDB value: nodes, counters, groups, idempotent producers.

Since 5.0 Redis has written five types, each an extension of the one before. Like Redis 8.10.2, Headrace reads all and
writes the last. Fields that an older type lacks get Redis' defaults.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from ...store.idempotence import Idempotence, Producer
from ...store.ids import SEQ_BITS, U64_MAX
from ...store.image import StreamImage
from ...store.limits import Limits
from ...store.stream import ENTRIES_ADDED_MAX, Stream
from ..errors import RdbError
from .groups import GroupReader, encode_groups, encode_split_id, encode_tables, range_of, read_split_id
from .lengths import encode_length, encode_string, read_length, read_string
from .nodes import NodeReader, encode_nodes
from .source import Source

STREAM_TYPES: Final = (15, 19, 21, 26, 27)
# New in each type: counters of entries added, read and deleted (7.0), active times of consumers (7.2), idempotent
# producers (8.6), released entries (8.8).
PLAIN, WITH_COUNTERS, WITH_ACTIVE_TIMES, WITH_PRODUCERS, WITH_RELEASED = STREAM_TYPES

# The largest values of the two settings of idempotence.
DURATION_S_MAX: Final = 86400
ENTRIES_MAX: Final = 10000


def encode_stream(stream: StreamImage, *, now_ms: int, compress: bool) -> Iterator[bytes]:
    """The value of type WITH_RELEASED, in pieces; some are empty, to let the event loop run other work."""
    nodes, log = stream.nodes, stream.log
    yield from settled(stream)
    yield encode_length(sum(node.live > 0 for node in nodes.nodes))
    yield from encode_nodes(nodes.nodes, log, compress=compress)
    counters = (stream.last_id, stream.log.first_id, stream.max_deleted_id)
    yield encode_length(len(stream)) + b"".join(map(encode_split_id, counters)) + encode_length(stream.entries_added)
    yield encode_length(len(stream.groups))
    yield from encode_groups(stream.groups, encode_tables, compress=compress)
    yield from encode_idempotence(stream.idempotence, now_ms=now_ms, compress=compress)


def settled(stream: StreamImage) -> Iterator[bytes]:
    """Count the entries that the nodes lack. Yields empty pieces, to let the event loop run other work."""
    nodes, log = stream.nodes, stream.log
    while nodes.settled_id < log.last_id:
        nodes.settle(log, stream.limits, _after_each_run)
        # Not after the last run, which may be the only one: a pause for each short stream would take most of the time.
        if nodes.settled_id < log.last_id:
            yield b""


def _after_each_run() -> bool:
    return True


def encode_idempotence(idempotence: Idempotence, *, now_ms: int, compress: bool) -> Iterator[bytes]:
    """Settings, producers with the pairs that have not expired, and counters."""
    yield encode_length(idempotence.duration_s) + encode_length(idempotence.entries_max)
    yield encode_length(len(idempotence.producers))
    oldest_ms = _oldest_ms(idempotence, now_ms)
    for producer_id in sorted(idempotence.producers):
        pairs = [pair for pair in idempotence.producers[producer_id].pairs() if pair[1] >> SEQ_BITS > oldest_ms]
        yield encode_string(producer_id, compress=compress) + encode_length(len(pairs))
        yield b"".join(encode_string(iid, compress=compress) + encode_split_id(entry_id) for iid, entry_id in pairs)
    yield encode_length(idempotence.added & U64_MAX) + encode_length(idempotence.duplicates & U64_MAX)


def _oldest_ms(idempotence: Idempotence, now_ms: int) -> int:
    """Return the Unix ms up to which pairs have expired, by the time of their entries."""
    return now_ms - idempotence.duration_s * 1000


def read_stream(source: Source, kind: int, limits: Limits, *, now_ms: int) -> Stream:
    """A stream of one of STREAM_TYPES, which will follow `limits`. Raises RdbError."""
    stream = Stream(limits)
    nodes = NodeReader(stream.log, stream.nodes)
    nodes.read(source, read_length(source))
    nodes.finish()
    if read_length(source) != len(stream):
        raise RdbError("Stream length is not that of its nodes")
    stream.last_id = read_split_id(source)
    if stream.last_id < stream.log.last_id:
        raise RdbError("Stream last ID is before its last entry")
    if kind >= WITH_COUNTERS:
        _read_counters(source, stream)
    else:
        stream.entries_added = len(stream)
    groups = GroupReader(
        source,
        has_entries_read=kind >= WITH_COUNTERS,
        has_active_times=kind >= WITH_ACTIVE_TIMES,
        has_released=kind >= WITH_RELEASED,
    )
    groups.read_into(stream)
    if kind >= WITH_PRODUCERS:
        stream.idempotence = read_idempotence(source, now_ms=now_ms)
    return stream


def _read_counters(source: Source, stream: Stream) -> None:
    read_split_id(source)  # the first entry's ID, which is known from the entries
    stream.max_deleted_id = read_split_id(source)
    stream.entries_added = read_length(source)
    if not len(stream) <= stream.entries_added <= ENTRIES_ADDED_MAX:
        raise RdbError("Stream has more entries than were ever added")


def read_idempotence(source: Source, *, now_ms: int) -> Idempotence:
    """Settings, producers and counters; pairs that have expired are left out, and producers without pairs."""
    duration_s = read_length(source)
    idempotence = Idempotence(duration_s, read_length(source))
    if not 1 <= duration_s <= DURATION_S_MAX or not 1 <= idempotence.entries_max <= ENTRIES_MAX:
        raise RdbError("Stream IDMP settings are out of range")
    oldest_ms = _oldest_ms(idempotence, now_ms)
    for _ in range_of(read_length(source)):
        producer_id = read_string(source)
        if producer_id in idempotence.producers:
            raise RdbError(f"Duplicated stream IDMP producer {producer_id!r}")
        idempotence.producers[producer_id] = _live(_read_producer(source), oldest_ms)
    idempotence.producers = {name: producer for name, producer in idempotence.producers.items() if producer}
    idempotence.added, idempotence.duplicates = read_length(source), read_length(source)
    return idempotence


def _live(producer: Producer, oldest_ms: int) -> Producer:
    """The pairs that have not expired. A file may have them in any order, and `Producer.expire` looks at the first."""
    pairs = list(producer.pairs())
    live = [(iid, entry_id) for iid, entry_id in pairs if entry_id >> SEQ_BITS > oldest_ms]
    if len(live) == len(pairs):
        return producer
    rest = Producer()
    for iid, entry_id in live:
        rest.add(iid, entry_id, len(live))
    return rest


def _read_producer(source: Source) -> Producer:
    producer = Producer()
    for _ in range_of(count := read_length(source)):
        iid = read_string(source)
        if iid in producer:
            raise RdbError(f"Duplicated stream IDMP ID {iid!r}")
        producer.add(iid, read_split_id(source), min(count, sys.maxsize))
    return producer
