"""The states in which everything is tried, one row each.

A state is a generator over a scene: it brings a server into the state, says by an assertion that it truly is in it,
and yields; what follows the yield ends the cause of the state. `mode` says how the acting client sends its requests.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from errno import EIO, ENOSPC
from typing import Any, Final
from unittest import mock

from crossing.fixture import Company
from crossing.scene import Peer, Scene, no_fault
from headrace.persistence.backup import BackupState
from headrace.server.storage import snapshots
from headrace.server.storage.paths import dump_path
from support.crash_world import FOLDER
from support.digest import digest_of
from support.simulated_disk import Call, Fault, SimulatedDisk

PLAIN, MULTI, SCRIPT, BEHIND = "plain", "multi", "script", "behind"
"""How requests are sent: as they are, within MULTI, from a script, or after a request that blocks."""

ALL_POLICIES: Final = (b"always", b"everysec", b"no")
BULK_SIZE: Final = 20_000
BIG_SIZE: Final = (1 << 20) + 10
"""Above the least value of proto-max-bulk-len."""

# A server that keeps dump.rdb.
WITHOUT_LOG: Final = {"appendonly": False, "save": b"3600 1"}
LOG_FOLDER: Final = f"{FOLDER}/appendonlydir"
MANIFEST_PATH: Final = f"{LOG_FOLDER}/appendonly.aof.manifest"

OUTPUT_LIMITS: Final = b"normal 300000 0 0 slave 0 0 0 pubsub 30000 0 0"

Steps = Iterator[None]


class Stage:
    """A scene with the clients that are there, as a state sees it."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._director: Peer | None = None
        self.company: Company
        self.actors: list[Peer] = []
        self.meanwhile: Callable[[], None] = lambda: None
        """Called in the turn in which the act has run, before its replies can leave."""
        self.look_at_crashes: Callable[[], None] = lambda: None
        """What a crash now would leave. Raises Violation."""
        self.is_log_promised = True
        """Whether there is a log that keeps what is acknowledged while the state lasts."""

        # Files that nothing may change, with their content.
        self.untouched: dict[str, bytes] = {}

    @property
    def server(self) -> Any:
        """The server."""
        return self.scene.server

    def serve(self, *, actors_count: int = 2) -> None:
        """Start, and connect all clients."""
        self.scene.start()
        self.scene.settle()
        assert self.scene.is_serving, "the server does not serve"
        self.come(actors_count)

    def come(self, actors_count: int = 2) -> None:
        """Connect all clients; those that wait do so."""
        self.company = Company(self.scene)
        self.company.sit_down()
        self._director = self.scene.connect("director")
        self.bring_actors(actors_count)
        self.scene.settle()

    def bring_actors(self, count: int) -> None:
        """Those that act connect."""
        for number in range(count):
            actor = self.scene.connect(f"actor {number}")
            actor.ask((b"CLIENT", b"SETNAME", b"actor%d" % number))
            self.actors.append(actor)

    def ask(self, *requests: str) -> list[Any]:
        """What a client of its own is answered, at once; nothing if it has been closed."""
        if self._director is None or self._director.is_closed:
            if not self.scene.network.is_listening:
                return []
            self._director = self.scene.connect("director")
            if self.server.config.requirepass:
                self._director.ask((b"AUTH", self.server.config.requirepass))
                self.scene.settle()
        director = self._director
        director.replies.clear()
        if not director.is_closed:
            director.ask(*(tuple(line.encode().split()) for line in requests))
            self.scene.settle()
        return [reply.value for reply in director.replies]


@dataclass(frozen=True)
class State:
    """One row."""

    name: str
    run: Callable[[Stage], Steps]
    mode: str = PLAIN
    disk: str = "log"
    policies: tuple[bytes, ...] = ALL_POLICIES
    directives: dict[str, Any] = field(default_factory=dict)
    # What the short forms play of this state, as a share of what they play of others: less of states that are alike.
    share: float = 1.0
    is_refused: bool = False
    """The start ends with an error: nothing may have been acknowledged."""


