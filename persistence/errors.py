"""The errors of the log and of RDB data.

LogError
├── LoadError        the log cannot be loaded: one line for the user who started the server
│   └── UnknownPolicyLine  a policy line that a newer Headrace has written
├── UnknownRecord    a record whose command does not exist
├── BadPolicyLine    a policy line that cannot be read
├── LogFailure       a write or fsync failed under `appendfsync always`
└── RdbError         an RDB file or a DUMP payload that cannot be read
    ├── EmptyValue        a value without members, which Redis leaves out
    ├── ForeignType       a key of a type that Headrace does not have
    ├── RowsError         a dataset of a primary that is in the form of rows, and damaged or of an unknown version
    └── TooManyDatabases  a key of a database that this server does not have
"""

from __future__ import annotations

import errno
import os
from stat import S_ISBLK, S_ISCHR, S_ISFIFO, S_ISSOCK
from typing import ClassVar, Final

# What to do about an OSError, by errno.
REMEDIES: Final = {
    errno.EACCES: "give the user that runs the server the right to read and write it",
    errno.EPERM: "give the user that runs the server the right to read and write it",
    errno.EROFS: "choose a folder that can be written to (dir)",
    errno.ENOTDIR: "a file is in the place of a folder: move it away",
    errno.EISDIR: "a folder is in the place of a file: move it away",
    errno.ENOSPC: "free space on that disk",
    errno.ELOOP: "a symbolic link is in the place of a file that the server writes: remove it",
    errno.EDQUOT: "free space on that disk",
}


# Bytes of a policy line that a message shows.
POLICY_LINE_SHOWN_SIZE: Final = 100

FILE_KINDS: Final = ((S_ISFIFO, "a FIFO"), (S_ISSOCK, "a socket"), (S_ISCHR, "a device"), (S_ISBLK, "a device"))


class NotRegularFile(OSError):
    """A FIFO, a device or a socket is in the place of a file: to read it could take forever."""

    advice = "move it away, or name another file"

    def __init__(self, path: str | bytes, mode: int) -> None:
        kind = next((name for is_kind, name in FILE_KINDS if is_kind(mode)), "something else")
        super().__init__(errno.EINVAL, f"it is {kind}, not a regular file", path)


def explain(error: Exception) -> str:
    """Return one line for the user. For an OSError it names the path, the error, and what to do."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    advice = remedy(error, "")
    text = f"{error.strerror}; {advice}" if advice else error.strerror
    return f"{os.path.abspath(os.fsdecode(error.filename))}: {text}" if error.filename else text


def remedy(error: OSError, otherwise: str) -> str:
    """What to do about an OSError; `otherwise` is the advice if nothing is known about its errno."""
    return error.advice if isinstance(error, NotRegularFile) else REMEDIES.get(error.errno or 0, otherwise)


class LogError(Exception):
    """An error of the log. The text is one line for the user."""


class LoadError(LogError):
    """The log cannot be loaded."""


class UnknownPolicyLine(LoadError):
    """A policy line of a kind that this version does not know."""

    def __init__(self, name: bytes) -> None:
        self.name = name
        shown = name.decode("utf-8", "backslashreplace")
        super().__init__(f"Unknown policy line '{shown}': a newer version of Headrace has written it; start that one")


class BadPolicyLine(LogError):
    """A policy line that cannot be read: a part is missing, or it does not have the form of words."""

    def __init__(self, line: bytes) -> None:
        shown = line[:POLICY_LINE_SHOWN_SIZE].decode("utf-8", "backslashreplace").rstrip()
        super().__init__(f"a policy line that cannot be read: '{shown}'")


class UnknownRecord(LogError):
    """A record whose command does not exist. Raised by the function that applies records. The text is the command."""

    # What to do about it; empty if nothing is known of the command.
    advice: ClassVar[str] = ""


class ForeignRecord(UnknownRecord):
    """A record of a command of Redis that Headrace does not have."""

    advice = "aof-skip-foreign-commands yes leaves out such records"


class LogFailure(LogError):
    """A write or fsync failed under `appendfsync always`: replies that wait for it must not be sent."""


class RdbError(LogError):
    """An RDB file or a DUMP payload that cannot be read: damaged, too new, or with values of unsupported types."""

    # What to do about the error; empty for damage, where only another copy of the file helps.
    advice: ClassVar[str] = ""


class EmptyValue(RdbError):
    """A value without members: a file may have one, which is left out."""

    def __init__(self) -> None:
        super().__init__("a value without members")


class ForeignType(RdbError):
    """A key of a type that Headrace does not have."""

    advice = "rdb-skip-foreign-types yes leaves out such keys"


class RowsError(RdbError):
    """A dataset of a primary that is in the form of rows, and damaged or of an unknown version."""


class TooManyDatabases(RdbError):
    """A key of a database that this server does not have."""

    advice = "start with more databases (databases)"
