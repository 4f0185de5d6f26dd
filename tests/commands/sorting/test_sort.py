"""SORT and SORT_RO: replies, stored results, permissions, and records for a replay."""

from __future__ import annotations

import random

import pytest

from headrace.commands.execution.slices import result_of
from headrace.commands.sorting.partial_sort import sort_part
from support.inprocess import Rig

NOT_A_NUMBER = b"-ERR One or more scores can't be converted into double\r\n"
SYNTAX = b"-ERR syntax error\r\n"
NOT_AN_INTEGER = b"-ERR value is not an integer or out of range\r\n"
WRONG_TYPE = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"


def elements(reply: bytes) -> list[str]:
    """The elements of an array, `-` for a null."""
    lines = reply.decode().split("\r\n")[1:-1]
    found = []
    while lines:
        found.append("-" if lines[0] == "$-1" else lines.pop(1))
        del lines[0]
    return found


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ("SORT l", "-1 1 1.0 2.5 10"),
        ("SORT l DESC", "10 2.5 1.0 1 -1"),
        ("SORT l DESC ASC", "-1 1 1.0 2.5 10"),
        ("SORT l ALPHA", "-1 1 1.0 10 2.5"),
        ("SORT l LIMIT 1 2", "1 1.0"),
        ("SORT l LIMIT -5 2", "-1 1"),
        ("SORT l LIMIT 3 -1", "2.5 10"),
        ("SORT l LIMIT 9 1", ""),
        ("SORT l LIMIT 1 0", ""),
        ("SORT l BY nosort", "10 -1 2.5 1 1.0"),
        ("SORT l BY nosort DESC LIMIT 0 2", "1.0 1"),
        ("SORT l BY w_*", "10 2.5 1.0 1 -1"),
        ("SORT l BY h_*->weight LIMIT 0 2", "10 2.5"),
        ("SORT l BY h_*->none LIMIT 0 2", "-1 1"),
        ("SORT l BY t_* ALPHA", "10 2.5 1.0 1 -1"),
        ("SORT l BY t_* ALPHA DESC", "-1 1 10 2.5 1.0"),
        ("SORT l BY w_* GET # GET w_* GET h_*->name LIMIT 3 2", "1 6 one -1 7 -"),
        ("SORT l GET fixed LIMIT 0 1", "-"),
        ("SORT l GET l* LIMIT 0 1", "-"),
        ("SORT l GET h_* LIMIT 1 1", "-"),
        ("SORT l GET w_*->f LIMIT 1 1", "-"),
        ("SORT l GET h_*-> LIMIT 1 1", "-"),
        ("SORT_RO l BY nosort LIMIT 0 1 GET #", "10"),
        ("SORT s ALPHA", "a b c"),
        ("SORT s BY nosort LIMIT 1 1 DESC", "a"),
        ("SORT z BY nosort", "y x w v"),
        ("SORT z BY nosort LIMIT 1 2", "x w"),
        ("SORT z BY nosort DESC LIMIT 1 2", "w x"),
        ("SORT z BY nosort DESC LIMIT 9 2", ""),
        ("SORT z ALPHA DESC", "y x w v"),
        ("SORT none", ""),
        ("SORT none BY w_* STORE", None),
    ],
)
def test_orders(request_: str, expected: str | None) -> None:
    caller = Rig().connect()
    caller.call("RPUSH l 10 -1 2.5 1 1.0", "SADD s b a c", "ZADD z 1 y 2 x 3 w 4 v")
    caller.call("MSET w_10 2 w_-1 7 w_2.5 3 w_1 6 w_1.0 5 t_1 y t_-1 z", "HSET h_1 name one weight 9")
    caller.call("HSET h_10 weight -2", "HSET h_2.5 weight -1")
    reply = caller.call(request_)
    assert reply == SYNTAX if expected is None else elements(reply) == expected.split()


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        ("SORT l ALPHA LIMIT 1", SYNTAX),
        ("SORT l LIMIT 1 x", NOT_AN_INTEGER),
        ("SORT l GET", SYNTAX),
        ("SORT_RO l STORE d", SYNTAX),
        ("SORT str", WRONG_TYPE),
        ("SORT str FOO", SYNTAX),
        ("SORT l", NOT_A_NUMBER),
        ("SORT l LIMIT 0 1 STORE d", NOT_A_NUMBER),
        ("SORT numbers BY str*", b"*2\r\n$1\r\n1\r\n$1\r\n2\r\n"),
        ("SORT numbers BY text_*", NOT_A_NUMBER),
        *((f"SORT {name}", NOT_A_NUMBER) for name in ("e:empty", "e:blank", "e:nan", "e:huge", "e:tiny", "e:under")),
        ("SORT e:infinite", b"*2\r\n$4\r\n-inf\r\n$8\r\nInfinity\r\n"),
        ("SORT e:hexadecimal", b"*2\r\n$1\r\n9\r\n$4\r\n0x0a\r\n"),
        ("SORT e:zeros", b"*3\r\n$2\r\n+0\r\n$2\r\n-0\r\n$1\r\n0\r\n"),
    ],
)
def test_errors_and_numbers(request_: str, reply: bytes) -> None:
    caller = Rig().connect()
    caller.call(
        "RPUSH l 1 x", "SET str v", "RPUSH numbers 2 1", "SET text_1 x", 'RPUSH e:empty ""', 'RPUSH e:blank " 1"'
    )
    caller.call("RPUSH e:nan nan", "RPUSH e:huge 1e400", "RPUSH e:tiny 1e-400", "RPUSH e:under 1_0")
    caller.call("RPUSH e:infinite Infinity -inf", "RPUSH e:hexadecimal 0x0a 9", "RPUSH e:zeros 0 -0 +0")
    assert caller.call(request_) == reply


