"""DUMP and RESTORE: payloads, the order of checks, expiry, and what is logged."""

from __future__ import annotations

import random

import pytest

from headrace.persistence.rdb.payload import dump as dump_payload
from headrace.persistence.rdb.primitives import crc64
from support.inprocess import START_MS, Caller, Rig
from support.servers import Server

OK = b"+OK\r\n"
SYNTAX = b"-ERR syntax error\r\n"
NOT_AN_INTEGER = b"-ERR value is not an integer or out of range\r\n"
BUSY = b"-BUSYKEY Target key name already exists.\r\n"
WRONG_CHECKSUM = b"-ERR DUMP payload version or checksum are wrong\r\n"
BAD_FORMAT = b"-ERR Bad data format\r\n"
BAD_TTL = b"-ERR Invalid TTL value, must be >= 0\r\n"
BAD_IDLE_TIME = b"-ERR Invalid IDLETIME value, must be >= 0\r\n"
BAD_FREQUENCY = b"-ERR Invalid FREQ value, must be >= 0 and <= 255\r\n"


def sealed(body: bytes, version: int = 15) -> bytes:
    """Returns a payload with a valid checksum."""
    data = body + version.to_bytes(2, "little")
    return data + crc64(data).to_bytes(8, "little")


HELLO = sealed(b"\0\5hello")
# The bytes that replace a capital word in the lines below.
PAYLOADS = {
    "HELLO": HELLO,
    "OLD": sealed(b"\0\5hello", 0),
    "NEW": sealed(b"\0\5hello", 16),
    "UNCHECKED": HELLO[:-8] + bytes(8),
    "DAMAGED": HELLO[:-1] + b"\0",
    "TRAILING": sealed(b"\0\5hello and more"),
    "EMPTY": sealed(b""),
    "BAD": sealed(b"\0\xc4hello"),
    "LONG": sealed(b"\0\x81" + (2**60).to_bytes(8, "big") + b"hello"),
    "UNKNOWN": sealed(b"\x08\5hello"),
    "MODULE": sealed(b"\7\1\0"),
    "SHORT": b"x",
}


def call(caller: Caller, line: str, stream: bytes = b"") -> bytes:
    """Runs a command line, with `stream` for the word STREAM."""
    argv = [PAYLOADS.get(word, stream if word == "STREAM" else word.encode()) for word in line.split()]
    caller.rig.dispatcher.execute(caller.session, [argv], caller.rig.clock())
    return caller.output()


def test_dump_returns_the_bytes_of_redis() -> None:
    caller = Rig().connect()
    caller.call("SET str hello", "SET n 7")
    shown = bytes.fromhex("00 05 68 65 6c 6c 6f 0f 00 78 f6 ba 7a cb 98 dd f2")
    assert call(caller, "DUMP str") == b"$17\r\n" + shown + b"\r\n"
    assert shown == HELLO
    assert call(caller, "DUMP none") == b"$-1\r\n"


REPLIES = [
    ("RESTORE k 0 HELLO", OK),
    ("restore k 0 HELLO", OK),
    ("RESTORE k 0 OLD", OK),
    ("RESTORE k 0 UNCHECKED", OK),
    ("RESTORE k 0 TRAILING", OK),
    ("RESTORE k 0 NEW", WRONG_CHECKSUM),
    ("RESTORE k 0 DAMAGED", WRONG_CHECKSUM),
    ("RESTORE k 0 SHORT", WRONG_CHECKSUM),
    ("RESTORE k 0 EMPTY", BAD_FORMAT),
    ("RESTORE k 0 BAD", BAD_FORMAT),
    ("RESTORE k 0 LONG", BAD_FORMAT),
    ("RESTORE k 0 UNKNOWN", BAD_FORMAT),
    ("RESTORE there 0 HELLO", BUSY),
    ("RESTORE there x SHORT", BUSY),
    ("RESTORE there 0 HELLO OTHER", SYNTAX),
    ("RESTORE there x SHORT REPLACE", NOT_AN_INTEGER),
    ("RESTORE there -1 SHORT REPLACE", BAD_TTL),
    ("RESTORE there 0 SHORT REPLACE", WRONG_CHECKSUM),
    ("RESTORE there 0 HELLO REPLACE", OK),
    ("RESTORE there 0 HELLO replace absttl", OK),
    ("RESTORE k 9223372036854775808 HELLO", NOT_AN_INTEGER),
    ("RESTORE k 0 HELLO IDLETIME", SYNTAX),
    ("RESTORE k 0 HELLO IDLETIME x", NOT_AN_INTEGER),
    ("RESTORE k 0 HELLO IDLETIME -1", BAD_IDLE_TIME),
    ("RESTORE k 0 HELLO IDLETIME 5", OK),
    ("RESTORE k 0 HELLO IDLETIME 5 IDLETIME 6", OK),
    ("RESTORE k 0 HELLO IDLETIME 0 FREQ 3", SYNTAX),
    ("RESTORE k 0 HELLO FREQ 3 IDLETIME 5", SYNTAX),
    ("RESTORE k 0 HELLO FREQ", SYNTAX),
    ("RESTORE k 0 HELLO FREQ -1", BAD_FREQUENCY),
    ("RESTORE k 0 HELLO FREQ 256", BAD_FREQUENCY),
    ("RESTORE k 0 HELLO FREQ 255 FREQ 0", OK),
]


