"""`stream-group-defaults`: new groups get settings by the keys of their streams. Redis does not have it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.server.configuration.config import Config
from headrace.server.configuration.config_lines import ConfigError
from headrace.server.configuration.configfile import load_text
from support.inprocess import Caller, Rig
from support.logging_server import LoggingServer

LINES = b"""
stream-group-defaults jobs:* REDELIVER 60000 MAX-DELIVERIES 5 DEADLETTER dead
stream-group-defaults jobs:slow:* redeliver 3600000
"""
VALUE = b"jobs:* REDELIVER 60000 MAX-DELIVERIES 5 DEADLETTER dead ; jobs:slow:* redeliver 3600000"


def loaded(text: bytes = LINES) -> Config:
    config = Config()
    load_text(config, text)
    return config


def settings(caller: Caller, key: str) -> list[bytes]:
    assert caller.call(f"XGROUP CREATE {key} g 0 MKSTREAM") == b"+OK\r\n"
    return caller.call(f"XGROUP CONFIG {key} g").split(b"\r\n")[2::2]


def test_new_group_gets_the_settings_of_its_key() -> None:
    caller = Rig(stream_group_defaults=loaded().stream_group_defaults).connect()
    assert settings(caller, "jobs:a") == [b"REDELIVER", b"60000", b"MAX-DELIVERIES", b"5", b"DEADLETTER", b"dead"]
    assert settings(caller, "jobs:slow:a")[:2] == [b"REDELIVER", b"3600000"]
    assert settings(caller, "other") == []


def test_settings_are_logged_with_the_group() -> None:
    rig = Rig(stream_group_defaults=b"s GUARD yes")
    rig.connect().call("XGROUP CREATE s g 0 MKSTREAM")
    assert rig.log.units == [[b"XGROUP CREATE s g 0 MKSTREAM", b"#HR XGROUP CONFIG s g GUARD yes"]]


def test_what_has_no_meaning_for_a_key_is_left_out() -> None:
    caller = Rig(stream_group_defaults=b"* DEADLETTER dead DEADLETTER-DELETE yes GUARD yes LEASE-MAX 9").connect()
    caller.call("CONFIG SET stream-group-defaults '* DEADLETTER dead DEADLETTER-DELETE yes ; * BACKOFF 5'")
    assert settings(caller, "dead") == [b"BACKOFF", b"5"]


def test_config_set_applies_to_groups_that_are_created_later_and_config_get_shows_it() -> None:
    caller = Rig().connect()
    assert settings(caller, "a") == []
    caller.call("CONFIG SET stream-group-defaults '* BACKOFF 5 ; b BACKOFF 6'")
    assert settings(caller, "b") == [b"BACKOFF", b"6"]
    assert caller.call("XGROUP CONFIG a g") == b"*0\r\n"
    assert b"\r\n* BACKOFF 5 ; b BACKOFF 6\r\n" in caller.call("CONFIG GET stream-group-defaults")
    caller.call("CONFIG SET stream-group-defaults ''")
    assert settings(caller, "c") == []


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("s", "rule 's': options and values must come in pairs"),
        ("s GUARD", "rule 's': options and values must come in pairs"),
        ("s GUARDS yes", "rule 's': 'GUARDS' is no option of XGROUP CONFIG"),
        ("s BACKOFF x", "rule 's': value is not an integer or out of range"),
        ("s LEASE-MAX 5", "rule 's': LEASE-MAX has no meaning without GUARD"),
        ('s DEADLETTER "a b"', "rule 's': words may not be empty or have blanks"),
    ],
)
def test_wrong_rule_is_refused_with_one_line(words: str, reason: str) -> None:
    with pytest.raises(ConfigError) as error:
        loaded(f"stream-group-defaults {words}".encode())
    assert reason in str(error.value)
    if '"' not in words:
        reply = Rig().connect().call(f"CONFIG SET stream-group-defaults '{words}'")
        assert reply.endswith(f"- {reason}\r\n".encode())


def test_config_rewrite_writes_a_line_for_each_rule(tmp_path: Path) -> None:
    path = tmp_path / "redis.conf"
    path.write_bytes(LINES)
    config = loaded()
    assert config.stream_group_defaults == VALUE
    config.file_path = os.fsencode(path)
    config.set_many([(b"stream-group-defaults", VALUE + b" ; it's#1 GUARD yes")])
    config.rewrite()
    again = loaded(path.read_bytes())
    assert again.stream_group_defaults == VALUE + b" ; it's#1 GUARD yes"
    assert path.read_bytes().count(b"stream-group-defaults") == 3


def test_rule_that_is_given_again_is_kept_once() -> None:
    assert loaded(LINES + LINES).stream_group_defaults == VALUE


def test_replay_gives_no_defaults(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path)
    server.call("XGROUP CREATE s g 0 MKSTREAM")
    server.stop()
    config = Config()
    config.stream_group_defaults = b"* GUARD yes"
    again = LoggingServer(tmp_path, config=config)
    try:
        assert again.call("XGROUP CONFIG s g") == b"*0\r\n"
    finally:
        again.stop()
