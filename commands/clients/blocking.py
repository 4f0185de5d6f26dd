"""The reply of a command that must wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from ...protocol.replies import Reply
from ...store.companions.companion import Companion
from ...store.database import Database
from ...store.stream import Stream
from ..core.request_size import request_size

# Bytes of a key in the tables of waiting clients, without the key itself, as measured over a hundred thousand keys.
WAITING_KEY_SIZE: Final = 400


class Progress(Protocol):
    """How far the writes of a client are durable, for WAIT and WAITAOF, or whether a stop has failed. Such commands
    wait for no key and change nothing.
    """

    def is_enough(self) -> bool:
        """Whether the wait is over. Raises ReplyError if it cannot succeed any more."""
        ...

    def reply(self) -> Reply:
        """The reply if the wait ends now."""
        ...


class Blocked:
    """Returned by a handler whose command must wait. The dispatcher parks the client and runs `argv` again.

    It is run again after any command that touched one of `keys`, and after `wake_in_ms`. If the run returns Blocked
    again, the first deadline stays and the new `wake_in_ms` applies.
    """

    __slots__ = (
        "_memory_size",
        "argv",
        "block_ms",
        "blocks_again",
        "can_be_unblocked",
        "keys",
        "progress",
        "sent",
        "spent_ns",
        "waits_for",
        "wake_in_ms",
    )

    def __init__(
        self,
        keys: list[bytes],
        argv: list[bytes],
        block_ms: int | None,
        wake_in_ms: int | None = None,
        *,
        sent: list[bytes] | None = None,
        blocks_again: Callable[[Database, int], bool] | None = None,
        progress: Progress | None = None,
        can_be_unblocked: bool = True,
        waits_for: type[Stream] | type[Companion] = Stream,
    ) -> None:
        self.keys = keys
        # The command to run again; `$` is replaced by the ID it stood for.
        self.argv = argv
        # Time until the client gets the null array, or the reply of `progress`; None for BLOCK 0.
        self.block_ms = block_ms
        # Time until a pending entry may have become idle enough (XREADGROUP CLAIM).
        self.wake_in_ms = wake_in_ms
        # Run time of the handler before it blocked, set by its caller, and of what was done for it since.
        self.spent_ns = 0
        # The command as the client sent it, if that is not `argv`.
        self.sent = sent
        # Returns, given the database and the time, whether running it again would change nothing for the client: a
        # cheap check before a run. None if only a run can find out.
        self.blocks_again = blocks_again
        # Set for WAIT, WAITAOF and SHUTDOWN, which are never run again: it is checked after each fsync of the log, and
        # when replicas confirm something.
        self.progress = progress
        # Whether CLIENT UNBLOCK ends the wait.
        self.can_be_unblocked = can_be_unblocked
        # The class of the values that end the wait.
        self.waits_for: Final = waits_for
        self._memory_size = 0

    @property
    def memory_size(self) -> int:
        """Size of the waiting request and its keys. Computed when it is first read."""
        if not self._memory_size:
            self._memory_size = request_size(self.argv) + WAITING_KEY_SIZE * len(self.keys)
        return self._memory_size
