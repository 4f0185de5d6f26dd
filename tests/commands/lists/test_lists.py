"""Lists: replies, what they leave, and clients that wait for elements."""

from __future__ import annotations

import pytest

from support.inprocess import Rig

WRONG_TYPE = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
RANK_OF_ZERO = (
    b"-ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... "
    b"or use negative to start from the end of the list\r\n"
)


def elements(rig: Rig, key: str) -> str:
    """The elements of a list of words."""
    lines = rig.connect().call(f"LRANGE {key} 0 -1").decode().split("\r\n")
    return " ".join(lines[2::2])


@pytest.mark.parametrize(
    ("request_", "reply", "first", "second"),
    [
        ("LPUSH l x y", b":6\r\n", "y x a b c a", "z"),
        ("RPUSH l x y", b":6\r\n", "a b c a x y", "z"),
        ("RPUSH l", b"-ERR wrong number of arguments for 'rpush' command\r\n", "a b c a", "z"),
        ("LPUSHX l x", b":5\r\n", "x a b c a", "z"),
        ("RPUSHX none x", b":0\r\n", "a b c a", "z"),
        ("LPOP l", b"$1\r\na\r\n", "b c a", "z"),
        ("LPOP l 2", b"*2\r\n$1\r\na\r\n$1\r\nb\r\n", "c a", "z"),
        ("LPOP none", b"$-1\r\n", "a b c a", "z"),
        ("LPOP none 1", b"*-1\r\n", "a b c a", "z"),
        ("LPOP l 0", b"*0\r\n", "a b c a", "z"),
        ("RPOP l 9", b"*4\r\n$1\r\na\r\n$1\r\nc\r\n$1\r\nb\r\n$1\r\na\r\n", "", "z"),
        ("LPOP l -1", b"-ERR value is out of range, must be positive\r\n", "a b c a", "z"),
        ("LLEN l", b":4\r\n", "a b c a", "z"),
        ("LRANGE l 0 -1", b"*4\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\na\r\n", "a b c a", "z"),
        ("LRANGE l -2 9", b"*2\r\n$1\r\nc\r\n$1\r\na\r\n", "a b c a", "z"),
        ("LRANGE l 3 1", b"*0\r\n", "a b c a", "z"),
        ("LINDEX l -1", b"$1\r\na\r\n", "a b c a", "z"),
        ("LINDEX l 9", b"$-1\r\n", "a b c a", "z"),
        ("LSET l 1 new", b"+OK\r\n", "a new c a", "z"),
        ("LSET l 9 new", b"-ERR index out of range\r\n", "a b c a", "z"),
        ("LSET none 0 new", b"-ERR no such key\r\n", "a b c a", "z"),
        ("LINSERT l BEFORE b new", b":5\r\n", "a new b c a", "z"),
        ("LINSERT l AFTER none new", b":-1\r\n", "a b c a", "z"),
        ("LINSERT none AFTER b new", b":0\r\n", "a b c a", "z"),
        ("LINSERT l AROUND b new", b"-ERR syntax error\r\n", "a b c a", "z"),
        ("LREM l 0 a", b":2\r\n", "b c", "z"),
        ("LREM l -1 a", b":1\r\n", "a b c", "z"),
        ("LREM none 0 a", b":0\r\n", "a b c a", "z"),
        ("LTRIM l 1 1", b"+OK\r\n", "b", "z"),
        ("LTRIM l 5 9", b"+OK\r\n", "", "z"),
        ("LPOS l a", b":0\r\n", "a b c a", "z"),
        ("LPOS l a RANK -1", b":3\r\n", "a b c a", "z"),
        ("LPOS l a COUNT 0 MAXLEN 3", b"*1\r\n:0\r\n", "a b c a", "z"),
        ("LPOS l none", b"$-1\r\n", "a b c a", "z"),
        ("LPOS l a RANK 0", RANK_OF_ZERO, "a b c a", "z"),
        ("LMOVE l m LEFT RIGHT", b"$1\r\na\r\n", "b c a", "z a"),
        ("LMOVE l l LEFT RIGHT", b"$1\r\na\r\n", "b c a a", "z"),
        ("LMOVE none m LEFT LEFT", b"$-1\r\n", "a b c a", "z"),
        ("LMOVE l m LEFT UP", b"-ERR syntax error\r\n", "a b c a", "z"),
        ("RPOPLPUSH l m", b"$1\r\na\r\n", "a b c", "a z"),
        ("RPOPLPUSH none m", b"$-1\r\n", "a b c a", "z"),
        ("LMPOP 2 none l LEFT COUNT 2", b"*2\r\n$1\r\nl\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n", "c a", "z"),
        ("LMPOP 1 none RIGHT", b"*-1\r\n", "a b c a", "z"),
        ("LMPOP 0 l LEFT", b"-ERR numkeys should be greater than 0\r\n", "a b c a", "z"),
        ("LMOVEM l m LEFT RIGHT COUNT 2 OBO", b"*2\r\n$1\r\na\r\n$1\r\nb\r\n", "c a", "z a b"),
        ("LMOVEM l m RIGHT LEFT COUNT 2 BULK", b"*2\r\n$1\r\nc\r\n$1\r\na\r\n", "a b", "c a z"),
        ("LMOVEM l m LEFT LEFT EXACTLY 9 OBO", b"*-1\r\n", "a b c a", "z"),
        ("BLPOP none l 0", b"*2\r\n$1\r\nl\r\n$1\r\na\r\n", "b c a", "z"),
        ("BRPOP l 0", b"*2\r\n$1\r\nl\r\n$1\r\na\r\n", "a b c", "z"),
        ("BLPOP l x", b"-ERR timeout is not a float or out of range\r\n", "a b c a", "z"),
        ("BLPOP l -1", b"-ERR timeout is negative\r\n", "a b c a", "z"),
        ("BLMOVE l m RIGHT LEFT 0", b"$1\r\na\r\n", "a b c", "a z"),
        ("BLMOVEM l m LEFT RIGHT 0 EXACTLY 2 BULK", b"*2\r\n$1\r\na\r\n$1\r\nb\r\n", "c a", "z a b"),
        ("BRPOPLPUSH l m 0", b"$1\r\na\r\n", "a b c", "a z"),
        ("BLMPOP 0 2 none l LEFT COUNT 2", b"*2\r\n$1\r\nl\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n", "c a", "z"),
        ("LPUSH e x", WRONG_TYPE, "a b c a", "z"),
        ("LLEN e", WRONG_TYPE, "a b c a", "z"),
        ("TYPE l", b"+list\r\n", "a b c a", "z"),
        ("OBJECT ENCODING l", b"$8\r\nlistpack\r\n", "a b c a", "z"),
    ],
)  # fmt: skip
def test_replies_and_what_they_leave(request_: str, reply: bytes, first: str, second: str) -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("RPUSH l a b c a", "RPUSH m z", "SADD e x")
    assert caller.call(request_) == reply
    assert (elements(rig, "l"), elements(rig, "m")) == (first, second)


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        ("BLPOP none l 0", b"*2\r\n$1\r\nl\r\n$1\r\na\r\n"),
        ("BRPOP l 0", b"*2\r\n$1\r\nl\r\n$1\r\nb\r\n"),
        ("BLMPOP 0 2 none l RIGHT COUNT 9", b"*2\r\n$1\r\nl\r\n*2\r\n$1\r\nb\r\n$1\r\na\r\n"),
        ("BLMOVE l m LEFT LEFT 0", b"$1\r\na\r\n"),
        ("BRPOPLPUSH l m 0", b"$1\r\nb\r\n"),
        ("BLMOVEM l m LEFT RIGHT 0 EXACTLY 2 OBO", b"*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
    ],
)
def test_a_client_waits_until_there_is_a_list(request_: str, reply: bytes) -> None:
    rig = Rig()
    waiter, writer = rig.connect(), rig.connect()
    assert waiter.call(request_) == b""
    writer.call("SADD l x", "SREM l x", "SET l v", "DEL l")
    assert waiter.output() == b""
    writer.call("RPUSH l a b")
    assert waiter.output() == reply


