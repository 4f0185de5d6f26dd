"""When, or how often, the keys of a database were used, for the eviction policies that go by that.

Nothing is recorded under the other policies. Streams and companions keep the time of their last use themselves, so
under LRU only strings have a record here. A key without a record counts as last used when the server started.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from random import random
from sys import getsizeof
from typing import Final, NamedTuple

from .object_sizes import NUMBER_SIZE
from .value import Value

# The counter of a new key, so that it is not evicted before it could be used again; as in Redis.
FREQUENCY_INITIAL: Final = 5
FREQUENCY_MAX: Final = 255

# A record of LFU is the minute of the last use, and the counter in so many bits.
FREQUENCY_BITS: Final = 8
MINUTE_MS: Final = 60_000


class UseKind(Enum):
    """What is recorded."""

    # When a key was last used.
    LRU = auto()
    # How often a key is used.
    LFU = auto()
    # When a key was last modified.
    LRM = auto()


class SavedUse(NamedTuple):
    """What a file keeps of the uses of a key: seconds since the last one, or the counter; the other one is None."""

    idle_s: int | None
    frequency: int | None


class UseRules:
    """What the `KeyUses` of all databases have in common. Tests change `random`, which returns a number below 1."""

    def __init__(self, kind: UseKind, started_ms: int) -> None:
        self.kind: Final = kind
        # When the server started, Unix ms.
        self.started_ms: Final = started_ms
        # The larger it is, the more uses a counter takes to grow (`lfu-log-factor`).
        self.log_factor = 10
        # Minutes without a use after which a counter loses one; 0 for never (`lfu-decay-time`).
        self.decay_minutes = 1
        self.random: Callable[[], float] = random


class KeyUses:
    """The uses of the keys of one database."""

    __slots__ = ("_records", "rules")

    def __init__(self, rules: UseRules) -> None:
        self.rules: Final = rules
        # Unix ms of the last use or modification, or the minute and the counter of LFU.
        self._records: dict[bytes, int] = {}

    def __len__(self) -> int:
        """Number of records."""
        return len(self._records)

    def __contains__(self, key: bytes) -> bool:
        return key in self._records

    def has_use(self, key: bytes, value: Value) -> bool:
        """Whether a use of the existing `key` is known."""
        if self.rules.kind is UseKind.LRU and not isinstance(value, bytes):
            return value.used_ms > 0
        return key in self._records

    @property
    def memory_size(self) -> int:
        """Bytes of the records."""
        return getsizeof(self._records) + len(self._records) * NUMBER_SIZE

    # -- recording -------------------------------------------------------------------------------

    def note_use(self, key: bytes, value: Value, now_ms: int) -> None:
        """Record that a command has used the existing `key`; under LRM that is no change."""
        kind = self.rules.kind
        if kind is UseKind.LRU:
            if isinstance(value, bytes):
                self._records[key] = now_ms
            else:
                # Most commands have done so, but not those that have just created the value.
                value.used_ms = now_ms
        elif kind is UseKind.LFU:
            record = self._records.get(key)
            counter = FREQUENCY_INITIAL if record is None else self._grown(self._decayed(record, now_ms))
            self._records[key] = now_ms // MINUTE_MS << FREQUENCY_BITS | counter

    def note_change(self, key: bytes, now_ms: int) -> None:
        """Record that the existing `key` was modified, for LRM."""
        self._records[key] = now_ms

    def set_idle(self, key: bytes, value: Value, idle_ms: int, now_ms: int) -> None:
        """Set how long ago the existing `key` was used, or modified. LFU records nothing."""
        kind = self.rules.kind
        if kind is UseKind.LRU and not isinstance(value, bytes):
            value.used_ms = now_ms - idle_ms
        elif kind is not UseKind.LFU:
            self._records[key] = now_ms - idle_ms

    def set_frequency(self, key: bytes, counter: int, now_ms: int) -> None:
        """Set the counter of the existing `key`. Only LFU records it."""
        if self.rules.kind is UseKind.LFU:
            self._records[key] = now_ms // MINUTE_MS << FREQUENCY_BITS | counter

    def forget(self, key: bytes) -> None:
        """Drop the record of a key that is removed, if there is one."""
        self._records.pop(key, None)

    # -- reading ---------------------------------------------------------------------------------

    def frequency(self, key: bytes, now_ms: int) -> int:
        """The counter of a key under LFU, at most FREQUENCY_MAX, less what it has lost since the last use."""
        record = self._records.get(key)
        if record is None:
            record = self.rules.started_ms // MINUTE_MS << FREQUENCY_BITS | FREQUENCY_INITIAL
        return self._decayed(record, now_ms)

    def idle_ms(self, key: bytes, value: Value, now_ms: int) -> int:
        """The time since a key was last used under LRU, or modified under LRM, in ms."""
        rules = self.rules
        used_ms = self._records.get(key) or rules.started_ms
        if rules.kind is UseKind.LRU and not isinstance(value, bytes):
            used_ms = value.used_ms or used_ms
        return max(0, now_ms - used_ms)

    @property
    def is_saved(self) -> bool:
        """Whether files keep something of the uses of keys: nothing under LRM, as in Redis."""
        return self.rules.kind is not UseKind.LRM

    def saved(self, key: bytes, value: Value, now_ms: int) -> SavedUse:
        """What a file keeps of the uses of a key."""
        if self.rules.kind is UseKind.LFU:
            return SavedUse(None, self.frequency(key, now_ms))
        return SavedUse(self.idle_ms(key, value, now_ms) // 1000, None)

    def load(self, key: bytes, value: Value, use: SavedUse | None, now_ms: int) -> None:
        """Take over what a file or a payload has of the uses of a key that now begins to exist."""
        self.note_use(key, value, now_ms)
        if use is not None and use.idle_s is not None:
            self.set_idle(key, value, use.idle_s * 1000, now_ms)
        if use is not None and use.frequency is not None:
            self.set_frequency(key, use.frequency, now_ms)

    def _decayed(self, record: int, now_ms: int) -> int:
        """The counter of a record, less one for each `decay_minutes` since the last use."""
        counter = record & FREQUENCY_MAX
        decay_minutes = self.rules.decay_minutes
        if not decay_minutes:
            return counter
        return max(0, counter - max(0, now_ms // MINUTE_MS - (record >> FREQUENCY_BITS)) // decay_minutes)

    def _grown(self, counter: int) -> int:
        """The counter after a use: the larger it is, the less likely it grows."""
        if counter == FREQUENCY_MAX:
            return counter
        excess = max(0, counter - FREQUENCY_INITIAL)
        return counter + (self.rules.random() < 1 / (excess * self.rules.log_factor + 1))
