"""The offset that a replica confirms as being on its stable storage."""

from __future__ import annotations

from headrace.replication.synced import PAIRS_COUNT_MAX, SyncedOffset


def test_an_offset_is_synced_with_the_mark_of_its_last_record():
    synced = SyncedOffset()
    synced.note(1, 100)
    synced.note(1, 120)  # bytes that make no record
    synced.note(3, 200)
    assert [synced.at(mark) for mark in (0, 1, 2, 3, 9)] == [0, 120, 120, 200, 200]


def test_nothing_is_synced_while_a_log_begins_anew():
    synced = SyncedOffset()
    synced.note(1, 100)
    assert synced.at(1) == 100
    synced.clear()
    assert synced.at(1) == 0


def test_many_marks_take_no_memory_and_promise_nothing_too_early():
    synced = SyncedOffset()
    for mark in range(1, 5 * PAIRS_COUNT_MAX):
        synced.note(mark, 10 * mark)
    last = 5 * PAIRS_COUNT_MAX - 1
    assert len(synced._pairs) == PAIRS_COUNT_MAX
    for mark in (1, PAIRS_COUNT_MAX - 1, PAIRS_COUNT_MAX, last - 1, last):
        assert synced.at(mark) <= 10 * mark
    assert synced.at(last) == 10 * last
