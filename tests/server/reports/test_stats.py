"""Counters, their reset, and the rates made from them."""

from __future__ import annotations

from headrace.commands.execution.counters import ERROR_CODE_COUNT_MAX
from headrace.server.reports.stats import RATE_SAMPLE_COUNT, Stats


def test_rate_is_the_mean_of_the_last_samples() -> None:
    stats = Stats(started_ms=0)
    for tick in range(RATE_SAMPLE_COUNT + 5):
        stats.sample(tick * 100)
        stats.commands_processed += 50
    assert stats.commands_rate.per_second == 500
    for tick in range(RATE_SAMPLE_COUNT + 1):
        stats.sample(100_000 + tick * 100)
    assert stats.commands_rate.per_second == 0


def test_clock_that_stands_still_or_goes_back_adds_no_sample() -> None:
    stats = Stats(started_ms=0)
    for now_ms in (1000, 1000, 500):
        stats.commands_processed += 10
        stats.sample(now_ms)
    assert stats.commands_rate.per_second == 0


def test_reset_leaves_only_what_identifies_the_run() -> None:
    stats = Stats(started_ms=7)
    run_id = stats.run_id
    stats.commands_processed = 5
    stats.count_error(b"ERR")
    stats.reset()
    assert (stats.commands_processed, stats.error_replies, stats.errors) == (0, 0, {})
    assert (stats.started_ms, stats.run_id) == (7, run_id)


def test_one_code_word_too_many_ends_the_count_until_it_is_reset() -> None:
    stats = Stats(started_ms=0)
    for number in range(ERROR_CODE_COUNT_MAX):
        stats.count_error(b"E%d" % number)
    assert len(stats.errors) == ERROR_CODE_COUNT_MAX
    for number in range(10):
        stats.count_error(b"F%d" % number)
    assert stats.errors == {b"ERRORSTATS_DISABLED": 1}
    assert stats.error_replies == ERROR_CODE_COUNT_MAX + 10
    stats.reset()
    stats.count_error(b"ERR")
    assert stats.errors == {b"ERR": 1}
