"""Keys, their expiry times, and who must hear of a change.

A `Database` is one numbered keyspace; the `Store` holds them all. Values are `Stream` objects or, for
plain strings, `bytes`. Nothing here reads a clock: `now_ms` is Unix time in milliseconds, given by the caller.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, Protocol

from .errors import WrongType
from .stream import Stream

Value = Stream | bytes

SCAN_HASH_MASK: Final = 2**48 - 1
"""Bits of a key's hash that make a SCAN cursor."""


class Watcher(Protocol):
    """A transaction that must fail if a watched key changes (WATCH)."""

    dirty: bool


class Database:
    """One keyspace.

    Three kinds of listener hear of a change, and each has its own channel:
    `touch` marks WATCHing transactions, `signal_ready` names keys that may feed blocked readers,
    `expired_keys` collects keys that lazy or active expiry removed, for the log.
    """

    __slots__ = ("_scan_order", "expired_keys", "expires", "frozen", "index", "keys", "ready", "watchers")

    def __init__(self, index: int) -> None:
        self.index = index
        self.keys: dict[bytes, Value] = {}
        self.expires: dict[bytes, int] = {}
        """Absolute expiry times in Unix ms, for the keys that have one."""
        self.watchers: dict[bytes, set[Watcher]] = {}
        self.ready: dict[bytes, None] = {}
        """Keys touched since the waiters were last served, in touch order."""
        self.expired_keys: list[bytes] = []
        """Keys removed by expiry since the log last took them."""
        self._scan_order: list[tuple[int, bytes]] = []
        """(hash, key) in order, for the walk that SCAN is on; empty between walks."""
        self.frozen = False
        """While set (loading, CLIENT PAUSE) nothing expires."""

    # -- reading ---------------------------------------------------------------------------------

    def get(self, key: bytes, now_ms: int) -> Value | None:
        """The live value of `key`; an expired one is removed first."""
        if self.expires and key in self.expires:
            self.expire_if_due(key, now_ms)
        return self.keys.get(key)

    def get_stream(self, key: bytes, now_ms: int) -> Stream | None:
        """The stream at `key`, None if there is none. Raises WrongType."""
        value = self.get(key, now_ms)
        if value is not None and type(value) is not Stream:
            raise WrongType
        return value

    def get_string(self, key: bytes, now_ms: int) -> bytes | None:
        """The string at `key`, None if there is none. Raises WrongType."""
        value = self.get(key, now_ms)
        if value is not None and type(value) is not bytes:
            raise WrongType
        return value

    def scan(self, cursor: int, count: int) -> tuple[list[bytes], int]:
        """About `count` keys from `cursor` on, and the cursor to go on with; 0 begins, and ends.

        The order is that of the keys' hashes, listed anew when a walk begins. A cursor is a place in that order, not
        in the list, so walks do not disturb each other: a key that stays is met whatever comes and goes around it.
        Keys may be gone when they are met.
        """
        if not cursor or not self._scan_order:
            self._scan_order = sorted((hash(key) & SCAN_HASH_MASK, key) for key in self.keys)
        order = self._scan_order
        low = bisect_left(order, (cursor,))
        high = min(low + count, len(order))
        while high < len(order) and high > low and order[high][0] == order[high - 1][0]:
            high += 1  # keys of one hash stay together, or the next call would pass over some
        found = [key for _, key in order[low:high] if key in self.keys]
        if high < len(order):
            return found, order[high][0]
        self._scan_order = []
        return found, 0

    # -- changing --------------------------------------------------------------------------------

    def put(self, key: bytes, value: Value, *, keep_expiry: bool = False) -> None:
        """Store `value`; a stored expiry time is dropped unless told otherwise. Touches the key."""
        self.keys[key] = value
        if not keep_expiry:
            self.expires.pop(key, None)
        self.touch(key)
        self.signal_ready(key)

    def remove(self, key: bytes) -> Value | None:
        """Take `key` out, with its expiry. Touches it if it was there."""
        value = self.keys.pop(key, None)
        if value is not None:
            self.expires.pop(key, None)
            self.touch(key)
            self.signal_ready(key)
        return value

    def clear(self) -> int:
        """Remove every key and answer how many there were."""
        count = len(self.keys)
        for key in self.watchers.keys() & self.keys.keys():
            self.touch(key)
        self.ready.update(dict.fromkeys(self.keys))
        self.keys = {}
        self.expires = {}
        return count

    def swap_with(self, other: Database) -> None:
        """Exchange keys with another database: whoever watches or waits for a key on either side hears of it."""
        if other is self:
            return
        changed = self.keys.keys() | other.keys.keys()
        for db in (self, other):
            for key in db.watchers.keys() & changed:
                db.touch(key)
            db.ready.update(dict.fromkeys(changed))
            db._scan_order = []
        self.keys, other.keys = other.keys, self.keys
        self.expires, other.expires = other.expires, self.expires

    def expire_if_due(self, key: bytes, now_ms: int) -> bool:
        """Remove `key` if its time has come; say whether it was removed."""
        due_ms = self.expires.get(key)
        if due_ms is None or due_ms > now_ms or self.frozen:
            return False
        self.remove(key)
        self.expired_keys.append(key)
        return True

    # -- telling others --------------------------------------------------------------------------

    def touch(self, key: bytes) -> None:
        """Mark the transactions that WATCH `key` as failed."""
        if self.watchers:
            for watcher in self.watchers.get(key, ()):
                watcher.dirty = True

    def signal_ready(self, key: bytes) -> None:
        """Remember that readers blocked on `key` should be looked at after this command."""
        self.ready[key] = None


class Store:
    """All databases of a server. `swap` exchanges two of them in place."""

    __slots__ = ("databases",)

    def __init__(self, count: int = 16) -> None:
        self.databases = [Database(index) for index in range(count)]
