"""Groups with policies under a simulated load, with crashes: every reply and state is that of a model of the rules.

    make simulate MINUTES=60            CI runs an hour
    make simulate SEED=1234             repeats one seed

A run has so many steps for each minute, whatever the speed of the machine. A failure names its seed and step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from simulation.load import MINUTES, RUNS_COUNT, SEEDS, STEPS_PER_MINUTE
from simulation.policies import PolicySimulation

WANTED = [
    "crashes", "crashes inside a step", "disconnects", "claims", "read", "added with DELAY", "waits served",
    "waits timed out", "dead letters by time", "dead letters by release", "dead letters by settings",
    "consumers deleted", "consumers deleted by time", "redriven to their groups", "redriven as new entries",
    "claims of reads",
]  # fmt: skip


@pytest.fixture(scope="module")
def counts() -> Iterator[Counter[str]]:
    total: Counter[str] = Counter()
    yield total
    print(f"\n{MINUTES * STEPS_PER_MINUTE:g} steps with policies: {dict(total)}")


@pytest.mark.parametrize("seed", SEEDS)
def test_groups_with_policies_do_what_the_model_does_in_spite_of_crashes(
    seed: int, counts: Counter[str], record_property: Callable[[str, object], None]
) -> None:
    simulation = PolicySimulation(seed, (b"always", b"everysec", b"no")[seed % 3])
    simulation.run_steps(int(MINUTES * STEPS_PER_MINUTE / len(SEEDS)))
    counts.update(simulation.counts, runs=1)
    for name, number in simulation.counts.items():
        record_property(name, number)


def test_load_with_policies_included_every_kind_of_event(counts: Counter[str]) -> None:
    if counts["runs"] < RUNS_COUNT or MINUTES < RUNS_COUNT:
        pytest.skip("needs a load of some thousand steps first")
    assert all(counts[name] for name in WANTED), counts
