"""The parts of the server that INFO reads, and what the sections share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ...commands.clients.client import Client
from ...commands.execution.context import Context
from ...replication.history import History
from ...store.database import Store
from ..configuration.config import Config
from .stats import Stats

Fields = list[tuple[str, object]]


class Jobs(Protocol):
    """The jobs of one kind: rewrites of the log, or snapshots. Times are Unix ms or seconds, -1 for none."""

    is_running: bool
    last_duration_s: int
    last_ok: bool
    count: int
    # Failures in a row.
    failures_count: int

    def running_s(self, now_ms: int) -> int:
        """Seconds since the running job began, -1 without one."""
        ...

    def reset_statistics(self) -> None:
        """CONFIG RESETSTAT."""
        ...


class BackupState(Protocol):
    """The state of the backup: `persistence.backup.Backup`."""

    @property
    def is_running(self) -> bool:
        """Whether a backup was started that is neither sealed nor failed."""
        ...


class BackupFigures(Protocol):
    """What INFO shows of backups: `server.storage.backups.Backups`."""

    @property
    def backup(self) -> BackupState:
        """The present backup, or the last one."""
        ...


class SnapshotFigures(Protocol):
    """What INFO shows of snapshots and rewrites."""

    # When dump.rdb was last complete, or the server started; Unix ms.
    last_save_ms: int

    @property
    def rewrite(self) -> Jobs:
        """Rewrites of the append-only file."""
        ...

    @property
    def is_rewrite_scheduled(self) -> bool:
        """Whether a rewrite, or the base of a log that was turned on, waits for its turn."""
        ...

    @property
    def save(self) -> Jobs:
        """Snapshots in dump.rdb."""
        ...

    @property
    def keys_total(self) -> int:
        """Keys of the image being written, 0 without one."""
        ...

    @property
    def keys_done(self) -> int:
        """Keys of it that were read."""
        ...

    @property
    def changes_count(self) -> int:
        """Changes that dump.rdb does not have."""
        ...


class LoadFigures(Protocol):
    """What INFO shows of the present load. Sizes are bytes."""

    started_ms: int
    total_size: int
    read_size: int
    # Keys of the last RDB file loaded.
    keys_loaded: int
    # Keys it left out because they had expired.
    keys_expired: int

    @property
    def eta_s(self) -> int:
        """Seconds until the load ends, at its present speed."""
        ...


class MemoryFigures(Protocol):
    """What INFO shows of memory. Sizes are bytes."""

    # The largest size measured, and when; Unix ms.
    peak_size: int
    peak_ms: int
    # As of the last measurement: keys, values and their tables; what is kept for clients.
    dataset_size: int
    clients_size: int

    @property
    def used_size(self) -> int:
        """The total, of which streams are as last measured."""
        ...

    def measure(self) -> int:
        """Measure everything now. Returns the total size."""
        ...

    def fragmentation(self, used_size: int, resident: int) -> tuple[float, int]:
        """How much more memory is resident than data and interpreter need: the ratio, and the difference."""
        ...


class BacklogFigures(Protocol):
    """The last bytes of the replication stream: `replication.backlog.Backlog`."""

    start: int

    def __len__(self) -> int: ...


class ReplicaFigures(Protocol):
    """What INFO shows of the replicas."""

    history: History

    @property
    def backlog(self) -> BacklogFigures | None:
        """The last bytes of the stream; None while there is no stream."""
        ...

    @property
    def replicas(self) -> list[Client]:
        """The clients that follow, or are about to."""
        ...

    @property
    def good_count(self) -> int:
        """The number of replicas that keep up."""
        ...

    @property
    def memory_size(self) -> int:
        """Bytes of the backlog."""
        ...

    def info_lines(self, now_ms: int) -> list[str]:
        """The line of each replica."""
        ...

    def lags(self) -> list[tuple[str, int, int]]:
        """Of each replica that follows: its address with port, the offset that it has confirmed, and when; Unix ms."""
        ...


class PayloadFigures(Protocol):
    """The frame of a dataset that arrives: `replication.payload.Payload`."""

    size: int
    read_size: int


class IncomingFigures(Protocol):
    """The stream of a primary: `replication.incoming.Incoming`."""

    received: int


class LinkFigures(Protocol):
    """What INFO shows of the link to the primary."""

    @property
    def payload(self) -> PayloadFigures:
        """The dataset that arrives."""
        ...

    @property
    def incoming(self) -> IncomingFigures | None:
        """The stream; None before it has begun."""
        ...

    @property
    def is_arriving(self) -> bool:
        """Whether a dataset arrives, or is loaded."""
        ...

    @property
    def silent_s(self) -> int:
        """Seconds since bytes last arrived."""
        ...


class AttemptFigures(Protocol):
    """The attempts to follow the primary."""

    current_count: int
    total_count: int


class FollowingFigures(Protocol):
    """What INFO shows of the primary of a replica."""

    address: tuple[bytes, int] | None
    down_total_ms: int
    last_error: str
    # When a link or an attempt last failed; Unix ms, None for never.
    failed_ms: int | None
    is_refusing: bool

    @property
    def link(self) -> LinkFigures | None:
        """The connection to the primary; None without one."""
        ...

    @property
    def attempts(self) -> AttemptFigures:
        """How often it was tried to follow."""
        ...

    @property
    def is_up(self) -> bool:
        """Whether the stream of the primary is followed."""
        ...

    @property
    def up_s(self) -> int:
        """Seconds since the link came up."""
        ...

    @property
    def down_s(self) -> int:
        """Seconds since the link went down; -1 before it was up for the first time."""
        ...


class FailoverState(Protocol):
    """A step of a failover."""

    @property
    def value(self) -> str:
        """Its name."""
        ...


class FailoverFigures(Protocol):
    """What INFO shows of a planned change of roles."""

    @property
    def state(self) -> FailoverState:
        """Its step, also if there is none."""
        ...


class StopFigures(Protocol):
    """What INFO shows of a stop that waits for replicas."""

    @property
    def remaining_ms(self) -> int | None:
        """The longest time that it still waits; None if there is none."""
        ...


class ExpiryFigures(Protocol):
    """What INFO shows of the active expiry."""

    stale_share: float
    cap_reached_count: int
    spent_ns: int

    def reset_statistics(self) -> None:
        """CONFIG RESETSTAT."""
        ...


class Source(Protocol):
    """The parts of the server that INFO reads."""

    config: Config
    stats: Stats
    store: Store
    started_ms: int
    # The program that the server reports to, as in `supervised`.
    supervised_by: str
    context: Context
    clock: Callable[[], int]

    @property
    def log(self) -> Any:
        """The append-only file; None while there is none. `_log_fields` names the attributes that are shown."""
        ...

    @property
    def loading(self) -> LoadFigures:
        """The present load, or the last one."""
        ...

    @property
    def memory(self) -> MemoryFigures:
        """The memory of dataset and clients."""
        ...

    @property
    def backups(self) -> BackupFigures:
        """The backup."""
        ...

    @property
    def snapshots(self) -> SnapshotFigures:
        """Background jobs."""
        ...

    @property
    def primary(self) -> ReplicaFigures:
        """The replicas, and what they follow."""
        ...

    @property
    def following(self) -> FollowingFigures:
        """The primary of this server, if it has one."""
        ...

    @property
    def failover(self) -> FailoverFigures:
        """The planned change of roles."""
        ...

    @property
    def stopping(self) -> StopFigures:
        """The stop of the server."""
        ...

    @property
    def expiry(self) -> ExpiryFigures:
        """The active expiry."""
        ...

    @property
    def blocked_count(self) -> int:
        """The number of blocked clients."""
        ...

    @property
    def is_refusing_writes(self) -> bool:
        """Whether writes are refused, as the log or the snapshots cannot be written."""
        ...

    @property
    def clients(self) -> Mapping[int, Client]:
        """Connected clients by ID."""
        ...


def log_value(server: Source, name: str, default: Any) -> Any:
    return default if server.log is None else getattr(server.log, name, default)