def test_a_result_is_stored_as_a_list() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("SADD s 3 1 2", "SET d v", "EXPIRE d 100", "SET w_2 x")
    assert caller.call("SORT s BY nosort GET # GET w_* STORE d") == b":6\r\n"
    assert elements(caller.call("LRANGE d 0 -1")) == ["1", "", "2", "x", "3", ""]
    assert caller.call("TTL d") == b":-1\r\n"
    assert caller.call("OBJECT ENCODING d") == b"$8\r\nlistpack\r\n"


def test_an_empty_result_removes_the_destination() -> None:
    caller = Rig().connect()
    caller.call("SET d v", "RPUSH l 1")
    assert caller.call("SORT l LIMIT 5 1 STORE d") == b":0\r\n"
    assert caller.call("EXISTS d") == b":0\r\n"


def test_a_result_may_replace_what_was_sorted() -> None:
    caller = Rig().connect()
    caller.call("RPUSH l 3 1 2", "SORT l STORE other STORE l")
    assert elements(caller.call("LRANGE l 0 -1")) == ["1", "2", "3"]
    assert caller.call("EXISTS other") == b":0\r\n"


def test_texts_end_at_a_nul_unless_the_result_is_stored() -> None:
    caller = Rig().connect()
    caller.call(r'RPUSH l "a\x00c" "a\x00b"', "SORT l ALPHA STORE d")
    assert caller.call("SORT l ALPHA") == b"*2\r\n$3\r\na\0c\r\n$3\r\na\0b\r\n"
    assert caller.call("LRANGE d 0 -1") == b"*2\r\n$3\r\na\0b\r\n$3\r\na\0c\r\n"


def test_a_script_gets_a_set_in_a_certain_order() -> None:
    caller = Rig().connect()
    caller.call("SADD s b a c")
    assert elements(caller.call("""EVAL "return redis.call('SORT', 's', 'BY', 'nosort')" 0""")) == ["a", "b", "c"]


def test_a_sorted_set_becomes_a_skiplist() -> None:
    caller = Rig().connect()
    caller.call("ZADD z 1 a", "SORT_RO z ALPHA")
    assert caller.call("OBJECT ENCODING z") == b"$8\r\nskiplist\r\n"


DENIED = b"-ERR %b option of SORT denied due to insufficient ACL permissions.\r\n"


@pytest.mark.parametrize(
    ("rules", "request_", "reply"),
    [
        ("~l", "SORT l BY w_*", DENIED % b"BY"),
        ("~l", "SORT l GET #", DENIED % b"GET"),
        ("~l %W~*", "SORT_RO l GET #", DENIED % b"GET"),
        ("~l", "SORT l BY nosort", b"*1\r\n$1\r\n1\r\n"),
        ("~l", "SORT l STORE d", b"-NOPERM No permissions to access a key\r\n"),
        ("%R~*", "SORT l BY w_* GET #", b"*1\r\n$1\r\n1\r\n"),
        ('~l "(%R~* +sort)"', "SORT l GET #", b"*1\r\n$1\r\n1\r\n"),
        ('~l "(%R~* +get)"', "SORT l GET #", DENIED % b"GET"),
    ],
)
def test_patterns_need_permission_to_read_all_keys(rules: str, request_: str, reply: bytes) -> None:
    rig = Rig()
    rig.connect().call("RPUSH l 1", f"ACL SETUSER u on nopass +sort +sort_ro {rules}")
    caller = rig.connect()
    caller.call("AUTH u x")
    assert caller.call(request_) == reply


@pytest.mark.parametrize(
    ("request_", "keys"),
    [
        ("SORT k", "k"),
        ("SORT k STORE d", "k d"),
        ("SORT k STORE a BY STORE STORE b", "k b"),
        ("SORT k GET STORE d", "k"),
        ("SORT k LIMIT STORE x store d", "k d"),
        ("SORT k STORE", "k"),
        ("SORT_RO k STORE d", "k"),
    ],
)
def test_the_last_store_names_a_key(request_: str, keys: str) -> None:
    assert elements(Rig().connect().call(f"COMMAND GETKEYS {request_}")) == keys.split()


def test_a_partial_sort_puts_its_part_in_order() -> None:
    rnd = random.Random(7)
    for count in (0, 1, 6, 7, 8, 40, 41, 300):
        keys = [rnd.randrange(count // 2 + 1) for _ in range(count)]
        start = rnd.randrange(count + 1)
        stop = rnd.randrange(start, count + 1)
        found, places = keys.copy(), list(range(count))
        result_of(sort_part(found, places, start, stop))
        assert found[start:stop] == sorted(keys)[start:stop]
        assert [keys[place] for place in places] == found
        assert sorted(places) == list(range(count))
