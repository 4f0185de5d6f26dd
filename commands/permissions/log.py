"""ACL LOG: the latest refusals, newest first. Equal ones within a minute are one entry that counts them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ...store.object_sizes import text_size

GROUPING_MS: Final = 60_000

# Bytes of an entry without its texts.
REFUSAL_SIZE: Final = 190


@dataclass(slots=True)
class Refusal:
    """One entry. Times are Unix ms."""

    # One of auth, command, key, channel and tls-cert.
    reason: str
    # Either toplevel, or multi inside a transaction.
    context: str
    # The command, key or channel; for auth the command with the password.
    object: bytes
    # The name of the user; for auth the name in the request.
    user: bytes
    # The client's line of CLIENT LIST at that time.
    client_line: bytes
    created_ms: int
    updated_ms: int
    id: int = 0
    count: int = 1

    def is_like(self, other: Refusal) -> bool:
        """Whether both are the same event within a minute."""
        return (
            (self.reason, self.context, self.object, self.user)
            == (other.reason, other.context, other.object, other.user)
            and abs(other.updated_ms - self.updated_ms) <= GROUPING_MS
        )  # fmt: skip

    @property
    def memory_size(self) -> int:
        """Bytes of the entry."""
        return REFUSAL_SIZE + text_size(self.object) + text_size(self.user) + text_size(self.client_line)

    def reply(self, now_ms: int) -> dict[bytes, Any]:
        """The entry as ACL LOG shows it."""
        return {
            b"count": self.count,
            b"reason": self.reason.encode(),
            b"context": self.context.encode(),
            b"object": self.object,
            b"username": self.user,
            b"age-seconds": (now_ms - self.updated_ms) / 1000,
            b"client-info": self.client_line,
            b"entry-id": self.id,
            b"timestamp-created": self.created_ms,
            b"timestamp-last-updated": self.updated_ms,
        }


class AclLog:
    """The entries of one server."""

    def __init__(self) -> None:
        self.entries: list[Refusal] = []
        # Bytes of the entries.
        self.memory_size = 0
        self._next_id = 0

    def add(self, refusal: Refusal, *, count_max: int) -> None:
        """Add an event at the front, and remove entries beyond `count_max`."""
        known = next((each for each in self.entries if each.is_like(refusal)), None)
        if known is not None:
            self.entries.remove(known)
            self.memory_size -= known.memory_size
            known.count += 1
            known.client_line, known.updated_ms = refusal.client_line, refusal.updated_ms
            refusal = known
        else:
            refusal.id = self._next_id
            self._next_id += 1
        self.entries.insert(0, refusal)
        self.memory_size += refusal.memory_size - sum(each.memory_size for each in self.entries[count_max:])
        del self.entries[count_max:]

    def clear(self) -> None:
        """ACL LOG RESET. Later entries continue the IDs."""
        self.entries.clear()
        self.memory_size = 0
