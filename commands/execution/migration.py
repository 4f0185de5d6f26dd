"""What MIGRATE sends to another server, and what that server answered. The server of this process does the sending."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ...protocol.packing import pack_command
from ...store.database import Database
from ...store.observed import Watcher


class SentKey(NamedTuple):
    """A key as it was when it was sent."""

    key: bytes
    # What notices that the key changes, even to an equal value: the other server may have sent it back.
    watch: Watcher
    payload: bytes
    # Its expiry time, Unix ms; None without one.
    due_ms: int | None


@dataclass(frozen=True, slots=True)
class Order:
    """A transfer of keys to another server."""

    host: bytes
    port: int
    # How long that server may take nothing and answer nothing.
    timeout_ms: int
    # The requests before the keys, packed.
    opening: list[bytes]
    keys: list[SentKey]
    # Where the keys are.
    db: Database
    # Whether keys that exist there are replaced.
    replaces: bool
    # When the keys were read, Unix ms.
    now_ms: int

    def release(self) -> None:
        """Stop noticing changes of the keys."""
        for sent in self.keys:
            self.db.unwatch(sent.key, sent.watch)

    def request(self, sent: SentKey) -> bytes:
        """The request that makes a key there."""
        ttl_ms = 0 if sent.due_ms is None else max(1, sent.due_ms - self.now_ms)
        words = [b"RESTORE", sent.key, b"%d" % ttl_ms, sent.payload]
        return pack_command([*words, b"REPLACE"] if self.replaces else words)


class Outcome:
    """How a transfer has ended."""

    __slots__ = ("failure", "refusals")

    def __init__(self) -> None:
        # For each key that was answered, in order: the error, or None if it is there now.
        self.refusals: list[bytes | None] = []
        # What could not be done with the connection, as in `IOERR error or timeout <failure>`; empty if it served.
        self.failure = b""
