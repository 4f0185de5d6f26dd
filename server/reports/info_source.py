"""The parts of the server that INFO reads, and what the sections share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ...commands.clients.client import Client
from ...commands.execution.context import Context
from ...store.database import Store
from ..configuration.config import Config
from .memory import Memory
from .stats import Stats

Fields = list[tuple[str, object]]


class Jobs(Protocol):
    """The jobs of one kind: rewrites of the log, or snapshots. Times are Unix ms or seconds, -1 for none."""

    is_running: bool
    is_scheduled: bool
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


class SnapshotFigures(Protocol):
    """What INFO shows of snapshots and rewrites."""

    # When dump.rdb was last complete, or the server started; Unix ms.
    last_save_ms: int

    @property
    def rewrite(self) -> Jobs:
        """Rewrites of the append-only file."""
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
    def memory(self) -> Memory:
        """The memory of dataset and clients."""
        ...

    @property
    def snapshots(self) -> SnapshotFigures:
        """Background jobs."""
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


def zeros(*names: str) -> Fields:
    """Fields of what Headrace does not have or do, so that 0 is the truth."""
    return [(name, 0) for name in names]


def log_value(server: Source, name: str, default: Any) -> Any:
    return default if server.log is None else getattr(server.log, name, default)
