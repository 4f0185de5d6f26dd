"""The bars of the audit report: none is left out, and each says its unit."""

from __future__ import annotations

from headrace.pipeline.jobs.histogram import delivery_bars, hour_bars, wait_bars


def test_counts_between_the_smallest_and_the_largest_have_a_bar() -> None:
    assert delivery_bars({0: 3, 3: 1}) == [("0", 3), ("1", 0), ("2", 0), ("3", 1)]
    assert delivery_bars({}) == []


def test_large_counts_share_the_last_bar() -> None:
    bars = delivery_bars({19: 1, 20: 2, 2**40: 4})
    assert bars == [("19", 1), ("20 or more", 6)]


def test_waits_say_their_unit_and_leave_out_no_power_of_two() -> None:
    bars = wait_bars({0: 5, 11: 2, 17: 1, 31: 1})
    assert bars[:3] == [("< 1 ms", 5), ("< 2 ms", 0), ("< 4 ms", 0)]
    assert [bars[place] for place in (11, 17, 31)] == [("< 2.05 s", 2), ("< 2.18 min", 1), ("< 24.9 d", 1)]
    assert len(bars) == 32


def test_hours_without_events_have_a_bar() -> None:
    assert hour_bars({24: 1, 26: 2}) == [("01-02 00:00", 1), ("01-02 01:00", 0), ("01-02 02:00", 2)]
    assert len(hour_bars({0: 1, 1000: 1})) == 48
