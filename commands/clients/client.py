"""One connected client as commands see it: identity, protocol, transaction and accounting; no socket."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from ...store.database import Database
from ...store.policies.rules import PendingRules
from ..permissions.allowed_rows import NO_ROWS, find_allowed
from ..permissions.user import User
from .blocking import Blocked
from .fieldset import Fieldset
from .replica import Replica, ReplicaState
from .tracking_mode import TrackingMode
from .transaction import Transaction

# As CLIENT LIST shows that there was no command, or one that does not exist.
NO_COMMAND: Final = b"NULL"

# To look a member up in its enumeration takes longer than most checks.
ANNOUNCED: Final = ReplicaState.ANNOUNCED

# Groups that a connection may have to do with before those that are gone are looked for.
GOVERNED_MAX: Final = 64

# How addresses of the loopback interface begin.
LOOPBACK: Final = (b"127.", b"[::1]:")

# Bytes of an idle connection, as measured over a thousand of them.
CLIENT_SIZE: Final = 6 << 10


class ReplyMode(Enum):
    """The mode that CLIENT REPLY has set."""

    ON = auto()
    OFF = auto()
    # SKIP omits its own reply, then the reply of the next command.
    SKIP_NEXT = auto()
    SKIP = auto()


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
        # Set by the dispatcher: whether an ordinary command of this client has no consequence but its effect and its
        # reply.
        self.is_plain = False
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
        # What it has said as a replica; None if it has said nothing.
        self.replica: Replica | None = None
        # Whether it is the primary that this server follows: its commands are run without any check, and not answered.
        self.is_primary = False
        # Whether this is not a connection, but the caller of commands in a script.
        self.is_script = False
        # The groups to which the end of this connection matters (GUARD, CONSUMER-TTL). Some may be gone: they are
        # looked for when there are more than `governed_max`.
        self.governed: dict[PendingRules, None] = {}
        self.governed_max = GOVERNED_MAX
        # What HIMPORT PREPARE has named.
        self.fieldsets: dict[bytes, Fieldset] = {}
        self.no_evict = False
        self.no_touch = False
        self.close_after_reply = False
        self.killed = False
        self.is_unix = False
        self.last_command = NO_COMMAND
        self.commands_count = 0
        self.received_size = 0
        self.sent_size = 0
        # The log's mark, and the offset of the replication stream, after this client's last write.
        self.write_mark = 0
        self.write_offset = 0
        self.reads_count = 0
        # Requests that arrived, over all reads.
        self.pipeline_length_sum = 0
        # Bytes received whose requests were not all run yet, including the running ones.
        self.query_buffer_size = 0
        # Returns `output_buffer_size`; set by the sender of replies.
        self.measure_output: Callable[[], int] = int

    def may_run(self, argv: list[bytes]) -> bool:
        """Whether the table allows this request; otherwise the rules must be asked."""
        return find_allowed(self.rows, argv) is not None

    @property
    def is_local(self) -> bool:
        """Whether it is connected over the loopback interface or the Unix socket, and so may do what `local` allows."""
        return self.is_unix or self.address.startswith(LOOPBACK)

    @property
    def is_replica(self) -> bool:
        """Whether it follows this server, or is about to. It gets no replies then."""
        return self.replica is not None and self.replica.state is not ANNOUNCED

    @property
    def is_subscriber(self) -> bool:
        """Whether it has subscriptions: its class is then `pubsub`, not `normal`."""
        return bool(self.channels or self.patterns or self.shard_channels)

    @property
    def memory_size(self) -> int:
        """Size of the connection, with the replies that the peer has not taken yet."""
        return self.held_size + self.output_buffer_size

    @property
    def held_size(self) -> int:
        """Size of the connection without replies: waiting requests, subscriptions, watched keys, prefixes of keys,
        names, fieldsets.
        """
        requests_size = self.query_buffer_size + self.transaction.queue_memory_size
        if self.blocked is not None:
            requests_size += self.blocked.memory_size
        names_size = len(self.name) + len(self.library_name) + len(self.library_version)
        prefixes_size = 0 if self.tracking is None else self.tracking.prefixes_size
        held_size = self.subscriptions_size + self.transaction.watched_size + prefixes_size
        if self.fieldsets:
            held_size += sum([len(name) + each.memory_size for name, each in self.fieldsets.items()])
        return CLIENT_SIZE + requests_size + held_size + names_size

    @property
    def output_buffer_size(self) -> int:
        """Size of the replies that the peer has not taken yet."""
        return self.measure_output()
