"""What the server offers to commands, as small interfaces: commands never import the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ...protocol.replies import Reply
from ...store.errors import ReplyError
from ..clients.blocking import Progress
from ..clients.client import Client
from ..clients.courier import Courier
from ..core.directives import Directives
from ..permissions.log import AclLog
from ..permissions.users import Users
from .counters import Counters
from .migration import Order, Outcome
from .sliced_work import SlicedWork


class MemoryLimit(Protocol):
    """The limit `maxmemory`: `server.reports.memory.Memory`."""

    def refusal(self) -> ReplyError | None:
        """The error of commands that need memory while the limit is exceeded; otherwise None."""
        ...


class Work(Protocol):
    """The parts of the periodic work that DEBUG turns off: `server.periodic.PeriodicWork`."""

    # Whether keys are removed that have expired and that no client reads.
    expires_keys: bool
    # Whether no periodic work is done at all.
    is_paused: bool


class Clients(Protocol):
    """Commands on other clients: `server.requests.connected_clients.ConnectedClients`."""

    def in_order(self) -> list[Client]:
        """Connected clients, oldest first."""
        ...

    def find(self, client_id: int) -> Client | None:
        """The connected client of that ID."""
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
    """The users and their rules: `server.requests.user_accounts.UserAccounts`."""

    users: Users
    # The latest refusals.
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


class Replicas(Protocol):
    """The replicas of this server: `server.replication.primary.Primary`. Offsets are bytes of the stream."""

    @property
    def offset(self) -> int:
        """The bytes of the stream so far; without one, the records of the log."""
        ...

    def psync(self, client: Client, replid: bytes, wanted_offset: bytes) -> Reply:
        """PSYNC: let the client follow from this byte of that history, or after a snapshot. Raises ReplyError."""
        ...

    def sync(self, client: Client) -> Reply:
        """SYNC: let the client follow after a snapshot. Raises ReplyError."""
        ...

    def confirm(self, client: Client, offset: int, synced_offset: int | None) -> None:
        """A replica has everything up to this offset, and this much of it on stable storage."""
        ...

    def confirmed_count(self, offset: int) -> int:
        """The number of replicas that have everything up to this offset."""
        ...

    def synced_count(self, offset: int) -> int:
        """The number of replicas that have everything up to this offset on stable storage."""
        ...

    def ask_confirmation(self) -> None:
        """Ask all replicas, at the end of this turn, what they have."""
        ...

    def forget_history(self) -> None:
        """DEBUG CHANGE-REPL-ID: begin a new history that continues no former one."""
        ...

    def role_lines(self) -> list[list[bytes]]:
        """Address, port and confirmed offset of each replica that follows, as ROLE shows them."""
        ...


class Following(Protocol):
    """The primary of this server: `server.replication.following.Following`."""

    # Host and port; None if this server is a primary itself.
    address: tuple[bytes, int] | None
    # Whether the link is down, and old data are not served then.
    is_stale: bool

    @property
    def role_line(self) -> Reply:
        """The reply to ROLE of a replica; None for a primary."""
        ...

    def follow(self, host: bytes, port: int) -> bool:
        """REPLICAOF host port. Returns False if this primary is followed already."""
        ...

    def promote(self) -> None:
        """REPLICAOF NO ONE."""
        ...


class Failover(Protocol):
    """The planned change of roles: `server.replication.failover.Failover`."""

    @property
    def is_running(self) -> bool:
        """Whether this server is handing its role over."""
        ...

    def begin(self, target: tuple[bytes, int] | None, timeout_ms: int | None, *, is_forced: bool) -> None:
        """FAILOVER: let this replica, or any if it is None, become the primary. Raises GenericError."""
        ...

    def abort(self) -> None:
        """FAILOVER ABORT. Raises GenericError."""
        ...

    def accept(self, client: Client, replid: bytes) -> None:
        """PSYNC .. FAILOVER: become the primary of the client, which has been the one of this server. Raises
        GenericError.
        """
        ...


class Migrations(Protocol):
    """The transfers of MIGRATE: `server.sockets.migrations.Migrations`."""

    def begin(self, client: Client, order: Order) -> None:
        """Begin a transfer; the command of the client, which waits, is run again when it has ended."""
        ...

    def take(self, client: Client) -> tuple[Order, Outcome] | None:
        """The transfer of a client that has ended, once; None if there is none."""
        ...


class LongCommands(Protocol):
    """Commands that are carried out in slices: `server.requests.long_commands.LongCommands`."""

    def carry_out(self, work: SlicedWork) -> Reply:
        """The result of a command; Blocked if it is run again when all its steps have been taken, and POSTPONED if it
        must be run again when another one has ended. Raises what the steps raise.
        """
        ...


class Log(Protocol):
    """The append-only file: `persistence.aof.AppendOnlyLog`."""

    # The `Client.write_mark` of what was added last.
    mark: int
    # The largest `Client.write_mark` that is on stable storage.
    synced_mark: int
    # Whether the base that the records continue is still being written.
    is_starting: bool
    # DEBUG AOF-FLUSH-SLEEP: a wait before each write to the file.
    flush_delay_us: int


class BackupReport(Protocol):
    """What is known of the backup: `persistence.backup.Backup`. Times are Unix ms, 0 for none."""

    # Why it failed; empty without a failure.
    error: str
    started_ms: int
    ended_ms: int
    # Absolute paths of its files.
    paths: list[str]

    @property
    def state_name(self) -> bytes:
        """Its state in BACKUP STATUS."""
        ...


class Backups(Protocol):
    """Copies of the append-only file: `server.storage.backups.Backups`."""

    @property
    def backup(self) -> BackupReport:
        """The present backup, or the last one."""
        ...

    def start(self, *, may_start: bool) -> None:
        """BACKUP START; `may_start` is False inside EXEC. Raises GenericError."""
        ...

    def seal(self, *, may_start: bool) -> None:
        """BACKUP SEAL; `may_start` is False inside EXEC. Raises GenericError."""
        ...

    def abort(self) -> None:
        """BACKUP ABORT. Raises GenericError."""
        ...

    def clean(self) -> None:
        """BACKUP CLEANUP. Raises GenericError."""
        ...


class Storage(Protocol):
    """The dataset on disk: `server.storage.disk_storage.DiskStorage`."""

    @property
    def backups(self) -> Backups:
        """Copies of the append-only file."""
        ...

    @property
    def log(self) -> Log | None:
        """The log in force; None while effects are not logged."""
        ...

    @property
    def last_save_ms(self) -> int:
        """When dump.rdb was last complete, or the server started; Unix ms."""
        ...

    def refusal_of_writes(self) -> ReplyError | None:
        """Why writes are refused now, MISCONF or NOREPLICAS; None while they are not."""
        ...

    def save(self) -> bool:
        """SAVE: write dump.rdb now. Returns False if that failed. Raises GenericError while BGSAVE runs."""
        ...

    def write_dump(self) -> bool:
        """DEBUG RELOAD: write dump.rdb, as SAVE does, but uncounted. Returns False if it failed."""
        ...

    def save_flushed(self) -> None:
        """FLUSHALL: write dump.rdb without the keys that are gone, if there are save points."""
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

    def reload_dataset(self, *, from_disk: bool, flushes: bool, merges: bool) -> None:
        """DEBUG RELOAD: load the dataset from an RDB file in memory, or from dump.rdb. Raises GenericError.

        `flushes`: the present keys are removed first. `merges`: a key of the file replaces a present one.
        """
        ...

    def shutdown(self, *, save: bool | None, force: bool, is_now: bool) -> Progress | None:
        """Stop after this command. Returns what it waits for, if replicas lag and it need not be now. Raises
        GenericError if the dataset cannot be written, and continues to serve.
        """
        ...

    def abort_shutdown(self) -> None:
        """End the wait of a stop for replicas, and continue to serve. Raises GenericError without one."""
        ...


class Reports(Protocol):
    """Reports of the server about itself: `server.reports.server_reports.ServerReports`."""

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
    replicas: Replicas
    following: Following
    failover: Failover
    migrations: Migrations
    long_commands: LongCommands
    reports: Reports
