"""The records of the uses of keys."""

from __future__ import annotations

import pytest

from headrace.store.companions.set_value import SetValue
from headrace.store.key_uses import FREQUENCY_INITIAL, FREQUENCY_MAX, MINUTE_MS, KeyUses, UseKind, UseRules
from headrace.store.limits import Limits

START_MS = 100 * MINUTE_MS


def uses_of(kind: UseKind) -> KeyUses:
    return KeyUses(UseRules(kind, START_MS))


def test_a_string_without_a_record_is_idle_since_the_start() -> None:
    assert uses_of(UseKind.LRU).idle_ms(b"k", b"v", START_MS + 7) == 7


def test_a_use_ends_the_idle_time_of_a_string() -> None:
    uses = uses_of(UseKind.LRU)
    uses.note_use(b"k", b"v", START_MS + 10)
    assert uses.idle_ms(b"k", b"v", START_MS + 12) == 2
    assert uses.idle_ms(b"k", b"v", START_MS + 8) == 0


def test_a_value_that_keeps_its_time_of_use_has_no_record_under_lru() -> None:
    uses, value = uses_of(UseKind.LRU), SetValue(Limits())
    value.used_ms = START_MS + 20
    uses.note_use(b"k", value, START_MS + 30)
    uses.set_idle(b"k", value, 5, START_MS + 30)
    assert (len(uses), uses.idle_ms(b"k", value, START_MS + 50)) == (0, 25)


def test_only_changes_are_recorded_under_lrm() -> None:
    uses, value = uses_of(UseKind.LRM), SetValue(Limits())
    value.used_ms = START_MS + 20
    uses.note_use(b"k", value, START_MS + 30)
    assert b"k" not in uses
    uses.note_change(b"k", START_MS + 40)
    assert uses.idle_ms(b"k", value, START_MS + 50) == 10


@pytest.mark.parametrize(("factor", "drawn", "grown"), [(0, 0.99, 3), (10, 0.05, 2), (10, 0.099, 1), (10, 0.0, 3)])
def test_a_counter_grows_the_less_likely_the_larger_it_is(factor: int, drawn: float, grown: int) -> None:
    # One use over FREQUENCY_INITIAL has a probability of 1, the next of 1 / 11, then 1 / 21.
    uses = uses_of(UseKind.LFU)
    uses.rules.log_factor = factor
    uses.rules.random = lambda: drawn
    for _ in range(4):
        uses.note_use(b"k", b"v", START_MS)
    assert uses.frequency(b"k", START_MS) == FREQUENCY_INITIAL + grown


def test_a_counter_has_a_maximum() -> None:
    uses = uses_of(UseKind.LFU)
    uses.rules.log_factor = 0
    uses.set_frequency(b"k", FREQUENCY_MAX, START_MS)
    uses.note_use(b"k", b"v", START_MS)
    assert uses.frequency(b"k", START_MS) == FREQUENCY_MAX


@pytest.mark.parametrize(("decay_minutes", "left"), [(0, 100), (1, 93), (3, 98), (7, 99), (8, 100)])
def test_a_counter_decays_with_the_minutes_since_the_last_use(decay_minutes: int, left: int) -> None:
    uses = uses_of(UseKind.LFU)
    uses.rules.decay_minutes = decay_minutes
    uses.set_frequency(b"k", 100, START_MS)
    assert uses.frequency(b"k", START_MS + 7 * MINUTE_MS + 59_999) == left
    assert uses.frequency(b"k", START_MS - MINUTE_MS) == 100


def test_a_counter_does_not_decay_below_zero() -> None:
    assert uses_of(UseKind.LFU).frequency(b"k", START_MS + 9 * MINUTE_MS) == 0


def test_a_record_counts_as_memory_until_it_is_dropped() -> None:
    uses = uses_of(UseKind.LRU)
    before = uses.memory_size
    uses.note_use(b"k", b"v", START_MS)
    assert uses.memory_size > before
    uses.forget(b"k")
    uses.forget(b"k")
    assert b"k" not in uses
