"""Events of logs: independent of the splits, of the values, and of the server that wrote the log."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.persistence.checksum import with_checksums
from headrace.persistence.policy_lines import log_lines
from headrace.protocol.packing import pack_command
from support.servers import Server
from support.spark_streams import connect

np = pytest.importorskip("numpy", reason="numpy is not installed: `make test-pipeline` installs it")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: `make test-pipeline` installs it")

from headrace.pipeline.aof import scan as scanning  # noqa: E402
from headrace.pipeline.aof.records import Records, parse, parse_by_hiredis, parse_by_lines  # noqa: E402
from headrace.pipeline.aof.scan import scan  # noqa: E402
from headrace.pipeline.aof.splits import RECORD_START, Split, find_boundary, log_files, plan_splits  # noqa: E402
from headrace.pipeline.errors import BadLog  # noqa: E402

TEXT = ("kind", "stream", "grp", "consumer", "id")
COLUMNS = ("db", "ts", *TEXT, "time_ms", "deliveries")
SCHEMA = pa.schema([(name, pa.string() if name in TEXT else pa.int64()) for name in ("part", "split", "n", *COLUMNS)])
HOSTILE = [
    b"\r\n*3\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n",
    b"\n#TS:5\r\n",
    b"#",
    b"\r\n",
    b"plain",
    b"\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n9\r\n"[:20],
    b"\n#TS:5\r\n:7\r\n",
    b"\r\n*1\r\n$4\r\nXADD\r\n:7\r\n+a\r\n_\r\n*0\r\n*-1\r\n",
]
PLAIN = [b"", b"plain", b"*", b"*3", b"#5", b"$5", b"a\nb", b"x" * 100]
OPTIONS: list[tuple[bytes, ...]] = [
    (),
    (),
    (b"NOMKSTREAM", b"IDMP", b"7", b"=3", b"MAXLEN", b"~", b"5", b"LIMIT", b"7"),
    (b"IDMPAUTO", b"=p", b"minid", b"5-1"),
    (b"KEEPREF", b"MAXLEN", b"=", b"100"),
]
Row = tuple[object, ...]


def rows_of(path: Path, split_size: int) -> list[Row]:
    """Returns all events in the order of the log: db, ts, kind and the columns of a kind."""
    return [row for split in plan_splits([path], split_size) for row in scanned(split)]


def scanned(split: Split) -> list[Row]:
    rows = sorted((row for batch in scan(split, SCHEMA) for row in batch.to_pylist()), key=lambda row: row["n"])
    return [tuple(row[name] for name in COLUMNS) for row in rows]


def random_log(rnd: random.Random, count: int) -> tuple[bytes, list[Row]]:
    parts, expected = [], []
    hostile = rnd.choice([0, 0.01, 0.1, 1])
    db, ts = 0, None
    for n in range(count):
        draw = rnd.random()
        if draw < 0.02:
            db = rnd.randrange(3)
            parts.append(pack_command((b"SELECT", b"%d" % db)))
        elif draw < 0.05:
            ts = 1700000000 + n
            parts.append(b"#TS:%d\r\n" % ts)
        elif draw < 0.08:
            parts.append(log_lines([b"DUE", rnd.choice(HOSTILE), b"k" * rnd.choice([1, 2000])]))
        elif draw < 0.5:
            value = rnd.choice(HOSTILE if rnd.random() < hostile else PLAIN)
            parts.append(pack_command((b"XADD", b"s", *rnd.choice(OPTIONS), b"%d-0" % n, b"f", value)))
            expected.append((db, ts, "add", "s", None, None, f"{n}-0", None, None))
        elif draw < 0.8:
            ids = [b"%d-%d" % (n, index) for index in range(rnd.choice([1, 1, 3]))]
            words = (
                b"XCLAIM",
                b"s",
                b"g",
                b"c",
                b"0",
                *ids,
                b"TIME",
                b"%d" % n,
                b"RETRYCOUNT",
                b"2",
                b"FORCE",
                b"JUSTID",
            )
            parts.append(pack_command(words))
            expected += [(db, ts, "deliver", "s", "g", "c", one.decode(), n, 2) for one in ids]
        else:
            ids = [b"%d-%d" % (n, index) for index in range(rnd.choice([1, 2]))]
            parts.append(pack_command((b"XACK", b"s", b"g", *ids)))
            expected += [(db, ts, "ack", "s", "g", None, one.decode(), None, None) for one in ids]
    return b"".join(parts), expected


@pytest.mark.parametrize("has_checksums", [False, True])
def test_splits_of_any_size_give_the_same_events(
    has_checksums: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = random.randrange(2**32)
    rnd = random.Random(seed)
    data, expected = random_log(rnd, 3000)
    if has_checksums:
        cuts = [0, *sorted(rnd.sample([m.end() for m in RECORD_START.finditer(data)], 5)), len(data)]
        real = [0, *[c for c in cuts[1:-1] if find_boundary(data, c) == c], len(data)]
        data = b"".join(with_checksums(data[a:b] for a, b in itertools.pairwise(real)))
    path = tmp_path / "log.aof"
    path.write_bytes(data)
    monkeypatch.setattr(scanning, "PIECE_SIZE", rnd.choice([997, 20_000, 10**6]))
    for split_size in (len(data), 40_000, 7_001):
        assert rows_of(path, split_size) == expected, f"seed {seed}, splits of {split_size}"


def words_of(records: Records) -> list[list[bytes]]:
    return records.lists(np.arange(len(records)))


def test_parsing_by_lines_equals_hiredis_or_gives_up() -> None:
    seed = random.randrange(2**32)
    rnd = random.Random(seed)
    parsed_count = 0
    for _ in range(100):
        data, _ = random_log(rnd, 20)
        if rnd.random() < 0.5:  # what a byte is for shows when it is another one
            place = rnd.randrange(len(data))
            data = data[:place] + rnd.choice([b"$", b"*", b"#", b"1", b"\r", b"\n", b"a"]) + data[place + 1 :]
        found = parse_by_lines(data)
        if found is not None:
            parsed_count += 1
            expected = parse_by_hiredis(data)
            assert (found.stamps, found.is_whole) == (expected.stamps, expected.is_whole), f"seed {seed}: {data!r}"
            assert words_of(found.records) == words_of(expected.records), f"seed {seed}: {data!r}"
    assert parsed_count > 10, f"seed {seed}"


def test_boundary_is_found_from_any_place() -> None:
    seed = random.randrange(2**32)
    rnd = random.Random(seed)
    parts = [pack_command((b"XADD", b"s", b"%d-0" % n, b"f", rnd.choice(HOSTILE))) for n in range(400)]
    starts, data = {0}, b""
    for part in parts:
        data += part
        starts.add(len(data))
    for start in rnd.sample(range(len(data) - 5000), 200):
        found = find_boundary(data, start)
        assert found in starts, f"seed {seed}, from {start}"
        assert found >= start


@pytest.mark.parametrize(
    "data", [b":5\r\n", b"+a\r\n", b"$1\r\na\r\n", b"*0\r\n", b"*-1\r\n", b"*1\r\n:5\r\n", b"*1\r\n*1\r\n$1\r\na\r\n"]
)
@pytest.mark.parametrize("before", [b"", b"*1\r\n$5\r\nMULTI\r\n", b"#TS:5\r\n"])
def test_resp_values_other_than_commands_are_not_records(before: bytes, data: bytes) -> None:
    with pytest.raises(BadLog, match="expected a record at or after offset 70"):
        parse(before + data, 70)


def test_database_and_time_carry_over_to_every_split(tmp_path: Path) -> None:
    path = tmp_path / "log.aof"
    path.write_bytes(b"#TS:1700000000\r\n" + pack_command((b"XACK", b"s", b"g", b"1-0")) * 200)
    assert {row[:2] for row in rows_of(path, 1000)} == {(0, 1700000000)}
    assert len(plan_splits([path], 1000)) > 5
    path.write_bytes(pack_command((b"SELECT", b"3")) + pack_command((b"XACK", b"s", b"g", b"1-0")) * 200)
    assert {row[:2] for row in rows_of(path, 1000)} == {(3, None)}


def test_every_kind_of_command_becomes_events(tmp_path: Path) -> None:
    log = [
        "XADD s IDMP p i MAXLEN ~ 100 LIMIT 5 1-0 f v",
        "XADD s NOMKSTREAM MINID 0-5 2-0 f v",
        "XGROUP CREATE s g 0-0 ENTRIESREAD 0",
        "XGROUP CREATECONSUMER s g c",
        "XCLAIM s g c 0 1-0 2-0 TIME 77 RETRYCOUNT 1 FORCE JUSTID LASTID 2-0",
        "XNACK s g FATAL IDS 1 1-0 RETRYCOUNT 9 FORCE",
        "XACKDEL s g KEEPREF IDS 2 1-0 2-0",
        "XDEL s 3-0 4-0",
        "XDELEX s KEEPREF IDS 1 5-0",
        "XTRIM s MAXLEN = 3",
        "XTRIM s MINID 9-0",
        "SET text x",
        "DEL s text",
    ]
    path = tmp_path / "log.aof"
    path.write_bytes(b"".join(pack_command(tuple(line.encode().split())) for line in log))
    found = [(str(row[2]), row[3], row[4], row[5], row[6], row[8]) for row in rows_of(path, 10**6)]
    assert found == [
        ("add", "s", None, None, "1-0", None),
        ("add", "s", None, None, "2-0", None),
        ("group-create", "s", "g", None, "0-0", None),
        ("group-createconsumer", "s", "g", "c", None, None),
        ("deliver", "s", "g", "c", "1-0", 1),
        ("deliver", "s", "g", "c", "2-0", 1),
        ("release-fatal", "s", "g", None, "1-0", 9),
        ("ack", "s", "g", None, "1-0", None),
        ("ack", "s", "g", None, "2-0", None),
        ("delete", "s", None, None, "1-0", None),
        ("delete", "s", None, None, "2-0", None),
        ("delete", "s", None, None, "3-0", None),
        ("delete", "s", None, None, "4-0", None),
        ("delete", "s", None, None, "5-0", None),
        ("trim", "s", None, None, None, None),
        ("trim", "s", None, None, "9-0", None),
        ("drop", "s", None, None, None, None),
        ("drop", "text", None, None, None, None),
    ]


def test_incomplete_last_record_is_left_out(tmp_path: Path) -> None:
    whole = pack_command((b"XADD", b"s", b"1-0", b"f", b"v"))
    path = tmp_path / "log.aof"
    for size in range(len(whole)):
        path.write_bytes(whole * 3 + whole[:size])
        assert len(rows_of(path, 10**6)) == 3


def test_damage_and_wrong_cuts_are_errors(tmp_path: Path) -> None:
    whole = pack_command((b"XADD", b"s", b"1-0", b"f", b"v" * 100))
    path = tmp_path / "log.aof"
    path.write_bytes(whole * 3 + b"?what\r\n" + whole)
    with pytest.raises(BadLog, match="expected a record"):
        rows_of(path, 10**6)
    path.write_bytes(whole * 3)
    with pytest.raises(BadLog, match="the cut at offset 200 is inside of a value"):
        list(scan(Split(str(path), 0, 0, 200), SCHEMA))
    with pytest.raises(BadLog, match="holds no manifests"):
        log_files(tmp_path)
    (tmp_path / "log.manifest").write_bytes(b"file log.aof seq 1 type b size %d\n" % (len(whole) * 4))
    with pytest.raises(BadLog, match=r"log\.aof was cut off or changed after it was written: it has \d+ bytes, but"):
        log_files(tmp_path)


@pytest.mark.parametrize("name", ["headrace", pytest.param("oracle", marks=pytest.mark.oracle)])
def test_log_of_a_server_gives_the_events_of_its_commands(name: str, start_server: Callable[..., Server]) -> None:
    server = start_server(name, "--appendonly", "yes", "--appendfsync", "always")
    with connect(server) as connection:
        for n in range(1, 4):
            connection.call("XADD", "s", f"{n}-0", "f", "v")
        connection.call("XGROUP", "CREATE", "s", "g", "0")
        connection.call("XREADGROUP", "GROUP", "g", "ann", "STREAMS", "s", ">")
        connection.call("XCLAIM", "s", "g", "bob", 0, "2-0")
        connection.call("XACK", "s", "g", "1-0", "2-0")
        connection.call("XNACK", "s", "g", "FAIL", "IDS", 1, "3-0")
    rows = [row for split in plan_splits(log_files(server.folder)) for row in scanned(split)]
    found_rows = [(row[2], row[6], row[5], row[8]) for row in rows]
    assert ("deliver", "2-0", "bob", 2) in found_rows
    assert sorted(str(row[1]) for row in found_rows if row[0] == "deliver" and row[2] == "ann") == ["1-0", "2-0", "3-0"]
    assert sum(row[0] == "add" for row in found_rows) == 3
    assert {row[1] for row in found_rows if row[0] == "ack"} == {"1-0", "2-0"}
    assert {row[:2] for row in found_rows if str(row[0]).startswith("release")} == {("release-fail", "3-0")}
