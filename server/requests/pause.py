"""Pauses: which commands of which clients wait, and until when.

CLIENT PAUSE, FAILOVER, SHUTDOWN and a long command each have a pause of their own, and all that are in force apply.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Final, NamedTuple

from ...commands.clients.client import Client
from ...commands.core.table import Row
from ...store.database import Store
from .admission import MAY_REPLICATE, may_write
from .session import Session

# Longer than any server runs: a pause that its cause ends.
ENDLESS_MS: Final = 100 * 365 * 86_400_000


class Cause(Enum):
    """What has begun a pause."""

    COMMAND = auto()
    FAILOVER = auto()
    SHUTDOWN = auto()
    WORK = auto()


class Span(NamedTuple):
    """One pause: its end by the monotonic clock, in ms, and whether reads are served."""

    end_ms: int
    writes_only: bool


class Pause:
    """The pauses of one server; there is none at first. During a pause, expired keys are kept, and not shown."""

    def __init__(self, store: Store, monotonic: Callable[[], int]) -> None:
        self._store = store
        self._monotonic = monotonic
        self._spans: dict[Cause, Span] = {}
        # The end of the pause that ends first, by the monotonic clock, in ms; None without a pause.
        self.end_ms: int | None = None
        # The client whose long command others wait for; None if there is none.
        self.worker: Client | None = None
        # Whether this server follows a primary, which alone removes expired keys.
        self._is_following = False
        # Sessions with a command that is held, in order of arrival.
        self.held: dict[Session, None] = {}

    @property
    def writes_only(self) -> bool:
        """Whether commands that only read are served during the pause."""
        return False not in {span.writes_only for span in self._spans.values()}

    def begin(self, pause_ms: int, *, writes_only: bool, cause: Cause = Cause.COMMAND) -> None:
        """Hold back commands for `pause_ms`. Of two pauses, the later end and the stricter mode apply."""
        now_ms = self._monotonic()
        end_ms = now_ms + pause_ms
        before = self._spans.get(cause)
        if before is not None and before.end_ms > now_ms:
            end_ms = max(end_ms, before.end_ms)
            writes_only = writes_only and before.writes_only
        self._spans[cause] = Span(end_ms, writes_only)
        self._apply()

    def follow(self, is_following: bool) -> None:
        """Set whether this server follows a primary. Expired keys are then kept, and not shown, as during a pause."""
        self._is_following = is_following
        self._apply()

    def _apply(self) -> None:
        self.end_ms = min([span.end_ms for span in self._spans.values()], default=None)
        self._store.keep_expired(self._is_following or self.end_ms is not None)

    def end(self, cause: Cause = Cause.COMMAND) -> list[Session]:
        """End a pause. Returns the sessions whose commands were held, in order of arrival: those that another pause
        concerns are held again when they run.
        """
        self._spans.pop(cause, None)
        return self._release()

    def end_due(self) -> list[Session]:
        """End the pauses whose end has passed. Returns the sessions as `end` does."""
        now_ms = self._monotonic()
        for cause in [cause for cause, span in self._spans.items() if span.end_ms <= now_ms]:
            del self._spans[cause]
        return self._release()

    def _release(self) -> list[Session]:
        self._apply()
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
        if self.end_ms is None or client.is_monitor or client.is_replica:
            return False
        now_ms = self._monotonic()
        modes = [
            span.writes_only
            for cause, span in self._spans.items()
            if span.end_ms > now_ms and not (cause is Cause.WORK and client is self.worker)
        ]
        if not modes:
            return False
        return not all(modes) or may_write(client, row) or bool(row.trait_bits & MAY_REPLICATE)
