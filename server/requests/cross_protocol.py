"""Cross-protocol requests: a web page, for example, makes a browser send `POST` to this port, with commands as body."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

logger = logging.getLogger(__name__)

# Shortest time between two warnings, as in Redis: such requests must not fill the server log.
INTERVAL_MS: Final = 60_000


class CrossProtocol:
    """Logs a warning about cross-protocol requests, at most one a minute. `clock` returns Unix ms."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._warned_ms = 0

    def note(self, address: bytes) -> None:
        """Log that the connection from this address is closed for such a request."""
        now_ms = self._clock()
        if abs(now_ms - self._warned_ms) > INTERVAL_MS:  # the clock may have been set back
            self._warned_ms = now_ms
            logger.warning(
                "Possible SECURITY ATTACK detected. It looks like somebody is sending POST or Host: commands to "
                "Headrace. A web page may be trying to run commands here through a visitor's browser "
                "(Cross Protocol Scripting). Connection from %s aborted.",
                address.decode(),
            )
