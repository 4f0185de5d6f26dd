"""headrace-check-aof: its findings, what it cuts off, and that redis-check-aof prints and does the same."""

from __future__ import annotations

import io
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from headrace.persistence.check_aof import USAGE, main
from headrace.persistence.check_file import BadTimestamp, examine
from headrace.persistence.checksum import EMPTY_BLOCK_LINE, checksum_line
from headrace.persistence.rdb.file import write_file
from headrace.protocol.packing import pack_command

SET = pack_command((b"SET", b"a", b"1"))
MULTI, EXEC = pack_command((b"MULTI",)), pack_command((b"EXEC",))
BLOCK = SET * 3 + checksum_line(SET * 3)
TIMED = b"#TS:100\r\n" + SET + b"#TS:200\r\n" + SET
RDB = b"".join(write_file([], {b"aof-base": b"1"}, now_ms=0))

DAMAGED = {
    "prefix": SET + b"*2\r\nxx\r\n",
    "garbage": SET + b"garbage",
    "end after a count": SET + b"*3\r\n",
    "end after a line end's half": SET + b"*3\r",
    "end in a string": SET + b"*1\r\n$10\r\nab",
    "string too long": SET + b"*1\r\n$1\r\nabc\r\n",
    "negative size": SET + b"*1\r\n$-1\r\n",
    "no number": SET + b"*x\r\n",
    "no line end": SET + b"*1\n$1\r\na\r\n",
    "huge count": SET + b"*99999999999999999999\r\n$1\r\n",
    "MULTI twice": SET + MULTI + MULTI,
    "EXEC alone": SET + b"*1\r\n$4\r\nexec\r\n",
    "open group": SET + MULTI + SET,
    "garbage in a group": SET + MULTI + SET + b"x",
    "end in a group": SET + MULTI + b"*2\r\n",
    "damaged behind timestamps": TIMED + b"garbage",
}
WHOLE = {
    "records": SET * 2,
    "nothing": b"",
    "annotations": SET + b"#foo\r\n" + SET + b"#bar\n",
    "group": MULTI + SET + EXEC,
    "timestamps": TIMED,
}


def run(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, list[str]]:
    """Exit code and lines."""
    code = main([str(word) for word in words])
    return code, capsys.readouterr().out.splitlines()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a test puts its file."""
    return tmp_path / "f.aof"


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """What the person types."""
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


# -- one file ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in WHOLE if name != "nothing"])
def test_whole_file_is_valid(name: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(WHOLE[name])
    size = len(WHOLE[name])
    code, lines = run(capsys, file)
    assert code == 0
    assert lines[0] == "Start checking Old-Style AOF"
    assert re.fullmatch(
        rf"AOF analyzed: filename={file}, size={size}, ok_up_to={size}, ok_up_to_line=\d+, diff=0", lines[1]
    )
    assert lines[2:] == [f"AOF {file} is valid"]


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_file_is_not_valid_and_not_touched(name: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(DAMAGED[name])
    code, lines = run(capsys, file)
    assert code == 1
    assert lines[-1] == f"AOF {file} is not valid. Use the --fix option to try fixing it."
    good = len(TIMED if "timestamps" in name else SET)
    assert f"ok_up_to={good}," in lines[-2]
    assert file.read_bytes() == DAMAGED[name]


@pytest.mark.parametrize(
    ("data", "good_size", "detail"),
    [
        (SET + b"*0\r\n", len(SET), "0x              1b: no count of arguments"),
        (SET + b"#TS:1", len(SET), "0x              1b: Reached EOF before the end of an annotation"),
        (SET + b"*01\r\n$4\r\nPING\r\n", len(SET), "0x              1b: no count of arguments"),
    ],
)
def test_what_the_server_would_not_load_is_not_valid(data: bytes, good_size: int, detail: str) -> None:
    found = examine(data, "f")
    assert (found.good_offset, found.detail) == (good_size, detail)


def test_checksums_are_verified_and_counted(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(BLOCK * 2 + SET + EMPTY_BLOCK_LINE + BLOCK)
    code, lines = run(capsys, file)
    assert code == 0
    assert lines[2] == f"Checksums verified: blocks=3, bytes={9 * len(SET)}"


def test_changed_byte_is_damage_from_its_block_on(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = BLOCK.replace(b"$1\r\n1", b"$1\r\n2", 1)
    timed = b"#TS:1\r\n" + SET
    good = timed + checksum_line(timed)
    file.write_bytes(good + bad + BLOCK)
    code, lines = run(capsys, file)
    assert code == 1
    assert lines[1] == f"0x{len(good):16x}: The checksum of the block does not match"
    assert f"ok_up_to={len(good)}," in lines[2]
    answer(monkeypatch, "y\n")
    code, lines = run(capsys, "--fix", file)
    assert code == 0
    assert lines[-1] == f"Continue? [y/N]: Successfully truncated AOF {file}"
    assert file.read_bytes() == good


@pytest.mark.parametrize("typed", ["", "\n", "n\n", "no\n", "ja\n"])
def test_fix_asks_and_takes_no_for_an_answer(
    typed: str, file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_bytes(SET + b"*2")
    answer(monkeypatch, typed)
    code, lines = run(capsys, "--fix", file)
    assert code == 1
    assert lines[-2] == f"This will shrink the AOF {file} from 29 bytes, with 2 bytes, to 27 bytes"
    assert lines[-1] == "Continue? [y/N]: Aborting..."
    assert file.read_bytes() == SET + b"*2"


@pytest.mark.parametrize("typed", ["y", "Y\n", "yes\n"])
def test_fix_cuts_back_to_the_last_whole_unit(
    typed: str, file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_bytes(SET + MULTI + SET)
    answer(monkeypatch, typed)
    code, _ = run(capsys, file, "--fix")
    assert code == 0
    assert file.read_bytes() == SET
    assert run(capsys, "--fix", file)[0] == 0


@pytest.mark.parametrize(
    "data",
    [
        b"garbage" + SET,
        BLOCK.replace(b"$1\r\n1", b"$1\r\n2", 1) + BLOCK,
        b"#TS:100\r\n" + BLOCK.replace(b"$1\r\n1", b"$1\r\n2", 1),
        b"#TS:100\r\n*3\r\n",
    ],
)
def test_fix_that_would_keep_nothing_says_so(
    data: bytes, file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After Redis' line, and before the question."""
    file.write_bytes(data)
    nothing = "--fix would keep no record of this file: restore it from a backup instead"
    code, lines = run(capsys, file)
    assert (code, lines[-2:]) == (1, [f"AOF {file} is not valid. Use the --fix option to try fixing it.", nothing])
    answer(monkeypatch, "n\n")
    code, lines = run(capsys, "--fix", file)
    assert (code, lines[-3].split()[:2], lines[-2]) == (1, ["This", "will"], nothing)
    assert file.read_bytes() == data


