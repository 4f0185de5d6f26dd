"""The log: what is on disk after each step, on a disk that can fail, and what a restart makes of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from errno import EACCES

import pytest

from headrace.persistence.aof import AppendOnlyLog
from headrace.persistence.errors import LoadError, LogError, LogFailure, UnknownRecord
from headrace.persistence.folder import LogSettings
from headrace.protocol.packing import pack_command
from support.faulty_files import FaultyFiles, HandExecutor

FOLDER = "/data/appendonlydir"
INCREMENT = f"{FOLDER}/appendonly.aof.1.incr.aof"
MANIFEST = f"{FOLDER}/appendonly.aof.manifest"
MANIFEST_TEXT = b"file appendonly.aof.1.incr.aof seq 1 type i\n"
# The list of a log that has just been begun.
FIRST_MANIFEST = b"file appendonly.aof.1.base.aof seq 1 type b\n" + MANIFEST_TEXT
SELECT_0, SELECT_1 = pack_command((b"SELECT", b"0")), pack_command((b"SELECT", b"1"))
SET_A, SET_B = pack_command((b"SET", b"a", b"1")), pack_command((b"SET", b"b", b"2"))
MULTI, EXEC = pack_command((b"MULTI",)), pack_command((b"EXEC",))


class Clock:
    """Unix ms, moved by hand."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


class Bench:
    """A log on a faulty disk, with its clock and its thread in hand."""

    def __init__(self, policy: bytes = b"no", *, load_truncated: bool = True, corrupt_tail_size_max: int = 0) -> None:
        self.disk = FaultyFiles()
        self.clock = Clock()
        self.thread = HandExecutor()
        self.settings = LogSettings(FOLDER, "appendonly.aof", load_truncated, corrupt_tail_size_max)
        self.policy = policy
        self.log = self.new_log()

    def new_log(self) -> AppendOnlyLog:
        """Another start on the same disk."""
        self.log = AppendOnlyLog(self.settings, self.policy, self.disk, clock=self.clock, executor=self.thread)
        return self.log

    def opened(self) -> AppendOnlyLog:
        """The log, ready to append."""
        self.log.open()
        return self.log

    def put(self, data: bytes) -> None:
        """A log file as an earlier process left it."""
        self.disk.content[INCREMENT] = bytearray(data)
        self.disk.content[MANIFEST] = bytearray(MANIFEST_TEXT)

    def load(self) -> list[list[bytes]]:
        """What a start would apply."""
        applied: list[list[bytes]] = []
        self.new_log().load(applied.append)
        return applied

    @property
    def written(self) -> bytes:
        """The increment."""
        return bytes(self.disk.content[INCREMENT])


def test_new_log_is_named_by_its_manifest() -> None:
    bench = Bench()
    bench.opened()
    assert bench.disk.read(MANIFEST) == FIRST_MANIFEST
    assert bench.disk.synced[INCREMENT] == b""


def test_records_name_their_database_when_it_changes() -> None:
    bench = Bench()
    log = bench.opened()
    log.append([(0, SET_A), (0, SET_B), (1, SET_A)], False)
    log.append([(0, SET_A)], False)
    log.flush()
    assert bench.written == SELECT_0 + SET_A + SET_B + SELECT_1 + SET_A + SELECT_0 + SET_A
    assert log.current_size == len(bench.written)


def test_group_is_wrapped_with_select_inside() -> None:
    bench = Bench()
    log = bench.opened()
    log.append([(0, SET_A), (1, SET_B)], True)
    log.append([(1, SET_A)], True)
    log.flush()
    assert bench.written == MULTI + SELECT_0 + SET_A + SELECT_1 + SET_B + EXEC + SET_A


def test_reopened_log_names_the_database_again() -> None:
    bench = Bench()
    log = bench.opened()
    log.append([(0, SET_A)], False)
    log.close()
    log = bench.new_log()
    log.open()
    log.append([(0, SET_B)], False)
    log.flush()
    assert bench.written == SELECT_0 + SET_A + SELECT_0 + SET_B
    assert log.current_size == len(bench.written)


def test_flush_is_one_write() -> None:
    bench = Bench()
    log = bench.opened()
    for _ in range(100):
        log.append([(0, SET_A)], False)
    log.flush()
    assert bench.disk.writes_count == 1
    assert log.buffer_size == 0


