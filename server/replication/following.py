"""The role of a replica: which primary is followed, the link to it, and what happens when that changes.

follow()    REPLICAOF host port: blocked clients are closed, and the link is tried at once
promote()   REPLICAOF NO ONE: the history continues under a new ID
cron()      `hz` times a second: attempts that are due, confirmations, silence

The dataset stays, and is served, until one of the primary has arrived as a whole.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Any, Final, Protocol, cast

from ...commands.execution.context import Context
from ...persistence.placing import StreamPlace
from ...persistence.rows.streams import CAN_USE, CAPABILITY
from ...replication.following import (
    FAILOVER_RETRY_MS,
    RETRY_MS,
    Attempts,
    FullSync,
    Handshake,
    Introduction,
    Outcome,
    Position,
)
from ...replication.synced import SyncedOffset
from ..configuration.config import Config
from ..reports.stats import Stats
from ..requests.dispatch import Dispatcher
from ..requests.turns import Turns
from .arrival import Arrival
from .primary import Primary
from .primary_link import CONNECT_ERRORS, End, Phase, PrimaryLink

logger = logging.getLogger(__name__)

# The states of ROLE.
ROLE_STATES: Final = {
    Phase.CONNECTING: b"connecting",
    Phase.HANDSHAKE: b"handshake",
    Phase.TRANSFER: b"sync",
    Phase.LOADING: b"sync",
    Phase.STREAM: b"connected",
}


BULK_TIMEOUT: Final = (
    "Timeout receiving bulk data from MASTER... If the problem persists try to set the 'repl-timeout' parameter in "
    "redis.conf to a larger value."
)
# What the server log says after silence.
TIMEOUTS: Final = {
    Phase.CONNECTING: "Timeout connecting to the MASTER...",
    Phase.HANDSHAKE: "Timeout connecting to the MASTER...",
    Phase.TRANSFER: BULK_TIMEOUT,
    Phase.LOADING: BULK_TIMEOUT,
    Phase.STREAM: "MASTER timeout: no data nor PING received...",
}


class SyncedLog(Protocol):
    """The log: `persistence.aof.AppendOnlyLog`."""

    mark: int
    synced_mark: int
    is_starting: bool


class Following:
    """The primary of one server, if it has one. `log` returns the log. `restart_log` begins a log with the present
    dataset. `count_all` measures the dataset. `tls_context` makes the context of the link for `tls-replication`.
    `call_soon` calls a function when the running command has ended, if clients are served.
    """

    def __init__(
        self,
        config: Config,
        context: Context,
        stats: Stats,
        dispatcher: Dispatcher,
        turns: Turns,
        primary: Primary,
        clock: Callable[[], int],
        monotonic: Callable[[], int],
        *,
        next_client_id: Callable[[], int],
        log: Callable[[], SyncedLog | None],
        restart_log: Callable[[], None],
        count_all: Callable[[], None],
        tls_context: Callable[[], ssl.SSLContext],
        call_soon: Callable[[Callable[[], None]], None],
    ) -> None:
        self._config = config
        self._context = context
        self._stats = stats
        self._dispatcher = dispatcher
        self._turns = turns
        self._primary = primary
        self._clock = clock
        self._monotonic = monotonic
        self._next_client_id = next_client_id
        self._log = log
        self._restart_log = restart_log
        self._count_all = count_all
        self._tls_context = tls_context
        self._call_soon = call_soon
        # The address of the primary; None for a server that is one itself.
        self.address: tuple[bytes, int] | None = None
        # Whether the link is down, and old data are not served then.
        self.is_stale = False
        self.link: PrimaryLink | None = None
        self.attempts = Attempts()
        # Whether the history is one that a primary may continue.
        self._has_history = False
        # The database of the next command of the stream, after a link was lost.
        self._db_index = 0
        # When the link went down and came up, by the monotonic clock in ms; None before the first time.
        self._down_since_ms: int | None = None
        self._up_since_ms: int | None = None
        self.down_total_ms = 0
        # Why the last link ended; empty while one is up.
        self.last_error = ""
        # When a link or an attempt last ended without having been asked to; Unix ms, None before the first time.
        self.failed_ms: int | None = None
        # Whether the primary has something that cannot be taken.
        self.is_refusing = False
        # Whether the primary is asked for rows. After a dataset in that form that could not be taken, for an RDB.
        self._asks_for_rows = CAN_USE
        # Whether the server that is followed is a replica of this one and shall take over, and what is called with its
        # answer: whether it does.
        self.is_failing_over = False
        self.on_answer: Callable[[bool], None] = lambda is_accepted: None
        self._task: asyncio.Task[None] | None = None
        self._synced = SyncedOffset()
        primary.has_link = lambda: self.is_up
        primary.place_in_stream = self._place_in_stream
        for name in ("replica-read-only", "replica-serve-stale-data"):
            config.on_change(name, lambda value: self._apply_role())
        config.on_change("replica-ignore-maxmemory", lambda value: self._count_all())

    # -- what others ask -------------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        """Whether the stream of the primary is followed."""
        return self.link is not None and self.link.phase is Phase.STREAM

    @property
    def role_line(self) -> list[Any] | None:
        """The reply to ROLE of a replica; None for a primary."""
        if self.address is None:
            return None
        host, port = self.address
        state = b"connect" if self.link is None else ROLE_STATES[self.link.phase]
        return [b"slave", host, port, state, self._primary.history.offset if self.is_up else -1]

    @property
    def down_s(self) -> int:
        """Seconds since the link went down; -1 before it was up for the first time."""
        return -1 if self._down_since_ms is None else (self._monotonic() - self._down_since_ms) // 1000

    @property
    def up_s(self) -> int:
        """Seconds since the link came up."""
        return 0 if self._up_since_ms is None else (self._monotonic() - self._up_since_ms) // 1000

    def _place_in_stream(self) -> int | None:
        """The database of the next command; None while the dataset has commands that the offset does not count."""
        link = self.link
        if link is None or link.phase is not Phase.STREAM:
            return self._db_index
        return link.client.db.index if link.is_between_parts else None

    # -- roles -----------------------------------------------------------------------------------

    def start(self) -> None:
        """At the start, follow the primary that the configuration names."""
        if self._config.replicaof:
            host, _, port = self._config.replicaof.rpartition(b" ")
            self.address = host, int(port)
            self._apply_role()

    def resume(self, place: StreamPlace) -> None:
        """Continue the history of the dataset that was loaded at the start, if the primary has what follows."""
        self._primary.adopt(place.replid, place.offset)
        self._has_history = True
        self._db_index = place.db_index

    def follow(self, host: bytes, port: int) -> bool:
        """REPLICAOF host port. Returns False if this primary is followed already."""
        if self.address is not None and self.address[0].lower() == host.lower() and self.address[1] == port:
            return False
        was_primary = self.address is None
        self._leave()
        if was_primary:
            # The own history, if it has a backlog, may be one that the new primary has continued.
            self._has_history = self._primary.backlog is not None
            self._db_index = 0
            if self._has_history:
                logger.info(
                    "Before turning into a replica, using my own master parameters to synthesize a cached master: I "
                    "may be able to synchronize with the new master with just a partial transfer."
                )
        self.address = host, port
        self.attempts = Attempts()
        self._asks_for_rows = CAN_USE
        self._down_since_ms = None if was_primary else self._down_since_ms
        self._config.replicaof = b"%b %d" % self.address
        self._apply_role()
        self._dispatcher.end_waits()
        self._try_soon()
        return True

    def promote(self) -> None:
        """REPLICAOF NO ONE."""
        if self.address is None:
            return
        self._leave()
        self.address = None
        self._has_history = False
        self.last_error = ""
        self.is_refusing = False
        self._config.replicaof = b""
        self._primary.promote()
        self._apply_role()
        if self._config.maxmemory:
            self._count_all()  # the limit applies at once

    def _leave(self) -> None:
        """Close the link."""
        link = self.link
        if link is not None:
            link.close()
            self._drop_link(link)

    def _drop_link(self, link: PrimaryLink) -> None:
        if link.phase is Phase.STREAM:
            self._db_index = link.client.db.index
            self._down_since_ms, self._up_since_ms = self._monotonic(), None
        self._dispatcher.detach(link)
        self.link = None
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _apply_role(self) -> None:
        """Let clients' requests be checked by the present role, and the state of the link."""
        config = self._config
        is_following = self.address is not None
        self._primary.note_role(is_following=is_following)
        self.is_stale = is_following and not self.is_up and not config.replica_serve_stale_data
        self._dispatcher.follow(
            is_following,
            is_read_only=is_following and config.replica_read_only,
            is_stale=self.is_stale,
        )

    # -- attempts --------------------------------------------------------------------------------

    def _try_soon(self) -> None:
        """Begin an attempt when the running command has ended."""
        self._call_soon(self._try)

    def _try(self) -> None:
        """Begin an attempt if one is due."""
        if self.address is None or self.link is not None or self._context.loading:
            return
        if self._monotonic() < self.attempts.due_ms:
            return
        host, port = self.address
        action = "Reconnecting" if self.attempts.is_new_after_loss else "Connecting"
        self.attempts.begin()
        logger.info("%s to MASTER %s:%d", action, host.decode("utf-8", "backslashreplace"), port)
        self.link = link = self._new_link()
        self._task = asyncio.get_running_loop().create_task(self._connect(link, host.decode("utf-8", "replace"), port))
        logger.info("MASTER <-> REPLICA sync started")

    def _new_link(self) -> PrimaryLink:
        config, history = self._config, self._primary.history
        port = config.replica_announce_port or (config.tls_port if config.tls_replication else config.port)
        form = CAPABILITY if self._asks_for_rows else b""
        introduction = Introduction(config.masteruser, config.masterauth, port, config.replica_announce_ip, form)
        # What was missed has the command that could not be taken: only a snapshot can be without it.
        can_continue = self._has_history and not self.is_refusing
        position = Position(history.replid.encode(), history.offset) if can_continue else None
        return PrimaryLink(
            self._next_client_id(), config, self._context, self._turns, self._stats, self._clock, self._monotonic,
            Handshake(introduction, position, is_failover=self.is_failing_over), self, self._db_index,
        )  # fmt: skip

    async def _connect(self, link: PrimaryLink, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            context = self._tls_context() if self._config.tls_replication else None
            await loop.create_connection(lambda: cast(asyncio.Protocol, link), host, port, ssl=context)
        except CONNECT_ERRORS as error:
            link.end(End.FAILED, f"Error condition on socket for SYNC: {error}")

    def cron(self, now_ms: int, *, is_new_second: bool) -> None:
        """The periodic work."""
        link = self.link
        if self.address is None:
            return
        if link is None:
            self._try()
        elif self._monotonic() - link.last_read_ms > self._config.repl_timeout * 1000:
            link.end(End.SILENT, TIMEOUTS[link.phase])
        elif is_new_second:
            link.show_life()

    def stop(self) -> None:
        """Before the server ends: confirm what was applied, and close the link."""
        if self.is_up and self.link is not None:
            self.link.confirm()
        self._leave()

    # -- called by the link ----------------------------------------------------------------------

    def end_link(self, link: PrimaryLink, end: End, reason: str) -> None:
        """The link has ended."""
        if link is not self.link:
            return
        now_ms = self._monotonic()
        self._drop_link(link)
        self.last_error, self.failed_ms = reason, self._clock()
        if end is End.LOST:
            self.attempts.lose(now_ms)
        elif end is not End.REFUSED:
            self.attempts.fail(now_ms, FAILOVER_RETRY_MS if self.is_failing_over else RETRY_MS)
        else:
            self.is_refusing = True
            pause_ms = self.attempts.refuse(now_ms)
            reason += f". Next attempt in {pause_ms // 1000} seconds"
            if link.has_refused_rows:
                self._asks_for_rows = False
                reason += ", for an RDB"
        logger.warning("%s", reason)
        if end is End.LOST:
            logger.info("Caching the disconnected master state.")
        self._apply_role()
        if self.is_failing_over and link.handshake.has_asked and end is not End.SILENT:
            # As in Redis, a connection that is lost before the answer counts as a refusal.
            self.on_answer(False)
            self._turns.finish()
        self._try_soon()

    def begin_full_sync(self, position: Position) -> None:
        """The primary sends its dataset as of this position."""
        logger.info("Full resync from master: %s:%d", position.replid.decode(), position.offset)
        self._note_accepted()

    def _note_accepted(self) -> None:
        """The server that is followed is a primary."""
        if self.is_failing_over:
            self.on_answer(True)
            self._turns.finish()

    def end_full_sync(self, arrival: Arrival, position: Position) -> None:
        """Put the dataset that has arrived in the place of the present one, and continue its history."""
        arrival.exchange(self._clock())
        self._context.own_keys.clear()
        self._primary.adopt(position.replid.decode(), position.offset)
        self._has_history = True
        self.is_refusing = False
        self._count_all()
        self._restart_log()
        self._synced.clear()
        self._dispatcher.serving.serve_ready()
        self._turns.finish()

    def begin_stream(self, outcome: Outcome) -> Position:
        """The stream begins. Returns the position before its first byte."""
        history = self._primary.history
        if not isinstance(outcome, FullSync):
            logger.info("Successful partial resynchronization with master.")
            if outcome.replid is not None and outcome.replid.decode() != history.replid:
                logger.info("Master replication ID changed to %s", outcome.replid.decode())
                self._primary.continue_as(outcome.replid.decode())
            logger.info("MASTER <-> REPLICA sync: Master accepted a Partial Resynchronization.")
        link = self.link
        assert link is not None
        now_ms = self._monotonic()
        if self._down_since_ms is not None:
            self.down_total_ms += now_ms - self._down_since_ms
        self._up_since_ms = now_ms
        self.last_error = ""
        self._dispatcher.attach_primary(link)
        self._apply_role()
        self._note_mark()
        self._note_accepted()
        return Position(history.replid.encode(), history.offset)

    def pass_on(self, pieces: list[bytes]) -> None:
        """These bytes of the stream were applied: replicas of this server get them as they are."""
        self._primary.pass_on(pieces)
        self.is_refusing = False
        self._note_mark()
        self._turns.finish()

    # -- what is on stable storage ---------------------------------------------------------------

    def _note_mark(self) -> None:
        """Remember the offset of the log's present mark."""
        log = self._log()
        if log is not None:
            self._synced.note(log.mark, self._primary.history.offset)

    def synced_offset(self) -> int | None:
        """The offset up to which everything is on stable storage; None without a log."""
        log = self._log()
        if log is None:
            return None
        return 0 if log.is_starting else self._synced.at(log.synced_mark)
