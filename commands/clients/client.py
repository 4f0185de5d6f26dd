"""One connected client as commands see it: identity, protocol, transaction and accounting; no socket."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from ...persistence.grammar.streams import words_of
from ...store.database import Database
from ..core.request_size import request_size
from ..core.table import Handler, Row
from ..permissions.allowed_rows import NO_ROWS
from ..permissions.user import User
from .blocking import Blocked
from .tracking_mode import TrackingMode

# How addresses of the loopback interface begin.
LOOPBACK: Final = (b"127.", b"[::1]:")

# Bytes of an idle connection, as measured over a thousand of them.
CLIENT_SIZE: Final = 6 << 10
# Bytes of a watched key in the tables of client and database, without the key itself, as measured over a hundred
# thousand keys.
WATCHED_KEY_SIZE: Final = 410


# (row, its handler, request) of a command that waits for EXEC.
Queued = tuple[Row, Handler, "list[bytes]"]


class ReplyMode(Enum):
    """The mode that CLIENT REPLY has set."""

    ON = auto()
    OFF = auto()
    # SKIP omits its own reply, then the reply of the next command.
    SKIP_NEXT = auto()
    SKIP = auto()


@dataclass(slots=True, eq=False)
class Transaction:
    """MULTI's queue and the result of WATCH. Also the `Watcher` that databases mark dirty."""

    # Queued commands; None outside MULTI.
    queue: list[Queued] | None = None
    # Whether a command was refused when it was queued: EXEC then returns EXECABORT.
    aborted: bool = False
    # Whether a watched key changed: EXEC then returns null.
    dirty: bool = False
    # Whether that change was of the key alone: CLIENT LIST then shows no watched keys any more.
    shows_no_keys: bool = False
    # (database index, key) of every WATCH, in order.
    watched: dict[tuple[int, bytes], None] = field(default_factory=dict)
    # Bytes of the watched keys in the tables of client and database.
    watched_size: int = 0
    # The first commands of the queue are measured: so many, with so many bytes in their arguments and in memory.
    _measured_count: int = 0
    _queue_size: int = 0
    _queue_memory_size: int = 0

    @property
    def queue_size(self) -> int:
        """Bytes of the queued arguments alone: `multi-mem` of CLIENT LIST, as in Redis."""
        self._measure()
        return self._queue_size

    @property
    def queue_memory_size(self) -> int:
        """Bytes that the queue takes; limits count these."""
        self._measure()
        return self._queue_memory_size

    def _measure(self) -> None:
        """Measure what was queued since the last call: queueing itself is to cost nothing else."""
        queue = self.queue or []
        for _, _, argv in queue[self._measured_count :]:
            words = words_of(argv)
            self._queue_size += sum(map(len, words))
            self._queue_memory_size += request_size(words)
        self._measured_count = len(queue)

    def has_flag(self, flag_bit: int) -> bool:
        """Whether a queued command has this flag."""
        return any(row.flag_bits & flag_bit for row, _, _ in self.queue or ())


class Client:
    """State of a connection. Times are Unix ms, sizes are bytes.

    Some of it changes with every read. It is no dataclass, because a compiled dataclass is slower.
    """

    def __init__(
        self,
        client_id: int,
        *,
        db: Database | None = None,
        created_ms: int = 0,
        last_active_ms: int = 0,
        blocked: Blocked | None = None,
    ) -> None:
        self.id = client_id
        # File descriptor of the socket.
        self.descriptor = -1
        self.address = b""
        self.local_address = b""
        self.created_ms = created_ms
        self.last_active_ms = last_active_ms
        self.name = b""
        self.library_name = b""
        self.library_version = b""
        # Set by the dispatcher when the client is accepted.
        self.user: User
        self.authenticated = True
        self.protocol = 2
        # Set when the client is accepted.
        self.db: Database
        if db is not None:
            self.db = db
        self.transaction = Transaction()
        self.blocked = blocked
        # Whether a command waits for the end of CLIENT PAUSE.
        self.is_held = False
        # Set by the dispatcher: the commands of this client that need no check except those in the table.
        self.rows = NO_ROWS
        # Set by the dispatcher: only the rules of its user, and MULTI, can refuse a command of this client.
        self.needs_only_acl_check = False
        # Which replies are sent, as CLIENT REPLY has set.
        self.reply_mode = ReplyMode.ON
        # Subscribed names, as in `patterns` and `shard_channels`; updated by `subscriptions.Listeners`.
        self.channels: dict[bytes, None] = {}
        self.patterns: dict[bytes, None] = {}
        self.shard_channels: dict[bytes, None] = {}
        self.subscriptions_size = 0
        # Whether it gets every command that is run; updated by `monitors.Monitors`.
        self.is_monitor = False
        # How keys that it reads are tracked; None if they are not. Updated by `tracking.Tracking`.
        self.tracking: TrackingMode | None = None
        # Whether the client of the redirection had left when there was an invalidation to send.
        self.is_redirect_broken = False
        # Whether this is not a connection, but the caller of commands in a script.
        self.is_script = False
        self.no_evict = False
        self.no_touch = False
        self.close_after_reply = False
        self.killed = False
        self.is_unix = False
        self.last_command = b"NULL"
        self.commands_count = 0
        self.received_size = 0
        self.sent_size = 0
        # The log's mark after this client's last write.
        self.write_mark = 0
        self.reads_count = 0
        # Requests that arrived, over all reads.
        self.pipeline_length_sum = 0
        # Bytes received whose requests were not all run yet, including the running ones.
        self.query_buffer_size = 0
        # Returns `output_buffer_size`; set by the sender of replies.
        self.measure_output: Callable[[], int] = int

    @property
    def takes_fast_path(self) -> bool:
        """Whether ordinary commands of this client need no check except those in its table."""
        return bool(self.rows)

    def may_run(self, argv: list[bytes]) -> bool:
        """Whether the table allows this request; otherwise the rules must be asked."""
        found = self.rows.get(argv[0])
        if found is None:
            return False
        check = found[5]
        return check is None or check.allows(argv)

    @property
    def is_local(self) -> bool:
        """Whether it is connected over the loopback interface or the Unix socket, and so may do what `local` allows."""
        return self.is_unix or self.address.startswith(LOOPBACK)

    @property
    def is_subscriber(self) -> bool:
        """Whether it has subscriptions: its class is then `pubsub`, not `normal`."""
        return bool(self.channels or self.patterns or self.shard_channels)

    @property
    def memory_size(self) -> int:
        """Size of the connection: waiting requests, replies that the peer has not taken yet, subscriptions, watched
        keys, prefixes of keys, names.
        """
        requests_size = self.query_buffer_size + self.transaction.queue_memory_size
        if self.blocked is not None:
            requests_size += self.blocked.memory_size
        names_size = len(self.name) + len(self.library_name) + len(self.library_version)
        prefixes_size = 0 if self.tracking is None else self.tracking.prefixes_size
        held_size = self.subscriptions_size + self.transaction.watched_size + prefixes_size
        return CLIENT_SIZE + requests_size + self.output_buffer_size + held_size + names_size

    @property
    def output_buffer_size(self) -> int:
        """Size of the replies that the peer has not taken yet."""
        return self.measure_output()
