"""Sets: replies, and records for a replay."""

from __future__ import annotations

import pytest

from support.inprocess import Rig

WRONG_TYPE = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        ("SADD e x z", b":1\r\n"),
        ("SREM e x nothing", b":1\r\n"),
        ("SCARD e", b":2\r\n"),
        ("SISMEMBER e y", b":1\r\n"),
        ("SMISMEMBER e y nothing", b"*2\r\n:1\r\n:0\r\n"),
        ("SMEMBERS e", b"*2\r\n$1\r\nx\r\n$1\r\ny\r\n"),
        ("SMEMBERS none", b"*0\r\n"),
        ("SSCAN e 0", b"*2\r\n$1\r\n0\r\n*2\r\n$1\r\nx\r\n$1\r\ny\r\n"),
        ("SSCAN e 0 MATCH x*", b"*2\r\n$1\r\n0\r\n*1\r\n$1\r\nx\r\n"),
        ("SSCAN e 0 NOVALUES", b"-ERR NOVALUES option can only be used in HSCAN\r\n"),
        ("SINTER e d", b"*1\r\n$1\r\ny\r\n"),
        ("SINTER e none", b"*0\r\n"),
        ("SINTERCARD 2 e d LIMIT 1", b":1\r\n"),
        ("SINTERCARD 0 e", b"-ERR numkeys should be greater than 0\r\n"),
        ("SINTERCARD 3 e d", b"-ERR Number of keys can't be greater than number of args\r\n"),
        ("SUNIONCARD 2 e d", b":3\r\n"),
        ("SUNIONCARD 2 e d APPROX LIMIT 2", b":2\r\n"),
        ("SDIFFCARD 2 e d", b":1\r\n"),
        ("SDIFFCARD 2 e d APPROX", b"-ERR syntax error\r\n"),
        ("SDIFF e d", b"*1\r\n$1\r\nx\r\n"),
        ("SDIFF e e", b"*0\r\n"),
        ("SUNION numbers", b"*3\r\n$1\r\n1\r\n$1\r\n5\r\n$2\r\n10\r\n"),
        ("SMOVE e d x", b":1\r\n"),
        ("SMOVE e d nothing", b":0\r\n"),
        ("SMOVE none str x", b":0\r\n"),
        ("SMOVE e str x", WRONG_TYPE),
        ("SPOP e 100", b"*2\r\n$1\r\nx\r\n$1\r\ny\r\n"),
        ("SPOP none", b"$-1\r\n"),
        ("SPOP e -1", b"-ERR value is out of range, must be positive\r\n"),
        ("SRANDMEMBER e 100", b"*2\r\n$1\r\nx\r\n$1\r\ny\r\n"),
        ("SRANDMEMBER none 3", b"*0\r\n"),
        ("SADD str x", WRONG_TYPE),
        ("SINTER none str", WRONG_TYPE),
        ("XLEN e", WRONG_TYPE),
        ("GET e", WRONG_TYPE),
        ("MGET e str", b"*2\r\n$-1\r\n$1\r\nv\r\n"),
        ("TYPE e", b"+set\r\n"),
        ("SCAN 0 TYPE set COUNT 100", b"*2\r\n$1\r\n0\r\n*3\r\n"),
    ],
)
def test_replies(request_: str, reply: bytes) -> None:
    caller = Rig().connect()
    caller.call("SADD e x y", "SADD d y z", "SADD numbers 10 5 1", "SET str v")
    assert caller.call(request_).startswith(reply)


@pytest.mark.parametrize("request_", ["SREM e x y", "SPOP e 2", "SMOVE e d x", "SINTERSTORE e none"])
def test_a_set_without_members_is_gone(request_: str) -> None:
    caller = Rig().connect()
    caller.call("SADD e x" if "SMOVE" in request_ else "SADD e x y")
    caller.call(request_)
    assert caller.call("EXISTS e") == b":0\r\n"


@pytest.mark.parametrize("count", [3, 200, 3_000])
@pytest.mark.parametrize("prefix", ["", "m"])
def test_random_picks_are_members(count: int, prefix: str) -> None:
    caller = Rig().connect()
    members = {f"{prefix}{number}" for number in range(count)}
    caller.call("SADD e " + " ".join(members))

    def picked(request: str) -> list[str]:
        return caller.call(request).decode().split("\r\n")[2::2]

    assert len(set(picked("SRANDMEMBER e 2"))) == 2
    assert set(picked("SRANDMEMBER e -1000")) <= members
    assert len(picked("SRANDMEMBER e -1000")) == 1000
    popped = picked("SPOP e 2")
    assert len(set(popped)) == 2
    assert set(popped) <= members
    assert not set(picked("SMEMBERS e")) & set(popped)


def test_a_scan_of_many_members_returns_each() -> None:
    caller = Rig().connect()
    caller.call("SADD e " + " ".join(f"m{number}" for number in range(2_000)))
    seen: set[bytes] = set()
    cursor, calls_count = b"0", 0
    while calls_count == 0 or cursor != b"0":
        words = caller.call(f"SSCAN e {cursor.decode()} COUNT 100").split(b"\r\n")
        cursor, calls_count = words[2], calls_count + 1
        seen |= set(words[5::2])
    assert len(seen - {b""}) == 2_000
    assert calls_count > 10
