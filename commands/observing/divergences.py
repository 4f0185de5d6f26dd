"""Commands of the primary that end in an error here: the two datasets are then no longer the same."""

from __future__ import annotations

import logging
from typing import Final

from ...store.errors import ReplyError

logger = logging.getLogger(__name__)

# Time between two lines of the server log: a dataset that differs makes many errors.
LOG_INTERVAL_MS: Final = 60_000


class Divergences:
    """Logs one error a minute. As in Redis, the stream continues."""

    def __init__(self) -> None:
        self._logged_ms = -LOG_INTERVAL_MS
        self._unlogged_count = 0

    def note(self, error: ReplyError, name: bytes, now_ms: int) -> None:
        """A command of the primary has ended in this error. `now_ms` is Unix time."""
        if now_ms - self._logged_ms < LOG_INTERVAL_MS:
            self._unlogged_count += 1
            return
        since = f" ({self._unlogged_count} more since the last such line)" if self._unlogged_count else ""
        self._logged_ms, self._unlogged_count = now_ms, 0
        logger.critical(
            "== CRITICAL == This replica is sending an error to its master: '%s' after processing the command '%s'%s",
            error.wire_text.decode("utf-8", "backslashreplace"),
            name.decode("utf-8", "backslashreplace"),
            since,
        )
