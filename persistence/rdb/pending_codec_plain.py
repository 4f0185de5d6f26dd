"""Pending entries in RDB files: `pending_codec` for installations without a C compiler. Both behave alike.

    entry: ID, 16 bytes | delivery time, 8 bytes | delivery count, a length

The entries of a group are written by ID. After them, each consumer has the IDs of its entries, and those of released
entries, which have no owner, are last.
"""

from __future__ import annotations

from array import array
from itertools import groupby
from typing import Final

from ...store.ids import StreamID, make_id
from ...store.pending import DELIVERY_COUNT_MAX
from ..errors import RdbError
from .ids import ID_SIZE, decode_id, encode_id
from .lengths import encode_length, encode_time_ms, read_length, read_time_ms
from .source import Source

# Largest size in bytes of an entry.
ENTRY_SIZE_MAX: Final = ID_SIZE + 8 + 9

# Entries with the same owner, time and count: their IDs, number of the owner, delivery time in Unix ms, count.
Run = tuple[list[StreamID], int, int, int]


class PendingEncoder:
    """Encodes the pending entries of a group with `consumers_count` consumers, which have numbers from 0 on."""

    def __init__(self, consumers_count: int) -> None:
        # The IDs of each consumer's entries.
        self._owned = [bytearray() for _ in range(consumers_count)]

    def add(self, ms: array[int], seq: array[int], times: array[int], counts: array[int], owners: array[int]) -> bytes:
        """Return entries in their encoded form. `owners` has the number of the consumer, -1 for released entries."""
        pieces = []
        for row, owner in enumerate(owners):
            entry_id = encode_id(make_id(ms[row], seq[row]))
            pieces.append(entry_id + encode_time_ms(times[row]) + encode_length(counts[row]))
            if owner >= 0:
                self._owned[owner] += entry_id
        return b"".join(pieces)

    def owned(self, number: int) -> bytes:
        """Return the IDs of a consumer's entries, end to end, and forget them."""
        owned, self._owned[number] = bytes(self._owned[number]), bytearray()
        return owned


def encode_ids(ids: list[StreamID]) -> bytes:
    """Return IDs in their encoded form, end to end."""
    return b"".join(map(encode_id, ids))


class PendingDecoder:
    """Reads the pending entries of a group, then which consumer owns each, and which are released."""

    def __init__(self) -> None:
        # Delivery time and count of each entry.
        self._times: dict[StreamID, tuple[int, int]] = {}
        self._owners: dict[StreamID, int] = {}
        self._released: list[StreamID] = []

    def add(self, block: bytes, position: int, count: int) -> tuple[int, int]:
        """Read up to `count` entries that are complete in `block` from `position` on. Returns how many those are, and
        the position after them. Raises RdbError."""
        source = Source((block[position:],))
        for taken in range(count):
            if len(block) - position - source.offset < ENTRY_SIZE_MAX:
                return taken, position + source.offset
            self.add_one(source.take(ID_SIZE), read_time_ms(source), read_length(source))
        return count, position + source.offset

    def add_one(self, entry_id: bytes, time_ms: int, count: int) -> None:
        """Add one entry. Raises RdbError."""
        number = decode_id(entry_id)
        if number in self._times:
            raise RdbError("Duplicated global PEL entry loading a stream consumer group")
        self._times[number] = (time_ms, min(count, DELIVERY_COUNT_MAX))

    def own(self, ids: bytes, number: int) -> None:
        """Give entries, whose IDs are end to end in `ids`, to the consumer with this number. Raises RdbError."""
        for start in range(0, len(ids), ID_SIZE):
            entry_id = decode_id(ids[start : start + ID_SIZE])
            if entry_id not in self._times:
                raise RdbError("Consumer entry not found in group global PEL")
            if entry_id in self._owners:
                raise RdbError("Duplicated consumer PEL entry loading a stream consumer group")
            self._owners[entry_id] = number

    def release(self, ids: bytes) -> None:
        """Make entries released ones. Raises RdbError."""
        released = [decode_id(ids[start : start + ID_SIZE]) for start in range(0, len(ids), ID_SIZE)]
        if len(set(released)) != len(released) or any(
            each in self._owners or each not in self._times for each in released
        ):
            raise RdbError("Released entry is not in the group's PEL, is duplicated, or has an owner")
        self._released = released

    def finish(self) -> tuple[list[Run], list[tuple[StreamID, int]]]:
        """Return the owned entries, oldest first and by ID for equal times, and the released ones with their counts, in
        their order. Raises RdbError if an entry is neither."""
        if len(self._owners) + len(self._released) != len(self._times):
            raise RdbError("Pending entry without an owner that has not been released")
        times, owners = self._times, self._owners

        def shared(entry_id: StreamID) -> tuple[int, int, int]:
            return owners[entry_id], *times[entry_id]

        by_time = sorted(sorted(owners), key=lambda entry_id: times[entry_id][0])
        runs = [(list(ids), *key) for key, ids in groupby(by_time, key=shared)]
        return runs, [(entry_id, times[entry_id][1]) for entry_id in self._released]