def test_clients_that_wait_are_served_in_their_order() -> None:
    rig = Rig()
    waiters = [rig.connect() for _ in range(3)]
    for waiter in waiters:
        waiter.call("BLPOP l 0")
    rig.connect().call("RPUSH l a b")
    assert [waiter.output()[-3:-2] for waiter in waiters] == [b"a", b"b", b""]


def test_an_element_is_moved_on_as_long_as_clients_wait_for_it() -> None:
    rig = Rig()
    first, second, third = (rig.connect() for _ in range(3))
    third.call("BLPOP three 0")
    second.call("BLMOVE two three LEFT LEFT 0")
    first.call("BRPOPLPUSH one two 0")
    rig.connect().call("LPUSH one x")
    assert [each.output() for each in (first, second)] == [b"$1\r\nx\r\n"] * 2
    assert third.output() == b"*2\r\n$5\r\nthree\r\n$1\r\nx\r\n"


def test_a_client_that_waits_with_a_wrong_destination_gets_the_error_and_the_next_is_served() -> None:
    rig = Rig()
    first, second, writer = (rig.connect() for _ in range(3))
    writer.call("SET text v")
    first.call("BLMOVE l text LEFT LEFT 0")
    second.call("BLPOP l 0")
    writer.call("RPUSH l a")
    assert first.output() == WRONG_TYPE
    assert second.output() == b"*2\r\n$1\r\nl\r\n$1\r\na\r\n"


def test_a_wait_for_exactly_some_elements_ends_when_there_are_enough() -> None:
    rig = Rig()
    waiter, writer = rig.connect(), rig.connect()
    waiter.call("BLMOVEM l m LEFT RIGHT 0 EXACTLY 3 BULK")
    writer.call("RPUSH l a")
    writer.call("RPUSH l b")
    assert waiter.output() == b""
    writer.call("RPUSH l c d")
    assert waiter.output() == b"*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n"
    assert (elements(rig, "l"), elements(rig, "m")) == ("d", "a b c")


def test_nothing_is_waited_for_in_a_transaction_and_in_a_script() -> None:
    caller = Rig().connect()
    assert caller.call("MULTI", "BLPOP l 0", "BLMOVE l m LEFT LEFT 0", "EXEC").endswith(b"*2\r\n*-1\r\n$-1\r\n")
