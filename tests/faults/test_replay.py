"""The log is the dataset: after every unit a replay gives what is served."""

from __future__ import annotations

import pytest

from support.crash_checker import quiet
from support.crash_world import FOLDER, World, recovered
from support.promises import assert_promised
from support.simulated_disk import Inode, SimulatedDisk

POLICIES = [b"always", b"everysec", b"no"]
INCREMENT = f"{FOLDER}/appendonlydir/appendonly.aof.1.incr.aof"


@pytest.mark.parametrize("seed", range(60))
def test_replay_of_each_unit_gives_what_is_served(seed: int) -> None:
    """`World.check` compares after each turn: random commands of every family, rewrites and expiry included."""
    print("seed", seed)
    world = World(seed, POLICIES[seed % 3])
    with quiet():
        world.start()
        try:
            world.run(60)
        finally:
            world.end()
    assert world.units_count > 20


@pytest.mark.parametrize("seed", range(10))
def test_log_cut_anywhere_gives_the_state_after_the_units_before_the_cut(seed: int) -> None:
    """Every byte of one log: the state never is that of a part of a unit, and follows the units in order."""
    assert_promised("prefix")
    print("seed", seed)
    world = World(seed, b"always", has_rewrites=False)
    with quiet():
        world.start()
        world.run(8)
        world.end()
        content = world.disk.read(INCREMENT)
        assert content is not None
        count = 0
        for size in range(len(content) + 1):
            names = {**world.disk.names, INCREMENT: Inode(content[:size])}
            state = recovered(SimulatedDisk(names), world.clock)
            # A state may come again: a longer log holds no less than a shorter one.
            later = [each for each in range(count, len(world.history)) if world.history[each] == state]
            assert later, f"the log cut at {size} holds no state after unit {count}"
            count = later[0]
    assert state == world.history[-1]