STATES: dict[str, State] = {}
"""By name."""


def state(name: str, **options: Any) -> Callable[[Callable[[Stage], Steps]], Callable[[Stage], Steps]]:
    """Put a generator into the table."""

    def declare(run: Callable[[Stage], Steps]) -> Callable[[Stage], Steps]:
        STATES[name] = State(name, run, **options)
        return run

    return declare


# -- the ordinary one, and how requests come ------------------------------------------------------


@state("serving")
def serving(stage: Stage) -> Steps:
    """Nothing happens."""
    stage.serve()
    yield


@state("serving without a log", disk="dump", directives=WITHOUT_LOG)
def serving_without_log(stage: Stage) -> Steps:
    """What is kept is kept by a stop in good order."""
    stage.is_log_promised = False
    stage.serve()
    yield


@state("users in the configuration file", directives={"aclfile": b""}, share=0.3)
def users_in_configuration(stage: Stage) -> Steps:
    """There is no ACL file: CONFIG REWRITE writes the users."""
    stage.serve()
    stage.ask("ACL SETUSER writing on >secret ~s* +@write")
    yield


@state("in MULTI", mode=MULTI)
def in_multi(stage: Stage) -> Steps:
    """The act is queued, and runs with EXEC."""
    stage.serve()
    yield


@state("in a script", mode=SCRIPT)
def in_script(stage: Stage) -> Steps:
    """The act is called by a script."""
    stage.serve()
    yield


@state("behind a blocked request", mode=BEHIND)
def after_a_blocked_request(stage: Stage) -> Steps:
    """The act follows, in one pipeline, a request that waits for an entry; then the entry comes."""
    stage.serve()
    yield
    stage.ask("XADD ~gate * f v")


@state("tracking by OPTIN", policies=(b"always",), share=0.15)
def tracking_by_choice(stage: Stage) -> Steps:
    """The acting clients say before each read whether its keys are to be tracked."""
    stage.serve()
    for actor in stage.actors:
        actor.ask((b"CLIENT", b"TRACKING", b"ON", b"OPTIN"))
    stage.scene.settle()
    yield


@state("an event was slow", policies=(b"always",), directives={"latency_monitor_threshold": 1}, share=0.15)
def slow_event(stage: Stage) -> Steps:
    """Latencies are watched, and one was noted."""
    stage.serve()
    stage.server.context.latency.note("fork", 5_000_000, stage.scene.clock())
    yield


@state("compat-config", policies=(b"always",), directives={"compat_config": True}, share=0.15)
def passing_over(stage: Stage) -> Steps:
    """Directives that Headrace has not are taken, and have no effect."""
    stage.serve()
    yield


@state("WATCH in force", mode=MULTI)
def watching(stage: Stage) -> Steps:
    """The keys of the act are watched, and a writer touches none of them."""
    stage.serve()
    for actor in stage.actors:
        actor.ask((b"WATCH", b"s", b"str"))
    stage.scene.settle()
    yield


# -- loading --------------------------------------------------------------------------------------


def _load_held(stage: Stage) -> Steps:
    scene = stage.scene
    scene.start(holds_load=True)
    for _ in range(20):
        scene.turn()
    assert stage.server.context.loading, "the server does not load"
    stage.bring_actors(2)
    stage.company = Company(scene)
    scene.settle()
    yield
    if not scene.has_ended:
        scene.pass_time(20)
        stage.look_at_crashes()
    stage.server.is_load_held = False
    scene.settle()


@state("loading a log")
def loading_log(stage: Stage) -> Steps:
    """In the middle of the records."""
    yield from _load_held(stage)
    assert stage.scene.has_ended or stage.scene.is_serving, "the load does not end"


@state("loading a log, MULTI", mode=MULTI)
def loading_log_in_multi(stage: Stage) -> Steps:
    """Transactions in the middle of a load."""
    yield from _load_held(stage)


