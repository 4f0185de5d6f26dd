"""Policy lines in RDB files and in the text base of a log: after their key, as they were at the moment of the image."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import StartServer
from headrace.persistence.errors import RdbError
from headrace.persistence.policy_lines import AUX_NAME
from headrace.persistence.rdb.file import FileKey, FileKeys, FilePolicy, FileReader, own_aux, write_file
from headrace.persistence.snapshot import snapshot
from headrace.store.database import Store
from headrace.store.group import Group
from headrace.store.ids import parse_id
from headrace.store.image import KeyImage, StreamImage, parts_now, value_image
from headrace.store.limits import Limits
from headrace.store.policies import lines
from headrace.store.stream import Stream

NOW_MS = 1_700_000_000_000
KEYS = [b"plain", b"\r\n*1\r\n#HR DUE\x00\xff", b'a "b" c', b""]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    """Streams of two databases with groups, of which each has two policy lines, one of them long."""

    def source(key: bytes, stream: Stream | StreamImage) -> Iterator[list[bytes]]:
        yield [b"XGROUP", b"CONFIG", key, b"g", b"REDELIVER", b"1000"]
        yield [b"DUE", key, b"g", b"17", *(b"%d-1" % each for each in range(1000))]

    monkeypatch.setattr(lines, "SOURCES", (source,))
    store = Store(16)
    for db in (store.databases[0], store.databases[3]):
        for key in KEYS:
            stream = Stream(Limits())
            stream.append(parse_id(b"1-0"), b"*2\r\n$3\r\n1-0\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n")
            stream.add_group(Group(b"g", parse_id(b"0-0"), 0))
            db.put(key, stream)
        db.put(b"string", b"text")
    return store


def expected_lines(key: bytes) -> list[list[bytes]]:
    return list(lines.lines_of(key, Stream(Limits())))


def file_of(store: Store, *, compress: bool = False) -> bytes:
    aux = own_aux(now_ms=NOW_MS, used_memory=0, is_aof_base=False)
    return b"".join(write_file(parts_now(store), aux, now_ms=NOW_MS, compress=compress))


def reader_of(data: bytes, *, now_ms: int = NOW_MS) -> FileReader:
    return FileReader((data[at : at + 100] for at in range(0, len(data), 100)), Limits(), now_ms=now_ms)


@pytest.mark.parametrize("compress", [False, True])
def test_the_lines_of_a_key_follow_it(store: Store, compress: bool) -> None:
    found: dict[tuple[int, bytes], list[list[bytes]]] = {}
    last: tuple[int, bytes] = 0, b"?"
    for part in reader_of(file_of(store, compress=compress)).parts():
        if isinstance(part, FilePolicy):
            assert part.db_index == last[0]
            found[last].append(part.words)
        elif isinstance(part, FileKey | FileKeys):
            for key in (part,) if isinstance(part, FileKey) else part.keys():
                last = key.db_index, key.key
                found[last] = []
    for index in (0, 3):
        del found[index, b"string"]
    assert found == {(index, key): expected_lines(key) for index in (0, 3) for key in KEYS}


def test_a_reader_of_keys_alone_skips_the_lines(store: Store) -> None:
    reader = reader_of(file_of(store))
    assert len(list(reader)) == 2 * (len(KEYS) + 1)
    assert AUX_NAME not in reader.aux


def test_the_lines_of_a_key_that_is_left_out_are_left_out(store: Store) -> None:
    store.databases[0].expires[KEYS[0]] = 5
    keys = set()
    policy_keys = set()
    for part in reader_of(file_of(store)).parts():
        if isinstance(part, FilePolicy):
            policy_keys.add((part.db_index, part.words[2] if part.words[0] == b"XGROUP" else part.words[1]))
        elif isinstance(part, FileKeys):
            keys |= {(part.db_index, key) for key, _, _ in part.values}
        else:
            keys.add((part.db_index, part.key))
    assert (0, KEYS[0]) not in keys | policy_keys
    assert len(policy_keys) == 2 * len(KEYS) - 1


def test_the_lines_of_a_short_stream_come_after_a_key_that_is_left_out(store: Store) -> None:
    """The first key has too many groups to be read with others."""
    values = [store.databases[0].keys[key] for key in KEYS[:2]]
    assert isinstance(values[0], Stream)
    for number in range(9):
        values[0].add_group(Group(b"%d" % number, 0))
    images = [
        KeyImage(0, key, value_image(value), expires_ms)
        for key, value, expires_ms in zip(KEYS, values, (5, None), strict=False)
        if isinstance(value, Stream)
    ]
    data = b"".join(write_file(images, {}, now_ms=NOW_MS, compress=False))
    parts = list(FileReader(iter([data]), Limits(), now_ms=NOW_MS).parts())
    assert [key for part in parts if isinstance(part, FileKeys) for key, _, _ in part.values] == [KEYS[1]]
    assert [part.words for part in parts if isinstance(part, FilePolicy)] == expected_lines(KEYS[1])


def test_a_damaged_line_is_an_error(store: Store) -> None:
    parts = write_file(parts_now(store), {}, now_ms=NOW_MS, compress=False, has_checksum=False)
    data = b"".join(parts).replace(b"XGROUP CONFIG plain", b'XGROUP CONFIG "lain')
    with pytest.raises(RdbError, match="a policy line that cannot be read: 'XGROUP CONFIG"):
        list(reader_of(data))


def test_a_text_base_has_the_lines_after_the_records_of_the_key(store: Store) -> None:
    records = [record for index, record in snapshot(parts_now(store)) if index == 0]
    assert sum(record.count(b"#HR XGROUP CONFIG") for record in records) == len(KEYS)
    created = [at for at, record in enumerate(records) if b"CREATE\r\n" in record]
    lined = [at for at, record in enumerate(records) if record.startswith(b"#HR XGROUP CONFIG")]
    assert all(low < high for low, high in zip(created, lined, strict=True))


@pytest.mark.oracle
def test_redis_and_its_tool_skip_the_lines(
    store: Store, oracle_tools: Path, start_server: StartServer, tmp_path: Path
) -> None:
    path = tmp_path / "dump.rdb"
    path.write_bytes(file_of(store))
    check = tmp_path / "redis-check-rdb"
    check.symlink_to(oracle_tools / "redis-server")
    checked = subprocess.run([check, path], capture_output=True, text=True, check=True).stdout
    assert "RDB looks OK!" in checked
    theirs = start_server("oracle", "--dir", str(tmp_path))
    with theirs.connect() as wire:
        assert wire.ask("DBSIZE") == len(KEYS) + 1
        assert [wire.ask("XLEN", key) for key in KEYS] == [1] * len(KEYS)
        assert wire.call("SELECT", 3) == b"+OK\r\n"
        assert wire.ask("DBSIZE") == len(KEYS) + 1
