"""Strings: replies, and records for a replay."""

from __future__ import annotations

import pytest

from support.inprocess import START_MS, Rig

DIGEST_OF_V = "f7042be43fb80714"
WRONG_TYPE = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
SYNTAX = b"-ERR syntax error\r\n"
NOT_AN_INTEGER = b"-ERR value is not an integer or out of range\r\n"
NULL = b"$-1\r\n"
OK = b"+OK\r\n"


def expire_error(name: str) -> bytes:
    return b"-ERR invalid expire time in '%b' command\r\n" % name.encode()


@pytest.mark.parametrize(
    ("options", "reply", "value"),
    [
        ("", OK, b"w"),
        ("NX", NULL, b"v"),
        ("XX", OK, b"w"),
        ("NX GET", b"$1\r\nv\r\n", b"v"),
        ("xx get", b"$1\r\nv\r\n", b"w"),
        ("IFEQ v", OK, b"w"),
        ("IFEQ x", NULL, b"v"),
        ("IFEQ x GET", b"$1\r\nv\r\n", b"v"),
        ("IFNE v", NULL, b"v"),
        ("IFNE x", OK, b"w"),
        (f"IFDEQ {DIGEST_OF_V}", OK, b"w"),
        (f"IFDEQ {DIGEST_OF_V.upper()}", OK, b"w"),
        ("IFDEQ 0000000000000000", NULL, b"v"),
        (f"IFDNE {DIGEST_OF_V}", NULL, b"v"),
        ("IFDNE zzzzzzzzzzzzzzzz", OK, b"w"),
        ("IFDEQ abc", b"-ERR must be exactly 16 hexadecimal characters\r\n", b"v"),
        ("NX XX", SYNTAX, b"v"),
        ("IFEQ v NX", SYNTAX, b"v"),
        ("IFEQ v IFNE x", SYNTAX, b"v"),
        ("IFEQ", SYNTAX, b"v"),
        ("EX", SYNTAX, b"v"),
        ("EX 1 PX 1", SYNTAX, b"v"),
        ("EX 1 KEEPTTL", SYNTAX, b"v"),
        ("KEEPTTL EX 1", SYNTAX, b"v"),
        ("PERSIST", SYNTAX, b"v"),
        ("EX x FOO", SYNTAX, b"v"),
        ("EX x", NOT_AN_INTEGER, b"v"),
        ("EX 0", expire_error("set"), b"v"),
        ("PXAT -1", expire_error("set"), b"v"),
        ("EX 9223372036854775807", expire_error("set"), b"v"),
        ("PX 9223372036854775807", expire_error("set"), b"v"),
        ("PXAT 9223372036854775807", OK, b"w"),
        ("IFEQ x IFEQ v", OK, b"w"),
        ("XX XX GET GET KEEPTTL KEEPTTL", b"$1\r\nv\r\n", b"w"),
    ],
)
def test_set_over_a_string(options: str, reply: bytes, value: bytes) -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("SET k v")
    assert caller.call(f"SET k w {options}") == reply
    assert rig.server.store.databases[0].keys[b"k"] == value


@pytest.mark.parametrize(
    ("options", "reply", "exists"),
    [
        ("NX GET", NULL, True),
        ("XX", NULL, False),
        ("IFEQ v", NULL, False),
        ("IFNE v", OK, True),
        ("IFDEQ abc", NULL, False),
        ("IFDNE abc", OK, True),
    ],
)
def test_set_of_a_missing_key(options: str, reply: bytes, exists: bool) -> None:
    caller = Rig().connect()
    assert caller.call(f"SET k v {options}") == reply
    assert caller.call("EXISTS k") == b":%d\r\n" % exists


@pytest.mark.parametrize("options", ["GET", "NX GET", "IFEQ v", "IFNE v", "IFDEQ abc"])
def test_set_that_reads_a_stream_is_refused(options: str) -> None:
    caller = Rig().connect()
    caller.call("XADD s 1-1 f v")
    assert caller.call(f"SET s v {options}", "TYPE s") == WRONG_TYPE + b"+stream\r\n"
    assert caller.call("SET s v XX", "TYPE s") == OK + b"+string\r\n"