@state("loading a log with an RDB base", disk="rdb base", directives={"aof_use_rdb_preamble": True})
def loading_rdb_base(stage: Stage) -> Steps:
    """In the middle of the base's keys."""
    yield from _load_held(stage)


@state("loading dump.rdb", disk="dump", directives=WITHOUT_LOG)
def loading_dump(stage: Stage) -> Steps:
    """In the middle of the keys of dump.rdb: there is no log."""
    stage.is_log_promised = False
    yield from _load_held(stage)


def _damage(stage: Stage, ending: str) -> None:
    """The end of a file is wrong, which the load learns last."""
    for path, inode in stage.scene.disk.names.items():
        if path.endswith(ending):
            assert inode is not None
            inode.append(b"*1\r\n$5\r\nNOSUCH\r\n" if ending.endswith("aof") else b"")
            if not ending.endswith("aof"):
                inode.truncate(len(inode.content) - 12)
            inode.durable, inode.changes = bytes(inode.content), []


def _write_while_it_fails(stage: Stage) -> None:
    """Let the load come to its end, while writes arrive in every turn."""
    stage.server.is_load_held = False
    for _ in range(40):
        stage.company.write()
        stage.scene.turn()
    if stage.server.config.key_load_delay and not stage.scene.has_ended:
        stage.scene.pass_time(20)
    assert stage.scene.has_ended, "a load that failed does not end the server"


@state("loading a bad log", is_refused=True)
def loading_bad_log(stage: Stage) -> Steps:
    """The load is about to fail."""
    _damage(stage, ".incr.aof")
    held = _load_held(stage)
    next(held)
    yield
    _write_while_it_fails(stage)


@state("loading a bad dump.rdb", disk="dump", is_refused=True, directives=WITHOUT_LOG)
def loading_bad_dump(stage: Stage) -> Steps:
    """The load is about to fail."""
    stage.is_log_promised = False
    _damage(stage, "dump.rdb")
    held = _load_held(stage)
    next(held)
    yield
    _write_while_it_fails(stage)


# What may be wrong with the list of the log's files: how it is brought about, and what the start says of it.
BROKEN_LISTS: Final[dict[str, tuple[Callable[[SimulatedDisk], None], tuple[str, ...]]]] = {
    "no manifest": (
        lambda disk: disk.lose(MANIFEST_PATH),
        ("appendonly.aof.2.base.rdb, appendonly.aof.2.incr.aof", "restore appendonly.aof.manifest from a backup"),
    ),
    "a manifest that names a missing base": (
        lambda disk: disk.lose(f"{LOG_FOLDER}/appendonly.aof.2.base.rdb"),
        ("appendonly.aof.2.base.rdb", f"restore {LOG_FOLDER}/appendonly.aof.2.base.rdb from a backup"),
    ),
    "a manifest that names a missing increment": (
        lambda disk: disk.lose(f"{LOG_FOLDER}/appendonly.aof.2.incr.aof"),
        ("appendonly.aof.2.incr.aof", f"restore {LOG_FOLDER}/appendonly.aof.2.incr.aof from a backup"),
    ),
    "an empty manifest": (
        lambda disk: disk.put(MANIFEST_PATH, b""),
        (MANIFEST_PATH, "empty AOF manifest", "repair this list of the log's files, or take it from a backup"),
    ),
    "a manifest with a zero byte in a name": (
        lambda disk: disk.put(MANIFEST_PATH, b'file "appendonly.aof.2.base.rdb\\x00" seq 1 type b\n'),
        (MANIFEST_PATH, "Invalid AOF manifest", "repair this list of the log's files, or take it from a backup"),
    ),
    "a manifest that ends in zeros": (
        lambda disk: disk.put(MANIFEST_PATH, (disk.read(MANIFEST_PATH) or b"")[:-20] + bytes(20)),
        (MANIFEST_PATH, "AOF manifest", "repair this list of the log's files, or take it from a backup"),
    ),
}


