"""Writes the dataset as records that rebuild it: the content of a base in RESP.

All values are absolute, in an order that can be replayed: entries, then the counters, then each group with its pending
entries by delivery time, so that their order is kept, then idempotent producers, policies, expiry.

A deleted entry may still be pending, or belong to an idempotent pair. Records of either have no effect without the
entry. So an empty entry is added with its ID, and removed after the records that name it.

Not included, as in Redis' own text form: seen and active times of consumers, and the count of duplicates of idempotent
producers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Final

from ..protocol.packing import pack_command
from ..store.companions.companion import Companion
from ..store.ids import StreamID, format_id
from ..store.image import GroupImage, KeyImage, Part, ShortStreamsImage, StreamImage, StringsImage
from ..store.pending import Delivery
from ..store.policies.lines import lines_of
from .companion_records import companion_records
from .grammar.streams import (
    pack_adds,
    pack_base_claim,
    pack_consumer,
    pack_counters,
    pack_deleted,
    pack_empty_stream,
    pack_group,
    pack_length,
    pack_pair,
    pack_placeholder,
    pack_released,
    pack_settings,
    pack_streams,
    pack_strings,
)
from .policy_lines import log_lines

# IDs in one XCLAIM record: keeps a record small enough to be one step of loading.
CLAIM_COUNT_MAX: Final = 1024
# IDs in one XNACK record, as Redis writes them.
RELEASE_COUNT_MAX: Final = 64

# (database index, one RESP record or several).
Record = tuple[int, bytes]


def snapshot(parts: Iterable[Part], libraries: Iterable[bytes] = ()) -> Iterator[Record]:
    """Yield the records of the libraries of functions, which are given as texts, and of every key."""
    for code in libraries:
        yield 0, pack_command((b"FUNCTION", b"LOAD", code))
    for part in parts:
        if isinstance(part, StringsImage):
            records = strings_records(part)
        elif isinstance(part, ShortStreamsImage):
            records = iter((pack_streams(part.streams, part.expires),))
        else:
            assert isinstance(part, KeyImage), "small values are not packed for records"
            records = key_records(part)
        for record in records:
            yield part.db_index, record


def strings_records(part: StringsImage) -> Iterator[bytes]:
    """Yield the records of keys with strings, many in one piece."""
    index = 0
    while index < len(part.pairs):
        piece, index = pack_strings(part.pairs, index, part.expires)
        yield piece


def key_records(image: KeyImage) -> Iterator[bytes]:
    """Yield the records of one key: its value, then its expiry. A record may contain several commands, all in one
    database."""
    value = image.value
    if isinstance(value, bytes):
        expires = {} if image.expires_ms is None else {image.key: image.expires_ms}
        yield from strings_records(StringsImage(image.db_index, [(image.key, value)], expires))
        return
    if isinstance(value, Companion):
        yield from companion_records(image.key, value)
    else:
        yield from stream_records(image.key, value)
        for words in lines_of(image.key, value):
            yield log_lines(words)
    if image.expires_ms is not None:
        yield pack_command((b"PEXPIREAT", image.key, b"%d" % image.expires_ms))


def stream_records(key: bytes, stream: StreamImage) -> Iterator[bytes]:
    """Yield the records of one stream, including groups and producers."""
    deleted: list[StreamID] = []
    for record, placed in _entries_records(key, stream):
        deleted += placed
        yield record
    if not len(stream) and not deleted:
        yield pack_empty_stream(key)
    yield pack_counters(key, format_id(stream.last_id), stream.entries_added, format_id(stream.max_deleted_id))
    for group in stream.groups:
        yield from _group_records(key, group)
    yield from _producer_records(key, stream, frozenset(deleted))
    if deleted:
        yield from _removal_records(key, stream, deleted)


def _entries_records(key: bytes, stream: StreamImage) -> Iterator[tuple[bytes, list[StreamID]]]:
    """Yield records of the entries, ascending, with empty entries for deleted ones that are still named, and the IDs of
    these.

    A record has a chunk's entries, or as many empty ones as a claim may name.
    """
    named = _Named(stream)
    log = stream.log
    for body, spans in log.all_bodies():
        last_id = body.id_at(spans[-1][1] - 1)
        pieces: list[bytes] = []
        deleted: list[StreamID] = []
        while ids := named.take(last_id):
            deleted += [] if log.has_all(ids) else [each for each in ids if each not in log]
            if len(deleted) >= CLAIM_COUNT_MAX and deleted[-1] < body.id_at(spans[0][0]):
                yield _placed(key, deleted), deleted
                deleted = []
        cuts = [(body.position(each), each) for each in deleted]
        for low, high in spans:
            while cuts and cuts[0][0] < high:
                position, entry_id = cuts.pop(0)
                if low < position:
                    pieces.append(pack_adds(key, body.slice(low, position), body.ends(low, position)))
                    low = position
                pieces.append(_placed(key, [entry_id]))
            pieces.append(pack_adds(key, body.slice(low, high), body.ends(low, high)))
        pieces += [_placed(key, [entry_id]) for _, entry_id in cuts]
        yield b"".join(pieces), deleted
    while ids := named.take(stream.last_id):
        yield _placed(key, ids), ids


class _Named:
    """The IDs that groups or producers refer to, ascending, each once."""

    def __init__(self, stream: StreamImage) -> None:
        walks: list[Iterable[StreamID]] = [
            map(itemgetter(0), group.pending.walk()) for group in stream.groups if len(group.pending)
        ]
        walks += [
            sorted(entry_id for _, entry_id in producer.pairs()) for producer in stream.idempotence.producers.values()
        ]
        self._ids = merge(*walks) if len(walks) > 1 else iter(walks[0] if walks else ())
        self._next = next(self._ids, None)

    def take(self, last_id: StreamID) -> list[StreamID]:
        """Return the next IDs, up to and including `last_id`, at most as many as one claim may name."""
        taken: list[StreamID] = []
        entry_id = self._next
        while entry_id is not None and entry_id <= last_id and len(taken) < CLAIM_COUNT_MAX:
            taken.append(entry_id)
            while self._next == entry_id:
                self._next = next(self._ids, None)
            entry_id = self._next
        return taken


def _placed(key: bytes, ids: list[StreamID]) -> bytes:
    """Return records that add empty entries with the IDs of deleted ones."""
    return b"".join([pack_placeholder(key, format_id(each)) for each in ids])


def _removal_records(key: bytes, stream: StreamImage, deleted: list[StreamID]) -> Iterator[bytes]:
    """Remove the empty entries. Those before the first entry may never have been deleted one by one: they are trimmed,
    which leaves the largest deleted ID as it is.
    """
    first_id = stream.log.first_id if len(stream) else stream.last_id + 1
    for ids in _batches([each for each in deleted if each > first_id], CLAIM_COUNT_MAX):
        yield pack_deleted(key, ids)
    yield pack_length(key, len(stream))


def _group_records(key: bytes, group: GroupImage) -> Iterator[bytes]:
    name = group.name
    yield pack_group(key, name, format_id(group.last_id), group.entries_read)
    for consumer in group.consumers:
        if not consumer.pending_count:
            yield pack_consumer(key, name, consumer.name)
    if not len(group.pending):
        return
    released = [(entry_id, delivery.count) for entry_id, delivery in group.pending.released.items()]
    owned = filter(_is_owned, group.pending.walk_by_time())
    for (owner, time_ms, count), pairs in groupby(owned, key=_shared):
        for ids in _batches(map(itemgetter(0), pairs), CLAIM_COUNT_MAX):
            yield pack_base_claim(key, name, owner, ids, time_ms, count)
    for count, released_pairs in groupby(released, key=lambda pair: pair[1]):
        for ids in _batches(map(itemgetter(0), released_pairs), RELEASE_COUNT_MAX):
            yield pack_released(key, name, ids, count)


def _is_owned(pair: tuple[StreamID, Delivery]) -> bool:
    return pair[1].consumer is not None


def _shared(pair: tuple[StreamID, Delivery]) -> tuple[bytes, int, int]:
    """Return the key by which owned entries are grouped: consumer, time and count."""
    delivery = pair[1]
    assert delivery.consumer is not None
    return delivery.consumer.name, delivery.time_ms, delivery.count


def _producer_records(key: bytes, stream: StreamImage, deleted: frozenset[StreamID]) -> Iterator[bytes]:
    idempotence, limits = stream.idempotence, stream.limits
    settings = (idempotence.duration_s, idempotence.entries_max)
    if settings != (limits.idmp_duration_s, limits.idmp_entries_max):
        # Before the pairs: changing a setting forgets them.
        yield pack_settings(key, *settings)
    for producer_id in sorted(idempotence.producers):
        for iid, entry_id in idempotence.producers[producer_id].pairs():
            if entry_id in stream.log or entry_id in deleted:
                yield pack_pair(key, producer_id, iid, format_id(entry_id))


def _batches(ids: Iterable[StreamID], size_max: int) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    for entry_id in ids:
        batch.append(format_id(entry_id))
        if len(batch) == size_max:
            yield batch
            batch = []
    if batch:
        yield batch
