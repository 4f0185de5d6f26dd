"""A disk that is full, breaks, takes a part or cannot sync: at every call, with every policy.

Nothing is promised that does not hold, nothing is lost that was promised, and when the disk works again so does the
server. Crashes are checked at every boundary here, too.
"""

from __future__ import annotations

import random
from errno import EIO, ENOSPC

import pytest

from support.crash_checker import CrashChecker, Findings, Violation, quiet
from support.crash_world import FOLDER, World, recovered
from support.digest import digest_of
from support.promises import assert_promised
from support.simulated_disk import Call, Fault

POLICIES = [b"always", b"everysec", b"no"]
CALLS = ["append", "fsync", "create", "rename", "unlink", "sync_folder"]
FAULTS = {"full": Fault(ENOSPC), "broken": Fault(EIO), "short": Fault(size=7)}
MISCONF = b"-MISCONF Errors writing to the AOF file: %b\r\n"
REASONS = {ENOSPC: b"No space left on device", EIO: b"Input/output error"}
RECOVERY_MS = 4000


class Failing:
    """Some calls of one kind fail: `count` of them after the first `skip`. A disk that fills up takes a part first."""

    def __init__(self, kind: str, fault: Fault, *, skip: int = 0, count: int = 10**9) -> None:
        self.kind, self.fault = kind, fault
        self.first, self.end = skip, skip + count
        self.seen_count = self.failed_count = 0

    def __call__(self, call: Call) -> Fault | None:
        """See `SimulatedDisk.fault`."""
        if call.kind != self.kind:
            return None
        self.seen_count += 1
        if not self.first < self.seen_count <= self.end:
            return None
        self.failed_count += 1
        is_first = self.failed_count == 1
        return Fault(size=7) if is_first and self.fault.errno == ENOSPC and call.kind == "append" else self.fault


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in CALLS for name in FAULTS if kind == "append" or FAULTS[name].size == 0]
)
@pytest.mark.parametrize("seed", range(2))
def test_fault_at_any_call_costs_nothing_that_was_promised(seed: int, kind: str, name: str, policy: bytes) -> None:
    assert_promised("fault", "fault always")
    print("seed", seed)
    rnd = random.Random(f"{seed} {kind} {name}")
    world = World(seed, policy)
    failing = Failing(kind, FAULTS[name], skip=rnd.randrange(12), count=rnd.randrange(1, 8))
    with quiet():
        try:
            world.start()
            CrashChecker(world, Findings(), has_faults=True)
            world.disk.fault = failing
            world.run(25)
            world.disk.fault = lambda call: None
            if not world.server.stopped.is_set():
                check_recovery(world)
        except Violation as violation:
            raise AssertionError(str(violation)) from violation
        finally:
            world.end()
    assert world.server.exit_code == (1 if world.server.stopped.is_set() else 0)


