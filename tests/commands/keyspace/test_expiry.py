"""Expiry times: EXPIRE, TTL and their variants, PERSIST."""

from __future__ import annotations

import pytest

from support.inprocess import START_MS, Rig

MAX = 2**63 - 1
MIN = -(2**63)
NOT_AN_INTEGER = b"-ERR value is not an integer or out of range\r\n"
NX_WITH_OTHERS = b"-ERR NX and XX, GT or LT options at the same time are not compatible\r\n"
GT_WITH_LT = b"-ERR GT and LT options at the same time are not compatible\r\n"


def invalid(name: str) -> bytes:
    return b"-ERR invalid expire time in '%b' command\r\n" % name.encode()


@pytest.mark.parametrize(
    ("line", "due_ms"),
    [
        ("EXPIRE k 10", START_MS + 10_000),
        ("PEXPIRE k 10", START_MS + 10),
        ("EXPIREAT k 1800000000", 1_800_000_000_000),
        ("PEXPIREAT k 1800000000001", 1_800_000_000_001),
        (f"PEXPIREAT k {MAX}", MAX),
    ],
)
def test_expiry_time_is_absolute_in_store_and_log(line: str, due_ms: int) -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("SET k v")
    assert caller.call(line, "PEXPIRETIME k") == b":1\r\n:%d\r\n" % due_ms
    assert rig.log.units[1:] == [[b"PEXPIREAT k %d" % due_ms]]


@pytest.mark.parametrize(
    "line", ["EXPIRE k 0", "EXPIRE k -1", "PEXPIRE k -5", "EXPIREAT k 1", f"PEXPIREAT k {START_MS}"]
)
def test_time_in_the_past_deletes_the_key_at_once(line: str) -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("SET k v")
    assert caller.call(line, "EXISTS k") == b":1\r\n:0\r\n"
    assert rig.log.units[1:] == [[b"DEL k"]]


@pytest.mark.parametrize(
    ("present_ms", "options", "is_set"),
    [
        (None, "NX", True), (None, "XX", False), (None, "GT", False), (None, "LT", True), (None, "XX LT", False),
        (5000, "NX", False), (5000, "XX", True), (5000, "GT", True), (5000, "LT", False), (5000, "XX GT", True),
        (10_000, "GT", False), (10_000, "LT", False),
        (20_000, "GT", False), (20_000, "LT", True), (20_000, "xx lt", True), (20_000, "nx NX", False),
    ],
)  # fmt: skip
def test_conditions(present_ms: int | None, options: str, is_set: bool) -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("SET k v" if present_ms is None else f"SET k v PX {present_ms}")
    rig.log.units.clear()
    assert caller.call(f"PEXPIRE k 10000 {options}") == b":%d\r\n" % is_set
    assert caller.call("PTTL k") == b":%d\r\n" % (10_000 if is_set else present_ms or -1)
    assert rig.log.units == ([[b"PEXPIREAT k %d %b" % (START_MS + 10_000, options.encode())]] if is_set else [])


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("EXPIRE k x", NOT_AN_INTEGER),
        ("EXPIRE no x", NOT_AN_INTEGER),
        ("EXPIRE k x FOO", b"-ERR Unsupported option FOO\r\n"),
        ("EXPIRE k x NX XX", NX_WITH_OTHERS),
        ("EXPIRE k 5 NX GT", NX_WITH_OTHERS),
        ("EXPIRE k 5 GT LT", GT_WITH_LT),
        ("EXPIRE no 5 foo", b"-ERR Unsupported option foo\r\n"),
        ("EXPIRE no 5", b":0\r\n"),
        (f"EXPIRE no {MAX}", invalid("expire")),
        (f"EXPIRE k {MIN}", invalid("expire")),
        (f"EXPIRE k {MAX // 1000}", invalid("expire")),
        (f"PEXPIRE k {MAX}", invalid("pexpire")),
        (f"PEXPIRE k {MIN}", b":1\r\n"),
        (f"EXPIREAT k {MAX // 1000}", b":1\r\n"),
        (f"EXPIREAT k {MAX // 1000 + 1}", invalid("expireat")),
        ("expireat k 99999999999999999", invalid("expireat")),
        ("TTL no", b":-2\r\n"),
        ("PTTL k", b":-1\r\n"),
        ("EXPIRETIME no", b":-2\r\n"),
        ("PEXPIRETIME k", b":-1\r\n"),
        ("PERSIST k", b":0\r\n"),
        ("PERSIST no", b":0\r\n"),
    ],
)
def test_replies(line: str, reply: bytes) -> None:
    caller = Rig().connect()
    caller.call("SET k v")
    assert caller.call(line) == reply


@pytest.mark.parametrize(("left_ms", "ttl"), [(1, 0), (499, 0), (500, 1), (1499, 1), (1500, 2)])
def test_seconds_are_rounded_to_the_nearest(left_ms: int, ttl: int) -> None:
    caller = Rig().connect()
    caller.call(f"SET k v PX {left_ms}")
    assert caller.call("TTL k", "PTTL k") == b":%d\r\n:%d\r\n" % (ttl, left_ms)
    assert caller.call("EXPIRETIME k") == b":%d\r\n" % ((START_MS + left_ms + 500) // 1000)


def test_persist_removes_the_expiry_time_and_is_logged() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("SET k v PX 10")
    assert caller.call("PERSIST k", "PERSIST k", "TTL k") == b":1\r\n:0\r\n:-1\r\n"
    assert rig.log.units[1:] == [[b"PERSIST k"]]
    rig.clock.advance(20)
    assert caller.call("EXISTS k") == b":1\r\n"


def test_streams_expire_like_strings() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("XADD s 1-1 f v", "PEXPIRE s 10", "XADD s 2-1 f v")
    rig.clock.advance(10)
    assert caller.call("XLEN s", "PTTL s") == b":2\r\n:0\r\n"
    rig.clock.advance(1)
    assert caller.call("XLEN s") == b":0\r\n"
    assert rig.log.units[-1] == [b"DEL s"]


@pytest.mark.parametrize(
    ("line", "is_changed"),
    [
        ("EXPIRE k 10", True),
        ("EXPIRE k 10 XX", True),
        ("EXPIRE k 10 NX", False),
        ("PERSIST k", True),
        ("GETEX k PERSIST", True),
        ("GETEX k EX 10", True),
        ("GETEX k", False),
        ("TTL k", False),
    ],
)
def test_watch_fails_exec_only_after_a_changed_expiry(line: str, is_changed: bool) -> None:
    rig = Rig()
    caller, other = rig.connect(), rig.connect()
    caller.call("SET k v EX 100", "WATCH k")
    other.call(line)
    assert caller.call("MULTI", "EXEC") == b"+OK\r\n" + (b"*-1\r\n" if is_changed else b"*0\r\n")