def test_timestamps_mark_the_seconds() -> None:
    bench = Bench()
    bench.settings = replace(bench.settings, has_timestamps=True)
    bench.new_log()
    log = bench.opened()
    log.append([(0, SET_A)], False)
    log.append([(0, SET_B)], False)
    bench.clock.now_ms += 1000
    log.append([(0, SET_A)], False)
    log.flush()
    assert bench.written == b"#TS:1000\r\n" + SELECT_0 + SET_A + SET_B + b"#TS:1001\r\n" + SET_A
    assert bench.load() == [[b"SELECT", b"0"], [b"SET", b"a", b"1"], [b"SET", b"b", b"2"], [b"SET", b"a", b"1"]]


def test_base_begins_with_its_time() -> None:
    bench = Bench()
    bench.settings = replace(bench.settings, has_timestamps=True)
    bench.new_log()
    log = bench.opened()
    path = log.begin_rewrite()
    assert b"".join(log.base_blocks([(0, SET_A)])) == b"#TS:1000\r\n" + SELECT_0 + SET_A
    log.finish_rewrite(bench.disk.replace(path, log.base_blocks([(0, SET_A)])))
    assert bench.load() == [[b"SELECT", b"0"], [b"SET", b"a", b"1"]]


def rewritten(*, has_block_checksums: bool) -> tuple[Bench, str]:
    """A log that was rewritten to a base of two records and an increment of one, and the path of the base."""
    bench = Bench()
    bench.settings = replace(bench.settings, has_block_checksums=has_block_checksums)
    log = bench.new_log()
    log.open()
    path = log.begin_rewrite()
    log.append([(0, SET_A)], False)
    log.finish_rewrite(bench.disk.replace(path, log.base_blocks([(0, SET_A), (0, SET_B)])))
    log.close()
    return bench, path


@pytest.mark.parametrize("has_block_checksums", [False, True])
def test_base_that_was_cut_anywhere_is_refused_until_the_user_accepts_it(has_block_checksums: bool) -> None:
    bench, path = rewritten(has_block_checksums=has_block_checksums)
    base = bytes(bench.disk.content[path])
    assert len(bench.load()) == 5
    for size in range(len(base)):
        bench.disk.content[path] = bytearray(base[:size])
        with pytest.raises(LoadError, match=rf"2\.base\.aof was cut off .*has {size} bytes.*says {len(base)};"):
            bench.load()
        assert bench.disk.content[path] == base[:size]
    # What headrace-check-aof --fix makes of it.
    kept = base[: len(SELECT_0 + SET_A)]
    manifest = bytes(bench.disk.content[MANIFEST])
    bench.disk.content[path] = bytearray(kept)
    bench.disk.content[MANIFEST] = bytearray(manifest.replace(b" size %d" % len(base), b" size %d" % len(kept)))
    assert bench.load()[:2] == [[b"SELECT", b"0"], [b"SET", b"a", b"1"]]


def test_short_writes_are_continued() -> None:
    bench = Bench()
    bench.disk.write_size_max = 5
    log = bench.opened()
    log.append([(0, SET_A)], False)
    assert log.flush()
    assert bench.written == SELECT_0 + SET_A


def test_full_disk_keeps_the_rest_and_the_next_flush_continues() -> None:
    bench = Bench()
    log = bench.opened()
    bench.disk.room = 10
    log.append([(0, SET_A)], False)
    assert not log.flush()
    assert log.write_error == b"No space left on device"
    assert not log.last_write_ok
    log.append([(0, SET_B)], False)
    bench.disk.room = None
    log.cron(bench.clock.now_ms)
    assert log.write_error is None
    assert bench.written == SELECT_0 + SET_A + SET_B


def test_full_disk_under_always_reports_the_broken_promise() -> None:
    bench = Bench(b"always")
    log = bench.opened()
    bench.disk.room = 0
    log.append([(0, SET_A)], False)
    with pytest.raises(LogFailure, match="No space left on device"):
        log.flush()
    bench.disk.room = None
    bench.disk.fails_fsync = True
    log.flush()
    with pytest.raises(LogFailure):
        log.fsync()


def test_always_means_on_stable_storage() -> None:
    bench = Bench(b"always")
    log = bench.opened()
    assert log.needs_fsync_before_reply
    log.append([(0, SET_A)], False)
    log.flush()
    log.fsync()
    bench.disk.lose_power()
    assert bench.load() == [[b"SELECT", b"0"], [b"SET", b"a", b"1"]]


