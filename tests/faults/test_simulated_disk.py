"""The simulated disk stands for the real one: it takes the same steps, and forgets what it may forget."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.persistence import files
from headrace.persistence.files import DiskFiles, Files
from support.simulated_disk import SimulatedDisk


def work(disk: Files, folder: str) -> None:
    """Everything the log asks of a disk."""
    disk.make_folder(f"{folder}/log")
    disk.make_folder(f"{folder}/log")
    file = disk.open_log(f"{folder}/log/a")
    file.append(b"abc")
    file.fsync()
    file.truncate(1)
    file.close()
    disk.open_log(f"{folder}/log/a").close()
    disk.replace(f"{folder}/log/b", [b"1", b"2"])
    disk.replace(f"{folder}/log/b", [b"3"])
    disk.remove(f"{folder}/log/a")
    disk.remove(f"{folder}/log/a")


def test_takes_the_steps_of_the_real_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real: list[str] = []

    def spy(kind: str, call: Callable[..., object]) -> Callable[..., object]:
        def spied(*arguments: object) -> object:
            answer = call(*arguments)
            real.append(kind)
            return answer

        return spied

    system_calls = {"mkdir": "mkdir", "write": "append", "ftruncate": "truncate", "replace": "rename"}
    for name, kind in {**system_calls, "unlink": "unlink", "fsync": "sync_folder"}.items():
        monkeypatch.setattr(os, name, spy(kind, getattr(os, name)))
    monkeypatch.setattr(files, "_SYNC_DATA", spy("fsync", files._SYNC_DATA))
    work(DiskFiles(), str(tmp_path))

    simulated: list[str] = []
    disk = SimulatedDisk({"/data": None})
    disk.fault = lambda call: simulated.append(call.kind)
    work(disk, "/data")
    assert [kind for kind in simulated if kind != "create"] == real


def test_power_loss_takes_names_and_bytes_that_were_not_synced() -> None:
    disk = SimulatedDisk({"/data": None})
    file = disk.open_log("/data/a")
    file.append(b"synced")
    file.fsync()
    file.append(b" and not")
    disk._rename("create", "/data/b", {"/data/b": disk.inode("/data/a")})
    assert disk.after_kill().read("/data/b") == b"synced and not"
    lost = disk.after_power_loss(None)
    assert (lost.read("/data/a"), lost.read("/data/b")) == (b"synced", None)
    seen = {disk.after_power_loss(random.Random(seed)).read("/data/a") for seed in range(300)}
    assert seen == {b"synced and not"[:size] for size in range(6, 15)}


def test_renamed_file_is_the_old_or_the_new_one_until_the_folder_is_synced() -> None:
    disk = SimulatedDisk({"/data": None})
    disk.replace("/data/a", [b"old"])
    seen: set[bytes | None] = set()
    disk.on_boundary = lambda call: seen.update(
        disk.after_power_loss(random.Random(seed)).read("/data/a") for seed in range(20)
    )
    disk.replace("/data/a", [b"new"])
    assert seen == {b"old", b"new"}
    assert disk.after_power_loss(None).read("/data/a") == b"new"
