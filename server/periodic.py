"""The timer of the server's periodic work, `hz` times a second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from .configuration.config import Config

logger = logging.getLogger(__name__)


class PeriodicWork:
    """Calls `work(now_ms, is_new_second)` `hz` times a second; `is_new_second` is true once a second."""

    def __init__(self, config: Config, clock: Callable[[], int], work: Callable[[int, bool], None]) -> None:
        self._config = config
        self._clock = clock
        self._work = work
        # False while DEBUG SET-ACTIVE-EXPIRE 0 is in force.
        self.expires_keys = True
        # True while DEBUG PAUSE-CRON 1 is in force.
        self.is_paused = False
        self._turns_count = 0
        self._handle: asyncio.TimerHandle | None = None
        # The timers of works that continue before the next turn, by name.
        self._continuing: dict[str, asyncio.TimerHandle] = {}

    def start(self) -> None:
        """Start the timer. A turn that fails is logged; the next one runs nevertheless."""
        delay_s = 1 / self._config.hz
        self._handle = asyncio.get_running_loop().call_later(delay_s, self._take_turn)

    def stop(self) -> None:
        """Cancel the timer."""
        for handle in (self._handle, *self._continuing.values()):
            if handle is not None:
                handle.cancel()
        self._handle = None

    def continue_soon(self, name: str, delay_s: float, work: Callable[[int], None]) -> None:
        """Call `work(now_ms)` after that time, unless the timer is stopped or the work of this name already waits."""
        if self._handle is not None and name not in self._continuing:
            loop = asyncio.get_running_loop()
            self._continuing[name] = loop.call_later(delay_s, self._continue, name, work)

    def _continue(self, name: str, work: Callable[[int], None]) -> None:
        del self._continuing[name]
        if self.is_paused:
            return
        try:
            work(self._clock())
        except Exception:
            logger.exception("internal error in the periodic work")

    def _take_turn(self) -> None:
        self.start()
        try:
            self.run()
        except Exception:
            logger.exception("internal error in the periodic work")

    def run(self) -> None:
        """Do the work of one turn. The timer calls this; tests call it after moving their clock."""
        if self.is_paused:
            return
        self._turns_count += 1
        self._work(self._clock(), self._turns_count % max(1, self._config.hz) == 0)
