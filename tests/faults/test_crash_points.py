"""A crash at every write, fsync and change of a name: what a start finds is a state that was, and holds every promise.

One crash point is a moment between (or inside) two system calls together with one of the disks that it may leave. A
failure names its seed: `crash_everywhere(seed, policy, Findings())` repeats it.
"""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest

from support.crash_checker import Findings, crash_everywhere
from support.promises import assert_promised

POLICIES = [b"always", b"everysec", b"no"]
SEEDS = range(20)
POINTS_COUNT_MIN = 10_000


@cache
def findings_of(seed: int, policy: bytes) -> Findings:
    """What the crashes of one run show; every test that asks for it sees the same run."""
    print("seed", seed)
    findings = Findings()
    crash_everywhere(seed, policy, findings)
    return findings


@pytest.fixture(scope="module")
def findings() -> Findings:
    """Those of all runs."""
    found = Findings()
    for seed, policy in product(SEEDS, POLICIES):
        found.add(findings_of(seed, policy))
    print(f"\n{found.points_count} crash points, {found.disks_count} different disks: {dict(found.points)}")
    print(f"everysec: at most {found.window_ms_max} ms lost, longest fsync {found.fsync_ms_max} ms")
    return found


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_crash_leaves_a_log_that_loads_to_what_was_promised(seed: int, policy: bytes) -> None:
    assert_promised("kill", "always", "everysec", "no", "prefix")
    assert findings_of(seed, policy).points_count


def test_crash_points_are_many_and_of_every_kind(findings: Findings) -> None:
    assert findings.points_count >= POINTS_COUNT_MIN
    calls = {"append", "fsync", "create", "rename", "unlink", "mkdir", "sync_folder", "truncate"}
    assert {each.split(": ")[1] for each in findings.points} == calls


def test_everysec_loses_what_the_window_holds_and_no_more(findings: Findings) -> None:
    """The bound is asserted at each point; here, that the measure measures."""
    assert_promised("everysec")
    assert 0 < findings.window_ms_max <= 1000 + 100 + findings.fsync_ms_max


@pytest.mark.parametrize("seed", range(10))
def test_page_that_was_never_written_is_not_loaded_as_data(seed: int) -> None:
    assert_promised("hole")
    print("seed", seed)
    crash_everywhere(seed, b"everysec", Findings(), holes=True)


@pytest.mark.parametrize(
    ("seed", "policy"),
    [
        pytest.param(1, b"no", id="manifest named the next increment before the present one was synced"),
        pytest.param(0, b"always", id="the same with always, whose last checksum line was not synced"),
        pytest.param(0, b"everysec", id="replies left while their write was put off beside an fsync"),
    ],
)
def test_seeds_that_found_bugs(seed: int, policy: bytes) -> None:
    crash_everywhere(seed, policy, Findings())
