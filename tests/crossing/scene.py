"""One life of a server for the crossing machine: the real `lifecycle.run` with a disk, a clock, a loop, threads and
sockets of the test's own.

    scene = Scene(fixture_disk(), b"always")
    with scene.playing():
        scene.start()
        actor = scene.connect()
        actor.ask(b"PING")
        scene.settle()

A reply is recorded in the moment in which it leaves the server: `told` has every token that was in a reply, and each
must be on the disk by then as the policy promises.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

from crossing.kept_files import ACL_PATH, CONFIG_PATH, KeptFiles
from headrace.persistence import loading as persistence_loading
from headrace.persistence.errors import LogError
from headrace.server import app, lifecycle
from headrace.server.configuration.config import Config
from headrace.server.configuration.directives import DIRECTIVES
from headrace.server.storage.log_life import LogState
from headrace.store.database import Store
from support.crash_world import FOLDER, SimulatedServer, new_config
from support.digest import Digest, digest_of
from support.inprocess import Clock
from support.replies import Incomplete, Node, frame_end, parse
from support.simulated_disk import Call, Fault, SimulatedDisk
from support.simulated_network import SimulatedNetwork, Wire
from support.simulated_system import SimulatedSystem
from support.stepping import SteppingExecutor, SteppingLoop
from support.wire import encode

TURNS_MAX: Final = 60
"""Turns of the loop after which a server that still has something to do is taken to be held."""
TURNS_AFTER_END: Final = 4
"""Turns that asyncio's runner gives to what is left when the main coroutine has returned."""
RECORDS_PER_STEP: Final = 8
"""Few, so that a small dataset has several steps."""
# What CONFIG SET dir may name: an empty folder, and one that another server has locked.
OTHER_FOLDER: Final = "/other"
TAKEN_FOLDER: Final = "/taken"

OWN_PREFIX: Final = b"~"
"""Keys of the machine's own clients begin with it; `fixture` keys do not."""
TOKEN: Final = re.compile(rb"~t[0-9]+~")

Request = tuple[bytes, ...]


class Violation(AssertionError):
    """A rule is broken."""


