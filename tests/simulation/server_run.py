"""The frame of a simulation of one server: its lives, steps and time, and requests of simulated clients.

Dispatcher, store, waiters and log are real; clock, sockets and disk are simulated. A subclass has the clients, a model
that predicts their replies, and the rules that are checked after every step.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from headrace.persistence.records import CHECKSUM_PREFIX
from headrace.server.configuration.config import Config
from headrace.store.ids import format_id
from headrace.store.stream import Stream
from simulation.model import IDMP_DURATION_MS, Entry, State
from support.crash_world import CRON_INTERVAL_MS, FOLDER, Peer, SimulatedServer, new_config
from support.inprocess import Clock
from support.replies import frame_end, parse, plain
from support.simulated_disk import Call, PowerLoss, SimulatedDisk
from support.stepping import SteppingExecutor, SteppingLoop

# Default share of the steps that end in a crash.
CRASH_SHARE = 0.004
# Factor for the share of crashes in rare steps: during a rewrite of the log, soon after one, and in transactions.
CRASHES_OF_INTEREST = 10
SOON_MS = 3_000
# A crash inside a step happens after at most so many operations of the disk. XADD with its fsync has five.
CRASH_CALLS_MAX = 10
# Pauses after a step, in milliseconds.
PAUSES_MS = (0, 0, 1, 3, 20, 100, 250, 500, 1000)

StateT = TypeVar("StateT", bound=State)


class Violation(AssertionError):
    """An invariant is broken."""


class ServerRun(Generic[StateT]):
    """One run, in which the server is restarted after each crash. `state` is what the model starts with."""

    def __init__(self, seed: int, policy: bytes, state: StateT, *, crash_share: float = CRASH_SHARE) -> None:
        self.seed, self.policy, self._crash_share = seed, policy, crash_share
        self.rnd = random.Random(seed)
        self.clock = Clock()
        self.disk = SimulatedDisk({FOLDER: None})
        self.state: StateT = state
        self.counts: Counter[str] = Counter()
        self._crash_in: int | None = None
        # States that a crash in this step may leave, in order of time; empty if no crash is planned.
        self._states: list[StateT] = []
        # Index of the first of these states that the next reply shows, by client that waits for a reply.
        self._promised: dict[Peer, int] = {}
        # Index of the first of these states that a crash may leave: a reply has confirmed all changes before it.
        self._kept = 0
        # The last time at which a rewrite of the log was running.
        self._rewritten_ms = -SOON_MS
        self._start()
        with self.loop.running():
            self._create()

    # -- what a subclass has -----------------------------------------------------------------------

    def _set_up(self, config: Config) -> None:
        """Change directives of a server that is about to start."""

    def _connect_clients(self) -> None:
        """Connect the clients other than `producer` to a server that was just started."""
        raise NotImplementedError

    def _create(self) -> None:
        """Create what there is from the beginning on."""
        raise NotImplementedError

    def _differences(self, state: StateT) -> list[str]:
        """Differences between the restarted server and this state."""
        raise NotImplementedError

    def _note_restart(self) -> None:
        """The server was started again, with the present state of the model."""

    def _actions(self) -> list[Callable[[], None]]:
        """What may happen next, each as often as it is likely."""
        raise NotImplementedError

    def _is_of_interest(self, act: Callable[[], None]) -> bool:
        """Whether more crashes than usual happen in this act."""
        return False

    def _pause_ms(self) -> int:
        """How much time passes after a step."""
        return self.rnd.choice(PAUSES_MS)

    def _next_due_ms(self) -> int | None:
        """When time alone changes the model next."""
        return None

    def _note_time(self) -> None:
        """The clock has moved, and the server has not run yet."""

    def _check_waits(self) -> None:
        """Check that each wait ends in time. Raises Violation."""

    def check(self, *, is_whole: bool = False) -> None:
        """Check what must be true after every step. Raises Violation."""
        raise NotImplementedError

    # -- lives of the server ---------------------------------------------------------------------

    def _start(self) -> None:
        self.fsyncs, self.writer = SteppingExecutor(), SteppingExecutor()
        self.loop = SteppingLoop(self.clock)
        config = new_config(self.policy, has_rdb_base=bool(self.seed % 2))
        config.stream_idmp_duration = IDMP_DURATION_MS // 1000
        self._set_up(config)
        self.disk.on_boundary = self._pass_boundary
        self.server = server = SimulatedServer(config, self.clock, self.disk, self.fsyncs)
        server.move_with(self.loop, self.writer)
        server.load_now()
        self._cron_ms = self.clock()
        self._numbers = 0
        self.producer = self._connect()
        self._connect_clients()
        self.counts["starts"] += 1

    def _connect(self) -> Peer:
        self._numbers += 1
        peer = Peer(self, self._numbers)  # type: ignore[arg-type]
        self.server.dispatcher.attach(peer)
        return peer

    def _pass_boundary(self, call: Call) -> None:
        self.fsyncs.pause()
        self.writer.pause()
        if self._crash_in is not None:
            self._crash_in -= 1
            if self._crash_in < 0:
                self._crash_in = None
                raise PowerLoss

    def on_acknowledged(self, peer: Peer) -> None:
        """A reply is sent. Its change must be on the disk, and synced with `always`: no crash may undo it."""
        self.require_written()
        self._kept = max(self._kept, self._promised.pop(peer, 0))
        self.counts["replies"] += 1

    def require_written(self) -> None:
        """Raises Violation if a record waits to be written or, with `always`, to be synced."""
        log = self.server.log
        assert log is not None
        if any(not part.startswith(CHECKSUM_PREFIX) for part in log._buffer):
            raise Violation(f"a reply left before its record was written, {self._where()}")
        if self.policy == b"always":
            logs = [inode for path, inode in self.disk.names.items() if path.endswith(".incr.aof") and inode]
            if any(not _is_checksum_line(inode.changes) for inode in logs):
                raise Violation(f"a reply left before its record was synced, {self._where()}")

    def _promise(self, peer: Peer) -> None:
        """Note that the present state of the model is the one that the next reply to this client shows."""
        if self._states:
            self._promised[peer] = len(self._states)
            self._come_about()

    def _come_about(self) -> None:
        """Add the present state of the model to the states that a crash may leave."""
        if self._states:
            self._states.append(self.state.copy())

    def crash(self) -> None:
        """Kill the server and start it again. Its state must include every change that a reply has confirmed."""
        self._crash_in = None
        self.counts["crashes within a rewrite"] += self.server.snapshots.runner.job is not None
        for worker in (self.fsyncs, self.writer):
            worker.shutdown(cancel_futures=True)
        if self.policy == b"always":
            self.disk = self.disk.after_power_loss(self.rnd)
        else:
            self.disk = self.disk.after_kill()
        self._start()
        self.counts["crashes"] += 1
        wrong: list[str] = []
        for state in self._states[self._kept :]:
            wrong = self._differences(state)
            if not wrong:
                self.state = state
                break
        else:
            raise Violation(f"after a restart, {self._where()}: {wrong}")
        with self.loop.running():
            self._note_restart()

    def _stream(self, key: bytes) -> Stream | None:
        value = self.server.store.databases[0].keys.get(key)
        assert value is None or isinstance(value, Stream)
        return value

    # -- steps -----------------------------------------------------------------------------------

    def run(self, minutes: float) -> None:
        """Run for so many simulated minutes. Raises Violation."""
        end_ms = self.clock() + int(minutes * 60_000)
        while self.clock() < end_ms:
            self.turn()
        self.check(is_whole=True)

    def run_steps(self, count: int) -> None:
        """Run for so many steps. Raises Violation."""
        for _ in range(count):
            self.turn()
        self.check(is_whole=True)

    def turn(self) -> None:
        """One action of one client, or a crash. Then some time passes."""
        rnd = self.rnd
        act = rnd.choice(self._actions())
        if self.server.snapshots.runner.job is not None:
            self._rewritten_ms = self.clock()
        is_of_interest = self._is_of_interest(act) or self.clock() - self._rewritten_ms < SOON_MS
        is_crashing = rnd.random() < self._crash_share * (CRASHES_OF_INTEREST if is_of_interest else 1)
        self._states = [self.state.copy()] if is_crashing else []
        self._promised.clear()
        self._kept = 0
        if is_crashing:
            self._crash_in = rnd.randrange(CRASH_CALLS_MAX)
        with self.loop.running():
            try:
                act()
                self.counts["steps"] += 1
                self._settle()
                self.pass_time(self._pause_ms())
                for worker in (self.fsyncs, self.writer):
                    for _ in range(rnd.randrange(4)):
                        self._step(worker)
            except PowerLoss:
                self.counts["crashes inside a step"] += 1
                self.counts["crashes after a reply"] += self._kept > 0
                self.crash()
            else:
                if is_crashing:
                    self._end_step_by_crash()
        self.check(is_whole=is_crashing)

    def _end_step_by_crash(self) -> None:
        """Kill the server after a step, whose changes a reply has confirmed."""
        self._states = [self.state]
        self._kept = 0
        self.crash()

    def _settle(self) -> None:
        self.loop.run()

    def _step(self, worker: SteppingExecutor) -> None:
        job = self.server.snapshots.runner.job
        if worker is self.writer and job is not None and not job.file._is_made:
            return
        worker.step()
        self.loop.run()

    def pass_time(self, ms: int) -> None:
        """Move the clock, with a stop at each time at which something is due."""
        end_ms = self.clock() + ms
        while True:
            timers = [handle.due_ms for handle in self.loop._timers if not handle.is_cancelled]
            due_ms = min([end_ms, self._cron_ms + CRON_INTERVAL_MS, *(int(-(-due // 1)) for due in timers)])
            changes_ms = self._next_due_ms()
            due_ms = due_ms if changes_ms is None else min(due_ms, changes_ms)
            self.clock.advance(max(due_ms - self.clock(), 0))
            self._note_time()
            self.loop.run()
            if self.clock() >= self._cron_ms + CRON_INTERVAL_MS:
                self._cron_ms = self.clock()
                self.server.periodic.run()
                self.loop.run()
            self._check_waits()
            if self.clock() >= end_ms:
                return

    # -- requests --------------------------------------------------------------------------------

    def _call(self, peer: Peer, *lines: bytes) -> list[Any]:
        """Send requests, and return the replies as Python values. The model must already have the resulting state."""
        if peer not in self._promised:
            self._promise(peer)
        peer.ask(*(line.decode() for line in lines))
        self.loop.run()
        replies = self._take(peer)
        if len(replies) != len(lines):
            raise Violation(f"{lines} got {replies}, {self._where()}")
        return replies

    def _take(self, peer: Peer) -> list[Any]:
        replies = []
        while peer.received:
            end = frame_end(peer.received)
            replies.append(plain(parse(bytes(peer.received[:end]))))
            del peer.received[:end]
        return replies

    def _expect(self, peer: Peer, line: bytes, expected: Any) -> None:
        self._expect_all(peer, [line], [expected])

    def _expect_all(self, peer: Peer, lines: list[bytes], expected: list[Any]) -> None:
        replies = self._call(peer, *lines)
        if replies != expected:
            raise Violation(f"{lines} got {replies}, not {expected}, {self._where()}")

    def _where(self) -> str:
        return f"seed {self.seed}, policy {self.policy.decode()}, step {self.counts['steps']}"


def _is_checksum_line(changes: list[bytes | int]) -> bool:
    """Whether only the checksum line that ends a block was written. No reply depends on it."""
    data = b"".join(change for change in changes if isinstance(change, bytes))
    return CHECKSUM_PREFIX.startswith(data[: len(CHECKSUM_PREFIX)]) and data.count(b"\n") <= 1


def entry_rows(entries: list[Entry]) -> list[list[Any]]:
    """The reply with these entries."""
    return [[format_id(entry_id), [b"v", value]] for entry_id, value in entries]


def id_words(entry_ids: list[int]) -> bytes:
    """These IDs as words of a request."""
    return b" ".join(map(format_id, entry_ids))
