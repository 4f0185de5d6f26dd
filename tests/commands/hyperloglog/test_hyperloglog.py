"""HyperLogLogs: replies, strings, and records for a replay."""

from __future__ import annotations

import pytest

from support.inprocess import Rig

WRONG_TYPE = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
NO_HYPERLOGLOG = b"-WRONGTYPE Key is not a valid HyperLogLog string value.\r\n"
CORRUPT = b"-INVALIDOBJ Corrupted HLL object detected\r\n"
# Redis' string after `PFADD p a b c`.
THREE = b"HYLL\x01" + bytes(10) + b"\x80\x60\xf3\x80\x50\xb1\x84\x4b\xfb\x80\x42\x5a"
COUNTED = b"HYLL\x01" + bytes(3) + b"\x03" + bytes(7) + THREE[16:]


def bulk(text: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(text), text)


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        ("PFADD p a", b":0\r\n"),
        ("PFADD p d", b":1\r\n"),
        ("PFADD p", b":0\r\n"),
        ("PFADD new", b":1\r\n"),
        ("PFADD str a", NO_HYPERLOGLOG),
        ("PFADD l a", WRONG_TYPE),
        ("PFCOUNT p", b":3\r\n"),
        ("PFCOUNT none", b":0\r\n"),
        ("PFCOUNT p q none", b":4\r\n"),
        ("PFCOUNT none none", b":0\r\n"),
        ("PFCOUNT p p", b":3\r\n"),
        ("PFCOUNT short", CORRUPT),
        ("PFCOUNT p short", CORRUPT),
        ("PFCOUNT p str", NO_HYPERLOGLOG),
        ("PFCOUNT l", WRONG_TYPE),
        ("PFMERGE p q", b"+OK\r\n"),
        ("PFMERGE p short", CORRUPT),
        ("PFMERGE none l", WRONG_TYPE),
        ("PFADD short a", CORRUPT),
        ("PFDEBUG ENCODING p", b"+sparse\r\n"),
        ("PFDEBUG encoding dense", b"+dense\r\n"),
        ("PFDEBUG DECODE p", bulk(b"Z:8436 v:1,1 Z:4274 v:2,1 Z:3068 v:1,1 Z:603")),
        ("PFDEBUG DECODE dense", b"-ERR HLL encoding is not sparse\r\n"),
        ("PFDEBUG TODENSE p", b":1\r\n"),
        ("PFDEBUG TODENSE dense", b":0\r\n"),
        ("PFDEBUG TODENSE short", CORRUPT),
        ("PFDEBUG NOSUCH p", b"-ERR Unknown PFDEBUG subcommand 'NOSUCH'\r\n"),
        ("PFDEBUG NOSUCH none", b"-ERR The specified key does not exist\r\n"),
        ("PFDEBUG SIMD on", b"+enabled\r\n"),
        ("PFDEBUG SIMD OFF", b"+disabled\r\n"),
        ("PFDEBUG SIMD x", b"-ERR Argument must be ON or OFF\r\n"),
        ("PFSELFTEST", b"+OK\r\n"),
        ("GET p", bulk(THREE)),
        ("TYPE p", b"+string\r\n"),
        ("OBJECT ENCODING p", b"$3\r\nraw\r\n"),
    ],
)
def test_replies(request_: str, reply: bytes) -> None:
    caller = Rig().connect()
    caller.call("PFADD p a b c", "PFADD q c d", "PFADD dense a", "PFDEBUG TODENSE dense", "SET str v", "RPUSH l a")
    # The registers after the first 64 are missing.
    caller.call(r'SET short "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x3f"')
    assert caller.call(request_) == reply


def test_registers_are_those_of_the_elements() -> None:
    caller = Rig().connect()
    caller.call("PFADD p a b c")
    numbers = [int(line[1:]) for line in caller.call("PFDEBUG GETREG p").split(b"\r\n")[1:-1]]
    assert len(numbers) == 16384
    assert {index: number for index, number in enumerate(numbers) if number} == {8436: 1, 12711: 2, 15780: 1}
    assert caller.call("PFDEBUG ENCODING p") == b"+dense\r\n"


def test_the_estimate_is_kept_in_the_string_until_a_register_changes() -> None:
    caller = Rig().connect()
    caller.call("PFADD p a b c", "PFCOUNT p")
    assert caller.call("GET p") == bulk(COUNTED)
    caller.call("PFADD p a")
    assert caller.call("GET p") == bulk(COUNTED)
    caller.call("PFADD p d")
    assert caller.call("STRLEN p", "GETRANGE p 15 15") == b":30\r\n" + bulk(b"\x80")


def test_the_estimate_in_the_string_is_believed() -> None:
    caller = Rig().connect()
    caller.call("PFADD p a", "PFCOUNT p", r'SETRANGE p 8 "\x07"')
    assert caller.call("PFCOUNT p", "PFCOUNT p none") == b":7\r\n:1\r\n"


def test_elements_before_a_corrupt_run_stay_added() -> None:
    caller = Rig().connect()
    # The runs have 13000 registers, and so that of `c` and not that of `b`.
    caller.call(r'SET p "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x72\xc7"')
    assert caller.call("PFADD p c b a") == CORRUPT
    assert caller.call("PFDEBUG DECODE p") == bulk(b"Z:8436 v:1,1 Z:4563")
    assert caller.call("GETRANGE p 15 15") == bulk(b"\x80")


def test_merging_keeps_the_expiry_time_and_takes_dense_registers() -> None:
    caller = Rig().connect()
    caller.call("PFADD p a EX", "EXPIRE p 100", "PFADD q b", "PFDEBUG TODENSE q", "PFMERGE p q")
    assert caller.call("TTL p", "PFDEBUG ENCODING p", "PFCOUNT p") == b":100\r\n+dense\r\n:3\r\n"


def test_the_directive_says_when_registers_become_dense() -> None:
    caller = Rig().connect()
    caller.call("CONFIG SET hll-sparse-max-bytes 24")
    caller.call("PFADD p a b")
    assert caller.call("PFDEBUG ENCODING p", "PFADD p c", "PFDEBUG ENCODING p") == b"+sparse\r\n:1\r\n+dense\r\n"


def test_a_count_that_changes_the_string_fails_a_transaction_that_watches_it() -> None:
    rig = Rig()
    caller, other = rig.connect(), rig.connect()
    caller.call("PFADD p a", "WATCH p")
    other.call("PFCOUNT p")
    caller.call("MULTI", "PING")
    assert caller.call("EXEC") == b"*-1\r\n"
    caller.call("WATCH p")
    other.call("PFCOUNT p", "PFCOUNT p p", "PFADD p a")
    caller.call("MULTI", "PING")
    assert caller.call("EXEC") == b"*1\r\n+PONG\r\n"
