"""The life of the log: which state may follow which, and that no command in any state loses an acknowledged write."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace.commands.clients.client import Client
from headrace.persistence.errors import LogError
from headrace.server.configuration.config import Config
from headrace.server.requests.session import Session
from headrace.server.storage.log_life import NEXT_STATES, LogLife, LogState
from support.crash_world import FOLDER, SimulatedServer, new_config
from support.inprocess import Clock, Peer, running_server
from support.lines import split
from support.logging_server import COUNT, LOADING, LoadingServer, LoggingServer, is_locked, restarted
from support.simulated_disk import Call, Fault, SimulatedDisk
from support.stepping import SteppingExecutor, SteppingLoop

LOG_FOLDER = "appendonlydir"


def test_every_state_is_reached_and_left_only_by_steps_of_the_table() -> None:
    assert set(NEXT_STATES) == set(LogState)
    reached = {LogState.OFF}
    while grown := {after for state in reached for after in NEXT_STATES[state]} - reached:
        reached |= grown
    assert reached == set(LogState)
    for state in LogState:
        for after in LogState:
            life = LogLife()
            life.state = state
            if after in NEXT_STATES[state]:
                life.become(after)
                assert life.state is after
            else:
                with pytest.raises(AssertionError, match=f"{after.name} after {state.name}"):
                    life.become(after)


# -- while the dataset is loaded -----------------------------------------------------------------

CHANGES = [
    ["CONFIG SET appendonly yes"],
    ["CONFIG SET appendonly no"],
    ["CONFIG SET appendonly no", "CONFIG SET appendonly yes"],
    ["MULTI", "CONFIG SET appendonly no", "CONFIG SET appendonly yes", "EXEC"],
    ["MULTI", "ECHO hi", "EXEC", "CONFIG SET appendonly no", "CONFIG SET appendonly yes"],
    ["CONFIG SET appendonly no appendfsync always", "CONFIG SET appendonly yes"],
]


@pytest.fixture
def loading(tmp_path: Path) -> Iterator[LoadingServer]:
    server = LoadingServer(tmp_path)
    next(server.steps)
    yield server
    server.close()


@pytest.mark.parametrize("lines", CHANGES, ids=" ; ".join)
def test_turning_the_log_off_or_on_during_a_load_keeps_the_log_that_is_read(
    loading: LoadingServer, lines: list[str]
) -> None:
    files = {path.name: path.read_bytes() for path in loading.folder.iterdir()}
    assert b"-" not in loading.call(*lines)
    assert loading.server.log_keeper.state is LogState.LOADING
    loading.server.snapshots.cron(loading.server.clock())
    loading.finish()
    assert {path.name: path.read_bytes() for path in loading.folder.iterdir()} == files
    is_wanted = loading.server.config.appendonly
    assert loading.server.log_keeper.state is (LogState.ON if is_wanted else LogState.OFF)
    assert loading.call("XLEN s") == b":%d\r\n" % COUNT
    if is_wanted:
        assert loading.server.log is not None
        assert loading.server.log.policy == loading.server.config.appendfsync


@pytest.mark.parametrize("lines", [["CONFIG SET appendonly yes"], ["MULTI", "CONFIG SET appendonly yes", "EXEC"]])
def test_log_turned_on_while_a_dump_is_loaded_begins_with_the_whole_dataset(lines: list[str], tmp_path: Path) -> None:
    first = LoggingServer(tmp_path, appendonly=False)
    first.call(*(f"SET k{number} {number}" for number in range(300)), "SAVE")
    first.stop()
    old_log = tmp_path / LOG_FOLDER / "appendonly.aof.1.incr.aof"
    old_log.parent.mkdir()
    old_log.write_bytes(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\nold\r\n")
    (old_log.parent / "appendonly.aof.manifest").write_bytes(b"file appendonly.aof.1.incr.aof seq 1 type i\n")
    server = LoadedBySteps(tmp_path)
    server.call(*lines)
    server.finish()
    assert server.server.log_keeper.state is LogState.WANTED
    assert old_log.exists(), "it is the log until the new base is complete"
    server.server.snapshots.cron(server.clock())
    server.call("SET new 1")
    server.run_slices()
    assert server.server.log_keeper.state is LogState.ON
    state = server.state()
    server.stop()
    assert len(server.server.store.databases[0].keys) == 301
    assert restarted(tmp_path) == state


class LoadedBySteps(LoggingServer):
    """A server without a log in the middle of loading its dump.rdb."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, appendonly=False)
        # The one that the constructor has loaded ends; another one is stepped.
        self.stop()
        config = Config()
        config.dir = os.fsencode(folder)
        self.config = config
        self.server = type(self.server)(config, clock=self.clock)
        self.server.snapshots.runner.call_later = lambda _, call: self.slices.append(call)  # type: ignore[assignment]
        self.dispatcher = self.server.dispatcher
        self.steps = self.server.load()
        next(self.steps)
        self.session = self.connect()

    def finish(self) -> None:
        for _ in self.steps:
            continue