@pytest.mark.parametrize(
    ("lines", "record"),
    [
        (["SET k v EX 10"], b"SET k v PXAT %d" % (START_MS + 10_000)),
        (["SET k v PX 10"], b"SET k v PXAT %d" % (START_MS + 10)),
        (["SET k v EXAT 1800000000"], b"SET k v PXAT 1800000000000"),
        (["SET k v PX 10 PX 20"], b"SET k v PXAT %d" % (START_MS + 20)),
        (["SET k v NX GET"], b"SET k v"),
        (["SET k v KEEPTTL"], b"SET k v KEEPTTL"),
        (["SET k v", "SET k w PXAT 1"], b"DEL k"),
        (["SETEX k 10 v"], b"SET k v PXAT %d" % (START_MS + 10_000)),
        (["PSETEX k 10 v"], b"SET k v PXAT %d" % (START_MS + 10)),
        (["SETNX k v"], b"SET k v"),
        (["GETSET k v"], b"SET k v"),
        (["SET k v", "GETDEL k"], b"DEL k"),
        (["SET k v", "GETEX k EX 10"], b"PEXPIREAT k %d" % (START_MS + 10_000)),
        (["SET k v", "GETEX k PX 5 PX 7"], b"PEXPIREAT k %d" % (START_MS + 7)),
        (["SET k v", "GETEX k EXAT 1"], b"DEL k"),
        (["SET k v EX 10", "GETEX k PERSIST PERSIST"], b"PERSIST k"),
        (["MSET a 1 b 2"], b"MSET a 1 b 2"),
        (["INCRBY k 5"], b"INCRBY k 5"),
        (["APPEND k v"], b"APPEND k v"),
    ],
)
def test_log_gets_the_effect_in_absolute_values(lines: list[str], record: bytes) -> None:
    rig = Rig()
    rig.connect().call(*lines)
    assert rig.log.units[-1] == [record]
    assert len(rig.log.units) == len(lines)


@pytest.mark.parametrize(
    "line",
    [
        "SET k w NX", "SET no v XX", "SETNX k w", "GETEX k", "GETEX k PERSIST", "GETEX no EX 0", "GETDEL no",
        "INCRBY k x", "INCR k", "MSET a 1 b", "GET k", "MGET k no", "STRLEN k",
    ],
)  # fmt: skip
def test_command_without_effect_logs_nothing(line: str) -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("SET k v")
    rig.log.units.clear()
    caller.call(line)
    assert rig.log.units == []


def test_key_found_expired_is_deleted_in_the_log_before_the_command() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("SET k 5 PX 10")
    rig.clock.advance(11)
    assert caller.call("INCR k") == b":1\r\n"
    assert rig.log.units[-1] == [b"DEL k", b"INCR k"]


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("GETEX k", b"$1\r\nv\r\n"),
        ("GETEX k EX 0", expire_error("getex")),
        ("GETEX k EX x", NOT_AN_INTEGER),
        ("GETEX k EX", SYNTAX),
        ("GETEX k EX 10 PX 10", SYNTAX),
        ("GETEX k PERSIST EX 10", SYNTAX),
        ("GETEX k KEEPTTL", SYNTAX),
        ("GETEX k EX 0 EX 10", b"$1\r\nv\r\n"),
        ("GETEX no EX 0", NULL),
        ("GETEX no FOO", SYNTAX),
        ("GETEX s EX 0", WRONG_TYPE),
        ("GETEX s FOO", SYNTAX),
        ("SETEX k 0 v", expire_error("setex")),
        ("PSETEX k -1 v", expire_error("psetex")),
        ("SETEX k x v", NOT_AN_INTEGER),
        ("SETEX s 10 v", OK),
        ("MSET a 1 b", b"-ERR wrong number of arguments for 'mset' command\r\n"),
        ("MGET k s no", b"*3\r\n$1\r\nv\r\n$-1\r\n$-1\r\n"),
        ("APPEND k w", b":2\r\n"),
        ("APPEND new \"\"", b":0\r\n"),
        ("STRLEN no", b":0\r\n"),
        *((line, WRONG_TYPE) for line in ("GET s", "GETDEL s", "GETSET s v", "STRLEN s", "APPEND s v", "INCR s")),
    ],
)  # fmt: skip
def test_replies(line: str, reply: bytes) -> None:
    caller = Rig().connect()
    caller.call("SET k v", "XADD s 1-1 f v")
    assert caller.call(line) == reply


