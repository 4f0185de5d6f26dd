"""The server: it owns the store, the log and the connections, and is what handlers see as `Services`.

Everything happens on the loop's thread, a turn at a time (`Turns`). Time is read from `clock` (Unix ms), once per
batch, and from `monotonic` where a wait begins; tests bring their own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count
from typing import Final, cast

from ..commands import registry
from ..commands.clients.client import Client
from ..commands.execution.context import Context
from ..commands.execution.enforcement import may_stay
from ..commands.permissions.log import AclLog
from ..persistence.aof import AppendOnlyLog
from ..persistence.errors import LogFailure
from ..protocol.replies import Reply
from ..store.chunk import drop_unpacked
from ..store.clock import monotonic_clock_ms, wall_clock_ms
from ..store.database import Store
from ..store.errors import GenericError, ReplyError
from .configuration.config import Config
from .configuration.live_settings import LiveSettings
from .configuration.users import load_users, reload_users, save_users
from .periodic import PeriodicWork
from .reports.info import render
from .reports.memory import Memory
from .reports.memory_report import memory_report, memory_stats, purge_memory
from .reports.process import resident_size
from .reports.stats import Stats
from .requests.client_limits import ClientLimits
from .requests.cross_protocol import CrossProtocol
from .requests.dispatch import Dispatcher
from .requests.turns import Turns
from .sockets.acceptor import Acceptor
from .sockets.connection import Connection, Shared
from .storage.key_walks import ActiveExpiry, IdempotenceExpiry, NodeSettling, time_limit
from .storage.loading import Loading
from .storage.log_life import LogState
from .storage.log_switch import LogSwitch
from .storage.logkeeper import LogKeeper
from .storage.snapshots import Snapshots

logger = logging.getLogger(__name__)

# Time that one periodic turn may spend on giving memory back, a tenth of the time between turns.
FREEING_NS: Final = 10_000_000


def call_later(delay_s: float, call: Callable[[], None]) -> asyncio.TimerHandle:
    """Call a function on the running loop after a delay."""
    return asyncio.get_running_loop().call_later(delay_s, call)


assert registry.FAMILIES, "importing the registry fills the command table"


class Server:
    """One server. `config` holds the directives; `clock` answers Unix ms, `monotonic` the ms by which waits are timed:
    those of `clock` too where that is a test's.
    """

    def __init__(
        self, config: Config, *, clock: Callable[[], int] = wall_clock_ms, monotonic: Callable[[], int] | None = None
    ) -> None:
        self.config = config
        self.clock = clock
        self.monotonic = monotonic or (monotonic_clock_ms if clock is wall_clock_ms else clock)
        self.started_ms = clock()
        self.stats = Stats(started_ms=self.started_ms)
        self.store = Store(config.databases)
        self.context: Context = Context(self.store, self)
        self.context.logging = False
        self.users = load_users(config)
        self.acl_log = AclLog()
        self.dispatcher = Dispatcher(self.context, self.stats, self.monotonic)
        # Set, by `end`, once the server has been asked to stop.
        self.stopped = asyncio.Event()
        self.exit_code = 0
        # Whether the log could not keep a promise, which is logged once.
        self.has_died = False
        # Set while clients are served.
        self._loop: asyncio.AbstractEventLoop | None = None
        self.periodic = PeriodicWork(config, clock, self._work)
        self.expiry = ActiveExpiry(self.store)
        self.idempotence_expiry = IdempotenceExpiry(self.store)
        self._settling = NodeSettling(self.store)
        self.log_keeper = keeper = LogKeeper(
            config, self.context, self.dispatcher, clock,
            die=self.die, has_died=lambda: self.has_died, wake=self.call_soon_threadsafe,
            on_stable=self._serve_synced_soon,
        )  # fmt: skip
        self.loading = Loading(config, self.context, keeper, clock, self.dispatcher.refresh_clients)
        self.turns = Turns(self.dispatcher, clock, keeper.write, keeper.write_early)
        self.snapshots = Snapshots(
            config, self.context, keeper, clock, call_later, figures=self.stats, resident_size=resident_size,
            count_changes=lambda: self.changes_count, refuse_writes=self.dispatcher.note_save_failing,
        )  # fmt: skip
        LogSwitch(config, self.context, keeper, self.snapshots, lambda: self.is_serving)
        self.limits = ClientLimits(config, self.stats, lambda: self.connections, clock, self.monotonic)
        self.cross_protocol = CrossProtocol(clock)
        client_ids = count(1)
        self.shared = Shared(
            config, self.context, self.dispatcher, self.turns, self.limits, self.stats, self.cross_protocol, clock,
            lambda: next(client_ids),
        )  # fmt: skip
        self.acceptor = Acceptor(self.shared, self.users)
        self.memory = Memory(
            config, self.context, self.dispatcher.sessions, clock,
            lambda: 0 if keeper.log is None else keeper.log.buffer_size, self.dispatcher.refresh_clients,
        )  # fmt: skip
        config.on_change("maxmemory", lambda value: self.memory.count_all())
        for name in ("save", "stop-writes-on-bgsave-error"):
            config.on_change(name, lambda value: self.snapshots.note_failing())
        LiveSettings(
            config, self.context, self.users, refresh_clients=self.dispatcher.refresh_clients,
            apply_users=self.apply_users, configure_readers=self._configure_readers,
        )  # fmt: skip
        self.memory.measure()

    # -- connections -----------------------------------------------------------------------------

    @property
    def clients(self) -> dict[int, Client]:
        """Connected clients by ID, oldest first."""
        return {client_id: session.client for client_id, session in self.dispatcher.sessions.items()}

    @property
    def connections(self) -> list[Connection]:
        """Every connection, oldest first."""
        return cast(list[Connection], list(self.dispatcher.sessions.values()))

    @property
    def changes_count(self) -> int:
        """Effects of all commands so far."""
        return self.dispatcher.changes_count + self.context.unlogged_count

    @property
    def blocked_count(self) -> int:
        """Clients that are blocked."""
        return len(self.dispatcher.waiters.by_client)

    @property
    def is_refusing_writes(self) -> bool:
        """Whether writes get MISCONF."""
        return self.dispatcher.admission.is_refusing_writes

    def _configure_readers(self) -> None:
        for connection in self.connections:
            connection.configure_reader()

    def _serve_synced_soon(self) -> None:
        """More of the log is on stable storage than before, or there is no log any more: that may end a WAITAOF."""
        if self.dispatcher.waiters.by_client:
            self.call_soon_threadsafe(self._serve_synced)

    def _serve_synced(self) -> None:
        self.dispatcher.serving.serve_synced()
        self.turns.finish()

    @property
    def is_serving(self) -> bool:
        """Whether clients have been let in."""
        return self._loop is not None

    def call_soon_threadsafe(self, call: Callable[[], None]) -> None:
        """Let the loop's thread do something, while clients are served."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(call)

    # -- the disk --------------------------------------------------------------------------------

    def die(self, failure: LogFailure) -> None:
        """What `appendfsync always` promises cannot be kept: no reply that waits for it may leave."""
        if not self.has_died:
            logger.critical("%s", failure)
        self.has_died = True
        self.exit_code = 1
        self.drop_replies()
        self.end()

    def drop_replies(self) -> None:
        """Close all connections without the replies that have not left."""
        self.dispatcher.outgoing.clear()
        for connection in self.connections:
            connection.out.clear()
            connection.abort()

    def end(self) -> None:
        """Run no more requests, and stop."""
        self.dispatcher.is_over = True
        self.stopped.set()

    @property
    def log(self) -> AppendOnlyLog | None:
        """The log in force, None while effects are not kept."""
        return self.log_keeper.log

    def load(self) -> Iterator[None]:
        """Load the dataset, then go on appending to the log if there is to be one. Between two steps of it clients may
        be served: they get LOADING, also after a load that has failed. Raises LogError, OSError.
        """
        keeper = self.log_keeper
        if self.config.appendonly or self.config.save:
            keeper.lock.acquire()
        loaded = keeper.begin_load()
        try:
            yield from self.loading.steps(loaded)
            self.memory.count_all()
            keeper.end_load(loaded)
        except BaseException:
            # Of a load that failed, or was given up, half a dataset is there: nobody may read or change it.
            self.end()
            keeper.close()
            raise

    def load_now(self) -> None:
        """The same without clients."""
        for _ in self.load():
            continue

    def reload_log(self) -> None:
        """DEBUG LOADAOF: empty the dataset and fill it from the log. Raises GenericError."""
        keeper = self.log_keeper
        failed = GenericError(b"Error trying to load the AOF files, check server logs.")
        if keeper.state is LogState.STARTING:
            logger.warning("The append-only file cannot be loaded before its base is complete")
            raise failed
        # What the unit that runs has gathered so far belongs to the log that is about to be read.
        self.dispatcher.log_unit()
        try:
            if not keeper.sync():
                raise failed
        except LogFailure as failure:
            self.die(failure)
            raise failed from failure
        self.loading.reload_log(self.log or keeper.new_log())

    def reload_dataset(self) -> None:
        """DEBUG RELOAD: turn the dataset into an RDB file, empty it and fill it from that. Raises GenericError."""
        self.loading.reload_dataset()

    # -- life ------------------------------------------------------------------------------------

    async def start_accepting(self) -> None:
        """Let clients in."""
        self._loop = asyncio.get_running_loop()
        await self.acceptor.open()

    async def stop(self) -> int:
        """Refuse new clients, send what is left, bring the log to disk, close everything; the exit code."""
        self.acceptor.close()
        self.periodic.stop()
        self.turns.stop_timer()
        self.turns.flush()
        self.snapshots.stop()
        if not self.log_keeper.close():
            self.exit_code = 1
        for connection in self.connections:
            connection.close()
        # One turn, so that the transports can hand over what they were just given.
        await asyncio.sleep(0)
        return self.exit_code

    def _work(self, now_ms: int, is_new_second: bool) -> None:
        """The periodic work of one turn: `hz` times a second."""
        if self.periodic.expires_keys:
            self.context.latency.run("expire-cycle", partial(self.expiry.run, now_ms), self.clock)
        self.dispatcher.serving.serve_expired(now_ms)
        if is_new_second or self.config.maxmemory:
            self.memory.cron()
        if is_new_second:
            self.idempotence_expiry.run(now_ms)
            self.limits.close_idle(now_ms)
        self.store.garbage.free(time_limit(FREEING_NS))
        self._settling.run(self.stats.commands_processed)
        self.limits.cron(now_ms)
        self.stats.sample(now_ms)
        self.turns.finish()
        self.log_keeper.cron(now_ms)
        self.snapshots.cron(now_ms)

    # -- users -----------------------------------------------------------------------------------

    def apply_users(self) -> None:
        """Put changed users in force: connections of users that are gone are closed, and those that listen to what they
        no longer may; others go on under the new rules.
        """
        for client in self.clients.values():
            if not may_stay(self.context, client):
                client.user, client.authenticated = self.users.default, False
                self.kill_client(client)
        self.dispatcher.refresh_clients()

    def load_users(self) -> None:
        """ACL LOAD: all users of `aclfile`, or none if a line is wrong. Raises GenericError."""
        reload_users(self.config, self.users)

    def save_users(self) -> None:
        """ACL SAVE: write all users to `aclfile`. Raises GenericError."""
        save_users(self.config, self.users)

    # -- Services: what handlers may ask for -----------------------------------------------------

    def deliver(self, clients: Iterable[Client], message: Reply) -> None:
        """Send clients what they did not ask for."""
        self.dispatcher.pushes.deliver(clients, message)

    def deliver_now(self, client: Client) -> None:
        """Let the running client hear what is kept for it until it has its reply."""
        self.dispatcher.pushes.hand_over(self.dispatcher.sessions[client.id])

    def kept_size(self, client: Client) -> int:
        """Bytes of the messages that are kept for the client until it has its reply."""
        return self.dispatcher.pushes.kept_size(client)

    def refresh_clients(self) -> None:
        """Look anew at who may take the dispatcher's fast path."""
        self.dispatcher.refresh_clients()

    def refusal_of_writes(self) -> ReplyError | None:
        """MISCONF while the log or the snapshots cannot be written, None while they can."""
        admission = self.dispatcher.admission
        return admission.refusal_of_writes() if admission.is_refusing_writes else None

    def find_client(self, client_id: int) -> Client | None:
        """The connected client of that ID."""
        session = self.dispatcher.sessions.get(client_id)
        return None if session is None else session.client

    def broadcast_soon(self) -> None:
        """At the end of this turn of the loop, tell the keys that have changed in it."""
        if self._loop is not None:
            self._loop.call_soon(self.broadcast)

    def broadcast(self) -> None:
        """Tell them now."""
        self.context.tracking.tell_broadcasts()
        self.turns.finish()

    def kill_client(self, client: Client) -> None:
        """Close a connection; one's own closes after its reply."""
        if client is self.context.client:
            client.close_after_reply = True
            return
        session = self.dispatcher.sessions.get(client.id)
        if session is not None:
            client.killed = True
            session.abort()

    def unblock_client(self, client: Client, *, with_error: bool) -> bool:
        """End a blocked read early; False if the client was not blocked."""
        return self.dispatcher.serving.unblock(client, with_error=with_error)

    def pause_clients(self, pause_ms: int, *, writes_only: bool) -> None:
        """Hold commands back for so long."""
        self.dispatcher.begin_pause(pause_ms, writes_only=writes_only)

    def unpause_clients(self) -> None:
        """Let held commands go on."""
        self.dispatcher.end_pause()

    def shutdown(self, *, save: bool | None, now: bool, force: bool) -> None:
        """Stop after this command. Raises GenericError, and goes on serving, if the disk does not take the dataset."""
        if not self.prepare_stop(save=save) and not force:
            raise GenericError(b"Errors trying to SHUTDOWN. Check logs.")
        logger.warning("User requested shutdown...")
        self.end()

    def save(self) -> bool:
        """SAVE: False if it failed. Raises GenericError."""
        return self.snapshots.save_now()

    def save_in_background(self, *, may_wait: bool, may_start: bool) -> bool:
        """BGSAVE: False if it has only been scheduled. Raises GenericError."""
        return self.snapshots.request_save(may_wait=may_wait, may_start=may_start)

    @property
    def last_save_ms(self) -> int:
        """LASTSAVE, in Unix ms."""
        return self.snapshots.last_save_ms

    def rewrite_log(self, *, may_start: bool) -> bool:
        """BGREWRITEAOF: False if it has only been scheduled. Raises GenericError."""
        return self.snapshots.request_rewrite(may_start=may_start)

    def prepare_stop(self, save: bool | None = None) -> bool:
        """Bring everything to disk: the log, and a snapshot if `save` says so, or None and there are save points."""
        self.dispatcher.log_single_units()
        try:
            is_synced = self.snapshots.complete_log() and self.log_keeper.sync()
        except LogFailure as failure:
            self.die(failure)
            return True  # there is nothing to go on with
        wants_snapshot = bool(self.snapshots.save_points) if save is None else save
        if not wants_snapshot or self.log_keeper.state is LogState.LOADING:
            return is_synced
        self.snapshots.stop()
        return self.snapshots.save_now() and is_synced

    def memory_stats(self) -> dict[bytes, object]:
        """MEMORY STATS."""
        return memory_stats(self)

    def memory_report(self) -> str:
        """MEMORY DOCTOR."""
        return memory_report(self)

    def purge_memory(self) -> None:
        """MEMORY PURGE."""
        drop_unpacked()
        purge_memory()

    def info(self, sections: list[bytes]) -> bytes:
        """The text of INFO."""
        return render(self, sections)

    def reset_stats(self) -> None:
        """CONFIG RESETSTAT."""
        self.stats.reset()
        self.expiry.reset_statistics()
        for client in self.clients.values():
            self.stats.pipelined_before -= client.pipeline_length_sum
            self.stats.reads_before -= client.reads_count
        self.context.slow_log.reset_statistics()
        for db in self.store.databases:
            db.hits = db.misses = 0
