"""Whole RDB files: what Redis wrote is read, what we write is a file of Redis, and damage stops the start."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from headrace.persistence.errors import RdbError
from headrace.persistence.rdb.file import FileKey, FileReader, redis_aux, write_file
from headrace.persistence.rdb.lengths import encode_string
from headrace.persistence.rdb.primitives import crc64
from headrace.server.storage.replay import loading
from headrace.store.database import Store
from headrace.store.image import KeyImage, StoreImage
from headrace.store.key_uses import SavedUse
from headrace.store.limits import Limits
from headrace.store.stream import Stream
from support.inprocess import Rig

NOW_MS = 1_795_241_622_000
HEADER = b"REDIS0015"
ONE_ENTRY_STREAM = (
    "01 10 0000000000000001 0000000000000001 1d 1d000000 0a00 0101 0001 0101 816602 0001 0201 0001 0001 817602 0401 ff"
    "01 0101 0101 0000 01 00 40 64 40 64 00 00 00"
)
# SAVE by Redis 8.10.2: a stream and a string that expires in database 0, an integer in database 2.
REDIS_FILE = bytes.fromhex(
    "52 45 44 49 53 30 30 31 35"
    "fa 09 72656469732d766572 06 382e31302e32  fa 0a 72656469732d62697473 c0 40"
    "fa 05 6374696d65 c2 97 36 01 6b  fa 08 757365642d6d656d c2 e0 90 10 00  fa 08 616f662d62617365 c0 00"
    "fe 00 fb 02 01  1b 02 73 31" + ONE_ENTRY_STREAM + "fc ff 1f 4a a9 d1 01 00 00 00 03 65 78 70 01 76"
    "fe 02 fb 01 00  00 01 6e c0 07  ff 1a b6 4f b6 d5 ec 3a 8f"
)
AUX = {
    b"redis-ver": b"8.10.2",
    b"redis-bits": b"64",
    b"ctime": b"1795241623",
    b"used-mem": b"1085664",
    b"aof-base": b"0",
}
EXPIRES_MS = 1999999999999


def reader_of(
    *blocks: bytes, now_ms: int = NOW_MS, drops_expired: bool = True, skips_foreign: bool = False
) -> FileReader:
    return FileReader(blocks, Limits(), now_ms=now_ms, drops_expired=drops_expired, skips_foreign=skips_foreign)


def sealed(body: bytes, version: int = 15) -> bytes:
    """A file with this body."""
    data = b"REDIS%04d" % version + body + b"\xff"
    return data + crc64(data).to_bytes(8, "little")


def read(data: bytes, *, skips_foreign: bool = False) -> list[FileKey]:
    return list(reader_of(data, skips_foreign=skips_foreign))


@pytest.mark.parametrize("step", [1, 2, 7, 64, len(REDIS_FILE)])
def test_a_file_of_redis_is_read_in_any_pieces(step: int) -> None:
    reader = reader_of(*(REDIS_FILE[start : start + step] for start in range(0, len(REDIS_FILE), step)), b"rest")
    keys = list(reader)
    assert [(each.db_index, each.key, each.expires_ms) for each in keys] == [
        (0, b"s1", None), (0, b"exp", EXPIRES_MS), (2, b"n", None),
    ]  # fmt: skip
    assert [each.value for each in keys[1:]] == [b"v", b"7"]
    assert isinstance(keys[0].value, Stream)
    assert len(keys[0].value) == 1
    assert reader.aux == AUX
    assert (reader.keys_count, reader.expired_count, reader.foreign_count) == (3, 0, 0)
    assert reader.offset == len(REDIS_FILE)
    assert b"".join(reader.rest()) == b"rest"


def put_all(reader: FileReader) -> Store:
    server = Rig().server
    with loading(server.context) as replay:
        for key in reader:
            replay.put(key)
    return server.store


def test_a_file_is_written_as_redis_writes_it() -> None:
    store = put_all(reader_of(REDIS_FILE))
    images = sorted(StoreImage(store), key=lambda image: (image.db_index, image.key != b"s1"))
    blocks = write_file(images, AUX, now_ms=NOW_MS, sizes={0: (2, 1), 2: (1, 0)})
    assert b"".join(blocks) == REDIS_FILE


def test_an_empty_base_is_that_of_redis() -> None:
    aux = redis_aux("8.10.2", now_ms=1795241623000, used_memory=1085664, is_aof_base=True)
    data = b"".join(write_file((), aux, now_ms=NOW_MS))
    assert len(data) == 89
    assert aux == AUX | {b"aof-base": b"1"}
    assert read(data) == []


def keys_of(count: int, size: int) -> Iterable[KeyImage]:
    return (KeyImage(0, b"k%d" % number, b"%08d" % number * (size // 8), None) for number in range(count))


def test_blocks_are_of_the_size_asked_for() -> None:
    blocks = list(write_file(keys_of(1000, 64), {}, now_ms=NOW_MS, compress=False, block_size=4096))
    assert all(4096 <= len(block) < 4096 + 100 for block in blocks[:-2])
    assert len(read(b"".join(blocks))) == 1000


def test_a_file_without_checksum_is_read() -> None:
    data = b"".join(write_file(keys_of(3, 8), {}, now_ms=NOW_MS, has_checksum=False))
    assert data.endswith(b"\xff" + bytes(8))
    assert len(read(data)) == 3


def test_a_checksum_may_be_left_unchecked() -> None:
    data = REDIS_FILE[:-1] + b"\0"
    assert len(list(FileReader((data,), Limits(), now_ms=NOW_MS, checks_checksum=False))) == 3


def test_files_before_version_5_have_no_checksum() -> None:
    assert read(b"REDIS0004\xfe\x00\x00\x01k\x01v\xff") == [FileKey(0, b"k", b"v", None)]


def test_streams_of_one_entry_are_read_in_blocks_of_any_size() -> None:
    """Those that are complete in a block many at a time. Those that have expired are left out."""
    value = bytes.fromhex(ONE_ENTRY_STREAM)
    expired, kept = b"\xfc" + (NOW_MS - 1).to_bytes(8, "little"), b"\xfc" + NOW_MS.to_bytes(8, "little")
    starts = [b"", expired, kept]
    data = sealed(b"\xfe\0" + b"".join(starts[n % 3] + b"\x1b\4%04d" % n + value for n in range(600)))
    for size in (1, 70, 1000, 4096, len(data)):
        reader = reader_of(*(data[start : start + size] for start in range(0, len(data), size)))
        parts = list(reader.parts())
        keys = [key for part in parts for key in ([part] if isinstance(part, FileKey) else part.keys())]
        assert [key.key for key in keys] == [b"%04d" % n for n in range(600) if n % 3 != 1]
        assert {key.expires_ms for key in keys} == {None, NOW_MS}
        assert all(isinstance(key.value, Stream) and key.value.log.length == 1 for key in keys)
        assert (reader.keys_count, reader.expired_count) == (400, 200)
    assert len(parts) < 5


@pytest.mark.parametrize(
    ("drops_expired", "now_ms", "left", "dropped"),
    [(True, EXPIRES_MS, 3, 0), (True, EXPIRES_MS + 1, 2, 1), (False, EXPIRES_MS + 1, 3, 0)],
)
def test_expired_keys_are_dropped_if_asked(drops_expired: bool, now_ms: int, left: int, dropped: int) -> None:
    reader = reader_of(REDIS_FILE, now_ms=now_ms, drops_expired=drops_expired)
    assert len(list(reader)) == left
    assert (reader.keys_count, reader.expired_count) == (left, dropped)


def test_opcodes_that_mean_nothing_to_us_are_stepped_over() -> None:
    body = b"\xf8\x40\x64\xf9\x05\x00\x01a\x01v"  # idle and frequency
    body += b"\xf5\x0bredis-code!\xf4\x01\x02\x03"  # a library of functions, slots
    body += b"\xf7\x81" + bytes(8) + b"\x02\x02\x02\x01\x05\x03abc\x04" + bytes(8) + b"\x03" + bytes(4) + b"\x00"
    body += b"\xfd" + (EXPIRES_MS // 1000).to_bytes(4, "little") + b"\x00\x01b\x01v"
    assert read(sealed(body)) == [
        FileKey(0, b"a", b"v", None, SavedUse(None, 5)),
        FileKey(0, b"b", b"v", EXPIRES_MS // 1000 * 1000),
    ]


DOUBLE = b"\0\0\0\0\0\0\xf0?"
FOREIGN = {
    "module": (7, b"\x81\xbd\xe7\x2d\xa2\xbb\x1e\xb4\x00\x02\x03\x05\x02e1\x04" + DOUBLE + b"\x00"),
}


@pytest.mark.parametrize(("kind", "value"), FOREIGN.values(), ids=FOREIGN.keys())
def test_other_types_are_refused_by_name_or_stepped_over(kind: int, value: bytes) -> None:
    data = sealed(b"\xfe\x03" + bytes((kind,)) + b"\x05thing" + value + b"\x00\x01k\x01v")
    with pytest.raises(RdbError, match=rf"The key 'thing' in database 3 cannot be loaded: it is .*\(RDB type {kind}\)"):
        read(data)
    reader = reader_of(data, skips_foreign=True)
    assert list(reader) == [FileKey(3, b"k", b"v", None)]
    assert reader.foreign_count == 1
    for size in range(12, len(data)):
        with pytest.raises(RdbError):
            read(data[:size], skips_foreign=True)


def test_the_expiry_of_a_key_stepped_over_is_not_the_next_ones() -> None:
    data = sealed(b"\xfc" + EXPIRES_MS.to_bytes(8, "little") + b"\x01\x01l\x00\x00\x01k\x01v")
    assert read(data, skips_foreign=True) == [FileKey(0, b"k", b"v", None)]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "Short read or OOM loading DB. Unrecoverable error, aborting now."),
        (REDIS_FILE[:60], "Short read or OOM loading DB. Unrecoverable error, aborting now."),
        (REDIS_FILE[:-1], "Short read or OOM loading DB. Unrecoverable error, aborting now."),
        (b"RODIS0015\xff" + bytes(8), "Wrong signature trying to load DB from file"),
        (b"REDIS0016\xff" + bytes(8), "Can't handle RDB format version 16"),
        (b"REDIS00x5\xff" + bytes(8), "Can't handle RDB format version 0"),
        (
            REDIS_FILE[:-8] + b"\x01" + bytes(7),
            "Wrong RDB checksum expected: (8f3aecd5b64fb61a) but got (1). Aborting now.",
        ),
        (HEADER + b"\xfe\x10\xff" + bytes(8), "configured to handle more than 16 databases"),
        (HEADER + b"\xf3\xff" + bytes(8), "Unknown RDB opcode 243 at offset 9"),
        (HEADER + b"\xf6\xff" + bytes(8), "Unknown RDB opcode 246 at offset 9"),
        (HEADER + b"\x08\x01k\xff" + bytes(8), "cannot be loaded: Unknown RDB encoding type 8"),
        (HEADER + b"\x06\x01k\xff" + bytes(8), "it is a value of an early module (RDB type 6)"),
        (HEADER + b"\xf7\x01\x06\xff" + bytes(8), "Unknown kind 6 of a module's field"),
    ],
)
def test_a_damaged_file_says_what_is_wrong(data: bytes, text: str) -> None:
    with pytest.raises(RdbError) as raised:
        read(data, skips_foreign=True)
    assert text in str(raised.value)


def test_a_key_that_is_there_twice_is_refused() -> None:
    data = sealed(b"\x00\x01k\x01v\x00\x01k\x01w")
    with pytest.raises(RdbError, match="RDB has duplicated key 'k' in DB 0"):
        put_all(reader_of(data))


def test_every_changed_byte_is_refused() -> None:
    for index in range(len(REDIS_FILE)):
        for value in {0, 0xFF, 0xC3, 0x81, REDIS_FILE[index] ^ 1, REDIS_FILE[index] ^ 0x80} - {REDIS_FILE[index]}:
            with pytest.raises(RdbError):
                read(REDIS_FILE[:index] + bytes((value,)) + REDIS_FILE[index + 1 :])


def test_lengths_beyond_the_file_reserve_nothing() -> None:
    with pytest.raises(RdbError, match="Short read"):
        read(HEADER + b"\x00\x81" + (2**60).to_bytes(8, "big") + b"k")


def test_keys_and_values_are_compressed_if_asked() -> None:
    image = KeyImage(0, b"k" * 40, b"v" * 40, None)
    data = b"".join(write_file([image], {}, now_ms=NOW_MS))
    assert encode_string(b"k" * 40, compress=True) + encode_string(b"v" * 40, compress=True) in data
    assert read(data) == [FileKey(0, b"k" * 40, b"v" * 40, None)]


@pytest.mark.parametrize("use", [SavedUse(0, None), SavedUse(70_000, None), SavedUse(None, 0), SavedUse(None, 255)])
@pytest.mark.parametrize("expires_ms", [None, EXPIRES_MS])
def test_uses_of_a_key_go_round(use: SavedUse, expires_ms: int | None) -> None:
    images = [KeyImage(0, b"a", b"v", expires_ms, use), KeyImage(0, b"b", b"w", None)]
    data = b"".join(write_file(images, {}, now_ms=NOW_MS))
    assert read(data) == [FileKey(0, b"a", b"v", expires_ms, use), FileKey(0, b"b", b"w", None)]
