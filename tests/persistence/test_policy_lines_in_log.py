"""Policy lines between the records of a log: in order, with their transactions, and none that is not whole."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterable
from io import StringIO
from itertools import pairwise
from pathlib import Path

import pytest

from headrace.persistence import records
from headrace.persistence.aof import AppendOnlyLog
from headrace.persistence.check_aof import main as check_aof
from headrace.persistence.errors import LoadError
from headrace.persistence.folder import LogSettings
from headrace.persistence.grammar.kept import POLICY
from headrace.persistence.policy_lines import LINE_SIZE_MAX, log_lines
from headrace.persistence.rdb.file import FileKey, FileKeys, FilePolicy, FileReader
from headrace.persistence.records import Damage, RecordReader, timestamp_line
from headrace.protocol import frames_plain
from headrace.protocol.packing import pack_command
from support.faulty_files import FaultyFiles, HandExecutor
from support.redis7 import OldRedis, redis7
from support.servers import Server

FOLDER = "/data/appendonlydir"
INCREMENT = f"{FOLDER}/appendonly.aof.1.incr.aof"

# Names of keys and groups that look like parts of a log.
AWKWARD = [
    b"orders", b"", b"a b", b"\r\n#HR DUE x\r\n", b"\n#HR+ ", b'"\\', b"\x00\xff", b"*1\r\n$4\r\nEXEC\r\n", b"x" * 1500,
]  # fmt: skip


class Events:
    """What a load has applied, in order: records, and policy lines with the word POLICY. Runs are taken apart."""

    def __init__(self) -> None:
        self.applied: list[list[bytes]] = []

    def apply(self, record: list[bytes]) -> None:
        if record[0] != b"SELECT":
            self.applied.append(record)

    def take_policy(self, words: list[bytes]) -> None:
        self.applied.append([b"POLICY", *words])

    def take_run(self, run: list[bytes]) -> bool:
        return False

    def open_rdb(self, blocks: Iterable[bytes]) -> FileReader:
        raise AssertionError

    def put(self, key: FileKey) -> None:
        raise AssertionError

    def put_many(self, part: FileKeys) -> None:
        raise AssertionError

    def put_policy(self, policy: FilePolicy) -> None:
        raise AssertionError


class Bench:
    """A log, and the units that were appended to it."""

    def __init__(self, *, has_block_checksums: bool = True) -> None:
        self.disk = FaultyFiles()
        self.settings = LogSettings(FOLDER, "appendonly.aof", True, 0, has_block_checksums=has_block_checksums)
        self.units: list[list[list[bytes]]] = []
        self.count = 0
        self.log = self.open()

    def new_log(self) -> AppendOnlyLog:
        return AppendOnlyLog(self.settings, b"no", self.disk, clock=lambda: 1_000_000, executor=HandExecutor())

    def open(self) -> AppendOnlyLog:
        self.log = self.new_log()
        self.log.open()
        return self.log

    def append(self, unit: list[list[bytes]]) -> None:
        """Append records, and policy lines with the word POLICY, as one unit."""
        packed = [log_lines(words[1:]) if words[0] == b"POLICY" else pack_command(words) for words in unit]
        self.log.append([(0, each) for each in packed], len(unit) > 1)
        self.units.append(unit)

    def load(self) -> list[list[bytes]]:
        events = Events()
        self.new_log().load(events.apply, target=events)
        return events.applied


def random_unit(rnd: random.Random, count: int) -> list[list[bytes]]:
    unit = []
    for number in range(rnd.choice([1, 1, 1, 3, 6])):
        key = rnd.choice(AWKWARD)
        entry_id = b"%d-%d" % (count + 1, number + 1)
        kind = rnd.random()
        if kind < 0.4:
            unit.append([b"XADD", key, entry_id, b"f", rnd.choice(AWKWARD)])
        elif kind < 0.5:
            unit.append([b"XDEL", key, entry_id])
        else:
            unit.append([b"POLICY", b"DUE", key, rnd.choice(AWKWARD), b"17", entry_id])
    return unit


def written(seed: int, *, has_block_checksums: bool, units_count: int) -> Bench:
    rnd = random.Random(seed)
    bench = Bench(has_block_checksums=has_block_checksums)
    for count in range(units_count):
        bench.append(random_unit(rnd, count))
        if rnd.random() < 0.5:
            bench.log.flush()
        if rnd.random() < 0.1:
            bench.log.close()
            bench.open()
    bench.log.close()
    return bench


@pytest.mark.parametrize("has_block_checksums", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_records_and_policy_lines_are_applied_in_the_order_of_the_log(seed: int, has_block_checksums: bool) -> None:
    bench = written(seed, has_block_checksums=has_block_checksums, units_count=60)
    assert bench.load() == [words for unit in bench.units for words in unit]


@pytest.mark.parametrize("seed", range(5))
def test_the_form_without_a_compiler_applies_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = written(seed, has_block_checksums=True, units_count=60)
    monkeypatch.setattr(records, "record_splitter", frames_plain.splitter)
    assert bench.load() == [words for unit in bench.units for words in unit]


@pytest.mark.parametrize("has_block_checksums", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_a_log_that_is_cut_anywhere_has_whole_units_and_can_be_continued(seed: int, has_block_checksums: bool) -> None:
    """A policy line of several parts is one line here, and never a part of one."""
    bench = written(seed, has_block_checksums=has_block_checksums, units_count=5)
    whole = bytes(bench.disk.content[INCREMENT])
    starts = [[words for unit in bench.units[:count] for words in unit] for count in range(len(bench.units) + 1)]
    seen = set()
    for size in range(len(whole)):
        bench.disk.content[INCREMENT] = bytearray(whole[:size])
        applied = bench.load()
        assert applied in starts
        seen.add(starts.index(applied))
        if size % 10 == 0:
            bench.open()
            bench.append([[b"POLICY", b"DUE", b"k", b"g", b"1", b"1-1"]])
            bench.log.close()
            bench.units.pop()
            assert bench.load() == [*applied, [b"POLICY", b"DUE", b"k", b"g", b"1", b"1-1"]]
    assert seen >= set(range(len(bench.units)))


@pytest.mark.parametrize("has_block_checksums", [True, False])
def test_a_reader_gives_the_same_for_pieces_of_any_size(has_block_checksums: bool) -> None:
    bench = written(7, has_block_checksums=has_block_checksums, units_count=40)
    data = bytes(bench.disk.content[INCREMENT])

    def read(size: int) -> list[list[bytes]]:
        reader = RecordReader(len(data))
        found = []
        for start in range(0, len(data), size):
            found += list(reader.feed(data[start : start + size]))
        found += list(reader.finish())
        assert reader.offset == len(data)
        return found

    expected = read(len(data))
    for size in (1, 2, 3, 7, 100, 1000, 1022, 1023, 1024):
        assert read(size) == expected
    assert sum(record[0] is POLICY for record in expected) == sum(
        words[0] == b"POLICY" for unit in bench.units for words in unit
    )


def test_values_full_of_what_looks_like_lines_are_read_in_linear_time() -> None:
    """Such a value is looked through a few times, not once for each such place."""
    value = b"\n#HR DUE x\r\n" * 20_000
    data = pack_command((b"SET", b"k", value)) + log_lines([b"DUE", b"k", b"g", b"1", b"1-1"])
    reader = RecordReader(len(data))
    splits = []
    split = reader._split

    def counted(piece: bytes, size_max: int) -> object:
        splits.append(len(piece))
        return split(piece, size_max)

    reader._split = counted  # type: ignore[assignment]
    found = [*reader.feed(data), *reader.finish()]
    assert [list(record)[1:] for record in found] == [[b"k", value], [b"DUE", b"k", b"g", b"1", b"1-1"]]
    assert sum(splits) < 4 * len(data)


@pytest.mark.parametrize(
    "lines",
    [
        b"#HR+ DUE a\r\n" + pack_command((b"SET", b"k", b"v")),
        b"#HR+ DUE a\r\n#TS:17\r\n",
        b"#HR+ DUE a\r\n#HR DUE b\r\n",
        b"#HR= DUE a\r\n",
        b'#HR DUE "a\r\n',
    ],
)
def test_a_damaged_policy_line_is_damage_at_its_first_part(lines: bytes) -> None:
    before = pack_command((b"SET", b"a", b"1"))
    data = before + lines + pack_command((b"SET", b"b", b"2"))
    reader = RecordReader(len(data))
    found = list(reader.feed(data))
    with pytest.raises(Damage, match="a policy line") as damage:
        found += list(reader.finish())
    assert damage.value.offset == len(before)
    assert all(record[1] != b"b" for record in found)


def test_a_start_is_stopped_by_a_damaged_policy_line_and_names_it() -> None:
    bench = Bench(has_block_checksums=False)
    bench.append([[b"SET", b"k", b"v"]])
    bench.log.close()
    bench.disk.content[INCREMENT] += b'#HR DUE "a\r\n' + pack_command((b"SET", b"k", b"w"))
    with pytest.raises(LoadError, match=r"a policy line that cannot be read: '#?.*DUE \"a' at offset"):
        bench.load()


def test_a_place_with_a_policy_line_after_it_says_nothing() -> None:
    place = b"#HR repl %b 1 0\r\n" % (b"0123456789" * 4)
    for data, expected in ((place, place), (place + log_lines([b"DUE", b"k"]), b"")):
        reader = RecordReader(len(data))
        list(reader.feed(data))
        list(reader.finish())
        assert reader.place_line == expected


def write_file(tmp_path: Path, units: list[list[list[bytes]]]) -> Path:
    bench = Bench()
    for unit in units:
        bench.append(unit)
    bench.log.close()
    path = tmp_path / "appendonly.aof"
    path.write_bytes(timestamp_line(1_700_000_000) + bytes(bench.disk.content[INCREMENT]))
    return path


LONG = [b"POLICY", b"DUE", b"s", b"g", b"17", *(b"%d-1" % each for each in range(1, 700))]
UNITS = [
    [[b"XADD", b"s", b"1-1", b"f", b"v"]],
    [[b"POLICY", b"LATER", b"s", b"17", b"1-1"]],
    [[b"XADD", b"s", b"2-1", b"f", b"v"], LONG, [b"XADD", b"s", b"3-1", b"f", b"v"]],
    [[b"POLICY", b"XCFGSET", b"\r\n*1\r\n$4\r\nEXEC\r\n#\x00\xff", b"MAXLEN", b"7"]],
]


def test_check_aof_counts_policy_lines_and_cuts_an_incomplete_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(has_block_checksums=False)
    for unit in UNITS[:2]:
        bench.append(unit)
    bench.log.flush()
    good_size = len(bench.disk.content[INCREMENT])
    bench.append([LONG])
    bench.log.close()
    data = bytes(bench.disk.content[INCREMENT])
    path = tmp_path / "appendonly.aof"
    path.write_bytes(data)
    assert check_aof([str(path)]) == 0
    assert "Policy lines of Headrace: 2\n" in capsys.readouterr().out
    ends = [place for place in range(good_size, len(data)) if data[place - 1] == ord("\n")]
    for size in (*ends[1:], good_size + 1, len(data) - 1):
        path.write_bytes(data[:size])
        assert check_aof([str(path)]) == 1
        assert f"ok_up_to={good_size}," in capsys.readouterr().out
        monkeypatch.setattr("sys.stdin", StringIO("y\n"))
        assert check_aof(["--fix", str(path)]) == 0
        assert path.read_bytes() == data[:good_size]
        capsys.readouterr()


@pytest.mark.parametrize("kind", [pytest.param("oracle", marks=pytest.mark.oracle), "redis 7"])
def test_redis_and_its_tool_skip_policy_lines(tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> None:
    settings = LogSettings(str(tmp_path / "appendonlydir"), "appendonly.aof", has_block_checksums=True)
    log = AppendOnlyLog(settings, b"no")
    log.open()
    for unit in UNITS:
        packed = [log_lines(words[1:]) if words[0] == b"POLICY" else pack_command(words) for words in unit]
        log.append([(0, each) for each in packed], len(unit) > 1)
    log.close()
    tool = ["redis-check-aof", log.manifest_path]
    program = request.getfixturevalue("oracle_tools") / "redis-server" if kind == "oracle" else redis7()
    done = subprocess.run(tool, executable=program, capture_output=True, text=True, check=True)
    assert "All AOF files and manifest are valid" in done.stdout
    server = (Server if kind == "oracle" else OldRedis)(kind, tmp_path, "--appendonly", "yes")
    server.start()
    try:
        with server.connect() as wire:
            assert wire.ask("XLEN", "s") == 3
            assert wire.ask("DBSIZE") == 1
            assert wire.call("SET", "k", "after")
    finally:
        server.stop()
    events = Events()
    AppendOnlyLog(settings, b"no").load(events.apply, target=events)
    assert events.applied == [*(words for unit in UNITS for words in unit), [b"SET", b"k", b"after"]]


def test_no_line_of_such_a_log_is_longer_than_redis_reads(tmp_path: Path) -> None:
    data = write_file(tmp_path, UNITS).read_bytes()
    starts = [place for place in range(len(data)) if data.startswith(b"#HR", place) and data[place - 1] == ord("\n")]
    assert len(starts) > 3
    assert all(data.index(b"\n", start) + 1 - start <= LINE_SIZE_MAX for start in starts)
    assert all(low < high for low, high in pairwise(starts))