def _broken_log_states() -> None:
    for title, (break_it, words) in BROKEN_LISTS.items():

        def refused(
            stage: Stage, break_it: Callable[[SimulatedDisk], None] = break_it, words: tuple[str, ...] = words
        ) -> Steps:
            """The start is refused, while the first clients are there; nothing on the disk changes."""
            disk = stage.scene.disk
            break_it(disk)
            before = disk.contents(FOLDER)
            start = starting(stage)
            next(start)
            yield
            _write_while_it_fails(stage)
            assert disk.contents(FOLDER) == before, "told: the files that the start could not read were changed"
            logged = "\n".join(stage.scene.logged)
            assert all(word in logged for word in words), f"the server log lacks some of {words}: {logged}"

        def next_to_files(stage: Stage, break_it: Callable[[SimulatedDisk], None] = break_it) -> Steps:
            """A log that cannot be read is not replaced by a new one."""
            break_it(stage.scene.disk)
            stage.untouched = stage.scene.disk.contents(LOG_FOLDER)
            yield from serving_without_log(stage)

        STATES[title] = State(title, refused, disk="rdb base", is_refused=True, share=0.15)
        if "missing" not in title:  # the others can be read, and CONFIG SET appendonly yes replaces them
            name = f"serving beside {title}"
            options: dict[str, Any] = {"directives": WITHOUT_LOG, "policies": (b"always",), "share": 0.15}
            STATES[name] = State(name, next_to_files, disk="dump beside a log", **options)


@state("starting")
def starting(stage: Stage) -> Steps:
    """The first clients come in the very turn in which the sockets accept."""
    scene = stage.scene
    scene.start()
    for _ in range(20):
        if scene.network.is_listening:
            break
        scene.turn()
    assert not scene.is_serving, "the load is over"
    stage.company = Company(scene)
    stage.bring_actors(2)
    yield
    scene.settle()


_broken_log_states()


@state("started empty", disk="empty")
def started_empty(stage: Stage) -> Steps:
    """There was nothing to load."""
    stage.serve()
    yield


# -- the life of the log --------------------------------------------------------------------------


def _begin_log(stage: Stage) -> None:
    stage.serve()
    stage.is_log_promised = False
    assert stage.ask("CONFIG SET appendonly yes") == [b"OK"]


@state("log starting", disk="dump", directives=WITHOUT_LOG)
def log_starting(stage: Stage) -> Steps:
    """Its base is being written."""
    _begin_log(stage)
    assert stage.server.log is not None, "no log is starting"
    assert stage.server.snapshots.runner.job is not None, "its base is not being written"
    yield


@state("log wanted", disk="dump", directives=WITHOUT_LOG)
def log_wanted(stage: Stage) -> Steps:
    """A snapshot goes before it."""
    stage.serve()
    stage.is_log_promised = False
    assert len(stage.ask("BGSAVE", "CONFIG SET appendonly yes")) == 2
    assert stage.server.snapshots.runner.job is not None, "no snapshot is running"
    yield


@state("log just on", disk="dump", directives=WITHOUT_LOG)
def log_just_on(stage: Stage) -> Steps:
    """Its base is complete."""
    _begin_log(stage)
    stage.scene.pass_time(500)
    stage.is_log_promised = True
    yield


@state("log just off")
def log_just_off(stage: Stage) -> Steps:
    """The log has ended."""
    stage.serve()
    assert stage.ask("CONFIG SET appendonly no") == [b"OK"]
    stage.is_log_promised = False
    assert stage.server.log is None, "there is a log"
    yield


@state("rewrite waiting for an fsync", policies=(b"everysec", b"no"))
def rewrite_awaiting_fsync(stage: Stage) -> Steps:
    """A thread syncs what was written before the rewrite begins."""
    with mock.patch.object(snapshots, "SYNC_FIRST_SIZE", 1):
        stage.serve()
        stage.company.write()
        stage.scene.settle()
        stage.ask("BGREWRITEAOF")
        assert stage.server.snapshots.runner.job is None, "the rewrite does not wait"
        assert stage.server.snapshots.rewrite.is_running, "no rewrite is running"
        yield
        stage.scene.pass_time(300)


