"""The counters that commands change. INFO shows them, and the server extends the class by its own."""

from __future__ import annotations

import logging
from typing import Final

logger = logging.getLogger(__name__)

# Code words counted separately. One more disables all of them until CONFIG RESETSTAT, as in Redis: scripts invent code
# words.
ERROR_CODE_COUNT_MAX: Final = 128

# The name of the only counter when there were too many code words.
ERRORS_DISABLED: Final = b"ERRORSTATS_DISABLED"


class Counters:
    """Counters since the start or CONFIG RESETSTAT, which the class that extends this one sets to 0."""

    # Unix ms; CONFIG RESETSTAT keeps it.
    started_ms: int
    commands_processed: int
    expired_keys: int
    # Fields of hashes that expiry removed.
    expired_subkeys: int
    acl_denied_auth: int
    acl_denied_command: int
    acl_denied_key: int
    acl_denied_channel: int
    acl_denied_certificate: int
    # Payloads of streams that `sanitize-dump-payload` wants checked in full.
    payload_checks: int
    error_replies: int
    unexpected_error_replies: int

    def __init__(self) -> None:
        # Error replies by code word, unless there are too many code words.
        self.errors: dict[bytes, int] = {}
        self._counts_codes = True

    def forget_errors(self) -> None:
        """Remove the counters of code words."""
        self.errors.clear()
        self._counts_codes = True

    def count_error(self, code: bytes) -> None:
        """Count an error reply under its code word."""
        self.error_replies += 1
        if not self._counts_codes:
            return
        errors = self.errors
        count = errors.get(code)
        if count is not None:
            errors[code] = count + 1
        elif len(errors) < ERROR_CODE_COUNT_MAX:
            errors[code] = 1
        else:
            logger.warning(
                "Errorstats stopped: there are more than %d code words, perhaps from scripts. CONFIG RESETSTAT starts "
                "the count again.",
                ERROR_CODE_COUNT_MAX,
            )
            self._counts_codes = False
            errors.clear()
            errors[ERRORS_DISABLED] = 1
