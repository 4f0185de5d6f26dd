"""Keyspace notifications: which client gets which events, and that they cost nothing while they are off."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.commands.core.table import Flag, all_rows
from headrace.store.database import Database
from support.dialogue import read_dialogues
from support.inprocess import Caller, Rig


@pytest.fixture
def rig() -> Rig:
    return Rig()


def set_up(rig: Rig, letters: str) -> tuple[Caller, Caller]:
    """A client that is subscribed to all events, and a client that makes them."""
    listener, worker = rig.connect(), rig.connect()
    worker.call(f'CONFIG SET notify-keyspace-events "{letters}"')
    listener.call("PSUBSCRIBE __key*")
    return listener, worker


def heard(listener: Caller) -> list[bytes]:
    """`channel payload` of each message."""
    words = listener.output().split(b"\r\n")
    return [b" ".join(words[start + 6 : start + 9 : 2]) for start in range(0, len(words) - 1, 9)]


def test_an_event_goes_to_the_channel_of_its_key_and_then_to_that_of_its_name(rig: Rig) -> None:
    listener, worker = set_up(rig, "KEt")
    worker.call("SELECT 3", "XADD s * f v")
    assert heard(listener) == [b"__keyspace@3__:s xadd", b"__keyevent@3__:xadd s"]


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        ("K$", [b"__keyspace@0__:k set"]),
        ("Eg", [b"__keyevent@0__:expire k"]),
        ("EA", [b"__keyevent@0__:set k", b"__keyevent@0__:expire k"]),
        ("EAn", [b"__keyevent@0__:new k", b"__keyevent@0__:set k", b"__keyevent@0__:expire k"]),
        ("A", []),
        ("KE", []),
        ("", []),
    ],
)
def test_only_the_chosen_classes_are_published(rig: Rig, letters: str, expected: list[bytes]) -> None:
    listener, worker = set_up(rig, letters)
    worker.call("SET k v EX 100")
    assert heard(listener) == expected


@pytest.mark.parametrize("letters", ["", "A", "KE"])
def test_databases_call_no_listener_while_no_event_can_be_published(rig: Rig, letters: str) -> None:
    set_up(rig, "KEA")
    _, worker = set_up(rig, letters)
    databases: list[Database] = rig.server.store.databases
    assert not any(db.is_observed for db in databases)
    worker.call("WATCH k")
    assert databases[0].is_observed
    worker.call("UNWATCH")
    assert not databases[0].is_observed


def test_active_expiry_publishes_each_key(rig: Rig) -> None:
    listener, worker = set_up(rig, "Ex")
    worker.call("SET a 1 PX 10", "SET b 1 PX 10")
    rig.clock.advance(20)
    rig.server.expiry.run(rig.clock())
    assert sorted(heard(listener)) == [b"__keyevent@0__:expired a", b"__keyevent@0__:expired b"]


def test_a_reader_that_is_served_by_an_add_publishes_its_consumer_when_it_blocks(rig: Rig) -> None:
    listener, worker = set_up(rig, "Et")
    reader = rig.connect()
    worker.call("XGROUP CREATE s g $ MKSTREAM")
    reader.call("XREADGROUP GROUP g c BLOCK 0 STREAMS s >")
    worker.call("XADD s 1-1 f v")
    assert heard(listener) == [
        b"__keyevent@0__:xgroup-create s",
        b"__keyevent@0__:xgroup-createconsumer s",
        b"__keyevent@0__:xadd s",
    ]


def test_the_start_of_a_server_applies_the_directive() -> None:
    rig = Rig(notify_keyspace_events=b"AE")
    listener, worker = rig.connect(), rig.connect()
    listener.call("PSUBSCRIBE __key*")
    worker.call("SET k v")
    assert heard(listener) == [b"__keyevent@0__:set k"]


def test_loading_is_silent(tmp_path: Path) -> None:
    rig = Rig(dir=bytes(tmp_path))
    listener, worker = set_up(rig, "KEAn")
    worker.call("SET k v")
    listener.output()
    rig.config.enable_debug_command = b"yes"
    assert worker.call("DEBUG RELOAD") == b"+OK\r\n"
    assert heard(listener) == []
    worker.call("SET k v")
    assert heard(listener) == [b"__keyspace@0__:k set", b"__keyevent@0__:set k"]


def test_every_command_that_writes_is_compared_with_redis_as_to_its_events() -> None:
    steps = [step for dialogue in read_dialogues() if dialogue.family == "notifications" for _, step in dialogue.steps]
    writers = [
        row.name.replace("|", " ") for row in all_rows() if row.handler and row.flags & Flag.WRITE and not row.is_own
    ]
    missing = [name for name in writers if not any(f" {name}" in step for step in steps)]
    assert not missing, "add these to tests/compat/data/dialogues/notifications.txt"
