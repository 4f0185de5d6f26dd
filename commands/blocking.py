"""The reply of a command that must wait."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..store.database import Database


@dataclass(slots=True)
class Blocked:
    """A handler's way to say "nothing yet": the dispatcher parks the client and runs `argv` again when told to.

    The waiter is run again after any command that touched one of `keys`, and when `wake_ms` has passed. A re-run
    that answers Blocked again keeps the first deadline and takes the new `wake_ms`.
    """

    keys: list[bytes]
    argv: list[bytes]
    """The command to run again; `$` is replaced by the ID it stood for."""
    deadline_ms: int | None
    """Unix ms at which the client gets the null array (see `for_sync`); None for BLOCK 0."""
    wake_ms: int | None = None
    """Unix ms after which a pending entry may have become idle enough (XREADGROUP CLAIM)."""
    spent_ns: int = 0
    """Time the run took that ended in blocking; set by whoever ran it."""
    sent: list[bytes] | None = None
    """The command as the client sent it, where that is not `argv`."""
    is_in_vain: Callable[[Database, int], bool] | None = None
    """Says, given the database and the time, whether to run it again would change nothing for the client: a cheaper way
    to the same. None where only a run can tell."""
    for_sync: bool = False
    """WAITAOF: run again after each fsync of the log, and, for its answer, at the deadline."""