def test_fsync_without_news_asks_nothing_of_the_disk() -> None:
    bench = Bench(b"always")
    log = bench.opened()
    log.fsync()
    assert bench.disk.fsyncs_count == 0


def test_everysec_syncs_in_the_thread_once_a_second() -> None:
    bench = Bench(b"everysec")
    log = bench.opened()
    assert not log.needs_fsync_before_reply
    log.append([(0, SET_A)], False)
    log.flush()
    assert log.is_fsync_pending
    bench.thread.run()
    assert bench.disk.synced[INCREMENT] == bench.written
    log.append([(0, SET_B)], False)
    log.flush()
    assert not bench.thread.waiting
    bench.clock.now_ms += 1000
    log.cron(bench.clock.now_ms)
    bench.thread.run()
    assert bench.disk.synced[INCREMENT] == bench.written
    bench.clock.now_ms += 1000
    log.cron(bench.clock.now_ms)
    assert not bench.thread.waiting


def test_everysec_writes_during_an_fsync_and_warns_once_if_it_takes_two_seconds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(b"everysec")
    log = bench.opened()
    log.append([(0, SET_A)], False)
    bench.clock.now_ms += 1000
    log.flush()
    assert log.is_fsync_pending
    for delay_ms, delayed_count in ((0, 0), (1999, 0), (1, 1), (5000, 1)):
        bench.clock.now_ms += delay_ms
        before = bench.written
        log.append([(0, SET_B)], False)
        log.flush()
        assert (len(bench.written) > len(before), log.delayed_fsyncs_count) == (True, delayed_count)
    assert caplog.text.count("Asynchronous AOF fsync is taking too long") == 1


def test_marks_show_what_is_on_stable_storage() -> None:
    bench = Bench(b"everysec")
    log = bench.opened()
    told: list[int] = []
    log.on_synced = lambda: told.append(log.mark)
    log.append([(0, SET_A)], False)
    bench.clock.now_ms += 1000
    log.flush()
    log.append([(0, SET_B)], False)
    bench.thread.run()
    log.cron(bench.clock.now_ms)
    assert (told, log.mark, log.synced_mark) == ([2], 2, 1)
    assert log.fsync()
    assert log.synced_mark == 2


def test_clock_set_back_does_not_put_the_fsync_off() -> None:
    bench = Bench(b"everysec")
    log = bench.opened()
    for moved_ms in (0, -500_000):
        bench.clock.now_ms += moved_ms
        log.append([(0, SET_A)], False)
        log.flush()
        assert bench.thread.waiting
        bench.thread.run()


def test_failed_background_fsync_refuses_writes_until_one_succeeds() -> None:
    bench = Bench(b"everysec")
    log = bench.opened()
    bench.disk.fails_fsync = True
    log.append([(0, SET_A)], False)
    log.flush()
    bench.thread.run()
    log.cron(bench.clock.now_ms)
    assert log.write_error == b"Input/output error"
    bench.disk.fails_fsync = False
    bench.clock.now_ms += 1000
    log.cron(bench.clock.now_ms)
    bench.thread.run()
    log.cron(bench.clock.now_ms)
    assert log.write_error is None


def test_failed_write_says_where_and_until_when_writes_are_refused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(b"everysec")
    log = bench.opened()
    monkeypatch.setattr(log._file, "append", lambda data: 0)
    log.append([(0, SET_A)], False)
    log.flush()
    folder = os.path.abspath(os.path.dirname(INCREMENT))
    assert caplog.messages == [
        "Error writing to the AOF file: No space left on device. Writes are refused with MISCONF until "
        f"{folder} can be written again: free space on that disk"
    ]


def test_failed_write_under_always_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(b"always")
    log = bench.opened()
    monkeypatch.setattr(log._file, "append", lambda data: 0)
    log.append([(0, SET_A)], False)
    with pytest.raises(LogFailure) as failure:
        log.flush()
    folder = os.path.abspath(os.path.dirname(INCREMENT))
    assert str(failure.value) == (
        "Error writing to the AOF file when the AOF fsync policy is 'always': No space left on device. Exiting... "
        f"({folder}: free space on that disk, then start the server again)"
    )


