"""Simulated load, with crashes: every reply equals the model's, and every invariant holds after every step.

    make simulate MINUTES=60            CI runs an hour
    make simulate SEED=1234             repeats one seed

A failure names its seed and step. `make simulate SEED=...` repeats the run step by step.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from simulation.simulation import MembersSimulation, Simulation

MINUTES = float(os.environ.get("HEADRACE_TEST_SIMULATED_MINUTES", "6"))
# A long run may take longer than other tests.
pytestmark = pytest.mark.timeout(900 + 60 * MINUTES)
RUNS_COUNT = 6
SEED = os.environ.get("HEADRACE_TEST_SIMULATION_SEED", "")
SEEDS = [int(SEED)] if SEED else range(RUNS_COUNT)


@pytest.fixture(scope="module")
def counts() -> Iterator[Counter[str]]:
    total: Counter[str] = Counter()
    yield total
    print(f"\n{MINUTES:g} simulated minutes: {dict(total)}")


@pytest.mark.parametrize("seed", SEEDS)
def test_every_reply_and_state_is_the_models_in_spite_of_crashes(
    seed: int, counts: Counter[str], record_property: Callable[[str, object], None]
) -> None:
    simulation = Simulation(seed, (b"always", b"everysec", b"no")[seed % 3])
    simulation.run(MINUTES / len(SEEDS))
    counts.update(simulation.counts)
    for name, number in simulation.counts.items():
        record_property(name, number)


@pytest.mark.parametrize("seed", SEEDS)
def test_members_of_other_types_are_the_models_in_spite_of_crashes(seed: int, counts: Counter[str]) -> None:
    simulation = MembersSimulation(seed, (b"always", b"everysec", b"no")[seed % 3], crash_share=0.02)
    simulation.run(MINUTES / len(SEEDS))
    counts.update({f"{name} of members": simulation.counts[name] for name in ("crashes", "pops served")})


def test_a_seed_gives_the_same_run_on_a_slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = []
    for step_s in (1e-7, 0.02):
        monkeypatch.setattr("headrace.server.storage.image_job.perf_counter", count(step=step_s).__next__)
        for module in ("key_walks", "snapshots"):
            monkeypatch.setattr(
                f"headrace.server.storage.{module}.perf_counter_ns", count(step=int(step_s * 1e9)).__next__
            )
        simulation = Simulation(1, b"everysec")
        simulation.run(3)
        assert simulation.counts["crashes within a rewrite"]
        ends.append((simulation.counts, simulation.clock(), simulation.rnd.getstate()))
    assert ends[0] == ends[1]


def test_load_included_every_kind_of_event(counts: Counter[str]) -> None:
    if counts["starts"] < len(SEEDS) or MINUTES < RUNS_COUNT:
        pytest.skip("needs a load of some minutes first")
    wanted = ["crashes", "crashes inside a step", "disconnects", "claims", "waits served", "waits timed out"]
    wanted += ["read again", "claims with options", "transactions"]
    wanted += ["pops served of members", "crashes of members", "pops timed out", "transactions of members"]
    if MINUTES >= 10 * RUNS_COUNT:  # too rare to be certain in a short run
        wanted += ["duplicates", "duplicates in doubt", "forgotten in doubt", "crashes within a rewrite"]
    assert all(counts[name] for name in wanted), counts
