"""The integrity of the log: checksum lines are where they should be, and no changed byte passes them unnoticed."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.persistence import records as records_module
from headrace.persistence.aof import AppendOnlyLog
from headrace.persistence.checksum import (
    CHECKSUM_PREFIX,
    EMPTY_BLOCK_LINE,
    IDLE_BLOCK_MS,
    OpenBlock,
    checksum_line,
    with_checksums,
)
from headrace.persistence.errors import LoadError, LogFailure
from headrace.persistence.folder import LogSettings
from headrace.persistence.writer import CHECKSUM_BLOCK_SIZE
from headrace.protocol.packing import pack_command
from support.faulty_files import FaultyFiles, HandExecutor

FOLDER = "/data/appendonlydir"
INCREMENT = f"{FOLDER}/appendonly.aof.1.incr.aof"
MANIFEST = f"{FOLDER}/appendonly.aof.manifest"
MANIFEST_TEXT = b"file appendonly.aof.1.incr.aof seq 1 type i\n"
SETTINGS = LogSettings(FOLDER, "appendonly.aof", has_block_checksums=True)
SELECT_0 = pack_command((b"SELECT", b"0"))
SET_A, SET_B = pack_command((b"SET", b"a", b"1")), pack_command((b"SET", b"b", b"2"))
MULTI, EXEC = pack_command((b"MULTI",)), pack_command((b"EXEC",))

Record = list[bytes]


def new_log(
    disk: FaultyFiles,
    policy: bytes = b"no",
    settings: LogSettings = SETTINGS,
    executor: HandExecutor | None = None,
) -> AppendOnlyLog:
    """A log with checksums at one moment in time, not yet open."""
    return AppendOnlyLog(settings, policy, disk, clock=lambda: 1_000_000, executor=executor or HandExecutor())


def written(disk: FaultyFiles) -> bytes:
    """The increment."""
    return bytes(disk.content[INCREMENT])


def load(data: bytes, *, tail_size_max: int = 0) -> tuple[list[Record], bytes]:
    """What a start applies of a log with this content, and what it leaves of it. Raises LoadError."""
    disk = FaultyFiles()
    disk.content[INCREMENT] = bytearray(data)
    disk.content[MANIFEST] = bytearray(MANIFEST_TEXT)
    applied: list[Record] = []
    new_log(disk, settings=replace(SETTINGS, corrupt_tail_size_max=tail_size_max)).load(applied.append)
    return applied, written(disk)


def sealed(*units: bytes) -> bytes:
    """One block with its line."""
    return b"".join(units) + checksum_line(b"".join(units))


def mixed_log(size_min: int, *, block_size: int, seed: int) -> tuple[bytes, list[int]]:
    """A log with records and transactions, values with line ends and marks in them, and checksum lines.

    Also answers the offsets at which a cut leaves whole units only.
    """
    dice = random.Random(seed)
    data, ends, block = bytearray(), [0], OpenBlock()

    def put(unit: bytes) -> None:
        data.extend(unit)
        ends.append(len(data))

    while len(data) < size_min or block.size:
        value = bytes(dice.choices(b"ab\r\n#*$12", k=dice.randrange(60)))
        record = pack_command((b"XADD", b"s", b"%d-1" % len(data), b"field", value))
        unit = record if dice.random() < 0.7 else MULTI + record * dice.randrange(1, 4) + EXEC
        put(unit)
        block.add(unit)
        if block.size >= block_size:
            put(block.line())
            block.clear()
    return bytes(data), ends


# -- writing -------------------------------------------------------------------------------------


def test_line_has_hash_and_size_of_its_block() -> None:
    block = OpenBlock()
    block.add(SET_A)
    block.add(SET_B)
    assert block.line() == checksum_line(SET_A + SET_B)
    assert checksum_line(b"abc") == b"#XXH3:78af5f94892f3950 3\r\n"
    assert EMPTY_BLOCK_LINE == b"#XXH3:2d06800538d394c2 0\r\n"


def test_write_that_fills_a_block_ends_with_its_line() -> None:
    disk = FaultyFiles()
    log = new_log(disk)
    log.open()
    block = SELECT_0
    while len(block) < CHECKSUM_BLOCK_SIZE:
        assert written(disk) == block[: len(written(disk))]
        assert CHECKSUM_PREFIX not in written(disk)
        log.append([(0, SET_A)], False)
        log.flush()
        block += SET_A
    assert written(disk) == sealed(block)
    log.append([(0, SET_B)], False)
    log.close()
    assert written(disk) == sealed(block) + sealed(SET_B)
    assert log.current_size == len(written(disk))


def test_close_covers_and_syncs_the_rest() -> None:
    disk = FaultyFiles()
    log = new_log(disk)
    log.open()
    log.append([(0, SET_A)], False)
    log.close()
    assert disk.synced[INCREMENT] == sealed(SELECT_0 + SET_A)


def test_idle_log_covers_what_it_has_once() -> None:
    disk = FaultyFiles()
    log = new_log(disk)
    log.open()
    log.append([(0, SET_A)], False)
    log.flush()
    for now_ms in (0, 100, IDLE_BLOCK_MS - 1):
        log.cron(now_ms)
        assert written(disk) == SELECT_0 + SET_A
    for now_ms in range(IDLE_BLOCK_MS, 5 * IDLE_BLOCK_MS, 100):
        log.cron(now_ms)
        assert written(disk) == sealed(SELECT_0 + SET_A)


def test_line_is_never_inside_a_group() -> None:
    disk = FaultyFiles()
    log = new_log(disk)
    log.open()
    log.append([(0, SET_A * 1000), (0, SET_B * 1000)], True)
    log.append([(0, SET_A)], False)
    log.flush()
    assert written(disk) == sealed(MULTI + SELECT_0 + SET_A * 1000 + SET_B * 1000 + EXEC + SET_A)


def test_reopened_log_begins_a_new_block() -> None:
    disk = FaultyFiles()
    disk.content[INCREMENT] = bytearray(SET_B)
    disk.content[MANIFEST] = bytearray(MANIFEST_TEXT)
    log = new_log(disk)
    log.open()
    log.append([(0, SET_A)], False)
    log.close()
    assert written(disk) == SET_B + EMPTY_BLOCK_LINE + sealed(SELECT_0 + SET_A)
    assert len(load(written(disk))[0]) == 3


@pytest.mark.parametrize("room", range(0, CHECKSUM_BLOCK_SIZE + 400, 13))
def test_lines_are_right_after_a_full_disk(room: int) -> None:
    disk = FaultyFiles()
    log = new_log(disk)
    log.open()
    disk.room = room
    for _ in range(5):
        log.append([(0, SET_A * 40)], False)
        log.flush()
    disk.room = None
    log.append([(0, SET_B)], False)
    log.close()
    assert disk.synced[INCREMENT] == written(disk)
    assert load(written(disk)) == (
        [[b"SELECT", b"0"]] + [[b"SET", b"a", b"1"]] * 200 + [[b"SET", b"b", b"2"]],
        written(disk),
    )
    assert written(disk).endswith(b"\r\n")
    assert written(disk).count(CHECKSUM_PREFIX) >= 1


def test_base_is_covered_block_by_block() -> None:
    disk = FaultyFiles()
    log = new_log(disk)
    path = log.begin_start()
    log.finish_start(disk.replace(path, log.base_blocks((0, SET_A) for _ in range(5000))))
    base = bytes(disk.content[f"{FOLDER}/appendonly.aof.1.base.aof"])
    assert base.count(CHECKSUM_PREFIX) == -(-5000 * len(SET_A) // (64 * 1024))
    assert base.splitlines()[-1].startswith(CHECKSUM_PREFIX)
    assert load(base) == ([[b"SELECT", b"0"]] + [[b"SET", b"a", b"1"]] * 5000, base)
    assert list(with_checksums([b""])) == [b""]


def test_start_after_an_abandoned_one_begins_a_new_block() -> None:
    disk = FaultyFiles()
    log = new_log(disk)
    log.begin_start()
    log.append([(0, SET_B)], False)
    log.flush()
    log.abandon_start()
    log.begin_start()
    log.append([(0, SET_A * 200)], False)
    log.flush()
    assert bytes(disk.content[f"{FOLDER}/temp-appendonly.aof.incr"]) == sealed(SELECT_0 + SET_A * 200)


def test_rewrite_covers_the_file_it_leaves() -> None:
    disk, thread = FaultyFiles(), HandExecutor()
    log = new_log(disk, executor=thread)
    log.open()
    log.append([(0, SET_A)], False)
    log.begin_rewrite()
    thread.run()
    log.append([(0, SET_B)], False)
    log.close()
    assert written(disk) == sealed(SELECT_0 + SET_A)
    assert bytes(disk.content[f"{FOLDER}/appendonly.aof.2.incr.aof"]) == sealed(SELECT_0 + SET_B)


# -- damage --------------------------------------------------------------------------------------


def flipped(data: bytes, bit: int) -> bytes:
    """One bit of `data` turned over."""
    copy = bytearray(data)
    copy[bit // 8] ^= 1 << bit % 8
    return bytes(copy)


def assert_flip_is_noticed(data: bytes, expected: list[Record], bit: int, note: str) -> None:
    """The start is refused, or the flip has changed no record (it hit a line's name, and unverified is not wrong)."""
    try:
        applied, _ = load(flipped(data, bit))
    except LoadError:
        return
    assert applied == expected, f"bit {bit} of byte {bit // 8}, {note}"


def test_every_flipped_bit_of_a_small_log_is_noticed() -> None:
    """Exhaustive: 2 KiB in blocks of 256 bytes, some 17,000 flips, a full load for each."""
    seed = 7
    data, _ = mixed_log(2048, block_size=256, seed=seed)
    expected, left = load(data)
    assert left == data
    for bit in range(len(data) * 8):
        assert_flip_is_noticed(data, expected, bit, f"seed {seed}")


def test_flipped_bits_of_a_large_log_are_noticed() -> None:
    """64 KiB in blocks of 4 KiB: 5000 of its 524,288 flips, drawn with a seed, and all in the checksum lines' bytes and
    the two bytes on either side of them.

    Every block is verified by itself, and by the same code as those of the exhaustive test above, so that a block more
    adds places and no cases.
    """
    seed = random.randrange(2**32)
    print("seed", seed)
    data, _ = mixed_log(64 * 1024, block_size=CHECKSUM_BLOCK_SIZE, seed=seed)
    expected, _ = load(data)
    bits = set(random.Random(seed).sample(range(len(data) * 8), 5000))
    position = data.index(CHECKSUM_PREFIX)
    end = data.index(b"\n", position)
    bits.update(range((position - 2) * 8, (end + 3) * 8))
    for bit in sorted(bits):
        assert_flip_is_noticed(data, expected, bit, f"seed {seed}")


def test_cut_at_every_offset_leaves_the_longest_valid_prefix() -> None:
    """Exhaustive over 8 KiB: the file is cut back to the end of its last whole unit, which is what was applied."""
    seed = 11
    data, ends = mixed_log(8 * 1024, block_size=1024, seed=seed)
    whole, _ = load(data)
    counts = {end: len(load(data[:end])[0]) for end in ends}
    for cut in range(len(data) + 1):
        end = max(each for each in ends if each <= cut)
        applied, left = load(data[:cut])
        assert left == data[:end], f"cut at {cut}, seed {seed}"
        assert applied == whole[: counts[end]], f"cut at {cut}, seed {seed}"


FIRST, SECOND, THIRD = sealed(SET_A * 9), sealed(SET_B * 9), sealed(SET_A * 9)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"b\r\n$1\r\n2", b"b\r\n$1\r\n3"),  # another value
        (b"*3", b"*4"),  # takes the next record for an argument
        (b"$1\r\n2", b"$9\r\n2"),  # does not end where it should
        (b"*3", b"#3"),  # an annotation
        (b"*3", b"x3"),
        (b"#XXH3:", b"#XXH3;"),  # the next block seems to begin too early
    ],
)
def test_damage_in_the_middle_is_refused_with_file_and_offset(old: bytes, new: bytes) -> None:
    data = FIRST + SECOND.replace(old, new, 1) + THIRD
    with pytest.raises(
        LoadError, match=r"^Bad file format reading the append only file appendonly\.aof\.1\.incr\.aof: "
    ):
        load(data)


