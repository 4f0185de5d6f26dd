"""The server as INFO sees it, and what the sections share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ..commands.client import Client
from ..store.database import Store
from .config import Config
from .key_walks import ActiveExpiry
from .stats import Stats

if TYPE_CHECKING:
    from .loading import Loading
    from .memory import Memory
    from .snapshots import Snapshots

Fields = list[tuple[str, object]]


class Source(Protocol):
    """The server as INFO sees it."""

    config: Config
    stats: Stats
    store: Store
    started_ms: int
    context: Any
    """Its `loading` says whether the log is being replayed; its `subscriptions` and `slow_log` are counted."""
    clock: Callable[[], int]

    @property
    def log(self) -> Any:
        """The append-only file, None while there is none. Of its attributes those named in `_log_fields` are shown."""
        ...

    @property
    def loading(self) -> Loading:
        """How far the load is."""
        ...

    @property
    def memory(self) -> Memory:
        """The account of dataset and clients."""
        ...

    @property
    def snapshots(self) -> Snapshots:
        """Background jobs."""
        ...

    expiry: ActiveExpiry

    @property
    def clients(self) -> Mapping[int, Client]:
        """Connected clients by ID."""
        ...


def zeros(*names: str) -> Fields:
    """Fields of what Headrace has not and does not do, so that none is the truth."""
    return [(name, 0) for name in names]


def log_value(server: Source, name: str, default: Any) -> Any:
    return default if server.log is None else getattr(server.log, name, default)