def check_recovery(world: World) -> None:
    """The disk works again: writes are accepted without a restart, and everything that was answered is written."""
    with world.loop.running():
        for _ in range(20):
            world.step(world.fsyncs)
            world.pass_time(RECOVERY_MS // 20)
    assert world.server.log is not None
    assert world.server.log.write_error is None
    peer = world.peers[0]
    with world.loop.running():
        peer.client.blocked = None
        for request in ([b"DISCARD"], [b"SET", b"after", b"1"]):  # one by one: a turn may end between two
            world.server.dispatcher.execute(peer, [request], world.clock())
        assert b"".join(peer.out).endswith(b"+OK\r\n")
        world.server.turns.flush()
        while world.fsyncs.step():
            world.loop.run()
        world.loop.run()
    assert recovered(world.disk.after_kill(), world.clock) == digest_of(world.server.store)


class Scene:
    """A server with one client, no random work."""

    def __init__(self, policy: bytes) -> None:
        self.world = World(0, policy)
        self.world.start()
        self.disk, self.server = self.world.disk, self.world.server
        self.peer = self.world.peers[0]

    def ask(self, *lines: str) -> bytes:
        """What comes back in this turn, with all that the workers had to do done."""
        self.peer.received.clear()
        with self.world.loop.running():
            self.peer.ask(*lines)
            self.world.loop.run()
            while self.world.fsyncs.step():
                self.world.loop.run()
            self.world.loop.run()
        return bytes(self.peer.received)

    def pass_time(self, ms: int) -> None:
        """Cron by cron."""
        with self.world.loop.running():
            for _ in range(ms // 100):
                self.world.pass_time(100)
                while self.world.fsyncs.step():
                    self.world.loop.run()
                self.world.loop.run()


@pytest.mark.parametrize("policy", [b"everysec", b"no"])
@pytest.mark.parametrize("errno", [ENOSPC, EIO])
def test_writes_are_refused_and_reads_answered_until_the_disk_works(errno: int, policy: bytes) -> None:
    assert_promised("fault")
    scene = Scene(policy)
    assert scene.ask("SET a 1") == b"+OK\r\n"
    scene.disk.fault = Failing("append", Fault(errno))
    assert scene.ask("SET a 2") == b"+OK\r\n", "the write that meets the failure is answered, as by Redis"
    misconf = MISCONF % REASONS[errno]
    assert scene.ask("SET a 3") == misconf
    assert scene.ask("XADD s * f v") == misconf
    assert scene.ask("PING") == misconf
    assert scene.ask("GET a") == b"$1\r\n2\r\n"
    assert scene.ask("MULTI", "SET a 3", "EXEC").startswith(b"+OK\r\n" + misconf + b"-EXECABORT")
    scene.pass_time(500)
    assert scene.ask("SET a 3") == misconf
    scene.disk.fault = lambda call: None
    scene.pass_time(200)
    assert scene.ask("SET b 4", "GET a") == b"+OK\r\n$1\r\n2\r\n"
    assert recovered(scene.disk.after_kill(), scene.world.clock) == digest_of(scene.server.store)
    scene.world.end()


def test_failed_fsync_of_everysec_refuses_writes_until_one_succeeds() -> None:
    assert_promised("fault")
    scene = Scene(b"everysec")
    scene.disk.fault = Failing("fsync", Fault(EIO))
    assert scene.ask("SET a 1") == b"+OK\r\n"
    scene.pass_time(1500)
    assert scene.ask("SET a 2") == MISCONF % REASONS[EIO]
    assert scene.ask("GET a") == b"$1\r\n1\r\n"
    scene.disk.fault = lambda call: None
    scene.pass_time(2500)
    assert scene.ask("SET a 2") == b"+OK\r\n"
    scene.world.end()


@pytest.mark.parametrize(("kind", "errno"), [("append", ENOSPC), ("append", EIO), ("fsync", EIO), ("fsync", ENOSPC)])
def test_always_ends_the_server_without_a_reply(kind: str, errno: int, caplog: pytest.LogCaptureFixture) -> None:
    assert_promised("fault always")
    scene = Scene(b"always")
    assert scene.ask("SET a 1") == b"+OK\r\n"
    scene.disk.fault = Failing(kind, Fault(errno))
    assert scene.ask("SET a 2", "GET a") == b""
    assert scene.server.stopped.is_set()
    assert scene.server.exit_code == 1
    fatal = [record for record in caplog.records if record.levelname == "CRITICAL"]
    assert len(fatal) == 1
    assert REASONS[errno].decode() in fatal[0].message
    survived = recovered(scene.disk.after_power_loss(None), scene.world.clock)
    assert survived[0, b"a"] == (b"1", None)
    scene.world.end()


def test_always_ends_when_a_rewrite_cannot_sync_what_is_about_to_be_answered() -> None:
    """The fsync that follows might succeed without having brought anything to the disk."""
    assert_promised("fault always")
    scene = Scene(b"always")
    scene.disk.fault = Failing("fsync", Fault(EIO), count=1)
    assert scene.ask("SET a 1", "BGREWRITEAOF") == b""
    assert scene.server.stopped.is_set()
    scene.world.end()


@pytest.mark.parametrize("kind", ["append", "fsync"])
@pytest.mark.parametrize("line", ["SHUTDOWN NOSAVE FORCE", "SHUTDOWN NOSAVE", "DEBUG LOADAOF"])
def test_always_ends_without_a_reply_when_what_a_pipeline_wrote_cannot_be_synced(kind: str, line: str) -> None:
    assert_promised("fault always")
    scene = Scene(b"always")
    scene.server.config.enable_debug_command = b"yes"
    assert scene.ask("SET a 1") == b"+OK\r\n"
    scene.disk.fault = Failing(kind, Fault(EIO), count=1)
    assert scene.ask("SET a 2", line, "SET a 3") == b""
    assert scene.server.stopped.is_set()
    assert scene.server.exit_code == 1
    assert scene.server.store.databases[0].keys[b"a"] == b"2", "the rest of the pipeline is not run"
    scene.world.end()


@pytest.mark.parametrize("kind", ["create", "append", "fsync", "rename", "sync_folder"])
def test_start_on_a_failing_disk_says_why_and_changes_nothing(kind: str) -> None:
    world = World(0, b"always")
    world.disk.fault = Failing(kind, Fault(EIO))
    with quiet():
        with pytest.raises(OSError, match="Input/output error"):
            world.start()
        again = World(0, b"always", world.disk.after_kill())
        again.start()
    assert again.history == [{}]
    assert all(path.startswith(FOLDER) for path in again.disk.names)
    again.end()


@pytest.mark.parametrize("policy", [b"everysec", b"no"])
@pytest.mark.parametrize("call", ["append", "fsync"])
def test_log_is_not_turned_off_while_the_disk_refuses_what_was_answered(call: str, policy: bytes) -> None:
    scene = Scene(policy)
    assert scene.ask("SET a 1") == b"+OK\r\n"
    scene.disk.fault = Failing(call, Fault(ENOSPC))
    refused = (
        b"-ERR CONFIG SET failed (possibly related to argument 'appendonly') - the disk refuses answered "
        b"writes (No space left on device), which would be lost: free space on the disk or repair it, and change the "
        b"directive when writes are accepted again\r\n"
    )
    misconf = MISCONF % REASONS[ENOSPC]
    assert scene.ask("SET a 2", "CONFIG SET appendonly no", "SET a 3") == b"+OK\r\n" + refused + misconf
    assert scene.ask("CONFIG SET appendonly no maxmemory 1gb") == refused
    assert (scene.server.config.appendonly, scene.server.config.maxmemory) == (True, 0)
    scene.disk.fault = lambda call: None
    scene.pass_time(2500)
    assert scene.ask("SET a 4") == b"+OK\r\n"
    assert recovered(scene.disk.after_kill(), scene.world.clock) == digest_of(scene.server.store)
    scene.server.config.set_many([(b"appendonly", b"no")])
    assert recovered(scene.disk.after_power_loss(None), scene.world.clock) == digest_of(scene.server.store)
    scene.world.end()


@pytest.mark.parametrize("policy", [b"everysec", b"no"])
@pytest.mark.parametrize("call", ["append", "fsync"])
def test_policy_does_not_become_always_while_the_disk_refuses_what_was_answered(call: str, policy: bytes) -> None:
    scene = Scene(policy)
    scene.disk.fault = Failing(call, Fault(ENOSPC))
    replies = scene.ask("SET a 1", "CONFIG SET appendfsync always", "GET a")
    assert replies.startswith(b"+OK\r\n-ERR CONFIG SET failed (possibly related to argument 'appendfsync') - the disk ")
    assert scene.server.config.appendfsync == policy
    scene.pass_time(500)
    assert not scene.server.stopped.is_set()
    scene.disk.fault = lambda call: None
    scene.pass_time(2500)
    assert scene.ask("CONFIG SET appendfsync always", "SET a 2") == b"+OK\r\n+OK\r\n"
    assert recovered(scene.disk.after_power_loss(None), scene.world.clock) == digest_of(scene.server.store)
    scene.world.end()


def test_log_that_has_a_job_running_is_not_turned_off_either() -> None:
    scene = Scene(b"everysec")
    scene.ask("SET a 1", "BGREWRITEAOF")
    scene.disk.fault = Failing("append", Fault(ENOSPC))
    assert b"-ERR CONFIG SET failed" in scene.ask("SET a 2", "CONFIG SET appendonly no")
    scene.disk.fault = lambda call: None
    scene.pass_time(1000)
    assert recovered(scene.disk.after_kill(), scene.world.clock) == digest_of(scene.server.store)
    scene.world.end()
