"""Keyspace notifications: events of keys, published to subscribers.

The store makes the events (`store.events`). No event reaches this module while `notify-keyspace-events` is empty.
Source: Redis 8.10.2, as observed.
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
        """Apply the directive: classes, and `K` and `E` for the two kinds of channels."""
        chosen = {letters[index : index + 1] for index in range(len(letters))}
        if b"A" in chosen:
            chosen |= {ALL_CLASSES[index : index + 1] for index in range(len(ALL_CLASSES))}
        self._by_key, self._by_event = b"K" in chosen, b"E" in chosen
        self._letters = frozenset(chosen - {b"A", b"K", b"E"})

    @property
    def is_on(self) -> bool:
        """Whether any event is published."""
        return bool(self._letters) and (self._by_key or self._by_event)

    def publish(self, db_index: int, event: Event, key: bytes) -> None:
        """Publish an event: its name to the subscribers of the key, then the key to the subscribers of the event."""
        if event.letter not in self._letters or not self._subscriptions.has_listeners:
            return
        if self._by_key:
            self._subscriptions.publish(b"__keyspace@%d__:%b" % (db_index, key), event.name)
        if self._by_event:
            self._subscriptions.publish(b"__keyevent@%d__:%b" % (db_index, event.name), key)
