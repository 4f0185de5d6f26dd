"""The server. It owns the store, the log and the connections. Handlers see it as `Services`.

Everything runs on the thread of the event loop, one turn at a time (`Turns`). `clock` (Unix ms) is read once per batch
of requests. `monotonic` is read when a wait begins. Tests pass their own clocks.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Final, cast

from ..commands import registry
from ..commands.clients.client import Client
from ..commands.clients.subscriptions import Subscriptions
from ..commands.clients.tracking import Tracking
from ..commands.execution.context import Context
from ..commands.execution.services import Services
from ..commands.observing.hot_keys import HotKeys
from ..commands.observing.monitors import Monitors
from ..commands.observing.notifications import Notifications
from ..commands.scripting.deadline import Deadline
from ..commands.scripting.libraries import Libraries
from ..commands.scripting.scripts import Scripts
from ..persistence.aof import AppendOnlyLog
from ..persistence.errors import LogFailure
from ..replication.history import History
from ..store.clock import monotonic_clock_ms, wall_clock_ms, wall_clock_us
from ..store.database import Store
from .configuration.config import Config
from .configuration.live_settings import LiveSettings
from .eviction.cycle import Eviction
from .periodic import PeriodicWork
from .replication.failover import Failover
from .replication.following import Following
from .replication.full_sync import FullSync
from .replication.primary import Primary
from .reports.activity import REPORT_INTERVAL_S, log_sizes
from .reports.memory import Memory
from .reports.process import resident_size
from .reports.server_reports import ServerReports
from .reports.stats import Stats
from .requests.client_limits import ClientLimits
from .requests.connected_clients import ConnectedClients
from .requests.cross_protocol import CrossProtocol
from .requests.dispatch import Dispatcher
from .requests.long_commands import LongCommands
from .requests.pushes import Pushes
from .requests.turns import Turns
from .requests.upkeep import Upkeep
from .requests.user_accounts import UserAccounts
from .sockets.acceptor import Acceptor
from .sockets.connection import Connection, Shared
from .sockets.migrations import Migrations
from .sockets.tls import TlsError, build_client_context
from .stopping import Stopping
from .storage.backups import Backups
from .storage.disk_storage import DiskStorage
from .storage.key_walks import EXPIRY_REST_S, EXPIRY_SLICE_NS, ActiveExpiry, IdempotenceExpiry, NodeSettling, time_limit
from .storage.loading import Loading
from .storage.log_life import LogState
from .storage.log_switch import LogSwitch
from .storage.logkeeper import LogKeeper
from .storage.snapshots import Snapshots

logger = logging.getLogger(__name__)

# Time for freeing memory in one go, and the time until it continues.
FREEING_SLICE_NS: Final = 1_000_000
FREEING_REST_S: Final = 0.009
# Share of the time between two periodic turns that one of them may spend on the policies of streams.
RETENTION_SHARE: Final = 0.1


def call_later(delay_s: float, call: Callable[[], None]) -> asyncio.TimerHandle:
    """Call a function on the running loop after a delay."""
    return asyncio.get_running_loop().call_later(delay_s, call)


assert registry.FAMILIES, "importing the registry fills the command table"


class Server:
    """One server. `config` holds the directives. `clock` returns Unix ms. `monotonic` returns the ms by which waits are
    timed; by default that is `clock` if a test passes one.
    """

    def __init__(
        self, config: Config, *, clock: Callable[[], int] = wall_clock_ms, monotonic: Callable[[], int] | None = None
    ) -> None:
        self.config = config
        self.clock = clock
        self.monotonic = monotonic or (monotonic_clock_ms if clock is wall_clock_ms else clock)
        clock_us = wall_clock_us if clock is wall_clock_ms else lambda: clock() * 1000
        self.started_ms = clock()
        # The program that is notified of the start and the stop, as in `supervised`.
        self.supervised_by = "no"
        self.stats = Stats(started_ms=self.started_ms)
        self.store = Store(config.databases)
        pushes = Pushes()
        subscriptions = Subscriptions(pushes)
        self.context = context = Context(
            self.store,
            subscriptions,
            Notifications(subscriptions),
            Tracking(
                pushes, config,
                refresh_clients=self.refresh_clients, refresh_listeners=lambda: context.refresh_listeners(),
                broadcast_soon=self.broadcast_soon,
            ),
            Monitors(pushes, config, clock_us=clock_us),
            HotKeys(refresh_clients=self.refresh_clients),
            clock_us,
        )  # fmt: skip
        deadline = Deadline()
        context.scripts, context.libraries = Scripts(context, deadline), Libraries(context, deadline)
        context.logging = False
        history = History()
        self.dispatcher = Dispatcher(context, self.stats, history, self.monotonic, pushes)
        connected = ConnectedClients(self.dispatcher)
        self.accounts = UserAccounts(config, context, connected, self.refresh_clients)
        # Set by `end`, when the server was asked to stop.
        self.stopped = asyncio.Event()
        self.exit_code = 0
        # Whether the log could not keep a promise. That is logged once.
        self.has_died = False
        # Set while clients are served.
        self._loop: asyncio.AbstractEventLoop | None = None
        # Calls of the periodic work that began a second.
        self._seconds_count = 0
        self.periodic = PeriodicWork(config, clock, self._work)
        self.expiry = ActiveExpiry(self.store)
        self.idempotence_expiry = IdempotenceExpiry(self.store)
        self._settling = NodeSettling(self.store, self.turn_ns)
        self.log_keeper = keeper = LogKeeper(
            config, context, self.dispatcher.units, clock,
            note_write_error=self.dispatcher.note_write_error, die=self.die, has_died=lambda: self.has_died,
            wake=self.call_soon_threadsafe, on_stable=self._serve_synced_soon,
        )  # fmt: skip
        self.loading = Loading(config, context, keeper, clock, self.refresh_clients)
        self.primary = Primary(
            config, self.stats, history, self.dispatcher.units, cast(dict[int, Connection], self.dispatcher.sessions),
            clock, on_confirmed=self._serve_confirmed, note_lacking=self.dispatcher.note_lacking_replicas,
        )  # fmt: skip
        self.upkeep = Upkeep(context, self.dispatcher.serving, self.dispatcher.units, self._may_act)
        self.turns = Turns(self.dispatcher, clock, self._write_out, self._write_out_early, self.broadcast, self.upkeep)
        self.snapshots = Snapshots(
            config, context, keeper, clock, call_later, figures=self.stats, resident_size=resident_size,
            count_changes=lambda: self.changes_count, refuse_writes=self.dispatcher.note_save_failing,
        )  # fmt: skip
        self.primary.full_sync = FullSync(
            config, self.snapshots, lambda: keeper.files, self.primary.snapshot_begins, self.primary.follow
        )
        self.snapshots.find_place = keeper.find_place = self.primary.find_place
        self._log_switch = LogSwitch(config, context, keeper, self.snapshots, lambda: self.is_serving)
        self.backups = Backups(config, keeper, self.snapshots, clock, self._log_switch.turn_off)
        self._log_switch.on_off = self.backups.note_log_off
        self.limits = ClientLimits(config, self.stats, lambda: self.connections, clock, self.monotonic)
        self.cross_protocol = CrossProtocol(clock)
        client_ids = count(1)
        self.shared = Shared(
            config, context, self.dispatcher, self.turns, self.limits, self.stats, self.cross_protocol, clock,
            lambda: next(client_ids),
        )  # fmt: skip
        self.following = Following(
            config, context, self.stats, self.dispatcher, self.turns, self.primary, clock, self.monotonic,
            next_client_id=lambda: next(client_ids), log=lambda: keeper.log, restart_log=self._log_switch.restart,
            count_all=lambda: self.memory.count_all(), tls_context=self._link_tls_context,
            call_soon=self._call_soon,
        )  # fmt: skip
        self.failover = Failover(
            self.primary, self.following, self.dispatcher, clock, self.monotonic,
            call_soon=self._call_soon, finish=self.turns.finish,
        )  # fmt: skip
        self.primary.is_paused = lambda: self.dispatcher.pause.end_ms is not None
        self.migrations = Migrations(
            lambda client: self.dispatcher.serving.run_after_work(client, clock()), self.turns.finish, self._call_soon
        )
        self.long_commands = LongCommands(self.dispatcher, self.dispatcher.serving.run_after_work, self.turns.finish)
        self.stopping = Stopping(
            config, self.primary, self.dispatcher, clock, self.monotonic,
            prepare=lambda save: self.prepare_stop(save), end=self.end,
            serve_waits=self.dispatcher.serving.serve_progress, finish_turn=self.turns.finish,
        )  # fmt: skip
        self.acceptor = Acceptor(self.shared, self.accounts.users)
        self.memory = Memory(
            config, context, self.dispatcher.sessions, clock,
            self._buffers_size, self.refresh_clients, self._may_evict,
        )  # fmt: skip
        for name in ("save", "stop-writes-on-bgsave-error"):
            config.on_change(name, lambda value: self.snapshots.note_failing())
        LiveSettings(
            config, context, self.accounts.users, refresh_clients=self.refresh_clients,
            apply_users=self.accounts.apply, configure_readers=self._configure_readers,
        )  # fmt: skip
        self.storage = DiskStorage(
            keeper, self.loading, self.snapshots, self.backups, self.stopping,
            die=self.die,
            log_unit=self.dispatcher.units.log_unit, refusal_of_writes=self.dispatcher.admission.refusal_of_writes,
        )  # fmt: skip
        context.server = Services(
            config, self.stats, self.memory, self.periodic, pushes, connected, self.accounts, self.storage,
            self.primary, self.following, self.failover, self.migrations, self.long_commands,
            ServerReports(self),
        )  # fmt: skip
        self.eviction = Eviction(
            config, context, self.memory, self.stats,
            log=self.dispatcher.units.log_evicted, may_evict=self._may_evict, continue_soon=self._evict_soon,
        )  # fmt: skip
        self.dispatcher.admission.evict = self.eviction.run
        config.on_change("maxmemory", lambda value: self._limit_memory())
        self.following.start()
        self.memory.measure()

    def refresh_clients(self) -> None:
        """Check again which clients may use the dispatcher's fast path."""
        self.dispatcher.refresh_clients()

    # -- connections -----------------------------------------------------------------------------

    @property
    def clients(self) -> dict[int, Client]:
        """Connected clients by ID, oldest first."""
        return {client_id: session.client for client_id, session in self.dispatcher.sessions.items()}

    @property
    def connections(self) -> list[Connection]:
        """Every connection that was accepted, oldest first."""
        return [each for each in self.dispatcher.sessions.values() if isinstance(each, Connection)]

    @property
    def changes_count(self) -> int:
        """Changes of all commands so far."""
        context = self.context
        return self.dispatcher.units.changes_count + context.unlogged_count + context.counted_apart

    @property
    def blocked_count(self) -> int:
        """The number of blocked clients."""
        return len(self.dispatcher.waiters.by_client)

    @property
    def is_refusing_writes(self) -> bool:
        """Whether writes are refused with MISCONF."""
        return self.dispatcher.admission.is_refusing_writes

    def _configure_readers(self) -> None:
        for connection in self.connections:
            connection.configure_reader()

    def _buffers_size(self) -> int:
        """Size of what waits for the disk, and of what is kept for replicas."""
        log = self.log_keeper.log
        return (0 if log is None else log.buffer_size) + self.primary.memory_size

    def _write_out(self) -> bool:
        """Give the effects of this turn to the log, and then to replicas. Returns False if the server must end."""
        self.primary.ask()
        if not self.log_keeper.write():
            return False
        self.primary.send()
        return True

    def _write_out_early(self) -> bool:
        """Do it in the middle of a turn. Returns False, with nothing done, if replies wait for an fsync."""
        if not self.log_keeper.write_early():
            return False
        self.primary.send()
        return True

    def _call_soon(self, call: Callable[[], None]) -> None:
        """Call a function when the running command has ended, while clients are served."""
        if self._loop is not None:
            self._loop.call_soon(call)

    def _link_tls_context(self) -> ssl.SSLContext:
        """The context of the link to a primary. Raises OSError."""
        try:
            return build_client_context(self.config)
        except TlsError as error:
            raise OSError(str(error)) from error

    def _serve_confirmed(self) -> None:
        """Check again what waits for replicas: one has confirmed something."""
        self.failover.note_confirmed()
        if self.dispatcher.waiters.by_client:
            self.dispatcher.serving.serve_progress()

    def _serve_synced_soon(self) -> None:
        """Check the waiting WAITAOFs again: more of the log is on stable storage, or there is no log any more."""
        if self.dispatcher.waiters.by_client:
            self.call_soon_threadsafe(self._serve_synced)

    def _serve_synced(self) -> None:
        self.dispatcher.serving.serve_progress()
        self.turns.finish()

    @property
    def is_serving(self) -> bool:
        """Whether clients are accepted."""
        return self._loop is not None

    def _may_act(self) -> bool:
        """Whether policies may act now: on a primary whose dataset is loaded, and that would not refuse a write."""
        dispatcher = self.dispatcher
        return (
            not self.context.loading
            and self.following.address is None
            and dispatcher.pause.end_ms is None
            and not self.failover.is_running
            and dispatcher.admission.refusal_of_writes() is None
        )

    def _may_evict(self) -> bool:
        """Whether keys may be evicted now: not while a pause keeps the data as they are, nor during a load."""
        return not self.context.loading and self.dispatcher.pause.end_ms is None

    def _limit_memory(self) -> None:
        """Apply `maxmemory`: keys are evicted once the running command has ended."""
        self.memory.count_all()
        self._evict_soon()

    def _evict_soon(self) -> None:
        self._call_soon(self._evict)

    def _evict(self) -> None:
        """Evict keys outside of any command, and serve the readers that wait for one of them."""
        self.eviction.run(self.clock())
        self.dispatcher.serving.serve_ready()
        self.turns.finish()

    def call_soon_threadsafe(self, call: Callable[[], None]) -> None:
        """Call a function on the loop's thread, while clients are served."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(call)

    # -- the disk --------------------------------------------------------------------------------

    def die(self, failure: LogFailure) -> None:
        """Stop without replies: what `appendfsync always` promises cannot be kept, so no waiting reply may be sent."""
        if not self.has_died:
            logger.critical("%s", failure)
        self.has_died = True
        self.exit_code = 1
        self.drop_replies()
        self.end()

    def drop_replies(self) -> None:
        """Close all connections without sending the replies that are still waiting."""
        self.dispatcher.outgoing.clear()
        for session in list(self.dispatcher.sessions.values()):
            session.out.clear()
            session.abort()

    def end(self) -> None:
        """Stop, and run no more requests."""
        self.dispatcher.runner.is_over = True
        self.stopped.set()

    @property
    def log(self) -> AppendOnlyLog | None:
        """The log in force; None while effects are not logged."""
        return self.log_keeper.log

    def load(self) -> Iterator[None]:
        """Load the dataset, then append to the log if there is to be one.

        Between two steps, clients may be served: they get LOADING, also after a failed load. Raises LogError, OSError.
        """
        keeper = self.log_keeper
        if self.config.appendonly or self.config.save:
            keeper.lock.acquire()
        loaded = keeper.begin_load()
        try:
            yield from self.loading.steps(loaded)
            self.memory.count_all()
            keeper.end_load(loaded)
            if self.loading.place is not None:
                if self.following.address is None:
                    self.primary.resume(self.loading.place, self.loading.keys_left_out)
                else:
                    self.following.resume(self.loading.place)
                self.loading.keys_left_out = []
        except BaseException:
            # A load that failed or was stopped leaves half a dataset, which no client may read or change.
            self.end()
            keeper.close()
            raise

    def load_now(self) -> None:
        """Load the dataset without serving clients."""
        for _ in self.load():
            continue

    # -- life ------------------------------------------------------------------------------------

    async def start_accepting(self) -> None:
        """Accept clients."""
        self._loop = asyncio.get_running_loop()
        await self.acceptor.open()

    async def stop(self) -> int:
        """Refuse new clients, send the waiting replies, write out the log, close everything. Returns the exit code."""
        self.acceptor.close()
        self.periodic.stop()
        self.turns.stop()
        self.following.stop()
        self.migrations.stop()
        self.long_commands.stop()
        self.turns.flush()
        self.primary.stop()
        self.snapshots.stop()
        if not self.log_keeper.close():
            self.exit_code = 1
        for connection in self.connections:
            connection.close()
        # In one turn, the transports can send what they were just given.
        await asyncio.sleep(0)
        return self.exit_code

    def turn_ns(self) -> float:
        """The time between two turns of the periodic work."""
        turns_count: int = self.config.hz
        return 1e9 / turns_count

    def _expire(self, now_ms: int) -> None:
        """Run a slice of the active expiry; the next one follows soon while there are expired keys."""
        if self.periodic.expires_keys:
            self.context.own_keys.expire(now_ms, time_limit(EXPIRY_SLICE_NS))
            has_more = self.context.latency.run("expire-cycle", partial(self.expiry.run, now_ms), self.clock)
            if has_more:
                self.periodic.continue_soon("expiry", EXPIRY_REST_S, self._expire)
        self.dispatcher.serving.serve_expired(now_ms)
        self.upkeep.run(now_ms)

    def free(self, _now_ms: int = 0) -> None:
        """Free memory for a moment; the next slice follows soon while there is more."""
        if not self.long_commands.is_busy:
            self.store.garbage.free(time_limit(FREEING_SLICE_NS))
        if len(self.store.garbage):
            self.periodic.continue_soon("freeing", FREEING_REST_S, self.free)

    def _work(self, now_ms: int, is_new_second: bool) -> None:
        """The periodic work of one turn, `hz` times a second."""
        self._expire(now_ms)
        if is_new_second or self.config.maxmemory:
            self.memory.cron()
            self.eviction.cron(now_ms)
        if is_new_second:
            self.idempotence_expiry.run(now_ms)
            self.limits.close_idle(now_ms)
            self._report_sizes()
        self.turns.retain()
        self.turns.retention.visit(now_ms, time_limit(RETENTION_SHARE * self.turn_ns()), begins_round=is_new_second)
        self.dispatcher.units.log_own()
        self.dispatcher.serving.serve_ready()
        self.free()
        self._settling.run(self.stats.commands_processed)
        self.limits.cron(now_ms)
        self.context.hot_keys.cron(now_ms)
        self.stats.sample(now_ms)
        self.failover.check()
        self.stopping.check()
        self.following.cron(now_ms, is_new_second=is_new_second)
        self.primary.cron(now_ms, is_new_second=is_new_second)
        self.turns.finish()
        self.log_keeper.cron(now_ms)
        self.backups.cron(now_ms)
        self.snapshots.cron(now_ms)

    def _report_sizes(self) -> None:
        """Log the sizes of the dataset, every few seconds. Called once a second."""
        self._seconds_count += 1
        if self._seconds_count % REPORT_INTERVAL_S == 0:
            log_sizes(self.store, len(self.dispatcher.sessions), self.memory.used_size)

    def broadcast_soon(self) -> None:
        """At the end of this turn of the loop, send invalidations of the keys that have changed in it."""
        self.turns.has_broadcasts = True

    def broadcast(self) -> None:
        """Send invalidations of the changed keys now."""
        self.context.tracking.send_broadcasts()
        self.turns.finish()

    def prepare_stop(self, save: bool | None = None) -> bool:
        """Write everything to disk: the log, and a snapshot if `save` is true, or if it is None and there are save
        points. A background job is abandoned, unless it writes the base of a new log.
        """
        self.dispatcher.units.log_singles()
        try:
            is_synced = self.snapshots.complete_log()
            self.snapshots.stop()
            if self.log_keeper.log is not None:
                logger.info("Calling fsync() on the AOF file.")
            if not self.log_keeper.sync():
                is_synced = False
                logger.error(
                    "Error writing to the AOF file: %s. SHUTDOWN FORCE ends the server without what is not written",
                    self.log_keeper.write_error,
                )
        except LogFailure as failure:
            self.die(failure)
            return True  # there is nothing to continue with
        wants_snapshot = bool(self.snapshots.save_points) if save is None else save
        if not wants_snapshot or self.log_keeper.state is LogState.LOADING:
            return is_synced
        logger.info("Saving the final RDB snapshot before exiting.")
        if not self.snapshots.save_now(is_stop=True):
            logger.warning("Error trying to save the DB, can't exit.")
            return False
        return is_synced