@state("rewrite beginning")
def rewrite_beginning(stage: Stage) -> Steps:
    """The increment is switched, with a foreground fsync, in the turn of the act and before it."""
    stage.serve()
    stage.company.write()
    stage.scene.settle()
    stage.scene.connect("director").ask((b"BGREWRITEAOF",))
    yield
    assert stage.scene.has_ended or stage.server.snapshots.rewrite.started_ms, "no rewrite has begun"


@state("rewriting")
def rewriting(stage: Stage) -> Steps:
    """The base is being made."""
    stage.serve()
    stage.ask("BGREWRITEAOF")
    stage.scene.pass_time(1, works=False)
    assert stage.server.snapshots.runner.job is not None, "no rewrite is running"
    yield


@state("rewriting to an RDB base", disk="rdb base", directives={"aof_use_rdb_preamble": True})
def rewriting_rdb(stage: Stage) -> Steps:
    """The base is being made, as an RDB file."""
    yield from rewriting(stage)


def _complete(stage: Stage) -> None:
    """All blocks are made and written; what follows is due."""
    scene = stage.scene
    for _ in range(100):
        job = stage.server.snapshots.runner.job
        assert job is not None, "no job is running"
        if job.file._is_made:
            break
        scene.pass_time(1, works=False)
    while scene.writer.step():
        continue
    assert job.file._future.done(), "the file is not complete"


@state("rewrite about to swap the manifest")
def rewrite_complete(stage: Stage) -> Steps:
    """The base is in its place, and the next turn of the job puts it in force."""
    stage.serve()
    stage.ask("BGREWRITEAOF")
    _complete(stage)
    stage.scene.clock.advance(5)  # due in the turn of the act
    yield


@state("a backup gathers writes")
def backup_incrementing(stage: Stage) -> Steps:
    """BACKUP START has pinned its base."""
    stage.serve()
    stage.ask("BACKUP START")
    stage.scene.pass_time(50)
    assert stage.server.backups.backup.state is BackupState.INCREMENTING, "the base is not pinned"
    yield


@state("a backup writes its base")
def backup_snapshotting(stage: Stage) -> Steps:
    """BACKUP START has begun a rewrite."""
    stage.serve()
    stage.ask("BACKUP START")
    assert stage.server.backups.backup.state is BackupState.SNAPSHOTTING, "the base is not being written"
    yield


@state("a backup without a log writes its base", disk="dump", directives=WITHOUT_LOG, share=0.3)
def backup_snapshotting_alone(stage: Stage) -> Steps:
    """BACKUP START has begun a log of its own."""
    stage.is_log_promised = False
    yield from backup_snapshotting(stage)


@state("a backup without a log gathers writes", disk="dump", directives=WITHOUT_LOG, share=0.3)
def backup_incrementing_alone(stage: Stage) -> Steps:
    """The log is kept for the backup only."""
    stage.is_log_promised = False
    yield from backup_incrementing(stage)


@state("a backup is sealed", share=0.3)
def backup_sealed(stage: Stage) -> Steps:
    """No act but CLEANUP, and one that replaces the folder, changes its files."""
    stage.serve()
    stage.ask("BACKUP START")
    stage.scene.pass_time(50)
    assert stage.ask("BACKUP SEAL") == [b"OK"]
    yield


@state("a backup waits for a snapshot", share=0.3)
def backup_pending(stage: Stage) -> Steps:
    """BACKUP START was sent while BGSAVE was running."""
    stage.serve()
    stage.ask("BGSAVE", "BACKUP START")
    assert stage.server.backups.backup.state is BackupState.PENDING, "the backup does not wait"
    yield