class CrossingServer(SimulatedServer):
    """A server whose load can be held between two steps."""

    is_load_held = False
    steps_before_hold = 1
    has_saved_to_stop = False
    """Whether dump.rdb was written by the last stop, and not by a SAVE before it."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        del self.log_keeper.lock.acquire  # locks are simulated here

    def load(self) -> Iterator[None]:
        """See `Server`."""
        for number, _ in enumerate(super().load(), start=1):
            yield
            while self.is_load_held and number >= self.steps_before_hold:
                yield

    def prepare_stop(self, save: bool | None = None) -> bool:
        """See `Server`. Notes whether a dump.rdb was completed meanwhile."""
        last_save_ms, self.snapshots.last_save_ms = self.snapshots.last_save_ms, -1
        is_prepared = super().prepare_stop(save)
        has_saved = self.snapshots.last_save_ms != -1
        if not has_saved:
            self.snapshots.last_save_ms = last_save_ms
        self.has_saved_to_stop = is_prepared and has_saved
        return is_prepared


# How a snapshot, or the replication stream, begins.
STREAM_START: Final = re.compile(rb"\+FULLRESYNC |\+CONTINUE|\n|\$EOF:|\$\d+\r\nREDIS")


class Peer:
    """A client of the machine: what it sent, and what came back."""

    def __init__(self, scene: Scene, name: str) -> None:
        self._scene = scene
        self.name = name
        self.wire: Wire = scene.network.connect()
        self.wire.on_received = self._receive
        self.connection: Any = self.wire.protocol
        self._unparsed = bytearray()
        self.replies: list[Node] = []
        """All that came, messages that were not asked for left out."""
        self.pushes: list[Node] = []
        self.expected: deque[bytes | None] = deque()
        """For a client whose requests have one reply each: the token that each of them writes."""
        self.requests_count = 0
        self.has_stream = False
        """Whether it follows as a replica: it gets no more replies."""

    @property
    def id(self) -> int:
        """CLIENT ID."""
        return int(self.connection.client.id)

    @property
    def is_closed(self) -> bool:
        """Whether the server has closed the connection, or is about to."""
        return self.wire.is_closed or self.wire.transport.is_closing()

    def ask(self, *requests: Request, token: bytes | None = None) -> None:
        """Send a pipeline, which the server reads in its next turn."""
        self.expected.extend([token] * len(requests))
        self.requests_count += len(requests)
        self.wire.send(b"".join(encode(list(request)) for request in requests))

    def _receive(self, data: bytes) -> None:
        if self.has_stream:
            return
        self._unparsed += data
        while self._unparsed:
            if STREAM_START.match(self._unparsed):
                self.has_stream = True
                return
            try:
                end = frame_end(self._unparsed)
            except Incomplete:
                break
            node = parse(bytes(self._unparsed[:end]))
            del self._unparsed[:end]
            if node.kind == b">":
                self.pushes.append(node)
                continue
            self.replies.append(node)
            token = self.expected.popleft() if self.expected else None
            if token is not None and node.kind not in b"-!":
                self._scene.note_told(token, self)
        for token in TOKEN.findall(data):
            self._scene.note_told(token, self)
        if b"internal error" in data:
            self._scene.fail(f"{self.name} was answered with an internal error")

    def reply_after(self, fence: bytes) -> int:
        """The index after the reply that is the word `fence`; -1 if that has not come."""
        for index, node in enumerate(self.replies):
            if node.kind == b"$" and node.value == fence:
                return index + 1
        return -1


class Scene:
    """See the module."""

    def __init__(self, disk: SimulatedDisk, policy: bytes, clock: Clock, **directives: Any) -> None:
        self.policy = policy
        self.clock = clock
        self.disk = disk
        self.loop = SteppingLoop(clock)
        self.network = SimulatedNetwork(self.loop)
        self.fsyncs, self.writer = SteppingExecutor(), SteppingExecutor()
        self.config = new_config(policy)
        self.config.file_path, self.config.aclfile = CONFIG_PATH.encode(), ACL_PATH.encode()
        self.config.enable_debug_command = self.config.enable_protected_configs = b"yes"
        self.config.on_change("appendfsync", lambda value: self._note_policy())
        for name, value in directives.items():
            setattr(self.config, name, value)
        self.disk.on_boundary, self.disk.fault = self._pass_boundary, no_fault
        self.on_boundary: Callable[[Call], None] = lambda call: None
        self.system = SimulatedSystem(disk, FOLDER)
        self.kept_files = KeptFiles(disk, self.config, lambda: self.server.accounts.users, self.fail)
        self.server: CrossingServer
        self.task: Any = None
        self.peers: list[Peer] = []
        self.told: dict[bytes, str] = {}
        """Token -> the client that received it, while the log promised something."""
        self._written_under_always: set[bytes] = set()
        """Tokens whose write ran under `always`, whatever the policy is when the reply leaves."""
        self._policy_in_force = policy
        self.promises = True
        """False while no promise holds: there is no log, or the disk refuses what it is given (but with `always`)."""
        self._handlers: dict[int, Any] = {}
        """By signal number, as `signal.signal` was given them."""
        self.has_served = False
        """Whether the load has ended well."""
        self.ended_ms: int | None = None
        """When the process ended by itself."""
        # Warnings and errors of the server log.
        self.logged: list[str] = []
        self.failures: list[str] = []
        self._tokens = count(1)
        self._kept: set[bytes] = set()

    @contextlib.contextmanager
    def playing(self) -> Iterator[None]:
        """Everything that a scene does happens in here."""
        signals = SimpleNamespace(
            **{name: getattr(lifecycle.signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIG_IGN", "Signals")},
            signal=self._handlers.__setitem__,
            set_wakeup_fd=lambda descriptor, **options: descriptor,
            getsignal=lambda number: lambda *received: self.loop.call_soon(self.loop.signal_handlers[number]),
        )
        garbage = SimpleNamespace(
            disable=int, enable=int, collect=int, freeze=int, set_threshold=lambda *thresholds: None
        )
        recorder = Recorder(self)
        logger = logging.getLogger("headrace")
        level, propagates = logger.level, logger.propagate
        logger.addHandler(recorder)
        logger.setLevel(logging.WARNING)
        logger.propagate = False
        with (
            self.loop.running(),
            self.network.installed(),
            self.system.installed(),
            mock.patch.object(lifecycle, "signal", signals),
            mock.patch.object(lifecycle, "exit_without_saving", self._end_at_once),
            mock.patch.object(lifecycle, "gc", garbage),
            mock.patch.object(lifecycle, "LOADING_TURN_S", 0.0),
            mock.patch.object(persistence_loading, "RECORDS_PER_STEP", RECORDS_PER_STEP),
            mock.patch.object(app, "resident_size", int),
        ):
            try:
                yield
            finally:
                logger.removeHandler(recorder)
                logger.setLevel(level)
                logger.propagate = propagates
                self._let_go()

    def _let_go(self) -> None:
        self.disk.on_boundary = lambda call: None
        if self.task is not None and not self.task.done():
            self.task._log_destroy_pending = False
        for worker in (self.fsyncs, self.writer):
            worker.shutdown(cancel_futures=True)

    def fail(self, what: str) -> None:
        """A rule is broken, seen where nothing may be raised."""
        self.failures.append(what)

    # -- life ------------------------------------------------------------------------------------

    def start(self, *, holds_load: bool = False) -> None:
        """Start the process, until it serves; with `holds_load` until it is in the middle of the load."""
        self.server = server = CrossingServer(self.config, self.clock, self.disk, self.fsyncs)
        self.system.lock(TAKEN_FOLDER).acquire()
        runner = server.snapshots.runner
        runner.new_executor, runner.read_clock_s, runner.slice_s = self._writing_thread, lambda: 0.0, 0.0
        server.is_load_held = holds_load
        self.task = self.loop.create_task(lifecycle.run(server))

    def _writing_thread(self) -> SteppingExecutor:
        """Where snapshots are written; a new one after the last has been let go."""
        if self.writer._is_ended:
            self.writer = SteppingExecutor()
        return self.writer

    @property
    def has_ended(self) -> bool:
        """Whether the process has come to its end, whatever ended it."""
        return bool(self.task.done())

    @property
    def is_serving(self) -> bool:
        """Whether the load is over and the server lives."""
        server = self.server
        return not self.has_ended and not server.stopped.is_set() and server.periodic._handle is not None

    def settle(self) -> None:
        """Turns of the loop until there is nothing to do, or the load is held."""
        for _ in range(TURNS_MAX):
            if not self.turn():
                break
            if self.has_ended:
                for _ in range(TURNS_AFTER_END):
                    self.turn()
                break

    def turn(self) -> bool:
        """One turn of the loop; whether there is more to do."""
        has_more = self.loop.turn()
        self.has_served = self.has_served or self.is_serving
        if self.ended_ms is None and self.has_ended:
            self.ended_ms = self.clock()
        if self.loop.errors:
            self.fail(f"asyncio was given an exception: {self.loop.errors[0]}")
        return has_more

    def work(self) -> None:
        """Let the threads do all that they have to do, and the loop what follows from it."""
        for _ in range(1000):
            self.settle()
            if self.has_ended or not (self._step(self.fsyncs) or self._step(self.writer)):
                return

    def _step(self, worker: SteppingExecutor) -> bool:
        job = self.server.snapshots.runner.job
        if worker is self.writer and job is not None and not job.file._is_made:
            return False
        return worker.step()

    def pass_time(self, ms: int, *, works: bool = True) -> None:
        """Move the clock from one timer to the next; `works` lets the threads continue meanwhile."""
        end_ms = self.clock() + ms
        while True:
            if works:
                self.work()
            else:
                self.settle()
            if self.has_ended:
                return
            due_ms = self.loop.next_due_ms()
            step_ms = int(-(-due_ms // 1)) if due_ms is not None else end_ms
            if step_ms > end_ms or self.clock() >= end_ms:
                self.clock.advance(max(0, end_ms - self.clock()))
                return
            self.clock.advance(max(0, step_ms - self.clock()))

    def jump(self, ms: int) -> None:
        """Let much time pass at once: each timer that is due runs once."""
        self.clock.advance(ms)
        self.work()

    def raise_signal(self, number: int) -> None:
        """What the kernel does: the handler of the process runs at once, the loop's in the next turn."""
        handler = self._handlers.get(number)
        if callable(handler):
            handler(number, None)

    def _end_at_once(self, server: CrossingServer) -> None:
        """What ends a process whatever it is doing: nothing more of it runs."""
        self.task.cancel()

    # -- clients ---------------------------------------------------------------------------------

    def connect(self, name: str) -> Peer:
        """A client. Raises ConnectionRefusedError."""
        peer = Peer(self, name)
        self.peers.append(peer)
        return peer

    def token(self) -> bytes:
        """A word that is nowhere else."""
        return b"~t%d~" % next(self._tokens)

    def _note_policy(self) -> None:
        """The policy changes: what is in the store was written under the one before, but for the transaction
        that runs. It is written as a whole at its end."""
        if self._policy_in_force == b"always":
            running = set(TOKEN.findall(b"".join(record for _, record in self.server.context.effects)))
            self._written_under_always |= tokens_in(self.server.store) - running
        self._policy_in_force = self.config.appendfsync

    def note_told(self, token: bytes, peer: Peer) -> None:
        """A reply that shows this write has left."""
        if not self.promises or not self.server.config.appendonly:
            return
        if self.server.log_keeper.state in (LogState.WANTED, LogState.STARTING):
            return  # a log promises nothing before its base is complete
        is_synced = self.is_synced_before_reply or token in self._written_under_always
        if self.is_disk_failing and not is_synced:
            return  # what is answered in the turn in which the disk fails is in memory: docs/durability.md
        if token not in self.told:
            self.told[token] = peer.name
        if token not in self._kept:
            if self._is_kept(token, is_synced=is_synced):
                self._kept.add(token)
            elif token in tokens_in(self.server.store):
                kind = "synced" if is_synced else "written"
                self.fail(f"{peer.name} was told of {token.decode()} before its record was {kind}")

    def _is_kept(self, token: bytes, *, is_synced: bool) -> bool:
        """Whether the token survives a crash now: a power loss if `is_synced`, else `kill -9`."""
        folder = os.fsdecode(self.server.config.dir) + os.sep
        for path, inode in self.disk.names.items():
            if inode is not None and path.startswith(folder) and "/temp-" not in path:
                content = inode.durable if is_synced else inode.content
                if token in content:
                    return True
        try:
            disk = self.disk.after_power_loss(None) if is_synced else self.disk.after_kill()
            return token in tokens_of(self.recover(disk))
        except Violation:
            return False

    # -- crashes ---------------------------------------------------------------------------------

    def _pass_boundary(self, call: Call) -> None:
        self.fsyncs.pause()
        self.writer.pause()
        self.kept_files.look(call)
        self._check_lock(call)
        self.on_boundary(call)

    def _check_lock(self, call: Call) -> None:
        """A server that locks its folder writes in no folder that another server may take."""
        locks = self.system.locks
        folder = os.sep + call.path.split(os.sep)[1]
        if folder in (FOLDER, OTHER_FOLDER) and folder not in locks and set(locks) & {FOLDER, OTHER_FOLDER}:
            self.fail(f"lock: {call.kind} of {call.path} while another server may lock {folder}")

    @property
    def is_synced_before_reply(self) -> bool:
        """Whether `always` is in force, and was from the start."""
        return self.policy == self.server.config.appendfsync == b"always"

    @property
    def is_disk_failing(self) -> bool:
        """Whether some calls fail now."""
        return self.disk.fault is not no_fault

    def crashed_disk(self) -> SimulatedDisk:
        """What would be left now: by a power loss with `always`, else by `kill -9`."""
        return self.disk.after_power_loss(None) if self.is_synced_before_reply else self.disk.after_kill()

    def recover(self, disk: SimulatedDisk) -> Digest:
        """What a start with the directives in force finds there. Raises Violation if it is refused."""
        return recovered(disk, self.clock, copied(self.server.config))