@pytest.mark.parametrize(
    ("value", "line", "reply"),
    [
        ("10", "INCR k", b":11\r\n"),
        ("10", "DECRBY k -5", b":15\r\n"),
        ("-9223372036854775807", "DECR k", b":-9223372036854775808\r\n"),
        ("9223372036854775807", "INCR k", b"-ERR increment or decrement would overflow\r\n"),
        ("-9223372036854775808", "DECR k", b"-ERR increment or decrement would overflow\r\n"),
        ("0", "DECRBY k -9223372036854775808", b"-ERR decrement would overflow\r\n"),
        ("-1", "DECRBY k -9223372036854775807", b":9223372036854775806\r\n"),
        *((value, "INCR k", NOT_AN_INTEGER) for value in ('" 1"', "+1", "01", "-0", "1.0", '""', "1_0")),
        *(("1", f"INCRBY k {number}", NOT_AN_INTEGER) for number in ("+1", "x", "9223372036854775808", "1e1")),
    ],
)
def test_counters(value: str, line: str, reply: bytes) -> None:
    caller = Rig().connect()
    caller.call(f"SET k {value}")
    assert caller.call(line) == reply


def test_changing_a_string_keeps_its_expiry_and_setting_it_does_not() -> None:
    caller = Rig().connect()
    caller.call("SET k 1 PX 10000", "INCR k", "APPEND k 0")
    assert caller.call("PTTL k") == b":10000\r\n"
    caller.call("SET k 1 KEEPTTL")
    assert caller.call("PTTL k") == b":10000\r\n"
    for line in ("SET k 1", "GETSET k 1", "MSET k 1"):
        caller.call("PEXPIRE k 10000", line)
        assert caller.call("PTTL k") == b":-1\r\n"


@pytest.mark.parametrize(
    ("lines", "record"),
    [
        (["SET k 1", "INCRBYFLOAT k 1.5"], b"SET k 2.5 KEEPTTL"),
        (["INCREX k"], b"SET k 1 KEEPTTL"),
        (["INCREX k BYFLOAT 1.5"], b"SET k 1.5 KEEPTTL"),
        (["INCREX k EX 10"], b"SET k 1 PXAT %d" % (START_MS + 10_000)),
        (["SET k 1 EX 10", "INCREX k EX 20 ENX"], b"SET k 2 KEEPTTL"),
        (["SET k 1 EX 10", "INCREX k PERSIST"], b"SET k 2"),
        (["SET k 1", "INCREX k PXAT 1"], b"DEL k"),
        (["SETRANGE k 1 v"], b"SETRANGE k 1 v"),
        (["MSETNX a 1 b 2"], b"MSETNX a 1 b 2"),
        (["MSETEX 2 a 1 b 2 NX"], b"MSETEX 2 a 1 b 2"),
        (["MSETEX 1 a 1 EX 10"], b"MSETEX 1 a 1 PXAT %d" % (START_MS + 10_000)),
        (["SET a 1", "MSETEX 1 a 1 XX KEEPTTL"], b"MSETEX 1 a 1 KEEPTTL"),
        (["SET k v", "DELEX k IFEQ v"], b"DEL k"),
        (["SET k v", "DELEX k"], b"DEL k"),
    ],
)
def test_log_of_conditional_and_numeric_commands_has_their_result(lines: list[str], record: bytes) -> None:
    rig = Rig()
    rig.connect().call(*lines)
    assert rig.log.units[-1] == [record]
    assert len(rig.log.units) == len(lines)


@pytest.mark.parametrize(
    "line",
    [
        "INCREX n UBOUND 5", "INCREX k", "INCRBYFLOAT k 1", "SETRANGE k 3 \"\"", "MSETNX new 1 k 2", "DELEX k IFEQ x",
        "MSETEX 2 new 1 k 2 NX", "MSETEX 2 new 1 k 2 XX", "DELEX no", "GETRANGE k 0 1", "LCS k n", "DIGEST k",
    ],
)  # fmt: skip
def test_command_that_changes_nothing_logs_nothing(line: str) -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("SET k v", "SET n 5")
    rig.log.units.clear()
    caller.call(line)
    assert rig.log.units == []


