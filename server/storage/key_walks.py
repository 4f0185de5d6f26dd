"""Walks over all keys, a part in each turn of the periodic work: expiry, idempotency pairs, entries into nodes."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Final

from ...store.database import Database, Store

# Number of keys with an expiry time that are checked before deciding whether to continue.
SAMPLE_COUNT: Final = 200

# Share of expired keys in a sample for which the walk continues at once; with less, it continues in the next turn.
EXPIRED_SHARE_MIN: Final = 0.1

# Weight of the newest sample in the mean share of expired keys, as in Redis.
STALE_WEIGHT: Final = 0.05

# Share of the time between turns that one turn may spend on expiry, while clients wait. As in Redis.
EXPIRY_SHARE: Final = 0.25

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
    """Removes expired keys that no client reads, walking over all keys with an expiry time in rounds.

    `turn_ns` returns the time between two turns.
    """

    def __init__(self, store: Store, turn_ns: Callable[[], float]) -> None:
        self._store = store
        self._turn_ns = turn_ns
        # Keys still to be checked in this round, by database index.
        self._rounds: dict[int, list[bytes]] = {}
        self.reset_statistics()

    def reset_statistics(self) -> None:
        """CONFIG RESETSTAT."""
        # Share of expired keys among the checked keys with an expiry time: a mean that changes slowly.
        self.stale_share = 0.0
        # Turns that ended because their time was over.
        self.cap_reached_count = 0
        self.spent_ns = 0

    def run(self, now_ms: int) -> None:
        """Remove expired keys, within the time budget."""
        started_ns = perf_counter_ns()
        for db in self._store.databases:
            if db.expires and not db.frozen and not db.keeps_expired:
                self._run_in(db, now_ms, started_ns + EXPIRY_SHARE * self._turn_ns())
        self.spent_ns += perf_counter_ns() - started_ns

    def _run_in(self, db: Database, now_ms: int, end_ns: float) -> None:
        keys = self._rounds.get(db.index)
        if not keys:
            keys = self._rounds[db.index] = list(db.expires)
        while keys:
            sample = keys[-SAMPLE_COUNT:]
            del keys[-SAMPLE_COUNT:]
            expired_count = sum(db.expire_if_due(key, now_ms) for key in sample)
            self.stale_share += (expired_count / len(sample) - self.stale_share) * STALE_WEIGHT
            if expired_count < EXPIRED_SHARE_MIN * len(sample):
                return
            if perf_counter_ns() > end_ns:
                self.cap_reached_count += 1
                return


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