def test_failed_fsync_is_tried_again_whatever_the_policy() -> None:
    """A rewrite syncs the file it leaves; with `no` nothing else would ever lift the refusal of writes."""
    bench = Bench(b"no")
    log = bench.opened()
    log.append([(0, SET_A)], False)
    bench.disk.fails_fsync = True
    with pytest.raises(OSError, match="Input/output error"):
        log.begin_rewrite()
    assert log.write_error == b"Input/output error"
    bench.disk.fails_fsync = False
    bench.clock.now_ms += 1000
    log.cron(bench.clock.now_ms)
    bench.thread.run()
    log.cron(bench.clock.now_ms)
    assert log.write_error is None


def test_file_is_synced_before_the_manifest_names_the_next() -> None:
    bench = Bench(b"no")
    log = bench.opened()
    log.append([(0, SET_A)], False)
    log.begin_rewrite()
    assert bench.disk.synced[INCREMENT] == SELECT_0 + SET_A


def test_close_leaves_everything_on_stable_storage() -> None:
    bench = Bench(b"no")
    log = bench.opened()
    log.append([(0, SET_A)], False)
    assert log.close()
    bench.disk.lose_power()
    assert bench.load() == [[b"SELECT", b"0"], [b"SET", b"a", b"1"]]


def test_start_puts_the_dataset_in_place_of_the_old_log() -> None:
    bench = Bench()
    log = bench.opened()
    log.append([(0, SET_A)], False)
    log.close()
    path = log.begin_start()
    log.append([(1, SET_B)], False)
    log.flush()
    assert INCREMENT in bench.disk.content, "the old files are the log until the new base is there"
    log.finish_start(bench.disk.replace(path, log.base_blocks([(0, SET_B), (1, SET_A)])))
    base = SELECT_0 + SET_B + SELECT_1 + SET_A
    assert INCREMENT not in bench.disk.content
    assert bench.disk.content[f"{FOLDER}/appendonly.aof.2.base.aof"] == base
    assert bench.disk.content[f"{FOLDER}/appendonly.aof.2.incr.aof"] == SELECT_1 + SET_B
    assert (log.base_size, log.current_size) == (len(base), len(base) + len(SELECT_1 + SET_B))
    words = [b" ".join(record) for record in bench.load()]
    assert words == [b"SELECT 0", b"SET b 2", b"SELECT 1", b"SET a 1", b"SELECT 1", b"SET b 2"]


LOST = f"{FOLDER} has appendonly.aof.1.incr.aof, but the list of the log's files is missing: restore"


@pytest.mark.parametrize("use", ["open", "begin_start", "begin_rewrite", "path_on_disk", "load"])
def test_log_without_its_manifest_is_neither_read_nor_overwritten(use: str) -> None:
    bench = Bench()
    bench.disk.content[INCREMENT] = bytearray(SET_A)
    with pytest.raises(LogError, match=LOST):
        bench.load() if use == "load" else getattr(bench.log, use)()
    assert bench.disk.content == {INCREMENT: SET_A}


def test_first_file_of_a_log_is_never_without_a_manifest() -> None:
    bench = Bench()
    bench.log.begin_start()
    assert bench.disk.content[MANIFEST].startswith(b"#")
    assert bench.load() == [], "Redis and Headrace take a list without files for an empty log"
    bench.log.abandon_start()
    assert not bench.disk.content


def test_marks_continue_those_of_the_log_before() -> None:
    """Goal: a client that wrote to a log turned off since waits for the one of now, and not for ever."""
    bench = Bench(b"always")
    log = AppendOnlyLog(bench.settings, b"always", bench.disk, clock=bench.clock, mark=7, synced_mark=5)
    base = log.begin_start()
    log.append([(0, SET_A)], False)
    assert log.fsync()
    assert (log.mark, log.synced_mark) == (8, 5), "the base is not complete"
    marks: list[int] = []
    log.on_mark = lambda: marks.append(log.synced_mark)
    log.finish_start(bench.disk.replace(base, log.base_blocks([])))
    assert marks == [8]


# -- loading -------------------------------------------------------------------------------------


def test_missing_manifest_is_an_empty_log() -> None:
    assert Bench().load() == []


OLD_FILE = "/data/appendonly.aof"


