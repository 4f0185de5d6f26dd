"""Walks over all keys, a part in each turn of the periodic work: expiry, idempotency pairs, entries into nodes."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Final

from ...store.database import Database, Store

# Expiry times that are looked at for the share of expired keys.
SAMPLE_COUNT: Final = 200

# Weight of the newest sample in the mean share of expired keys, as in Redis.
STALE_WEIGHT: Final = 0.05

# Run time of a slice of expiry, while clients wait.
EXPIRY_SLICE_NS: Final = 1_000_000

# Time that slices leave to clients. They get a quarter of the time, as in Redis.
EXPIRY_REST_S: Final = 0.003

# Keys that are removed between two looks at the clock.
EXPIRY_COUNT_AT_ONCE: Final = 8

# Keys checked in one turn for old idempotency pairs. Until its check a pair counts, however old, as in Redis.
STREAM_COUNT_PER_TURN: Final = 1000

# With this many commands between two turns, work that can wait is left out.
BUSY_COMMANDS_COUNT: Final = 1000

# Share of the time between turns that one turn may spend on counting entries into nodes: some 4,000 at `hz 10`.
SETTLING_SHARE: Final = 0.1

# Shorter streams are counted when a command needs it.
SETTLING_LENGTH_MIN: Final = 1000


def time_limit(budget_ns: float) -> Callable[[], bool]:
    """Returns a function that returns whether that much time has passed since this call."""
    end_ns = perf_counter_ns() + budget_ns
    return lambda: perf_counter_ns() >= end_ns


class ActiveExpiry:
    """Removes expired keys and fields of hashes that no client reads, those that expired first before others."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.reset_statistics()

    def reset_statistics(self) -> None:
        """CONFIG RESETSTAT."""
        # Share of expired keys among the keys with an expiry time: a mean that changes slowly.
        self.stale_share = 0.0
        # Slices that ended because their time was over.
        self.cap_reached_count = 0
        self.spent_ns = 0

    def run(self, now_ms: int) -> bool:
        """Remove expired keys for the time of a slice. Returns whether there are more."""
        started_ns = perf_counter_ns()
        is_over = time_limit(EXPIRY_SLICE_NS)
        has_more = False
        for db in self._store.databases:
            if db.keys.expiring_count and not db.frozen and not db.keeps_expired:
                self._sample(db, now_ms)
                has_more |= _expire(db, now_ms, is_over)
            if len(db.expiring_hashes) and not db.frozen and not db.keeps_expired:
                has_more |= _expire_fields(db, now_ms, is_over)
        self.cap_reached_count += has_more
        self.spent_ns += perf_counter_ns() - started_ns
        return has_more

    def _sample(self, db: Database, now_ms: int) -> None:
        """Include the share of expired keys of a database, which has keys with an expiry time, in the mean."""
        times = db.keys.due_times(SAMPLE_COUNT) if db.keys.first_due_ms < now_ms else [now_ms]
        share = sum(time_ms < now_ms for time_ms in times) / len(times)
        self.stale_share += (share - self.stale_share) * STALE_WEIGHT


def _expire(db: Database, now_ms: int, is_over: Callable[[], bool]) -> bool:
    """Remove expired keys until there are none or `is_over`. Returns whether there are more."""
    keys = db.keys
    while keys.first_due_ms < now_ms:
        if is_over():
            return True
        for _ in range(EXPIRY_COUNT_AT_ONCE):
            key = keys.first_due()
            if key is None or not db.expire_if_due(key, now_ms):
                break
    return False


def _expire_fields(db: Database, now_ms: int, is_over: Callable[[], bool]) -> bool:
    """Remove fields of hashes that are due until there are none or `is_over`. Returns whether there are more."""
    while db.expire_fields(now_ms, EXPIRY_COUNT_AT_ONCE):
        if is_over():
            return True
    return False


class IdempotenceExpiry:
    """Frees idempotency pairs that are too old, walking over all streams in rounds."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._keys: list[tuple[Database, bytes]] = []

    def run(self, now_ms: int) -> None:
        """Check the next keys."""
        if not self._keys:
            self._keys = [(db, key) for db in self._store.databases for key in db.streams]
        for db, key in self._keys[-STREAM_COUNT_PER_TURN:]:
            stream = db.streams.get(key)
            if stream is not None and stream.idempotence.producers:
                stream.expire_idempotence(now_ms)
        del self._keys[-STREAM_COUNT_PER_TURN:]


class NodeSettling:
    """Counts the entries of long streams into Redis' nodes while the server has little to do. Without it, the first
    XTRIM, XDEL or XINFO STREAM after many plain XADDs would count them all, while all clients wait.

    `turn_ns` returns the time between two turns.
    """

    def __init__(self, store: Store, turn_ns: Callable[[], float]) -> None:
        self._store = store
        self._turn_ns = turn_ns
        self._keys: list[tuple[Database, bytes]] = []
        self._commands_count = 0

    def run(self, commands_count: int) -> None:
        """Count for a while, unless many commands were run since the last turn. `commands_count` is the number of all
        commands so far.
        """
        is_busy = commands_count - self._commands_count > BUSY_COMMANDS_COUNT
        self._commands_count = commands_count
        if is_busy:
            return
        if not self._keys:
            self._keys = [(db, key) for db in self._store.databases for key in db.streams]
        is_over = time_limit(SETTLING_SHARE * self._turn_ns())
        for _ in range(min(STREAM_COUNT_PER_TURN, len(self._keys))):
            db, key = self._keys[-1]
            stream = db.streams.get(key)
            if stream is not None and stream.log.length >= SETTLING_LENGTH_MIN and stream.has_unsettled:
                if is_over():
                    return
                stream.nodes.settle(stream.log, stream.limits, is_over)
                if stream.has_unsettled:
                    return
            self._keys.pop()
