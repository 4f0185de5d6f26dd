"""One connected client as commands see it: identity, protocol, transaction and accounting; no socket."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ..store.database import Database
from .blocking import Blocked
from .permissions.user import User
from .tracking import TrackingMode

CLIENT_SIZE: Final = 6 << 10
"""Bytes of a connection at rest, as measured over a thousand of them."""


@dataclass(slots=True, eq=False)
class Transaction:
    """MULTI's queue and WATCH's verdict. Also the `Watcher` that databases mark dirty."""

    queue: list[list[bytes]] | None = None
    """Queued commands; None outside MULTI."""
    queue_size: int = 0
    """Bytes of the queued arguments; they count towards the query buffer limit."""
    has_write: bool = False
    """A queued command writes: EXEC then obeys the rules for writes."""
    has_denyoom: bool = False
    """A queued command may need memory."""
    aborted: bool = False
    """A command was refused while queueing: EXEC answers EXECABORT."""
    dirty: bool = False
    """A watched key changed: EXEC answers null."""
    watched: list[tuple[int, bytes]] = field(default_factory=list)
    """(database index, key) of every WATCH."""


@dataclass(slots=True, eq=False)
class Client:
    """State of a connection. Times are Unix ms, sizes are bytes."""

    id: int
    descriptor: int = -1
    """File descriptor of the socket."""
    address: bytes = b""
    local_address: bytes = b""
    created_ms: int = 0
    last_active_ms: int = 0
    name: bytes = b""
    library_name: bytes = b""
    library_version: bytes = b""
    user: User = field(default=None)  # type: ignore[assignment]
    """Set by the dispatcher when the client is let in."""
    authenticated: bool = True
    protocol: int = 2
    db: Database = field(default=None)  # type: ignore[assignment]
    transaction: Transaction = field(default_factory=Transaction)
    blocked: Blocked | None = None
    is_held: bool = False
    """A command waits for the end of CLIENT PAUSE."""
    is_plain: bool = False
    """Set by the dispatcher: ordinary commands of this client need no check beyond their arity."""
    is_unhindered: bool = False
    """Set by the dispatcher: nothing but the rules of its user can stand against a command of this client."""
    reply_mode: str = "on"
    """`on`, `off`, or `skip` / `skip_next` while CLIENT REPLY SKIP works through one command."""
    channels: dict[bytes, None] = field(default_factory=dict)
    """What it listens to, as are `patterns` and `shard_channels`; kept by `subscriptions.Listeners`."""
    patterns: dict[bytes, None] = field(default_factory=dict)
    shard_channels: dict[bytes, None] = field(default_factory=dict)
    subscriptions_size: int = 0
    is_monitor: bool = False
    """It sees every command that is run; kept by `monitors.Monitors`."""
    tracking: TrackingMode | None = None
    """How keys that it reads are tracked; None if they are not. Kept by `tracking.Tracking`."""
    is_script: bool = False
    """Not a connection: the caller of commands in a script."""
    no_evict: bool = False
    no_touch: bool = False
    close_after_reply: bool = False
    killed: bool = False
    is_unix: bool = False
    last_command: bytes = b"NULL"
    commands_count: int = 0
    received_size: int = 0
    sent_size: int = 0
    write_mark: int = 0
    """The log's mark after this client's last write."""
    reads_count: int = 0
    pipeline_length_sum: int = 0
    """Requests that arrived, over all reads."""
    query_buffer_size: int = 0
    """Bytes received whose requests are not all run yet, the running ones among them."""
    measure_output: Callable[[], int] = int
    """Answers `output_buffer_size`; set by whoever sends."""

    @property
    def is_subscriber(self) -> bool:
        """Whether it listens to anything: its class is `pubsub` then, not `normal`."""
        return bool(self.channels or self.patterns or self.shard_channels)

    @property
    def memory_size(self) -> int:
        """Bytes held for the connection: requests that wait, replies that the peer has not taken yet, subscriptions."""
        requests_size = self.query_buffer_size + self.transaction.queue_size
        return CLIENT_SIZE + requests_size + self.output_buffer_size + self.subscriptions_size

    @property
    def output_buffer_size(self) -> int:
        """Bytes of replies that the peer has not taken yet."""
        return self.measure_output()
