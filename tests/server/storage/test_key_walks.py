"""Active expiry: what it removes within a turn, and its statistics."""

from __future__ import annotations

from itertools import count

import pytest

from headrace.server.storage import key_walks
from headrace.server.storage.key_walks import (
    EXPIRY_SHARE,
    SAMPLE_COUNT,
    SETTLING_LENGTH_MIN,
    STALE_WEIGHT,
    ActiveExpiry,
    NodeSettling,
)
from headrace.store.database import Store
from headrace.store.ids import make_id
from headrace.store.nodes import StreamLimits
from headrace.store.stream import Stream

NOW_MS = 1_700_000_000_000
TURN_NS = 100_000_000


@pytest.fixture(autouse=True)
def standing_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """No work takes any time, unless a test says so."""
    monkeypatch.setattr(key_walks, "perf_counter_ns", lambda: 0)


def filled(due_count: int, later_count: int) -> Store:
    """Keys of which some are due; those come first in the walk, which goes from the newest to the oldest."""
    store = Store()
    db = store.databases[0]
    for number in range(later_count + due_count):
        db.put(b"%d" % number, b"v")
        db.expires[b"%d" % number] = NOW_MS - (0 if number < later_count else 1)
    return store


def test_turn_continues_while_it_finds_much() -> None:
    store = filled(3 * SAMPLE_COUNT, 5 * SAMPLE_COUNT)
    expiry = ActiveExpiry(store, lambda: TURN_NS)
    expiry.run(NOW_MS)
    assert len(store.databases[0].keys) == 5 * SAMPLE_COUNT
    assert expiry.cap_reached_count == 0


def test_share_of_due_keys_is_a_slow_mean() -> None:
    expiry = ActiveExpiry(filled(SAMPLE_COUNT, SAMPLE_COUNT), lambda: TURN_NS)
    expiry.run(NOW_MS)
    after_full = STALE_WEIGHT
    assert expiry.stale_share == pytest.approx(after_full - after_full * STALE_WEIGHT)


@pytest.mark.parametrize("turn_ns", [TURN_NS, TURN_NS // 50])
def test_turn_ends_with_its_share_of_the_time_between_turns(turn_ns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    step_ns = int(EXPIRY_SHARE * turn_ns) + 1
    monkeypatch.setattr(key_walks, "perf_counter_ns", count(step=step_ns).__next__)
    store = filled(3 * SAMPLE_COUNT, 0)
    expiry = ActiveExpiry(store, lambda: turn_ns)
    expiry.run(NOW_MS)
    assert len(store.databases[0].keys) == 2 * SAMPLE_COUNT
    assert (expiry.cap_reached_count, expiry.spent_ns) == (1, 2 * step_ns)
    expiry.reset_statistics()
    assert (expiry.cap_reached_count, expiry.spent_ns, expiry.stale_share) == (0, 0, 0)


def test_long_streams_are_settled_while_there_is_little_to_do() -> None:
    store = Store()
    long, short = Stream(StreamLimits()), Stream(StreamLimits())
    store.databases[0].put(b"long", long)
    store.databases[0].put(b"short", short)
    for number in range(1, SETTLING_LENGTH_MIN + 1):
        entry = b"*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n"
        long.append(make_id(number, 0), entry)
        if number < SETTLING_LENGTH_MIN:
            short.append(make_id(number, 0), entry)
    settling = NodeSettling(store, lambda: TURN_NS)
    settling.run(key_walks.BUSY_COMMANDS_COUNT + 1)
    assert long.has_unsettled
    for _ in range(100):
        settling.run(key_walks.BUSY_COMMANDS_COUNT + 1)
    assert not long.has_unsettled
    assert short.has_unsettled
    long.check()
