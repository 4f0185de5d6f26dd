"""Lines of the server log in Redis' form: `4711:M 21 Nov 2026 09:00:00.000 * text`, on standard output or in
`logfile`.

Modules log through `logging.getLogger(__name__)`. The levels of `loglevel` and the marks in the line:

    debug     .    logging.DEBUG
    verbose   -    VERBOSE
    notice    *    logging.INFO
    warning   #    logging.WARNING and above
    nothing        no line at all
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Sequence
from io import TextIOWrapper
from typing import TYPE_CHECKING, Final, TextIO

from ... import REDIS_VERSION, __version__, build_form

if TYPE_CHECKING:
    from ..configuration.config import Config

# Between DEBUG and INFO.
VERBOSE: Final = 15

# The levels by the words of `loglevel`.
LEVELS: Final = {
    b"debug": logging.DEBUG,
    b"verbose": VERBOSE,
    b"notice": logging.INFO,
    b"warning": logging.WARNING,
    b"nothing": logging.CRITICAL + 1,
}

# The package's logger, parent of every module's.
ROOT: Final = __name__.partition(".server")[0]


class LineFormatter(logging.Formatter):
    """Formats a record as one line; the traceback of an exception follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """`pid:M date time mark text`, in local time."""
        seconds = int(record.created)
        stamp = time.strftime("%d %b %Y %H:%M:%S", time.localtime(seconds))
        message = record.getMessage().replace("\r", " ").replace("\n", " ")
        # Each line reads the process id anew: a daemon has another one than the process that set up the server log.
        line = f"{os.getpid()}:M {stamp}.{int(record.msecs):03d} {mark(record.levelno)} {message}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def mark(level: int) -> str:
    """The sign of a level in a line."""
    if level >= logging.WARNING:
        return "#"
    if level >= logging.INFO:
        return "*"
    return "-" if level >= VERBOSE else "."


class StandardOutput(logging.StreamHandler[TextIO]):
    """Standard output. If its reader has closed it, lines are lost, as in Redis."""

    def __init__(self) -> None:
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        super().__init__(sys.stdout)

    def handleError(self, record: logging.LogRecord) -> None:
        """Ignore a failed write, and show any other error."""
        error = sys.exception()
        if isinstance(error, BrokenPipeError):
            # Otherwise Python would try to write the rest when it exits, and report that as a failure.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stream.fileno())
            os.close(nowhere)
        elif not isinstance(error, OSError):
            super().handleError(record)


def set_up(config: Config) -> None:
    """Send the package's server log to `logfile`, or to standard output if it is empty. Raises OSError."""
    logger = logging.getLogger(ROOT)
    handler = _handler(os.fsdecode(config.logfile))
    handler.setFormatter(LineFormatter())
    for old_handler in logger.handlers[:]:
        logger.removeHandler(old_handler)
        old_handler.close()
    logger.addHandler(handler)
    logger.propagate = False
    set_level(config.loglevel)


def _handler(path: str) -> logging.Handler:
    if not path:
        return StandardOutput()
    # A start without `logfile` does not need it, and it imports pickle.
    from .log_file import LogFile

    return LogFile(path, errors="backslashreplace")


def set_level(loglevel: bytes) -> None:
    """Apply a word of `loglevel`."""
    logging.getLogger(ROOT).setLevel(LEVELS[loglevel])


def banner(config: Config, addresses: Sequence[str]) -> str:
    """The line that describes the started server: addresses, versions, what survives a stop, and the configuration
    file.
    """
    where = ", ".join(addresses) or "no address"
    if config.appendonly:
        kept = f"append-only file (appendfsync {config.appendfsync.decode()})"
    else:
        kept = f"snapshots (save {config.save.decode()})" if config.save else "none"
    file = os.fsdecode(config.file_path) if config.file_path else "none"
    return (
        f"Headrace {__version__} (Redis {REDIS_VERSION} compatible; form: {build_form()}) ready on {where}; "
        f"persistence: {kept} in {os.fsdecode(config.dir)}; config file: {file}"
    )
