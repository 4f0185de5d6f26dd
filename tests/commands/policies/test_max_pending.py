"""MAX-PENDING and MAX-PENDING-GROUP: how many entries may be unacknowledged. Redis does not have it."""

from __future__ import annotations

import pytest

from support.policy_scene import Scene, ids


def test_consumer_is_given_no_more_than_it_may_have() -> None:
    scene = Scene("MAX-PENDING 2", count=5)
    assert scene.read(scene.alice, "alice") == [b"1-0", b"2-0"]
    assert scene.read(scene.alice, "alice") == []
    assert scene.read(scene.bob, "bob", "COUNT 1") == [b"3-0"]
    assert scene.read(scene.bob, "bob") == [b"4-0"]


def test_group_is_given_no_more_than_it_may_have() -> None:
    scene = Scene("MAX-PENDING-GROUP 3", count=5)
    assert scene.read(scene.alice, "alice", "COUNT 2") == [b"1-0", b"2-0"]
    assert scene.read(scene.bob, "bob") == [b"3-0"]
    assert scene.read(scene.bob, "bob") == []


@pytest.mark.parametrize(
    "act", ["XACK s g 1-0", "XACKDEL s g IDS 1 1-0", "XACKIF s g alice IDS 1 1-0", "XGROUP DELCONSUMER s g alice"]
)
@pytest.mark.parametrize("setting", ["MAX-PENDING 1", "MAX-PENDING-GROUP 1"])
def test_reader_that_waits_for_room_is_woken(act: str, setting: str) -> None:
    scene = Scene(setting, count=3)
    scene.read(scene.alice, "alice")
    name = "alice" if setting.startswith("MAX-PENDING ") else "bob"
    assert scene.bob.call(f"XREADGROUP GROUP g {name} BLOCK 0 STREAMS s >") == b""
    scene.alice.call(act)
    assert ids(scene.bob.output()) == [b"2-0"]


def test_release_makes_room() -> None:
    scene = Scene("MAX-PENDING-GROUP 1 REDELIVER 60000", count=2)
    scene.read(scene.alice, "alice")
    assert scene.bob.call("XREADGROUP GROUP g bob BLOCK 0 STREAMS s >") == b""
    scene.alice.call("XNACK s g FAIL IDS 1 1-0")
    assert ids(scene.bob.output()) == [b"1-0"]


def test_read_that_claims_is_given_new_entries_only_where_there_is_room_after_its_claims() -> None:
    scene = Scene("MAX-PENDING 3", count=5)
    assert scene.read(scene.alice, "alice", "COUNT 2") == [b"1-0", b"2-0"]
    assert scene.read(scene.bob, "bob", "CLAIM 0") == [b"1-0", b"2-0", b"3-0"]
    assert scene.read(scene.bob, "bob", "CLAIM 1000") == []


def test_dead_letters_that_a_read_makes_leave_room_for_new_entries() -> None:
    scene = Scene("MAX-PENDING 1 MAX-DELIVERIES 1 DEADLETTER dead")
    assert scene.read(scene.alice, "alice") == [b"1-0"]
    assert scene.read(scene.alice, "alice", "CLAIM 0") == [b"2-0"]


def test_read_without_acknowledgement_needs_no_room() -> None:
    scene = Scene("MAX-PENDING 1", count=3)
    assert scene.read(scene.alice, "alice", "NOACK") == [b"1-0", b"2-0", b"3-0"]


def test_deletion_of_a_consumer_releases_what_it_has() -> None:
    scene = Scene("ON-DELCONSUMER release", count=2)
    scene.read(scene.alice, "alice")
    assert scene.alice.call("XGROUP DELCONSUMER s g alice") == b":2\r\n"
    assert scene.pending() == [(b"1-0", b"", 1), (b"2-0", b"", 1)]


@pytest.mark.parametrize(
    "act",
    [
        "XDELEX s DELREF IDS 1 1-0",
        "XTRIM s MINID 2-0 DELREF",
        "XADD s DELREF MAXLEN = 3 9-0 f v",
        "XACKDEL s other DELREF IDS 1 1-0",
    ],
)
@pytest.mark.parametrize("setting", ["MAX-PENDING 1", "MAX-PENDING-GROUP 1"])
def test_deletion_with_its_references_makes_room(act: str, setting: str) -> None:
    scene = Scene(setting, count=3)
    scene.alice.call("XGROUP CREATE s other 0", "XREADGROUP GROUP other c STREAMS s >")
    scene.read(scene.alice, "alice")
    name = "alice" if setting.startswith("MAX-PENDING ") else "bob"
    assert scene.bob.call(f"XREADGROUP GROUP g {name} BLOCK 0 STREAMS s >") == b""
    scene.alice.call(act)
    assert ids(scene.bob.output()) == [b"2-0"]


def test_read_without_acknowledgement_is_given_a_delayed_entry_when_it_is_due() -> None:
    scene = Scene("MAX-PENDING 1", count=1)
    scene.read(scene.alice, "alice")
    scene.alice.call("XADD s DELAY 100 2-0 f v")
    assert scene.read(scene.alice, "alice", "NOACK") == []
    scene.rig.clock.advance(100)
    assert scene.read(scene.alice, "alice", "NOACK") == [b"2-0"]
