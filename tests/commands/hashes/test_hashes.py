"""Hashes: replies, and fields that expire."""

from __future__ import annotations

import pytest

from support.inprocess import START_MS, Rig

WRONG_TYPE = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
FAR_MS = START_MS + 100_000


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        ("HSET h f w new 1", b":1\r\n"),
        ("HSET h f", b"-ERR wrong number of arguments for 'hset' command\r\n"),
        ("HMSET h f w", b"+OK\r\n"),
        ("HSETNX h f w", b":0\r\n"),
        ("HGET h f", b"$1\r\nv\r\n"),
        ("HGET h none", b"$-1\r\n"),
        ("HMGET h f none", b"*2\r\n$1\r\nv\r\n$-1\r\n"),
        ("HGETALL h", b"*4\r\n$1\r\nf\r\n$1\r\nv\r\n$1\r\nn\r\n$1\r\n7\r\n"),
        ("HKEYS h", b"*2\r\n$1\r\nf\r\n$1\r\nn\r\n"),
        ("HVALS h", b"*2\r\n$1\r\nv\r\n$1\r\n7\r\n"),
        ("HLEN h", b":2\r\n"),
        ("HSTRLEN h f", b":1\r\n"),
        ("HEXISTS h none", b":0\r\n"),
        ("HDEL h f none", b":1\r\n"),
        ("HINCRBY h n -3", b":4\r\n"),
        ("HINCRBY h f 1", b"-ERR hash value is not an integer\r\n"),
        ("HINCRBY h n 9223372036854775807", b"-ERR increment or decrement would overflow\r\n"),
        ("HINCRBYFLOAT h n 0.5", b"$3\r\n7.5\r\n"),
        ("HINCRBYFLOAT h f 1", b"-ERR hash value is not a float\r\n"),
        ("HINCRBYFLOAT h n inf", b"-ERR value is NaN or Infinity\r\n"),
        ("HSCAN h 0 NOVALUES", b"*2\r\n$1\r\n0\r\n*2\r\n$1\r\nf\r\n$1\r\nn\r\n"),
        ("HSCAN h 0 MATCH n*", b"*2\r\n$1\r\n0\r\n*2\r\n$1\r\nn\r\n$1\r\n7\r\n"),
        ("HRANDFIELD h 9 WITHVALUES", b"*4\r\n$1\r\nf\r\n$1\r\nv\r\n$1\r\nn\r\n$1\r\n7\r\n"),
        ("HRANDFIELD none", b"$-1\r\n"),
        ("HGETDEL h FIELDS 2 f f", b"*2\r\n$1\r\nv\r\n$-1\r\n"),
        ("HTTL h FIELDS 2 f none", b"*2\r\n:-1\r\n:-2\r\n"),
        ("HEXPIRE h 10 FIELDS 2 f none", b"*2\r\n:1\r\n:-2\r\n"),
        ("HEXPIRE h 10 XX FIELDS 1 f", b"*1\r\n:0\r\n"),
        ("HEXPIRE h 0 FIELDS 1 f", b"*1\r\n:2\r\n"),
        ("HEXPIRE h 10 FIELDS 2 f", b"-ERR wrong number of arguments\r\n"),
        ("HPERSIST h FIELDS 1 f", b"*1\r\n:-1\r\n"),
        ("HGETEX h EX 10 FIELDS 1 f", b"*1\r\n$1\r\nv\r\n"),
        ("HSETEX h FNX FIELDS 1 f w", b":0\r\n"),
        ("HSETEX h FXX PX 5 FIELDS 1 f w", b":1\r\n"),
        ("HSET str f v", WRONG_TYPE),
        ("SADD h x", WRONG_TYPE),
        ("OBJECT ENCODING h", b"$8\r\nlistpack\r\n"),
        ("TYPE h", b"+hash\r\n"),
    ],
)
def test_replies(request_: str, reply: bytes) -> None:
    caller = Rig().connect()
    caller.call("HSET h f v n 7", "SET str v")
    assert caller.call(request_) == reply


