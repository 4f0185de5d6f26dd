"""Commands on keys of any type: renaming, copies, databases, listing."""

from __future__ import annotations

import pytest

from support.inprocess import Rig
from support.lines import split
from support.servers import Server
from support.wire import encode

SAME = b"-ERR source and destination objects are the same\r\n"
DB_RANGE = b"-ERR DB index is out of range\r\n"
INT_RANGE = b"-ERR value is out of range, value must between -2147483648 and 2147483647\r\n"
NOT_AN_INTEGER = b"-ERR value is not an integer or out of range\r\n"
NO_KEY = b"-ERR no such key\r\n"
SYNTAX = b"-ERR syntax error\r\n"
INVALID_CURSOR = b"-ERR invalid cursor\r\n"
OK = b"+OK\r\n"
WRONG_TYPE = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"

SETUP = (
    "SET k v PX 10000",
    "SET other o",
    "XADD s 1-1 f v",
    "XGROUP CREATE s g 0",
    "SELECT 1",
    "SET there t",
    "SELECT 0",
)


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("EXISTS k k no", b":2\r\n"),
        ("TOUCH k k no", b":2\r\n"),
        ("DEL k k no", b":1\r\n"),
        ("UNLINK k other no", b":2\r\n"),
        ("TYPE k", b"+string\r\n"),
        ("TYPE s", b"+stream\r\n"),
        ("TYPE no", b"+none\r\n"),
        ("DBSIZE", b":3\r\n"),
        ("RENAME k k", OK),
        ("RENAME no no", NO_KEY),
        ("RENAMENX k k", b":0\r\n"),
        ("RENAMENX k other", b":0\r\n"),
        ("RENAMENX k new", b":1\r\n"),
        ("RENAMENX no new", NO_KEY),
        ("MOVE k 1", b":1\r\n"),
        ("MOVE no 1", b":0\r\n"),
        ("MOVE no 0", SAME),
        ("MOVE k 16", DB_RANGE),
        ("MOVE k -1", DB_RANGE),
        ("MOVE k 3000000000", INT_RANGE),
        ("MOVE k x", NOT_AN_INTEGER),
        ("COPY k new", b":1\r\n"),
        ("COPY k other", b":0\r\n"),
        ("COPY k other REPLACE REPLACE", b":1\r\n"),
        ("COPY k k DB 1", b":1\r\n"),
        ("COPY k there DB 1", b":0\r\n"),
        ("COPY no new", b":0\r\n"),
        ("COPY no no", SAME),
        ("COPY k k DB 0", SAME),
        ("COPY k new DB", SYNTAX),
        ("COPY k new DB x", NOT_AN_INTEGER),
        ("COPY k new DB 16 FOO", DB_RANGE),
        ("COPY k k FOO", SYNTAX),
        ("SWAPDB 0 0", OK),
        ("SWAPDB x y", b"-ERR invalid first DB index\r\n"),
        ("SWAPDB 0 3000000000", b"-ERR invalid second DB index\r\n"),
        ("SWAPDB 0 16", DB_RANGE),
        ("FLUSHALL FOO", SYNTAX),
        ("FLUSHDB ASYNC SYNC", SYNTAX),
        ("FLUSHDB async", OK),
        ("KEYS [j-l]", b"*1\r\n$1\r\nk\r\n"),
        ("OBJECT ENCODING s", b"$6\r\nstream\r\n"),
        ("OBJECT ENCODING no", b"$-1\r\n"),
        ("OBJECT REFCOUNT k", b":1\r\n"),
        ("OBJECT REFCOUNT no", b"$-1\r\n"),
        ("OBJECT IDLETIME k", b":0\r\n"),
        ("OBJECT IDLETIME no", b"$-1\r\n"),
        ("OBJECT FREQ no", b"$-1\r\n"),
        ("OBJECT FOO", b"-ERR unknown subcommand 'FOO'. Try OBJECT HELP.\r\n"),
        ("SCAN x", INVALID_CURSOR),
        ("SCAN 18446744073709551616", INVALID_CURSOR),
        ('SCAN ""', INVALID_CURSOR),
        ("SCAN 0 COUNT 0", SYNTAX),
        ("SCAN 0 COUNT x", NOT_AN_INTEGER),
        ("SCAN 0 MATCH", SYNTAX),
        ("SCAN 0 FOO 1", SYNTAX),
        ("SCAN 0 TYPE nosuch", b"*2\r\n$1\r\n0\r\n*0\r\n"),
        ("SCAN 0 MATCH a COUNT 1 MATCH s COUNT 50 TYPE STREAM", b"*2\r\n$1\r\n0\r\n*1\r\n$1\r\ns\r\n"),
    ],
)
def test_replies(line: str, reply: bytes) -> None:
    caller = Rig().connect()
    caller.call(*SETUP)
    assert caller.call(line) == reply


