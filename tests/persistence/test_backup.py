"""The states of a backup, and what its folder has, on a simulated disk."""

from __future__ import annotations

import pytest

from headrace.persistence.backup import Backup, BackupState
from headrace.persistence.manifest import Manifest, Part
from support.simulated_disk import SimulatedDisk

BASE = Part(b"a.1.base.rdb", 1, b"b")
INCREMENT = Part(b"a.1.incr.aof", 1, b"i")


def disk_with_log() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_folder("/data")
    disk.make_folder("/data/log")
    for part in (BASE, INCREMENT):
        disk.replace("/data/log/" + part.name.decode(), (part.name,))
    return disk


def sealed(disk: SimulatedDisk) -> Backup:
    backup = Backup()
    assert backup.prepare(disk, "/data/backup")
    backup.begin(1000)
    backup.pin_base(disk, "/data/log/a.1.base.rdb")
    backup.pin(disk, "/data/log/a.1.incr.aof")
    backup.seal(disk, [BASE, INCREMENT], "a.manifest", 2000)
    return backup


def test_a_sealed_backup_survives_a_power_loss_and_the_end_of_the_log() -> None:
    disk = disk_with_log()
    backup = sealed(disk)
    assert (backup.state, backup.started_ms, backup.ended_ms) == (BackupState.SEALED, 1000, 2000)
    for path in ("/data/log/a.1.base.rdb", "/data/log/a.1.incr.aof"):
        disk.remove(path)
    assert disk.after_power_loss(None).contents("/data/backup") == {
        "/data/backup/a.1.base.rdb": b"a.1.base.rdb",
        "/data/backup/a.1.incr.aof": b"a.1.incr.aof",
        "/data/backup/a.manifest": Manifest((BASE, INCREMENT)).encode(),
    }


def test_a_failed_backup_leaves_no_files_and_the_log_as_it_is() -> None:
    disk = disk_with_log()
    backup = Backup()
    backup.prepare(disk, "/data/backup")
    backup.begin(1000)
    backup.pin_base(disk, "/data/log/a.1.base.rdb")
    backup.fail(disk, "why")
    assert (backup.state, backup.error, backup.paths) == (BackupState.FAILED, "why", [])
    assert disk.contents("/data/backup") == {}
    assert set(disk.contents("/data/log")) == {"/data/log/a.1.base.rdb", "/data/log/a.1.incr.aof"}


def test_a_folder_with_files_is_used_only_after_it_was_cleaned() -> None:
    disk = disk_with_log()
    sealed(disk)
    backup = Backup()
    assert not backup.prepare(disk, "/data/backup")
    assert backup.state is BackupState.IDLE
    backup.clean(disk, "/data/backup")
    assert backup.prepare(disk, "/data/backup")


def test_a_file_that_cannot_be_linked_is_reported() -> None:
    disk = disk_with_log()
    backup = Backup()
    backup.prepare(disk, "/data/backup")
    backup.begin(1000)
    with pytest.raises(FileNotFoundError):
        backup.pin_base(disk, "/data/log/missing")
    assert backup.state is BackupState.SNAPSHOTTING
