"""What the server offers to commands, as small interfaces: commands never import the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ...store.errors import ReplyError
from ..clients.client import Client
from ..clients.courier import Courier
from ..core.directives import Directives
from ..permissions.log import AclLog
from ..permissions.users import Users


class Counters(Protocol):
    """What commands count, and INFO shows: `server.reports.stats.Stats`."""

    started_ms: int
    commands_processed: int
    expired_keys: int
    acl_denied_auth: int
    acl_denied_command: int
    acl_denied_key: int
    acl_denied_channel: int
    acl_denied_certificate: int

    def count_error(self, wire_text: bytes) -> None:
        """An error has been answered."""
        ...


class MemoryLimit(Protocol):
    """The limit `maxmemory`: `server.reports.memory.Memory`."""

    def require(self) -> None:
        """Raises OutOfMemory while the limit is passed."""
        ...


class Work(Protocol):
    """What DEBUG switches of the periodic work: `server.periodic.PeriodicWork`."""

    # Whether keys are removed that have expired and that no client reads.
    expires_keys: bool
    is_paused: bool


class Clients(Protocol):
    """What commands may do to other clients: `server.requests.connected_clients.ConnectedClients`."""

    @property
    def by_id(self) -> dict[int, Client]:
        """Connected clients by ID, oldest first."""
        ...

    def kill(self, client: Client) -> None:
        """Close a connection. A client that kills itself gets its reply first."""
        ...

    def unblock(self, client: Client, *, with_error: bool) -> bool:
        """End a blocked read early (CLIENT UNBLOCK). Returns False if the client was not blocked."""
        ...

    def pause(self, pause_ms: int, *, writes_only: bool) -> None:
        """Hold back commands for `pause_ms` (CLIENT PAUSE)."""
        ...

    def unpause(self) -> None:
        """Run the commands that were held back."""
        ...


class Accounts(Protocol):
    """Who may log in, and what they may do: `server.requests.user_accounts.UserAccounts`."""

    users: Users
    # What was refused lately.
    acl_log: AclLog

    def apply(self) -> None:
        """Put changed users in force: close connections of users that were deleted, and of subscribers that may no
        longer read their channels. Other connections continue under the new rules.
        """
        ...

    def load(self) -> None:
        """ACL LOAD: load all users of `aclfile`, or none if a line is wrong. Raises GenericError."""
        ...

    def save(self) -> None:
        """ACL SAVE: write all users to `aclfile`. Raises GenericError."""
        ...


class Log(Protocol):
    """The append-only file: `persistence.aof.AppendOnlyLog`."""

    # Up to which mark of `Client.write_mark` it is on stable storage.
    synced_mark: int
    # DEBUG AOF-FLUSH-SLEEP: a wait before each write to the file.
    flush_delay_us: int


class Storage(Protocol):
    """The dataset on disk: `server.storage.disk_storage.DiskStorage`."""

    @property
    def log(self) -> Log | None:
        """None while no log is kept."""
        ...

    @property
    def last_save_ms(self) -> int:
        """When dump.rdb was last complete, or the server started; Unix ms."""
        ...

    def refusal_of_writes(self) -> ReplyError | None:
        """MISCONF while the log or the snapshots cannot be written; None while they can."""
        ...

    def save(self) -> bool:
        """SAVE: write dump.rdb now. Returns False if that failed. Raises GenericError while BGSAVE runs."""
        ...

    def save_in_background(self, *, may_wait: bool, may_start: bool) -> bool:
        """BGSAVE [SCHEDULE]; `may_start` is False inside EXEC. Returns False if only scheduled. Raises GenericError."""
        ...

    def rewrite_log(self, *, may_start: bool) -> bool:
        """BGREWRITEAOF; `may_start` is False inside EXEC. Returns False if only scheduled. Raises GenericError."""
        ...

    def reload_log(self) -> None:
        """DEBUG LOADAOF: empty the dataset and replay the append-only file. Raises GenericError."""
        ...

    def reload_dataset(self) -> None:
        """DEBUG RELOAD: turn the dataset into an RDB file, empty it and load it again. Raises GenericError."""
        ...

    def shutdown(self, *, save: bool | None, force: bool) -> None:
        """Stop after this command. Raises GenericError if the dataset cannot be written, and continues to serve."""
        ...


class Reports(Protocol):
    """What the server reports about itself: `server.reports.server_reports.ServerReports`."""

    def info(self, sections: list[bytes]) -> bytes:
        """The text of INFO for these lower-case section names; none means the default ones."""
        ...

    def memory_stats(self) -> dict[bytes, object]:
        """MEMORY STATS."""
        ...

    def memory_doctor(self) -> str:
        """MEMORY DOCTOR."""
        ...

    def purge_memory(self) -> None:
        """Return free memory to the system, as far as that is possible."""
        ...

    def reset(self) -> None:
        """CONFIG RESETSTAT."""
        ...


@dataclass(slots=True)
class Services:
    """The server as commands see it."""

    config: Directives
    stats: Counters
    memory: MemoryLimit
    work: Work
    courier: Courier
    clients: Clients
    accounts: Accounts
    storage: Storage
    reports: Reports
