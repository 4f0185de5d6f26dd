"""What a handler may see and do besides the store: the caller, the time, the log, and the server's services."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiredis import pack_command

from ..store.database import Database, Store

if TYPE_CHECKING:
    from .client import Client
    from .services import Services


class Context:
    """One per server; the dispatcher sets `client`, `db` and `now_ms` before each command.

    Effects are what the command did, in absolute terms: a handler that changed something calls `log(...)` with the
    arguments of each command that a replay must run. Several effects of one command become one MULTI/EXEC group.
    """

    __slots__ = ("client", "db", "effects", "loading", "may_block", "now_ms", "server", "store")

    def __init__(self, store: Store, server: Services) -> None:
        self.store = store
        self.server = server
        self.client: Client
        self.db: Database = store.databases[0]
        self.now_ms = 0
        """Unix time in ms, one reading per command batch."""
        self.effects: list[tuple[int, bytes]] = []
        """(database index, RESP record) in order, drained by the dispatcher after each command."""
        self.loading = False
        """True while a log is replayed: LIMIT is not enforced, IDMP takes explicit IDs, nothing expires."""
        self.may_block = True
        """False inside MULTI/EXEC."""

    def log(self, *arguments: bytes) -> None:
        """Record an effect of the running command, to be replayed in the current database."""
        self.effects.append((self.db.index, pack_command(arguments)))
