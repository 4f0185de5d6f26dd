"""The log turned off and on again, with a crash at every boundary of the disk meanwhile.

Until the new base is complete the old files are the log; from then on the new ones are. A start must never find
anything in between, and what WAITAOF has answered for must be there.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from headrace.server.storage.log_life import LogState
from support.crash_world import FOLDER, Peer, SimulatedServer, new_config, recovered
from support.digest import Digest, digest_of
from support.inprocess import Clock
from support.simulated_disk import Call, Fault, SimulatedDisk
from support.stepping import SteppingExecutor, SteppingLoop

TURNS_MAX = 400


@dataclass
class Scene:
    """A server on a simulated disk whose every boundary is a crash, looked at with the disks it may leave."""

    seed: int
    policy: bytes
    has_old_log: bool
    disk: SimulatedDisk = field(default_factory=lambda: SimulatedDisk({FOLDER: None}))

    def __post_init__(self) -> None:
        self.clock, self.rnd = Clock(), random.Random(self.seed)
        self.loop, self.fsyncs, self.writer = SteppingLoop(self.clock), SteppingExecutor(), SteppingExecutor()
        config = new_config(self.policy, has_rdb_base=bool(self.seed % 2))
        config.appendonly = self.has_old_log
        self.server = SimulatedServer(config, self.clock, self.disk, self.fsyncs)
        self.server.move_with(self.loop, self.writer)
        self.server.load_now()
        self.peer = Peer(self, 1)  # type: ignore[arg-type]
        self.server.dispatcher.attach(self.peer)
        # What a start may find, oldest first.
        self.states: list[Digest] = []
        # So many of them it must be past.
        self.synced_count = 0
        self.points_count = 0
        self.disk.on_boundary = self._pass_boundary

    def on_acknowledged(self, peer: Peer) -> None:
        """See `World`."""

    def _pass_boundary(self, call: Call) -> None:
        self.fsyncs.pause()
        self.writer.pause()
        if self.states:
            self.check(self.disk.after_kill(), f"killed, {call}")
            self.check(self.disk.after_power_loss(None), f"power loss, {call}", is_synced=True)
            self.check(self.disk.after_power_loss(self.rnd), f"power loss in part, {call}", is_synced=True)

    def check(self, disk: SimulatedDisk, what: str, *, is_synced: bool = False) -> None:
        """A start loads one of the states, and none that a promise is past."""
        self.points_count += 1
        allowed = self.states[self.synced_count :] if is_synced else self.states
        assert recovered(disk, self.clock) in allowed, f"{what}, seed {self.seed}"

    def call(self, *lines: str) -> bytes:
        with self.loop.running():
            self.peer.ask(*lines)
            # What this is about to make may be on the disk before the reply is there.
            self.loop.run()
        data = bytes(self.peer.received)
        self.peer.received.clear()
        return data

    def write(self, number: int) -> None:
        """A change, whose state a crash within it may find or not."""
        before = digest_of(self.server.store)
        after = {**before, (0, b"k%d" % number): (b"v", None)}
        self.states.append(after)
        assert self.call(f"SET k{number} v") == b"+OK\r\n"

    def step(self) -> None:
        """The workers and the clock move on."""
        with self.loop.running():
            for worker in (self.fsyncs, self.writer):
                job = self.server.snapshots.runner.job
                if worker is self.fsyncs or job is None or job.file._is_made:
                    worker.step()
            self.clock.advance(20)
            self.server.periodic.run()
            self.loop.run()


@pytest.mark.parametrize("has_old_log", [True, False], ids=["old log", "no log"])
@pytest.mark.parametrize("policy", [b"always", b"everysec", b"no"], ids=bytes.decode)
@pytest.mark.parametrize("seed", range(4))
def test_start_finds_the_old_log_or_the_new_one_whole(seed: int, policy: bytes, has_old_log: bool) -> None:
    """With an odd seed the disk refuses, once, to put the new increment in its place: the start is tried again."""
    scene = Scene(seed, policy, has_old_log)
    refusals = [Fault(5)] * (seed % 2)
    scene.disk.fault = lambda call: (
        refusals.pop() if refusals and (call.kind, call.path[-9:]) == ("rename", ".incr.aof") else None
    )
    for number in range(5):
        scene.call(f"SET old{number} v")
    if has_old_log:
        assert scene.call("CONFIG SET appendonly no") == b"+OK\r\n"
    old = digest_of(scene.server.store) if has_old_log else {}
    for number in range(3):
        scene.call(f"SET unlogged{number} v")
    scene.states = [old, digest_of(scene.server.store)]
    assert scene.call("CONFIG SET appendonly yes") == b"+OK\r\n"
    assert scene.server.log_keeper.state is LogState.STARTING
    for number in range(TURNS_MAX):
        scene.write(number)
        scene.step()
        if scene.server.log_keeper.state is LogState.ON and number > 20:
            break
    assert not refusals
    assert scene.server.log_keeper.state is LogState.ON
    # From here on the base is in force.
    scene.synced_count = 1
    scene.peer.ask("WAITAOF 1 0 0")
    for _ in range(TURNS_MAX):
        scene.step()
        if scene.peer.received:
            break
    if policy != b"no":
        assert bytes(scene.peer.received) == b"*2\r\n:1\r\n:0\r\n"
        scene.synced_count = len(scene.states) - 1
        scene.check(scene.disk.after_power_loss(None), "power loss after WAITAOF", is_synced=True)
    assert scene.points_count > 100
    for worker in (scene.fsyncs, scene.writer):
        worker.shutdown(cancel_futures=True)