@pytest.mark.parametrize(("line", "reply"), REPLIES)
def test_replies_of_restore(line: str, reply: bytes) -> None:
    caller = Rig().connect()
    caller.call("SET there t")
    assert call(caller, line) == reply
    key = line.split()[1]
    made = b"$5\r\nhello\r\n" if reply == OK else (b"$1\r\nt\r\n" if key == "there" else b"$-1\r\n")
    assert call(caller, f"GET {key}") == made


def test_values_of_other_types_are_refused() -> None:
    assert call(Rig().connect(), "RESTORE k 0 MODULE") == BAD_FORMAT


SOON_MS = START_MS + 5000
EXPIRIES = [
    ("RESTORE k 0 HELLO", b":-1\r\n", b"RESTORE k 0 HELLO"),
    ("RESTORE k 5000 HELLO", b":%d\r\n" % SOON_MS, b"RESTORE k %d HELLO ABSTTL" % SOON_MS),
    ("RESTORE k 5000 HELLO REPLACE FREQ 3", b":%d\r\n" % SOON_MS,
     b"RESTORE k %d HELLO REPLACE FREQ 3 ABSTTL" % SOON_MS),
    (f"RESTORE k {SOON_MS} HELLO ABSTTL", b":%d\r\n" % SOON_MS, b"RESTORE k %d HELLO ABSTTL" % SOON_MS),
    ("RESTORE k 9223372036854775807 HELLO ABSTTL", b":9223372036854775807\r\n",
     b"RESTORE k 9223372036854775807 HELLO ABSTTL"),
    ("RESTORE k 1000 HELLO ABSTTL", b":-2\r\n", None),
    (f"RESTORE k {START_MS} HELLO ABSTTL", b":-2\r\n", None),
    ("RESTORE k 9223372036854775807 HELLO", b":-2\r\n", None),
    ("RESTORE old 1000 HELLO ABSTTL REPLACE", b":-2\r\n", b"DEL old"),
    ("RESTORE old 0 HELLO REPLACE", b":-1\r\n", b"RESTORE old 0 HELLO REPLACE"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "expires", "record"), EXPIRIES)
def test_expiry_is_set_and_logged_in_absolute_terms(line: str, expires: bytes, record: bytes | None) -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("SET old t PX 100000")
    rig.log.units.clear()
    assert call(caller, line) == OK
    assert call(caller, f"PEXPIRETIME {line.split()[1]}") == expires
    assert [unit[0].replace(HELLO, b"HELLO") for unit in rig.log.units] == ([] if record is None else [record])


def test_a_replay_keeps_a_key_whose_expiry_time_has_passed() -> None:
    rig = Rig()
    caller = rig.connect()
    rig.server.context.replaying = True
    assert call(caller, "RESTORE k 1000 HELLO ABSTTL") == OK
    assert rig.server.store.databases[0].expires[b"k"] == 1000


def test_a_restored_stream_accepts_new_entries() -> None:
    caller = Rig().connect()
    caller.call(
        "XADD s 1-1 f v", "XADD s 2-1 f w", "XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >",
        "XNACK s g FAIL IDS 1 2-1",
    )  # fmt: skip
    dumped = call(caller, "DUMP s")
    assert call(caller, "RESTORE twin 0 STREAM", dumped.partition(b"\r\n")[2][:-2]) == OK
    assert call(caller, "DUMP twin") == dumped
    assert call(caller, "XADD twin 2-1 f v").startswith(b"-ERR The ID specified in XADD is equal or smaller")
    assert call(caller, "XADD twin 3-1 f v") == b"$3\r\n3-1\r\n"
    assert call(caller, "XLEN s") == b":2\r\n"
    pending = call(caller, "XPENDING twin g")
    assert pending == call(caller, "XPENDING s g")


