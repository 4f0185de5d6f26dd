"""How long a script may run. While it does nobody else is served, so one that has written nothing is ended in time."""

from __future__ import annotations

import logging
from time import monotonic_ns

from .errors import ScriptError

logger = logging.getLogger(__name__)


class Deadline:
    """Of the running script; its time counts from `begin`."""

    def __init__(self) -> None:
        self._limit_ms = 0
        self._end_ns = 0
        self._is_reported = False
        self.has_written = False
        """It has changed something: ended now, it would leave half of its work."""

    def begin(self, limit_ms: int) -> None:
        """A script starts; 0 is no limit."""
        self._limit_ms = limit_ms
        self._end_ns = monotonic_ns() + limit_ms * 1_000_000
        self._is_reported = self.has_written = False

    def over(self) -> bytes | None:
        """The error that ends the script now; None while it may go on. Reports, once, one that cannot be ended."""
        if not self._limit_ms or monotonic_ns() < self._end_ns:
            return None
        if self.has_written:
            if not self._is_reported:
                logger.warning(
                    "a script runs for more than %d ms and has written: it cannot be ended, nobody else is served",
                    self._limit_ms,
                )
                self._is_reported = True
            return None
        return ScriptError(
            b"Script ended: it ran for more than %d ms (busy-reply-threshold) and had written nothing" % self._limit_ms
        ).text