@pytest.mark.parametrize(
    ("request_", "hidden"),
    [
        ("HGETALL h", b"*2\r\n$1\r\ng\r\n$1\r\nw\r\n"),
        ("HKEYS h", b"*1\r\n$1\r\ng\r\n"),
        ("HVALS h", b"*1\r\n$1\r\nw\r\n"),
        ("HGET h f", b"$-1\r\n"),
        ("HMGET h f g", b"*2\r\n$-1\r\n$1\r\nw\r\n"),
        ("HEXISTS h f", b":0\r\n"),
        ("HSTRLEN h f", b":0\r\n"),
        ("HTTL h FIELDS 1 f", b"*1\r\n:-2\r\n"),
        ("HSCAN h 0", b"*2\r\n$1\r\n0\r\n*2\r\n$1\r\ng\r\n$1\r\nw\r\n"),
        ("HRANDFIELD h", b"$1\r\ng\r\n"),
        ("HRANDFIELD h -2", b"*2\r\n$1\r\ng\r\n$1\r\ng\r\n"),
        ("HINCRBY h f 1", b":1\r\n"),
        ("HSETNX h f 1", b":1\r\n"),
        ("HPERSIST h FIELDS 1 f", b"*1\r\n:-2\r\n"),
        ("HGETDEL h FIELDS 1 f", b"*1\r\n$-1\r\n"),
        ("HGETEX h PERSIST FIELDS 1 f", b"*1\r\n$-1\r\n"),
        ("HSETEX h FXX FIELDS 1 f x", b":0\r\n"),
        # As in Redis, these do not look at the time.
        ("HLEN h", b":2\r\n"),
        ("HSET h f x", b":0\r\n"),
        ("HDEL h f", b":1\r\n"),
        ("HEXPIRE h 10 FIELDS 1 f", b"*1\r\n:1\r\n"),
    ],
)
def test_a_field_whose_time_is_over_is_not_there(request_: str, hidden: bytes) -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("HSET h f v g w", "HPEXPIRE h 100 FIELDS 1 f")
    rig.clock.advance(101)
    assert caller.call(request_) == hidden


@pytest.mark.parametrize("request_", ["HGET h f", "HINCRBY h f 1", "HRANDFIELD h", "HGETDEL h FIELDS 1 f"])
def test_the_last_field_takes_the_key_with_it(request_: str) -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("HSET h f v", "HPEXPIRE h 100 FIELDS 1 f")
    rig.clock.advance(101)
    caller.call(request_)
    assert caller.call("EXISTS h") == (b":1\r\n" if "INCR" in request_ else b":0\r\n")
    rig.server.store.databases[0].check()


@pytest.mark.parametrize("fields_count", [3, 1_000])
def test_fields_that_are_not_read_are_removed_when_they_are_due(fields_count: int) -> None:
    rig = Rig()
    caller = rig.connect()
    fields = [f"f{number}" for number in range(fields_count)]
    caller.call("HSET h keep v " + " ".join(f"{field} v" for field in fields))
    caller.call(f"HPEXPIRE h 100 FIELDS {fields_count} " + " ".join(fields))
    db = rig.server.store.databases[0]
    assert len(db.expiring_hashes) == 1
    rig.clock.advance(101)
    while db.expire_fields(rig.clock(), 100):
        pass
    assert caller.call("HLEN h") == b":1\r\n"
    assert not len(db.expiring_hashes)
    db.check()


@pytest.mark.parametrize(
    "request_",
    [
        "RENAME h other",
        "COPY h other",
        "MOVE h 1",
        "DEL h",
        "SET h v",
        "FLUSHDB",
        "SWAPDB 0 1",
        "HPERSIST h FIELDS 1 f",
    ],
)
def test_the_times_of_fields_go_where_their_hash_goes(request_: str) -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("HSET h f v g w", "HPEXPIRE h 100 FIELDS 1 f")
    assert not caller.call(request_).startswith(b"-")
    for db in rig.server.store.databases:
        db.check()
    rig.clock.advance(101)
    for db in rig.server.store.databases:
        db.expire_fields(rig.clock(), 100)
        db.check()


def test_while_times_have_no_effect_every_field_is_there() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("HSET h f v", "HPEXPIRE h 100 FIELDS 1 f")
    rig.clock.advance(101)
    rig.server.store.freeze()
    assert caller.call("HGET h f") == b"$1\r\nv\r\n"
    rig.server.store.thaw()
    assert caller.call("HGET h f") == b"$-1\r\n"


def test_a_replica_hides_fields_that_only_its_primary_removes() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("HSET h f v g w", "HPEXPIRE h 100 FIELDS 1 f")
    rig.clock.advance(101)
    rig.server.store.keep_expired(True)
    assert caller.call("HGET h f") == b"$-1\r\n"
    assert caller.call("HLEN h") == b":2\r\n"
