"""REDELIVER: a plain read is given entries that have been idle too long. Redis does not have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.inprocess import START_MS, Clock, Rig, running_server
from support.policy_scene import Scene, ids


def test_plain_read_is_given_an_idle_entry_in_the_millisecond_in_which_it_is_due() -> None:
    scene = Scene("REDELIVER 1000")
    assert scene.read(scene.alice, "alice") == [b"1-0", b"2-0"]
    scene.rig.clock.advance(999)
    assert scene.read(scene.bob, "bob") == []
    scene.rig.clock.advance(1)
    assert scene.read(scene.bob, "bob") == [b"1-0", b"2-0"]
    assert scene.pending() == [(b"1-0", b"bob", 2), (b"2-0", b"bob", 2)]
    assert scene.logged[-1] == (
        b"XCLAIM s g bob 0 1-0 2-0 TIME %d RETRYCOUNT 2 FORCE JUSTID LASTID 2-0" % (START_MS + 1000)
    )
    scene.check()


def test_redelivered_entries_have_two_elements_in_both_protocols() -> None:
    for hello in ("HELLO 2", "HELLO 3"):
        scene = Scene("REDELIVER 1000", count=1)
        scene.alice.call(hello)
        new = scene.alice.call("XREADGROUP GROUP g alice STREAMS s >")
        scene.rig.clock.advance(1000)
        assert scene.alice.call("XREADGROUP GROUP g alice STREAMS s >") == new


def test_each_delivery_has_its_own_step_and_the_last_one_repeats() -> None:
    scene = Scene("REDELIVER 100,1000", count=1)
    scene.read(scene.alice, "alice")
    for wait_ms in (100, 1000, 1000, 1000):
        scene.rig.clock.advance(wait_ms - 1)
        assert scene.read(scene.bob, "bob") == []
        scene.rig.clock.advance(1)
        assert scene.read(scene.bob, "bob") == [b"1-0"]


def test_released_entries_come_first_then_due_ones_by_due_time_then_new_ones() -> None:
    scene = Scene("REDELIVER 100,1000", count=5)
    scene.read(scene.alice, "alice", "COUNT 1")
    scene.rig.clock.advance(100)
    assert scene.read(scene.alice, "alice", "COUNT 1") == [b"1-0"]  # due a second later
    scene.rig.clock.advance(50)
    assert scene.read(scene.alice, "alice", "COUNT 3") == [b"2-0", b"3-0", b"4-0"]
    scene.alice.call("XNACK s g FAIL IDS 2 4-0 3-0")
    scene.rig.clock.advance(950)
    assert scene.read(scene.bob, "bob") == [b"4-0", b"3-0", b"2-0", b"1-0", b"5-0"]


def test_count_bounds_released_due_and_new_entries_together() -> None:
    scene = Scene("REDELIVER 100", count=4)
    scene.read(scene.alice, "alice", "COUNT 3")
    scene.alice.call("XNACK s g FAIL IDS 1 3-0")
    scene.rig.clock.advance(100)
    assert scene.read(scene.bob, "bob", "COUNT 1") == [b"3-0"]
    assert scene.read(scene.bob, "bob", "COUNT 3") == [b"1-0", b"2-0", b"4-0"]


def test_blocked_reader_is_given_an_entry_when_it_becomes_due() -> None:
    scene = Scene("REDELIVER 1000", count=1)
    scene.read(scene.alice, "alice")
    assert scene.bob.call("XREADGROUP GROUP g bob BLOCK 0 STREAMS s >") == b""
    scene.rig.pass_time(999)
    assert scene.bob.output() == b""
    scene.rig.pass_time(1)
    assert ids(scene.bob.output()) == [b"1-0"]


def test_reader_that_blocked_before_the_delivery_is_woken_too() -> None:
    scene = Scene("REDELIVER 1000", count=0)
    caller = scene.rig.connect()
    assert scene.bob.call("XREADGROUP GROUP g bob BLOCK 0 STREAMS s >") == b""
    assert caller.call("XREADGROUP GROUP g alice BLOCK 0 STREAMS s >") == b""
    scene.alice.call("XADD s 1-0 f v")
    assert ids(scene.bob.output()) == [b"1-0"]
    scene.rig.pass_time(1000)
    assert ids(caller.output()) == [b"1-0"]


@pytest.mark.parametrize(
    "line",
    [
        "XREADGROUP GROUP g bob STREAMS s 0",
        "XREADGROUP GROUP g bob NOACK STREAMS s >",
        "XREADGROUP GROUP g bob CLAIM 5000 STREAMS s >",
    ],
    ids=["history", "NOACK", "CLAIM"],
)
def test_other_reads_are_given_nothing_by_the_policy(line: str) -> None:
    scene = Scene("REDELIVER 1000")
    scene.read(scene.alice, "alice")
    scene.rig.clock.advance(1000)
    assert ids(scene.bob.call(line)) == []


def test_deleted_entries_that_are_met_leave_the_pending_list() -> None:
    scene = Scene("REDELIVER 1000", count=3)
    scene.read(scene.alice, "alice")
    scene.alice.call("XDEL s 1-0", "XNACK s g FAIL IDS 1 2-0", "XDEL s 2-0")
    scene.rig.clock.advance(1000)
    assert scene.read(scene.bob, "bob", "COUNT 1") == [b"3-0"]
    assert scene.pending() == [(b"3-0", b"bob", 2)]
    assert b"XACK s g 2-0" in scene.logged


def test_settings_that_are_taken_back_have_no_effect_any_more() -> None:
    scene = Scene("REDELIVER 1000")
    scene.read(scene.alice, "alice")
    scene.alice.call("XGROUP CONFIG s g REDELIVER 0")
    scene.rig.clock.advance(5000)
    assert scene.read(scene.bob, "bob") == []
    assert scene.stream.groups[b"g"].pending.rules is None


def test_settings_apply_to_entries_that_were_pending_before() -> None:
    scene = Scene(count=2)
    scene.read(scene.alice, "alice")
    scene.rig.clock.advance(700)
    scene.alice.call("XGROUP CONFIG s g REDELIVER 1000")
    scene.rig.clock.advance(300)
    assert scene.read(scene.bob, "bob") == [b"1-0", b"2-0"]


@pytest.mark.parametrize("act", ["RENAME s t", "COPY s t", "MOVE s 1", "SWAPDB 0 1"])
def test_settings_follow_the_stream_and_readers_there_are_woken(act: str) -> None:
    scene = Scene("REDELIVER 1000 MAX-DELIVERIES 9", count=1)
    scene.read(scene.alice, "alice")
    key, db = ("t", 0) if act[0] in "RC" else ("s", 1)
    assert not scene.alice.call(act).startswith(b"-")
    scene.bob.call(f"SELECT {db}")
    assert b"MAX-DELIVERIES" in scene.bob.call(f"XGROUP CONFIG {key} g")
    assert scene.bob.call(f"XREADGROUP GROUP g bob BLOCK 0 STREAMS {key} >") == b""
    scene.rig.pass_time(1000)
    assert ids(scene.bob.output()) == [b"1-0"]


@pytest.mark.parametrize("act", ["XGROUP DESTROY s g", "DEL s", "FLUSHALL", "SET s x"])
def test_settings_end_with_the_group(act: str) -> None:
    scene = Scene("REDELIVER 1000", count=1)
    scene.alice.call(act, "DEL s", "XGROUP CREATE s g 0 MKSTREAM")
    assert scene.alice.call("XGROUP CONFIG s g") == b"*0\r\n"


def test_settings_are_shown_in_the_order_of_the_table() -> None:
    caller = Rig().connect()
    caller.call("XGROUP CREATE s g 0 MKSTREAM", "XGROUP CONFIG s g BACKOFF 5,6 GUARD yes REDELIVER 7", "HELLO 3")
    expected = b"%3\r\n$9\r\nREDELIVER\r\n$1\r\n7\r\n$5\r\nGUARD\r\n$3\r\nyes\r\n$7\r\nBACKOFF\r\n$3\r\n5,6\r\n"
    assert caller.call("XGROUP CONFIG s g") == expected


async def test_groups_are_looked_after_from_the_start_on(tmp_path: Path) -> None:
    clock = Clock()
    async with running_server(dir=bytes(tmp_path), appendonly=True, clock=clock) as running:
        peer = await running.connect()
        for line in (
            "XADD s 1-0 f v",
            "XGROUP CREATE s g 0",
            "XGROUP CONFIG s g REDELIVER 1000 MAX-DELIVERIES 1 DEADLETTER dead",
            "XREADGROUP GROUP g alice STREAMS s >",
        ):
            peer.send(*line.split())
        peer.send("ECHO", "done")
        while await peer.line() != b"done\r\n":
            pass
    clock.advance(1000)
    async with running_server(dir=bytes(tmp_path), appendonly=True, clock=clock) as running:
        running.server.turns.run_timers()
        peer = await running.connect()
        peer.send("XLEN", "dead")
        await peer.expect(b":1\r\n")
