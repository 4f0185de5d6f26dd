"""The directives that let hashes take the encodings of HIMPORT by themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.inprocess import Caller, Rig

LISTPACK, ARRAY = b"template-listpack", b"template-array"


def encoding(caller: Caller) -> bytes:
    return caller.call("OBJECT ENCODING h").split(b"\r\n")[1]


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ("HSET h b 2 a 1", b"listpack"),
        ("HSET h ccc 3 b 2 a 1", LISTPACK),
        ("HMSET h ccc 3 b 2 a 1", LISTPACK),
        ("HSET h b 2 a 1;HSETNX h c 3", LISTPACK),
        ("HSET h b 2 a 1;HINCRBY h c 3", LISTPACK),
        ("HSET h b 2 a 1;HINCRBYFLOAT h c 3", LISTPACK),
        ("HSETEX h FIELDS 3 c 3 b 2 a 1", LISTPACK),
        ("HSETEX h EX 100 FIELDS 3 c 3 b 2 a 1", b"listpackex"),
        ("HSETEX h EX 100 FIELDS 3 c 3 b 2 a 1;HPERSIST h FIELDS 3 a b c;HSET h a 2", b"listpackex"),
        (f"HSET h b 2 a 1 c {'v' * 65}", ARRAY),
        (f"HSET h b 2 a 1 {'n' * 65} 3", ARRAY),
        ("HSET h c 3 b 2 a 1;HDEL h a b", LISTPACK),
        ("HSET h c 3 b 2 a 1;HEXPIRE h 100 FIELDS 1 a;HSET h b 3", b"listpackex"),
        # A hash table whose fields have had expiry times stays one until it is loaded.
        (f"HSET h b 2 c {'v' * 65};HEXPIRE h 100 FIELDS 1 b;HPERSIST h FIELDS 1 b;HSET h a 3", b"hashtable"),
        (f"HSET h b 2 c {'v' * 65};HEXPIRE h 100 FIELDS 1 b;HPERSIST h FIELDS 1 b;DEBUG RELOAD;HSET h a 3", ARRAY),
    ],
)
def test_a_hash_with_enough_fields_takes_a_template_when_a_command_sets_fields(
    requests: str, expected: bytes, tmp_path: Path
) -> None:
    rig = Rig(hash_min_template_entries=3, dir=bytes(tmp_path), enable_debug_command=b"yes")
    caller = rig.connect()
    caller.call(*requests.split(";"))
    assert encoding(caller) == expected


def test_the_fields_come_into_the_order_of_templates() -> None:
    caller = Rig(hash_min_template_entries=3).connect()
    caller.call("HSET h ccc 3 b 2 a 1")
    assert caller.call("HKEYS h") == b"*3\r\n$1\r\na\r\n$1\r\nb\r\n$3\r\nccc\r\n"


def test_a_hash_that_was_made_before_the_directive_takes_a_template_with_its_next_write() -> None:
    caller = Rig().connect()
    caller.call("HSET h b 2 a 1", "CONFIG SET hash-min-template-entries 2", "HDEL h none", "HSETNX h a 2")
    assert encoding(caller) == b"listpack"
    caller.call("HSET h a 2")
    assert encoding(caller) == LISTPACK


def test_a_hash_with_more_fields_than_the_largest_number_stays_plain() -> None:
    caller = Rig(hash_min_template_entries=1, hash_max_template_entries=2).connect()
    caller.call("HSET h a 1 b 2 c 3")
    assert encoding(caller) == b"listpack"
    caller.call("HDEL h c", "HSET h a 2")
    assert encoding(caller) == LISTPACK
    caller.call("HSET h c 3 d 4")
    assert encoding(caller) == LISTPACK


@pytest.mark.parametrize(
    ("count_min", "count_max", "expected"),
    [(2, 0, LISTPACK), (3, 0, b"listpack"), (1, 1, b"listpack"), (0, 2, b"listpack")],
)
def test_hashes_of_a_file_without_templates_take_one_when_they_are_loaded(
    count_min: int, count_max: int, expected: bytes, tmp_path: Path
) -> None:
    caller = Rig(
        dir=bytes(tmp_path),
        hash_rdb_load_min_template_entries=count_min,
        hash_rdb_load_max_template_entries=count_max,
        enable_debug_command=b"yes",
    ).connect()
    caller.call("HSET h b 2 a 1", "DEBUG RELOAD")
    assert encoding(caller) == expected


@pytest.mark.parametrize(
    ("threshold", "expected"), [(0, [LISTPACK, ARRAY]), (2, [LISTPACK, ARRAY]), (3, [b"listpack", b"hashtable"])]
)
def test_too_few_loaded_hashes_with_the_same_fields_stay_plain(
    threshold: int, expected: list[bytes], tmp_path: Path
) -> None:
    caller = Rig(
        dir=bytes(tmp_path),
        hash_rdb_load_min_template_entries=1,
        hash_rdb_load_template_disassembly_threshold=threshold,
        enable_debug_command=b"yes",
    ).connect()
    long = "v" * 65
    caller.call("HSET h cc 2 a 1", "HSET other a 1 cc 2", f"HSET k b {long}", "HSET three c 1 a 2 b 3")
    caller.call(f"HSET long b {long}", "HSET second c 1 a 2 b 3", "HSET third c 1 a 2 b 3", "DEBUG RELOAD")
    encodings = caller.call("OBJECT ENCODING h", "OBJECT ENCODING k", "OBJECT ENCODING three").split(b"\r\n")[1::2]
    assert encodings == [*expected, LISTPACK]
    # As in Redis, the fields have come into the order of templates.
    assert caller.call("HKEYS h") == b"*2\r\n$1\r\na\r\n$2\r\ncc\r\n"


def test_many_fields_of_a_loaded_hash_that_stays_plain_are_in_the_order_of_templates(tmp_path: Path) -> None:
    caller = Rig(
        dir=bytes(tmp_path),
        hash_rdb_load_min_template_entries=1,
        hash_rdb_load_template_disassembly_threshold=2,
        enable_debug_command=b"yes",
    ).connect()
    names = [b"%d" % number for number in range(400, 0, -1)]
    caller.call("HSET h " + " ".join(f"{name.decode()} v" for name in names), "DEBUG RELOAD")
    assert encoding(caller) == b"listpack"
    assert caller.call("HKEYS h").split(b"\r\n")[2::2] == sorted(names, key=lambda name: (len(name), name))
