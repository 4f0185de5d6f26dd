"""What is notified when keys change: transactions that WATCH them, clients that cache them, subscribers, and blocked
readers."""

from __future__ import annotations

from collections.abc import Callable

from .events import Event


class Watcher:
    """What notices that a watched key changes: a transaction, which then fails (WATCH)."""

    __slots__ = ("dirty", "shows_no_keys")

    def __init__(self) -> None:
        # Whether a watched key has changed.
        self.dirty = False
        # Whether a watched key was touched. The client is then reported as watching no key, as in Redis; a flush or a
        # swap only sets `dirty`.
        self.shows_no_keys = False


class Observed:
    """Keys whose changes are reported.

    `touch` reports a changed key to transactions that WATCH it and to clients that cache it. `announce` reports an
    event to clients that subscribed to keyspace events. Both only read `is_observed` if there is no observer.
    `signal_ready` collects keys that may have data for blocked readers.
    """

    __slots__ = ("index", "is_all_ready", "is_observed", "on_change", "on_event", "ready", "watchers")

    def __init__(self, index: int) -> None:
        # Number of the database.
        self.index = index
        # The watchers of each key, and whether the key was stale, expired and not yet removed, when it was watched.
        self.watchers: dict[bytes, dict[Watcher, bool]] = {}
        # Keys touched since the waiters were last served, in touch order.
        self.ready: dict[bytes, None] = {}
        # Whether that is every key that clients wait for: another dataset has come, or many keys at once.
        self.is_all_ready = False
        # Called with each touched key and the event that touched it.
        self.on_change: Callable[[bytes, Event | None], None] | None = None
        # Called with database index, event and key.
        self.on_event: Callable[[int, Event, bytes], None] | None = None
        # Whether there is a watcher or a listener. Set by `watch`, `unwatch` and `listen`.
        self.is_observed = False

    def watch(self, key: bytes, watcher: Watcher, *, is_stale: bool = False) -> None:
        """Set the watcher's `dirty` when `key` changes from now on. The removal of a stale key is no change."""
        self.watchers.setdefault(key, {})[watcher] = is_stale
        self.is_observed = True

    def was_stale(self, key: bytes, watcher: Watcher) -> bool:
        """Whether `key` has been stale since this watcher watches it."""
        return self.watchers.get(key, {}).get(watcher, False)

    def unwatch(self, key: bytes, watcher: Watcher) -> None:
        """Stop watching `key`. A key that is not watched is no error."""
        of_key = self.watchers.get(key)
        if of_key is not None:
            of_key.pop(watcher, None)
            if not of_key:
                del self.watchers[key]
        self._observe()

    def listen(
        self,
        *,
        on_change: Callable[[bytes, Event | None], None] | None,
        on_event: Callable[[int, Event, bytes], None] | None,
    ) -> None:
        """Set the callbacks for changed keys and for events; None removes a callback."""
        self.on_change, self.on_event = on_change, on_event
        self._observe()

    def _observe(self) -> None:
        self.is_observed = bool(self.watchers) or self.on_change is not None or self.on_event is not None

    def touch(self, key: bytes, event: Event | None = None) -> None:
        """Report that `key` has changed: mark transactions that WATCH it as failed, notify clients that cache it, and
        announce the event, in the order of Redis."""
        if not self.is_observed:
            return
        if event is not None and event.is_announced_first:
            self.announce(event, key)
        if key in self.watchers:
            self._touch_watched(key)
        if self.on_change is not None:
            self.on_change(key, event)
        if event is not None and not event.is_announced_first:
            self.announce(event, key)

    def _touch_watched(self, key: bytes) -> None:
        watchers = self.watchers[key]
        for watcher, was_stale in watchers.items():
            if was_stale and not self._has(key):
                watchers[watcher] = False
            else:
                watcher.dirty = watcher.shows_no_keys = True

    def _has(self, key: bytes) -> bool:
        """Whether the key is there, stale or not."""
        raise NotImplementedError

    def fail_watchers(self, key: bytes, *, is_there_after: bool, is_stale_after: bool) -> None:
        """Mark the transactions that WATCH a watched key as failed, because a flush or a swap replaces it.

        No transaction fails if the key is missing or stale before as well as after.
        """
        watchers = self.watchers[key]
        is_there_before = self._has(key)
        for watcher, was_stale in watchers.items():
            if was_stale and not is_there_after:
                watchers[watcher] = False
            elif is_stale_after and (was_stale or not is_there_before):
                watchers[watcher] = True
            else:
                watcher.dirty = True

    def announce(self, event: Event, key: bytes) -> None:
        """Report the event of `key` to the listener, if there is one."""
        if self.on_event is not None:
            self.on_event(self.index, event, key)

    def signal_ready(self, key: bytes) -> None:
        """Have clients that are blocked on `key` checked after this command."""
        self.ready[key] = None