@pytest.mark.parametrize("line", ["DEBUG RELOAD", "DEBUG LOADAOF", "DEBUG POPULATE 5"])
def test_dataset_being_loaded_is_not_replaced(loading: LoadingServer, line: str) -> None:
    loading.server.config.enable_debug_command = b"yes"
    assert loading.call(line) == LOADING
    loading.finish()
    assert loading.call("DBSIZE", "XLEN s") == b":1\r\n:%d\r\n" % COUNT


def test_data_folder_stays_while_the_dataset_is_loaded(loading: LoadingServer, tmp_path: Path) -> None:
    loading.server.config.enable_protected_configs = b"yes"
    (tmp_path / "other").mkdir()
    before = os.getcwd()
    reply = loading.call(f"CONFIG SET dir {tmp_path / 'other'}")
    assert reply.endswith(b"- the dataset is being loaded: wait until it is loaded\r\n")
    assert os.getcwd() == before
    loading.finish()
    assert loading.server.log is not None
    assert Path(loading.server.log.manifest_path).parent == loading.folder


def test_monitor_may_begin_while_the_dataset_is_loaded(loading: LoadingServer) -> None:
    assert loading.call("MONITOR") == b"+OK\r\n"


@pytest.mark.parametrize("source", ["log", "dump"])
def test_server_whose_load_failed_runs_no_request(source: str, tmp_path: Path) -> None:
    """Goal: nothing is acknowledged, and nothing read, between the failure and the end of the process."""
    server = LoadingServer(tmp_path)
    path = server.folder / "appendonly.aof.1.incr.aof"
    if source == "dump":
        server.server.config.appendonly, path = False, tmp_path / "dump.rdb"
        path.write_bytes(b"REDIS0011" + b"\0\1k\1v" + b"\77" * 100)
    else:
        path.write_bytes(path.read_bytes() + b"garbage" * 9 + path.read_bytes())
    with pytest.raises(LogError):
        server.finish()
    server.server.turns.run(server.session, [split("XADD s * f v"), split("XLEN s"), split("PING")])
    assert server.session.out == []
    assert server.server.log_keeper.state is LogState.ENDED


def test_limits_for_clients_do_not_judge_the_log(tmp_path: Path) -> None:
    first = LoggingServer(tmp_path)
    first.call(f"SET k {'x' * 1000}", f"APPEND k {'x' * 2_000_000}", f"SETRANGE other 2000000 {'y' * 10}")
    state = first.state()
    first.stop()
    config = Config()
    config.dir, config.appendonly, config.proto_max_bulk_len = os.fsencode(tmp_path), True, 1024 * 1024
    again = LoggingServer(tmp_path, config=config)
    assert again.state() == state
    assert again.call("APPEND k x").startswith(b"-ERR string exceeds maximum allowed size")
    again.stop()


# -- CONFIG SET ----------------------------------------------------------------------------------


async def test_refused_change_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    """Every pair of `appendonly` and a directive that is refused, in either order: the log continues."""
    async with running_server(dir=os.fsencode(tmp_path), appendonly=True, enable_protected_configs=b"yes") as running:
        server = running.server
        server.config.before_change("bind", refuse)
        peer = await running.connect()
        log = server.log
        for words in (
            ["appendonly", "no", "bind", "1.2.3.4"],
            ["bind", "1.2.3.4", "appendonly", "no"],
            ["appendonly", "no", "dir", "/nonexistent"],
            ["appendonly", "no", "hz", "x"],
            ["appendonly", "no", "databases", "7"],
            ["appendonly", "no", "appendfsync", "always", "bind", "1.2.3.4"],
        ):
            peer.send("CONFIG", "SET", *words)
            assert (await peer.line()).startswith(b"-ERR CONFIG SET failed"), words
            assert server.log is log
            assert server.log_keeper.state is LogState.ON
            assert (server.config.appendonly, server.config.appendfsync) == (True, b"everysec")


