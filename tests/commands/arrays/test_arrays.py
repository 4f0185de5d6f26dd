"""Arrays: replies. They are those of Redis 8.10.2."""

from __future__ import annotations

import pytest

from support.inprocess import Rig

BAD_INDEX = b"-ERR invalid array index\r\n"
LARGEST = "18446744073709551614"


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        ("ARSET a 0 x y", b":0\r\n"),
        ("ARSET a 8 x y", b":2\r\n"),
        ("ARSET a x y", BAD_INDEX),
        (f"ARSET a {LARGEST} x y", b"-ERR array index overflow\r\n"),
        ("ARMSET a 0 x 9 y", b":1\r\n"),
        ("ARGET a 2", b"$1\r\n7\r\n"),
        ("ARGET a 3", b"$-1\r\n"),
        ("ARGET a +2", b"$1\r\n7\r\n"),
        ("ARGET a 18446744073709551615", BAD_INDEX),
        ("ARMGET a 1 3", b"*2\r\n$5\r\nApple\r\n$-1\r\n"),
        ("ARGETRANGE a 3 2", b"*2\r\n$-1\r\n$1\r\n7\r\n"),
        ("ARGETRANGE a 0 1000000", b"-ERR range exceeds maximum of 1000000 items\r\n"),
        ("ARSCAN a 9 1 LIMIT 2", b"*2\r\n*2\r\n:5\r\n$3\r\n2.5\r\n*2\r\n:2\r\n$1\r\n7\r\n"),
        ("ARSCAN a 0 1 LIMIT 0", b"-ERR LIMIT must be positive\r\n"),
        ("ARCOUNT a", b":4\r\n"),
        ("ARLEN a", b":6\r\n"),
        ("ARNEXT a", b":3\r\n"),
        ("ARNEXT none", b":0\r\n"),
        ("ARINSERT a x y", b":4\r\n"),
        ("ARSEEK a 9", b":1\r\n"),
        ("ARSEEK none 9", b":0\r\n"),
        ("ARLASTITEMS a 2", b"*2\r\n$5\r\nApple\r\n$1\r\n7\r\n"),
        ("ARLASTITEMS a 2 REV", b"*2\r\n$1\r\n7\r\n$5\r\nApple\r\n"),
        ("ARLASTITEMS a 0 other", b"*0\r\n"),
        ("ARRING a 0 x", b"-ERR size must be positive\r\n"),
        ("ARRING a 6 x", b":3\r\n"),
        ("ARDEL a 0 3 0", b":1\r\n"),
        ("ARDELRANGE a 2 0 5 5", b":4\r\n"),
        ("AROP a 0 9 SUM", b"$3\r\n9.5\r\n"),
        ("AROP a 0 9 MIN", b"$3\r\n2.5\r\n"),
        ("AROP a 0 9 XOR", b":5\r\n"),
        ("AROP a 0 9 MATCH 7", b":1\r\n"),
        ("AROP a 0 9 USED", b":4\r\n"),
        ("AROP a 0 1 SUM", b"$-1\r\n"),
        ("AROP a 0 1 MEAN", b"-ERR unknown operation\r\n"),
        ("ARGREP a - + MATCH app NOCASE", b"*1\r\n:1\r\n"),
        ("ARGREP a + - RE [0-9] LIMIT 1", b"*1\r\n:5\r\n"),
        ("ARGREP a - + GLOB *p* EXACT Apple AND WITHVALUES", b"*1\r\n*2\r\n:1\r\n$5\r\nApple\r\n"),
        ("ARGREP a - + AND OR", b"-ERR syntax error\r\n"),
        ("ARINFO none", b"-ERR no such key\r\n"),
        ("TYPE a", b"+array\r\n"),
        ("OBJECT ENCODING a", b"$12\r\nsliced-array\r\n"),
        ("SORT a", b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
        ("ARSET k 0 x", b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
    ],
)
def test_reply_is_that_of_redis(request_: str, reply: bytes) -> None:
    caller = Rig().connect()
    caller.call("SET k v", "ARSET a 0 x Apple 7", "ARSET a 5 2.5", "ARSEEK a 3")
    assert caller.call(request_) == reply


def test_the_cursor_ends_after_the_largest_index() -> None:
    caller = Rig().connect()
    caller.call("ARINSERT a x", f"ARSEEK a {LARGEST}")
    assert caller.call("ARINSERT a y") == b"$20\r\n18446744073709551614\r\n"
    assert caller.call("ARNEXT a") == b"$-1\r\n"
    assert caller.call("ARINSERT a z") == b"-ERR insert index overflow\r\n"
    assert caller.call("ARLEN a") == b"$20\r\n18446744073709551615\r\n"


def test_the_last_removal_removes_the_key() -> None:
    caller = Rig().connect()
    caller.call("ARSET a 3 x", "ARDEL a 3")
    assert caller.call("EXISTS a") == b":0\r\n"


@pytest.mark.parametrize(
    ("elements", "operation", "reply"),
    [
        ("0.1 0.2", "SUM", b"$3\r\n0.3\r\n"),
        ("9223372036854775807", "SUM", b"$22\r\n9.2233720368547758e+18\r\n"),
        ("99999999999999999", "SUM", b"$17\r\n99999999999999999\r\n"),
        ("99999999999999999 1", "SUM", b"$5\r\n1e+17\r\n"),
        ("1e-7", "MAX", b"$5\r\n1e-07\r\n"),
        ("1e400", "SUM", b"$6\r\n1e+400\r\n"),
        ("123456.789 0.00001", "SUM", b"$12\r\n123456.78901\r\n"),
        ("inf -inf", "SUM", b"$3\r\nnan\r\n"),
        ("-0", "SUM", b"$2\r\n-0\r\n"),
        ("-1.7", "OR", b":-1\r\n"),
        ("1e30", "OR", b"$-1\r\n"),
    ],
)
def test_numbers_are_printed_as_redis_prints_them(elements: str, operation: str, reply: bytes) -> None:
    caller = Rig().connect()
    caller.call(f"ARSET a 0 {elements}")
    assert caller.call(f"AROP a 0 9 {operation}") == reply


def test_patterns_and_predicates_are_limited_as_in_redis() -> None:
    caller = Rig().connect()
    caller.call("ARSET a 0 x")
    begin = "ARGREP a - + "
    assert caller.call(begin + "RE " + "(" * 2048) == b"-ERR invalid regular expression: Missing ')'\r\n"
    too_long = b"-ERR regular expression is too long, maximum is 2048 bytes\r\n"
    assert caller.call(begin + "RE " + "(" * 2049 + " BAD") == too_long
    assert caller.call(begin + "EXACT x " * 250) == b"*1\r\n:0\r\n"
    too_many = b"-ERR too many predicates, maximum is 250\r\n"
    assert caller.call(begin + "EXACT x " * 250 + "RE " + "(" * 2049) == too_many
    assert caller.call(begin + "EXACT x " * 250 + "EXACT") == b"-ERR syntax error\r\n"
