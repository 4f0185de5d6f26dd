"""XADD DELAY and AT: groups do not hand out an entry before a time. Redis has neither."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.store.policies.lines import lines_of
from headrace.store.stream import Stream
from support.inprocess import START_MS, Rig
from support.logging_server import LoggingServer
from support.policy_scene import Scene, ids

DUE_MS = START_MS + 500
READ_BOB = "XREADGROUP GROUP g bob STREAMS s >"


@pytest.mark.parametrize("due", ["DELAY 500", f"AT {DUE_MS}", "MAXLEN 9 delay 500", "DELAY 500 MAXLEN = 9 NOMKSTREAM"])
def test_delayed_entry_is_handed_out_when_it_is_due_and_not_before(due: str) -> None:
    scene = Scene(count=1)
    assert scene.alice.call(f"XADD s {due} 7-7 f v") == b"$3\r\n7-7\r\n"
    assert scene.read(scene.bob, "bob") == [b"1-0"]
    scene.rig.pass_time(499)
    assert scene.read(scene.bob, "bob") == []
    scene.rig.pass_time(1)
    assert scene.read(scene.bob, "bob") == [b"7-7"]
    assert scene.pending() == [(b"1-0", b"bob", 1), (b"7-7", b"bob", 1)]
    assert scene.stream.later is None
    scene.check()


def test_all_other_commands_see_it_at_once() -> None:
    scene = Scene(count=0)
    scene.alice.call("XADD s DELAY 500 1-0 f v")
    assert scene.alice.call("XLEN s") == b":1\r\n"
    assert ids(scene.alice.call("XRANGE s - +")) == [b"1-0"]
    assert ids(scene.alice.call("XREAD STREAMS s 0")) == [b"1-0"]


def test_entries_after_a_delayed_one_are_not_held_up() -> None:
    scene = Scene(count=0)
    scene.alice.call("XADD s DELAY 500 1-0 f v", "XADD s 2-0 f v")
    assert scene.read(scene.bob, "bob") == [b"2-0"]
    assert scene.pending() == [(b"1-0", b"", 0), (b"2-0", b"bob", 1)]
    assert scene.alice.call("XINFO GROUPS s").endswith(b"$3\r\nlag\r\n:0\r\n")


def test_reader_that_blocked_before_is_given_the_entry_at_its_due_time() -> None:
    scene = Scene(count=0)
    assert scene.bob.call("XREADGROUP GROUP g bob BLOCK 0 STREAMS s >") == b""
    scene.alice.call("XADD s DELAY 500 1-0 f v")
    scene.rig.pass_time(499)
    assert scene.bob.output() == b""
    scene.rig.pass_time(1)
    assert ids(scene.bob.output()) == [b"1-0"]
    scene.check()


def test_reader_that_blocks_afterwards_is_given_the_entry_at_its_due_time() -> None:
    scene = Scene(count=0)
    scene.alice.call("XADD s DELAY 500 1-0 f v")
    assert scene.bob.call("XREADGROUP GROUP g bob BLOCK 0 STREAMS s >") == b""
    scene.rig.pass_time(500)
    assert ids(scene.bob.output()) == [b"1-0"]


def test_each_group_is_given_it_and_a_later_group_too() -> None:
    scene = Scene(count=0)
    scene.alice.call("XGROUP CREATE s h 0", "XADD s DELAY 500 1-0 f v")
    assert scene.read(scene.bob, "bob") == []
    scene.rig.pass_time(250)
    scene.alice.call("XGROUP CREATE s i 0")
    reads = [f"XREADGROUP GROUP {name} bob STREAMS s >" for name in "ghi"]
    assert ids(scene.bob.call(*reads)) == []
    scene.rig.pass_time(250)
    assert ids(scene.bob.call(*reads)) == [b"1-0"] * 3


@pytest.mark.parametrize("due", ["DELAY 0", "AT 0", f"AT {START_MS}"])
def test_due_time_that_is_over_is_none(due: str) -> None:
    scene = Scene(count=0)
    scene.alice.call(f"XADD s {due} 1-0 f v")
    assert scene.logged == [b"XADD s 1-0 f v"]
    assert scene.read(scene.bob, "bob") == [b"1-0"]


def test_it_is_logged_as_an_addition_and_a_line_that_redis_skips() -> None:
    scene = Scene(count=0)
    before = scene.rig.server.changes_count
    scene.alice.call("XADD s MAXLEN ~ 9 DELAY 500 * f v")
    new_id = b"%d-0" % START_MS
    assert scene.rig.log.units == [
        [b"XADD s MAXLEN = 1 %b f v" % new_id, b"#HR LATER s %d %b" % (DUE_MS, new_id)],
    ]
    assert scene.rig.server.changes_count == before + 1


def test_transactions_and_scripts_log_it_too() -> None:
    for lines in (
        ("MULTI", "XADD s DELAY 500 7-0 f v", "EXEC"),
        ("EVAL \"return redis.call('XADD','s','DELAY','500','7-0','f','v')\" 0",),
    ):
        scene = Scene(count=0)
        scene.alice.call(*lines)
        assert scene.logged[-1] == b"#HR LATER s %d 7-0" % DUE_MS
        assert scene.read(scene.bob, "bob") == []
        scene.rig.pass_time(500)
        assert scene.read(scene.bob, "bob") == [b"7-0"]


def test_idempotent_duplicate_delays_nothing() -> None:
    scene = Scene(count=0)
    first = scene.alice.call("XADD s IDMP p i * f v")
    assert scene.alice.call("XADD s DELAY 500 IDMP p i * f v") == first
    assert scene.stream.later is None
    assert len(scene.read(scene.bob, "bob")) == 1


def test_nomkstream_without_a_stream_delays_nothing() -> None:
    rig = Rig()
    assert rig.connect().call("XADD s NOMKSTREAM DELAY 500 * f v") == b"$-1\r\n"
    assert rig.log.units == []


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("DELAY x", b"value is not an integer or out of range"),
        ("AT 1.5", b"value is not an integer or out of range"),
        ("DELAY -1", b"The DELAY argument must be >= 0 and at most 4503599627370496."),
        ("AT 4503599627370497", b"The AT argument must be >= 0 and at most 4503599627370496."),
        ("DELAY 5 AT 5", b"syntax error, DELAY and AT can be given only once, and not both"),
        ("DELAY 5 DELAY 5", b"syntax error, DELAY and AT can be given only once, and not both"),
    ],
)
def test_wrong_due_time_is_an_error_and_adds_nothing(words: str, error: bytes) -> None:
    scene = Scene(count=0)
    assert scene.alice.call(f"XADD s {words} * f v") == b"-ERR %b\r\n" % error
    assert scene.alice.call("XLEN s") == b":0\r\n"
    assert scene.logged == []


# -- what is kept ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "removal", ["XDEL s 1-0 2-0", "XTRIM s MAXLEN 0", "XTRIM s MINID 3-0 ACKED", "XDELEX s IDS 2 1-0 2-0"]
)
def test_due_times_of_removed_entries_are_not_kept(removal: str) -> None:
    scene = Scene(count=0)
    scene.alice.call(
        "XGROUP DESTROY s g", "XADD s DELAY 500 1-0 f v", "XADD s DELAY 500 2-0 f v", removal, "XADD s 3-0 f v"
    )
    assert list(lines_of(b"s", scene.stream)) == [] or removal.startswith("XTRIM")
    scene.rig.pass_time(500)
    assert scene.stream.later is None


def test_trimmed_entries_leave_no_more_due_times_than_a_bounded_number() -> None:
    scene = Scene(count=0)
    for _ in range(1000):
        scene.alice.call("XADD s MAXLEN 10 DELAY 1000000000 * f v")
    assert scene.stream.later is not None
    assert len(scene.stream.later) <= 100


def test_due_time_of_a_removed_entry_is_not_that_of_a_new_one_with_its_id() -> None:
    scene = Scene(count=0)
    scene.alice.call("XADD s DELAY 500 5-0 f v", "XTRIM s MAXLEN 0", "XSETID s 4-0", "XADD s 5-0 f v")
    assert scene.read(scene.bob, "bob") == [b"5-0"]


def test_entry_that_its_own_command_trims_has_no_due_time() -> None:
    scene = Scene(count=0)
    scene.alice.call("XADD s MAXLEN 0 DELAY 500 1-0 f v")
    assert scene.stream.later is None


@pytest.mark.parametrize("act", ["COPY s t", "RENAME s t", "MOVE s 1"])
def test_due_times_follow_the_stream(act: str) -> None:
    scene = Scene(count=0)
    scene.alice.call("XADD s DELAY 500 1-0 f v", act)
    key, db = ("s", 1) if act.startswith("MOVE") else ("t", 0)
    scene.bob.call(f"SELECT {db}")
    assert scene.bob.call(f"XREADGROUP GROUP g bob BLOCK 0 STREAMS {key} >") == b""
    scene.rig.pass_time(500)
    assert ids(scene.bob.output()) == [b"1-0"]


@pytest.mark.parametrize("rewrites", [[], ["BGREWRITEAOF"], ["SAVE"]])
@pytest.mark.parametrize("has_rdb_base", [True, False])
def test_restart_keeps_due_times(tmp_path: Path, rewrites: list[str], has_rdb_base: bool) -> None:
    server = LoggingServer(tmp_path, has_rdb_base=has_rdb_base)
    server.call("XGROUP CREATE s g 0 MKSTREAM", "XADD s DELAY 500 1-0 f v", "XADD s 2-0 f v", *rewrites)
    server.run_slices()
    server.stop()
    again = LoggingServer(tmp_path, started_ms=499)
    try:
        assert ids(again.call(READ_BOB)) == [b"2-0"]
        again.clock.advance(1)
        again.server.upkeep.run(again.clock())
        assert ids(again.call(READ_BOB)) == [b"1-0"]
    finally:
        again.stop()


def test_line_for_an_entry_that_is_gone_is_skipped(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path)
    server.call("XADD s DELAY 500 1-0 f v", "XADD s DELAY 500 2-0 f v", "XDEL s 1-0")
    stream = server.server.store.databases[0].streams[b"s"]
    assert list(lines_of(b"s", stream)) == [[b"LATER", b"s", b"%d" % DUE_MS, b"2-0"]]
    server.stop()
    again = LoggingServer(tmp_path)
    later = again.server.store.databases[0].streams[b"s"].later
    assert later is not None
    assert len(later) == 1
    again.stop()


def test_memory_of_due_times_is_counted() -> None:
    scene = Scene(count=0)
    scene.alice.call("XADD s DELAY 500 1-0 f v")
    undelayed = Scene(count=0)
    undelayed.alice.call("XADD s 1-0 f v")
    assert scene.stream.memory_size > undelayed.stream.memory_size


def test_stream_with_due_times_is_not_short() -> None:
    scene = Scene(count=0)
    scene.alice.call("XGROUP DESTROY s g")
    assert isinstance(scene.stream, Stream)
    scene.alice.call("XADD s DELAY 500 1-0 f v")
    assert scene.stream.short() is None