@pytest.mark.parametrize(
    ("key", "value", "encoding"),
    [
        ("k", "9223372036854775807", b"int"),
        ("k", "9223372036854775808", b"embstr"),
        ("k", "007", b"embstr"),
        ("k", "a" * 40, b"embstr"),
        ("k", "a" * 41, b"raw"),
        ("k" * 21, "a" * 20, b"embstr"),
        ("k" * 21, "a" * 21, b"raw"),
    ],
)
def test_encoding_is_that_of_a_fresh_set(key: str, value: str, encoding: bytes) -> None:
    caller = Rig().connect()
    caller.call(f"SET {key} {value}")
    assert caller.call(f"OBJECT ENCODING {key}") == b"$%d\r\n%b\r\n" % (len(encoding), encoding)


@pytest.mark.parametrize(
    ("line", "key", "index"),
    [
        ("RENAME k new", "new", 0),
        ("RENAME k other", "other", 0),
        ("RENAMENX k new", "new", 0),
        ("MOVE k 1", "k", 1),
        ("COPY k new", "new", 0),
        ("COPY k there DB 1 REPLACE", "there", 1),
    ],
)
def test_moved_value_keeps_its_expiry_and_the_log_gets_the_command(line: str, key: str, index: int) -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call(*SETUP)
    rig.log.units.clear()
    caller.call(line)
    assert caller.call(f"SELECT {index}", f"GET {key}", f"PTTL {key}") == OK + b"$1\r\nv\r\n:10000\r\n"
    assert caller.call("SELECT 0", "EXISTS k") == OK + b":%d\r\n" % line.startswith("COPY")
    assert rig.log.units == [[line.encode()]]


def test_value_without_expiry_removes_that_of_the_key_it_replaces() -> None:
    caller = Rig().connect()
    caller.call(*SETUP)
    assert caller.call("RENAME other k", "PTTL k") == OK + b":-1\r\n"


def test_copied_stream_is_independent_of_its_source() -> None:
    caller = Rig().connect()
    caller.call(*SETUP, "XREADGROUP GROUP g c STREAMS s >", "COPY s t", "XADD t 2-1 f v", "XACK t g 1-1")
    assert caller.call("XLEN s", "XLEN t") == b":1\r\n:2\r\n"
    assert caller.call("XPENDING s g").startswith(b"*4\r\n:1\r\n")
    assert caller.call("XPENDING t g").startswith(b"*4\r\n:0\r\n")


@pytest.mark.parametrize(
    "line", ["RENAME k k", "RENAMENX k other", "MOVE no 1", "COPY k other", "DEL no", "EXISTS k", "TOUCH k"]
)
def test_command_without_effect_logs_nothing(line: str) -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call(*SETUP)
    rig.log.units.clear()
    caller.call(line)
    assert rig.log.units == []


def test_flush_is_logged_even_on_an_empty_server() -> None:
    rig = Rig()
    rig.connect().call("FLUSHDB", "FLUSHALL")
    assert rig.log.units == [[b"FLUSHDB"], [b"FLUSHALL"]]


def test_flushdb_leaves_other_databases_and_flushall_does_not() -> None:
    caller = Rig().connect()
    caller.call(*SETUP, "FLUSHDB")
    assert caller.call("DBSIZE", "SELECT 1", "DBSIZE") == b":0\r\n" + OK + b":1\r\n"
    assert caller.call("SELECT 0", "FLUSHALL", "SELECT 1", "DBSIZE") == OK * 3 + b":0\r\n"


def test_expired_target_is_deleted_first_in_the_log() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("SELECT 1", "SET k old PX 10", "SELECT 0", "SET k new", "SET a v PX 10", "SET b v")
    rig.clock.advance(11)
    assert caller.call("MOVE k 1", "RENAMENX b a") == b":1\r\n:1\r\n"
    assert rig.log.units[-2:] == [[b"DEL k", b"MOVE k 1"], [b"DEL a", b"RENAMENX b a"]]


def test_expired_keys_are_not_listed() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("SET k v PX 10")
    rig.clock.advance(11)
    assert caller.call("DBSIZE", "SCAN 0", "DBSIZE") == b":1\r\n*2\r\n$1\r\n0\r\n*0\r\n:0\r\n"
    for line, reply in (
        ("KEYS *", b"*0\r\n"),
        ("RANDOMKEY", b"$-1\r\n"),
        ("TYPE k", b"+none\r\n"),
        ("RENAME k l", NO_KEY),
    ):
        caller.call("SET k v PX 10")
        rig.clock.advance(11)
        assert caller.call(line) == reply


def test_randomkey_returns_a_key_that_has_not_expired() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call(*(f"SET gone:{number} v PX 10" for number in range(50)), "SET here v")
    rig.clock.advance(11)
    assert caller.call("RANDOMKEY") == b"$4\r\nhere\r\n"


