"""Defects of policies that the simulation of policies has found, each as a short scene."""

from __future__ import annotations

from support.policy_scene import Scene, ids


def test_fatal_entry_stays_parked_when_other_settings_come_into_force() -> None:
    scene = Scene("REDELIVER 100 MAX-DELIVERIES 5", count=1)
    scene.read(scene.alice, "alice")
    scene.alice.call("XNACK s g FATAL IDS 1 1-0")
    scene.alice.call("XGROUP CONFIG s g REDELIVER 200")
    scene.rig.pass_time(1000)
    assert scene.read(scene.bob, "bob") == []
    scene.check()


def test_fatal_entry_becomes_a_dead_letter_when_there_is_a_stream_for_it() -> None:
    scene = Scene("REDELIVER 100", count=1)
    scene.read(scene.alice, "alice")
    scene.alice.call("XNACK s g FATAL IDS 1 1-0", "XGROUP CONFIG s g DEADLETTER dead")
    assert scene.pending() == []
    assert scene.alice.call("XLEN dead") == b":1\r\n"


def test_claim_by_another_consumer_wakes_a_reader_that_had_as_many_as_it_may() -> None:
    for claim in ("XCLAIM s g bob 0 1-0", "XAUTOCLAIM s g bob 0 0 COUNT 1"):
        scene = Scene("MAX-PENDING 1")
        assert scene.read(scene.alice, "alice") == [b"1-0"]
        assert scene.alice.call("XREADGROUP GROUP g alice BLOCK 0 STREAMS s >") == b""
        scene.bob.call(claim)
        assert ids(scene.alice.output()) == [b"2-0"]


def test_redelivery_to_another_consumer_wakes_a_reader_that_had_as_many_as_it_may() -> None:
    scene = Scene("MAX-PENDING 1 REDELIVER 1000")
    assert scene.read(scene.alice, "alice") == [b"1-0"]
    scene.rig.clock.advance(900)
    assert scene.alice.call("XREADGROUP GROUP g alice BLOCK 0 STREAMS s >") == b""
    scene.rig.clock.advance(100)
    assert scene.read(scene.bob, "bob") == [b"1-0"]
    assert ids(scene.alice.output()) == [b"2-0"]


def test_deleted_entries_that_a_read_drops_leave_room_for_new_ones() -> None:
    scene = Scene("MAX-PENDING 1 REDELIVER 1000")
    assert scene.read(scene.alice, "alice") == [b"1-0"]
    scene.bob.call("XDEL s 1-0")
    scene.rig.clock.advance(1000)
    assert scene.read(scene.alice, "alice") == [b"2-0"]
    assert scene.pending() == [(b"2-0", b"alice", 1)]


def test_reader_that_may_park_no_more_waits_instead_of_being_given_an_empty_list() -> None:
    scene = Scene("ORDER-BY k MAX-PARKED 1", count=0)
    for number in range(1, 4):
        scene.alice.call(f"XADD s {number}-0 k x")
    assert scene.read(scene.alice, "alice") == [b"1-0"]
    assert scene.bob.call("XREADGROUP GROUP g bob STREAMS s >") == b"*-1\r\n"
    assert scene.bob.call("XREADGROUP GROUP g bob BLOCK 0 STREAMS s >") == b""
    scene.alice.call("XACK s g 1-0")
    assert ids(scene.bob.output()) == [b"2-0"]


def test_entry_that_is_not_delivered_again_still_waits_for_its_turn_when_it_is_released() -> None:
    scene = Scene("ORDER-BY k MAX-DELIVERIES 1", count=0)
    scene.alice.call("XADD s 1-0 k x", "XADD s 2-0 k x")
    assert scene.read(scene.alice, "alice") == [b"1-0"]
    scene.bob.call("XCLAIM s g bob 0 2-0", "XNACK s g FAIL IDS 1 2-0")
    scene.check()
    scene.alice.call("XACK s g 1-0", "XGROUP CONFIG s g REDELIVER 1000 MAX-DELIVERIES 2")
    assert scene.read(scene.bob, "bob") == [b"2-0"]
    scene.check()


def test_reader_is_woken_when_the_entry_leaves_for_which_one_would_have_waited_that_could_not_be_parked() -> None:
    for way in ("XACK s g 2-0", "XDEL s 2-0"):
        scene = Scene("ORDER-BY k MAX-PARKED 1", count=0)
        scene.alice.call("XADD s 1-0 k x", "XADD s 2-0 k y", "XADD s 3-0 k x", "XADD s 4-0 k y")
        assert scene.read(scene.alice, "alice") == [b"1-0", b"2-0"]
        assert scene.bob.call("XREADGROUP GROUP g bob BLOCK 0 STREAMS s >") == b""
        scene.alice.call(way)
        assert ids(scene.bob.output()) == [b"4-0"]


def test_entry_becomes_a_dead_letter_when_the_one_is_deleted_for_which_it_has_waited() -> None:
    for way in ("XDEL s 1-0", "XTRIM s MINID 2-0"):
        scene = Scene("ORDER-BY k MAX-DELIVERIES 1", count=0)
        scene.alice.call("XADD s 1-0 k x", "XADD s 2-0 k x")
        assert scene.read(scene.alice, "alice") == [b"1-0"]
        scene.bob.call("XCLAIM s g bob 0 2-0", "XNACK s g FAIL IDS 1 2-0", "XGROUP CONFIG s g DEADLETTER dead")
        assert scene.alice.call("XLEN dead") == b":0\r\n"
        scene.alice.call(way)
        scene.rig.pass_time(1)
        assert scene.alice.call("XLEN dead") == b":1\r\n"
        scene.check()


def test_consumers_are_deleted_in_the_order_in_which_their_time_ends() -> None:
    scene = Scene("CONSUMER-TTL 2000 REDELIVER 60000")
    scene.read(scene.bob, "bob", "COUNT 1")
    scene.rig.pass_time(100)
    scene.read(scene.alice, "alice")
    scene.alice.session.close()
    scene.rig.pass_time(100)
    scene.bob.session.close()
    scene.rig.pass_time(500)
    scene.alice = scene.rig.connect()
    scene.alice.call("XGROUP CONFIG s g CONSUMER-TTL 300")
    scene.rig.pass_time(1)
    assert scene.read(scene.alice, "carol", "COUNT 1") == [b"2-0"]
