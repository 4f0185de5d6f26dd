"""MAX-DELIVERIES and DEADLETTER: what is not delivered again, and where it moves. Redis does not have it."""

from __future__ import annotations

import logging

import pytest

from headrace.commands.policies.dead_letters import LOG_INTERVAL_MS, RETRY_MS
from support.inprocess import START_MS
from support.policy_scene import Scene, ids

SETTINGS = "REDELIVER 1000 MAX-DELIVERIES 2 DEADLETTER dead"


def spend(scene: Scene) -> None:
    """Let all entries be delivered twice. They are due again a second later."""
    scene.read(scene.alice, "alice")
    scene.rig.pass_time(1000)
    scene.read(scene.bob, "bob")


def test_entry_moves_when_it_would_be_due_again_without_any_reader() -> None:
    scene = Scene(SETTINGS, count=1)
    spend(scene)
    scene.rig.pass_time(999)
    assert scene.alice.call("EXISTS dead") == b":0\r\n"
    scene.rig.log.units.clear()
    scene.rig.pass_time(1)
    assert scene.pending() == []
    dead = b"f v1 _stream s _id 1-0 _group g _consumer bob _deliveries 2 _reason deliveries _time_ms %d" % (
        START_MS + 2000
    )
    assert scene.rig.log.units == [[b"XADD dead %d-0 " % (START_MS + 2000) + dead, b"XACK s g 1-0"]]
    words = scene.alice.call("XRANGE dead - +").split(b"\r\n")[6::2]
    assert b" ".join(words).strip() == dead
    assert scene.report()[b"dead-letters"] == 1
    scene.check()


@pytest.mark.parametrize(
    "line",
    [
        "XREADGROUP GROUP g carol CLAIM 0 STREAMS s >",
        "XAUTOCLAIM s g carol 0 0",
        "XCLAIM s g carol 0 1-0",
    ],
)
@pytest.mark.parametrize("settings", ["MAX-DELIVERIES 1 DEADLETTER dead", "MAX-DELIVERIES 1"])
def test_commands_that_would_hand_it_over_do_not(line: str, settings: str) -> None:
    scene = Scene(settings, count=1)
    scene.read(scene.alice, "alice")
    reply = scene.bob.call(line)
    assert ids(reply) in ([], [b"0-0"])
    if "DEADLETTER" in settings:
        assert (scene.pending(), scene.alice.call("XLEN dead")) == ([], b":1\r\n")
    else:
        assert scene.pending() == [(b"1-0", b"alice", 1)]
    scene.check()


def test_waiting_read_makes_a_dead_letter_of_an_entry_when_it_is_idle_enough_to_be_claimed() -> None:
    scene = Scene("MAX-DELIVERIES 1 DEADLETTER dead", count=1)
    scene.read(scene.alice, "alice")
    scene.rig.pass_time(400)
    assert scene.bob.call("XREADGROUP GROUP g bob BLOCK 0 CLAIM 1000 STREAMS s >") == b""
    scene.rig.pass_time(599)
    assert scene.alice.call("XLEN dead") == b":0\r\n"
    scene.rig.pass_time(2)  # waits end after their millisecond
    assert scene.alice.call("XLEN dead") == b":1\r\n"


@pytest.mark.parametrize("line", ["XCLAIM s g carol 0 1-0 JUSTID", "XCLAIM s g carol 0 1-0 RETRYCOUNT 0"])
def test_claims_that_are_no_delivery_are_as_in_redis(line: str) -> None:
    scene = Scene("MAX-DELIVERIES 1 DEADLETTER dead", count=1)
    scene.read(scene.alice, "alice")
    assert ids(scene.bob.call(line)) == [b"1-0"]
    assert scene.pending()[0][1] == b"carol"


def test_history_read_never_moves_an_entry() -> None:
    scene = Scene("MAX-DELIVERIES 1 DEADLETTER dead", count=1)
    scene.read(scene.alice, "alice")
    for _ in range(3):
        assert ids(scene.alice.call("XREADGROUP GROUP g alice STREAMS s 0")) == [b"1-0"]
    assert scene.alice.call("EXISTS dead") == b":0\r\n"


@pytest.mark.parametrize(
    ("nack", "reason"),
    [("FAIL IDS 1 1-0", b"deliveries"), ("FATAL IDS 1 1-0", b"fatal"), ("FATAL IDS 1 1-0 DELAY 9", b"fatal")],
)
def test_release_of_a_spent_entry_moves_it_at_once(nack: str, reason: bytes) -> None:
    scene = Scene("MAX-DELIVERIES 1 DEADLETTER dead BACKOFF 1000", count=1)
    scene.read(scene.alice, "alice")
    assert scene.alice.call(f"XNACK s g {nack}") == b":1\r\n"
    assert scene.pending() == []
    words = scene.alice.call("XRANGE dead - +").split(b"\r\n")[6::2]
    assert b" ".join(words[8:14]) == b"_consumer alice _deliveries 1 _reason " + reason


def test_xnack_silent_gives_the_delivery_back_and_moves_nothing() -> None:
    scene = Scene("MAX-DELIVERIES 1 DEADLETTER dead REDELIVER 1000", count=1)
    scene.read(scene.alice, "alice")
    scene.alice.call("XNACK s g SILENT IDS 1 1-0")
    assert scene.read(scene.bob, "bob") == [b"1-0"]


def test_fatal_release_moves_the_entry_without_a_number_of_deliveries() -> None:
    scene = Scene("DEADLETTER dead", count=1)
    scene.read(scene.alice, "alice")
    scene.alice.call("XNACK s g FATAL IDS 1 1-0")
    assert (scene.pending(), scene.alice.call("XLEN dead")) == ([], b":1\r\n")


