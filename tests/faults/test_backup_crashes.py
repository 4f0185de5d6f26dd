"""A crash at every step of a backup: no answered write is lost, and the folder has the dataset at SEAL, or is refused.

One crash point is a moment between (or inside) two system calls together with one of the disks that it may leave, as in
`test_crash_points`. A failure names its seed.
"""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from itertools import product

import pytest

from headrace.persistence.backup import BackupState
from headrace.persistence.errors import LogError
from support.crash_checker import CrashChecker, Findings, quiet
from support.crash_world import FOLDER, Peer, SimulatedServer, World, new_config, recovered
from support.digest import Digest, digest_of
from support.inprocess import Clock
from support.promises import assert_promised
from support.simulated_disk import Call, PowerLoss, SimulatedDisk
from support.stepping import SteppingExecutor

BACKUP_FOLDER = f"{FOLDER}/backupdir"
LOG_FOLDER = f"{FOLDER}/appendonlydir"
MANIFEST_PATH = f"{BACKUP_FOLDER}/appendonly.aof.manifest"
TURNS_COUNT = 40
GENERATIONS_COUNT = 3
# What a client asks for in each state, mostly; sometimes any of them.
USUAL = {
    BackupState.IDLE: "START",
    BackupState.PENDING: "STATUS",
    BackupState.SNAPSHOTTING: "STATUS",
    BackupState.INCREMENTING: "SEAL",
    BackupState.SEALED: "CLEANUP",
    BackupState.FAILED: "CLEANUP",
}
REQUESTS = ("START", "SEAL", "ABORT", "CLEANUP", "CLEANUP")
OTHERS_SHARE = 0.2
RESTORES_COUNT_MIN = 300


class BackupWorld(World):
    """A world whose clients also make backups. Without a log (`appendonly no`), nothing survives but the backups."""

    def __init__(self, seed: int, policy: bytes, disk: SimulatedDisk | None, clock: Clock | None, *, has_log: bool):
        super().__init__(seed, policy, disk, clock=clock)
        self.has_log = has_log
        # The dataset when the last manifest appeared; a power loss can bring back one that was removed.
        self.sealed: Digest | None = None
        self.had_manifest = MANIFEST_PATH in self.disk.names
        self.states: Counter[BackupState] = Counter()

    def start(self) -> None:
        """See `World`."""
        if self.has_log:
            super().start()
            return
        config = new_config(self.policy, has_rdb_base=bool(self.seed % 2))
        config.appendonly = False
        self.server = SimulatedServer(config, self.clock, self.disk, self.fsyncs)
        self.server.move_with(self.loop, self.writer)
        self.server.load_now()
        self.history = [digest_of(self.server.store)]
        self.peers = [Peer(self, number) for number in range(1, 4)]
        for peer in self.peers:
            self.server.dispatcher.attach(peer)

    def check(self) -> None:
        """See `World`."""
        if self.has_log:
            super().check()

    def on_acknowledged(self, peer: Peer) -> None:
        """See `World`."""
        if self.has_log:
            super().on_acknowledged(peer)

    def turn(self) -> None:
        """See `World`."""
        backup = self.server.backups.backup
        self.states[backup.state] += 1
        if self.rnd.random() < 0.5:
            name = self.rnd.choice(REQUESTS) if self.rnd.random() < OTHERS_SHARE else USUAL[backup.state]
            self.rnd.choice(self.peers).ask(f"BACKUP {name}", "SET after backup")
        super().turn()

    @property
    def must_restore(self) -> bool:
        """Whether a backup is sealed, and no client has asked to remove it."""
        backup = self.server.backups.backup
        return backup.state is BackupState.SEALED and bool(backup.paths)