def test_single_file_of_an_old_redis_becomes_the_base() -> None:
    bench = Bench()
    bench.disk.content[OLD_FILE] = bench.disk.synced[OLD_FILE] = bytearray(SELECT_0 + SET_A)
    assert bench.load() == [[b"SELECT", b"0"], [b"SET", b"a", b"1"]]
    bench.new_log().open()
    assert bench.disk.content == {
        MANIFEST: b"file appendonly.aof seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n",
        f"{FOLDER}/appendonly.aof": SELECT_0 + SET_A,
        INCREMENT: b"",
    }


@pytest.mark.parametrize("method", ["replace", "rename"])
def test_adoption_of_an_old_file_continues_after_a_crash(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.disk.content[OLD_FILE] = bench.disk.synced[OLD_FILE] = bytearray(SELECT_0 + SET_A)

    def crash(*_: object) -> None:
        raise OSError("crash")

    with monkeypatch.context() as patch:
        patch.setattr(bench.disk, method, crash)
        with pytest.raises(OSError, match="crash"):
            bench.load()
    assert (MANIFEST in bench.disk.content, OLD_FILE in bench.disk.content) == (method == "rename", True)
    assert bench.load() == [[b"SELECT", b"0"], [b"SET", b"a", b"1"]]
    assert OLD_FILE not in bench.disk.content


def test_old_file_next_to_a_log_is_left_alone() -> None:
    bench = Bench()
    bench.put(SET_B)
    bench.disk.content[OLD_FILE] = bytearray(SET_A)
    assert bench.load() == [[b"SET", b"b", b"2"]]
    assert bench.disk.content[OLD_FILE] == SET_A


def test_group_is_applied_as_a_whole_without_its_frame() -> None:
    bench = Bench()
    bench.put(MULTI + SELECT_0 + SET_A + EXEC + SET_B)
    assert bench.load() == [[b"SELECT", b"0"], [b"SET", b"a", b"1"], [b"SET", b"b", b"2"]]


@pytest.mark.parametrize("cut", range(1, len(SET_B)))
def test_torn_record_is_cut_off(cut: int, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.put(SELECT_0 + SET_A + SET_B[:cut])
    assert bench.load() == [[b"SELECT", b"0"], [b"SET", b"a", b"1"]]
    assert bench.written == SELECT_0 + SET_A
    offset = len(SELECT_0 + SET_A)
    assert f"!!! Truncating the AOF appendonly.aof.1.incr.aof at offset {offset} !!!" in caplog.text
    assert f"{cut} bytes at the end of {INCREMENT} are dropped" in caplog.text
    assert bench.log.current_size == offset


@pytest.mark.parametrize("cut", range(1, len(MULTI + SET_A + SET_B + EXEC)))
def test_torn_group_goes_whole(cut: int) -> None:
    bench = Bench()
    bench.put(SET_B + (MULTI + SET_A + SET_B + EXEC)[:cut])
    assert bench.load() == [[b"SET", b"b", b"2"]]
    assert bench.written == SET_B


def test_torn_end_is_fatal_if_truncation_is_forbidden() -> None:
    bench = Bench(load_truncated=False)
    bench.put(SET_A + SET_B[:5])
    with pytest.raises(LoadError, match=rf"appendonly\.aof\.1\.incr\.aof at offset {len(SET_A)}"):
        bench.load()
    assert bench.written == SET_A + SET_B[:5]


def test_damage_in_the_middle_names_file_and_offset() -> None:
    bench = Bench()
    bench.put(SET_A + b"garbage" + SET_B)
    with pytest.raises(LoadError, match=rf"appendonly\.aof\.1\.incr\.aof.* at offset {len(SET_A)}; "):
        bench.load()
    assert bench.written == SET_A + b"garbage" + SET_B


def test_damaged_end_names_the_cures_and_the_first_works() -> None:
    bench = Bench()
    bench.put(SET_A + b"garbage")
    with pytest.raises(LoadError) as failure:
        bench.load()
    advice = "to drop the last 7 bytes, start with --aof-load-corrupt-tail-max-size 8 or run headrace-check-aof --fix "
    assert str(failure.value).endswith(f"at offset {len(SET_A)}; {advice}{INCREMENT}")
    bench = Bench(corrupt_tail_size_max=8)
    bench.put(SET_A + b"garbage")
    assert bench.load() == [[b"SET", b"a", b"1"]]


def test_damaged_manifest_is_named_by_its_path() -> None:
    bench = Bench()
    bench.disk.content[MANIFEST] = bytearray()
    with pytest.raises(LoadError, match=f"^{MANIFEST}: Found an empty AOF manifest; repair this list"):
        bench.load()


@pytest.mark.parametrize(("size_max", "is_cut"), [(7, False), (8, True)])
def test_small_damaged_end_may_be_dropped(size_max: int, is_cut: bool) -> None:
    bench = Bench(load_truncated=False, corrupt_tail_size_max=size_max)
    bench.put(SET_A + b"garbage")
    if is_cut:
        assert bench.load() == [[b"SET", b"a", b"1"]]
        assert bench.written == SET_A
    else:
        with pytest.raises(LoadError):
            bench.load()


def test_torn_file_that_is_not_the_last_is_fatal() -> None:
    bench = Bench()
    bench.put(SET_A + SET_B[:5])
    bench.disk.content[MANIFEST] += b"file appendonly.aof.2.incr.aof seq 2 type i\n"
    bench.disk.content[f"{FOLDER}/appendonly.aof.2.incr.aof"] = bytearray(SET_B)
    with pytest.raises(LoadError, match="the truncated file is not the last file"):
        bench.load()
    assert bench.written == SET_A + SET_B[:5]


def test_torn_file_in_front_of_empty_ones_is_cut() -> None:
    """What a crash leaves if a rewrite has named the next file and failed."""
    bench = Bench()
    bench.put(SET_A + SET_B[:5])
    bench.disk.content[MANIFEST] += b"file appendonly.aof.2.incr.aof seq 2 type i\n"
    bench.disk.content[f"{FOLDER}/appendonly.aof.2.incr.aof"] = bytearray()
    assert bench.load() == [[b"SET", b"a", b"1"]]
    assert bench.written == SET_A


@pytest.mark.parametrize("method", ["make_folder", "open_log"])
def test_log_that_cannot_be_appended_to_is_not_loaded(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.put(SELECT_0 + SET_A)

    def refuse(path: str) -> None:
        raise PermissionError(EACCES, os.strerror(EACCES), path)

    monkeypatch.setattr(bench.disk, method, refuse)
    with pytest.raises(PermissionError):
        bench.log.load(lambda record: pytest.fail("loaded"))


def test_listed_file_that_is_missing_is_fatal() -> None:
    bench = Bench()
    bench.disk.content[MANIFEST] = bytearray(MANIFEST_TEXT)
    with pytest.raises(LoadError) as failure:
        bench.load()
    assert str(failure.value) == (
        "Unable to obtain the AOF file appendonly.aof.1.incr.aof length. stat: No such file or directory; restore "
        f"{os.path.abspath(INCREMENT)} from a backup: the list of the log's files names it"
    )


def refuse(error: Exception) -> Callable[[list[bytes]], None]:
    """Applies everything but NOSUCH."""

    def apply(argv: list[bytes]) -> None:
        if argv[0] == b"NOSUCH":
            raise error

    return apply


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (UnknownRecord("NOSUCH"), "Unknown command 'NOSUCH' reading the append only file appendonly.aof.1.incr.aof"),
        (LoadError("wrong number of arguments"), r"wrong number of arguments \(appendonly.aof.1.incr.aof"),
    ],
)
def test_record_that_makes_no_sense_is_fatal(error: Exception, text: str) -> None:
    bench = Bench()
    bench.put(SET_A + pack_command((b"NOSUCH",)) + SET_B)
    with pytest.raises(LoadError, match=f"{text} at offset {len(SET_A)}"):
        bench.log.load(refuse(error))


def test_rdb_base_is_refused_in_words() -> None:
    bench = Bench()
    bench.put(b"REDIS0012" + b"\0" * 80)
    with pytest.raises(LoadError, match="is an RDB file"):
        bench.load()


@pytest.mark.parametrize("stray", [EXEC, MULTI + SET_A + MULTI])
def test_frames_out_of_place_are_damage(stray: bytes) -> None:
    bench = Bench()
    bench.put(SET_B + stray)
    with pytest.raises(LoadError, match=f"out of place at offset {len(SET_B)}"):
        bench.load()


def test_progress_is_reported() -> None:
    bench = Bench()
    bench.put(SET_A * 1000)
    told: list[tuple[int, int]] = []
    result = bench.new_log().load(lambda argv: None, lambda read, total: told.append((read, total)))
    assert told[-1] == (len(SET_A) * 1000, len(SET_A) * 1000)
    assert (result.records_count, result.size) == (1000, len(SET_A) * 1000)
