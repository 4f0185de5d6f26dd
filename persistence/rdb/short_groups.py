"""The groups of short streams, from the copies that `Group.short` makes to their values and back: see `groups`.

For `node_codec_plain`; `node_codec` has the same in C.
"""

from __future__ import annotations

from array import array
from struct import Struct
from typing import Final

from ...store.group import ENTRIES_READ_UNKNOWN, SHORT_CONSUMERS_MAX, ShortGroup
from ...store.ids import SEQ_BITS, SEQ_MASK, make_id
from ...store.pending import BLOCK_COUNT_MAX, DELIVERY_COUNT_MAX
from ...store.stream import SHORT_GROUPS_MAX
from .groups import encode_split_id, encode_times, read_split_id
from .ids import ID_SIZE, decode_id, encode_id
from .lengths import UNKNOWN, encode_length, encode_string, encode_time_ms, read_length, read_string, read_time_ms
from .source import Source

# A row of pending entries: ID, delivery time in Unix ms, delivery count, place of the owner.
Row = tuple[int, int, int, int]
COLUMNS_COUNT: Final = 5


def encode_short_group(group: ShortGroup, *, compress: bool) -> bytes:
    """Encode a short group. Raises ValueError for pending entries that are damaged."""
    name, last_id, entries_read, consumers, block = group
    rows = _rows_of(block)
    pieces = [encode_string(name, compress=compress), encode_split_id(last_id)]
    pieces.append(encode_length(UNKNOWN if entries_read == ENTRIES_READ_UNKNOWN else entries_read))
    pieces.append(encode_length(len(rows)))
    for entry_id, time_ms, count, owner in rows:
        if not 0 <= owner < len(consumers):
            raise ValueError("a block of other consumers")
        pieces.append(encode_id(entry_id) + encode_time_ms(time_ms) + encode_length(count))
    pieces.append(encode_length(len(consumers)))
    for number, (consumer_name, seen_ms, active_ms) in enumerate(consumers):
        owned = [encode_id(entry_id) for entry_id, _, _, owner in rows if owner == number]
        head = encode_string(consumer_name, compress=compress) + encode_times(seen_ms, active_ms)
        pieces.append(head + encode_length(len(owned)) + b"".join(owned))
    # No released entries.
    pieces.append(encode_length(0))
    return b"".join(pieces)


def read_short_groups(source: Source, entries_added: int) -> list[ShortGroup] | None:
    """Read the groups of a stream. Returns None, or raises RdbError, if they are damaged or not all short."""
    groups_count = read_length(source)
    if groups_count > SHORT_GROUPS_MAX:
        return None
    groups: list[ShortGroup] = []
    for _ in range(groups_count):
        group = _read_short_group(source, entries_added)
        if group is None or group[0] in [each[0] for each in groups]:
            return None
        groups.append(group)
    return groups


def _read_short_group(source: Source, entries_added: int) -> ShortGroup | None:
    name, last_id, entries_read = read_string(source), read_split_id(source), read_length(source)
    if entries_read != UNKNOWN and entries_read > entries_added:
        return None
    pending_count = read_length(source)
    if pending_count > BLOCK_COUNT_MAX:
        return None
    times: dict[int, tuple[int, int]] = {}
    for _ in range(pending_count):
        entry_id = decode_id(source.take(ID_SIZE))
        if entry_id <= max(times, default=-1):
            return None
        times[entry_id] = (read_time_ms(source), min(read_length(source), DELIVERY_COUNT_MAX))
    owners: dict[int, int] = {}
    consumers: list[tuple[bytes, int, int]] = []
    consumers_count = read_length(source)
    if consumers_count > SHORT_CONSUMERS_MAX:
        return None
    for number in range(consumers_count):
        consumer = read_string(source), read_time_ms(source), read_time_ms(source)
        if consumer[0] in [each[0] for each in consumers]:
            return None
        consumers.append(consumer)
        owned_count = read_length(source)
        if owned_count > pending_count:
            return None
        for _ in range(owned_count):
            entry_id = decode_id(source.take(ID_SIZE))
            if entry_id not in times or entry_id in owners:
                return None
            owners[entry_id] = number
    if len(owners) < len(times) or read_length(source):
        return None
    block = _block_of([(entry_id, *shared, owners[entry_id]) for entry_id, shared in times.items()])
    return name, last_id, ENTRIES_READ_UNKNOWN if entries_read == UNKNOWN else entries_read, consumers, block


def _rows_of(block: bytes) -> list[Row]:
    """Return the pending entries of a block: see `PendingTable.block`. Raises ValueError."""
    count = len(block) // (8 * COLUMNS_COUNT)
    if len(block) != 8 * COLUMNS_COUNT * count:
        raise ValueError("a block that is cut off")
    numbers = Struct(f"={2 * count}Q{3 * count}q").unpack(block)
    ms, seq, times, counts, owners = [numbers[start * count :][:count] for start in range(COLUMNS_COUNT)]
    return [(make_id(ms[row], seq[row]), times[row], counts[row], owners[row]) for row in range(count)]


def _block_of(rows: list[Row]) -> bytes:
    """The inverse."""
    halves = [row[0] >> SEQ_BITS for row in rows] + [row[0] & SEQ_MASK for row in rows]
    return array("Q", halves).tobytes() + array("q", [row[place] for place in (1, 2, 3) for row in rows]).tobytes()
