"""GUARD and LEASE-MAX: an entry is not idle while the connection of its delivery is open. Redis does not have it."""

from __future__ import annotations

import pytest

from headrace.commands.clients.client import GOVERNED_MAX
from support.policy_scene import Scene, ids

READS = [
    "XREADGROUP GROUP g bob STREAMS s >",
    "XREADGROUP GROUP g bob CLAIM 1000 STREAMS s >",
    "XAUTOCLAIM s g bob 1000 0",
    "XCLAIM s g bob 1000 1-0",
]


def leave(scene: Scene) -> None:
    """Close alice's connection."""
    scene.rig.dispatcher.detach(scene.alice.session)


@pytest.mark.parametrize("line", READS)
def test_entry_is_skipped_while_its_connection_is_open(line: str) -> None:
    scene = Scene("GUARD yes REDELIVER 1000", count=1)
    scene.read(scene.alice, "alice")
    scene.rig.pass_time(10_000)
    assert b"1-0" not in ids(scene.bob.call(line))
    leave(scene)
    assert b"1-0" in ids(scene.bob.call(line))


def test_xclaim_without_idle_time_takes_a_guarded_entry() -> None:
    scene = Scene("GUARD yes", count=1)
    scene.read(scene.alice, "alice")
    assert ids(scene.bob.call("XCLAIM s g bob 0 1-0")) == [b"1-0"]


def test_reset_ends_the_guard() -> None:
    scene = Scene("GUARD yes REDELIVER 1000", count=1)
    scene.read(scene.alice, "alice")
    scene.rig.pass_time(1000)
    scene.alice.call("RESET")
    assert scene.read(scene.bob, "bob") == [b"1-0"]


def test_blocked_reader_is_given_the_entry_when_the_connection_ends() -> None:
    scene = Scene("GUARD yes REDELIVER 1000", count=1)
    scene.read(scene.alice, "alice")
    assert scene.bob.call("XREADGROUP GROUP g bob BLOCK 0 STREAMS s >") == b""
    scene.rig.pass_time(5000)
    assert scene.bob.output() == b""
    leave(scene)
    scene.rig.pass_time(0)
    assert ids(scene.bob.output()) == [b"1-0"]


def test_entry_is_not_idle_yet_when_its_connection_ends_early() -> None:
    scene = Scene("GUARD yes REDELIVER 1000", count=1)
    scene.read(scene.alice, "alice")
    leave(scene)
    scene.rig.pass_time(999)
    assert scene.read(scene.bob, "bob") == []
    scene.rig.pass_time(1)
    assert scene.read(scene.bob, "bob") == [b"1-0"]


def test_lease_bounds_the_guard() -> None:
    scene = Scene("GUARD yes LEASE-MAX 5000 REDELIVER 1000", count=1)
    scene.read(scene.alice, "alice")
    assert scene.bob.call("XREADGROUP GROUP g bob BLOCK 0 STREAMS s >") == b""
    scene.rig.pass_time(4999)
    assert scene.bob.output() == b""
    scene.rig.pass_time(1)
    assert ids(scene.bob.output()) == [b"1-0"]


def test_renewal_by_another_connection_of_the_owner_leaves_the_guard_where_it_is() -> None:
    scene = Scene("GUARD yes REDELIVER 1000", count=1)
    scene.read(scene.alice, "alice")
    other = scene.rig.connect()
    assert ids(other.call("XCLAIM s g alice 0 1-0 JUSTID IFOWNED")) == [b"1-0"]
    scene.rig.dispatcher.detach(other.session)
    scene.rig.pass_time(1000)
    assert scene.read(scene.bob, "bob") == []


def test_guarded_entries_are_counted() -> None:
    scene = Scene("GUARD yes", count=2)
    scene.read(scene.alice, "alice")
    assert scene.report()[b"guarded"] == 2
    scene.alice.call("XACK s g 1-0")
    assert scene.report()[b"guarded"] == 1


def test_idle_time_is_shown_as_always() -> None:
    scene = Scene("GUARD yes", count=1)
    scene.read(scene.alice, "alice")
    scene.rig.clock.advance(77)
    assert b":77\r\n" in scene.alice.call("XPENDING s g - + 9")


def test_connection_that_calls_a_script_guards_what_the_script_is_given() -> None:
    scene = Scene("GUARD yes REDELIVER 1000", count=1)
    script = "return redis.call('XREADGROUP', 'GROUP', 'g', 'alice', 'STREAMS', KEYS[1], '>')"
    assert ids(scene.alice.call(f'EVAL "{script}" 1 s')) == [b"1-0"]
    scene.rig.pass_time(1000)
    assert scene.read(scene.bob, "bob") == []
    leave(scene)
    assert scene.read(scene.bob, "bob") == [b"1-0"]


@pytest.mark.parametrize("act", ["RENAME s t", "MOVE s 1", "SWAPDB 0 1"])
def test_reader_is_woken_by_the_end_of_a_connection_that_knew_the_stream_by_another_name(act: str) -> None:
    scene = Scene("GUARD yes REDELIVER 1000", count=1)
    scene.read(scene.alice, "alice")
    caller = scene.rig.connect()
    caller.call(act)
    scene.rig.pass_time(5000)
    key, db = ("t", 0) if act.startswith("RENAME") else ("s", 1)
    scene.bob.call(f"SELECT {db}")
    assert scene.bob.call(f"XREADGROUP GROUP g bob BLOCK 0 STREAMS {key} >") == b""
    leave(scene)
    scene.rig.pass_time(0)
    assert ids(scene.bob.output()) == [b"1-0"]


def test_connection_forgets_groups_that_are_gone() -> None:
    scene = Scene(count=0)
    for number in range(1000):
        scene.alice.call(
            f"XGROUP CREATE k{number} g 0 MKSTREAM",
            f"XGROUP CONFIG k{number} g GUARD yes",
            f"XADD k{number} 1-0 f v",
            f"XREADGROUP GROUP g c STREAMS k{number} >",
            f"DEL k{number}",
        )
    assert len(scene.alice.session.client.governed) <= GOVERNED_MAX + 1


def test_end_of_a_lease_is_found_without_a_look_at_what_was_acknowledged() -> None:
    scene = Scene("GUARD yes LEASE-MAX 5000 REDELIVER 1000", count=3000)
    for _ in range(3000):
        scene.alice.call("XREADGROUP GROUP g alice COUNT 1 STREAMS s >")
    rules = scene.stream.groups[b"g"].pending.rules
    assert rules is not None
    assert rules.lease is not None
    scene.alice.call(*(f"XACK s g {number}-0" for number in range(1, 1400)))
    runs = rules.lease._by_time
    assert runs.first_after(-1) is not None
    assert runs._head >= 1399