def test_rdb_file_is_more_than_nothing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(RDB + b"garbage")
    assert run(capsys, file)[1][-1] == f"AOF {file} is not valid. Use the --fix option to try fixing it."


# -- timestamps ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("until", "size"), [(100, 36), (199, 36), (200, None), (300, None)])
def test_file_is_cut_before_the_first_later_timestamp(
    until: int, size: int | None, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_bytes(TIMED)
    code, lines = run(capsys, "--truncate-to-timestamp", str(until), file)
    assert code == 0
    if size is None:
        assert lines[1:] == [f"Truncate nothing in AOF {file} to timestamp {until}", f"AOF {file} is valid"]
    else:
        assert lines[1:] == [f"Successfully truncated AOF {file} to timestamp {until}"]
    assert file.read_bytes() == TIMED[:size]


def test_nothing_is_cut_if_nothing_would_be_left(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(TIMED)
    code, lines = run(capsys, "--truncate-to-timestamp", "50", file)
    assert (code, lines[-1]) == (1, f"AOF {file} has nothing before timestamp 50, aborting...")
    assert file.read_bytes() == TIMED


def test_timestamps_that_are_no_numbers_are_refused(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(b"#TS:x\r\n" + SET)
    assert run(capsys, "--truncate-to-timestamp", "5", file) == (
        1,
        ["Start checking Old-Style AOF", "Invalid timestamp annotation"],
    )
    assert run(capsys, "--truncate-to-timestamp", "five", file) == (1, ["Invalid timestamp, aborting..."])
    with pytest.raises(BadTimestamp):
        examine(b"#TS:\r\n", "f", until_s=1)


def test_cut_inside_of_a_block_needs_the_block_to_be_good(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is kept of it has no checksum of its own any more."""
    block = TIMED + checksum_line(TIMED)
    file.write_bytes(block.replace(b"$1\r\n1", b"$1\r\n2", 1))
    assert run(capsys, "--truncate-to-timestamp", "150", file)[0] == 1
    file.write_bytes(block + BLOCK.replace(b"$1\r\n1", b"$1\r\n2", 1))
    assert run(capsys, "--truncate-to-timestamp", "150", file)[0] == 0
    assert file.read_bytes() == TIMED[:36]


# -- several files -------------------------------------------------------------------------------


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """A base and two increments."""
    path = tmp_path / "a.manifest"
    path.write_text("# parts\nfile b seq 1 type b\nfile i1 seq 1 type i\nfile i2 seq 2 type i\n")
    (tmp_path / "b").write_bytes(b"#TS:10\r\n" + SET)
    (tmp_path / "i1").write_bytes(b"#TS:20\r\n" + SET + b"#TS:30\r\n" + SET)
    (tmp_path / "i2").write_bytes(b"#TS:40\r\n" + SET + b"#TS:50\r\n" + SET)
    return path


def test_every_part_is_checked(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (manifest.parent / "i2").write_bytes(b"")
    code, lines = run(capsys, manifest)
    assert code == 0
    assert lines == [
        "Start checking Multi Part AOF",
        "Start to check BASE AOF (RESP format).",
        "AOF analyzed: filename=b, size=35, ok_up_to=35, ok_up_to_line=8, diff=0",
        "BASE AOF b is valid",
        "Start to check INCR files.",
        "AOF analyzed: filename=i1, size=70, ok_up_to=70, ok_up_to_line=22, diff=0",
        "INCR AOF i1 is valid",
        "INCR AOF i2 is empty",
        "All AOF files and manifest are valid",
    ]


def test_only_the_last_part_is_cut(
    manifest: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    last, earlier = manifest.parent / "i2", manifest.parent / "i1"
    last.write_bytes(SET + b"*")
    answer(monkeypatch, "y\n")
    assert run(capsys, "--fix", manifest)[0] == 0
    assert last.read_bytes() == SET
    earlier.write_bytes(SET + b"*")
    code, lines = run(capsys, "--fix", manifest)
    assert (code, lines[-1]) == (1, "Failed to truncate AOF i1 because it is not the last file")
    assert earlier.read_bytes() == SET + b"*"


def test_only_the_last_part_is_cut_to_a_timestamp(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = run(capsys, "--truncate-to-timestamp", "25", manifest)
    assert code == 1
    assert lines[-2].endswith("i1 to timestamp 25 to offset 35 because it is not the last file.")
    code, lines = run(capsys, "--truncate-to-timestamp", "45", manifest)
    assert code == 0
    assert (manifest.parent / "i2").read_bytes() == b"#TS:40\r\n" + SET


def with_size(manifest: Path, size: int) -> Path:
    """The base, whose size the manifest has from now on."""
    manifest.write_text(manifest.read_text().replace("type b", f"type b size {size}"))
    return manifest.parent / "b"


@pytest.mark.parametrize("size", [0, 35, 50])
def test_base_of_another_size_than_the_manifest_says_is_not_valid(
    size: int, manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = with_size(manifest, 62)
    base.write_bytes((base.read_bytes() + SET)[:size])
    expected = (
        f"BASE AOF b is not valid: it has {size} bytes, but the list of the log's files says 62. Restore it from a "
        "backup. Without one, --fix with the manifest keeps the whole records that are left."
    )
    for path in (manifest, base):
        code, lines = run(capsys, path)
        assert (code, lines[-1]) == (1, expected)


@pytest.mark.parametrize(("size", "kept_size"), [(0, 0), (35, 35), (50, 35), (61, 35)])
def test_fix_keeps_the_whole_records_of_a_base_that_was_cut(
    size: int, kept_size: int, manifest: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    base = with_size(manifest, 62)
    whole = base.read_bytes() + SET
    base.write_bytes(whole[:size])
    before = manifest.read_text()
    answer(monkeypatch, "n\n")
    assert run(capsys, "--fix", manifest)[0] == 1
    assert (base.read_bytes(), manifest.read_text()) == (whole[:size], before)
    answer(monkeypatch, "y\n")
    code, lines = run(capsys, "--fix", manifest)
    assert (code, lines[-1]) == (0, "All AOF files and manifest are valid")
    assert base.read_bytes() == whole[:kept_size]
    assert manifest.read_text() == before.removeprefix("# parts\n").replace("size 62", f"size {kept_size} cut 1")
    assert run(capsys, manifest)[0] == 0


def test_an_increment_that_was_cut_is_found_and_fixed_like_a_base(
    manifest: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    increment = manifest.parent / "i1"
    whole = increment.read_bytes() + SET
    manifest.write_text(manifest.read_text().replace("file i1 seq 1 type i", f"file i1 seq 1 type i size {len(whole)}"))
    increment.write_bytes(whole[: -len(SET)])
    for path in (manifest, increment):
        code, lines = run(capsys, path)
        assert (code, lines[-1].split(":")[0]) == (1, "INCR AOF i1 is not valid")
    answer(monkeypatch, "y\n")
    code, lines = run(capsys, "--fix", manifest)
    assert (code, lines[-1]) == (0, "All AOF files and manifest are valid")
    assert f"size {len(whole) - len(SET)}" in manifest.read_text()
    assert run(capsys, manifest)[0] == 0


def test_empty_rdb_base_is_not_valid(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (manifest.parent / "b").rename(manifest.parent / "a.1.base.rdb")
    manifest.write_text(manifest.read_text().replace("file b ", "file a.1.base.rdb "))
    (manifest.parent / "a.1.base.rdb").write_bytes(b"")
    code, lines = run(capsys, "--fix", manifest)
    assert (code, lines[-1]) == (
        1,
        "BASE AOF a.1.base.rdb is not valid: it has 0 bytes, but an RDB file is never empty. Restore it from a backup: "
        "nothing can be loaded from a part of an RDB file. Without one, delete its line from the manifest to load only "
        "the changes after it.",
    )


def test_base_that_is_damaged_before_the_cut_is_not_cut_there(
    manifest: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    base = with_size(manifest, 10 * len(BLOCK))
    damaged = (BLOCK * 9).replace(b"$1\r\n1", b"$1\r\n2", 1)
    base.write_bytes(damaged)
    answer(monkeypatch, "y\n")
    code, lines = run(capsys, "--fix", manifest)
    assert code == 1
    assert lines[-1].endswith("it is damaged at offset 0, and more records follow. Restore it from a backup.")
    assert base.read_bytes() == damaged


@pytest.mark.parametrize("name", ["b", "i1", "i2"])
def test_file_that_others_follow_is_not_cut_by_its_own_name_either(
    name: str, manifest: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = manifest.parent / name
    damaged = path.read_bytes() + b"*"
    path.write_bytes(damaged)
    (manifest.parent / "other.manifest").write_text("not a manifest")
    answer(monkeypatch, "y\n")
    code, lines = run(capsys, "--fix", path)
    if name == "i2":
        assert (code, path.read_bytes()) == (0, damaged[:-1])
    else:
        assert (code, lines[-1]) == (1, f"Failed to truncate AOF {path} because it is not the last file")
        assert path.read_bytes() == damaged


def test_missing_part_and_bad_manifest_are_reported(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (manifest.parent / "i1").unlink()
    code, lines = run(capsys, manifest)
    assert (code, lines[-1]) == (1, f"Cannot open file {manifest.parent}/i1: No such file or directory, aborting...")
    manifest.write_text("file b seq 1\n")
    assert run(capsys, manifest) == (
        1,
        [
            "Start checking Multi Part AOF",
            "*** FATAL AOF MANIFEST FILE ERROR ***",
            "Invalid AOF manifest file format",
        ],
    )


def test_rdb_base_is_read(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = manifest.parent / "b"
    base.write_bytes(RDB)
    code, lines = run(capsys, manifest)
    assert code == 0
    assert "Start to check BASE AOF (RDB format)." in lines
    assert rf"[offset {len(RDB)}] \o/ RDB looks OK! \o/" in lines
    base.write_bytes(RDB.replace(b"aof-base", b"bof-base"))
    code, lines = run(capsys, manifest)
    assert code == 1
    assert "--- RDB ERROR DETECTED ---" in lines
    assert lines[-1] == "RDB preamble of AOF file is not sane, aborting."


def test_records_after_an_rdb_file_are_checked(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(RDB + SET + b"*1")
    code, lines = run(capsys, file)
    assert code == 1
    assert f"size={len(RDB + SET) + 2}, ok_up_to={len(RDB + SET)}, ok_up_to_line=8, diff=2" in lines[-2]


# -- the command line ----------------------------------------------------------------------------


@pytest.mark.parametrize("words", [(), ("--foo", "f"), ("a", "b", "c", "d"), ("--fix", "--fix", "f")])
def test_wrong_use_is_reported(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, *words) == (1, [USAGE])


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_help_says_what_the_options_do(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = run(capsys, word)
    assert (code, lines[0]) == (0, USAGE)
    assert any("all records from" in line for line in lines)


def test_file_that_cannot_be_read_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = run(capsys, tmp_path / "none")
    assert (code, lines) == (1, [f"Cannot open file {tmp_path}/none: No such file or directory"])
    assert run(capsys, tmp_path)[0] == 1


@pytest.mark.oracle
@pytest.mark.parametrize("name", [*WHOLE, *DAMAGED])
@pytest.mark.parametrize("options", [(), ("--fix",), ("--truncate-to-timestamp", "150")])
def test_output_is_that_of_redis_check_aof(
    name: str, options: tuple[str, ...], oracle_tools: Path, tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = (WHOLE | DAMAGED)[name]
    outcomes = []
    for tool in ("theirs", "ours"):
        folder = tmp_path / tool
        folder.mkdir()
        monkeypatch.chdir(folder)
        Path("f.aof").write_bytes(data)
        if tool == "ours":
            answer(monkeypatch, "y\n")
            code = main([*options, "f.aof"])
            text = capfd.readouterr().out
        else:
            done = subprocess.run(
                ["redis-check-aof", *options, "f.aof"],
                executable=oracle_tools / "redis-server",
                input=b"y\n",
                capture_output=True,
                timeout=30,
            )
            code, text = done.returncode, done.stdout.decode()
        outcomes.append((code, text, Path("f.aof").read_bytes()))
    assert outcomes[1] == outcomes[0]
