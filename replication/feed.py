"""The replication stream: effects of commands as the bytes that every replica gets.

It is the log in another frame. The stream has its own SELECT, and messages and requests for confirmation, which no log
has. It has no lines that begin with `#`.
"""

from __future__ import annotations

from typing import Final

from ..persistence.records import EXEC, MULTI, select_record
from ..protocol.packing import pack_command
from .history import History

PING = pack_command((b"ping",))
GETACK = pack_command((b"REPLCONF", b"GETACK", b"*"))
# Bytes of a piece that is worth sending alone: joined with others it is a second copy of a large value.
LARGE_SIZE: Final = 16 * 1024


class Feed:
    """Gathers the bytes of a turn, and counts them in the history."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._pieces: list[bytes] = []
        # The database of the last record; None if the next one must follow a SELECT.
        self.selected_db: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing was gathered since the last `take`."""
        return not self._pieces

    def append(self, effects: list[tuple[int, bytes]], grouped: bool) -> None:
        """Add the records of one unit (`grouped`: as one MULTI/EXEC), or of several one-record units.

        Hot: every effect passes here while there are replicas.
        """
        pieces = self._pieces
        first_index = len(pieces)
        if grouped:
            pieces.append(MULTI)
        for db_index, record in effects:
            if db_index != self.selected_db:
                pieces.append(select_record(db_index))
                self.selected_db = db_index
            pieces.append(record)
        if grouped:
            pieces.append(EXEC)
        self._history.offset += sum([len(piece) for piece in pieces[first_index:]])

    def append_deletions(self, keys: list[tuple[int, bytes]]) -> None:
        """Add the deletion of these keys, each with its database."""
        self.append([(index, pack_command((b"DEL", key))) for index, key in keys], grouped=False)

    def append_request(self, request: bytes) -> None:
        """Add a request of the primary itself, PING or GETACK, which concerns no database."""
        self._pieces.append(request)
        self._history.offset += len(request)

    def take(self) -> list[bytes]:
        """The bytes gathered since the last call: in one piece, or, if most are in large ones, as they were given."""
        pieces, self._pieces = self._pieces, []
        if len(pieces) > 1 and sum([len(piece) for piece in pieces]) < LARGE_SIZE * len(pieces):
            return [b"".join(pieces)]
        return pieces
