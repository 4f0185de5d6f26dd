"""Streams that remove entries by themselves under a simulated load, with crashes; planted defects must be found.

make simulate MINUTES=60            CI runs an hour
make simulate SEED=1234             repeats one seed
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from headrace import is_compiled
from headrace.commands.execution.context import Context
from headrace.commands.policies import retention
from headrace.commands.policies.retention import Retention
from headrace.protocol.packing import pack_command
from headrace.store.log import EntryLog
from simulation.load import MINUTES, RUNS_COUNT, SEEDS, STEPS_PER_MINUTE
from simulation.retention import RetentionSimulation
from simulation.server_run import Violation

WANTED = ["crashes", "crashes inside a step", "gone", "gone by time"]
STEPS_MAX = 2500
CRASH_SHARE = 0.02

Break = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture(scope="module")
def counts() -> Iterator[Counter[str]]:
    total: Counter[str] = Counter()
    yield total
    print(f"\n{MINUTES * STEPS_PER_MINUTE:g} steps with limits: {dict(total)}")


@pytest.mark.parametrize("seed", SEEDS)
def test_streams_keep_what_the_model_keeps_in_spite_of_crashes(
    seed: int, counts: Counter[str], record_property: Callable[[str, object], None]
) -> None:
    simulation = RetentionSimulation(seed, (b"always", b"everysec", b"no")[seed % 3])
    simulation.run_steps(int(MINUTES * STEPS_PER_MINUTE / len(SEEDS)))
    counts.update(simulation.counts, runs=1)
    for name, number in simulation.counts.items():
        record_property(name, number)


def test_load_with_limits_included_every_kind_of_event(counts: Counter[str]) -> None:
    if counts["runs"] < RUNS_COUNT or MINUTES < RUNS_COUNT:
        pytest.skip("needs a load of some thousand steps first")
    assert all(counts[name] for name in WANTED), counts


def remove_what_is_as_old_as_it_may_be(patch: pytest.MonkeyPatch) -> None:
    age_bound = retention._age_bound
    patch.setattr(retention, "_age_bound", lambda policy, now_ms: age_bound(policy, now_ms + 1))


def keep_what_is_a_millisecond_too_old(patch: pytest.MonkeyPatch) -> None:
    age_bound = retention._age_bound
    patch.setattr(retention, "_age_bound", lambda policy, now_ms: age_bound(policy, now_ms - 1))


def remove_what_is_pending(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(retention, "_pending_id", lambda group: retention.ID_MAX)


def remove_what_is_unread(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(retention, "_position", lambda group: retention._pending_id(group))


def keep_what_a_forced_limit_takes(patch: pytest.MonkeyPatch) -> None:
    limits_of = retention._limits_of
    patch.setattr(retention, "_limits_of", lambda *arguments: (max(limits_of(*arguments)), 0))


def keep_one_entry_too_many(patch: pytest.MonkeyPatch) -> None:
    count_bound = retention._count_bound
    patch.setattr(retention, "_count_bound", lambda stream, count: count_bound(stream, count - 1))


def count_fewer_bytes(patch: pytest.MonkeyPatch) -> None:
    count_over = EntryLog.count_over
    patch.setattr(EntryLog, "count_over", lambda self, size_max: count_over(self, size_max // 10))


def let_idle_groups_keep_entries(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Retention, "_counts", lambda self, stream, policy, group, now_ms: group.name in stream.groups)


def let_no_group_keep_entries_of_an_idle_stream(patch: pytest.MonkeyPatch) -> None:
    counts = Retention._counts
    patch.setattr(
        Retention,
        "_counts",
        lambda self, stream, policy, group, now_ms: counts(self, stream, policy, group, now_ms + 100),
    )


def look_at_used_streams_only(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Retention, "visit", lambda self, now_ms, is_over, begins_round: None)


def keep_removals_out_of_the_log(patch: pytest.MonkeyPatch) -> None:
    nothing = [b"XTRIM", b"r0", b"MINID", b"=", b"0"]
    patch.setattr(retention, "pack_command", lambda words: pack_command(nothing))


def keep_limits_out_of_the_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Context, "log_policy", lambda self, words: None)


BROKEN: tuple[Break, ...] = (
    remove_what_is_as_old_as_it_may_be,
    keep_what_is_a_millisecond_too_old,
    remove_what_is_pending,
    remove_what_is_unread,
    keep_what_a_forced_limit_takes,
    keep_one_entry_too_many,
    count_fewer_bytes,
    let_idle_groups_keep_entries,
    let_no_group_keep_entries_of_an_idle_stream,
    look_at_used_streams_only,
    keep_removals_out_of_the_log,
    keep_limits_out_of_the_log,
)


@pytest.mark.skipif(is_compiled(), reason="methods of compiled classes cannot be replaced")
@pytest.mark.parametrize("break_it", BROKEN)
def test_broken_retention_is_found(break_it: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = RetentionSimulation(1, b"no", crash_share=CRASH_SHARE)
    break_it(monkeypatch)
    with pytest.raises(Violation):
        simulation.run_steps(STEPS_MAX)
