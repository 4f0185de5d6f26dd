"""Active expiry: what it removes within a turn, and its statistics."""

from __future__ import annotations

from itertools import count

import pytest

from headrace.server.storage import key_walks
from headrace.server.storage.key_walks import (
    EXPIRY_COUNT_AT_ONCE,
    EXPIRY_SLICE_NS,
    SAMPLE_COUNT,
    SETTLING_LENGTH_MIN,
    STALE_WEIGHT,
    ActiveExpiry,
    NodeSettling,
)
from headrace.store.database import Store
from headrace.store.ids import make_id
from headrace.store.limits import Limits
from headrace.store.stream import Stream

NOW_MS = 1_700_000_000_000
TURN_NS = 100_000_000


@pytest.fixture(autouse=True)
def standing_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """No work takes any time, unless a test says so."""
    monkeypatch.setattr(key_walks, "perf_counter_ns", lambda: 0)


def filled(due_count: int, later_count: int) -> Store:
    """Keys of which some are due; the others expire in this millisecond."""
    store = Store()
    db = store.databases[0]
    for number in range(later_count + due_count):
        db.put(b"%d" % number, b"v")
        db.expires[b"%d" % number] = NOW_MS - (0 if number < later_count else 1)
    return store


def test_slice_removes_all_that_is_due() -> None:
    store = filled(3 * SAMPLE_COUNT, 5 * SAMPLE_COUNT)
    expiry = ActiveExpiry(store)
    assert not expiry.run(NOW_MS)
    assert len(store.databases[0].keys) == 5 * SAMPLE_COUNT
    assert expiry.cap_reached_count == 0


def test_share_of_due_keys_is_a_slow_mean() -> None:
    store = filled(SAMPLE_COUNT, 0)
    store.databases[1].put(b"later", b"v")
    store.databases[1].expires[b"later"] = NOW_MS
    expiry = ActiveExpiry(store)
    expiry.run(NOW_MS)
    after_full = STALE_WEIGHT
    assert expiry.stale_share == pytest.approx(after_full - after_full * STALE_WEIGHT)


def test_slice_ends_with_its_time_and_removes_first_what_expired_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_walks, "perf_counter_ns", count(step=EXPIRY_SLICE_NS // 2).__next__)
    store = Store()
    db = store.databases[0]
    for number in range(EXPIRY_COUNT_AT_ONCE * 4):
        db.put(b"%d" % number, b"v")
        db.expires[b"%d" % number] = number
    expiry = ActiveExpiry(store)
    assert expiry.run(NOW_MS)
    assert set(db.keys) == {b"%d" % number for number in range(EXPIRY_COUNT_AT_ONCE, EXPIRY_COUNT_AT_ONCE * 4)}
    assert (expiry.cap_reached_count, expiry.spent_ns) == (1, 4 * (EXPIRY_SLICE_NS // 2))
    expiry.reset_statistics()
    assert (expiry.cap_reached_count, expiry.spent_ns, expiry.stale_share) == (0, 0, 0)


@pytest.mark.parametrize("setting", ["frozen", "keeps_expired"])
def test_slice_removes_nothing_where_expiry_has_no_effect(setting: str) -> None:
    store = filled(10, 0)
    setattr(store.databases[0], setting, True)
    assert not ActiveExpiry(store).run(NOW_MS)
    assert len(store.databases[0].keys) == 10


def test_long_streams_are_settled_while_there_is_little_to_do() -> None:
    store = Store()
    long, short = Stream(Limits()), Stream(Limits())
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
