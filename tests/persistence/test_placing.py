"""The place of a dataset in a replication stream, as a log names it: never one that is not true."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from headrace.persistence.aof import AppendOnlyLog
from headrace.persistence.check_aof import main as check_aof
from headrace.persistence.errors import LoadError
from headrace.persistence.folder import LogSettings
from headrace.persistence.loading import LoadResult
from headrace.persistence.placing import StreamPlace, place_line, read_place
from headrace.protocol.packing import pack_command
from support.faulty_files import FaultyFiles, HandExecutor
from support.servers import Server

FOLDER = "/data/appendonlydir"
INCREMENT = f"{FOLDER}/appendonly.aof.1.incr.aof"
ID = "0123456789" * 4
SELECT_0 = pack_command((b"SELECT", b"0"))


def place_at(offset: int) -> StreamPlace:
    return StreamPlace(0, ID, offset)


class Bench:
    """A log whose place after each record is the number of records."""

    def __init__(self, *, has_block_checksums: bool = True, corrupt_tail_size_max: int = 0) -> None:
        self.disk = FaultyFiles()
        self.settings = LogSettings(
            FOLDER, "appendonly.aof", True, corrupt_tail_size_max, has_block_checksums=has_block_checksums
        )
        self.count = 0
        self.log = self.new_log()

    def new_log(self) -> AppendOnlyLog:
        return AppendOnlyLog(self.settings, b"no", self.disk, clock=lambda: 1_000_000, executor=HandExecutor())

    def open(self) -> AppendOnlyLog:
        self.log = self.new_log()
        self.log.open()
        return self.log

    def append(self, count: int, *, grouped: bool = False) -> None:
        """Append records; SELECT and MULTI do not count."""
        records = [(0, pack_command((b"SET", b"k%d" % (self.count + each), b"v" * 50))) for each in range(count)]
        self.count += count
        self.log.append(records, grouped)

    def place(self) -> None:
        self.log.append_place(place_at(self.count))

    def load(self) -> tuple[int, LoadResult]:
        """The number of records that a start applies, and its result. Raises LoadError."""
        applied: list[list[bytes]] = []

        def apply(record: list[bytes]) -> None:
            if record[0] != b"SELECT":
                applied.append(record)

        result = self.new_log().load(apply)
        return len(applied), result


def test_a_line_is_read_as_it_was_written() -> None:
    place = StreamPlace(15, ID, 10**15)
    assert place_line(place) == b"#HR repl %b 1000000000000000 15\r\n" % ID.encode()
    assert read_place(place_line(place)) == place


@pytest.mark.parametrize(
    "line", [b"", b"#HR repl\r\n", b"#HR repl ? -1 0\r\n", b"#HR repl %b 1 0\n" % ID.encode(),
             b"#HR repl %b 1 0 2\r\n" % ID.encode(), b"#HR repl %b 1 0\r\n" % ID[1:].encode()],
)  # fmt: skip
def test_a_line_of_another_form_names_no_place(line: bytes) -> None:
    assert read_place(line) is None


@pytest.mark.parametrize("has_block_checksums", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_a_log_that_is_cut_anywhere_names_the_place_of_what_is_left_or_none(
    seed: int, has_block_checksums: bool
) -> None:
    """Records, transactions and places at random. The file is cut at every byte."""
    rnd = random.Random(seed)
    bench = Bench(has_block_checksums=has_block_checksums)
    log = bench.open()
    for _ in range(25):
        bench.append(rnd.choice([1, 1, 2, 5]), grouped=rnd.random() < 0.5)
        if rnd.random() < 0.7:
            bench.place()
        if rnd.random() < 0.5:
            log.flush()
        if rnd.random() < 0.1:
            log.close()
            log = bench.open()
    bench.place()
    log.close()
    whole = bytes(bench.disk.content[INCREMENT])
    assert bench.load()[1].place == place_at(bench.count)
    named_count = 0
    for size in range(len(whole)):
        bench.disk.content[INCREMENT] = bytearray(whole[:size])
        count, result = bench.load()
        assert result.place in (None, place_at(count)), f"seed {seed}, {size} bytes"
        named_count += result.place is not None
    assert named_count > len(whole) // 20


def test_a_record_after_the_place_takes_its_truth() -> None:
    bench = Bench()
    bench.open()
    bench.append(3)
    bench.place()
    bench.append(1)
    bench.log.close()
    assert bench.load()[1].place is None


def test_the_first_line_of_an_increment_names_the_place_of_its_base() -> None:
    bench = Bench()
    log = bench.open()
    bench.append(3)
    bench.place()
    path = log.begin_rewrite()
    bench.place()
    # The base is not complete, and the new increment is empty: the line before it holds.
    assert bench.load()[1].place == place_at(3)
    log.flush()
    assert bench.load()[1].place == place_at(3)
    base = b"".join(log.base_blocks([(0, pack_command((b"SET", b"k%d" % each, b"v"))) for each in range(3)]))
    bench.disk.replace(path, (base,))
    log.finish_rewrite(len(base))
    assert bench.load() == (3, bench.load()[1])
    assert bench.load()[1].place == place_at(3)
    bench.append(1)
    log.flush()
    assert bench.load()[1].place is None


def test_a_base_without_a_place_after_it_has_none() -> None:
    bench = Bench()
    log = bench.open()
    bench.append(3)
    bench.place()
    path = log.begin_rewrite()
    bench.disk.replace(path, (SELECT_0,))
    log.finish_rewrite(len(SELECT_0))
    log.close()
    assert bench.load()[1].place is None


def test_a_tail_that_is_dropped_as_damaged_leaves_no_place() -> None:
    bench = Bench(corrupt_tail_size_max=100)
    bench.open()
    bench.append(3)
    bench.place()
    bench.log.close()
    bench.disk.content[INCREMENT] += b"garbage"
    assert bench.load()[0] == 3
    bench.disk.content[INCREMENT] += b"garbage"
    assert bench.load()[1].place is None


@pytest.mark.parametrize("text", ["file appendonly.aof.1.base.aof seq 1 type b\n", "no increment"])
def test_a_list_that_has_lost_a_file_leaves_no_place(text: str) -> None:
    bench = Bench()
    log = bench.open()
    bench.append(1)
    for _ in range(2):
        log.begin_rewrite()  # fails, which leaves an increment more
        bench.append(1)
    bench.place()
    log.close()
    assert bench.load()[1].place == place_at(3)
    path = f"{FOLDER}/appendonly.aof.manifest"
    lines = bench.disk.content[path].decode().splitlines(keepends=True)
    lost = text if text in lines else next(line for line in lines if "seq 2" in line)
    bench.disk.content[path] = bytearray("".join(line for line in lines if line != lost).encode())
    count, result = bench.load()
    assert (count, result.place) == (3 if text in lines else 2, None)


def test_a_file_that_was_repaired_before_the_last_leaves_no_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = LogSettings(str(tmp_path / "log"), "appendonly.aof")

    def load() -> LoadResult:
        return AppendOnlyLog(settings, b"no").load(lambda record: None)

    log = AppendOnlyLog(settings, b"no")
    log.open()
    log.append([(0, pack_command((b"SET", b"a", b"1")))], False)
    log.append([(0, pack_command((b"SET", b"b", b"1")))], False)
    log.begin_rewrite()
    log.append([(0, pack_command((b"SET", b"c", b"1")))], False)
    log.append_place(place_at(3))
    log.close()
    assert load().place == place_at(3)
    increment = tmp_path / "log" / "appendonly.aof.1.incr.aof"
    increment.write_bytes(increment.read_bytes()[:-1])
    with pytest.raises(LoadError):
        load()
    monkeypatch.setattr("sys.stdin.readline", lambda: "y\n")
    assert check_aof(["--fix", log.manifest_path]) == 0
    capsys.readouterr()
    assert load().place is None
    # Another start does not forget it.
    log = AppendOnlyLog(settings, b"no")
    log.open()
    log.append_place(place_at(2))
    log.close()
    assert load().place is None


@pytest.mark.oracle
def test_redis_and_its_tool_skip_the_line(oracle_tools: Path, tmp_path: Path) -> None:
    """Redis loads a log with such lines, and what it appends takes their truth."""
    settings = LogSettings(str(tmp_path / "appendonlydir"), "appendonly.aof", has_block_checksums=True)
    log = AppendOnlyLog(settings, b"no")
    log.open()
    for number in range(200):
        log.append([(0, pack_command((b"SET", b"k%d" % number, b"v")))], False)
        log.append_place(place_at(number))
        log.flush()
    log.close()
    program = oracle_tools / "redis-server"
    subprocess.run(["redis-check-aof", log.manifest_path], executable=program, check=True, capture_output=True)

    def load() -> LoadResult:
        return AppendOnlyLog(settings, b"no").load(lambda record: None)

    for is_changed in (False, True):
        server = Server("oracle", tmp_path, "--appendonly", "yes")
        server.start()
        try:
            with server.connect() as wire:
                assert wire.ask("DBSIZE") == 200
                if is_changed:
                    assert wire.call("SET", "k0", "w") == b"+OK\r\n"
        finally:
            server.stop()
        assert load().place == (None if is_changed else place_at(199))
