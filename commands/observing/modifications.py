"""When keys were modified, for the eviction policies that go by that: `volatile-lrm` and `allkeys-lrm`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from ...store.database import Database
from ...store.events import Event


class HasTime(Protocol):
    """The context of commands."""

    # Unix ms.
    now_ms: int


class Modifications:
    """Listens to the changes of one database, and passes them on to the next listener, if there is one."""

    def __init__(
        self, context: HasTime, db: Database, next_listener: Callable[[bytes, Event | None], None] | None
    ) -> None:
        self._context: Final = context
        self._db: Final = db
        self._next_listener: Final = next_listener

    def note(self, key: bytes, event: Event | None) -> None:
        """Record that a key has changed, unless it is removed."""
        uses = self._db.uses
        if uses is not None and key in self._db.keys:
            uses.note_change(key, self._context.now_ms)
        if self._next_listener is not None:
            self._next_listener(key, event)
