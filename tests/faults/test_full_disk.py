"""A real disk that fills up: a small tmpfs under a real server."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from time import monotonic

import pytest

from support.promises import assert_promised
from support.servers import Server
from support.wire import Wire

DISK_SIZE = "512k"
BALLAST_SIZE = 256 * 1024
VALUE = b"v" * 4000
WRITES_MAX = 1000
MISCONF = b"-MISCONF Errors writing to the AOF file: No space left on device\r\n"
RECOVERY_S = 10.0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder that holds no more than DISK_SIZE, half of it taken by the file `ballast`."""
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        words = ["mount", "-t", "tmpfs", "-o", f"size={DISK_SIZE}", "tmpfs", str(folder)]
        mounted = subprocess.run(words, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no mount(8) here")
    if mounted.returncode:
        pytest.skip(f"cannot mount a tmpfs: {mounted.stderr.strip()}")
    (folder / "ballast").write_bytes(bytes(BALLAST_SIZE))
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def new_server(tmp_path: Path, disk: Path, policy: str) -> Server:
    return Server("headrace", tmp_path / "server", "--dir", str(disk), "--appendonly", "yes", "--appendfsync", policy)


def found_ids(wire: Wire) -> list[bytes]:
    return [entry_id for entry_id, _ in wire.ask("XRANGE", "s", "-", "+")]


def test_full_disk_refuses_writes_until_there_is_room_and_loses_nothing(tmp_path: Path, small_disk: Path) -> None:
    assert_promised("fault")
    server = new_server(tmp_path, small_disk, "everysec").start()
    try:
        with server.connect() as wire:
            answered = []
            while (reply := wire.call("XADD", "s", "*", "f", VALUE)) != MISCONF:
                assert reply.startswith(b"$")
                answered.append(reply.split(b"\r\n")[1])
                assert len(answered) < WRITES_MAX
            assert wire.call("PING") == MISCONF
            assert found_ids(wire) == answered
            (small_disk / "ballast").unlink()
            deadline_s = monotonic() + RECOVERY_S
            while (reply := wire.call("XADD", "s", "*", "f", "v")) == MISCONF:
                assert monotonic() < deadline_s
            answered.append(reply.split(b"\r\n")[1])
        server.kill()
        server.start()
        with server.connect() as wire:
            assert found_ids(wire) == answered
    finally:
        server.kill()


def test_full_disk_ends_a_server_that_promises_stable_storage(tmp_path: Path, small_disk: Path) -> None:
    assert_promised("fault always")
    server = new_server(tmp_path, small_disk, "always").start()
    try:
        answered: list[bytes] = []
        with server.connect() as wire, contextlib.suppress(ConnectionError):
            while len(answered) < WRITES_MAX:
                answered.append(wire.call("XADD", "s", "*", "f", VALUE).split(b"\r\n")[1])
        assert server.process is not None
        assert server.process.wait(15) == 1
        assert "Exiting" in server.log_tail()
        (small_disk / "ballast").unlink()
        server.start()
        with server.connect() as wire:
            assert found_ids(wire) == answered
    finally:
        server.kill()


def until(has_come: Callable[[], bool]) -> None:
    deadline_s = monotonic() + RECOVERY_S
    while not has_come():
        assert monotonic() < deadline_s


def fill(path: Path, room_size: int) -> None:
    """Write a file that leaves so many bytes on its disk."""
    with path.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    os.truncate(path, path.stat().st_size - room_size)


def backup(wire: Wire) -> dict[bytes, bytes]:
    """What BACKUP STATUS says."""
    words = wire.ask("BACKUP", "STATUS")
    return dict(zip(words[::2], words[1::2], strict=True))


def test_a_backup_on_a_full_disk_fails_and_costs_no_write(tmp_path: Path, small_disk: Path) -> None:
    server = new_server(tmp_path, small_disk, "everysec").start()
    draws = Random(5)
    try:
        with server.connect() as wire:
            for number in range(15):
                assert wire.call("SET", f"k{number}", draws.randbytes(4000)) == b"+OK\r\n"
            # There is room for writes, and none for a base.
            fill(small_disk / "ballast", 40 * 1024)
            assert wire.call("BACKUP", "START") == b"+OK\r\n"
            until(lambda: backup(wire)[b"state"] == b"failed")
            assert b"No space left on device" in backup(wire)[b"error"]
            assert not os.listdir(small_disk / "backupdir")
            assert wire.call("SET", "during", "1") == b"+OK\r\n"
            (small_disk / "ballast").unlink()
            assert wire.call("BACKUP", "START") == b"+OK\r\n"
            until(lambda: backup(wire)[b"state"] == b"incrementing")
            assert wire.call("SET", "before", "2") == b"+OK\r\n"
            # There is no room for the files of a seal.
            fill(small_disk / "ballast", 0)
            assert wire.call("BACKUP", "SEAL") == b"-ERR Can't close the INCR AOF for the backup\r\n"
            assert backup(wire)[b"state"] == b"failed"
            assert not os.listdir(small_disk / "backupdir")
            (small_disk / "ballast").unlink()
            until(lambda: wire.call("SET", "after", "3") == b"+OK\r\n")
            until(lambda: wire.call("BACKUP", "START") == b"+OK\r\n")
            until(lambda: backup(wire)[b"state"] == b"incrementing")
            assert wire.call("BACKUP", "SEAL") == b"+OK\r\n"
        failures = [line for line in server.log_path.read_text().splitlines() if "BACKUP: failed" in line]
        assert len(failures) == 2
        assert all("No space left on device" in line for line in failures)
        server.kill()
        server.start()
        with server.connect() as wire:
            assert wire.call("MGET", "during", "before", "after") == b"*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n"
            assert wire.call("DBSIZE") == b":18\r\n"
    finally:
        server.kill()
