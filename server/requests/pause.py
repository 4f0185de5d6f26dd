"""CLIENT PAUSE: which commands of which clients wait, and until when."""

from __future__ import annotations

from collections.abc import Callable

from ...commands.clients.client import Client
from ...commands.core.table import Row
from ...store.database import Store
from .admission import MAY_REPLICATE, may_write
from .session import Session


class Pause:
    """The pause of one server; there is none at first. During a pause, expired keys are kept, and not shown."""

    def __init__(self, store: Store, monotonic: Callable[[], int]) -> None:
        self._store = store
        self._monotonic = monotonic
        # By the monotonic clock, in ms; None without a pause.
        self.end_ms: int | None = None
        self.writes_only = False
        # Whether this server follows a primary, which alone removes expired keys.
        self._is_following = False
        # Sessions with a command that is held, in order of arrival.
        self.held: dict[Session, None] = {}

    def begin(self, pause_ms: int, *, writes_only: bool) -> None:
        """Hold back commands for `pause_ms`. Of two pauses, the later end and the stricter mode apply."""
        now_ms = self._monotonic()
        end_ms = now_ms + pause_ms
        if self.end_ms is not None and self.end_ms > now_ms:
            end_ms = max(end_ms, self.end_ms)
            writes_only = writes_only and self.writes_only
        self.end_ms, self.writes_only = end_ms, writes_only
        self._store.keep_expired(True)

    def follow(self, is_following: bool) -> None:
        """Set whether this server follows a primary. Expired keys are then kept, and not shown, as during a pause."""
        self._is_following = is_following
        self._store.keep_expired(is_following or self.end_ms is not None)

    def end(self) -> list[Session]:
        """End the pause. Returns the sessions whose commands were held, in order of arrival."""
        self.end_ms = None
        self._store.keep_expired(self._is_following)
        released = list(self.held)
        for session in released:
            session.client.is_held = False
        self.held.clear()
        return released

    @property
    def is_over(self) -> bool:
        """Whether there was a pause and its end has passed."""
        return self.end_ms is not None and self._monotonic() >= self.end_ms

    def concerns(self, client: Client, row: Row) -> bool:
        """Whether this command has to wait."""
        if self.end_ms is None or client.is_monitor or client.is_replica or self.is_over:
            return False
        return not self.writes_only or may_write(client, row) or bool(row.trait_bits & MAY_REPLICATE)