class BackupChecker(CrashChecker):
    """Checks the log, and what a start finds that is given the folder of the backup as its log."""

    def __init__(self, world: BackupWorld, findings: Findings, *, crash_at: int) -> None:
        super().__init__(world, findings, crash_at=crash_at)
        self.world = world
        self.disks_rnd = random.Random(world.seed + 2)
        self.restored: dict[int, Digest | None] = {}
        self.restores_count = 0

    def check(self, call: Call) -> None:
        """See `CrashChecker`."""
        world, disk = self.world, self.world.disk
        has_manifest = MANIFEST_PATH in disk.names
        if has_manifest and not world.had_manifest:
            world.sealed = world.history[-1] if world.has_log else digest_of(world.server.store)
        world.had_manifest = has_manifest
        for crashed in (disk.after_kill(), disk.after_power_loss(None), disk.after_power_loss(self.disks_rnd)):
            self._check_backup(crashed, call)
            if not world.has_log:
                self._start_without_log(crashed)
        if world.has_log:
            super().check(call)
            return
        self._boundaries_count += 1
        if self._boundaries_count == self._crash_at:
            self.survivor = disk.after_power_loss(self._rnd) if self._rnd.random() < 0.5 else disk.after_kill()
            raise PowerLoss

    def _check_backup(self, disk: SimulatedDisk, call: Call) -> None:
        world = self.world
        where = f"at {call}, seed {world.seed}, policy {world.policy.decode()}"
        inside = f"{BACKUP_FOLDER}/appendonly"
        copied = {path: inode for path, inode in disk.names.items() if path.startswith(inside)}
        copy = SimulatedDisk(
            {path.replace(BACKUP_FOLDER, LOG_FOLDER): inode for path, inode in copied.items()}
            | {FOLDER: None, LOG_FOLDER: None}
        ).after_kill()
        fingerprint = copy.fingerprint()
        if fingerprint not in self.restored:
            try:
                self.restored[fingerprint] = recovered(copy, world.clock)
            except LogError:
                self.restored[fingerprint] = None
        state = self.restored[fingerprint]
        if MANIFEST_PATH in copied and state is not None:
            assert state == world.sealed, f"the backup has another dataset than there was at SEAL, {where}"
            self.restores_count += 1
        if world.must_restore:
            assert MANIFEST_PATH in copied, f"the sealed backup has no manifest, {where}"
            assert state is not None, f"the sealed backup is refused, {where}"
        elif MANIFEST_PATH not in copied and copied:
            files = {path: inode and len(inode.content) for path, inode in copied.items()}
            assert state is None or not any(files.values()), f"{files} {where}"

    def _start_without_log(self, disk: SimulatedDisk) -> None:
        """A start ignores what a backup has left, and another backup is possible after CLEANUP."""
        config = new_config(b"everysec")
        config.appendonly = False
        executor = SteppingExecutor()
        server = SimulatedServer(config, self.world.clock, disk, executor)
        server.load_now()
        executor.shutdown(cancel_futures=True)


@cache
def crash_backups(seed: int, policy: bytes, *, has_log: bool) -> tuple[Counter[BackupState], int]:
    """Run worlds one after the other, each on what a crash has left of the one before. Returns the states of backups
    by turns, and how many sealed backups were restored.
    """
    print("seed", seed)
    findings, states, restores_count = Findings(), Counter[BackupState](), 0
    rnd = random.Random(seed)
    disk, clock, sealed = None, None, None
    with quiet():
        for generation in range(GENERATIONS_COUNT):
            world = BackupWorld(seed * 1000 + generation, policy, disk, clock, has_log=has_log)
            world.sealed = sealed
            world.start()
            checker = BackupChecker(world, findings, crash_at=rnd.randrange(50, 250))
            try:
                world.run(TURNS_COUNT)
            except PowerLoss:
                pass
            finally:
                world.end()
            states += world.states
            restores_count += checker.restores_count
            disk, clock, sealed = checker.survivor or world.disk.after_kill(), world.clock, world.sealed
    return states, restores_count


SEEDS = (0, 1, 2, 5)
POLICIES = (b"always", b"everysec", b"no")


@pytest.mark.parametrize("has_log", [True, False], ids=["with a log", "without a log"])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_crash_leaves_a_log_and_a_backup_that_load_to_what_was_promised(
    seed: int, policy: bytes, has_log: bool
) -> None:
    assert_promised("kill", "always", "everysec", "no", "prefix")
    crash_backups(seed, policy, has_log=has_log)


def test_crashes_come_in_every_state_of_a_backup_and_sealed_ones_are_restored() -> None:
    for has_log in (True, False):
        runs = [crash_backups(seed, policy, has_log=has_log) for seed, policy in product(SEEDS, POLICIES)]
        assert set().union(*(states for states, _ in runs)) >= set(BackupState) - {BackupState.PENDING}
        assert sum(restores_count for _, restores_count in runs) > RESTORES_COUNT_MIN
