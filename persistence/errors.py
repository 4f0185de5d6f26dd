"""What can go wrong with the log.

LogError
├── LoadError        the log cannot be loaded: one line for the person who started the server
├── UnknownRecord    a record whose command does not exist
├── LogFailure       a write or fsync failed under `appendfsync always`
└── RdbError         an RDB file or a DUMP payload that cannot be read
"""

from __future__ import annotations


class LogError(Exception):
    """Anything about the log; the text is one line for a person."""


class LoadError(LogError):
    """The log cannot be loaded."""


class UnknownRecord(LogError):
    """A record whose command does not exist; raised by the one who applies records. The text is the command."""


class LogFailure(LogError):
    """A write or fsync failed under `appendfsync always`: nothing that waits for it may be answered."""


class RdbError(LogError):
    """An RDB file or a DUMP payload that cannot be read: damaged, too new, or with values that are not ours."""
