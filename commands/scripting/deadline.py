"""How long a script may run. While it does nobody else is served, so one that has written nothing is ended in time."""

from __future__ import annotations

import logging
from time import monotonic_ns
from typing import Final

from .errors import ScriptError

logger = logging.getLogger(__name__)

OUT_OF_TIME: Final = 1
STOPPING: Final = 2


class Deadline:
    """Of the running script; its time counts from `begin`."""

    def __init__(self) -> None:
        self._limit_ms = 0
        self._end_ns = 0
        self._is_reported = False
        self.has_written = False
        """It has changed something: ended now, it would leave half of its work."""
        self.is_stopping = False
        """The server was asked to stop: it does after the script, which ends now unless it has written."""

    def begin(self, limit_ms: int) -> None:
        """A script starts; 0 is no limit."""
        self._limit_ms = limit_ms
        self._end_ns = monotonic_ns() + limit_ms * 1_000_000
        self._is_reported = self.has_written = False

    def over(self) -> int:
        """Why the script must end now, by its place in `reasons`; 0 while it may go on. Reports, once, one that cannot
        be ended.
        """
        is_late = self._limit_ms > 0 and monotonic_ns() >= self._end_ns
        if not is_late and not self.is_stopping:
            return 0
        if self.has_written:
            if is_late and not self._is_reported:
                logger.warning(
                    "a script runs for more than %d ms and has written: it cannot be ended, nobody else is served",
                    self._limit_ms,
                )
                self._is_reported = True
            return 0
        return STOPPING if self.is_stopping else OUT_OF_TIME

    @property
    def reasons(self) -> tuple[bytes, bytes]:
        """The errors that end a script, in the order of what `over` returns."""
        limit_ms = self._limit_ms
        return (
            ScriptError(
                b"Script ended: it ran for more than %d ms (busy-reply-threshold) and had written nothing" % limit_ms
            ).text,
            ScriptError(b"Script ended: the server was asked to stop, and it had written nothing").text,
        )

    def require(self) -> None:
        """Raises ScriptError if the script must end now."""
        reason = self.over()
        if reason:
            raise ScriptError(self.reasons[reason - 1], prefix=b"")
