"""Real Redis follows Headrace: at every quiet moment it holds the same data."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import StartServer
from support.comparison import first_difference
from support.every_state import fill_all
from support.lines import split
from support.links import await_link
from support.replies import parse
from support.servers import Server
from support.wire import Wire
from support.workload import random_line

pytestmark = pytest.mark.oracle

ROUNDS = 6
LINES_PER_ROUND = 150
# What a replica knows only from its own clock, or is not sent: when consumers were last seen, repetitions of
# idempotent entries, and the shape of a tree.
OWN = rb"(seen-time|active-time|iids-duplicates|radix-tree-keys|radix-tree-nodes)\r\n:-?\d+"
FAR_MS = 4_000_000_000_000
FAST = ("--save", "", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "3600")


def questions(key: bytes, kind: bytes) -> Iterator[list[bytes]]:
    """What is asked about a key."""
    yield [b"PEXPIRETIME", key]
    if kind == b"stream":
        yield [b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"]
    else:
        yield [b"GET", key]


def dataset(wire: Wire, databases: int = 4) -> dict[tuple[int, bytes], list[bytes]]:
    """Everything that a server shows of its keys."""
    found: dict[tuple[int, bytes], list[bytes]] = {}
    for index in range(databases):
        wire.call("SELECT", index)
        for node in parse(wire.call("KEYS", "*")).value:
            kind = bytes(parse(wire.call("TYPE", node.value)).value)
            answers = [wire.call(*question) for question in questions(node.value, kind)]
            found[index, node.value] = [re.sub(OWN, rb"\1", answer) for answer in answers]
    wire.call("SELECT", 0)
    return found


def hold_expiry(wire: Wire, databases: int = 4) -> None:
    """Let no key expire while the servers are asked one after the other."""
    for index in range(databases):
        wire.call("SELECT", index)
        for node in parse(wire.call("KEYS", "*")).value:
            if int(parse(wire.call("PEXPIRETIME", node.value)).value) > 0:
                wire.call("PEXPIREAT", node.value, FAR_MS)
    wire.call("SELECT", 0)


def assert_equal(primary: Wire, replica: Wire, seed: object) -> None:
    """Wait until the replica has everything, and compare."""
    hold_expiry(primary)
    primary.call("SET", "last", "write")
    assert primary.call("WAIT", 1, 0) == b":1\r\n"
    ours, theirs = dataset(primary), dataset(replica)
    assert ours.keys() == theirs.keys(), f"seed {seed}"
    for key, answers in ours.items():
        for mine, their in zip(answers, theirs[key], strict=True):
            assert mine == their, f"seed {seed}, {key}: {first_difference(mine, their)}"


def following(start_server: StartServer, primary: Server, *options: str) -> Server:
    """A real Redis that follows."""
    return start_server("oracle", "--save", "", "--replicaof", f"127.0.0.1 {primary.port}", *options)


@pytest.mark.parametrize("diskless", ["yes", "no"])
@pytest.mark.parametrize("load", ["disabled", "swapdb"])
def test_a_snapshot_is_complete(start_server: StartServer, diskless: str, load: str) -> None:
    primary = start_server("headrace", *FAST, "--repl-diskless-sync", diskless)
    with primary.connect() as wire:
        fill_all(wire, 1)
        replica = following(start_server, primary, "--repl-diskless-load", load)
        with replica.connect() as follower:
            await_link(follower)
            assert_equal(wire, follower, 1)
            assert wire.call("DEBUG", "DIGEST") == follower.call("DEBUG", "DIGEST")


@pytest.mark.parametrize("seed", range(3))
def test_it_has_the_same_data_at_every_quiet_moment(start_server: StartServer, seed: int) -> None:
    rnd = random.Random(seed)
    primary = start_server("headrace", *FAST, "--appendonly", rnd.choice(["yes", "no"]))
    with (
        primary.connect() as wire,
        following(start_server, primary).connect() as follower,
        primary.connect() as control,
    ):
        await_link(follower)
        for number in range(ROUNDS):
            for _ in range(LINES_PER_ROUND):
                line = random_line(rnd)
                if "BLOCK" not in line:
                    wire.call(*split(line))
            wire.call("DISCARD")
            wire.call("SELECT", 0)
            if number % 2:
                # Redis gives its place up if it is cut off while it empties a database in a thread (FLUSHALL).
                wire.call("WAIT", 1, 10_000)
                wire.call("MSET", *(word for key in range(9) for word in (f"cut:{key}", number)))
                assert control.call("CLIENT", "KILL", "TYPE", "replica") == b":1\r\n"
            assert_equal(wire, follower, seed)
        info = control.call("INFO", "stats")
        assert b"sync_full:1\r\n" in info, "cut links continue"
        assert b"sync_partial_ok:%d\r\n" % (ROUNDS // 2) in info
        assert b"sync_partial_err:0\r\n" in info


def test_it_continues_after_a_restart_of_the_primary_from_its_dump(start_server: StartServer) -> None:
    primary = start_server("headrace", *FAST[2:], "--save", "3600 1")
    with primary.connect() as wire:
        fill_all(wire, 2)
    replica = following(start_server, primary)
    with replica.connect() as follower:
        await_link(follower)
        assert primary.stop() == 0
        primary.start()
        with primary.connect() as wire:
            follower.call("REPLICAOF", "127.0.0.1", primary.port)  # its port is another one now
            await_link(follower)
            assert_equal(wire, follower, 2)
            info = wire.call("INFO", "stats")
            assert b"sync_full:0\r\n" in info
            assert b"sync_partial_ok:1\r\n" in info


def test_redis_cli_makes_a_backup_of_a_running_server(start_server: StartServer, cli: Path, tmp_path: Path) -> None:
    primary = start_server("headrace", *FAST)
    with primary.connect() as wire:
        fill_all(wire, 3)
        path = tmp_path / "backup.rdb"
        command = [str(cli), "-p", str(primary.port), "--rdb", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        restored = start_server("oracle", "--save", "", "--dbfilename", "backup.rdb", "--dir", str(tmp_path))
        with restored.connect() as other:
            assert wire.call("DEBUG", "DIGEST") == other.call("DEBUG", "DIGEST")
