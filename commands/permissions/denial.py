"""A refusal as a value: the error that a client gets, and the text of ACL DRYRUN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...store.errors import ReplyError

# Of several refusals (one of each selector), the one with the highest rank is reported.
RANKS: Final = {"command": 1, "key": 2, "channel": 3}

CHANGED_RULES: Final = (
    b"ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no "
    b"longer allowed for the following reason: "
)
REASONS_AT_EXEC: Final = {
    "command": b"no permission to execute the command or subcommand",
    "key": b"no permission to touch the specified keys",
    "channel": b"no permission to access one of the channels used as arguments",
}


class NoPermission(ReplyError):
    """The rules of the client's user refuse the request."""

    prefix = b"NOPERM"


@dataclass(frozen=True, slots=True)
class Denial:
    """One refusal. `reason` is command, key or channel; `object` names which; `position` orders those of one kind."""

    reason: str
    object: bytes
    position: int = 0

    @property
    def rank(self) -> tuple[int, int]:
        """A number that grows with the progress of the check."""
        return RANKS[self.reason], self.position

    def error(self, user: bytes) -> NoPermission:
        """The error for the client. Keys and channels are not named, since the client may have guessed them."""
        if self.reason == "command":
            return NoPermission(b"User %b has no permissions to run the '%b' command" % (user, self.object))
        return NoPermission(b"No permissions to access a %b" % self.reason.encode())

    def error_at_exec(self) -> NoPermission:
        """The error for a queued command that was allowed when it was queued."""
        return NoPermission(CHANGED_RULES + REASONS_AT_EXEC[self.reason])

    def dry_run_text(self, user: bytes) -> bytes:
        """The reply of ACL DRYRUN."""
        if self.reason == "command":
            return self.error(user).text
        return b"User %b has no permissions to access the '%b' %b" % (user, self.object, self.reason.encode())
