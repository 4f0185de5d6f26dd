"""A server on a simulated disk, its clients, and every state that it was in.

    world = World(seed, b"always")
    world.run(turns_count=40)     each boundary of the disk is a crash point, checked by `CrashChecker`

The real dispatcher, store, log and snapshots run; only the disk, the clock, the loop and the sockets are replaced. A
second store, the shadow, replays each unit when the log takes it: `history[n]` is the state after n units, and after
each turn the served store must equal the last of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import hiredis

from headrace.commands.clients.client import Client
from headrace.persistence.records import select_record
from headrace.persistence.writer import Effect
from headrace.protocol.reader import RequestReader
from headrace.server.app import Server
from headrace.server.configuration.config import Config
from headrace.server.requests.session import Session
from headrace.server.storage.replay import loading
from support.digest import Digest, digest_of
from support.inprocess import Clock
from support.lines import split
from support.simulated_disk import Call, SimulatedDisk
from support.stepping import SteppingExecutor, SteppingLoop
from support.workload import random_line

FOLDER = "/data"
CRON_INTERVAL_MS = 100
# Longer than any run: pairs that are too old vanish without a record.
IDMP_DURATION_S = 86_400


def new_config(policy: bytes, *, has_rdb_base: bool = False) -> Config:
    """Directives of every server here."""
    config = Config()
    config.dir = FOLDER.encode()
    config.appendonly = True
    config.appendfsync = policy
    config.save = b""
    config.aof_use_rdb_preamble = has_rdb_base
    config.stream_idmp_duration = IDMP_DURATION_S
    config.stream_node_max_entries = 4
    return config


class SimulatedServer(Server):
    """A server whose log is on a simulated disk."""

    def __init__(self, config: Config, clock: Clock, disk: SimulatedDisk, executor: SteppingExecutor) -> None:
        super().__init__(config, clock=clock)
        keeper = self.log_keeper
        keeper.files, keeper.executor = disk, executor
        keeper.lock.acquire = lambda: None  # type: ignore[method-assign]

    def move_with(self, loop: SteppingLoop, writer: SteppingExecutor) -> None:
        """Run everything by steps of the test, snapshots as well, in slices of one block that take no time."""
        self._loop = loop  # type: ignore[assignment]
        runner = self.snapshots.runner
        runner.executor, runner.call_later = writer, loop.call_later  # type: ignore[assignment]
        runner.read_clock_s, runner.slice_s = lambda: 0.0, 0.0


class Shadow:
    """A store that follows by replaying records."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.server = Server(new_config(b"no"), clock=clock)
        self.context = self.server.context
        self.context.now_ms = clock()

    def apply(self, effects: list[Effect]) -> Digest:
        """Replay a unit; the state after it."""
        self.context.now_ms = self._clock()
        with loading(self.context) as replay:
            parser = hiredis.Reader()
            for db_index, record in effects:
                parser.feed(select_record(db_index) + record)
                while argv := parser.gets():
                    replay.apply(argv)
        return digest_of(self.server.store)


class Peer(Session):
    """A connection without a socket."""

    def __init__(self, world: World, number: int) -> None:
        client = Client(number, created_ms=world.clock(), last_active_ms=world.clock())
        client.db = world.server.store.databases[0]
        super().__init__(client)
        self.world = world
        self.reader = RequestReader()
        self.received = bytearray()
        self.is_closed = False

    @property
    def must_wait(self) -> bool:
        """See `Connection`."""
        return self.client.blocked is not None or self.client.is_held or self.is_closed

    def ask(self, *lines: str) -> None:
        """Send a pipeline."""
        requests = [split(line) for line in lines]
        if self.must_wait or self.backlog:
            self.backlog.extend(requests)
        else:
            self.world.server.turns.run(self, requests)

    def resume_soon(self) -> None:
        """See `Connection`."""
        self.world.loop.call_soon(self.resume)

    def resume(self) -> None:
        """See `Connection`."""
        if not self.must_wait and self.backlog:
            requests = list(self.backlog)
            self.backlog.clear()
            self.world.server.turns.run(self, requests)

    def send(self) -> None:
        """Send the replies: from now on, the writes that they confirm must survive."""
        if self.out and not self.is_closed:
            self.received += b"".join(self.out)
            self.world.on_acknowledged(self)
        self.out.clear()

    def abort(self) -> None:
        """See `Connection`."""
        self.world.server.dispatcher.detach(self)
        self.is_closed = True

    close = abort


