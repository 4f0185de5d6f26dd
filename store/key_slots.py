"""The keys of a database in slots, for SCAN and RANDOMKEY: a walk that stays valid while keys are added and removed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import islice
from sys import getsizeof
from typing import Final

from .memory import estimated_total

SLOT_BITS: Final = 12
# With a million keys a slot has about 250, few enough to sort at every step of a SCAN.
SLOT_COUNT: Final = 1 << SLOT_BITS

# Bits that order the keys of a slot. A SCAN cursor is slot and place, 44 bits: exact even for clients with doubles.
PLACE_BITS: Final = 32

# Slots that are measured for `memory_size`: enough for an error of some 3 %.
MEASURED_SLOT_COUNT: Final = 256

# With at most this many slots in use, sorting their numbers is cheaper than trying all slots.
SPARSE_SLOT_COUNT: Final = 64


def place_of(key: bytes) -> int:
    """Return the position of a key in the order of SCAN: its slot, then its place in the slot. Only the key's hash
    decides it."""
    code = hash(key)
    return (code & (SLOT_COUNT - 1)) << PLACE_BITS | code >> SLOT_BITS & ((1 << PLACE_BITS) - 1)


def scan_keys(keys: Iterable[bytes], cursor: int, count: int) -> tuple[list[bytes], int]:
    """Return about `count` of these keys from `cursor` on, and the next cursor; 0 after the last key. A call costs all
    keys. See `KeySlots.scan`."""
    found: list[bytes] = []
    previous = -1
    for place, key in sorted([(place_of(key), key) for key in keys]):
        if place < cursor:
            continue
        # Keys of one place are returned together; otherwise the next call would skip some of them.
        if len(found) >= count and place != previous:
            return found, place
        found.append(key)
        previous = place
    return found, 0


class KeySlots:
    """The keys by slot; slots without keys are left out."""

    __slots__ = ("_slots",)

    def __init__(self) -> None:
        self._slots: defaultdict[int, set[bytes]] = defaultdict(set)

    def add(self, key: bytes) -> None:
        """Add a key."""
        self._slots[hash(key) & (SLOT_COUNT - 1)].add(key)

    def remove(self, key: bytes) -> None:
        """Remove an existing key."""
        number = hash(key) & (SLOT_COUNT - 1)
        slot = self._slots[number]
        slot.discard(key)
        if not slot:
            del self._slots[number]

    def copy(self) -> KeySlots:
        """Other slots with the same keys."""
        twin = KeySlots()
        twin._slots.update({number: slot.copy() for number, slot in self._slots.items()})
        return twin

    def scan(self, cursor: int, count: int) -> tuple[list[bytes], int]:
        """Return about `count` keys from `cursor` on, and the next cursor. Cursor 0 starts the walk, and ends it.

        A call ends at a place in the order of `place_of`: all keys before it have been returned. A key never moves, so
        a cursor stays valid when keys are added and removed: each key that exists during the whole walk is returned
        once. A call costs its keys and one slot.
        """
        found: list[bytes] = []
        slots = self._slots
        for slot in self._numbers_from(cursor >> PLACE_BITS):
            keys = slots.get(slot)
            if keys is None:
                continue
            part, after = scan_keys(keys, cursor, count - len(found))
            found += part
            if after:
                return found, after
        return found, 0

    def _numbers_from(self, first: int) -> Iterable[int]:
        """Slot numbers from `first` on, ascending: at least all those of slots with keys."""
        if len(self._slots) <= SPARSE_SLOT_COUNT:
            return sorted(number for number in self._slots if number >= first)
        return range(first, SLOT_COUNT)

    def neighbours(self, index: int) -> list[bytes]:
        """Return the key at `index` in an arbitrary order of all keys, and the keys that follow it in its slot."""
        for slot in self._slots.values():
            if index < len(slot):
                return [*islice(slot, index, None), *islice(slot, index)]
            index -= len(slot)
        raise IndexError(index)

    @property
    def memory_size(self) -> int:
        """Bytes of all tables, estimated from some of them."""
        slots = self._slots
        return getsizeof(slots) + estimated_total(map(getsizeof, slots.values()), len(slots), MEASURED_SLOT_COUNT)

    def check(self, keys: Iterable[bytes]) -> None:
        """Assert that these keys, and no others, are in the slots. Raises AssertionError."""
        assert all(self._slots.values())
        assert {key for slot in self._slots.values() for key in slot} == set(keys)
