"""XREDRIVE: dead letters go back to their groups. Redis does not have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.inprocess import START_MS, Rig
from support.logging_server import LoggingServer
from support.policy_scene import Scene, ids

BURY = "REDELIVER 60000 MAX-DELIVERIES 1 DEADLETTER dead"
MOVED_1 = b"*2\r\n:1\r\n*0\r\n"


def buried(count: int = 1, settings: str = BURY) -> Scene:
    """A scene whose entries are all dead letters."""
    scene = Scene(settings, count=count)
    for entry_id in scene.read(scene.alice, "alice"):
        scene.alice.call(f"XNACK s g FAIL IDS 1 {entry_id.decode()}")
    assert scene.alice.call("XLEN dead") == b":%d\r\n" % count
    scene.rig.log.units.clear()
    return scene


def test_entry_that_is_still_in_its_stream_is_given_to_its_group_again() -> None:
    scene = buried()
    assert scene.alice.call("XREDRIVE dead") == MOVED_1
    assert scene.alice.call("XLEN dead") == b":0\r\n"
    assert scene.pending() == [(b"1-0", b"", 0)]
    assert scene.read(scene.bob, "bob") == [b"1-0"]
    assert scene.pending() == [(b"1-0", b"bob", 1)]
    scene.check()


def test_plain_read_of_a_group_without_settings_gets_it_too() -> None:
    scene = buried()
    scene.alice.call("XGROUP CONFIG s g REDELIVER 0 MAX-DELIVERIES 0 DEADLETTER 0", "XREDRIVE dead")
    assert scene.read(scene.bob, "bob") == [b"1-0"]


def test_reader_that_waits_gets_it() -> None:
    scene = buried()
    assert scene.bob.call("XREADGROUP GROUP g bob BLOCK 0 STREAMS s >") == b""
    scene.alice.call("XREDRIVE dead")
    assert ids(scene.bob.output()) == [b"1-0"]


def test_it_is_logged_as_commands_of_redis_in_one_transaction() -> None:
    scene = buried()
    scene.alice.call("XREDRIVE dead")
    assert scene.rig.log.units == [
        [
            b"XNACK s g FAIL IDS 1 1-0 RETRYCOUNT 0 FORCE",
            b"#HR DUE s g %d 1-0" % START_MS,
            b"XDEL dead %d-0" % START_MS,
        ]
    ]


def test_fields_of_a_deleted_entry_become_a_new_entry() -> None:
    scene = buried()
    scene.alice.call("XDEL s 1-0")
    assert scene.alice.call("XREDRIVE dead") == MOVED_1
    assert scene.alice.call("XRANGE s - +") == (b"*1\r\n*2\r\n$15\r\n%d-0\r\n*2\r\n$1\r\nf\r\n$2\r\nv1\r\n" % START_MS)
    assert scene.logged[-2:] == [b"XADD s %d-0 f v1" % START_MS, b"XDEL dead %d-0" % START_MS]
    assert scene.read(scene.bob, "bob") == [b"%d-0" % START_MS]


def test_to_adds_the_fields_to_another_stream() -> None:
    scene = buried(2)
    assert scene.alice.call("XREDRIVE dead TO other") == b"*2\r\n:2\r\n*0\r\n"
    assert b"v1" in scene.alice.call("XRANGE other - +")
    assert scene.pending() == []


def test_oldest_come_first_up_to_count() -> None:
    scene = buried(3)
    assert scene.alice.call("XREDRIVE dead COUNT 2") == b"*2\r\n:2\r\n*0\r\n"
    assert scene.read(scene.bob, "bob") == [b"1-0", b"2-0"]
    assert scene.alice.call("XLEN dead") == b":1\r\n"


def test_group_selects_dead_letters() -> None:
    scene = buried()
    assert scene.alice.call("XREDRIVE dead GROUP h") == b"*2\r\n:0\r\n*0\r\n"
    assert scene.alice.call("XREDRIVE dead GROUP g") == MOVED_1


def letter(stream: str = "s", group: str = "g", entry_id: str = "1-0") -> str:
    return f"XADD dead * f v _stream {stream} _id {entry_id} _group {group}"


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["XADD dead * f v"], b"it has no fields _stream, _id and _group"),
        (["XADD dead * f v _stream s _id 1-0"], b"it has no fields _stream, _id and _group"),
        ([letter(group="h")], b"its group does not exist"),
        ([letter("missing")], b"its group does not exist"),
        (["SET text x", letter("text")], b"WRONGTYPE Operation against a key holding the wrong kind of value"),
        ([letter(entry_id="x")], b"its field _id is no entry ID"),
        (["XREADGROUP GROUP g alice STREAMS s >", letter()], b"its group has it pending already"),
        ([letter("dead")], b"it comes from this stream"),
        (["XADD dead * _stream s _id 9-9 _group g"], b"it has no fields of its own"),
    ],
)
def test_dead_letter_that_cannot_be_moved_stays_and_has_a_reason(lines: list[str], reason: bytes) -> None:
    scene = Scene(count=1)
    scene.alice.call(*lines)
    reply = scene.alice.call("XREDRIVE dead")
    assert reply.startswith(b"*2\r\n:0\r\n*1\r\n*2\r\n$15\r\n%d-0\r\n" % START_MS)
    assert reply.endswith(b"\r\n%b\r\n" % reason)
    assert scene.alice.call("XLEN dead") == b":1\r\n"
    scene.check()


def test_letters_after_one_that_stays_are_moved() -> None:
    scene = Scene(count=1)
    scene.alice.call("XADD dead * f v", "XADD dead * f v _stream s _id 9-0 _group g")
    assert scene.alice.call("XREDRIVE dead COUNT 1").startswith(b"*2\r\n:1\r\n*1\r\n")


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("XREDRIVE dead COUNT", b"syntax error"),
        ("XREDRIVE dead COUNT 1 COUNT 1", b"syntax error"),
        ("XREDRIVE dead FROM x", b"syntax error"),
        ("XREDRIVE dead COUNT 0", b"value is not an integer or out of range"),
        ("XREDRIVE dead COUNT 10001", b"value is not an integer or out of range"),
        ("XREDRIVE dead TO dead", b"TO must name another stream"),
    ],
)
def test_wrong_arguments_are_errors(line: str, error: bytes) -> None:
    assert Rig().connect().call(line) == b"-ERR %b\r\n" % error


def test_missing_stream_has_no_dead_letters_and_a_string_is_an_error() -> None:
    caller = Rig().connect()
    assert caller.call("XREDRIVE dead") == b"*2\r\n:0\r\n*0\r\n"
    assert caller.call("SET dead x", "XREDRIVE dead").endswith(
        b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
    )


# -- rights ------------------------------------------------------------------------------------------


def test_user_must_be_allowed_to_write_the_stream_that_gets_the_entry() -> None:
    scene = buried()
    scene.alice.call("ACL SETUSER ann on nopass ~dead %R~s +@all")
    scene.bob.call("AUTH ann any")
    assert scene.bob.call("XREDRIVE dead").endswith(b"\r\nno permission to write its stream\r\n")
    assert scene.bob.call("XREDRIVE dead TO t") == b"-NOPERM No permissions to access a key\r\n"
    scene.alice.call("ACL SETUSER ann ~s")
    assert scene.bob.call("XREDRIVE dead") == MOVED_1


def test_dead_letter_stream_of_a_group_needs_the_right_to_write_it() -> None:
    scene = Scene()
    scene.alice.call("ACL SETUSER ann on nopass ~s %R~dead +@all")
    scene.bob.call("AUTH ann any")
    line = "XGROUP CONFIG s g MAX-DELIVERIES 3 DEADLETTER"
    assert scene.bob.call(f"{line} dead") == b"-NOPERM No permissions to access a key\r\n"
    assert scene.bob.call(f'{line} ""') == b"+OK\r\n"
    scene.alice.call("ACL SETUSER ann %W~dead")
    assert scene.bob.call(f"{line} dead") == b"+OK\r\n"


@pytest.mark.parametrize(
    ("request_line", "keys"),
    [
        ("XGROUP CONFIG s g", [b"s"]),
        ("XGROUP CONFIG s g deadletter d", [b"s", b"d"]),
        ("XGROUP CONFIG s g ORDER-BY DEADLETTER GUARD yes", [b"s"]),
        ("XREDRIVE dead COUNT 3 TO t", [b"dead", b"t"]),
        ("XREDRIVE dead GROUP TO", [b"dead"]),
    ],
)
def test_command_getkeys_lists_keys_that_options_name(request_line: str, keys: list[bytes]) -> None:
    reply = Rig().connect().call(f"COMMAND GETKEYS {request_line}")
    assert reply == b"*%d\r\n" % len(keys) + b"".join(b"$%d\r\n%b\r\n" % (len(key), key) for key in keys)


# -- restart -----------------------------------------------------------------------------------------


def test_restart_still_gives_it_to_a_plain_read(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path)
    server.call("XADD s 1-0 f v", "XGROUP CREATE s g $", "XADD dead * f v _stream s _id 1-0 _group g", "XREDRIVE dead")
    server.stop()
    again = LoggingServer(tmp_path, started_ms=5)
    try:
        assert ids(again.call("XREADGROUP GROUP g bob STREAMS s >")) == [b"1-0"]
        assert again.call("XLEN dead") == b":0\r\n"
    finally:
        again.stop()


def test_transactions_and_scripts_run_it() -> None:
    for lines in (["MULTI", "XREDRIVE dead", "EXEC"], ["EVAL \"return redis.call('XREDRIVE','dead')\" 1 dead"]):
        scene = buried()
        scene.alice.call(*lines)
        assert scene.read(scene.bob, "bob") == [b"1-0"]
