"""XGROUP CONFIG with bad input: an error in Redis' words, and nothing is changed. The cases are made from the table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.store.policies.settings import GROUP_SETTINGS, Kind
from support.inprocess import Rig

NOT_AN_INTEGER = b"-ERR value is not an integer or out of range\r\n"
SYNTAX = b"-ERR syntax error\r\n"
BAD_NUMBERS = ["x", "-1", "+1", "01", "1.5", "9223372036854775808", str(2**52 + 1), "' 1'", "1e3"]
GOOD = {Kind.TIMES: "5", Kind.NUMBER: "5", Kind.FLAG: "yes", Kind.RELEASE: "release", Kind.NAME: "x"}
# What lets all options stand together.
ALL = " ".join(f"{setting.name.decode()} {GOOD[setting.kind]}" for setting in GROUP_SETTINGS)


def bad_words() -> Iterator[tuple[str, bytes]]:
    """Options with bad values, and their errors."""
    for setting in GROUP_SETTINGS:
        name = setting.name.decode()
        yield name, SYNTAX
        yield f"{name} {GOOD[setting.kind]} {name} {GOOD[setting.kind]}", SYNTAX
        if setting.kind in (Kind.TIMES, Kind.NUMBER):
            for number in BAD_NUMBERS:
                yield f"{name} {number}", NOT_AN_INTEGER
        if setting.kind is Kind.TIMES:
            for times in ("1,", ",1", "1,,2", "1,0", "1,x"):
                yield f"{name} {times}", NOT_AN_INTEGER
            yield f"{name} {','.join(['1'] * 65)}", b"-ERR %b takes at most 64 values\r\n" % setting.name
        if setting.kind in (Kind.FLAG, Kind.RELEASE):
            wanted = GOOD[setting.kind].encode()
            yield f"{name} maybe", b"-ERR %b must be '%b' or 'no'\r\n" % (setting.name, wanted)
        if setting.needs is not None:
            error = b"-ERR %b has no meaning without %b\r\n" % (setting.name, setting.needs)
            yield f"{name} {GOOD[setting.kind]}", error
    yield "NOSUCH 1", SYNTAX
    yield "DEADLETTER s", b"-ERR DEADLETTER must name another stream\r\n"


CASES = list(bad_words())


@pytest.mark.parametrize(("words", "error"), CASES, ids=[words[:60] for words, _ in CASES])
def test_bad_options_are_refused_and_change_nothing(words: str, error: bytes) -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("XGROUP CREATE s g 0 MKSTREAM", "XGROUP CONFIG s g BACKOFF 77")
    before = caller.call("XGROUP CONFIG s g")
    rig.log.units.clear()
    for line in (f"XGROUP CONFIG s g {words}", f"XGROUP CONFIG s g MAX-PENDING-GROUP 3 {words}"):
        if "MAX-PENDING-GROUP 3" in line and "MAX-PENDING-GROUP" in words:
            continue
        assert caller.call(line) == error
        assert caller.call("MULTI", line, "EXEC").endswith(error)
    assert caller.call("XGROUP CONFIG s g") == before
    assert rig.log.units == []


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("XGROUP CONFIG s", b"-ERR wrong number of arguments for 'xgroup|config' command\r\n"),
        ("XGROUP CONFIG s other MAX-PENDING 1", b"-NOGROUP No such consumer group 'other' for key name 's'\r\n"),
        ("XGROUP CONFIG k g MAX-PENDING 1", b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
        ("XINFO POLICY s", b"-ERR wrong number of arguments for 'xinfo|policy' command\r\n"),
        ("XINFO POLICY s other", b"-NOGROUP No such consumer group 'other' for key name 's'\r\n"),
        ("XINFO POLICY missing g", b"-ERR no such key\r\n"),
        ("XINFO POLICY k g", b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
    ],
)
def test_missing_and_wrong_keys_are_errors_in_the_words_of_redis(line: str, error: bytes) -> None:
    caller = Rig().connect()
    caller.call("XGROUP CREATE s g 0 MKSTREAM", "SET k v")
    assert caller.call(line) == error


def test_all_options_together_are_accepted_shown_and_taken_back() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("XGROUP CREATE s g 0 MKSTREAM")
    assert caller.call(f"XGROUP CONFIG s g {ALL}") == b"+OK\r\n"
    assert rig.log.units[-1] == [b"#HR XGROUP CONFIG s g " + ALL.encode()]
    shown = caller.call("XGROUP CONFIG s g").split(b"\r\n")[2::2]
    assert b" ".join(shown) == ALL.encode()
    for word in ("0", "no", "''"):
        taken_back = " ".join(f"{setting.name.decode()} {word}" for setting in GROUP_SETTINGS)
        assert caller.call(f"XGROUP CONFIG s g {ALL}", f"XGROUP CONFIG s g {taken_back}") == b"+OK\r\n+OK\r\n"
        assert caller.call("XGROUP CONFIG s g") == b"*0\r\n"
        assert rig.log.units[-1] == [b"#HR XGROUP CONFIG s g"]


def test_equal_settings_are_not_logged_again() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("XGROUP CREATE s g 0 MKSTREAM", "XGROUP CONFIG s g BACKOFF 5")
    rig.log.units.clear()
    assert caller.call("XGROUP CONFIG s g BACKOFF 5") == b"+OK\r\n"
    assert rig.log.units == []


def test_user_without_the_right_sets_nothing() -> None:
    rig = Rig()
    caller, other = rig.connect(), rig.connect()
    caller.call("XGROUP CREATE s g 0 MKSTREAM", "ACL SETUSER reader on nopass %R~* +@all")
    assert b"NOPERM" in other.call("AUTH reader x", "XGROUP CONFIG s g MAX-PENDING 1")
    assert caller.call("XGROUP CONFIG s g") == b"*0\r\n"
