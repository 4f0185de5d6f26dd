"""XACKIF, XCLAIM IFOWNED and XGROUP DELCONSUMER RELEASE, which Redis does not have: only an owner acknowledges and
renews, and what a deleted consumer owned is not lost. The log gets commands of Redis.
"""

from __future__ import annotations

import pytest

from support.inprocess import Caller, Rig


@pytest.fixture
def rig() -> Rig:
    """A server with a stream of five entries: `a` owns 1-0 and 2-0, `b` owns 3-0, 4-0 is released, 5-0 is new."""
    rig = Rig()
    rig.connect().call(
        *(f"XADD s {number}-0 f v" for number in range(1, 6)),
        "XGROUP CREATE s g 0",
        "XREADGROUP GROUP g a COUNT 2 STREAMS s >",
        "XREADGROUP GROUP g b COUNT 2 STREAMS s >",
        "XNACK s g FAIL IDS 1 4-0",
    )
    rig.log.units.clear()
    return rig


@pytest.fixture
def caller(rig: Rig) -> Caller:
    return rig.connect()


def pending(caller: Caller) -> bytes:
    return caller.call("XPENDING s g - + 9")


# -- XACKIF ----------------------------------------------------------------------------------------


def test_xackif_acknowledges_what_the_consumer_owns_and_says_why_not_for_the_rest(rig: Rig, caller: Caller) -> None:
    reply = caller.call("XACKIF s g a IDS 6 1-0 3-0 4-0 5-0 9-9 1-0")
    assert reply == b"*6\r\n:1\r\n:2\r\n:3\r\n:-1\r\n:-1\r\n:-1\r\n"
    assert b"$3\r\n1-0" not in pending(caller)
    assert b"$3\r\n3-0" in pending(caller)
    assert rig.log.units == [[b"XACK s g 1-0"]]


def test_xackif_of_nothing_logs_nothing(rig: Rig, caller: Caller) -> None:
    assert caller.call("XACKIF s g stranger IDS 1 1-0") == b"*1\r\n:2\r\n"
    assert caller.call("XACKIF s none a IDS 1 1-0", "XACKIF none g a IDS 1 1-0") == b"*1\r\n:-1\r\n" * 2
    assert rig.log.units == []
    assert b":2\r\n" in caller.call("XINFO GROUPS s"), "no consumer is created"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("XACKIF s g a IDS 1", b"-ERR wrong number of arguments for 'xackif' command\r\n"),
        ("XACKIF s g a ID 1 1-0", b"-ERR syntax error\r\n"),
        ("XACKIF s g a IDS 2 1-0", b"-ERR The `numids` parameter must match the number of arguments\r\n"),
        ("XACKIF s g a IDS 0 1-0", b"-ERR Number of IDs must be a positive integer\r\n"),
        ("XACKIF s g a IDS 1 1-0 2-0", b"-ERR syntax error\r\n"),
        ("XACKIF s g a IDS 1 x", b"-ERR Invalid stream ID specified as stream command argument\r\n"),
        ("XACKIF none g a IDS 1 x", b"-ERR Invalid stream ID specified as stream command argument\r\n"),
        ("XACKIF s g a IDS 1 1-0 IDS 1 2-0", b"-ERR syntax error\r\n"),
        ("XACKIF t g a IDS 1 1-0", b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
    ],
)
def test_a_wrong_xackif_changes_nothing(line: str, error: bytes, caller: Caller) -> None:
    caller.call("SET t x")
    before = pending(caller)
    assert caller.call(line) == error
    assert pending(caller) == before


# -- XCLAIM IFOWNED --------------------------------------------------------------------------------


def test_xclaim_ifowned_renews_what_the_consumer_owns_only(rig: Rig, caller: Caller) -> None:
    rig.clock.advance(1000)
    claimed = caller.call("XCLAIM s g a 0 1-0 3-0 4-0 5-0 JUSTID IFOWNED")
    assert claimed == b"*1\r\n$3\r\n1-0\r\n"
    assert b"$3\r\n1-0\r\n$1\r\na\r\n:0\r\n:1\r\n" in pending(caller)
    assert b"$3\r\n3-0\r\n$1\r\nb\r\n:1000\r\n:1\r\n" in pending(caller)
    ((record,),) = rig.log.units
    assert record.startswith(b"XCLAIM s g a 0 1-0 TIME ")
    assert b"IFOWNED" not in record


def test_xclaim_ifowned_takes_nothing_with_force_and_creates_no_consumer(rig: Rig, caller: Caller) -> None:
    before = pending(caller)
    assert caller.call("XCLAIM s g new 0 1-0 5-0 FORCE IFOWNED") == b"*0\r\n"
    assert caller.call("XCLAIM s g a 0 5-0 4-0 FORCE IFOWNED") == b"*0\r\n"
    assert pending(caller) == before
    assert b"new" not in caller.call("XINFO CONSUMERS s g")
    assert rig.log.units == []


# -- XGROUP DELCONSUMER RELEASE ----------------------------------------------------------------------


def test_what_a_deleted_consumer_owned_is_released_with_its_delivery_counts(rig: Rig, caller: Caller) -> None:
    caller.call("XCLAIM s g a 0 2-0 RETRYCOUNT 7")
    rig.log.units.clear()
    assert caller.call("XGROUP DELCONSUMER s g a RELEASE") == b":2\r\n"
    listed = pending(caller)
    assert b"$3\r\n1-0\r\n$0\r\n\r\n:-1\r\n:1\r\n" in listed
    assert b"$3\r\n2-0\r\n$0\r\n\r\n:-1\r\n:7\r\n" in listed
    assert b"$1\r\na\r\n" not in caller.call("XINFO CONSUMERS s g")
    # One unit: a log that ends in between has none of it.
    assert rig.log.units == [
        [
            b"XNACK s g SILENT IDS 1 1-0 RETRYCOUNT 1",
            b"XNACK s g SILENT IDS 1 2-0 RETRYCOUNT 7",
            b"XGROUP DELCONSUMER s g a",
        ]
    ]


def test_a_reader_that_waits_for_idle_entries_gets_what_is_released(rig: Rig, caller: Caller) -> None:
    caller.call("XREADGROUP GROUP g b STREAMS s >", "XACK s g 4-0")
    other = rig.connect()
    assert other.call("XREADGROUP GROUP g c BLOCK 0 CLAIM 100000 STREAMS s >") == b""
    caller.call("XGROUP DELCONSUMER s g a RELEASE")
    assert b"$3\r\n1-0" in other.output()


def test_a_consumer_without_entries_and_no_consumer_are_deleted_as_ever(rig: Rig, caller: Caller) -> None:
    caller.call("XGROUP CREATECONSUMER s g idle")
    rig.log.units.clear()
    assert caller.call("XGROUP DELCONSUMER s g idle RELEASE", "XGROUP DELCONSUMER s g none release") == b":0\r\n" * 2
    assert rig.log.units == [[b"XGROUP DELCONSUMER s g idle"]]


@pytest.mark.parametrize("line", ["XGROUP DELCONSUMER s g a NOW", "XGROUP DELCONSUMER s g a RELEASE RELEASE"])
def test_other_words_after_the_consumer_are_refused_as_in_redis(line: str, caller: Caller) -> None:
    error = b"-ERR wrong number of arguments for 'xgroup|delconsumer' command\r\n"
    assert caller.call(line) == error
    assert caller.call("MULTI", line, "EXEC").startswith(b"+OK\r\n" + error + b"-EXECABORT")
    assert b"$1\r\na\r\n" in caller.call("XINFO CONSUMERS s g")