@state("rewrite that cannot swap the manifest")
def rewrite_failing(stage: Stage) -> Steps:
    """The rename of the manifest fails."""
    stage.serve()
    stage.ask("BGREWRITEAOF")
    stage.scene.disk.fault = failing("rename", EIO)
    stage.scene.pass_time(50)
    assert stage.server.snapshots.runner.job is None, "a rewrite is running"
    assert not stage.server.snapshots.rewrite.last_ok, "the rewrite has not failed"
    yield
    stage.scene.disk.fault = no_fault


@state("snapshot running")
def snapshot_running(stage: Stage) -> Steps:
    """BGSAVE is running."""
    stage.serve()
    path = dump_path(stage.server.config)
    stage.ask("BGSAVE")
    assert stage.server.snapshots.save.is_running, "no snapshot is running"
    yield
    stage.scene.pass_time(300)
    record = stage.server.snapshots.save
    if not stage.scene.has_ended and record.count == 1 and record.last_ok and not record.is_running:
        assert stage.scene.disk.size(path), "BGSAVE ended well, and there is no dump.rdb"


@state("snapshot running without a log", disk="dump", directives=WITHOUT_LOG, share=0.3)
def snapshot_running_alone(stage: Stage) -> Steps:
    """BGSAVE is running, and the folder may change meanwhile."""
    stage.is_log_promised = False
    snapshot = snapshot_running(stage)
    next(snapshot)
    stage.scene.clock.advance(1)  # dump.rdb is older than the end of the server
    yield
    yield from snapshot


@state("base being made without a log", disk="dump", directives=WITHOUT_LOG, share=0.3)
def rewriting_without_log(stage: Stage) -> Steps:
    """BGREWRITEAOF writes a base that no increment follows."""
    stage.is_log_promised = False
    yield from rewriting(stage)


@state("snapshot about to end")
def snapshot_complete(stage: Stage) -> Steps:
    """dump.rdb is in its place."""
    stage.serve()
    stage.ask("BGSAVE")
    _complete(stage)
    stage.scene.clock.advance(5)
    yield


@state("snapshots failing", directives={"save": b"3600 1000000"})
def snapshots_failing(stage: Stage) -> Steps:
    """The last snapshot failed: writes are refused."""
    stage.serve()
    stage.scene.disk.fault = lambda call: Fault(EIO) if "dump" in call.path else None
    stage.ask("BGSAVE")
    stage.scene.pass_time(50)
    assert stage.server.dispatcher.admission.is_save_failing, "writes are not refused"
    yield
    stage.scene.disk.fault = no_fault
    if not stage.scene.has_ended:
        stage.ask("BGSAVE SCHEDULE")


@state("replayed", policies=(b"always", b"no"))
def replayed(stage: Stage) -> Steps:
    """DEBUG LOADAOF and RELOAD run in the turn of the act, before it."""
    stage.serve()
    director = stage.scene.connect("director")
    director.ask((b"SET", b"~replayed", b"1"), (b"DEBUG", b"LOADAOF"), (b"DEBUG", b"RELOAD"))
    yield
    assert director.is_closed or stage.scene.has_ended or len(director.replies) == 3, director.replies


# -- a disk that fails ----------------------------------------------------------------------------


def failing(kind: str, errno: int) -> Callable[[Call], Fault | None]:
    """Every call of a kind fails; a disk that is full takes a part first."""
    seen: list[Call] = []

    def fault(call: Call) -> Fault | None:
        if call.kind != kind:
            return None
        seen.append(call)
        return Fault(size=7) if errno == ENOSPC and kind == "append" and len(seen) == 1 else Fault(errno)

    return fault


