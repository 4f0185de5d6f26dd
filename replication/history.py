"""The history of a dataset: an ID, and an offset that counts the bytes of the replication stream.

Two servers with the same ID and offset have the same dataset. A server that takes over from another one gives its own
future a new ID and remembers the former ID, up to the offset at which the histories part.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

# Characters of an ID, all of them hexadecimal digits.
ID_SIZE: Final = 40
# The former ID of a history that continues no other one.
NO_ID: Final = "0" * ID_SIZE


def random_id() -> str:
    """A new ID, as no other history has."""
    return os.urandom(ID_SIZE // 2).hex()


class History:
    """The names and the length of one server's history."""

    def __init__(self, new_id: Callable[[], str] = random_id) -> None:
        self._new_id = new_id
        self.replid = new_id()
        # Bytes of the stream so far; the next byte is number `offset + 1`.
        self.offset = 0
        self.former_id = NO_ID
        # The first byte that the former history does not share, -1 without one.
        self.former_end = -1

    def restart(self) -> None:
        """Take a new ID that continues no former one: bytes are missing between the old history and the new one."""
        self.replid = self._new_id()
        self.former_id, self.former_end = NO_ID, -1

    def take_over(self) -> None:
        """Take a new ID that continues the present one: this server now makes the history that it has followed."""
        self.former_id, self.former_end = self.replid, self.offset + 1
        self.replid = self._new_id()

    def adopt(self, replid: str, offset: int) -> None:
        """Continue the history of a primary, whose dataset as of this offset has arrived."""
        self.replid, self.offset = replid, offset
        self.former_id, self.former_end = NO_ID, -1

    def continue_as(self, replid: str) -> None:
        """Take the ID that the primary has given to the history from here on."""
        if replid != self.replid:
            self.former_id, self.former_end = self.replid, self.offset + 1
            self.replid = replid

    def includes(self, replid: str, wanted_offset: int) -> bool:
        """Whether a replica that has everything before byte `wanted_offset` of the history `replid` has the same bytes
        as this server. As in Redis, the case of the ID does not matter.
        """
        asked = replid.lower()
        return asked == self.replid or (asked == self.former_id and wanted_offset <= self.former_end)