def test_entry_stays_parked_without_a_dead_letter_stream() -> None:
    scene = Scene("REDELIVER 1000 MAX-DELIVERIES 1", count=2)
    scene.read(scene.alice, "alice")
    scene.alice.call("XNACK s g FAIL IDS 1 2-0")
    scene.rig.pass_time(60_000)
    assert scene.read(scene.bob, "bob") == []
    assert scene.pending() == [(b"1-0", b"alice", 1), (b"2-0", b"", 1)]
    assert scene.alice.call("XGROUP CONFIG s g MAX-DELIVERIES 2") == b"+OK\r\n"
    assert scene.read(scene.bob, "bob") == [b"2-0", b"1-0"]


def test_dead_letter_stream_that_is_set_later_takes_what_is_spent() -> None:
    scene = Scene("REDELIVER 1000 MAX-DELIVERIES 1", count=2)
    scene.read(scene.alice, "alice")
    scene.alice.call("XNACK s g FAIL IDS 1 2-0")
    scene.rig.pass_time(60_000)
    scene.alice.call("XGROUP CONFIG s g DEADLETTER dead")
    scene.rig.pass_time(1)
    assert (scene.pending(), scene.alice.call("XLEN dead")) == ([], b":2\r\n")


@pytest.mark.parametrize("other", ["none", "pending", "unread"])
def test_original_is_deleted_unless_another_group_needs_it(other: str) -> None:
    scene = Scene("MAX-DELIVERIES 1 DEADLETTER dead DEADLETTER-DELETE yes", count=1)
    if other != "none":
        scene.alice.call("XGROUP CREATE s other 0")
    if other == "pending":
        scene.alice.call("XREADGROUP GROUP other c STREAMS s >")
    scene.read(scene.alice, "alice")
    scene.alice.call("XNACK s g FAIL IDS 1 1-0")
    assert scene.alice.call("XLEN s") == (b":0\r\n" if other == "none" else b":1\r\n")
    assert (b"XDEL s 1-0" in scene.logged) is (other == "none")


def test_reader_blocked_on_the_dead_letters_is_woken() -> None:
    scene = Scene(SETTINGS, count=1)
    spend(scene)
    assert scene.bob.call("XREAD BLOCK 0 STREAMS dead $") == b""
    scene.rig.pass_time(1000)
    assert b"_reason" in scene.bob.output()


@pytest.mark.parametrize("obstacle", ["type", "memory"])
def test_entry_stays_pending_while_it_cannot_be_moved(obstacle: str, caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(SETTINGS, count=2)
    if obstacle == "type":
        scene.alice.call("SET dead x")
    spend(scene)
    if obstacle == "memory":
        scene.rig.config.maxmemory = 1
        scene.rig.server.memory.count_all()
    with caplog.at_level(logging.WARNING):
        scene.rig.pass_time(1000)
        for _ in range(3):
            scene.rig.pass_time(RETRY_MS)
    assert [entry_id for entry_id, _, _ in scene.pending()] == [b"1-0", b"2-0"]
    assert sum("cannot be moved" in record.message for record in caplog.records) == 1
    assert scene.report()[b"dead-letter-failures"] == 4
    with caplog.at_level(logging.WARNING):
        scene.rig.pass_time(LOG_INTERVAL_MS)
    assert sum("cannot be moved" in record.message for record in caplog.records) == 2
    scene.rig.config.maxmemory = 0
    scene.alice.call("DEL dead")
    scene.rig.pass_time(RETRY_MS)
    assert (scene.pending(), scene.alice.call("XLEN dead")) == ([], b":2\r\n")
    scene.check()


def test_stream_that_was_given_the_name_of_its_dead_letters_keeps_them() -> None:
    scene = Scene("MAX-DELIVERIES 1 DEADLETTER dead", count=1)
    scene.read(scene.alice, "alice")
    scene.alice.call("RENAME s dead", "XNACK dead g FAIL IDS 1 1-0")
    assert scene.alice.call("XLEN dead") == b":1\r\n"
    assert b"1-0" in scene.alice.call("XPENDING dead g - + 9")


def test_deleted_entry_only_leaves_the_pending_list() -> None:
    scene = Scene(SETTINGS, count=1)
    spend(scene)
    scene.alice.call("XDEL s 1-0")
    scene.rig.pass_time(1000)
    assert (scene.pending(), scene.alice.call("EXISTS dead")) == ([], b":0\r\n")


def test_acknowledged_entry_does_not_move() -> None:
    scene = Scene(SETTINGS, count=2)
    spend(scene)
    scene.alice.call("XACK s g 1-0")
    scene.rig.pass_time(1000)
    assert scene.alice.call("XLEN dead") == b":1\r\n"


def test_many_dead_letters_move_in_several_visits() -> None:
    scene = Scene(SETTINGS, count=1000)
    spend(scene)
    scene.rig.pass_time(1000)
    for _ in range(10):
        scene.rig.pass_time(0)
    assert (scene.pending(), scene.alice.call("XLEN dead")) == ([], b":1000\r\n")


def test_fatal_release_is_given_again_where_nothing_bounds_the_deliveries() -> None:
    scene = Scene("REDELIVER 1000", count=1)
    scene.read(scene.alice, "alice")
    scene.alice.call("XNACK s g FATAL IDS 1 1-0")
    assert scene.read(scene.bob, "bob") == [b"1-0"]