def test_watch_notices_swapped_databases_and_renamed_keys() -> None:
    rig = Rig()
    caller, other = rig.connect(), rig.connect()
    for line in ("SWAPDB 0 1", "RENAME k new", "RENAME other k", "MOVE k 1", "COPY other k REPLACE"):
        other.call("FLUSHALL", *SETUP)
        caller.call("WATCH k")
        other.call(line)
        assert caller.call("MULTI", "EXEC") == OK + b"*-1\r\n", line


def test_reader_blocked_on_a_name_gets_the_stream_that_arrives_under_it() -> None:
    rig = Rig()
    caller, other = rig.connect(), rig.connect()
    for line in ("RENAME s t", "COPY s t", "SWAPDB 0 1"):
        other.call("FLUSHALL", "XADD s 1-1 f v", "SELECT 1", "XADD t 1-1 f v", "SELECT 0")
        assert caller.call("XREAD BLOCK 0 STREAMS t 0") == b""
        other.call(line)
        assert caller.output() == b"*1\r\n*2\r\n$1\r\nt\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n", line


IDLE_MS = 7500


@pytest.mark.parametrize(
    ("line", "idle_s"),
    [
        ("XLEN s", 0),
        ("XADD s * f v", 0),
        ("XREADGROUP GROUP g c STREAMS s >", 0),
        ("XINFO STREAM s", 0),
        ("TOUCH s", 0),
        ("DUMP s", 0),
        ("COPY s t", 0),
        ("RENAME s s", 0),
        ("RENAMENX s k", 0),
        ("TYPE s", 7),
        ("TTL s", 7),
        ("OBJECT ENCODING s", 7),
        ("EXISTS s", 7),
        ("MEMORY USAGE s", 7),
    ],
)
def test_idle_time_of_a_stream_is_since_its_last_use(line: str, idle_s: int) -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call(*SETUP)
    rig.pass_time(IDLE_MS)
    caller.call(line)
    assert caller.call("OBJECT IDLETIME s") == b":%d\r\n" % idle_s


@pytest.mark.parametrize(
    "line",
    ["RENAME s new", "XADD new * f v", "XADD new MAXLEN 5 * f v", "XGROUP CREATE new g $ MKSTREAM", "COPY s new"],
)
def test_new_stream_has_just_been_used(line: str) -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call(*SETUP)
    rig.pass_time(IDLE_MS)
    caller.call(line)
    assert caller.call("OBJECT IDLETIME new") == b":0\r\n"


def test_restored_stream_has_the_idle_time_it_is_given() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call(*SETUP)
    payload = caller.call("DUMP s").split(b"\r\n", 1)[1][:-2]
    rig.dispatcher.execute(caller.session, [[b"RESTORE", b"t", b"0", payload, b"IDLETIME", b"100"]], rig.clock())
    caller.output()
    assert caller.call("OBJECT IDLETIME t") == b":100\r\n"


def test_client_with_no_touch_keeps_idle_times() -> None:
    rig = Rig()
    caller, quiet = rig.connect(), rig.connect()
    caller.call(*SETUP)
    rig.pass_time(IDLE_MS)
    assert quiet.call("CLIENT NO-TOUCH on", "XLEN s", "OBJECT IDLETIME s") == b"+OK\r\n:1\r\n:7\r\n"
    assert quiet.call("TOUCH s", "OBJECT IDLETIME s") == b":1\r\n:0\r\n"
    assert quiet.call("CLIENT NO-TOUCH off", "XLEN s") == b"+OK\r\n:1\r\n"


def test_loaded_stream_is_idle_since_the_start() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call(*SETUP)
    rig.server.store.databases[0].streams[b"s"].used_ms = 0
    rig.pass_time(IDLE_MS)
    assert caller.call("OBJECT IDLETIME s") == b":7\r\n"


@pytest.mark.parametrize(
    ("flush", "appended"),
    [
        ("FLUSHDB", WRONG_TYPE),
        ("FLUSHALL SYNC", WRONG_TYPE),
        ("FLUSHDB ASYNC", b":1\r\n"),
        ("MULTI|FLUSHALL|EXEC", b":1\r\n"),
    ],
)
def test_client_waiting_for_its_flush_continues_after_those_it_woke(
    flush: str, appended: bytes, server: Server
) -> None:
    """A thread of Redis flushes meanwhile; the next command of the woken client creates a stream."""
    lines = [*flush.split("|"), "APPEND s 1", "ECHO end"]
    with server.connect() as flusher, server.connect() as blocked:
        flusher.call("XGROUP", "CREATE", "t", "g", "0", "MKSTREAM")
        blocked.send_bytes(encode(split("XREADGROUP GROUP g c BLOCK 0 STREAMS t >")) + encode(split("XADD s 1-1 f v")))
        while b"blocked_clients:1\r\n" not in flusher.ask("INFO", "clients"):
            continue
        flusher.send_bytes(b"".join(encode(split(line)) for line in lines))
        received = b""
        while not received.endswith(b"end\r\n"):
            received += flusher.receive()
        assert received.endswith(appended + b"$3\r\nend\r\n")
