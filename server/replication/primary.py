"""The primary: the replicas of this server, the stream that they follow, and what they have confirmed.

psync()     a client asks to follow: from its place in the history if the backlog has it, else after a snapshot
send()      at the end of each turn, after the log was written and before replies leave
cron()      `hz` times a second: snapshots that are due, and once a second pings and limits

As in Redis, there is no stream until the first replica has come, and it ends some time after the last one has left.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from ...commands.clients.client import Client
from ...commands.clients.replica import STATE_NAMES, Replica, ReplicaState
from ...persistence.placing import StreamPlace
from ...protocol.replies import Reply
from ...replication.backlog import Backlog
from ...replication.feed import GETACK, PING, Feed
from ...replication.history import History
from ...store.errors import GenericError, ReplyError
from ..configuration.config import Config
from ..reports.stats import Stats
from .full_sync import FullSync
from .limits import LinkLimits
from .link import Link, Peer, address_of, lag_s, replica_address
from .sync_log import log_full_sync, log_new_backlog, name_of, read_wanted_offset
from .unread import Unread

# To look a member up in its enumeration takes longer than to compare it.
ONLINE: Final = ReplicaState.ONLINE

logger = logging.getLogger(__name__)

NO_REPLY: tuple[bytes, ...] = ()


class NoPrimaryLink(ReplyError):
    """A replica without a link to its own primary takes no replicas."""

    prefix = b"NOMASTERLINK"

    def __init__(self) -> None:
        super().__init__(b"Can't SYNC while not connected with my master")


class FailingOver(ReplyError):
    """No replicas are taken while this server hands its role over."""

    prefix = b"NOMASTERLINK"

    def __init__(self) -> None:
        super().__init__(b"Can't SYNC while failing over")


class StreamSource(Protocol):
    """What gathers effects: `server.requests.units.Units`."""

    # Whether effects were appended since they were last written out; replies wait for that.
    has_unflushed_records: bool

    def replicate_to(self, feed: Feed | None) -> None:
        """Append effects to this stream from now on; to none if it is None."""
        ...

    @property
    def is_unit_open(self) -> bool:
        """Whether a transaction or a script is running that has had effects."""
        ...

    def log_singles(self) -> None:
        """Append the effects gathered so far."""
        ...


class Primary:
    """The replicas of one server. `peers` are the connections by client ID. `on_confirmed` is called when a replica
    has confirmed something; `note_lacking` when fewer keep up than `min-replicas-to-write`, or enough again.
    """

    def __init__(
        self,
        config: Config,
        stats: Stats,
        history: History,
        units: StreamSource,
        peers: Mapping[int, Peer],
        clock: Callable[[], int],
        *,
        on_confirmed: Callable[[], None],
        note_lacking: Callable[[bool], None],
    ) -> None:
        self._config = config
        self._stats = stats
        self.history = history
        self._units = units
        self._peers = peers
        self._clock = clock
        self._on_confirmed = on_confirmed
        self._note_lacking = note_lacking
        self._feed = Feed(history)
        self._limits = LinkLimits(config, stats)
        self._unread = Unread()
        # The last bytes of the stream; None while there is no stream.
        self.backlog: Backlog | None = None
        # In the order in which they came.
        self.links: list[Link] = []
        self.full_sync: FullSync
        # Whether a client waits for confirmations that were not asked for yet.
        self._wants_confirmation = False
        # When the stream last had something, and when the last replica left; Unix ms.
        self._fed_ms = 0
        self._alone_since_ms = 0
        self._good_count = 0
        # Whether this server follows a primary, whose bytes its own replicas then get as they are.
        self.is_following = False
        # Returns the database of the next byte from the primary; None while the dataset has commands that the offset
        # does not count.
        self.place_in_stream: Callable[[], int | None] = lambda: None
        # Returns whether the primary is followed now.
        self.has_link: Callable[[], bool] = lambda: False
        # Whether this server hands its role over, and whether its stream must have an end that replicas can reach.
        self.is_failing_over = False
        self.is_quiet = False
        # Returns whether writes are held, so that the stream stands still.
        self.is_paused: Callable[[], bool] = lambda: False
        config.on_change("repl-backlog-size", self._resize)
        for name in ("min-replicas-to-write", "min-replicas-max-lag"):
            config.on_change(name, lambda value: self._count_good())
        self._count_good()  # a start has no replicas

    # -- what others ask -------------------------------------------------------------------------

    @property
    def offset(self) -> int:
        """The bytes of the stream so far; without one, the records of the log."""
        return self.history.offset

    def forget_history(self) -> None:
        """DEBUG CHANGE-REPL-ID: begin a new history that continues no former one."""
        self.history.restart()

    def role_lines(self) -> list[list[bytes]]:
        """Address, port and confirmed offset of each replica that follows, as ROLE shows them."""
        return [
            [address_of(link), b"%d" % link.replica.port, b"%d" % link.replica.confirmed_offset] for link in self.online
        ]

    def info_lines(self, now_ms: int) -> list[str]:
        """The line of each replica in INFO."""
        return [
            f"ip={address_of(link).decode('utf-8', 'replace')},port={link.replica.port},"
            f"state={STATE_NAMES[link.replica.state]},offset={link.replica.confirmed_offset},"
            f"lag={lag_s(link, now_ms)},io-thread=0"
            for link in self.links
        ]

    def lags(self) -> list[tuple[str, int, int]]:
        """Of each replica that follows: its address with port, the offset that it has confirmed, and when; Unix ms."""
        return [
            (
                f"{address_of(link).decode('utf-8', 'replace')}:{link.replica.port}",
                link.replica.confirmed_offset,
                link.replica.confirmed_ms,
            )
            for link in self.online
        ]

    @property
    def online(self) -> list[Link]:
        """The replicas that have their snapshot."""
        return [link for link in self.links if link.replica.state is ONLINE]

    @property
    def good_count(self) -> int:
        """The number of replicas that have confirmed something lately enough (`min-replicas-max-lag`)."""
        return self._good_count

    def confirmed_count(self, offset: int) -> int:
        """The number of replicas that have everything up to this offset."""
        count = 0
        for link in self.links:
            if link.replica.state is ONLINE and link.replica.confirmed_offset >= offset:
                count += 1
        return count

    def synced_count(self, offset: int) -> int:
        """The number of replicas that have everything up to this offset on stable storage."""
        count = 0
        for link in self.links:
            if link.replica.state is ONLINE and link.replica.synced_offset >= offset:
                count += 1
        return count

    def ask_confirmation(self) -> None:
        """Ask all replicas, at the end of this turn, what they have."""
        if self.links and self.backlog is not None:
            self._wants_confirmation = True
            self._units.has_unflushed_records = True

    def request_confirmation(self) -> None:
        """Ask all replicas what they have, also while writes are held."""
        self._wants_confirmation = False
        if self.links and self.backlog is not None and not self.is_following:
            self._feed.append_request(GETACK)
            self._units.has_unflushed_records = True

    @property
    def replicas(self) -> list[Client]:
        """The clients that follow, or are about to."""
        return [link.peer.client for link in self.links]

    @property
    def memory_size(self) -> int:
        """Bytes of the backlog."""
        return 0 if self.backlog is None else self.backlog.memory_size

    # -- synchronization -------------------------------------------------------------------------

    def psync(self, client: Client, replid: bytes, wanted_offset: bytes) -> Reply:
        """PSYNC: let the client follow from this byte of that history, or after a snapshot. Raises ReplyError."""
        return self._begin(client, replid.decode("latin-1"), wanted_offset, is_plain=False)

    def sync(self, client: Client) -> Reply:
        """SYNC: let the client follow after a snapshot. Raises ReplyError."""
        return self._begin(client, "", b"0", is_plain=True)

    def _begin(self, client: Client, replid: str, wanted: bytes, *, is_plain: bool) -> Reply:
        if client.is_replica or client.is_primary or client.is_monitor:
            return NO_REPLY
        if self.is_failing_over:
            raise FailingOver
        if self.is_following and not self.has_link():
            raise NoPrimaryLink
        peer = self._peers[client.id]
        if peer.has_output:
            raise GenericError(b"SYNC and PSYNC are invalid with pending output")
        replica = client.replica = client.replica or Replica()
        if replica.wants_no_keys and not replica.accepts_eof:
            raise GenericError(b"Filtered replica requires EOF capability")
        name = name_of(replica, client)
        wanted_offset = read_wanted_offset(name, wanted)
        backlog = self._begin_stream() if self.backlog is None else self.backlog
        replica.is_plain = is_plain
        now_ms = replica.confirmed_ms = self._clock()
        is_known = not is_plain and self.history.includes(replid, wanted_offset) and backlog.has(wanted_offset - 1)
        if not is_known:
            self._unread.check(replica_address(replica, client), replica.port, now_ms)
        link = Link(peer, replica, now_ms, self._end)
        self.links.append(link)
        if is_known:
            self._continue(link, backlog, wanted_offset - 1)
            return NO_REPLY
        if not is_plain and replid != "?":
            self._stats.sync_partial_err += 1
        if not is_plain:
            log_full_sync(name, self.history, replid, wanted_offset)
        self._stats.sync_full += 1
        replica.state = ReplicaState.WAITING
        self._begin_full_sync(now_ms)
        return NO_REPLY

    def _begin_full_sync(self, now_ms: int) -> None:
        """Begin a snapshot for the replicas that wait, if it is due. Its place in the stream must be known."""
        if not self.is_following or self.place_in_stream() is not None:
            self.full_sync.begin(self._waiting(), now_ms)

    def _continue(self, link: Link, backlog: Backlog, position: int) -> None:
        """Let a replica follow from its place in the backlog."""
        self._stats.sync_partial_ok += 1
        link.position = position
        names_id = link.replica.accepts_new_id
        link.write(b"+CONTINUE %b\r\n" % self.history.replid.encode() if names_id else b"+CONTINUE\r\n")
        logger.info(
            "Partial resynchronization request from %s accepted. Sending %d bytes of backlog starting from offset %d.",
            name_of(link.replica, link.peer.client), backlog.end - position, position + 1,
        )  # fmt: skip
        link.follow(backlog)
        self._count_good()

    def _waiting(self) -> list[Link]:
        return [link for link in self.links if link.replica.state is ReplicaState.WAITING]

    def snapshot_begins(self) -> StreamPlace:
        """Called when a snapshot for replicas is taken. Returns its place. The stream after it begins with SELECT."""
        self._units.log_singles()
        self._feed.selected_db = None
        db_index = (self.place_in_stream() or 0) if self.is_following else 0
        return StreamPlace(db_index, self.history.replid, self.history.offset)

    def follow(self, link: Link) -> None:
        """Let a replica that has its snapshot follow."""
        assert self.backlog is not None
        logger.info("Synchronization with replica %s succeeded", name_of(link.replica, link.peer.client))
        link.follow(self.backlog)
        self._count_good()

    def _end(self, link: Link) -> None:
        """The connection of a replica is closed."""
        self.links.remove(link)
        logger.info("Connection with replica %s lost.", name_of(link.replica, link.peer.client))
        now_ms = self._alone_since_ms = self._clock()
        self._unread.note_end(link, now_ms)
        self.full_sync.end(link)
        self._count_good()

    # -- the history of another primary ----------------------------------------------------------

    def note_role(self, *, is_following: bool) -> None:
        """Set whether this server follows a primary. Then `min-replicas-to-write` does not apply, as in Redis."""
        self.is_following = is_following
        self._count_good()

    def adopt(self, replid: str, offset: int) -> None:
        """Continue this history of a primary, whose dataset this server now has. The replicas have another one."""
        self._close_links()
        self.history.adopt(replid, offset)
        self._start_stream()

    def continue_as(self, replid: str) -> None:
        """The primary has given the history a new ID. The replicas must learn it, and continue then."""
        if replid != self.history.replid:
            self.send()
            self.history.continue_as(replid)
            self._close_links()

    def pass_on(self, pieces: list[bytes]) -> None:
        """These bytes of the primary were applied: send them to the replicas at the end of this turn."""
        for piece in pieces:
            self._feed.append_request(piece)
        self._units.has_unflushed_records = True

    def promote(self) -> None:
        """This server follows no primary any more: the history continues under a new ID. The replicas must learn it."""
        self.send()
        history = self.history
        history.take_over()
        logger.info(
            "Setting secondary replication ID to %s, valid up to offset: %d. New replication ID is %s",
            history.former_id, history.former_end, history.replid,
        )  # fmt: skip
        self._feed.selected_db = None
        self._alone_since_ms = self._clock()
        self._close_links()

    def _close_links(self) -> None:
        for link in list(self.links):
            link.close()

    # -- the stream ------------------------------------------------------------------------------

    def _begin_stream(self) -> Backlog:
        """Keep what replicas follow from now on. None can continue from before."""
        self._units.log_singles()
        self.history.restart()
        log_new_backlog(self.history)
        return self._start_stream()

    def _start_stream(self) -> Backlog:
        self._feed = Feed(self.history)
        self.backlog = Backlog(self._config.repl_backlog_size, self.history.offset)
        self._units.replicate_to(self._feed)
        return self.backlog

    def find_place(self) -> StreamPlace | None:
        """The place of the dataset in the stream, for dump.rdb and the log; None without a stream, and while the
        dataset has the beginning of a unit.
        """
        if self.backlog is None or self._units.is_unit_open:
            return None
        self._units.log_singles()
        if self.is_following:
            db_index = self.place_in_stream()
            return None if db_index is None else StreamPlace(db_index, self.history.replid, self.history.offset)
        return StreamPlace(self._feed.selected_db or 0, self.history.replid, self.history.offset)

    def resume(self, place: StreamPlace, left_out: list[tuple[int, bytes]]) -> None:
        """Continue the history of the dataset that was loaded: replicas that have no more of it follow on. `left_out`
        are keys that the load left out because they had expired, with their databases.
        """
        history = self.history
        history.replid, history.offset = place.replid, place.offset
        history.take_over()
        self._start_stream()
        self._alone_since_ms = self._clock()
        self._feed.append_deletions(left_out)
        self.send()

    def _end_stream(self) -> None:
        self.send()
        self.backlog = None
        self._units.replicate_to(None)
        self.history.restart()

    def _resize(self, size: int) -> None:
        if self.backlog is not None:
            self.backlog.size = size
            self._trim(self.backlog)

    def ask(self) -> None:
        """Append the request for a confirmation that this turn wants: before the log has the place of the turn."""
        if self._wants_confirmation and self.backlog is not None and not self.is_paused():
            self._wants_confirmation = False
            if not self.is_following:
                self._feed.append_request(GETACK)

    def send(self) -> None:
        """Send what this turn has brought. Called when the log has it, and before replies leave."""
        self.ask()
        backlog, feed = self.backlog, self._feed
        if backlog is None:
            return
        if feed.is_empty:
            return
        self._fed_ms = self._clock()
        pieces = feed.take()
        pieces.reverse()
        while pieces:
            # Of a large value, a piece is freed when the backlog has it.
            data = pieces.pop()
            backlog.append(data)
            for link in self.links:
                if link.is_following:
                    link.send(data, backlog.end)
            self._trim(backlog)

    def _trim(self, backlog: Backlog) -> None:
        """Forget what neither the size of the backlog nor a replica requires."""
        needed = [link.position for link in self.links if link.replica.state is not ReplicaState.WAITING]
        backlog.trim(min(needed, default=backlog.end))

    # -- confirmations ---------------------------------------------------------------------------

    def confirm(self, client: Client, offset: int, synced_offset: int | None) -> None:
        """REPLCONF ACK: the replica has everything up to this offset, and this much of it on stable storage."""
        replica = client.replica
        if replica is None or not client.is_replica:
            return
        replica.has_confirmed = True
        replica.confirmed_ms = self._clock()
        replica.confirmed_offset = max(replica.confirmed_offset, offset)
        if synced_offset is not None:
            replica.synced_offset = max(replica.synced_offset, synced_offset)
        for link in self.links:
            if link.replica is replica and replica.state is ReplicaState.ONLINE and not link.is_following:
                self.follow(link)
        self._on_confirmed()

    def _count_good(self) -> None:
        """Count the replicas that keep up, for `min-replicas-to-write`."""
        oldest_ms = self._clock() - self._config.min_replicas_max_lag * 1000
        self._good_count = sum(link.replica.confirmed_ms >= oldest_ms for link in self.online)
        config = self._config
        is_required = bool(config.min_replicas_to_write and config.min_replicas_max_lag)
        self._note_lacking(is_required and not self.is_following and self._good_count < config.min_replicas_to_write)

    # -- time ------------------------------------------------------------------------------------

    def cron(self, now_ms: int, *, is_new_second: bool) -> None:
        """Begin snapshots that are due; once a second, send signs of life, and close replicas that give none."""
        if self.links:
            if self._wants_confirmation:
                self._units.has_unflushed_records = True
            self._begin_full_sync(now_ms)
            if self.backlog is not None:
                self._limits.check_sizes(self.links, self.backlog, now_ms)
        if is_new_second:
            self._count_good()
        if not is_new_second or self.backlog is None:
            return
        self._limits.check_life(self.links, now_ms)
        config = self._config
        if self.is_following:
            return  # pings come from the primary, and its history continues
        if self.links:
            if self.is_quiet:
                return
            if now_ms - self._fed_ms >= config.repl_ping_replica_period * 1000:
                self._feed.append_request(PING)
                self._units.has_unflushed_records = True
        elif config.repl_backlog_ttl and now_ms - self._alone_since_ms > config.repl_backlog_ttl * 1000:
            logger.info(
                "Replication backlog freed after %d seconds without connected replicas.", config.repl_backlog_ttl
            )
            self._end_stream()

    def stop(self) -> None:
        """Before the server ends: send what is left, and close the replicas."""
        self.send()
        for link in list(self.links):
            link.peer.close()
