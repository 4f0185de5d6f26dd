"""Rewriting the log in the background: what the new files hold, and what happens when it fails."""

from __future__ import annotations

import os
import random
from errno import ENOSPC
from pathlib import Path

import pytest

from headrace.commands.permissions.allowed_rows import NO_ROWS
from headrace.persistence.errors import LoadError
from headrace.server.storage.log_life import LogState
from headrace.store.image import StoreImage
from support.logging_server import LoggingServer, restarted


def random_line(rnd: random.Random) -> str:
    """A command that changes one of a few keys: in place, by moving it, or by ending it."""
    key = rnd.choice(["a", "b", "c", "d"])
    entry = f"{rnd.randrange(1, 40)}-{rnd.randrange(3)}"
    return rnd.choice(
        [
            f"XADD {key} * f {rnd.random()}",
            f"XADD {key} * f {rnd.random()}",
            f"XADD {key} MAXLEN 20 * f v",
            f"XADD {key} {entry} f v",
            f"XDEL {key} {entry}",
            f"XGROUP CREATE {key} g 0 MKSTREAM",
            f"XREADGROUP GROUP g c{rnd.randrange(3)} COUNT 3 STREAMS {key} >",
            f"XREADGROUP GROUP g c1 CLAIM 0 COUNT 2 STREAMS {key} >",
            f"XAUTOCLAIM {key} g c2 0 0 COUNT 2 JUSTID",
            f"XNACK {key} g FAIL IDS 1 {entry}",
            f"XACK {key} g {entry}",
            f"XADD {key} IDMP p i{rnd.randrange(5)} * f v",
            f"XGROUP DELCONSUMER {key} g c1",
            f"RENAME {key} {rnd.choice('abcd')}",
            f"COPY {key} {rnd.choice('abcd')} REPLACE",
            f"DEL {key}",
            f"SET s{rnd.randrange(5)} {rnd.random()} PX 100000000",
            "SELECT 1",
            "SELECT 0",
            "SWAPDB 0 1",
        ]
    )


@pytest.mark.parametrize("form", ["aof", "rdb"])
@pytest.mark.parametrize("seed", range(20))
def test_rewrite_during_writes_loses_and_repeats_nothing(seed: int, form: str, tmp_path: Path) -> None:
    print("seed", seed)
    rnd = random.Random(seed)
    server = LoggingServer(tmp_path, has_rdb_base=form == "rdb")
    for _ in range(150):
        server.call(random_line(rnd))
        server.clock.advance(rnd.randrange(3))
    server.call("MULTI", "XADD a * f v", "BGREWRITEAOF", "XADD a * f v", "EXEC")
    assert not server.slices, "inside EXEC it is only scheduled"
    at_start = server.state()
    server.server.snapshots.cron(server.clock())
    while server.slices:
        server.call(*(random_line(rnd) for _ in range(rnd.randrange(1, 3))))
        server.clock.advance(rnd.randrange(3))
        server.run_slice()
    state = server.state()
    server.stop()
    assert sorted(path.name for path in (tmp_path / "appendonlydir").iterdir()) == [
        f"appendonly.aof.2.base.{form}",
        "appendonly.aof.2.incr.aof",
        "appendonly.aof.manifest",
    ]
    assert restarted(tmp_path) == state
    (tmp_path / "appendonlydir" / "appendonly.aof.2.incr.aof").write_bytes(b"")
    assert restarted(tmp_path) == at_start


def test_streams_made_or_changed_while_a_snapshot_is_read_do_not_pile_up(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path)
    server.call("XADD a 1-1 f v")
    image = StoreImage(server.server.store)
    server.server.context.image = image
    server.session.client.rows = NO_ROWS
    server.call("XADD a 1-2 f v", "XADD a 1-3 f v", "XADD new 1-1 f v", "XADD new 1-2 f v")
    assert len(image._preserved) == 1
    assert [(each.key, len(each.value)) for each in image] == [(b"a", 1)]
    server.call("XADD a 1-4 f v")
    assert not image._preserved
    server.stop()