def refuse(_: object) -> None:
    raise OSError(99, "Cannot assign requested address")


def test_refused_start_of_the_log_leaves_none(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path, appendonly=False)
    server.config.before_change("bind", refuse)
    assert server.call("CONFIG SET appendonly yes bind 1.2.3.4").startswith(b"-ERR CONFIG SET failed")
    assert (server.server.log, server.server.log_keeper.state) == (None, LogState.OFF)
    assert not (tmp_path / LOG_FOLDER).exists()
    server.stop()


@pytest.mark.parametrize("words", ["appendonly yes dir {}", "dir {} appendonly yes"])
def test_log_never_starts_in_the_folder_of_another_server(words: str, tmp_path: Path) -> None:
    """The other server's log is starting: its files must not be taken for leftovers."""
    (tmp_path / "own").mkdir()
    (tmp_path / "other").mkdir()
    config = Config()
    config.enable_protected_configs = b"yes"
    other = LoggingServer(tmp_path / "other", appendonly=False)
    server = LoggingServer(tmp_path / "own", appendonly=False, config=config)
    with closing(other), closing(server):
        other.call("SET k v", "CONFIG SET appendonly yes")
        files = set((tmp_path / "other" / LOG_FOLDER).iterdir())
        server.server.log_keeper.lock.acquire()
        folder = os.getcwd()
        reply = server.call(f"CONFIG SET {words.format(tmp_path / 'other')}")
        assert reply.startswith(b"-ERR CONFIG SET failed (possibly related to argument")
        assert files
        assert files <= set((tmp_path / "other" / LOG_FOLDER).iterdir())
        assert server.server.log is None
        assert os.getcwd() == folder
        other.run_slices()
        assert other.server.log_keeper.state is LogState.ON


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Three folders, in the first of which the process runs, as a server does."""
    made = [tmp_path / name for name in ("first", "second", "third")]
    for folder in made:
        folder.mkdir()
    monkeypatch.chdir(made[0])
    return made


@pytest.mark.parametrize("job", ["BGSAVE", "BGREWRITEAOF"])
@pytest.mark.parametrize("is_given_up", [False, True])
def test_folder_stays_locked_until_the_job_that_writes_to_it_has_ended(
    job: str, is_given_up: bool, folders: list[Path]
) -> None:
    config = Config()
    config.enable_protected_configs = b"yes"
    with closing(LoggingServer(folders[0], appendonly=False, config=config)) as server:
        server.call("SET a 1", job)
        for present in (1, 0, 2, 1):
            assert server.call(f"CONFIG SET dir {folders[present]}") == b"+OK\r\n"
            assert is_locked(folders[0])
            assert is_locked(folders[present])
        if is_given_up:
            server.server.snapshots.stop()
        else:
            server.run_slices()
        assert list(map(is_locked, folders)) == [False, True, False]
        assert bool(list(folders[0].rglob("*.rdb"))) is not is_given_up


def test_server_whose_folder_was_deleted_can_be_given_another(folders: list[Path]) -> None:
    config = Config()
    config.enable_protected_configs = b"yes"
    with closing(LoggingServer(folders[0], appendonly=False, config=config)) as server:
        shutil.rmtree(folders[0])
        assert server.call(f"CONFIG SET dir {folders[1]}", "SET a 1", "SAVE") == b"+OK\r\n" * 3
        assert list(folders[1].rglob("*.rdb"))


def test_refused_change_of_the_folder_never_unlocks_it(folders: list[Path]) -> None:
    config = Config()
    config.enable_protected_configs = b"yes"
    seen: list[list[bool]] = []

    def note_and_refuse(_: object) -> None:
        seen.append(list(map(is_locked, folders)))
        refuse(_)

    with closing(LoggingServer(folders[0], appendonly=False, config=config)) as server:
        config.before_change("bind", note_and_refuse)
        for job in ("PING", "BGSAVE"):
            server.call(job)
            assert server.call(f"CONFIG SET dir {folders[1]} bind 1.2.3.4").startswith(b"-ERR CONFIG SET failed")
            assert seen.pop() == [True, True, False]
            assert is_locked(folders[0])
            assert Path.cwd() == folders[0]
            server.run_slices()
            assert list(map(is_locked, folders)) == [True, False, False]


@pytest.mark.parametrize("words", [["save", "1 1", "bind", "1.2.3.4"], ["appendonly", "yes"]], ids=lambda each: each[0])
async def test_refused_change_leaves_an_unlocked_folder_unlocked(words: list[str], tmp_path: Path) -> None:
    stray = tmp_path / LOG_FOLDER / "appendonly.aof.3.incr.aof"
    stray.parent.mkdir()
    stray.write_bytes(b"data")  # without a manifest no log starts
    async with running_server(dir=os.fsencode(tmp_path), save=b"") as running:
        running.server.config.before_change("bind", refuse)
        peer = await running.connect()
        peer.send("CONFIG", "SET", *words)
        assert (await peer.line()).startswith(b"-ERR CONFIG SET failed (possibly related to argument")
        assert not is_locked(tmp_path)


def test_start_of_a_log_that_fails_unlocks_the_former_folder(folders: list[Path]) -> None:
    config = Config()
    config.enable_protected_configs = b"yes"
    with closing(LoggingServer(folders[0], appendonly=False, config=config)) as server:
        assert server.call("SET a 1", f"CONFIG SET dir {folders[1]} appendonly yes") == b"+OK\r\n" * 2
        (folders[1] / LOG_FOLDER / "appendonly.aof.1.base.rdb").mkdir()
        server.run_slices()
        assert server.server.log_keeper.state is LogState.WANTED
        assert list(map(is_locked, folders)) == [False, True, False]


def test_start_of_a_log_without_its_manifest_is_refused(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path, appendonly=False)
    stray = tmp_path / LOG_FOLDER / "appendonly.aof.3.incr.aof"
    stray.parent.mkdir()
    stray.write_bytes(b"data")
    for lines in (["BGSAVE"], ["MULTI"], []):  # while a job runs and inside EXEC the log would start later
        reply = server.call(*lines, "CONFIG SET appendonly yes", *(["EXEC"] if lines == ["MULTI"] else []))
        assert b"-ERR CONFIG SET failed (possibly related to argument 'appendonly') - " in reply
        assert b"has appendonly.aof.3.incr.aof, but the list of the log's files is missing" in reply
        server.run_slices()
    assert server.call("BGREWRITEAOF").startswith(b"-ERR Can't execute an AOF background rewriting")
    assert (stray.read_bytes(), server.config.appendonly) == (b"data", False)
    server.stop()


def test_log_turned_off_leaves_a_snapshot_running(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path)
    server.call("SET a 1", "BGSAVE", "CONFIG SET appendonly no")
    assert server.server.snapshots.save.is_running
    server.run_slices()
    assert (tmp_path / "dump.rdb").exists()
    assert server.server.log_keeper.state is LogState.OFF
    server.stop()


def test_save_asked_for_while_a_rewrite_awaits_its_fsync_does_not_take_its_place(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path)
    server.call(f"SET big {'x' * 2_000_000}")
    server.call("BGREWRITEAOF")
    if server.server.log_keeper.state is LogState.AWAITING_SYNC:
        assert server.call("BGSAVE").startswith(b"-ERR Another child process is active")
        assert server.call("BGSAVE SCHEDULE") == b"+Background saving scheduled\r\n"
    server.stop()


# -- DEBUG ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["DEBUG RELOAD", "DEBUG LOADAOF"])
def test_transaction_with_a_reload_is_in_the_log_whole(line: str, tmp_path: Path) -> None:
    server = LoggingServer(tmp_path)
    server.config.enable_debug_command = b"yes"
    server.call("MULTI", "SET a 1", "XADD s 1-1 f v", line, "SET b 1", "EXEC", "SET c 1")
    state = server.state()
    assert {b"a", b"b", b"c", b"s"} == set(server.server.store.databases[0].keys)
    server.stop()
    assert restarted(tmp_path) == state


def test_reload_that_fails_leaves_the_dataset_as_it_was(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path)
    server.config.enable_debug_command = b"yes"
    server.call("SET a 1", "XADD s 1-1 f v", "SELECT 3", "SET b 1", "SELECT 0")
    state = server.state()
    path = tmp_path / LOG_FOLDER / "appendonly.aof.1.incr.aof"
    data = path.read_bytes()
    path.write_bytes(data[:40] + b"garbage" * 9 + data[40:])
    reply = server.call("DEBUG LOADAOF")
    assert reply == b"-ERR Error trying to load the AOF files, check server logs.\r\n"
    assert server.state() == state
    assert server.call("XLEN s") == b":1\r\n"
    server.server.store.databases[0].check()
    path.write_bytes(data)
    server.stop()


def test_log_that_starts_is_not_loaded(tmp_path: Path) -> None:
    """The old files are the log until the base is complete: they hold another dataset."""
    server = LoggingServer(tmp_path, appendonly=False)
    server.config.enable_debug_command = b"yes"
    server.call("SET a 1", "CONFIG SET appendonly yes")
    assert server.call("DEBUG LOADAOF").startswith(b"-ERR Error trying to load the AOF files")
    assert server.call("GET a") == b"$1\r\n1\r\n"
    server.run_slices()
    server.stop()


# -- WAITAOF -------------------------------------------------------------------------------------


async def expect_synced(peer: Peer) -> None:
    async with asyncio.timeout(10):
        await peer.expect(b"*2\r\n:1\r\n:0\r\n")


@pytest.mark.parametrize("policy", [b"always", b"everysec"])
async def test_waitaof_is_answered_however_the_fsync_comes(policy: bytes, tmp_path: Path) -> None:
    """In one pipeline with the write, after the fsync of a rewrite, and by a log turned off and on again."""
    async with running_server(dir=os.fsencode(tmp_path), appendonly=True, appendfsync=policy) as running:
        peer = await running.connect()
        peer.send("SET", "a", 1)
        peer.send("WAITAOF", 1, 0, 0)
        await peer.expect(b"+OK\r\n")
        running.server.log_keeper.cron(running.server.clock() + 2000)
        await expect_synced(peer)
        for number in range(4):
            peer.send("SET", "a", number)
            peer.send("BGREWRITEAOF")
            peer.send("WAITAOF", 1, 0, 0)
            await peer.expect(b"+OK\r\n+Background append only file rewriting started\r\n")
            await expect_synced(peer)
            while running.server.snapshots.rewrite.is_running:
                running.server.snapshots.cron(running.server.clock())
                await asyncio.sleep(0)
        peer.send("CONFIG", "SET", "appendonly", "no")
        peer.send("CONFIG", "SET", "appendonly", "yes")
        peer.send("WAITAOF", 1, 0, 0)
        peer.send("SET", "a", 1)
        peer.send("WAITAOF", 1, 0, 0)
        await peer.expect(b"+OK\r\n+OK\r\n")
        running.server.snapshots.cron(running.server.clock())
        await expect_synced(peer)
        await peer.expect(b"+OK\r\n")
        running.server.log_keeper.cron(running.server.clock() + 2000)
        await expect_synced(peer)


async def test_waitaof_ends_with_the_log(tmp_path: Path) -> None:
    async with running_server(dir=os.fsencode(tmp_path), appendonly=True, appendfsync=b"no") as running:
        peer, other = await running.connect(), await running.connect()
        peer.send("SET", "a", 1)
        peer.send("WAITAOF", 1, 0, 0)
        await peer.expect(b"+OK\r\n")
        other.send("CONFIG", "SET", "appendonly", "no")
        await other.expect(b"+OK\r\n")
        expected = b"-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.\r\n"
        async with asyncio.timeout(10):
            await peer.expect(expected)


async def test_waitaof_waits_for_the_base_of_a_log_that_is_still_wanted(tmp_path: Path) -> None:
    refusal = b"-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.\r\n"
    async with running_server(dir=os.fsencode(tmp_path), appendfsync=b"no") as running:
        peer, other = await running.connect(), await running.connect()
        for number in range(50_000):
            running.server.store.databases[0].put(b"%d" % number, b"v")
        for is_turned_off in (True, False):
            other.send("BGSAVE")
            other.send("CONFIG", "SET", "appendonly", "yes")
            peer.send("SET", "a", 1)
            peer.send("WAITAOF", 1, 0, 0)
            await other.expect(b"+Background saving started\r\n+OK\r\n")
            await peer.expect(b"+OK\r\n")
            if is_turned_off:
                other.send("CONFIG", "SET", "appendonly", "no")
                await other.expect(b"+OK\r\n")
                await peer.expect(refusal)
                while running.server.snapshots.save.is_running:
                    await asyncio.sleep(0)
        while running.server.log_keeper.state is not LogState.ON:
            running.server.snapshots.cron(running.server.clock())
            assert len(running.server.dispatcher.waiters) == 1
            await asyncio.sleep(0)
        await expect_synced(peer)


# -- a disk that fails ---------------------------------------------------------------------------


class FailingServer:
    """A server with `appendfsync always` on a disk that refuses writes after `fail` was called."""

    def __init__(self, policy: bytes) -> None:
        self.clock = Clock()
        self.disk = SimulatedDisk({FOLDER: None})
        self.loop = SteppingLoop(self.clock)
        self.server = SimulatedServer(new_config(policy), self.clock, self.disk, SteppingExecutor())
        self.server.move_with(self.loop, SteppingExecutor())
        self.server.load_now()
        self.received = b""
        self.is_aborted = False
        self.session = FailingSession(self)
        self.server.dispatcher.attach(self.session)

    def fail(self, call: Call) -> Fault | None:
        return Fault(28) if call.kind in ("append", "fsync") else None

    def call(self, *lines: str) -> bytes:
        with self.loop.running():
            self.server.turns.run(self.session, [split(line) for line in lines])
            self.loop.run()
        return self.received


class FailingSession(Session):
    """A session whose peer receives what it sends."""

    def __init__(self, world: FailingServer) -> None:
        super().__init__(Client(1, db=world.server.store.databases[0]))
        self._world = world

    def send(self) -> None:
        if not self._world.is_aborted:
            self._world.received += b"".join(self.out)
        self.out.clear()

    def abort(self) -> None:
        self._world.is_aborted = True


@pytest.mark.parametrize(
    "lines",
    [
        ["SET a 1", "SHUTDOWN NOSAVE FORCE"],
        ["SET a 1", "SHUTDOWN NOSAVE"],
        ["SET a 1", "CONFIG SET appendonly no"],
        ["SET a 1", "BGREWRITEAOF"],
        ["SET a 1", "DEBUG LOADAOF"],
        ["SET a 1", "CONFIG SET appendfsync no", "SET b 1"],
        ["SET a 1", "CONFIG SET appendfsync everysec"],
    ],
    ids=" ; ".join,
)
def test_write_that_always_cannot_keep_is_not_acknowledged(lines: list[str]) -> None:
    world = FailingServer(b"always")
    world.server.config.enable_debug_command = b"yes"
    world.disk.fault = world.fail
    assert world.call(*lines) == b""
    assert world.server.stopped.is_set()
    assert world.server.exit_code == 1


@pytest.mark.parametrize("policy", ["no", "everysec"])
def test_policy_of_another_client_does_not_judge_a_write_of_the_same_turn(policy: str) -> None:
    """Both clients' requests are read in one turn of the loop; the write was made under `always`."""
    world = FailingServer(b"always")
    other = FailingSession(world)
    other.client.id = 2
    world.server.dispatcher.attach(other)
    world.disk.fault = world.fail
    with world.loop.running():
        world.server.turns.run(world.session, [split("SET a 1")])
        world.server.turns.run(other, [split(f"CONFIG SET appendfsync {policy}")])
        world.loop.run()
    assert world.received == b""
    assert world.server.exit_code == 1


@pytest.mark.parametrize("policy", ["no", "everysec"])
def test_leaving_always_syncs_what_was_written_under_it(policy: str) -> None:
    world = FailingServer(b"always")
    assert world.call("SET a 1", f"CONFIG SET appendfsync {policy}") == b"+OK\r\n+OK\r\n"
    survivors = world.disk.after_power_loss(None).names.values()
    assert any(inode is not None and b"SET" in bytes(inode.content) for inode in survivors)
