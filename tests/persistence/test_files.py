"""The real disk, which the faulty disk of the other tests replaces."""

from __future__ import annotations

import os
from collections.abc import Iterator
from errno import EIO, ENOSPC
from pathlib import Path
from stat import S_ISDIR

import pytest

from headrace.persistence.aof import AppendOnlyLog
from headrace.persistence.files import DiskFiles
from headrace.persistence.folder import LogSettings
from headrace.protocol.packing import pack_command


def test_append_truncate_and_size_agree_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = DiskFiles().open_log(str(path))
    assert file.append(b"abcdef") == 6
    file.fsync()
    file.truncate(4)
    file.append(memoryview(b"X"))
    assert path.read_bytes() == b"abcdX"
    assert file.size() == 5
    file.close()


def test_opening_again_continues_at_the_end(tmp_path: Path) -> None:
    for word in (b"one", b"two"):
        file = DiskFiles().open_log(str(tmp_path / "log"))
        file.append(word)
        file.close()
    assert DiskFiles().read(str(tmp_path / "log")) == b"onetwo"


def test_replace_leaves_no_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "small"
    assert DiskFiles().replace(str(path), [b"a", b"b"]) == 2
    assert DiskFiles().replace(str(path), [b"new"]) == 3
    assert [each.name for each in tmp_path.iterdir()] == ["small"]
    assert list(DiskFiles().read_blocks(str(path), 2)) == [b"ne", b"w"]


def test_what_is_not_there_is_none(tmp_path: Path) -> None:
    files = DiskFiles()
    path = str(tmp_path / "none")
    assert files.read(path) is None
    assert files.size(path) is None
    files.remove(path)


def test_folder_may_exist_already(tmp_path: Path) -> None:
    for _ in range(2):
        DiskFiles().make_folder(str(tmp_path / "folder"))
    assert (tmp_path / "folder").is_dir()


def test_folder_that_cannot_be_used_is_reported_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "folder"
    path.touch()
    with pytest.raises(NotADirectoryError, match=str(path)):
        DiskFiles().make_folder(str(path))
    path.unlink()
    path.mkdir()
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(PermissionError, match=str(path)):
        DiskFiles().make_folder(str(path))


def test_rename_moves_a_file_between_folders(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"log")
    (tmp_path / "folder").mkdir()
    DiskFiles().rename(str(tmp_path / "old"), str(tmp_path / "folder" / "new"))
    assert (tmp_path / "folder" / "new").read_bytes() == b"log"
    assert not (tmp_path / "old").exists()


def test_failed_replacement_names_the_file_and_leaves_the_old_one(tmp_path: Path) -> None:
    def blocks() -> Iterator[bytes]:
        yield b"half"
        raise OSError(ENOSPC, os.strerror(ENOSPC))

    path = tmp_path / "small"
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="No space left") as failure:
        DiskFiles().replace(str(path), blocks())
    assert failure.value.filename == str(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    """Another user of the folder has put links in the places of future files."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    for name in ("temp-dump.rdb", "temp-manifest", "temp-appendonly.aof.incr", "log"):
        (tmp_path / name).symlink_to(victim)
    (tmp_path / "temp-nothing").symlink_to(tmp_path / "made")
    files = DiskFiles()
    for name in ("dump.rdb", "manifest", "nothing"):
        assert files.replace(str(tmp_path / name), [b"new"]) == 3
        assert (tmp_path / name).read_bytes() == b"new"
        assert not (tmp_path / f"temp-{name}").is_symlink()
    for name in ("temp-appendonly.aof.incr", "log"):
        with pytest.raises(OSError, match="Too many levels of symbolic links"):
            files.open_log(str(tmp_path / name))
    assert victim.read_bytes() == b"precious"
    assert not (tmp_path / "made").exists()


def test_a_link_that_comes_at_the_last_moment_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "temp-dump.rdb").symlink_to(victim)

    def not_yet(path: str) -> os.stat_result:
        raise FileNotFoundError(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "lstat", not_yet)
        with pytest.raises(FileExistsError):
            DiskFiles().replace(str(tmp_path / "dump.rdb"), [b"new"])
    assert victim.read_bytes() == b"precious"


def test_a_link_is_removed_and_what_it_names_stays(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    for number, target in enumerate((victim, tmp_path / "nothing")):
        link = tmp_path / f"link{number}"
        link.symlink_to(target)
        DiskFiles().remove(str(link))
        assert not link.is_symlink()
    assert victim.read_bytes() == b"precious"


def test_log_on_a_real_disk_is_read_back(tmp_path: Path) -> None:
    settings = LogSettings(str(tmp_path / "appendonlydir"), "appendonly.aof")
    for number in range(3):
        log = AppendOnlyLog(settings, b"everysec")
        log.open()
        log.append([(0, pack_command((b"SET", b"k", b"%d" % number)))], False)
        log.flush()
        assert log.close()
    applied: list[list[bytes]] = []
    AppendOnlyLog(settings, b"no").load(applied.append)
    assert [record[2] for record in applied if record[0] == b"SET"] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("method", ["open_log", "make_folder"])
def test_name_that_cannot_be_synced_is_removed(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next attempt would find it, and take its name for synced."""

    fsync = os.fsync

    def fail_for_folders(descriptor: int) -> None:
        if S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(EIO, os.strerror(EIO))
        fsync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail_for_folders)
        with pytest.raises(OSError, match="Input/output error"):
            getattr(DiskFiles(), method)(str(tmp_path / "log"))
    assert list(tmp_path.iterdir()) == []
