"""A real disk that fills up: a small tmpfs under a real server."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
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