class Recorder(logging.Handler):
    """Takes what the server logs: an exception among it breaks a rule."""

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self._scene = scene

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        text = record.getMessage()
        self._scene.logged.append(text)
        if record.exc_info or "internal error" in text or "Traceback" in text:
            if record.exc_info:
                text += "\n" + logging.Formatter().formatException(record.exc_info)
            self._scene.fail(f"logged: {text}")


def no_fault(call: Call) -> Fault | None:
    """All is well."""
    return None


def copied(config: Config) -> Config:
    """Equal directives for another server."""
    other = new_config(config.appendfsync)
    for name in (each.attribute for each in DIRECTIVES):
        setattr(other, name, getattr(config, name))
    other.aof_load_truncated = True  # a crash may tear the last write
    other.aclfile = b""  # users are the concern of `KeptFiles`
    return other


def recovered(disk: SimulatedDisk, clock: Clock, config: Config) -> Digest:
    """What a start finds. Raises Violation if it is refused."""
    executor = SteppingExecutor()
    server = SimulatedServer(config, clock, disk, executor)
    try:
        server.load_now()
    except (LogError, OSError) as error:
        raise Violation(f"a start is refused: {error}") from error
    finally:
        executor.shutdown(cancel_futures=True)
    return digest_of(server.store)


def tokens_in(store: Store) -> set[bytes]:
    """Every token that a store holds."""
    return tokens_of(digest_of(store))


def tokens_of(digest: Digest) -> set[bytes]:
    """Every token that a digest holds."""
    return set(TOKEN.findall(repr(list(digest.values())).encode()))


def fixture_keys(digest: Digest) -> Digest:
    """A digest without the keys of the machine's own clients."""
    return {place: value for place, value in digest.items() if not place[1].startswith(OWN_PREFIX)}


def folder_of(disk: SimulatedDisk) -> list[str]:
    """The files in the data folder."""
    return sorted(path for path, inode in disk.names.items() if inode is not None and path.startswith(FOLDER))
