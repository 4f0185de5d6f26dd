"""The reply of a command that must wait."""

from __future__ import annotations

from collections.abc import Callable

from ..store.database import Database


class Blocked:
    """A handler's way to say "nothing yet": the dispatcher parks the client and runs `argv` again when told to.

    The waiter is run again after any command that touched one of `keys`, and when `wake_ms` has passed. A re-run
    that answers Blocked again keeps the first deadline and takes the new `wake_ms`.
    """

    __slots__ = ("argv", "deadline_ms", "for_sync", "is_in_vain", "keys", "sent", "spent_ns", "wake_ms")

    def __init__(
        self,
        keys: list[bytes],
        argv: list[bytes],
        deadline_ms: int | None,
        wake_ms: int | None = None,
        *,
        sent: list[bytes] | None = None,
        is_in_vain: Callable[[Database, int], bool] | None = None,
        for_sync: bool = False,
    ) -> None:
        self.keys = keys
        self.argv = argv
        """The command to run again; `$` is replaced by the ID it stood for."""
        self.deadline_ms = deadline_ms
        """Unix ms at which the client gets the null array (see `for_sync`); None for BLOCK 0."""
        self.wake_ms = wake_ms
        """Unix ms after which a pending entry may have become idle enough (XREADGROUP CLAIM)."""
        self.spent_ns = 0
        """Time the run took that ended in blocking; set by whoever ran it."""
        self.sent = sent
        """The command as the client sent it, where that is not `argv`."""
        self.is_in_vain = is_in_vain
        """Says, given the database and the time, whether to run it again would change nothing for the client: a cheaper
        way to the same. None where only a run can tell."""
        self.for_sync = for_sync
        """WAITAOF: run again after each fsync of the log, and, for its answer, at the deadline."""