def _fault_states() -> None:
    for title, kind, errno in (
        ("disk full", "append", ENOSPC),
        ("writes failing", "append", EIO),
        ("fsync failing", "fsync", EIO),
        ("rename failing", "rename", EIO),
        ("no new files", "create", ENOSPC),
    ):

        def begin(stage: Stage, kind: str = kind, errno: int = errno) -> Steps:
            stage.serve()
            stage.scene.disk.fault = failing(kind, errno)
            stage.is_log_promised = stage.scene.policy == b"always"
            yield
            stage.scene.disk.fault = no_fault

        def known(stage: Stage, kind: str = kind, errno: int = errno) -> Steps:
            stage.serve()
            stage.scene.disk.fault = failing(kind, errno)
            stage.is_log_promised = False
            stage.scene.promises = False
            stage.company.write()
            stage.scene.pass_time(1300)
            assert stage.server.dispatcher.admission.write_error is not None, "writes are not refused"
            yield
            stage.scene.disk.fault = no_fault

        STATES[title] = State(title, begin)
        if kind in ("append", "fsync"):
            policies = (b"everysec", b"no") if kind == "append" else (b"everysec",)
            STATES[f"{title}, known"] = State(f"{title}, known", known, policies=policies)


_fault_states()


# -- pauses ---------------------------------------------------------------------------------------


def _pause(stage: Stage, kind: str) -> Steps:
    stage.serve()
    claimer = stage.scene.connect("claimer")
    claimer.ask(
        (b"XREADGROUP", b"GROUP", b"g", b"claimer", b"CLAIM", b"60400", b"BLOCK", b"0", b"STREAMS", b"idle", b">")
    )
    stage.scene.settle()
    assert stage.ask(f"CLIENT PAUSE 1000 {kind}") == [b"OK"]
    assert stage.server.dispatcher.pause.end_ms is not None, "there is no pause"
    yield
    if not stage.scene.has_ended and stage.server.dispatcher.pause.end_ms is not None:
        before = digest_of(stage.server.store)
        stage.scene.pass_time(600)
        is_paused = stage.scene.has_ended or stage.server.dispatcher.pause.end_ms is not None
        assert is_paused, "the pause ends too early"
        assert digest_of(stage.server.store) == before, "the dataset changes during a pause"
    stage.scene.pass_time(700)


@state("paused for writes")
def paused_writes(stage: Stage) -> Steps:
    """CLIENT PAUSE WRITE; a reader waits for an entry to have been idle for long enough."""
    yield from _pause(stage, "WRITE")


@state("paused for all")
def paused_all(stage: Stage) -> Steps:
    """CLIENT PAUSE ALL."""
    yield from _pause(stage, "ALL")


@state("held by a pause")
def held(stage: Stage) -> Steps:
    """A client is held with a command, and gone on with by the act of another."""
    stage.serve()
    assert stage.ask("CLIENT PAUSE 500 WRITE") == [b"OK"]
    stage.company.write()
    stage.scene.settle()
    assert stage.server.dispatcher.pause.held, "no client is held"
    yield
    stage.scene.pass_time(700)


# -- the end --------------------------------------------------------------------------------------


@state("shutting down")
def shutting_down(stage: Stage) -> Steps:
    """SIGTERM comes in the turn of the act, before it."""
    stage.serve()
    stage.scene.raise_signal(signal.SIGTERM)
    yield
    assert stage.scene.has_ended, "SIGTERM does not end the server"


@state("shutting down by another client")
def shutting_down_by_client(stage: Stage) -> Steps:
    """SHUTDOWN comes in the turn of the act, before it."""
    stage.serve()
    stage.scene.connect("director").ask((b"SHUTDOWN",))
    yield
    assert stage.scene.has_ended, "SHUTDOWN does not end the server"


@state("a stop has failed", directives={"save": b"3600 1000000"})
def stop_failed(stage: Stage) -> Steps:
    """The disk did not accept the dataset: the server continues."""
    stage.serve()
    stage.scene.disk.fault = lambda call: Fault(EIO) if "dump" in call.path else None
    stage.scene.raise_signal(signal.SIGTERM)
    stage.scene.settle()
    assert not stage.scene.has_ended, "the server has ended"
    yield
    stage.scene.disk.fault = no_fault
    if not stage.scene.has_ended:
        stage.ask("BGSAVE SCHEDULE")


# -- output and limits ----------------------------------------------------------------------------


def _fill(stage: Stage) -> None:
    stage.serve()
    filler = stage.scene.connect("filler")
    filler.ask((b"SET", b"big", b"b" * BULK_SIZE), (b"DEL", b"unused"))
    stage.scene.settle()


