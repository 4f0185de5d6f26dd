"""The memory of the dataset and the clients, compared with `maxmemory`.

    used = databases (keys, values, tables) + clients' buffers and subscriptions + keys tracked for them
         + unpacked chunks in memory + the log's buffer + scripts and what Lua holds
         + users with their rules + the entries of ACL LOG and SLOWLOG

This is `used_memory`, and `maxmemory` limits it. It does not include the interpreter, some tens of megabytes;
`used_memory_rss` is everything. Sizes are bytes.

Strings are counted as they are added and removed. Streams do not report their growth. While memory is plenty, the
periodic work measures streams in turn, `hz` times a second, and commands pay nothing. Within `margin` of the limit,
clients lose the fast path, every write measures the streams that it names, and commands that may need memory are
refused exactly when there is none.
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
from .process import resident_size

# Streams measured in one turn of the periodic work: about a millisecond.
STREAM_COUNT_PER_TURN: Final = 500

# Clients measured in one turn of the periodic work. Tests change it.
CLIENT_COUNT_PER_TURN = 1000

# With more streams than this, a report shows what the last turns have measured.
STREAM_COUNT_AT_ONCE_MAX: Final = 10_000

# Free memory that clients cannot fill between two turns of the periodic work, at full speed of writing.
MARGIN_MIN: Final = 16 << 20

# The margin is at least this power of two's share of maxmemory: an eighth.
MARGIN_SHIFT: Final = 3


class OutOfMemory(ReplyError):
    """A command may need memory, and there is none."""

    prefix = b"OOM"

    def __init__(self) -> None:
        super().__init__(b"command not allowed when used memory > 'maxmemory'.")


class HasClient(Protocol):
    """A connection."""

    client: Client


class Memory:
    """The used memory of one server. Calls `on_tight` whenever `is_tight` has changed.

    `may_evict`: whether keys may be evicted now, so that a command that needs memory waits or is refused.
    """

    def __init__(
        self,
        config: Config,
        context: Context,
        sessions: Mapping[int, HasClient],
        clock: Callable[[], int],
        buffers_size: Callable[[], int],
        on_tight: Callable[[], None],
        may_evict: Callable[[], bool],
    ) -> None:
        self._config = config
        self._context = context
        self._databases = context.store.databases
        self._sessions = sessions
        self._clock = clock
        self._buffers_size = buffers_size
        self._on_tight = on_tight
        self._may_evict = may_evict
        # Streams still to be measured in this round.
        self._round: list[tuple[Database, bytes]] = []
        # Clients still to be measured in this round.
        self._clients_round: list[HasClient] = []
        # Sum of the clients measured so far in this round.
        self._clients_sum = 0
        # Sum of all clients in the last round.
        self._clients_size = 0
        # Everything but keys and values, as of the last turn.
        self._rest_size = 0
        # Whether keys are evicted to get within the limit, so that commands that need memory need not be refused.
        self.is_evicting = False
        # Whether the limit is near, so that commands must be checked one by one.
        self.is_tight = False
        # As of the last measurement: keys, values and their tables; what is kept for clients.
        self.dataset_size = self.clients_size = 0
        self.peak_size = 0
        self.peak_ms = clock()
        # Resident memory of the interpreter and the code, before there are data.
        self._startup_resident_size = resident_size()

    def _measured_dataset(self) -> int:
        """Size of keys, values and their tables; streams as last measured."""
        size = 0
        for db in self._databases:
            if db.size or db.keys:
                size += db.memory_size
        return size

    def _measured_clients(self) -> int:
        """Size of clients' waiting requests and replies, subscriptions and tracked keys."""
        size = self._context.tracking.memory_size
        for session in self._sessions.values():
            size += session.client.memory_size
        return size

    def fragmentation(self, used_size: int, resident: int) -> tuple[float, int]:
        """How much more memory is resident than data and interpreter need: the ratio, and the difference."""
        needed_size = used_size + self._startup_resident_size
        return resident / max(needed_size, 1), resident - needed_size

    @property
    def used_size(self) -> int:
        """The cheapest current figure, for one check per turn."""
        return self._rest_size + self._keys_size

    @property
    def _keys_size(self) -> int:
        """Size of keys and values; streams as last measured."""
        size = 0
        for db in self._databases:
            size += db.size
        return size

    def measure(self) -> int:
        """The figure for a report, with all streams measured unless they are too many."""
        streams_count = 0
        for db in self._databases:
            streams_count += len(db.streams)
        if streams_count <= STREAM_COUNT_AT_ONCE_MAX:
            self._recount_streams()
        return self._refresh(self._measured_clients())

    def count_all(self) -> None:
        """Measure every stream, and compare with the limit."""
        self._recount_streams()
        self._refresh(self._measured_clients())

    def _recount_streams(self) -> None:
        for db in self._databases:
            if db.streams:
                for stream in db.streams.values():
                    db.recount(stream)

    def cron(self) -> None:
        """Measure the next streams and clients, and compare with the limit."""
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
        context, log_size = self._context, self._buffers_size()
        keys_size = self._keys_size
        self.dataset_size, self.clients_size = self._measured_dataset(), clients_size
        self._rest_size = self.dataset_size - keys_size + clients_size + unpacked_size() + log_size
        self._rest_size += context.scripts.cache_size + context.scripts.memory_size
        self._rest_size += context.libraries.cache_size + context.libraries.memory_size
        accounts = context.server.accounts
        self._rest_size += accounts.users.memory_size + accounts.acl_log.memory_size
        self._rest_size += context.slow_log.memory_size
        used_size = self._rest_size + keys_size
        if used_size > self.peak_size:
            self.peak_size, self.peak_ms = used_size, self._clock()
        limit: int = self._config.maxmemory
        is_near = bool(limit) and limit - used_size < max(MARGIN_MIN, limit >> MARGIN_SHIFT)
        is_tight = is_near and not self._is_exempt
        if is_tight != self.is_tight:
            self.is_tight = context.is_counting = is_tight
            self._on_tight()
        return used_size

    def refusal(self) -> OutOfMemory | None:
        """The error of commands that need memory while the limit is exceeded; otherwise None.

        As in Redis, None too while no key may be evicted: during a pause the command waits, and is checked at its end.
        """
        return OutOfMemory() if self.is_exceeded and not self.is_evicting and self._may_evict() else None

    @property
    def is_exceeded(self) -> bool:
        """Whether more memory is used than the limit allows."""
        limit: int = self._config.maxmemory
        return bool(limit) and self.used_size > limit and not self._is_exempt

    @property
    def _is_exempt(self) -> bool:
        """Whether the limit does not apply: to a replica, whose dataset is as large as that of its primary."""
        is_following = self._context.server.following.address is not None
        return is_following and bool(self._config.replica_ignore_maxmemory)
