"""The server: it owns the store, the log and the connections, and is what handlers see as `Services`.

Everything happens on the loop's thread, a turn at a time (`Turns`). Time is read from `clock` (Unix ms), once per
batch, and from `monotonic` where a wait begins; tests bring their own.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, cast

from ..commands import registry
from ..commands.client import Client
from ..commands.context import Context
from ..commands.permissions.enforcement import may_stay
from ..commands.permissions.log import AclLog
from ..persistence.errors import LogFailure
from ..protocol.replies import Reply
from ..store.chunk import let_go_of_unpacked
from ..store.clock import monotonic_clock_ms, wall_clock_ms
from ..store.database import Store
from ..store.errors import GenericError, ReplyError
from .attacks import Attacks
from .client_limits import ClientLimits
from .config import Config
from .connection import Connection
from .dispatch import Dispatcher
from .doors import Doors
from .info import render
from .lifecycle import run
from .live_settings import LiveSettings
from .loading import Loading
from .log_life import LogState
from .logkeeper import LogKeeper
from .memory import Memory
from .memory_report import memory_report, memory_stats, purge_memory
from .periodic import PeriodicWork
from .renaming import rename_commands
from .snapshots import Snapshots
from .stats import Stats
from .turns import Turns
from .users import load_users, reload_users, save_users

if TYPE_CHECKING:
    from ..persistence.aof import AppendOnlyLog

logger = logging.getLogger(__name__)

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
        self.stopped = asyncio.Event()
        """Set, by `end`, once the server has been asked to stop."""
        self._last_client_id = 0
        self.exit_code = 0
        self.doors = Doors(self)
        self._loop: asyncio.AbstractEventLoop | None = None
        """Set while clients are served."""
        self.periodic = PeriodicWork(self)
        self.expiry = self.periodic.expiry
        self.loading = Loading(self)
        self.log_keeper = LogKeeper(self)
        self.turns = Turns(self.dispatcher, clock, self.log_keeper.write, self.log_keeper.write_early)
        self.snapshots = Snapshots(
            self, self.log_keeper.life, lambda delay_s, call: asyncio.get_running_loop().call_later(delay_s, call)
        )
        self.limits = ClientLimits(self)
        self.attacks = Attacks(clock)
        self.memory = Memory(self, self.dispatcher.refresh_clients)
        config.on_change("maxmemory", lambda value: self.memory.count_all())
        for name in ("save", "stop-writes-on-bgsave-error"):
            config.on_change(name, lambda value: self.snapshots.note_failing())
        LiveSettings(self)
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

    def next_client_id(self) -> int:
        """A number no client had before."""
        self._last_client_id += 1
        return self._last_client_id

    def forget(self, connection: Connection) -> None:
        """The connection is gone: so are its wait, its transaction and its backlog."""
        client = connection.client
        if client.id in self.dispatcher.sessions:
            self.stats.pipelined_before += client.pipeline_length_sum
            self.stats.reads_before += client.reads_count
        self.dispatcher.detach(connection)

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
        logger.critical("%s", failure)
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

    @property
    def dump_path(self) -> str:
        """`dir` and `dbfilename`."""
        return os.path.join(os.fsdecode(self.config.dir), os.fsdecode(self.config.dbfilename))

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
        await self.doors.open()

    async def stop(self) -> int:
        """Refuse new clients, send what is left, bring the log to disk, close everything; the exit code."""
        self.doors.close()
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
        let_go_of_unpacked()
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


def serve(config: Config) -> int:
    """Run a server until it is asked to stop; the exit code. Raises ListenError, ConfigError."""
    rename_commands(config.renamings)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_serve(config))


async def _serve(config: Config) -> int:
    return await run(Server(config))


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed: it halves the price of a read and a write. asyncio's own does as well."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
