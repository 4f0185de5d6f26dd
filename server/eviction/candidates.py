"""The keys from which the next one to evict is chosen.

As in Redis, some random keys of each database are compared, and the best of them join those that earlier comparisons
have left over, so that the choice comes near to the best of all keys.
"""

from __future__ import annotations

from bisect import insort
from random import Random
from typing import Final

from ...store.database import Database
from ...store.stream import Stream
from ...store.value import Value
from .policy import Policy

# Candidates that are kept for the next choice, as in Redis.
POOL_COUNT_MAX: Final = 16

# With so few keys that have an expiry time, or with less than this share of all keys, they are listed. Otherwise some
# are found by looking at random keys.
LISTED_COUNT_MAX: Final = 256
LISTED_SHARE: Final = 64

# Random places of the table that are looked at for one sample, per key wanted. More would take long where most keys
# may not be evicted.
PLACES_PER_KEY: Final = 4

# (score, database index, key): the last one is evicted first.
Candidate = tuple[int, int, bytes]


class Candidates:
    """Chooses keys of some databases. `random` makes the random choices; tests give it a seed."""

    def __init__(self, databases: list[Database], random: Random) -> None:
        self._databases = databases
        self.random = random
        self._policy = Policy(b"noeviction")
        # Whether streams with pending entries may be evicted.
        self._with_pending = False
        # Ascending.
        self._pool: list[Candidate] = []
        # The database of which a random policy has evicted a key last.
        self._last_index = -1

    def configure(self, policy: Policy, *, with_pending: bool) -> None:
        """Choose by this policy from now on."""
        self._policy, self._with_pending = policy, with_pending
        self._pool.clear()

    @property
    def has_refused(self) -> bool:
        """Whether there are keys that the policy concerns, so that `choose` finds none because they are in use."""
        return any(self._policy.count(db) for db in self._databases)

    def choose(self, samples_count: int, now_ms: int) -> tuple[Database, bytes] | None:
        """The key to evict next; None if there is none. `samples_count` keys of each database are compared."""
        chosen = self._choose(samples_count, now_ms, is_thorough=False)
        if chosen is None and self.has_refused:
            chosen = self._choose(samples_count, now_ms, is_thorough=True)
        return chosen

    def _choose(self, samples_count: int, now_ms: int, *, is_thorough: bool) -> tuple[Database, bytes] | None:
        """`is_thorough`: every key is looked at, because random ones were all in use as streams with pending
        entries."""
        if self._policy.is_random:
            return self._choose_any(is_thorough=is_thorough)
        for db in self._databases:
            if self._policy.count(db):
                self._compare(db, self._all(db) if is_thorough else self._sample(db, samples_count), now_ms)
        while self._pool:
            _, index, key = self._pool.pop()
            db = self._databases[index]
            if self._may_evict(db, key):
                return db, key
        return None

    def _choose_any(self, *, is_thorough: bool) -> tuple[Database, bytes] | None:
        """A random key of the next database that has one."""
        count = len(self._databases)
        for step in range(1, count + 1):
            index = (self._last_index + step) % count
            db = self._databases[index]
            if not self._policy.count(db):
                continue
            found = self._all(db) if is_thorough else self._sample(db, 1)
            if found:
                self._last_index = index
                return db, self.random.choice(found)
        return None

    def _compare(self, db: Database, keys: list[bytes], now_ms: int) -> None:
        """Let keys join the pool if they are better than the worst of it, or if there is room."""
        pool = self._pool
        known = {key for _, index, key in pool if index == db.index}
        for key in keys:
            value = db.keys.get(key)
            if value is not None and key not in known:
                insort(pool, (self._policy.score(db, key, value, now_ms), db.index, key))
        del pool[:-POOL_COUNT_MAX]

    # -- samples ---------------------------------------------------------------------------------

    def _all(self, db: Database) -> list[bytes]:
        """Every key that may be evicted."""
        keys = db.keys.expiring() if self._policy.is_volatile else list(db.keys)
        return [key for key in keys if self._may_evict(db, key)]

    def _sample(self, db: Database, count: int) -> list[bytes]:
        """About so many random keys that may be evicted; all of them if there are no more."""
        keys, total = db.keys, self._policy.count(db)
        if total <= count:
            return self._all(db)
        if self._policy.is_volatile and total <= max(LISTED_COUNT_MAX, len(keys) // LISTED_SHARE):
            listed = self.random.sample(keys.expiring(), min(total, count * PLACES_PER_KEY))
            return [key for key in listed if self._may_evict(db, key)][:count]
        found: dict[bytes, None] = {}
        for _ in range(count * PLACES_PER_KEY):
            for key in keys.neighbours(self.random.randrange(len(keys))):
                if self._may_evict(db, key):
                    found[key] = None
                    if len(found) >= count:
                        return list(found)
        return list(found)

    def _may_evict(self, db: Database, key: bytes) -> bool:
        """Whether the policy concerns a key that is there, and it holds no stream with entries that a group waits
        for."""
        if self._policy.is_volatile and key not in db.expires:
            return False
        value = db.keys.get(key)
        return value is not None and (self._with_pending or not has_pending(value))


def has_pending(value: Value) -> bool:
    """Whether the value is a stream of which a group has pending entries."""
    return type(value) is Stream and any(len(group.pending) for group in value.groups.values())
