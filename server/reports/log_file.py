"""The server log as a file, which another program may move away (`logfile`)."""

from __future__ import annotations

import logging
import sys
from logging.handlers import WatchedFileHandler


class LogFile(WatchedFileHandler):
    """`logfile`. If the file is moved away (log rotation), the next line opens it anew."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Ignore a failed write, such as one to a full disk, and show any other error."""
        if not isinstance(sys.exception(), OSError):
            super().handleError(record)
