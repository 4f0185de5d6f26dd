"""Two states that meet: a role, a link or a snapshot of replication, and something else that the server does."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

import pytest

from support.replica import StreamReader, take_records
from support.servers import Server
from support.wire import Wire, encode

DEADLINE_S = 30.0
NOT_READY = b"-ERR No backup ready to seal (must be in the incrementing state)\r\n"
# What DEBUG POPULATE gives the last key.
POPULATED = b"value:19999".ljust(1000, b"\0")


@pytest.fixture
def primary(tmp_path: Path) -> Iterator[Server]:
    """A server with save points, which begins a snapshot as soon as a replica asks."""
    server = Server("headrace", tmp_path, "--save", "3600 1", "--repl-diskless-sync-delay", "0").start()
    yield server
    server.kill()


@pytest.mark.parametrize("middle", [["FLUSHALL"], ["DEBUG", "RELOAD"]], ids=" ".join)
def test_a_snapshot_within_a_transaction_does_not_split_it(primary: Server, middle: list[str]) -> None:
    with StreamReader(primary.port) as stream, primary.connect() as wire:
        for words in (["MULTI"], ["SET", "a", "1"], middle, ["SET", "b", "1"]):
            wire.call(*words)
        assert wire.call("EXEC") == b"*3\r\n+OK\r\n+OK\r\n+OK\r\n"
        records = take_records(stream, wire, b"end")
        assert records[0] == [b"MULTI"]
        assert records[-1] == [b"EXEC"]


def until(has_come: Callable[[], bool]) -> None:
    """Ask again and again until something is so."""
    deadline_s = monotonic() + DEADLINE_S
    while not has_come():
        assert monotonic() < deadline_s


def backup_state(wire: Wire) -> bytes:
    words = wire.ask("BACKUP", "STATUS")
    return words[words.index(b"state") + 1]


def is_incrementing(wire: Wire) -> bool:
    return backup_state(wire) == b"incrementing"


def has_link(wire: Wire) -> bool:
    return b"master_link_status:up" in wire.call("INFO", "replication")


def has_read(replica: socket.socket) -> bool:
    """Read what is there. Always True."""
    with contextlib.suppress(BlockingIOError):
        replica.recv(1 << 20)
    return True


def restored(folder: Path, tmp_path: Path, *keys: str) -> list[bytes | None]:
    """The values of keys in a server that is started from the backup in a folder."""
    copy = tmp_path / "restored"
    shutil.copytree(folder / "backupdir", copy / "appendonlydir")
    server = Server("headrace", copy, "--appendonly", "yes").start()
    try:
        with server.connect() as wire:
            return [wire.ask("GET", key) for key in keys]
    finally:
        server.kill()


@pytest.mark.parametrize("appendonly", ["yes", "no"])
def test_a_backup_that_is_started_during_a_full_sync_begins_after_it_and_has_every_write(
    appendonly: str, tmp_path: Path
) -> None:
    folder = tmp_path / "primary"
    options = ["--appendonly", appendonly, "--repl-diskless-sync-delay", "0"]
    primary = Server("headrace", folder, *options).start()
    try:
        with primary.connect() as wire, socket.create_connection(("127.0.0.1", primary.port)) as replica:
            # More than the buffers of the connection take: the snapshot waits for the replica to read.
            wire.call("DEBUG", "POPULATE", "20000", "key", "1000")
            replica.sendall(encode(["SYNC"]))
            until(lambda: b"state=send_bulk" in wire.call("INFO", "replication"))
            assert wire.call("BACKUP", "START") == b"+OK\r\n"
            assert wire.call("SET", "during", "1") == b"+OK\r\n"
            assert backup_state(wire) == b"pending"
            replica.setblocking(False)
            until(lambda: has_read(replica) and is_incrementing(wire))
            assert b"state=online" in wire.call("INFO", "replication")
            assert wire.call("SET", "after", "2") == b"+OK\r\n"
            assert wire.call("BACKUP", "SEAL") == b"+OK\r\n"
            assert wire.call("SET", "late", "3") == b"+OK\r\n"
        assert restored(folder, tmp_path, "during", "after", "late", "key:19999") == [b"1", b"2", None, POPULATED]
    finally:
        primary.kill()


@pytest.mark.parametrize("appendonly", ["yes", "no"])
def test_a_replica_that_gets_another_dataset_fails_its_backup_in_one_line(appendonly: str, tmp_path: Path) -> None:
    primary = Server("headrace", tmp_path / "primary", "--repl-diskless-sync-delay", "0").start()
    replica = Server("headrace", tmp_path / "replica", "--appendonly", appendonly).start()
    try:
        with primary.connect() as above, replica.connect() as wire:
            above.call("SET", "k", "of the primary")
            wire.call("SET", "k", "of the replica")
            assert wire.call("BACKUP", "START") == b"+OK\r\n"
            until(lambda: is_incrementing(wire))
            wire.call("REPLICAOF", "127.0.0.1", primary.port)
            until(lambda: has_link(wire))
            assert wire.ask("GET", "k") == b"of the primary"
            assert backup_state(wire) == b"failed"
            assert wire.call("BACKUP", "SEAL") == NOT_READY
            assert not os.listdir(tmp_path / "replica" / "backupdir")
            # A later backup has the dataset of the primary.
            until(lambda: wire.call("BACKUP", "START") == b"+OK\r\n")
            until(lambda: is_incrementing(wire))
            assert wire.call("BACKUP", "SEAL") == b"+OK\r\n"
        lines = [line for line in replica.log_path.read_text().splitlines() if "BACKUP: failed" in line]
        assert [line.partition("BACKUP: ")[2] for line in lines] == ["failed: appendonly is stopped"]
        assert restored(tmp_path / "replica", tmp_path, "k") == [b"of the primary"]
    finally:
        replica.kill()
        primary.kill()


def test_backups_are_sealed_and_started_during_a_failover(tmp_path: Path) -> None:
    primary = Server("headrace", tmp_path / "primary", "--repl-diskless-sync-delay", "0").start()
    replica = Server("headrace", tmp_path / "replica").start()
    try:
        with primary.connect() as wire, replica.connect() as below:
            below.call("REPLICAOF", "127.0.0.1", primary.port)
            until(lambda: has_link(below))
            assert wire.call("BACKUP", "START") == b"+OK\r\n"
            until(lambda: is_incrementing(wire))
            until(lambda: b"state=online" in wire.call("INFO", "replication"))
            # The replica does not confirm this write, so the failover waits, and no client may write.
            os.kill(replica.pid, signal.SIGSTOP)
            assert wire.call("SET", "before", "1") == b"+OK\r\n"
            assert wire.call("FAILOVER") == b"+OK\r\n"
            assert wire.call("BACKUP", "SEAL") == b"+OK\r\n"
            assert restored(tmp_path / "primary", tmp_path, "before") == [b"1"]
            assert wire.call("BACKUP", "CLEANUP") == wire.call("BACKUP", "START") == b"+OK\r\n"
            os.kill(replica.pid, signal.SIGCONT)
            until(lambda: has_link(wire))
            # It follows the new primary, and its backup continues with what that writes.
            assert below.call("SET", "after", "2") == b"+OK\r\n"
            until(lambda: wire.ask("GET", "after") == b"2")
            until(lambda: is_incrementing(wire))
            assert wire.call("BACKUP", "SEAL") == b"+OK\r\n"
        shutil.rmtree(tmp_path / "restored")
        assert restored(tmp_path / "primary", tmp_path, "before", "after") == [b"1", b"2"]
    finally:
        replica.kill()
        primary.kill()
