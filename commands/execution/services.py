"""What the server offers to commands, as an interface: commands never import the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...protocol.replies import Reply
    from ...store.errors import ReplyError
    from ..clients.client import Client
    from ..permissions.log import AclLog
    from ..permissions.users import Users


class Services(Protocol):
    """The server seen from a handler. `config.<directive with underscores>` are native Python values:
    int (sizes in bytes, times in the directive's unit), bool, or bytes."""

    @property
    def config(self) -> Any:
        """server.config.Config: directives as attributes; `get_matching`, `set_many`, `rewrite`."""
        ...

    @property
    def stats(self) -> Any:
        """server.stats.Stats: the counters INFO prints."""
        ...

    @property
    def periodic(self) -> Any:
        """server.periodic.PeriodicWork: `expires_keys` and `is_paused`, for DEBUG."""
        ...

    @property
    def log(self) -> Any:
        """persistence.aof.AppendOnlyLog, None while no log is kept."""
        ...

    @property
    def memory(self) -> Any:
        """server.memory.Memory: the account of the dataset and the clients."""
        ...

    @property
    def clients(self) -> dict[int, Client]:
        """Connected clients by ID."""
        ...

    def deliver(self, clients: Iterable[Client], message: Reply) -> None:
        """Send clients what they did not ask for; whoever is running a command gets it behind the reply."""
        ...

    def deliver_now(self, client: Client) -> None:
        """Let the running client hear what is kept for it until it has its reply."""
        ...

    def kept_size(self, client: Client) -> int:
        """Bytes of the messages that are kept for the client until it has its reply; none unless it is running."""
        ...

    @property
    def users(self) -> Users:
        """Who may log in, and what they may do."""
        ...

    @property
    def acl_log(self) -> AclLog:
        """What was refused lately."""
        ...

    def apply_users(self) -> None:
        """Put changed users in force: connections of users that are gone are closed, and those that listen to what they
        no longer may; others go on under the new rules.
        """
        ...

    def load_users(self) -> None:
        """ACL LOAD: all users of `aclfile`, or none if a line is wrong. Raises GenericError."""
        ...

    def save_users(self) -> None:
        """ACL SAVE: write all users to `aclfile`. Raises GenericError."""

    def refusal_of_writes(self) -> ReplyError | None:
        """MISCONF while the log or the snapshots cannot be written, None while they can."""
        ...

    def refresh_clients(self) -> None:
        """Look anew at who may take the dispatcher's fast path."""
        ...

    def find_client(self, client_id: int) -> Client | None:
        """The connected client of that ID."""
        ...

    def broadcast_soon(self) -> None:
        """Let `Tracking.tell_broadcasts` be called at the end of this turn of the loop."""
        ...

    def memory_stats(self) -> dict[bytes, object]:
        """MEMORY STATS."""
        ...

    def memory_report(self) -> str:
        """MEMORY DOCTOR."""
        ...

    def purge_memory(self) -> None:
        """Give free memory back to the system, as far as that can be done."""
        ...

    def kill_client(self, client: Client) -> None:
        """Close a connection; one's own closes after its reply."""
        ...

    def unblock_client(self, client: Client, *, with_error: bool) -> bool:
        """End a blocked read early (CLIENT UNBLOCK); False if the client was not blocked."""
        ...

    def pause_clients(self, pause_ms: int, *, writes_only: bool) -> None:
        """Hold commands back for so long (CLIENT PAUSE)."""
        ...

    def unpause_clients(self) -> None:
        """Let held commands go on."""
        ...

    def shutdown(self, *, save: bool | None, now: bool, force: bool) -> None:
        """Stop after this command: flush and fsync the log, close everything, exit 0."""
        ...

    def info(self, sections: list[bytes]) -> bytes:
        """The text of INFO for these lower-case section names; none means the default ones."""
        ...

    def reset_stats(self) -> None:
        """CONFIG RESETSTAT."""
        ...

    def save(self) -> bool:
        """SAVE: write dump.rdb now; False if that failed. Raises GenericError while BGSAVE runs."""
        ...

    def save_in_background(self, *, may_wait: bool, may_start: bool) -> bool:
        """BGSAVE [SCHEDULE]; `may_start` is False inside EXEC. False if only scheduled. Raises GenericError."""
        ...

    @property
    def last_save_ms(self) -> int:
        """When dump.rdb was last complete, or the server started; Unix ms."""
        ...

    def rewrite_log(self, *, may_start: bool) -> bool:
        """BGREWRITEAOF; `may_start` is False inside EXEC. False if it has only been scheduled. Raises GenericError."""
        ...

    def reload_log(self) -> None:
        """DEBUG LOADAOF: empty the dataset and replay the append-only file. Raises GenericError."""
        ...

    def reload_dataset(self) -> None:
        """DEBUG RELOAD: serializes the dataset as RDB in memory, empties it and loads it again. Raises GenericError."""
        ...
