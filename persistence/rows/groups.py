"""The consumers and pending entries of a group, in columns.

    tables:   consumers, pending entries, released entries, each after its number
    consumer: name | seen and active time, 8 bytes each
    pending:  pages of up to PAGE_COUNT entries by ID: the number of entries, and five columns (`PendingImage.columns`)
    released: IDs and delivery counts in the order of release; the pages have these entries too, with the owner -1

A group without any of these has three zero bytes, as in Redis' form.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final

from ...store.group import Group
from ...store.image import GroupImage
from ...store.log import EntryLog
from ...store.pending import Consumer
from ..errors import RdbError
from ..rdb.groups import NO_TABLES, PIECES_COUNT, GroupReader, encode_split_id, encode_times, range_of, read_split_id
from ..rdb.lengths import encode_length, encode_string, read_length, read_string, read_time_ms
from ..rdb.source import Source

# Entries of a page. Copying one takes a tenth of a millisecond.
PAGE_COUNT: Final = 4096
# The types of the columns: the halves of the IDs, delivery times, delivery counts, numbers of the owners.
TYPECODES: Final = "QQqqq"
# Bytes of a number in a column.
NUMBER_SIZE: Final = 8


def encode_columns(group: GroupImage, compress: bool) -> Iterator[bytes]:
    """Encode the tables of a group, in pieces."""
    pieces = [encode_length(len(group.consumers))]
    for consumer in group.consumers:
        pieces.append(encode_string(consumer.name, compress=compress))
        pieces.append(encode_times(consumer.seen_ms, consumer.active_ms))
        if len(pieces) >= 2 * PIECES_COUNT:
            yield b"".join(pieces)
            pieces.clear()
    pieces.append(encode_length(len(group.pending)))
    yield b"".join(pieces)
    owners = {consumer.name: number for number, consumer in enumerate(group.consumers)}
    for columns in group.pending.columns(owners, PAGE_COUNT):
        yield encode_length(len(columns[0])) + b"".join([column.tobytes() for column in columns])
    released = group.pending.released
    pieces = [encode_length(len(released))]
    for entry_id, delivery in released.items():
        pieces.append(encode_split_id(entry_id) + encode_length(delivery.count))
        if len(pieces) >= PAGE_COUNT:
            yield b"".join(pieces)
            pieces.clear()
    yield b"".join(pieces)


class ColumnsReader(GroupReader):
    """Reads the groups of a stream with the tables that `encode_columns` encodes."""

    def __init__(self, source: Source) -> None:
        super().__init__(source, has_entries_read=True, has_active_times=True, has_released=True)

    def read_tables(self, group: Group, log: EntryLog) -> bool:
        """See `GroupReader`. The entry log knows already whether IDs are pending that were never entries of it."""
        source = self.source
        if source.skip_bytes(NO_TABLES):
            return True
        consumers = [self._read_member(group) for _ in range_of(read_length(source))]
        left, released_count = read_length(source), 0
        while left:
            count = read_length(source)
            if not 0 < count <= min(left, PAGE_COUNT):
                raise RdbError("Pending entries in a page of another size")
            columns = tuple([self._read_column(typecode, count) for typecode in TYPECODES])
            page_released_count = columns[-1].count(-1)
            released_count += page_released_count
            if consumers:
                group.pending.take_columns(columns, consumers)
            elif page_released_count < count:
                raise RdbError("Pending entries of a group without consumers")
            left -= count
        self._read_released(group, released_count)
        return True

    def _read_member(self, group: Group) -> Consumer:
        name = read_string(self.source)
        if name in group.consumers:
            raise RdbError(f"Duplicated stream consumer name {name!r}")
        consumer = group.add_consumer(name, read_time_ms(self.source))
        consumer.active_ms = read_time_ms(self.source)
        return consumer

    def _read_column(self, typecode: str, count: int) -> array[int]:
        column = array(typecode)
        column.frombytes(self.source.take(NUMBER_SIZE * count))
        return column

    def _read_released(self, group: Group, expected_count: int) -> None:
        """Read the released entries, of which the pages had so many."""
        count = read_length(self.source)
        if count != expected_count:
            raise RdbError("Pending entry without an owner that has not been released")
        for _ in range_of(count):
            entry_id = read_split_id(self.source)
            if entry_id in group.pending:
                raise RdbError("Released entry has an owner, or is duplicated")
            group.release(entry_id, count=read_length(self.source))
