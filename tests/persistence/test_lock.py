"""Two servers never write into one folder."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.persistence.errors import LogError
from headrace.persistence.lock import FolderLock
from support.ports import free_port
from support.servers import Server


def test_folder_is_held_until_released(tmp_path: Path) -> None:
    first, second = FolderLock(str(tmp_path)), FolderLock(str(tmp_path))
    first.acquire()
    first.acquire()
    with pytest.raises(LogError, match="Another server uses the data folder"):
        second.acquire()
    first.release()
    second.acquire()
    assert (first.is_held, second.is_held) == (False, True)
    second.release()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("options", [("--appendonly", "yes"), ("--save", "60", "1")])
def test_second_server_on_a_folder_refuses_with_one_line(tmp_path: Path, options: tuple[str, ...]) -> None:
    first = Server("headrace", tmp_path, "--appendonly", "yes").start()
    try:
        words = [sys.executable, "-m", "headrace", "--port", str(free_port()), "--bind", "127.0.0.1"]
        words += ["--dir", str(tmp_path), *options]
        second = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
        *start, refusal = (second.stdout + second.stderr).strip().split("\n")
        assert (second.returncode, [line for line in start if " * " not in line]) == (1, []), "only lines of the start"
        assert f"# Another server uses the data folder {tmp_path}" in refusal
    finally:
        first.stop()


def test_crash_leaves_the_folder_free(tmp_path: Path) -> None:
    first = Server("headrace", tmp_path, "--appendonly", "yes").start()
    first.kill()
    assert first.process is not None
    assert first.process.returncode == -signal.SIGKILL
    again = Server("headrace", tmp_path, "--appendonly", "yes").start()
    assert again.stop() == 0


def test_the_tool_does_not_cut_files_that_a_server_has_open(tmp_path: Path) -> None:
    # Without the line that is written a second after a record, the files are as they were.
    options = ("--appendonly", "yes", "--aof-timestamp-enabled", "yes", "--aof-block-checksums", "no")
    first = Server("headrace", tmp_path, *options).start()
    try:
        with first.connect() as wire:
            wire.call("XADD", "s", "1-1", "f", "v")
        for file in sorted((tmp_path / "appendonlydir").iterdir()):
            before = file.read_bytes()
            for action in (["--fix"], ["--truncate-to-timestamp", "1"]):
                words = [sys.executable, "-m", "headrace.persistence.check_aof", *action, str(file)]
                found = subprocess.run(words, input="y\n", capture_output=True, text=True, timeout=20, check=False)
                refusal = f"A server uses the data folder {tmp_path}: stop it, then run this again\n"
                assert (found.returncode, found.stdout, file.read_bytes()) == (1, refusal, before)
    finally:
        first.stop()


def test_log_turned_on_later_needs_the_folder_too(tmp_path: Path) -> None:
    first = Server("headrace", tmp_path, "--appendonly", "yes").start()
    second = Server("headrace", tmp_path, "--appendonly", "no").start()
    try:
        with second.connect() as wire:
            assert b"Another server uses the data folder" in wire.call("CONFIG", "SET", "appendonly", "yes")
            assert b"Another server uses the data folder" in wire.call("CONFIG", "SET", "save", "60 1")
    finally:
        second.stop()
        first.stop()


WRITING = ("SAVE", "BGSAVE", "BGSAVE SCHEDULE", "BGREWRITEAOF", "DEBUG RELOAD", "SHUTDOWN SAVE")


@pytest.mark.parametrize("request_line", WRITING)
def test_a_command_that_writes_files_needs_the_folder_too(tmp_path: Path, request_line: str) -> None:
    nothing_saved = ("--save", "", "--enable-debug-command", "yes")
    first = Server("headrace", tmp_path, "--save", "3600 1").start()
    second = Server("headrace", tmp_path, "--appendonly", "no", *nothing_saved).start()
    try:
        with first.connect() as wire, second.connect() as other:
            wire.call("SET", "one", "1")
            assert wire.call("SAVE") == b"+OK\r\n"
            other.call("SET", "two", "2")
            before = {path: path.read_bytes() for path in tmp_path.rglob("*.rdb")}
            assert other.call(*request_line.split()).startswith(b"-ERR ")
            assert other.call("EXISTS", "two") == b":1\r\n"
            assert {path: path.read_bytes() for path in tmp_path.rglob("*.rdb")} == before
            assert not (tmp_path / "appendonlydir").exists()
            if request_line != "SHUTDOWN SAVE":  # which refers to the server log, as in Redis
                assert b"Another server uses the data folder" in other.call(*request_line.split())
    finally:
        second.kill()
        first.stop()
