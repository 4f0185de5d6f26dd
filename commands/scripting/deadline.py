"""The time limit of scripts. While a script runs, no other client is served.

A script that has written nothing is ended at its limit.
"""

from __future__ import annotations

import logging
from time import monotonic_ns
from typing import Final

from .errors import ScriptError

logger = logging.getLogger(__name__)

OUT_OF_TIME: Final = 1
STOPPING: Final = 2


class Deadline:
    """The time limit of the running script, from the first check after `begin` on."""

    def __init__(self) -> None:
        self._limit_ms = 0
        # As `monotonic_ns`; 0 until the first check, which is soon after the script has begun.
        self._end_ns = 0
        # The texts of the errors that end a script, in the order of the results of `over`.
        self.reasons = _reasons(0)
        self._is_reported = False
        # Whether the script has written; then it is not ended, because half of its writes would stay.
        self.has_written = False
        # Whether the server is to stop. It stops after the script, which is ended now if it has written nothing.
        self.is_stopping = False

    def begin(self, limit_ms: int) -> None:
        """Starts the time of a script, which runs from the first check on; a limit of 0 means no limit."""
        if limit_ms != self._limit_ms:
            self._limit_ms, self.reasons = limit_ms, _reasons(limit_ms)
        self._end_ns = 0
        self._is_reported = self.has_written = False

    def over(self) -> int:
        """Returns why the script must end now, as an index into `reasons` from 1 on; 0 if it may continue.

        Logs a warning, once, if the script is over its limit but cannot be ended.
        """
        now_ns = monotonic_ns()
        if not self._end_ns:
            self._end_ns = now_ns + self._limit_ms * 1_000_000
        is_late = self._limit_ms > 0 and now_ns >= self._end_ns
        if not is_late and not self.is_stopping:
            return 0
        if self.has_written:
            if is_late and not self._is_reported:
                logger.warning(
                    "a script has run for more than %d ms and has written: it cannot be stopped, no other client is "
                    "served",
                    self._limit_ms,
                )
                self._is_reported = True
            return 0
        return STOPPING if self.is_stopping else OUT_OF_TIME

    def require(self) -> None:
        """Raises ScriptError if the script must end now."""
        reason = self.over()
        if reason:
            raise ScriptError(self.reasons[reason - 1], prefix=b"")


def _reasons(limit_ms: int) -> tuple[bytes, bytes]:
    return (
        ScriptError(
            b"Script ended: it ran for more than %d ms (busy-reply-threshold) and had written nothing" % limit_ms
        ).text,
        ScriptError(b"Script ended: the server was asked to stop, and it had written nothing").text,
    )