@state("output stalled")
def output_stalled(stage: Stage) -> Steps:
    """The acting client does not read: its requests wait. Then it reads."""
    _fill(stage)
    actor = stage.actors[0]
    actor.wire.reads = False
    actor.ask(*[(b"GET", b"big")] * 30)
    stage.scene.settle()
    assert actor.connection.is_write_paused, "its output is not stalled"
    yield
    actor.wire.resume()


@state("a stalled reader that waits")
def reader_stalled(stage: Stage) -> Steps:
    """A client that does not read much output waits for an entry. It starts to read in the moment of the write."""
    _fill(stage)
    stage.ask("XGROUP CREATE ~jobs g 0 MKSTREAM")
    reader = stage.scene.connect("stalled")
    reader.wire.reads = False
    waiting = (b"XREADGROUP", b"GROUP", b"g", b"stalled", b"BLOCK", b"0", b"STREAMS", b"~jobs", b">")
    reader.ask(*[(b"GET", b"big")] * 8)
    stage.scene.settle()
    reader.ask(*[(b"GET", b"big")] * 8, waiting)
    stage.scene.settle()
    assert reader.connection.is_write_paused, "its output is not stalled"
    assert reader.connection.client.blocked is not None, "it does not wait"
    writer = stage.scene.connect("stalled's writer")
    token = stage.scene.token()

    def meanwhile() -> None:
        reader.wire.resume()

    writer.ask((b"XADD", b"~jobs", b"*", b"v", token))
    stage.meanwhile = meanwhile
    yield


@state("over maxmemory", directives={"maxmemory": 1})
def over_maxmemory(stage: Stage) -> Steps:
    """Every write that needs memory is refused."""
    stage.serve()
    assert b"OOM" in bytes(stage.ask("SET no x")[0]), "writes are not refused"
    yield
    if not stage.scene.has_ended:
        stage.ask("CONFIG SET maxmemory 0")


@state("over an output limit", directives={"client_output_buffer_limit": OUTPUT_LIMITS})
def over_output_limit(stage: Stage) -> Steps:
    """A subscriber that does not read is about to be closed."""
    _fill(stage)
    listener = stage.company.listener
    listener.wire.reads = False
    stage.ask(*["PUBLISH news " + "n" * 1000] * 25)
    assert not listener.is_closed, "it is closed already"
    yield


@state("large values", policies=(b"always", b"no"))
def large_values(stage: Stage) -> Steps:
    """A value that was made by parts is larger than a limit for requests may be."""
    stage.serve()
    stage.ask(f"SETRANGE ~large {BIG_SIZE} x", "APPEND ~large y")
    yield


@state("many wait for one stream")
def many_readers(stage: Stage) -> Steps:
    """Several clients wait for the same entries by XREAD, and others by XREADGROUP."""
    stage.serve()
    for number in range(4):
        reader = stage.scene.connect(f"reader {number}")
        reader.ask((b"XREAD", b"BLOCK", b"0", b"STREAMS", b"s", b"t", b"q", b"$", b"$", b"$"))
        other = stage.scene.connect(f"group reader {number}")
        other.ask((b"XREADGROUP", b"GROUP", b"h", b"c%d" % number, b"BLOCK", b"0", b"STREAMS", b"s", b">"))
    stage.scene.settle()
    yield


@state("a client waits for the disk", policies=(b"everysec", b"no"))
def waiting_for_disk(stage: Stage) -> Steps:
    """WAITAOF waits for an fsync."""
    stage.serve()
    waiter = stage.scene.connect("disk waiter")
    waiter.ask((b"SET", b"~waited", b"1"), (b"WAITAOF", b"1", b"0", b"5000"))
    stage.scene.settle()
    stage.scene.pass_time(20, works=False)
    yield
    stage.scene.pass_time(5500)
    assert waiter.is_closed or len(waiter.replies) == 2, "WAITAOF is not answered"
