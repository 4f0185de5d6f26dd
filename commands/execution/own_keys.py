"""Keys with an expiry time that clients have set on a writable replica (`replica-read-only no`).

A replica keeps expired keys until its primary removes them. The primary knows nothing of these, so they expire here by
themselves, as in Redis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...store.database import Database, Store
from ...store.events import EXPIRED
from ..core.keys import find_keys
from ..core.table import Row, Trait

# Keys that are looked at between two looks at the clock.
COUNT_AT_ONCE: Final = 16

# Keys of a request, each with its expiry time in Unix ms; None without one.
DueTimes = list[tuple[bytes, int | None]]


class OwnKeys:
    """The keys of one server. While `is_on`, commands of clients that write call `prepare` and `remember`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.is_on = False
        # (database index, key), the one that is looked at next first.
        self._places: dict[tuple[int, bytes], None] = {}

    def __len__(self) -> int:
        return len(self._places)

    def clear(self) -> None:
        """Forget all: the keys are gone, or expire like all others."""
        self._places.clear()

    @staticmethod
    def prepare(db: Database, row: Row, argv: list[bytes], now_ms: int) -> DueTimes:
        """Remove the keys of a command that have expired. Returns the expiry times of all of its keys."""
        due_times: DueTimes = []
        for key, _ in find_keys(row, argv):
            if db.is_stale(key, now_ms):
                if Trait.REMOVES_KEYS in row.traits:
                    del db.expires[key]
                else:
                    db.delete(key, EXPIRED)
                    db.expired_keys.append((db.index, key))
            due_times.append((key, db.keys.due_ms(key)))
        return due_times

    def remember(self, db: Database, row: Row, before: DueTimes) -> None:
        """Remember the keys whose expiry times the command has set; not those that it has copied, as in Redis."""
        if Trait.CARRIES_EXPIRY in row.traits:
            return
        for key, due_ms in before:
            now_due_ms = db.keys.due_ms(key)
            if now_due_ms is not None and now_due_ms != due_ms:
                self._places[db.index, key] = None

    def expire(self, now_ms: int, is_over: Callable[[], bool]) -> None:
        """Remove the keys that have expired, and forget those without an expiry time, until `is_over`."""
        remaining = len(self._places)
        while remaining > 0:
            for _ in range(min(COUNT_AT_ONCE, remaining)):
                place = next(iter(self._places))
                del self._places[place]
                self._look_at(place, now_ms)
            remaining -= COUNT_AT_ONCE
            if is_over():
                return

    def _look_at(self, place: tuple[int, bytes], now_ms: int) -> None:
        index, key = place
        db = self._store.databases[index]
        if db.is_stale(key, now_ms):
            db.delete(key, EXPIRED)
            db.expired_keys.append(place)
        elif db.keys.due_ms(key) is not None:
            self._places[place] = None