def test_waiting_readers_are_served_by_restore() -> None:
    rig = Rig()
    caller, reader = rig.connect(), rig.connect()
    caller.call("XADD s 5-1 f v")
    dumped = call(caller, "DUMP s")
    assert reader.call("XREAD BLOCK 0 STREAMS twin 0") == b""
    assert call(caller, "RESTORE twin 0 STREAM", dumped.partition(b"\r\n")[2][:-2]) == OK
    assert b"5-1" in reader.output()


# -- compared with Redis -----------------------------------------------------------------------------


@pytest.mark.oracle
def test_replies_are_those_of_redis(headrace: Server, oracle: Server) -> None:
    lines = [line for line, _ in REPLIES] + [line for line, _, _ in EXPIRIES if "5000" not in line]
    with headrace.connect() as ours, oracle.connect() as theirs:
        for line in lines:
            argv = [PAYLOADS.get(word, word.encode()) for word in line.split()]
            key = argv[1]
            for setup in (["DEL", key, "k", "there"], ["SET", "there", "t"]):
                ours.call(*setup), theirs.call(*setup)
            assert ours.call(*argv) == theirs.call(*argv), line
            for word in ("GET", "PEXPIRETIME", "DUMP"):
                assert ours.call(word, key) == theirs.call(word, key), line


@pytest.mark.oracle
def test_strings_are_dumped_as_by_redis(headrace: Server, oracle: Server) -> None:
    source = random.Random(7)
    words = [b"temp", b"=", b"20", b"\0\0\0\0", b"a" * 30, bytes(range(40)), b"the same words again "]
    texts = [b"%d" % (sign * 2**bits + step) for sign in (1, -1) for bits in (6, 7, 15, 31, 63) for step in (-1, 0, 1)]
    texts += [b"".join(source.choices(words, k=source.randrange(1, 300))) for _ in range(150)]
    texts += [bytes(source.choices(b"abcd", k=size)) for size in (*range(18, 70), 300, 9000, 30000)]
    with headrace.connect() as ours, oracle.connect() as theirs:
        for text in texts:
            ours.call("SET", "k", text), theirs.call("SET", "k", text)
            assert ours.call("DUMP", "k") == theirs.call("DUMP", "k"), text


@pytest.mark.parametrize("change", ["APPEND k b", "SETRANGE k 3 b"])
def test_a_string_that_was_changed_in_place_is_dumped_like_any_other(change: str) -> None:
    """Its payload is compressed and equal to that of a string set with the whole text."""
    caller = Rig().connect()
    caller.call(f"SET k {'a' * 40}", change)
    text = caller.call("GET k")
    caller.call("SET other " + text.split(b"\r\n")[1].decode())
    assert caller.call("DUMP k") == caller.call("DUMP other")
    assert caller.call("DUMP k").startswith(b"$")


@pytest.mark.parametrize("count", [2**63 - 1, 2**63, 2**64 - 1])
def test_restored_counts_of_any_size_are_shown_and_dumped_in_64_bits(count: int, server: Server) -> None:
    """Redis accepts such counts, and shows them as signed numbers that wrap."""
    caller = Rig().connect()
    caller.call("XADD s 1-1 f v", "XGROUP CREATE s g 0")
    idempotence = caller.client.db.streams[b"s"].idempotence
    idempotence.added = idempotence.duplicates = count
    value = caller.client.db.keys[b"s"]
    payload = b"".join(dump_payload(value, now_ms=START_MS))
    with server.connect() as wire:
        assert wire.call("RESTORE", "s", 0, payload, "REPLACE") == OK
        for added in (0, 1):
            described = wire.ask("XINFO", "STREAM", "s")
            shown = dict(zip(described[::2], described[1::2], strict=True))
            assert shown[b"iids-added"] == (count + added + 2**63) % 2**64 - 2**63
            assert shown[b"iids-duplicates"] == (count + 2**63) % 2**64 - 2**63
            assert wire.call("DUMP", "s").startswith(b"$")
            wire.call("XADD", "s", "IDMP", "p", "i", "*", "f", "v")
