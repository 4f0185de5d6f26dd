"""The histogram of call durations: which values are exact, and the precision of the others."""

from __future__ import annotations

import random

from headrace.commands.core.durations import SHORT_COUNT, SHORT_SHIFT, Durations

SHORT_END_NS = SHORT_COUNT << SHORT_SHIFT


def of(*durations_ns: int) -> Durations:
    durations = Durations()
    for duration_ns in durations_ns:
        durations.add(duration_ns)
    return durations


def test_percentiles_are_within_a_bucket_or_a_hundredth() -> None:
    source = random.Random(7)
    for ceiling_ns in (2_000, SHORT_END_NS, 10**6, 10**10):
        sample = sorted(source.randrange(ceiling_ns) for _ in range(1001))
        found = of(*sample).percentiles_ns([0, 50, 99, 100])
        for exact_ns, found_ns in zip((sample[0], sample[500], sample[990], sample[1000]), found, strict=True):
            assert exact_ns <= found_ns <= max(exact_ns + (1 << SHORT_SHIFT), exact_ns * 1.016)


def test_total_is_exact_for_long_calls_and_near_for_short_ones() -> None:
    assert of(10**6, 10**9 + 1).total_ns == 10**6 + 10**9 + 1
    sample = range(1, SHORT_END_NS, 7)
    assert abs(of(*sample).total_ns - sum(sample)) < len(sample)


def test_both_sides_of_the_border_are_counted_separately() -> None:
    durations = of(SHORT_END_NS - 1, SHORT_END_NS)
    low_ns, high_ns = durations.percentiles_ns([0, 100])
    assert low_ns == SHORT_END_NS - 1 < high_ns
    assert durations.count == 2


def test_a_removed_duration_leaves_no_trace() -> None:
    durations = of(5, 10**6)
    for duration_ns in (5, 10**6):
        durations.remove(duration_ns)
    assert (durations.count, durations.total_ns, durations.percentiles_ns([50])) == (0, 0, [])


def test_total_follows_every_change() -> None:
    durations = of(40)
    before_ns = durations.total_ns
    durations.short[1] += 1  # as hot code counts
    assert durations.total_ns == 2 * before_ns
    durations.remove(40)
    durations.add(SHORT_END_NS - 1)
    assert durations.total_ns == before_ns + of(SHORT_END_NS - 1).total_ns
    durations.clear()
    durations.add(40)
    assert durations.total_ns == before_ns


def test_list_of_short_calls_stays_the_same() -> None:
    durations = Durations()
    short = durations.short
    durations.add(40)
    assert short[1] == 1
    durations.clear()
    assert (durations.count, durations.short is short) == (0, True)
