"""What the server does by itself, `hz` times a second."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from .key_walks import ActiveExpiry, IdempotenceExpiry, NodeSettling, time_limit

if TYPE_CHECKING:
    from .app import Server

logger = logging.getLogger(__name__)

FREEING_NS: Final = 10_000_000
"""Time that one turn may spend on giving memory back, a tenth of the time between turns."""


class PeriodicWork:
    """Expiry, idle clients, memory, statistics, and the turns of log and snapshots."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.expiry = ActiveExpiry(server.store)
        self._settling = NodeSettling(server.store)
        self._idempotence = IdempotenceExpiry(server.store)
        self.expires_keys = True
        """False while DEBUG SET-ACTIVE-EXPIRE 0 is in force."""
        self.is_paused = False
        """True while DEBUG PAUSE-CRON 1 is in force."""
        self._turns_count = 0
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin; a turn that fails is logged, and the next one comes all the same."""
        delay_s = 1 / self._server.config.hz
        self._handle = asyncio.get_running_loop().call_later(delay_s, self._take_turn)

    def stop(self) -> None:
        """No more turns."""
        if self._handle is not None:
            self._handle.cancel()

    def _take_turn(self) -> None:
        self.start()
        try:
            self.run()
        except Exception:
            logger.exception("internal error in the periodic work")

    def run(self) -> None:
        """The work of one turn: the loop's timer calls this, and tests after moving their clock."""
        if self.is_paused:
            return
        server = self._server
        now_ms = server.clock()
        self._turns_count += 1
        if self.expires_keys:
            server.context.latency.run("expire-cycle", partial(self.expiry.run, now_ms), server.clock)
        server.dispatcher.serving.serve_expired(now_ms)
        is_new_second = self._turns_count % max(1, server.config.hz) == 0
        if is_new_second or server.config.maxmemory:
            server.memory.cron()
        if is_new_second:
            self._idempotence.run(now_ms)
            server.limits.close_idle(now_ms)
        server.store.garbage.free(time_limit(FREEING_NS))
        self._settling.run(server.stats.commands_processed)
        server.limits.cron(now_ms)
        server.stats.sample(now_ms)
        server.turns.finish()
        server.log_keeper.cron(now_ms)
        server.snapshots.cron(now_ms)
