"""Commands on bits: replies, records, events, and what becomes of the string."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import zip_longest

import pytest

from headrace.commands.bits.bit_codec_plain import PIECE_SIZE
from support.inprocess import Rig

RAW = b"$3\r\nraw\r\n"
NULL = b"$-1\r\n"
WRONG_TYPE = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
NOT_AN_OFFSET = b"-ERR bit offset is not an integer or out of range\r\n"


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("SETBIT k 1 1", b":1\r\n"),
        ("SETBIT k 0 1", b":0\r\n"),
        ("SETBIT k 0 2", b"-ERR bit is not an integer or out of range\r\n"),
        ("SETBIT k -1 0", NOT_AN_OFFSET),
        ("SETBIT k 4294967296 0", NOT_AN_OFFSET),
        ("SETBIT s 0 1", WRONG_TYPE),
        ("GETBIT k 1", b":1\r\n"),
        ("GETBIT k 1000", b":0\r\n"),
        ("GETBIT no 1", b":0\r\n"),
        ("GETBIT s 1", WRONG_TYPE),
        ("BITCOUNT k", b":26\r\n"),
        ("BITCOUNT k 5 30 BIT", b":17\r\n"),
        ("BITCOUNT k 1 1", b":6\r\n"),
        ("BITCOUNT no", b":0\r\n"),
        ("BITCOUNT k 1", b"-ERR syntax error\r\n"),
        ("BITPOS k 1", b":1\r\n"),
        ("BITPOS k 0 2 -1", b":16\r\n"),
        ("BITPOS k 1 3 7 BIT", b":5\r\n"),
        ("BITPOS k 1 3 4 BIT", b":-1\r\n"),
        ("BITPOS ones 0", b":16\r\n"),
        ("BITPOS ones 0 0 -1", b":-1\r\n"),
        ("BITPOS no 0", b":0\r\n"),
        ("BITPOS no 1", b":-1\r\n"),
        ("BITPOS k 2", b"-ERR The bit argument must be 1 or 0.\r\n"),
        ("BITOP AND d k ones", b":6\r\n"),
        ("BITOP NOT d k ones", b"-ERR BITOP NOT must be called with a single source key.\r\n"),
        ("BITOP diff1 d k", b"-ERR BITOP DIFF1 must be called with at least two source keys.\r\n"),
        ("BITOP NAND d k", b"-ERR syntax error\r\n"),
        ("BITOP OR d k s", WRONG_TYPE),
        ("BITOP OR d no", b":0\r\n"),
        ("BITFIELD k GET u8 0 GET i4 #1 GET u63 100", b"*3\r\n:102\r\n:6\r\n:0\r\n"),
        ("BITFIELD k SET u8 0 1 GET u8 0", b"*2\r\n:102\r\n:1\r\n"),
        ("BITFIELD k INCRBY u8 0 200", b"*1\r\n:46\r\n"),
        ("BITFIELD k OVERFLOW SAT INCRBY u8 0 200 INCRBY i8 8 -500", b"*2\r\n:255\r\n:-128\r\n"),
        ("BITFIELD k OVERFLOW FAIL INCRBY u8 0 200 GET u8 0", b"*2\r\n" + NULL + b":102\r\n"),
        ("BITFIELD k OVERFLOW NEVER", b"-ERR Invalid OVERFLOW type specified\r\n"),
        ("BITFIELD k", b"*0\r\n"),
        ("BITFIELD s SET u8 0 1", WRONG_TYPE),
        ("BITFIELD_RO k GET u8 0", b"*1\r\n:102\r\n"),
        ("BITFIELD_RO k SET u8 0 1", b"-ERR BITFIELD_RO only supports the GET subcommand\r\n"),
        ("BITFIELD_RO s GET u8 0", WRONG_TYPE),
    ],
)
def test_replies(line: str, reply: bytes) -> None:
    caller = Rig().connect()
    caller.call("SET k foobar", 'SET ones "\\xff\\xff"', "XADD s 1-1 f v")
    assert caller.call(line) == reply


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("AND", all),
        ("OR", any),
        ("XOR", lambda bits: sum(bits) % 2),
        ("DIFF", lambda bits: bits[0] and not any(bits[1:])),
        ("DIFF1", lambda bits: any(bits[1:]) and not bits[0]),
        ("ANDOR", lambda bits: bits[0] and any(bits[1:])),
        ("ONE", lambda bits: sum(bits) == 1),
    ],
)
def test_bitop_combines_each_bit_and_takes_missing_ones_for_zeros(
    name: str, rule: Callable[[tuple[bool, ...]], object]
) -> None:
    source = random.Random(1)
    caller = Rig().connect()
    for sizes in ((3, 3), (5, 2, 4), (0, 3), (2, 0, 1), (PIECE_SIZE + 3, 7), (1, PIECE_SIZE, PIECE_SIZE + 1)):
        texts = [source.randbytes(size) for size in sizes]
        for number, text in enumerate(texts):
            caller.client.db.put(b"%d" % number, text)
        columns = zip_longest(*map(bits_of, texts), fillvalue=False)
        expected = "".join("1" if rule(column) else "0" for column in columns)
        caller.call(f"BITOP {name} d " + " ".join(map(str, range(len(texts)))))
        assert bits_of(caller.client.db.keys.get(b"d")) == [bit == "1" for bit in expected]


def bits_of(text: object) -> list[bool]:
    """The bits of a string, first byte first."""
    assert isinstance(text, bytes)
    return [bit == "1" for byte in text for bit in f"{byte:08b}"]


def test_bitop_not_inverts_each_byte() -> None:
    caller = Rig().connect()
    caller.client.db.put(b"k", bytes(range(256)))
    assert caller.call("BITOP NOT d k") == b":256\r\n"
    assert caller.client.db.keys.get(b"d") == bytes(range(255, -1, -1))


@pytest.mark.parametrize(
    ("line", "records"),
    [
        ("SETBIT n 7 0", [b"SETBIT n 7 0"]),
        ("SETBIT n 7 1", []),
        ("SETBIT n 800 0", [b"SETBIT n 800 0"]),
        ("SETBIT no 0 0", [b"SETBIT no 0 0"]),
        ("BITOP NOT d n", [b"BITOP NOT d n"]),
        ("BITOP AND n no", [b"BITOP AND n no"]),
        ("BITOP AND no no", []),
        ("BITFIELD n SET u8 0 1 GET u8 0", [b"BITFIELD n SET u8 0 1 GET u8 0"]),
        ("BITFIELD n SET u8 0 53", []),
        ("BITFIELD n GET u8 0", []),
        ("BITFIELD n OVERFLOW FAIL SET u8 0 256", []),
        ("BITFIELD n OVERFLOW FAIL SET u8 800 256", [b"BITFIELD n OVERFLOW FAIL SET u8 800 256"]),
        ("BITFIELD no OVERFLOW FAIL SET u8 0 256", [b"BITFIELD no OVERFLOW FAIL SET u8 0 256"]),
    ],
)
def test_what_changes_is_logged_as_it_was_asked(line: str, records: list[bytes]) -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("SET n 5")
    rig.log.units.clear()
    caller.call(line)
    assert [record for unit in rig.log.units for record in unit] == records


@pytest.mark.parametrize(
    ("line", "events"),
    [
        ("SETBIT n 7 0", "setbit:n"),
        ("SETBIT n 7 1", ""),
        ("SETBIT new 0 0", "new:new setbit:new"),
        ("BITFIELD n INCRBY u8 0 1 SET u8 8 1", "setbit:n"),
        ("BITFIELD n SET u8 0 53", ""),
        ("BITFIELD new OVERFLOW FAIL SET u8 0 256", "new:new"),
        ("BITFIELD no GET u8 0", "keymiss:no"),
        ("BITOP NOT new n", "new:new set:new"),
        ("BITOP NOT s n", "overwritten:s type_changed:s set:s"),
        ("BITOP OR n no", "keymiss:no del:n"),
        ("BITCOUNT no", "keymiss:no"),
    ],
)
def test_events_are_those_of_redis(line: str, events: str) -> None:
    rig = Rig()
    caller, listener = rig.connect(), rig.connect()
    caller.call("SET n 5", "XADD s 1-1 f v", "CONFIG SET notify-keyspace-events AEmnoc")
    listener.call("PSUBSCRIBE __keyevent@0__:*")
    caller.call(line)
    words = listener.output().split(b"\r\n")
    received = [(words[start + 6].partition(b":")[2], words[start + 8]) for start in range(0, len(words) - 1, 9)]
    assert b" ".join(name + b":" + key for name, key in received).decode() == events


@pytest.mark.parametrize(
    "line", ["SETBIT k 7 1", "SETBIT k 100 0", "BITFIELD k SET u8 0 49", "BITFIELD k OVERFLOW FAIL SET u8 0 256"]
)
def test_a_string_that_was_opened_for_a_change_is_raw_and_keeps_its_expiry_time(line: str) -> None:
    caller = Rig().connect()
    caller.call("SET k 1 EX 100", line)
    assert caller.call("OBJECT ENCODING k") == RAW
    assert caller.call("TTL k") == b":100\r\n"


@pytest.mark.parametrize("line", ["BITFIELD k GET u8 0", "BITCOUNT k", "GETBIT k 0", "BITOP NOT d k"])
def test_a_string_that_is_only_read_keeps_its_encoding(line: str) -> None:
    caller = Rig().connect()
    caller.call("SET k 1", line)
    assert caller.call("OBJECT ENCODING k") == b"$3\r\nint\r\n"


def test_a_failed_bitfield_extends_the_string_all_the_same() -> None:
    caller = Rig().connect()
    assert caller.call("BITFIELD k OVERFLOW FAIL SET u8 800 256") == b"*1\r\n" + NULL
    assert caller.call("STRLEN k") == b":101\r\n"


@pytest.mark.parametrize("line", ["SETBIT k 9 1", "BITFIELD k SET u8 3 200", "SETBIT k 900000 1"])
def test_a_long_string_stays_plain_bytes(line: str) -> None:
    """Its encoding follows from its length, so that it is read without a copy."""
    caller = Rig().connect()
    caller.call("SET k " + "a" * 100_000, line)
    assert all(type(value) is bytes for _, value in caller.client.db.keys.items())


def test_offsets_end_at_the_longest_argument() -> None:
    caller = Rig().connect()
    caller.call("CONFIG SET proto-max-bulk-len 1mb")
    assert caller.call("SETBIT k 8388608 1") == NOT_AN_OFFSET
    assert caller.call("BITFIELD k SET u8 #1048576 1") == NOT_AN_OFFSET
    assert caller.call("SETBIT k 8388607 1", "STRLEN k") == b":0\r\n:1048576\r\n"
