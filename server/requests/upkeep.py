"""The visits of groups with policies: see `commands.policies.upkeep`. They are timed by the timer of the waits."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from ...commands.clients.client import Client
from ...commands.execution.context import Context
from ...commands.policies.upkeep import visit
from ...store.policies.agenda import NEVER_MS
from .serving import Serving
from .units import Units

logger = logging.getLogger(__name__)

# Visits that are made before clients have their turn.
VISITS_AT_ONCE: Final = 64


class Upkeep:
    """Runs due visits. `may_act` returns whether this server is a primary that serves clients and may write."""

    def __init__(self, context: Context, serving: Serving, units: Units, may_act: Callable[[], bool]) -> None:
        self._context = context
        self._serving = serving
        self._units = units
        self._may_act = may_act
        # On behalf of which changes are made that no client has asked for.
        self._client = Client(0, db=context.store.databases[0])

    @property
    def has_visits(self) -> bool:
        """Whether a group must be visited some time."""
        return len(self._context.visits) > 0

    def next_due_ms(self) -> int:
        """When the next visit is due, Unix ms; NEVER_MS if there is none, or this server may not act."""
        due_ms = self._context.visits.next_due_ms()
        return due_ms if due_ms == NEVER_MS or self._may_act() else NEVER_MS

    def run(self, now_ms: int) -> None:
        """Make the visits that are due, each as a unit of its own, and serve the readers that wait for its stream."""
        context = self._context
        if context.visits.next_due_ms() > now_ms or not self._may_act():
            return
        client, db = context.client, context.db
        context.now_ms, context.client = now_ms, self._client
        try:
            for place in context.visits.take_due(now_ms, VISITS_AT_ONCE):
                try:
                    visit(context, place)
                except Exception:
                    logger.exception("internal error in the upkeep of group %r of stream %r", place[2], place[1])
                self._units.log_unit()
                self._serving.serve_ready()
        finally:
            context.client, context.db = client, db