def test_string_set_with_a_past_time_is_missing_at_the_next_read() -> None:
    rig = Rig()
    caller = rig.connect()
    assert caller.call("MSETEX 1 k v PXAT 1", "GET k") == b":1\r\n" + NULL
    assert rig.log.units[-1] == [b"DEL k"]


@pytest.mark.parametrize("line", ['APPEND k ""', "SETRANGE k 0 1"])
def test_string_changed_in_place_stays_raw_under_another_name(line: str) -> None:
    caller = Rig().connect()
    caller.call("SET k 1", line, "RENAME k n", "COPY n m")
    assert caller.call("OBJECT ENCODING n", "OBJECT ENCODING m") == b"$3\r\nraw\r\n" * 2
    assert caller.call("TYPE n", "GET m") == b"+string\r\n$1\r\n1\r\n"


@pytest.mark.parametrize(
    ("line", "events"),
    [
        ("INCRBYFLOAT n 1", "incrbyfloat:n"),
        ("INCRBYFLOAT new 1", "new:new incrbyfloat:new"),
        ("SETRANGE n 0 x", "setrange:n"),
        ('SETRANGE n 0 ""', ""),
        ("MSETNX new 1 other 2", "new:new set:new new:other set:other"),
        ("MSETEX 2 n 1 new 2 EX 100", "overwritten:n expire:n set:n new:new expire:new set:new"),
        ("MSETEX 1 s 1 XX", "overwritten:s type_changed:s set:s"),
        ("DELEX n IFEQ 5", "del:n"),
        ("DELEX n IFEQ x", ""),
        ("DELEX no IFEQ x", "keymiss:no"),
        ("DELEX no", ""),
        ("INCREX n EX 100", "incrby:n expire:n"),
        ("INCREX n PERSIST", "incrby:n"),
        ("INCREX t PERSIST", "incrby:t persist:t"),
        ("INCREX t EX 100 ENX", "incrby:t"),
        ("INCREX n UBOUND 1", ""),
        ("INCREX n PXAT 1", "del:n"),
        ("INCREX new PXAT 1", ""),
        ("INCREX n EX 10 BYFLOAT 1", "incrbyfloat:n expire:n"),
        ("GETRANGE no 0 1", "keymiss:no"),
        ("DIGEST no", "keymiss:no"),
        ("LCS no n", "keymiss:no"),
        ('APPEND n ""', "append:n"),
    ],
)
def test_string_commands_send_the_events_of_redis(line: str, events: str) -> None:
    rig = Rig()
    caller, listener = rig.connect(), rig.connect()
    caller.call("SET n 5", "SET t 5 EX 100", "XADD s 1-1 f v", "CONFIG SET notify-keyspace-events AEmnoc")
    listener.call("PSUBSCRIBE __keyevent@0__:*")
    caller.call(line)
    words = listener.output().split(b"\r\n")
    received = [(words[start + 6].partition(b":")[2], words[start + 8]) for start in range(0, len(words) - 1, 9)]
    assert b" ".join(name + b":" + key for name, key in received).decode() == events


@pytest.mark.parametrize("line", ["APPEND k x", "SETRANGE k 3 x", "SETRANGE k 100050 x", "RENAME k k", "COPY k other"])
def test_a_long_string_that_was_changed_is_read_without_a_copy(line: str) -> None:
    """It is stored as bytes: its encoding follows from its length."""
    caller = Rig().connect()
    caller.call("SET k " + "a" * 100_000, line)
    assert all(type(value) is bytes for _, value in caller.client.db.keys.items())
    assert caller.call("OBJECT ENCODING k") == b"$3\r\nraw\r\n"


@pytest.mark.parametrize("size", [0, 1, 5, 40, 41, 42, 100])
def test_setrange_overwrites_extends_and_pads_a_string(size: int) -> None:
    for offset in (0, 1, 4, 5, 39, 40, 41, 100, 101, 130):
        caller = Rig().connect()
        text = bytes(range(65, 65 + 26)) * 4
        caller.call(f"SET k '{text[:size].decode()}'", f"SETRANGE k {offset} xyz")
        expected = text[:size].ljust(offset, b"\0")[:offset] + b"xyz" + text[:size][offset + 3 :]
        assert caller.call("GET k") == b"$%d\r\n%b\r\n" % (len(expected), expected)