class FullDisk:
    """Replaces `replace` when base files are written."""

    def __init__(self, server: LoggingServer) -> None:
        assert server.server.log is not None
        files = server.server.log.files
        replace = files.replace

        def refuse(path: str, blocks: object) -> int:
            if ".base." in path:
                raise OSError(ENOSPC, "No space left on device")
            return replace(path, blocks)  # type: ignore[arg-type]

        files.replace = refuse  # type: ignore[method-assign]
        self.repair = lambda: setattr(files, "replace", replace)


def test_failed_rewrite_leaves_the_old_files_in_force_and_backs_off(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = LoggingServer(tmp_path)
    server.config.auto_aof_rewrite_min_size = 0
    server.call(f"XADD a 1-1 f {'v' * 500}")
    disk = FullDisk(server)
    record = server.server.snapshots.rewrite
    for attempt in range(1, 6):
        server.server.snapshots.cron(server.clock())
        server.run_slices()
        assert (record.last_ok, record.failures_count) == (False, min(attempt, 3))
    assert "retry in 1 minutes" in caplog.text
    server.call("XADD a 1-2 f v")
    server.clock.advance(60_000)
    disk.repair()
    server.server.snapshots.cron(server.clock())
    server.run_slices()
    assert (record.last_ok, record.failures_count, record.count) == (True, 0, 4)
    state = server.state()
    server.stop()
    assert restarted(tmp_path) == state


def test_restart_after_a_failed_rewrite_reads_every_increment(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path)
    server.call("XADD a 1-1 f v")
    FullDisk(server)
    server.call("BGREWRITEAOF", "XADD a 1-2 f v")
    server.run_slices()
    server.call("XADD a 1-3 f v")
    state = server.state()
    server.stop()
    assert len(list((tmp_path / "appendonlydir").glob("*.incr.aof"))) == 2
    assert restarted(tmp_path) == state


@pytest.mark.parametrize("form", ["resp", "rdb"])
@pytest.mark.parametrize("cut", ["empty", "between records"])
def test_an_increment_that_others_follow_is_refused_if_it_was_cut(form: str, cut: str, tmp_path: Path) -> None:
    """The last increment may end anywhere, since a crash cuts it; those before it are complete."""
    server = LoggingServer(tmp_path, has_rdb_base=form == "rdb")
    server.call("XADD a 1-1 f v")
    kept = len(next((tmp_path / "appendonlydir").glob("*.1.incr.aof")).read_bytes())
    server.call("XADD a 1-2 f v")
    FullDisk(server)
    server.call("BGREWRITEAOF")
    server.run_slices()
    server.call("XADD a 1-3 f v")
    server.stop()
    path = next((tmp_path / "appendonlydir").glob("*.1.incr.aof"))
    size = path.stat().st_size
    os.truncate(path, 0 if cut == "empty" else kept)
    with pytest.raises(LoadError, match=rf"it has \d+ bytes, but the list of the log's files says {size}"):
        restarted(tmp_path)


def test_a_start_reports_a_file_that_the_list_has_lost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = LoggingServer(tmp_path)
    server.call("XADD a 1-1 f v")
    server.stop()
    folder = tmp_path / "appendonlydir"
    manifest = next(folder.glob("*.manifest"))
    manifest.write_text("".join(line for line in manifest.read_text().splitlines(True) if "incr" not in line))
    (folder / "appendonly.aof.1.incr.aof").rename(folder / "appendonly.aof.2.incr.aof")
    (folder / "appendonly.aof.3.incr.aof").touch()
    LoggingServer(tmp_path).stop()
    assert [line.split(" is not in the list")[0] for line in caplog.messages if "is not in the list" in line] == [
        str(folder / "appendonly.aof.2.incr.aof")
    ]


def test_a_reload_takes_the_place_of_a_running_save(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path, appendonly=False)
    server.config.enable_debug_command = b"yes"
    server.call("SET a 1", "BGSAVE", "SET b 1")
    assert server.call("DEBUG RELOAD") == b"+OK\r\n"
    server.slices.clear()  # the timer was cancelled
    assert b"rdb_bgsave_in_progress:0" in server.call("INFO persistence")
    assert b"rdb_last_bgsave_status:ok" in server.call("INFO persistence")
    assert server.call("BGSAVE") == b"+Background saving started\r\n"
    server.run_slices()
    state = server.state()
    server.stop()
    assert [path.name for path in tmp_path.iterdir()] == ["dump.rdb"]
    again = LoggingServer(tmp_path, appendonly=False)
    assert again.state() == state
    again.stop()


def test_rewrite_given_up_at_shutdown_leaves_no_temporary_file(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path)
    server.call(*(f"XADD a {n}-1 f v" for n in range(1, 5000)))
    server.call("BGREWRITEAOF")
    server.run_slice()
    state = server.state()
    server.stop()
    assert not list((tmp_path / "appendonlydir").glob("temp-*"))
    assert restarted(tmp_path) == state


def test_rewrite_without_a_log_makes_a_base_only(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path, appendonly=False)
    server.call("XADD a 1-1 f v", "BGREWRITEAOF")
    server.run_slices()
    state = server.state()
    server.stop()
    assert restarted(tmp_path) == state


def test_replies_of_bgrewriteaof(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path)
    assert server.call("BGREWRITEAOF") == b"+Background append only file rewriting started\r\n"
    assert server.call("BGREWRITEAOF") == b"-ERR Background append only file rewriting already in progress\r\n"
    server.run_slices()
    assert server.call("MULTI", "BGREWRITEAOF", "EXEC").endswith(
        b"*1\r\n+Background append only file rewriting scheduled\r\n"
    )
    server.server.snapshots.cron(server.clock())
    assert server.server.snapshots.rewrite.is_running
    server.stop()


def test_dump_during_writes_holds_one_moment_and_is_loaded_without_a_log(tmp_path: Path) -> None:
    rnd = random.Random(7)
    server = LoggingServer(tmp_path, appendonly=False)
    for _ in range(200):
        server.call(random_line(rnd))
    at_start = server.state()
    assert server.call("BGSAVE") == b"+Background saving started\r\n"
    while server.slices:
        server.call(random_line(rnd))
        server.run_slice()
    assert server.server.snapshots.save.last_ok
    server.stop()
    again = LoggingServer(tmp_path, appendonly=False, started_ms=50_000)
    assert again.state() == at_start
    assert again.server.loading.keys_loaded > 0
    again.stop()


def test_save_during_a_rewrite_disturbs_neither(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path)
    server.call("XADD a 1-1 f v", "XADD b 1-1 f v", "BGREWRITEAOF", "XADD a 1-2 f v")
    assert server.call("SAVE", "XADD a 1-3 f v", "XADD b 1-2 f v")[:5] == b"+OK\r\n"
    server.run_slices()
    state = server.state()
    server.stop()
    assert restarted(tmp_path) == state
    from_dump = LoggingServer(tmp_path, appendonly=False, started_ms=50_000)
    assert [len(value) for _, value in sorted(from_dump.server.store.databases[0].keys.items())] == [2, 1]
    from_dump.stop()


def test_save_points_ask_for_a_snapshot_after_time_and_changes(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path, appendonly=False)
    server.config.save = b"60 2"
    record = server.server.snapshots.save
    server.call("SET a 1")
    server.clock.advance(60_001)
    server.server.snapshots.cron(server.clock())
    assert not record.is_running, "one change is too few"
    server.call("SET b 1")
    server.server.snapshots.cron(server.clock())
    assert record.is_running
    server.run_slices()
    assert (record.last_ok, server.server.snapshots.changes_count) == (True, 0)
    server.stop()


def test_save_points_go_by_changes_and_not_by_records(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path, appendonly=False)
    server.config.save = b"60 3"
    server.clock.advance(60_001)
    server.call("MSET a 1 b 2")
    server.server.snapshots.cron(server.clock())
    assert not server.server.snapshots.save.is_running
    server.call("DEL a no")
    server.server.snapshots.cron(server.clock())
    assert server.server.snapshots.save.is_running
    server.run_slices()
    server.stop()


@pytest.mark.parametrize("begin", [(), ("BGSAVE",), ("MULTI", "SET c 1")])
@pytest.mark.parametrize("appendonly", [False, True])
def test_flushall_leaves_no_key_in_dump_rdb(begin: tuple[str, ...], appendonly: bool, tmp_path: Path) -> None:
    server = LoggingServer(tmp_path, appendonly=appendonly)
    server.config.save = b"100 100"
    server.call("SET a 1", "SAVE", "SET b 1", *begin, "FLUSHALL", *(["EXEC"] if "MULTI" in begin else []))
    assert server.server.snapshots.changes_count == 0
    assert server.server.snapshots.runner.job is None, "a save of the keys that are gone is aborted"
    server.stop()
    again = LoggingServer(tmp_path, appendonly=False, started_ms=50_000)
    assert not again.server.store.databases[0].keys
    again.stop()


def test_writes_are_refused_after_a_failed_snapshot_until_one_succeeds(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path, appendonly=False)
    dump = tmp_path / "dump.rdb"
    dump.mkdir()
    (dump / "in the way").touch()
    assert server.call("BGSAVE") == b"+Background saving started\r\n"
    server.run_slices()
    assert server.call("SET a 1", "PING", "GET a")[:40].startswith(b"-MISCONF Redis is configured to save")
    assert server.call("GET a") == b"$-1\r\n"
    (dump / "in the way").unlink()
    dump.rmdir()
    assert server.call("SAVE", "SET a 1") == b"+OK\r\n+OK\r\n"
    server.stop()


def test_save_that_fails_refuses_no_writes(tmp_path: Path) -> None:
    """Nor does SHUTDOWN SAVE: `rdb_last_bgsave_status` is about jobs in the background only."""
    server = LoggingServer(tmp_path, appendonly=False)
    (tmp_path / "dump.rdb").mkdir()
    (tmp_path / "dump.rdb" / "in the way").touch()
    assert server.call("SAVE", "SET a 1", "SHUTDOWN SAVE", "SET a 2") == b"".join(
        (b"-ERR\r\n", b"+OK\r\n", b"-ERR Errors trying to SHUTDOWN. Check logs.\r\n", b"+OK\r\n")
    )
    assert b"rdb_last_bgsave_status:ok\r\nrdb_last_bgsave_time_sec:-1\r\n" in server.call("INFO persistence")
    server.stop()


def test_replies_of_bgsave(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path)
    assert server.call("BGSAVE", "BGSAVE", "BGSAVE SCHEDULE", "SAVE", "BGREWRITEAOF") == b"".join(
        [
            b"+Background saving started\r\n",
            3 * b"-ERR Background save already in progress\r\n",
            b"+Background append only file rewriting scheduled\r\n",
        ]
    )
    server.run_slices()
    server.server.snapshots.cron(server.clock())
    assert server.server.snapshots.rewrite.is_running
    assert server.call("BGSAVE").startswith(b"-ERR Another child process is active (AOF?)")
    assert server.call("BGSAVE SCHEDULE", "BGSAVE x") == b"+Background saving scheduled\r\n-ERR syntax error\r\n"
    server.run_slices()
    server.server.snapshots.cron(server.clock())
    assert server.server.snapshots.save.is_running
    server.stop()


@pytest.mark.parametrize(("appendonly", "save", "is_saved"), [
    (True, None, False), (True, b"60 1", True), (False, None, True), (False, b"", False),
])  # fmt: skip
def test_stop_writes_a_snapshot_where_no_log_or_a_save_point_of_ones_own_asks_for_it(
    tmp_path: Path, appendonly: bool, save: bytes | None, is_saved: bool
) -> None:
    server = LoggingServer(tmp_path, appendonly=appendonly)
    if save is not None:
        server.config.save = save
    server.call("SET a 1")
    assert server.server.prepare_stop()
    server.stop()
    assert (tmp_path / "dump.rdb").exists() == is_saved


def test_default_save_points_that_were_chosen_apply_next_to_a_log(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path)
    assert server.server.snapshots.save_points == []
    refused = server.call("CONFIG SET save '3600 1 300 100 60 10000' port x")
    assert refused.startswith(b"-ERR")
    assert server.server.snapshots.save_points == []
    assert server.call("CONFIG SET save '3600 1 300 100 60 10000'") == b"+OK\r\n"
    assert server.server.snapshots.save_points == [(3600, 1), (300, 100), (60, 10000)]
    server.call("SET a 1")
    assert server.server.prepare_stop()
    server.stop()
    assert (tmp_path / "dump.rdb").exists()


@pytest.mark.parametrize("is_in_transaction", [False, True])
@pytest.mark.parametrize("form", ["aof", "rdb"])
def test_log_turned_on_during_writes_holds_everything_once(form: str, is_in_transaction: bool, tmp_path: Path) -> None:
    rnd = random.Random(11)
    server = LoggingServer(tmp_path, appendonly=False, has_rdb_base=form == "rdb")
    for _ in range(150):
        server.call(random_line(rnd))
    server.call("SELECT 0")
    turn_on = ["SET n 1", "INCR n", "CONFIG SET appendonly yes", "INCR n"]
    server.call(*(["MULTI", *turn_on, "EXEC"] if is_in_transaction else turn_on))
    server.server.snapshots.cron(server.clock())
    log = server.server.log
    assert log is not None
    assert log.is_starting
    while server.slices:
        server.call(random_line(rnd))
        server.clock.advance(rnd.randrange(3))
        server.run_slice()
    server.call("SELECT 0", "INCR n")
    assert not log.is_starting
    state = server.state()
    server.stop()
    assert sorted(path.name for path in (tmp_path / "appendonlydir").iterdir()) == [
        f"appendonly.aof.1.base.{form}",
        "appendonly.aof.1.incr.aof",
        "appendonly.aof.manifest",
    ]
    assert restarted(tmp_path) == state


def test_nothing_is_on_stable_storage_before_the_base_is_complete(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path, appendonly=False)
    server.call("SET a 1", "CONFIG SET appendonly yes", "SET b 1")
    log = server.server.log
    assert log is not None
    assert log.fsync()
    assert log.synced_mark == 0
    server.run_slices()
    assert log.fsync()
    assert log.synced_mark == log.mark
    server.stop()


def test_log_that_could_not_be_started_is_tried_again(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path, appendonly=False)
    server.call("SET a 1")
    in_the_way = tmp_path / "appendonlydir" / "appendonly.aof.1.base.rdb"
    server.call("CONFIG SET appendonly yes", "SET b 1")
    in_the_way.mkdir()
    (in_the_way / "file").touch()
    server.run_slices()
    assert server.server.log is None
    assert not server.server.snapshots.rewrite.last_ok
    (in_the_way / "file").unlink()
    in_the_way.rmdir()
    server.server.snapshots.cron(server.clock())
    server.run_slices()
    server.call("SET c 1")
    state = server.state()
    server.stop()
    assert restarted(tmp_path) == state


def test_log_turned_off_while_it_starts_leaves_nothing(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path, appendonly=False)
    server.call("SET a 1", "CONFIG SET appendonly yes", "SET b 1", "CONFIG SET appendonly no")
    assert server.server.log is None
    assert not list((tmp_path / "appendonlydir").iterdir())
    server.stop()


def test_stop_while_the_log_starts_waits_for_its_base(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path, appendonly=False)
    server.config.save = b""
    server.call("SET a 1", "CONFIG SET appendonly yes", "SET b 1")
    assert server.server.prepare_stop()
    state = server.state()
    server.stop()
    assert restarted(tmp_path) == state


def test_log_turned_on_during_a_save_begins_after_it(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path, appendonly=False)
    server.call("SET a 1", "BGSAVE", "CONFIG SET appendonly yes", "SET b 1")
    assert server.server.log is None
    assert b"aof_rewrite_scheduled:1" in server.call("INFO persistence")
    server.run_slices()
    assert (tmp_path / "dump.rdb").exists()
    assert b"aof_rewrite_scheduled:1" in server.call("INFO persistence")
    server.server.snapshots.cron(server.clock())
    assert b"aof_rewrite_in_progress:1\r\naof_rewrite_scheduled:0" in server.call("INFO persistence")
    assert server.server.log is not None
    server.run_slices()
    server.call("SET c 1")
    state = server.state()
    server.stop()
    assert restarted(tmp_path) == state


def test_stop_during_a_save_waits_for_the_log_that_is_wanted(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path, appendonly=False)
    server.call("SET a 1", "BGSAVE", "CONFIG SET appendonly yes", "SET b 1")
    assert server.server.prepare_stop()
    state = server.state()
    server.stop()
    assert (tmp_path / "dump.rdb").exists()
    assert restarted(tmp_path) == state


def test_stop_is_refused_when_the_log_that_is_wanted_cannot_be_made(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path, appendonly=False)
    server.call("BGSAVE", "CONFIG SET appendonly yes")
    (tmp_path / "appendonlydir").touch()
    assert not server.server.prepare_stop()
    server.stop()


def test_fault_in_the_blocks_of_a_snapshot_ends_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = LoggingServer(tmp_path)
    server.call("SET a 1")

    def faulty(block: bytes, crc: int) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr("headrace.persistence.rdb.file.crc64", faulty)
    assert server.call("BGSAVE") == b"+Background saving started\r\n"
    server.run_slices()
    assert not server.server.snapshots.save.last_ok
    assert server.server.context.image is None
    assert not (tmp_path / "dump.rdb").exists()
    server.stop()


def test_rewrite_waits_for_a_thread_to_sync_what_much_has_been_written(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path)
    log = server.server.log
    assert log is not None
    assert log.fsync()
    server.call(f"SET big {'x' * 2_000_000}")
    assert server.call("BGREWRITEAOF") == b"+Background append only file rewriting started\r\n"
    assert server.server.snapshots.rewrite.is_running
    server.call("SET after 1")
    while log.is_fsync_pending:
        continue
    server.server.snapshots.cron(server.clock())
    server.run_slices()
    assert (server.server.log_keeper.state, server.server.snapshots.rewrite.last_ok) == (LogState.ON, True)
    state = server.state()
    server.stop()
    assert restarted(tmp_path) == state


@pytest.mark.parametrize("appendonly", [True, False])
@pytest.mark.parametrize("command", ["BGSAVE", "BGREWRITEAOF"])
def test_a_stop_says_once_which_job_it_abandons(
    command: str, appendonly: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = LoggingServer(tmp_path, appendonly=appendonly)
    server.call("SET a 1", command)
    assert server.server.prepare_stop(save=True)
    server.server.snapshots.stop()
    server.close()
    said = [record.message for record in caplog.records if "Killing it!" in record.message]
    assert [" rewriting the AOF. " in line for line in said] == [command == "BGREWRITEAOF"]


def test_a_stop_completes_the_base_of_a_new_log_and_abandons_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = LoggingServer(tmp_path, appendonly=False)
    server.call("SET a 1", "CONFIG SET appendonly yes")
    state = server.state()
    assert server.server.prepare_stop()
    server.stop()
    assert "Killing it!" not in caplog.text
    assert restarted(tmp_path) == state
