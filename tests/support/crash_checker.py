"""Crashes a world at every boundary of its disk, and checks what a start finds.

At each boundary three disks are looked at: the one a killed process leaves, the one a power loss leaves when nothing
unsynced survives, and one where a random part of it does. Each must load with default settings, to the state after some
number of units, and that number must be as large as the policy promises.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from headrace.persistence.errors import LogError
from headrace.persistence.writer import FSYNC_INTERVAL_MS
from support.crash_world import CRON_INTERVAL_MS, World, recovered
from support.digest import Digest
from support.simulated_disk import Call, PowerLoss, SimulatedDisk

# Share of the disks whose recovery is also crashed, at each of its boundaries.
RECOVERY_SHARE = 0.05


class Violation(BaseException):
    """A promise is broken. Raised within a system call; no error handler catches it."""


class Refusal(Violation):
    """A start ended with an error."""


@dataclass
class Findings:
    """What was checked. A crash point is a boundary with one of the disks that it may leave."""

    # By kind of crash and of system call.
    points: Counter[str] = field(default_factory=Counter)
    # Different disks among them, each loaded once.
    disks_count: int = 0
    # `everysec`, power loss: the longest time between a reply and the crash that lost the write it confirmed.
    window_ms_max: int = 0
    # The longest fsync of that run.
    fsync_ms_max: int = 0
    # Disks with a hole that a start refused.
    refused_count: int = 0

    @property
    def points_count(self) -> int:
        """All crash points."""
        return sum(self.points.values())

    def add(self, other: Findings) -> None:
        """Add those of another run."""
        self.points += other.points
        self.disks_count += other.disks_count
        self.window_ms_max = max(self.window_ms_max, other.window_ms_max)
        self.fsync_ms_max = max(self.fsync_ms_max, other.fsync_ms_max)
        self.refused_count += other.refused_count


class CrashChecker:
    """Checks one world; with `crash_at` the world ends there, by PowerLoss, and `survivor` is its disk.

    With `holes` only power losses are looked at, in which one page of what was not synced reads as zeros though later
    ones are there. A start may refuse such a disk, and must not find a state that never was.

    With `has_faults` and a policy other than `always`, writes that were answered while the disk failed are in memory.
    """

    def __init__(
        self,
        world: World,
        findings: Findings,
        *,
        crash_at: int | None = None,
        holes: bool = False,
        has_faults: bool = False,
    ) -> None:
        self._world, self.findings = world, findings
        self._rnd = random.Random(world.seed + 1)
        self._crash_at = crash_at
        self._holes = holes
        self._has_faults = has_faults
        self._boundaries_count = 0
        # States by fingerprint of their disks.
        self._known: dict[int, Digest] = {}
        self.survivor: SimulatedDisk | None = None
        world.on_boundary = self.check

    def check(self, call: Call) -> None:
        """Crash here, in every way."""
        if self._holes:
            self._check_hole(call)
            return
        world, disk = self._world, self._world.disk
        acknowledged = world.acknowledged_count
        is_written = world.policy == b"always" or not self._has_faults
        self._expect("kill", call, disk.after_kill(), acknowledged if is_written else world.handed_count)
        synced = acknowledged if world.policy == b"always" else world.synced_count
        for rnd in (None, self._rnd):
            survived = self._expect("power loss", call, disk.after_power_loss(rnd), synced)
            if world.policy == b"everysec" and not self._has_faults:
                self._measure(survived)
        self._boundaries_count += 1
        if self._boundaries_count == self._crash_at:
            self.survivor = disk.after_power_loss(self._rnd) if self._rnd.random() < 0.5 else disk.after_kill()
            raise PowerLoss

    def _check_hole(self, call: Call) -> None:
        world = self._world
        try:
            self._expect("hole", call, world.disk.after_power_loss(self._rnd, holes=True), world.synced_count)
        except Refusal:
            self.findings.refused_count += 1

    def _expect(self, crash: str, call: Call, disk: SimulatedDisk, count_min: int) -> int:
        """A start on this disk finds at least so many units; how many."""
        world = self._world
        where = f"{crash} at {call}, seed {world.seed}, policy {world.policy.decode()}"
        self.findings.points[f"{crash}: {call.kind}"] += 1
        fingerprint = disk.fingerprint()
        state = self._known.get(fingerprint)
        if state is None:
            state = self._known[fingerprint] = self._load(disk, where)
            self.findings.disks_count += 1
        for count in range(len(world.history) - 1, -1, -1):
            if world.history[count] == state:
                break
        else:
            raise Violation(f"no number of units gives the state found after {where}")
        if count < count_min:
            raise Violation(f"{count} units survive of {count_min} promised: {where}")
        return count

    def _load(self, disk: SimulatedDisk, where: str) -> Digest:
        is_crashed_again = self._rnd.random() < RECOVERY_SHARE
        states: list[Digest] = []
        if is_crashed_again:
            disk.on_boundary = lambda call: states.append(self._start(self._crashed(disk), f"{where}, then at {call}"))
        state = self._start(disk, where)
        if any(each != state for each in states):
            raise Violation(f"a crash during recovery changes what it finds: {where}")
        return state

    def _crashed(self, disk: SimulatedDisk) -> SimulatedDisk:
        return disk.after_power_loss(self._rnd) if self._rnd.random() < 0.5 else disk.after_kill()

    def _start(self, disk: SimulatedDisk, where: str) -> Digest:
        try:
            return recovered(disk, self._world.clock)
        except (LogError, OSError) as error:
            raise Refusal(f"cannot start after {where}: {error}") from error

    def _measure(self, survived: int) -> None:
        world, findings = self._world, self.findings
        window_ms = world.oldest_loss_ms(survived)
        findings.window_ms_max = max(findings.window_ms_max, window_ms)
        findings.fsync_ms_max = max(findings.fsync_ms_max, world.fsync_ms_max)
        bound_ms = FSYNC_INTERVAL_MS + CRON_INTERVAL_MS + world.fsync_ms_max
        if window_ms > bound_ms:
            raise Violation(f"{window_ms} ms lost, at most {bound_ms} promised, seed {world.seed}")


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress the server log: thousands of starts would fill it with their repairs."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def crash_everywhere(
    seed: int, policy: bytes, findings: Findings, *, generations: int = 2, turns: int = 30, holes: bool = False
) -> None:
    """Run a world, crash it somewhere, and continue with what is left of it; every boundary on the way is checked."""
    rnd = random.Random(seed)
    disk, clock = None, None
    with quiet():
        for generation in range(generations):
            world = World(seed * 1000 + generation, policy, disk, clock=clock)
            checker = CrashChecker(world, findings, crash_at=rnd.randrange(50, 250), holes=holes)
            try:
                world.start()
                world.run(turns)
            except PowerLoss:
                pass
            except Violation as violation:
                raise AssertionError(str(violation)) from violation
            finally:
                world.end()
            disk = checker.survivor or world.disk.after_kill()
            clock = world.clock