def test_mismatch_names_the_offset_of_its_block() -> None:
    data = FIRST + SECOND.replace(b"2", b"3", 1) + THIRD
    with pytest.raises(LoadError, match=f"checksum of the block does not match at offset {len(FIRST)}; "):
        load(data)


@pytest.mark.parametrize("bad", [SECOND.replace(b"2", b"3", 1), SECOND.replace(b"\r\n#", b"x\n#")])
def test_tail_that_may_be_lost_goes_by_blocks(bad: bytes) -> None:
    """Not a record of the damaged block has been applied when the file is cut at its beginning."""
    applied, left = load(FIRST + bad, tail_size_max=len(bad) + 1)
    assert applied == [[b"SET", b"a", b"1"]] * 9
    assert left == FIRST
    with pytest.raises(LoadError):
        load(FIRST + bad, tail_size_max=len(bad))


def test_length_that_runs_over_the_end_is_damage_if_a_line_follows() -> None:
    """Without the line it could be a torn write, and the file would be cut."""
    record = pack_command((b"SET", b"a", b"x" * 10))
    longer = record.replace(b"$10", b"$90")
    assert load(FIRST + longer)[1] == FIRST
    with pytest.raises(LoadError, match=f"beyond its block at offset {len(FIRST)}; "):
        load(FIRST + longer + checksum_line(record))


