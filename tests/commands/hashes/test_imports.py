"""HIMPORT: fieldsets of a connection, and the hashes that are made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.inprocess import Rig

NO_FIELDSET = b"-ERR no such fieldset\r\n"


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        ("HIMPORT SET h f 1 2 3", b"+OK\r\n"),
        ("HIMPORT SET h f 1 2", b"-ERR value count does not match fieldset field count\r\n"),
        ("HIMPORT SET h none 1 2", NO_FIELDSET),
        ("HIMPORT SET str none 1", b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
        ("HIMPORT PREPARE f a b a", b"-ERR duplicate field name in fieldset\r\n"),
        ("HIMPORT PREPARE f a", b"+OK\r\n"),
        ("HIMPORT DISCARD f", b":1\r\n"),
        ("HIMPORT DISCARD none", b":0\r\n"),
        ("HIMPORT DISCARDALL", b":2\r\n"),
        ("HIMPORT HELP", b"-ERR unknown subcommand 'HELP'. Try HIMPORT HELP.\r\n"),
    ],
)
def test_replies(request_: str, reply: bytes) -> None:
    caller = Rig().connect()
    caller.call("SET str v", "HIMPORT PREPARE f ccc b 10", "HIMPORT PREPARE g a")
    assert caller.call(request_) == reply


def test_fields_are_in_the_order_of_their_lengths_and_names() -> None:
    caller = Rig().connect()
    caller.call("HIMPORT PREPARE f ccc b 10", "HIMPORT SET h f 1 2 3")
    assert caller.call("HKEYS h") == b"*3\r\n$1\r\nb\r\n$2\r\n10\r\n$3\r\nccc\r\n"
    caller.call("HSET h aa 4")
    assert caller.call("HVALS h") == b"*4\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\n4\r\n$1\r\n1\r\n"


def test_an_imported_hash_replaces_the_old_one_and_its_expiry_time() -> None:
    caller = Rig().connect()
    caller.call("HIMPORT PREPARE f a", "HSET h x y", "EXPIRE h 100", "HIMPORT SET h f 1")
    assert caller.call("HGETALL h") == b"*2\r\n$1\r\na\r\n$1\r\n1\r\n"
    assert caller.call("TTL h") == b":-1\r\n"


def test_a_fieldset_belongs_to_one_connection() -> None:
    rig = Rig()
    caller, other = rig.connect(), rig.connect()
    caller.call("HIMPORT PREPARE f a")
    assert other.call("HIMPORT SET h f 1") == NO_FIELDSET
    assert caller.call("HIMPORT SET h f 1") == b"+OK\r\n"


def test_reset_removes_fieldsets() -> None:
    caller = Rig().connect()
    caller.call("HIMPORT PREPARE f a", "RESET")
    assert caller.call("HIMPORT SET h f 1") == NO_FIELDSET


def test_the_fieldsets_of_a_script_end_with_it_and_are_not_those_of_its_caller() -> None:
    caller = Rig().connect()
    caller.call("HIMPORT PREPARE f a")
    prepare = "redis.call('HIMPORT','PREPARE','s','a')"
    assert caller.call(f"EVAL \"{prepare} return redis.call('HIMPORT','SET',KEYS[1],'s','1')\" 1 h") == b"+OK\r\n"
    assert caller.call("EVAL \"return redis.call('HIMPORT','DISCARDALL')\" 0") == b":0\r\n"
    assert caller.call("HIMPORT DISCARDALL") == b":1\r\n"


def test_fieldsets_count_as_memory_of_the_client() -> None:
    rig = Rig()
    caller = rig.connect()
    size = b"CLIENT LIST"
    before = _total_memory(caller.call(size.decode()))
    caller.call("HIMPORT PREPARE f " + " ".join(f"field-{number}" for number in range(1000)))
    assert _total_memory(caller.call(size.decode())) > before + 1000 * len("field-1")


def _total_memory(line: bytes) -> int:
    return int(line.partition(b"tot-mem=")[2].partition(b" ")[0])


@pytest.mark.parametrize(
    ("requests", "encoding"),
    [
        ("HSET h z 1", b"template-listpack"),
        ("HDEL h a", b"template-listpack"),
        (f"HSET h a {'v' * 65}", b"template-array"),
        ("CONFIG SET hash-max-listpack-entries 2;HSET h z 1", b"template-array"),
        ("HEXPIRE h 100 FIELDS 1 a", b"listpackex"),
        (f"HSET h {'n' * 65} 1;HEXPIRE h 100 FIELDS 1 a", b"hashtable"),
        (f"HSETEX h EX 100 FIELDS 1 a {'v' * 65}", b"listpackex"),
        ("COPY h copy;RENAME copy h", b"template-listpack"),
        ("DEBUG RELOAD", b"template-listpack"),
        (f"HSET h a {'v' * 65};DEBUG RELOAD", b"template-array"),
    ],
)
def test_encodings_are_those_of_redis(requests: str, encoding: bytes, tmp_path: Path) -> None:
    caller = Rig(dir=bytes(tmp_path), enable_debug_command=b"yes").connect()
    caller.call("HIMPORT PREPARE f a b", "HIMPORT SET h f 1 2", *requests.split(";"))
    assert caller.call("OBJECT ENCODING h") == b"$%d\r\n%b\r\n" % (len(encoding), encoding)
