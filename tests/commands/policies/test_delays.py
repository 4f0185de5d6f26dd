"""XNACK DELAY and BACKOFF: a released entry cannot be had before its due time. Redis does not have it."""

from __future__ import annotations

import pytest

from support.inprocess import START_MS
from support.policy_scene import Scene, ids

READS = [
    "XREADGROUP GROUP g bob STREAMS s >",
    "XREADGROUP GROUP g bob CLAIM 0 STREAMS s >",
    "XAUTOCLAIM s g bob 0 0",
    "XCLAIM s g bob 1 1-0",
]


@pytest.mark.parametrize("line", READS)
def test_delayed_entry_is_had_when_it_is_due_and_not_before(line: str) -> None:
    scene = Scene("REDELIVER 60000", count=1)
    scene.read(scene.alice, "alice")
    assert scene.alice.call("XNACK s g FAIL IDS 1 1-0 DELAY 500") == b":1\r\n"
    scene.rig.clock.advance(499)
    assert b"1-0" not in ids(scene.bob.call(line))
    scene.rig.clock.advance(1)
    assert ids(scene.bob.call(line))[-1:] == [b"1-0"]
    scene.check()


def test_delayed_entry_looks_like_any_released_one() -> None:
    scene = Scene(count=2)
    scene.read(scene.alice, "alice")
    scene.alice.call("XNACK s g FAIL IDS 1 1-0", "XNACK s g FAIL IDS 1 2-0 DELAY 500")
    released = b"*2\r\n*4\r\n$3\r\n1-0\r\n$0\r\n\r\n:-1\r\n:1\r\n*4\r\n$3\r\n2-0\r\n$0\r\n\r\n:-1\r\n:1\r\n"
    assert scene.alice.call("XPENDING s g - + 9") == released
    assert scene.alice.call("XPENDING s g IDLE 100000 - + 9") == released


def test_it_is_logged_as_a_release_and_a_line_that_redis_skips() -> None:
    scene = Scene(count=2)
    scene.read(scene.alice, "alice")
    scene.rig.log.units.clear()
    scene.alice.call("XNACK s g SILENT IDS 2 2-0 1-0 DELAY 500")
    assert scene.rig.log.units == [
        [b"XNACK s g FAIL IDS 2 2-0 1-0 RETRYCOUNT 0 FORCE", b"#HR DUE s g %d 2-0 1-0" % (START_MS + 500)]
    ]


def test_xclaim_without_idle_time_takes_a_delayed_entry() -> None:
    scene = Scene(count=1)
    scene.read(scene.alice, "alice")
    scene.alice.call("XNACK s g FAIL IDS 1 1-0 DELAY 500")
    assert ids(scene.bob.call("XCLAIM s g bob 0 1-0")) == [b"1-0"]
    assert scene.stream.groups[b"g"].pending.rules is None


def test_new_release_without_delay_ends_the_delay() -> None:
    scene = Scene("REDELIVER 60000", count=1)
    scene.read(scene.alice, "alice")
    scene.alice.call("XNACK s g FAIL IDS 1 1-0 DELAY 500", "XNACK s g FAIL IDS 1 1-0")
    assert scene.read(scene.bob, "bob") == [b"1-0"]


def test_blocked_reader_is_given_a_delayed_entry_when_it_is_due() -> None:
    scene = Scene("REDELIVER 60000", count=1)
    scene.read(scene.alice, "alice")
    assert scene.bob.call("XREADGROUP GROUP g bob BLOCK 0 STREAMS s >") == b""
    scene.alice.call("XNACK s g FAIL IDS 1 1-0 DELAY 500")
    scene.rig.pass_time(499)
    assert scene.bob.output() == b""
    scene.rig.pass_time(1)
    assert ids(scene.bob.output()) == [b"1-0"]


def test_blocked_reader_with_claim_waits_without_turning_in_circles() -> None:
    scene = Scene(count=1)
    scene.read(scene.alice, "alice")
    scene.alice.call("XNACK s g FAIL IDS 1 1-0 DELAY 500")
    assert scene.bob.call("XREADGROUP GROUP g bob BLOCK 0 CLAIM 100 STREAMS s >") == b""
    next_ms = scene.rig.dispatcher.waiters.next_due_ms()
    assert next_ms is None or next_ms > scene.rig.clock()
    scene.rig.pass_time(500)
    assert ids(scene.bob.output()) == [b"1-0"]


def test_backoff_goes_by_the_delivery_count() -> None:
    scene = Scene("REDELIVER 60000 BACKOFF 100,1000", count=1)
    scene.read(scene.alice, "alice")
    for wait_ms in (100, 1000, 1000):
        scene.alice.call("XNACK s g FAIL IDS 1 1-0")
        scene.rig.clock.advance(wait_ms - 1)
        assert scene.read(scene.alice, "alice") == []
        scene.rig.clock.advance(1)
        assert scene.read(scene.alice, "alice") == [b"1-0"]


@pytest.mark.parametrize("release", ["SILENT IDS 1 1-0", "FAIL IDS 1 1-0 DELAY 0"])
def test_backoff_is_for_failures_without_a_delay_of_their_own(release: str) -> None:
    scene = Scene("REDELIVER 60000 BACKOFF 1000", count=1)
    scene.read(scene.alice, "alice")
    scene.alice.call(f"XNACK s g {release}")
    assert scene.read(scene.bob, "bob") == [b"1-0"]


@pytest.mark.parametrize("act", ["COPY s t", "RENAME s t"])
def test_due_times_follow_the_stream(act: str) -> None:
    scene = Scene("REDELIVER 60000", count=1)
    scene.read(scene.alice, "alice")
    scene.alice.call("XNACK s g FAIL IDS 1 1-0 DELAY 500", act)
    read = "XREADGROUP GROUP g bob STREAMS t >"
    assert ids(scene.bob.call(read)) == []
    scene.rig.clock.advance(500)
    assert ids(scene.bob.call(read)) == [b"1-0"]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("DELAY", b"-ERR Unrecognized XNACK option 'DELAY'\r\n"),
        ("DELAY x", b"-ERR value is not an integer or out of range\r\n"),
        ("DELAY -1", b"-ERR Invalid DELAY value, must be >= 0 and at most 4503599627370496\r\n"),
        ("DELAY 4503599627370497", b"-ERR Invalid DELAY value, must be >= 0 and at most 4503599627370496\r\n"),
    ],
)
def test_bad_delays_are_refused_and_change_nothing(words: str, error: bytes) -> None:
    scene = Scene(count=1)
    scene.read(scene.alice, "alice")
    assert scene.alice.call(f"XNACK s g FAIL IDS 1 1-0 {words}") == error
    assert scene.pending() == [(b"1-0", b"alice", 1)]


def test_read_moves_past_delayed_entries_that_are_pending_already() -> None:
    scene = Scene("REDELIVER 60000", count=0)
    scene.alice.call("XADD s DELAY 500 1-0 f v", "XREADGROUP GROUP g alice STREAMS s >", "XGROUP SETID s g 0")
    assert scene.alice.call("XREADGROUP GROUP g alice STREAMS s >") == b"*-1\r\n"
    assert scene.stream.groups[b"g"].last_id == scene.stream.last_id
    scene.rig.clock.advance(500)
    assert scene.read(scene.bob, "bob") == [b"1-0"]
