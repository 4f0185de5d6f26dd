"""Keyspace notifications: what happens to keys, published to whoever subscribed to hear of it.

The store names the events (`store.events`) where they happen; nobody calls here while `notify-keyspace-events` asks for
nothing. Source: Redis 8.10.2, as observed.
"""

from __future__ import annotations

from typing import Final

from ...store.events import Event
from ..clients.subscriptions import Subscriptions

# The classes that the letter `A` stands for.
ALL_CLASSES: Final = b"g$lshzxetda"


class Notifications:
    """Which events are published, and on which channels."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self._subscriptions = subscriptions
        self._letters: frozenset[bytes] = frozenset()
        self._by_key = self._by_event = False

    def configure(self, letters: bytes) -> None:
        """Take the directive over: classes, and `K` and `E` for the two kinds of channels."""
        chosen = {letters[index : index + 1] for index in range(len(letters))}
        if b"A" in chosen:
            chosen |= {ALL_CLASSES[index : index + 1] for index in range(len(ALL_CLASSES))}
        self._by_key, self._by_event = b"K" in chosen, b"E" in chosen
        self._letters = frozenset(chosen - {b"A", b"K", b"E"})

    @property
    def is_on(self) -> bool:
        """Whether any event can be published."""
        return bool(self._letters) and (self._by_key or self._by_event)

    def publish(self, db_index: int, event: Event, key: bytes) -> None:
        """Tell of an event: its name to those who listen to the key, then the key to those who listen to the event."""
        if event.letter not in self._letters or not self._subscriptions.has_listeners:
            return
        if self._by_key:
            self._subscriptions.publish(b"__keyspace@%d__:%b" % (db_index, key), event.name)
        if self._by_event:
            self._subscriptions.publish(b"__keyevent@%d__:%b" % (db_index, event.name), key)
