"""The eviction policies: which keys may be evicted, and in which order.

    noeviction                        none
    allkeys-lru    volatile-lru       the one that was not used for the longest time
    allkeys-lfu    volatile-lfu       the one that is used least often
    allkeys-lrm    volatile-lrm       the one that was not modified for the longest time
    allkeys-random volatile-random    any
                   volatile-ttl       the one that expires first

A volatile policy evicts only keys with an expiry time. Source: Redis 8.10.2.
"""

from __future__ import annotations

from typing import Final

from ...store.database import Database
from ...store.key_uses import FREQUENCY_MAX, UseKind
from ...store.value import Value

USE_KINDS: Final = {b"lru": UseKind.LRU, b"lfu": UseKind.LFU, b"lrm": UseKind.LRM}


class Policy:
    """A policy by its name, as `maxmemory-policy` has it."""

    __slots__ = ("evicts", "is_random", "is_volatile", "use_kind")

    def __init__(self, name: bytes) -> None:
        keys, _, order = name.partition(b"-")
        # Whether keys are evicted at all.
        self.evicts = bool(order)
        self.is_volatile = keys == b"volatile"
        self.is_random = order == b"random"
        # What must be recorded of the uses of keys; None for nothing.
        self.use_kind = USE_KINDS.get(order)

    def count(self, db: Database) -> int:
        """Number of keys of a database that the policy concerns."""
        return db.keys.expiring_count if self.is_volatile else len(db.keys)

    def score(self, db: Database, key: bytes, value: Value, now_ms: int) -> int:
        """Of several keys, the one with the largest number is evicted first. The policy is not random."""
        uses = db.uses
        if uses is None or self.use_kind is None:
            return -db.expires[key]
        if self.use_kind is UseKind.LFU:
            return FREQUENCY_MAX - uses.frequency(key, now_ms)
        return uses.idle_ms(key, value, now_ms)