class World:
    """One server from its start to a crash."""

    def __init__(
        self,
        seed: int,
        policy: bytes,
        disk: SimulatedDisk | None = None,
        *,
        clock: Clock | None = None,
        has_rewrites: bool = True,
    ) -> None:
        self.seed, self.policy, self._has_rewrites = seed, policy, has_rewrites
        self.rnd = random.Random(seed)
        self.clock = clock or Clock()
        self.disk = disk or SimulatedDisk({FOLDER: None})
        self.fsyncs, self.writer = SteppingExecutor(), SteppingExecutor()
        self.loop = SteppingLoop(self.clock)
        self.shadow = Shadow(self.clock)
        self.history: list[Digest] = []
        # (units, Unix ms): how many units had been answered when.
        self.acknowledged: list[tuple[int, int]] = [(0, self.clock())]
        # Units answered after they were handed to the disk: all that were answered, unless writing fails.
        self.handed_count = 0
        self.on_boundary: Callable[[Call], None] = lambda call: None
        # Units answered before the last completed fsync of the log began.
        self.synced_count = 0
        # The longest fsync so far, the one in flight included.
        self.fsync_ms_max = 0
        self._fsync_began_ms: int | None = None
        self.disk.on_boundary = self._pass_boundary
        self.disk.on_sync_begins = self._note_sync_begins
        self.disk.on_synced = self._note_synced
        self._cron_ms = self.clock()

    def start(self) -> None:
        """As `lifecycle.run` does, without sockets. Raises LogError, OSError."""
        self.history = [recovered(self.disk.after_kill(), self.clock)]
        self.server = SimulatedServer(
            new_config(self.policy, has_rdb_base=bool(self.seed % 2)), self.clock, self.disk, self.fsyncs
        )
        self.server.move_with(self.loop, self.writer)
        self.server.load_now()
        assert self.server.log is not None
        with loading(self.shadow.context) as replay:
            self.server.log.load(replay.apply, target=replay)
        assert self.history[0] == digest_of(self.shadow.server.store) == digest_of(self.server.store)
        self.server.log.on_append = self._note_append
        self.peers = [Peer(self, number) for number in range(1, 4)]
        for peer in self.peers:
            self.server.dispatcher.attach(peer)

    # -- what is seen ----------------------------------------------------------------------------

    @property
    def units_count(self) -> int:
        """Units the log has taken."""
        return len(self.history) - 1

    @property
    def acknowledged_count(self) -> int:
        """Units whose replies have been sent."""
        return self.acknowledged[-1][0]

    def _note_append(self, effects: list[Effect], grouped: bool) -> None:
        for unit in [list(effects)] if grouped else [[effect] for effect in effects]:
            self.history.append(self.shadow.apply(unit))

    def on_acknowledged(self, peer: Peer) -> None:
        """Record that replies are sent; they may confirm all units so far."""
        self.acknowledged.append((self.units_count, self.clock()))
        assert self.server.log is not None
        if not self.server.log.buffer_size:
            self.handed_count = self.units_count

    def _pass_boundary(self, call: Call) -> None:
        self.fsyncs.pause()
        self.writer.pause()
        self.on_boundary(call)

    def _note_sync_begins(self, call: Call) -> tuple[int, int]:
        return self.handed_count, self.clock()

    def _note_synced(self, call: Call, token: Any) -> None:
        if call.path.endswith(".incr.aof"):
            self.synced_count = max(self.synced_count, token[0])

    def oldest_loss_ms(self, survived_count: int) -> int:
        """Time since the first reply that confirmed a unit which did not survive."""
        lost = next((at_ms for count, at_ms in self.acknowledged if count > survived_count), None)
        return 0 if lost is None else self.clock() - lost

    # -- what happens ----------------------------------------------------------------------------

    def run(self, turns_count: int) -> None:
        """So many turns of random work."""
        with self.loop.running():
            for _ in range(turns_count):
                if self.server.stopped.is_set():
                    return
                self.turn()

    def turn(self) -> None:
        """Some clients send, time passes, and the workers run some steps."""
        rnd = self.rnd
        for peer in rnd.sample(self.peers, rnd.randrange(1, 4)):
            lines = [random_line(rnd) for _ in range(rnd.choice((1, 1, 2, 3)))]
            peer.ask(*(line for line in lines if self._has_rewrites or line != "BGREWRITEAOF"))
        self.loop.run()
        self.check()
        for worker in (self.fsyncs, self.writer):
            for _ in range(rnd.randrange(4)):
                self.step(worker)
        self.pass_time(rnd.choice((0, 1, 5, 30, 100, 300)))
        self.check()

    def step(self, worker: SteppingExecutor) -> None:
        """Run a step of a worker; the snapshot's worker waits until it has all blocks."""
        job = self.server.snapshots.runner.job
        if worker is self.writer and job is not None and not job.file._is_made:
            return
        worker.step()
        self._note_fsync_duration()
        self.loop.run()

    def pass_time(self, ms: int) -> None:
        """Move the clock, cron by cron."""
        end_ms = self.clock() + ms
        while self.clock() < end_ms:
            due_ms = self._cron_ms + CRON_INTERVAL_MS
            self._note_fsync_duration()
            self.clock.advance(max(0, min(due_ms, end_ms) - self.clock()))
            self._note_fsync_duration()
            self.loop.run()
            if self.clock() >= due_ms:
                self._cron_ms = self.clock()
                self.server.periodic.run()
                self.loop.run()

    def _note_fsync_duration(self) -> None:
        if self._fsync_began_ms is not None:
            self.fsync_ms_max = max(self.fsync_ms_max, self.clock() - self._fsync_began_ms)
        if self.fsyncs.is_idle:
            self._fsync_began_ms = None
        elif self._fsync_began_ms is None:
            self._fsync_began_ms = self.clock()

    def check(self) -> None:
        """Check that the served dataset equals a replay of the log."""
        assert digest_of(self.server.store) == self.history[-1], f"served and replayed differ, seed {self.seed}"

    def end(self) -> None:
        """Stop the threads."""
        for worker in (self.fsyncs, self.writer):
            worker.shutdown(cancel_futures=True)


def recovered(disk: SimulatedDisk, clock: Clock) -> Digest:
    """The state that a start with default settings finds on this disk, which the start may repair. Raises LogError,
    OSError.
    """
    executor = SteppingExecutor()
    server = SimulatedServer(new_config(b"everysec"), clock, disk, executor)
    server.load_now()
    executor.shutdown(cancel_futures=True)
    return digest_of(server.store)
