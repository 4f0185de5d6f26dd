"""BACKUP: what the folder has, and that a server which starts from it has every write that was answered before SEAL."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from headrace.persistence.backup import BackupState
from headrace.server.storage.log_life import LogState
from support.digest import Digest
from support.logging_server import LoggingServer, restarted

NOT_READY = b"-ERR No backup ready to seal (must be in the incrementing state)\r\n"


def random_line(rnd: random.Random) -> str:
    """A command that changes one of a few keys."""
    key = rnd.choice("abcd")
    return rnd.choice(
        [
            f"XADD {key} * f {rnd.random()}",
            f"XADD {key} MAXLEN 5 * f v",
            f"XGROUP CREATE {key} g 0 MKSTREAM",
            f"XREADGROUP GROUP g c COUNT 3 STREAMS {key} >",
            f"DEL {key}",
            f"SET s{rnd.randrange(5)} {rnd.random()}",
            f"HSET h{rnd.randrange(3)} f{rnd.randrange(9)} {rnd.random()}",
            f"RPUSH l {rnd.random()}",
            "FLUSHALL",
        ]
    )


def state_of_backup(folder: Path, tmp_path: Path) -> Digest:
    """The dataset of a server that is started with a copy of the backup as its log."""
    copy = tmp_path / "restored"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder / "backupdir", copy / "appendonlydir")
    return restarted(copy)


def server_in(tmp_path: Path, *, appendonly: bool = True, has_rdb_base: bool = True) -> LoggingServer:
    folder = tmp_path / "data"
    folder.mkdir(exist_ok=True)
    return LoggingServer(folder, appendonly=appendonly, has_rdb_base=has_rdb_base)


def state(server: LoggingServer) -> BackupState:
    return server.server.backups.backup.state


def cron(server: LoggingServer) -> None:
    server.server.backups.cron(server.clock())
    server.server.snapshots.cron(server.clock())


@pytest.mark.parametrize("appendonly", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_a_server_started_from_a_sealed_backup_has_exactly_the_writes_before_seal(
    seed: int, appendonly: bool, tmp_path: Path
) -> None:
    print("seed", seed)
    rnd = random.Random(seed)
    server = server_in(tmp_path, appendonly=appendonly, has_rdb_base=bool(seed % 2))
    for _ in range(60):
        server.call(random_line(rnd))
        server.clock.advance(rnd.randrange(3))
    joined = appendonly and seed % 3 == 0
    if joined:
        server.call("BGREWRITEAOF", random_line(rnd))
    assert server.call("BACKUP START") == b"+OK\r\n"
    while server.slices:
        server.call(*(random_line(rnd) for _ in range(rnd.randrange(1, 4))))
        server.run_slice()
    assert state(server) is BackupState.INCREMENTING
    # A rewrite is asked for while the increments must stay: it comes after the seal.
    assert server.call("BGREWRITEAOF") == b"+Background append only file rewriting scheduled\r\n"
    for _ in range(40):
        server.call(random_line(rnd))
        cron(server)
    assert not server.slices
    before = random_line(rnd)
    # The write before SEAL is in the same pipeline, and so is one after it.
    server.call(before)
    expected = server.state()
    assert server.call("BACKUP SEAL", "SET after 1").endswith(b"+OK\r\n+OK\r\n")
    assert state(server) is BackupState.SEALED
    assert server.server.log is not None if appendonly else server.server.log is None
    assert state_of_backup(tmp_path / "data", tmp_path) == expected
    cron(server)
    assert server.slices, "the rewrite that was scheduled"
    while server.slices:
        server.call(random_line(rnd))
        server.run_slice()
    assert state_of_backup(tmp_path / "data", tmp_path) == expected, "a rewrite leaves the backup as it is"
    final = server.state()
    server.stop()
    if appendonly:
        assert restarted(tmp_path / "data") == final


def test_writes_of_the_turn_of_seal_are_in_the_backup(tmp_path: Path) -> None:
    server = server_in(tmp_path)
    server.call("BACKUP START")
    server.run_slices()
    server.call("XADD s 1-1 f v", "SET k v", "BACKUP SEAL", "SET k w")
    server.stop()
    restored = tmp_path / "restored"
    shutil.copytree(tmp_path / "data" / "backupdir", restored / "appendonlydir")
    again = LoggingServer(restored)
    assert again.call("GET k", "XLEN s") == b"$1\r\nv\r\n:1\r\n"
    again.stop()


def test_a_transaction_that_seals_has_none_of_its_writes_in_the_backup(tmp_path: Path) -> None:
    server = server_in(tmp_path)
    server.call("BACKUP START")
    server.run_slices()
    server.call("SET k 1")
    before = server.state()
    server.call("MULTI", "SET k 2", "BACKUP SEAL", "SET k 3", "EXEC")
    assert state_of_backup(tmp_path / "data", tmp_path) == before
    final = server.state()
    server.stop()
    assert restarted(tmp_path / "data") == final


def test_a_backup_that_is_asked_for_in_a_transaction_or_during_a_save_begins_later(tmp_path: Path) -> None:
    server = server_in(tmp_path)
    server.call("SET k 1", "MULTI", "BACKUP START", "EXEC")
    assert state(server) is BackupState.PENDING
    cron(server)
    assert state(server) is BackupState.SNAPSHOTTING
    server.run_slices()
    server.call("BACKUP ABORT", "BGSAVE", "BACKUP START")
    assert state(server) is BackupState.PENDING
    assert server.call("BACKUP SEAL") == NOT_READY
    server.run_slices()
    cron(server)
    server.run_slices()
    assert state(server) is BackupState.INCREMENTING
    server.stop()


def test_a_log_that_is_kept_for_a_backup_only_leaves_no_files(tmp_path: Path) -> None:
    server = server_in(tmp_path, appendonly=False)
    for end in ("SEAL", "ABORT"):
        server.call("BACKUP START", "SET k v")
        server.run_slices()
        assert server.server.log is not None
        server.call(f"BACKUP {end}")
        assert server.server.log is None
        assert server.server.log_keeper.state is LogState.OFF
        assert not os.listdir(tmp_path / "data" / "appendonlydir")
        server.call("BACKUP CLEANUP")
        assert not os.listdir(tmp_path / "data" / "backupdir")
    server.stop()


def test_the_log_that_an_interrupted_backup_has_left_is_named_at_the_next_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = server_in(tmp_path, appendonly=False)
    server.call("BACKUP START", "SET k v")
    server.run_slices()
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "data", copy)  # what a crash would leave
    server.stop()
    for folder in (copy / "backupdir", copy / "appendonlydir"):
        again = LoggingServer(copy, appendonly=False)
        assert again.call("GET k") == b"$-1\r\n"
        lines = [record.getMessage() for record in caplog.records if "was not read" in record.getMessage()]
        is_of_backup = folder.name == "backupdir"
        assert len(lines) == 1
        assert ("kept for a BACKUP only" in lines[0]) == is_of_backup
        assert ("To serve the log, stop, and start" in lines[0]) != is_of_backup
        assert str(copy / "appendonlydir") in lines[0]
        again.stop()
        shutil.rmtree(folder)
        caplog.clear()
    again = LoggingServer(copy, appendonly=False)
    assert "was not read" not in caplog.text
    again.stop()


def test_a_log_that_is_turned_on_during_a_backup_stays(tmp_path: Path) -> None:
    server = server_in(tmp_path, appendonly=False)
    server.call("SET k v", "BACKUP START")
    server.run_slices()
    assert server.call("CONFIG SET appendonly yes", "SET l v", "BACKUP SEAL") == b"+OK\r\n" * 3
    server.call("SET m v")
    final = server.state()
    server.stop()
    assert restarted(tmp_path / "data") == final


@pytest.mark.parametrize("is_complete", [True, False])
def test_turning_the_log_off_fails_a_backup(is_complete: bool, tmp_path: Path) -> None:
    server = server_in(tmp_path)
    server.call("SET k v", "BACKUP START")
    if is_complete:
        server.run_slices()
    server.call("CONFIG SET appendonly no")
    assert state(server) is BackupState.FAILED
    assert server.server.backups.backup.error == "appendonly is stopped"
    assert not os.listdir(tmp_path / "data" / "backupdir")
    server.stop()


@pytest.mark.parametrize("appendonly", [True, False])
def test_a_dataset_that_is_replaced_by_that_of_a_primary_fails_a_backup(appendonly: bool, tmp_path: Path) -> None:
    server = server_in(tmp_path, appendonly=appendonly)
    server.call("BACKUP START")
    server.run_slices()
    server.server._log_switch.restart()
    assert state(server) is BackupState.FAILED
    server.stop()


def test_an_aborted_backup_lets_a_rewrite_complete(tmp_path: Path) -> None:
    server = server_in(tmp_path)
    server.call("SET k v", "BACKUP START", "BACKUP ABORT", "SET l v")
    server.run_slices()
    assert server.server.snapshots.rewrite.last_ok
    assert not os.listdir(tmp_path / "data" / "backupdir")
    final = server.state()
    server.stop()
    assert restarted(tmp_path / "data") == final


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    server = server_in(tmp_path)
    path = tmp_path / "data" / "backupdir"
    path.write_bytes(b"")
    assert server.call("BACKUP START") == b"-ERR Can't create backup directory backupdir: Not a directory\r\n"
    path.unlink()
    path.mkdir()
    (path / "other").write_bytes(b"")
    refused = b"-ERR Backup directory backupdir is not empty, CLEANUP it first\r\n"
    assert server.call("BACKUP START") == refused
    assert server.call("BACKUP CLEANUP", "BACKUP START") == b"+OK\r\n+OK\r\n"
    server.stop()


def test_a_backup_whose_files_cannot_be_linked_fails(tmp_path: Path) -> None:
    server = server_in(tmp_path)
    for is_complete, reply in ((False, NOT_READY), (True, b"-ERR Can't pin the INCR AOF for the backup\r\n")):
        server.call("BACKUP START")
        if is_complete:
            server.run_slices()
        shutil.rmtree(tmp_path / "data" / "backupdir")
        server.run_slices()
        assert server.call("BACKUP SEAL") == reply
        assert state(server) is BackupState.FAILED
        server.call("BACKUP CLEANUP")
    server.call("BACKUP START", "SET k v")
    server.run_slices()
    (tmp_path / "data" / "backupdir" / "appendonly.aof.manifest").mkdir()
    assert server.call("BACKUP SEAL") == b"-ERR Can't write the backup manifest\r\n"
    final = server.state()
    server.stop()
    assert restarted(tmp_path / "data") == final


def test_a_sealed_backup_is_removed_when_its_time_is_over(tmp_path: Path) -> None:
    server = server_in(tmp_path)
    server.call("CONFIG SET backup-sealed-ttl 10", "BACKUP START")
    server.run_slices()
    server.call("BACKUP SEAL")
    server.clock.advance(9_000)
    cron(server)
    assert state(server) is BackupState.SEALED
    server.clock.advance(1_000)
    cron(server)
    assert state(server) is BackupState.IDLE
    assert not os.listdir(tmp_path / "data" / "backupdir")
    server.stop()


def test_the_data_folder_stays_during_a_backup(tmp_path: Path) -> None:
    server = server_in(tmp_path, appendonly=False)
    server.config.enable_protected_configs = b"yes"
    server.call("BACKUP START")
    server.run_slices()
    (tmp_path / "other").mkdir()
    assert b"a backup is in progress: SEAL or ABORT it first" in server.call(f"CONFIG SET dir {tmp_path / 'other'}")
    server.stop()
