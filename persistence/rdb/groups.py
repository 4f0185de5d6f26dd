"""The consumer groups of a stream: positions, pending entries lists, consumers, and released entries in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final

from ...store.group import ENTRIES_READ_UNKNOWN, Group
from ...store.ids import SEQ_BITS, SEQ_MASK, StreamID, make_id
from ...store.image import GroupImage
from ...store.log import EntryLog
from ...store.pending import Consumer
from ...store.stream import Stream
from ..errors import RdbError
from .ids import ID_SIZE
from .lengths import UNKNOWN, encode_length, encode_string, read_length, read_string, read_time_ms
from .source import Source

try:
    from .pending_codec import PendingDecoder, PendingEncoder, encode_ids
except ImportError:  # there was no C compiler at installation
    from .pending_codec_plain import PendingDecoder, PendingEncoder, encode_ids  # type: ignore[assignment]

# Pending entries that are encoded or decoded at once: a tenth of a millisecond.
PIECE_COUNT: Final = 4096
# Groups or consumers that are encoded in one piece: a stream may have ten thousands of them.
PIECES_COUNT: Final = 64
# The numbers of pending entries, consumers and released entries of a group that has none.
NO_TABLES: Final = bytes(3)
encode_times: Final = Struct("<qq").pack


def encode_split_id(entry_id: StreamID) -> bytes:
    """Encode an ID as two lengths."""
    return encode_length(entry_id >> SEQ_BITS) + encode_length(entry_id & SEQ_MASK)


def read_split_id(source: Source) -> StreamID:
    """The inverse. Raises RdbError."""
    ms = read_length(source)
    return make_id(ms, read_length(source))


# -- writing -----------------------------------------------------------------------------------------


def encode_groups(
    groups: list[GroupImage], encode_tables: Callable[[GroupImage, bool], Iterator[bytes]], *, compress: bool
) -> Iterator[bytes]:
    """Encode the groups of a stream, in pieces. A piece has some groups without consumers and pending entries, or a
    part of another group, whose consumers and pending entries `encode_tables` encodes."""
    pieces: list[bytes] = []
    for group in groups:
        pieces.append(_encode_head(group, compress=compress))
        if group.has_tables:
            yield b"".join(pieces)
            pieces.clear()
            yield from encode_tables(group, compress)
        elif len(pieces) == PIECES_COUNT:
            yield b"".join(pieces)
            pieces.clear()
    if pieces:
        yield b"".join(pieces)


def _encode_head(group: GroupImage, *, compress: bool) -> bytes:
    """Encode a group up to its pending entries, or the whole of a group that has no tables."""
    last_id, entries_read = group.last_id, group.entries_read
    name = encode_string(group.name, compress=compress)
    position = encode_length(last_id >> SEQ_BITS) + encode_length(last_id & SEQ_MASK)
    position += encode_length(UNKNOWN if entries_read == ENTRIES_READ_UNKNOWN else entries_read)
    return name + position + (b"" if group.has_tables else NO_TABLES)


def encode_tables(group: GroupImage, compress: bool) -> Iterator[bytes]:
    """Encode the pending entries and the consumers of a group that has tables, in pieces."""
    yield encode_length(len(group.pending))
    encoder = PendingEncoder(len(group.consumers))
    owners = {consumer.name: number for number, consumer in enumerate(group.consumers)}
    for columns in group.pending.columns(owners, PIECE_COUNT):
        yield encoder.add(*columns)
    pieces = [encode_length(len(group.consumers))]
    for number, consumer in enumerate(group.consumers):
        owned = encoder.owned(number)
        pieces.append(
            encode_string(consumer.name, compress=compress)
            + encode_times(consumer.seen_ms, consumer.active_ms)
            + encode_length(len(owned) // ID_SIZE)
        )
        if owned:
            pieces.append(owned)
        if len(pieces) >= PIECES_COUNT:
            yield b"".join(pieces)
            pieces.clear()
    released = encode_ids(list(group.pending.released))
    pieces += encode_length(len(released) // ID_SIZE), released
    yield b"".join(pieces)


# -- reading -----------------------------------------------------------------------------------------


class GroupReader:
    """Reads the groups of a stream whose entries and counters were read before. The flags say what the stream's type
    has."""

    def __init__(self, source: Source, *, has_entries_read: bool, has_active_times: bool, has_released: bool) -> None:
        self.source = source
        self._has_entries_read = has_entries_read
        self._has_active_times = has_active_times
        self._has_released = has_released
        # What follows the head of a group without consumers and pending entries.
        self._no_tables = NO_TABLES if has_released else NO_TABLES[1:]

    def read_into(self, stream: Stream) -> None:
        """Read all groups into `stream`, whose entries were read before. Raises RdbError."""
        for _ in range_of(read_length(self.source)):
            group = self._read_head(stream)
            if group.name in stream.groups:
                raise RdbError(f"Duplicated consumer group name {group.name!r} in a stream")
            stream.groups[group.name] = group
            if not self.read_tables(group, stream.log):
                stream.log.has_strays = True

    def _read_head(self, stream: Stream) -> Group:
        group = Group(read_string(self.source), read_split_id(self.source))
        if self._has_entries_read:
            entries_read = read_length(self.source)
            if entries_read != UNKNOWN:
                if entries_read > stream.entries_added:
                    raise RdbError("Stream consumer group has read more entries than were added")
                group.entries_read = entries_read
        else:
            estimated = stream.entries_up_to(group.last_id)
            group.entries_read = ENTRIES_READ_UNKNOWN if estimated is None else estimated
        return group

    def read_tables(self, group: Group, log: EntryLog) -> bool:
        """Read the pending entries and the consumers. Returns False if pending IDs may be in the range of a chunk, and
        not those of entries of it."""
        source = self.source
        if source.skip_bytes(self._no_tables):
            return True
        decoder = PendingDecoder()
        left = read_length(source)
        while left:
            taken, position = decoder.add(*source.ahead(), min(left, PIECE_COUNT))
            source.skip_ahead(position)
            left -= taken
            if not taken:  # the next one may continue in the next block
                decoder.add_one(source.take(ID_SIZE), read_time_ms(source), read_length(source))
                left -= 1
        consumers = [self._read_consumer(group, decoder, number) for number in range_of(read_length(source))]
        if self._has_released:
            decoder.release(self._read_ids())
        runs, released = decoder.finish()
        for ids, owner, time_ms, count in runs:
            group.pending.deliver(ids, consumers[owner], time_ms=time_ms, count=count)
        for entry_id, count in released:
            group.release(entry_id, count=count)
        return all(log.has_all(ids) for ids, *_ in runs) and log.has_all([entry_id for entry_id, _ in released])

    def _read_consumer(self, group: Group, decoder: PendingDecoder, number: int) -> Consumer:
        name = read_string(self.source)
        if name in group.consumers:
            raise RdbError(f"Duplicated stream consumer name {name!r}")
        consumer = group.add_consumer(name, read_time_ms(self.source))
        consumer.active_ms = read_time_ms(self.source) if self._has_active_times else consumer.seen_ms
        decoder.own(self._read_ids(), number)
        return consumer

    def _read_ids(self) -> bytes:
        """Return IDs, end to end."""
        return self.source.take(ID_SIZE * read_length(self.source))


def range_of(count: int) -> Iterator[int]:
    """Yield the numbers below `count`, which may exceed a C integer: the data ends before."""
    number = 0
    while number < count:
        yield number
        number += 1
