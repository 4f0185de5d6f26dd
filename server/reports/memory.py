"""How much memory the dataset and the clients take, and what `maxmemory` says to that.

    used = databases (keys, values, tables) + clients' buffers and subscriptions + keys tracked for them
         + unpacked chunks at hand + the log's buffer + scripts and what Lua holds
         + users with their rules + the entries of ACL LOG and SLOWLOG

That is `used_memory`, and what `maxmemory` is compared with. The interpreter itself, some tens of megabytes, is not in
it: `used_memory_rss` has everything. Sizes are bytes.

Strings are counted as they come and go. Streams do not tell when they grow: while memory is plenty they are looked at
in turn, ten times a second, and commands pay nothing. Within `margin` of the limit the clients stop being plain, every
write recounts the streams it names, and commands that may need memory are refused once there is none: exactly then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from ...commands.clients.client import Client
from ...commands.execution.context import Context
from ...store.chunk import unpacked_size
from ...store.database import Database
from ...store.errors import ReplyError
from ..configuration.config import Config

# Streams looked at in one turn of the periodic work: about a millisecond.
STREAM_COUNT_PER_TURN: Final = 500

# Clients looked at in one turn, likewise.
CLIENT_COUNT_PER_TURN: Final = 1000

# With more streams than this, somebody who asks for the figure gets what the last turns have found.
STREAM_COUNT_AT_ONCE_MAX: Final = 10_000

# Free memory that nobody can fill between two turns of the periodic work, at full speed of writing.
MARGIN_MIN: Final = 16 << 20

# The margin is at least this power of two's share of maxmemory: an eighth.
MARGIN_SHIFT: Final = 3


class OutOfMemory(ReplyError):
    """A command that may need memory while there is none."""

    prefix = b"OOM"

    def __init__(self) -> None:
        super().__init__(b"command not allowed when used memory > 'maxmemory'.")


class HasClient(Protocol):
    """A connection."""

    client: Client


class Memory:
    """The account of one server. `on_tight` is called whenever `is_tight` has changed."""

    def __init__(
        self,
        config: Config,
        context: Context,
        sessions: Mapping[int, HasClient],
        clock: Callable[[], int],
        log_buffer_size: Callable[[], int],
        on_tight: Callable[[], None],
    ) -> None:
        self._config = config
        self._context = context
        self._databases = context.store.databases
        self._sessions = sessions
        self._clock = clock
        self._log_buffer_size = log_buffer_size
        self._on_tight = on_tight
        # Streams still to be looked at in this round.
        self._round: list[tuple[Database, bytes]] = []
        # Clients still to be looked at in this round.
        self._clients_round: list[HasClient] = []
        # What those have that were looked at in this round.
        self._clients_sum = 0
        # What all had in the last round.
        self._clients_size = 0
        # All but keys and values, as of the last turn.
        self._rest_size = 0
        # The limit is near: commands must be looked at one by one.
        self.is_tight = False
        self.peak_size = 0
        self.peak_ms = clock()

    @property
    def dataset_size(self) -> int:
        """Keys, values and their tables; streams as of when they were last looked at."""
        return sum(db.memory_size for db in self._databases if db.keys or db.size)

    @property
    def clients_size(self) -> int:
        """What clients have sent and not run, and got and not read, what they listen to and what they may cache."""
        tracked_size = self._context.tracking.memory_size
        sessions = self._sessions.values()
        return tracked_size + sum(session.client.memory_size for session in sessions)

    @property
    def used_size(self) -> int:
        """The figure of this moment, as cheap as it can be had: one command after a turn."""
        return self._rest_size + sum(db.size for db in self._databases)

    def measure(self) -> int:
        """The figure for somebody who asks, with all streams looked at unless they are too many."""
        databases = self._databases
        if sum(len(db.streams) for db in databases) <= STREAM_COUNT_AT_ONCE_MAX:
            self.count_all()
        return self._refresh(self.clients_size)

    def count_all(self) -> None:
        """Look at every stream."""
        for db in self._databases:
            for stream in db.streams.values():
                db.recount(stream)
        self._refresh(self.clients_size)

    def cron(self) -> None:
        """Look at the next streams and clients, and at how near the limit is."""
        databases = self._databases
        if not self._round:
            self._round = [(db, key) for db in databases for key in db.streams]
        for db, key in self._round[-STREAM_COUNT_PER_TURN:]:
            stream = db.streams.get(key)
            if stream is not None:
                db.recount(stream)
        del self._round[-STREAM_COUNT_PER_TURN:]
        self._look_at_clients()
        self._refresh(self._clients_size + self._context.tracking.memory_size)

    def _look_at_clients(self) -> None:
        if not self._clients_round:
            self._clients_round, self._clients_sum = list(self._sessions.values()), 0
        for session in self._clients_round[-CLIENT_COUNT_PER_TURN:]:
            self._clients_sum += session.client.memory_size
        del self._clients_round[-CLIENT_COUNT_PER_TURN:]
        if not self._clients_round:
            self._clients_size = self._clients_sum

    def _refresh(self, clients_size: int) -> int:
        context, log_size = self._context, self._log_buffer_size()
        keys_size = sum(db.size for db in self._databases)
        self._rest_size = self.dataset_size - keys_size + clients_size + unpacked_size() + log_size
        self._rest_size += context.scripts.cache_size + context.scripts.memory_size
        accounts = context.server.accounts
        self._rest_size += accounts.users.memory_size + accounts.acl_log.memory_size
        self._rest_size += context.slow_log.memory_size
        used_size = self._rest_size + keys_size
        if used_size > self.peak_size:
            self.peak_size, self.peak_ms = used_size, self._clock()
        limit: int = self._config.maxmemory
        is_tight = bool(limit) and limit - used_size < max(MARGIN_MIN, limit >> MARGIN_SHIFT)
        if is_tight != self.is_tight:
            self.is_tight = context.is_counting = is_tight
            self._on_tight()
        return used_size

    def require(self) -> None:
        """Raise OutOfMemory if there is none left."""
        limit: int = self._config.maxmemory
        if limit and self.used_size > limit:
            raise OutOfMemory
