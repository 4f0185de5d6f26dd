"""What can go wrong with the log.

LogError
├── LoadError        the log cannot be loaded: one line for the person who started the server
├── UnknownRecord    a record whose command does not exist
├── LogFailure       a write or fsync failed under `appendfsync always`
└── RdbError         an RDB file or a DUMP payload that cannot be read
"""

from __future__ import annotations

import errno
import os
from typing import Final

REMEDIES: Final = {
    errno.EACCES: "give the user that runs the server the right to read and write it",
    errno.EPERM: "give the user that runs the server the right to read and write it",
    errno.EROFS: "choose a folder that can be written to (dir)",
    errno.ENOTDIR: "a file stands where a folder is needed: move it away",
    errno.EISDIR: "a folder stands where a file is needed: move it away",
    errno.ENOSPC: "make room on that disk",
    errno.ELOOP: "a symbolic link is in the place of a file that the server writes: remove it",
    errno.EDQUOT: "make room on that disk",
}
"""What to do about an OSError, by errno."""


def explain(error: Exception) -> str:
    """One line for a person; that of an OSError names the path, what is wrong with it, and what to do."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    remedy = REMEDIES.get(error.errno or 0)
    text = f"{error.strerror}; {remedy}" if remedy else error.strerror
    return f"{os.path.abspath(os.fsdecode(error.filename))}: {text}" if error.filename else text


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