def test_block_too_large_to_hold_back_is_refused_but_never_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first records have been applied when its line comes."""
    monkeypatch.setattr(records_module, "HELD_SIZE_MAX", 0)
    block = pack_command((b"SET", b"a", b"x" * 2_000_000)) * 2
    data = block.replace(b"x", b"y", 1) + checksum_line(block)
    with pytest.raises(LoadError, match="does not match at offset 0"):
        load(data, tail_size_max=len(data) + 1)
    assert len(load(block + checksum_line(block))[0]) == 2


def test_lines_in_values_are_data() -> None:
    inside = b"\r\n" + sealed(SET_A) + b"\r\n" + EMPTY_BLOCK_LINE
    record = pack_command((b"SET", b"a", inside))
    data = sealed(record, SET_B) + sealed(SET_B, record)
    assert load(data) == ([[b"SET", b"a", inside], *[[b"SET", b"b", b"2"]] * 2, [b"SET", b"a", inside]], data)


def test_verified_size_is_reported() -> None:
    disk = FaultyFiles()
    disk.content[INCREMENT] = bytearray(FIRST + SECOND + SET_A)
    disk.content[MANIFEST] = bytearray(MANIFEST_TEXT)
    result = new_log(disk).load(lambda record: None)
    assert result.verified_size == 9 * len(SET_A + SET_B)


def test_log_of_redis_needs_no_lines() -> None:
    timed = b"#TS:1\r\n" + SET_A + b"#note\n" + SET_B
    assert load(timed * 1000) == ([[b"SET", b"a", b"1"], [b"SET", b"b", b"2"]] * 1000, timed * 1000)
    assert load(sealed(timed) + sealed(timed))[0] == [[b"SET", b"a", b"1"], [b"SET", b"b", b"2"]] * 2


def test_full_disk_under_always_still_ends_the_promise() -> None:
    disk = FaultyFiles()
    log = new_log(disk, b"always")
    log.open()
    disk.room = 5
    log.append([(0, SET_A)], False)
    with pytest.raises(LogFailure):
        log.flush()


# -- the other server ----------------------------------------------------------------------------


@pytest.mark.oracle
def test_redis_and_its_tool_read_a_log_with_checksum_lines(
    start_server: Callable[..., Any], oracle_tools: Path, tmp_path: Path
) -> None:
    server = start_server("headrace", "--appendonly", "yes")
    with server.connect() as wire:
        for index in range(300):
            wire.ask("XADD", "s", f"{index + 1}-1", "field", "\r\n#XXH3:" * 3)
        wire.ask("XGROUP", "CREATE", "s", "g", "0")
        wire.ask("XREADGROUP", "GROUP", "g", "c", "COUNT", "5", "STREAMS", "s", ">")
        ours = [wire.ask("XRANGE", "s", "-", "+"), wire.ask("XPENDING", "s", "g")]
    assert server.stop() == 0
    folder = server.folder / "appendonlydir"
    log = (folder / "appendonly.aof.1.incr.aof").read_bytes()
    assert log.splitlines()[-1].startswith(CHECKSUM_PREFIX)
    check = subprocess.run(
        ["redis-check-aof", str(folder / "appendonly.aof.manifest")],
        executable=oracle_tools / "redis-server",
        capture_output=True,
        check=True,
        timeout=30,
    )
    assert b"All AOF files and manifest are valid" in check.stdout
    shutil.copytree(folder, tmp_path / "oracle-1" / "appendonlydir")
    with start_server("oracle", "--appendonly", "yes").connect() as wire:
        assert [wire.ask("XRANGE", "s", "-", "+"), wire.ask("XPENDING", "s", "g")] == ours


def test_damage_followed_by_blocks_asks_for_a_backup_first() -> None:
    blocks = list(with_checksums([SELECT_0 + SET_A, SET_B, SET_A]))
    flipped = blocks[1].replace(b"$1\r\n2", b"$1\r\n3")
    torn = blocks[1].replace(b"*3", b"*x")
    for bad in (flipped, torn):
        with pytest.raises(LoadError, match="more records follow it: take the log from a backup, or to drop the last"):
            load(blocks[0] + bad + blocks[2])
        with pytest.raises(LoadError) as failure:
            load(blocks[0] + bad)
        assert "backup" not in str(failure.value)
