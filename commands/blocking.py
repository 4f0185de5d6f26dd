"""The reply of a command that must wait."""

from __future__ import annotations

from dataclasses import dataclass


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
    for_sync: bool = False
    """WAITAOF: run again after each fsync of the log, and, for its answer, at the deadline."""
