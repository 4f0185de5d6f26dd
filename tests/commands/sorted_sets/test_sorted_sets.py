"""Sorted sets: replies, and clients that wait for members."""

from __future__ import annotations

import pytest

from support.inprocess import Rig

WRONG_TYPE = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
NOT_A_FLOAT = b"-ERR value is not a valid float\r\n"


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        ("ZADD z 1 a 5 d", b":1\r\n"),
        ("ZADD z CH 2 a 5 d", b":2\r\n"),
        ("ZADD z NX 9 a", b":0\r\n"),
        ("ZADD z XX 9 new", b":0\r\n"),
        ("ZADD z GT 0 a", b":0\r\n"),
        ("ZADD z INCR 1.5 a", b"$3\r\n2.5\r\n"),
        ("ZADD z NX INCR 1 a", b"$-1\r\n"),
        ("ZADD z x a", NOT_A_FLOAT),
        ("ZADD z nan a", NOT_A_FLOAT),
        ("ZADD z NX XX 1 a", b"-ERR XX and NX options at the same time are not compatible\r\n"),
        ("ZINCRBY z -3 c", b"$1\r\n0\r\n"),
        ("ZREM z a none", b":1\r\n"),
        ("ZCARD z", b":3\r\n"),
        ("ZSCORE z b", b"$1\r\n2\r\n"),
        ("ZMSCORE z b none", b"*2\r\n$1\r\n2\r\n$-1\r\n"),
        ("ZRANK z c", b":2\r\n"),
        ("ZREVRANK z c WITHSCORE", b"*2\r\n:0\r\n$1\r\n3\r\n"),
        ("ZRANK z none WITHSCORE", b"*-1\r\n"),
        ("ZCOUNT z (1 +inf", b":2\r\n"),
        ("ZCOUNT z x 1", b"-ERR min or max is not a float\r\n"),
        ("ZLEXCOUNT z [a (c", b":2\r\n"),
        ("ZRANGE z 0 -1", b"*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n"),
        ("ZRANGE z 0 0 REV WITHSCORES", b"*2\r\n$1\r\nc\r\n$1\r\n3\r\n"),
        ("ZRANGE z (1 3 BYSCORE LIMIT 1 1", b"*1\r\n$1\r\nc\r\n"),
        ("ZRANGE z [c [b BYLEX REV", b"*2\r\n$1\r\nc\r\n$1\r\nb\r\n"),
        ("ZREVRANGEBYSCORE z 3 2 LIMIT 0 1", b"*1\r\n$1\r\nc\r\n"),
        ("ZRANGEBYLEX z - [b", b"*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
        ("ZRANGESTORE new z 0 1", b":2\r\n"),
        ("ZREMRANGEBYRANK z 0 1", b":2\r\n"),
        ("ZREMRANGEBYSCORE z -inf (3", b":2\r\n"),
        ("ZREMRANGEBYLEX z [a [a", b":1\r\n"),
        ("ZPOPMIN z", b"*2\r\n$1\r\na\r\n$1\r\n1\r\n"),
        ("ZPOPMAX z 2", b"*4\r\n$1\r\nc\r\n$1\r\n3\r\n$1\r\nb\r\n$1\r\n2\r\n"),
        ("ZMPOP 2 none z MAX", b"*2\r\n$1\r\nz\r\n*1\r\n*2\r\n$1\r\nc\r\n$1\r\n3\r\n"),
        ("ZUNION 2 z y", b"*4\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nx\r\n$1\r\na\r\n"),
        ("ZINTER 2 z y WEIGHTS 2 1 AGGREGATE MAX WITHSCORES", b"*2\r\n$1\r\na\r\n$2\r\n10\r\n"),
        ("ZDIFF 2 z y", b"*2\r\n$1\r\nb\r\n$1\r\nc\r\n"),
        ("ZINTERCARD 2 z y LIMIT 1", b":1\r\n"),
        ("ZUNIONSTORE new 2 z e", b":4\r\n"),
        ("ZRANDMEMBER z 9", b"*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n"),
        ("ZSCAN z 0 MATCH a*", b"*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n"),
        ("BZPOPMIN none z 0", b"*3\r\n$1\r\nz\r\n$1\r\na\r\n$1\r\n1\r\n"),
        ("BZPOPMIN z x", b"-ERR timeout is not a float or out of range\r\n"),
        ("ZADD e 1 x", WRONG_TYPE),
        ("TYPE z", b"+zset\r\n"),
    ],
)  # fmt: skip
def test_replies(request_: str, reply: bytes) -> None:
    caller = Rig().connect()
    caller.call("ZADD z 1 a 2 b 3 c", "ZADD y 10 a 9 x", "SADD e b q")
    assert caller.call(request_) == reply


def test_the_first_member_of_a_new_set_decides_whether_it_begins_as_a_listpack() -> None:
    """In a listpack, -0 becomes 0, and stays it when a long member comes after it. As Redis 8.10.2 replies."""
    caller = Rig().connect()
    long = "x" * 65
    caller.call(f"ZADD first -0.0 a 1 {long}", f"ZADD last 1 {long} -0.0 a")
    assert caller.call("ZRANGE first 0 0 WITHSCORES") == b"*2\r\n$1\r\na\r\n$1\r\n0\r\n"
    assert caller.call("ZRANGE last 0 0 WITHSCORES") == b"*2\r\n$1\r\na\r\n$2\r\n-0\r\n"


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        ("BZPOPMIN z 0", b"*3\r\n$1\r\nz\r\n$1\r\na\r\n$1\r\n1\r\n"),
        ("BZPOPMAX none z 0", b"*3\r\n$1\r\nz\r\n$1\r\nb\r\n$1\r\n2\r\n"),
        ("BZMPOP 0 2 none z MIN COUNT 1", b"*2\r\n$1\r\nz\r\n*1\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n"),
    ],
)  # fmt: skip
def test_a_client_waits_until_there_is_a_sorted_set(request_: str, reply: bytes) -> None:
    rig = Rig()
    waiter, writer = rig.connect(), rig.connect()
    assert waiter.call(request_) == b""
    writer.call("SADD other x", "SET z v", "DEL z")
    assert waiter.output() == b""
    writer.call("ZADD z 1 a 2 b")
    assert waiter.output() == reply


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        # In the order of scores the members are a, d, b, c.
        ("ZLEXCOUNT m - [b", b":1\r\n"),
        ("ZRANGEBYLEX m [b +", b"*3\r\n$1\r\nd\r\n$1\r\nb\r\n$1\r\nc\r\n"),
        ("ZREVRANGEBYLEX m [c -", b"*4\r\n$1\r\nc\r\n$1\r\nb\r\n$1\r\nd\r\n$1\r\na\r\n"),
        ("ZREVRANGEBYLEX m + [b", b"*3\r\n$1\r\nc\r\n$1\r\nb\r\n$1\r\nd\r\n"),
        ("ZRANGE m (c [b BYLEX REV", b"*2\r\n$1\r\nb\r\n$1\r\nd\r\n"),
    ],
)
def test_a_range_of_members_with_several_scores_ends_with_the_first_one_beyond_its_end(line: str, reply: bytes) -> None:
    caller = Rig().connect()
    caller.call("ZADD m 1 a 1 d 2 b 2 c")
    assert caller.call(line) == reply
