"""The policies of streams through restarts, rewrites, snapshots and replicas, and what Redis makes of such files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from conftest import StartServer
from support.links import field, until
from support.servers import Server
from support.wire import Wire

KEYS = ("acked", "long", "pending", "old")
# Streams whose policies have acted when `LENGTHS` are reached.
SCENARIO = (
    *(f"XADD {key} {number}-0 f v{number}" for key in KEYS for number in range(1, 21)),
    "XGROUP CREATE acked g 0",
    "XGROUP CREATE pending g 0",
    "XREADGROUP GROUP g a COUNT 15 STREAMS acked >",
    "XREADGROUP GROUP g a COUNT 10 STREAMS pending >",
    "XCFGSET acked RETAIN-ACKED no IGNORE-GROUPS-IDLE 100000000",
    "XCFGSET long MAXLEN 5",
    "XCFGSET pending MAXLEN 3 MAXBYTES 1000000",
    "XCFGSET old MAXAGE 1000 FORCE",
    "XACK acked g 1-0 2-0 3-0 4-0 5-0 7-0",
    "XACK pending g 1-0 2-0",
)
# The first pending entry is 6-0 in `acked`, and 3-0 in `pending`.
LENGTHS = [15, 5, 18, 0]
SETTINGS = [
    b"retain-acked no ignore-groups-idle 100000000",
    b"maxlen 5",
    b"maxlen 3 maxbytes 1000000",
    b"maxage 1000 maxage-force yes",
]


def lengths(wire: Wire) -> list[int]:
    return [wire.ask("XLEN", key) for key in KEYS]


def fill(wire: Wire) -> None:
    """Run the scenario, until all policies have acted."""
    for line in SCENARIO:
        wire.send(*line.split())
    for line in SCENARIO:
        assert not wire.receive().startswith(b"-"), line
    until(lambda: lengths(wire) == LENGTHS, "the policies do not act")


def rewrite(wire: Wire) -> None:
    wire.call("BGREWRITEAOF")
    until(lambda: field(wire, "aof_rewrite_in_progress", "persistence") == "0", "the rewrite does not end")


def entries(wire: Wire) -> list[bytes]:
    """All that both servers know of the streams and do not measure in time."""
    found = []
    for key in KEYS:
        found += [wire.call("XRANGE", key, "-", "+"), wire.call("XINFO", "GROUPS", key)]
        found += [wire.call("XPENDING", key, "g")] if key in ("acked", "pending") else []
        described = wire.ask("XINFO", "STREAM", key)
        found.append(repr([described[place] for place in (1, 7, 9, 11, 13)]).encode())
    return found


def settings_of(wire: Wire, key: str) -> bytes:
    """What XINFO STREAM says after the fields of Redis."""
    words = wire.ask("XINFO", "STREAM", key)[32:]
    return b" ".join(word if isinstance(word, bytes) else b"%d" % word for word in words)


def settings(wire: Wire) -> list[bytes]:
    return [settings_of(wire, key) for key in KEYS]


@pytest.mark.parametrize("how", ["log", "rewritten as text", "rewritten as RDB", "snapshot"])
def test_a_restart_keeps_the_settings_and_what_they_left(tmp_path: Path, how: str) -> None:
    options = ["--appendonly", "no" if how == "snapshot" else "yes"]
    options += ["--aof-use-rdb-preamble", "yes" if how == "rewritten as RDB" else "no"]
    server = Server("headrace", tmp_path, *options).start()
    with server.connect() as wire:
        fill(wire)
        before = entries(wire)
        assert settings(wire) == SETTINGS
        if how == "snapshot":
            assert wire.call("SAVE") == b"+OK\r\n"
        elif how != "log":
            rewrite(wire)
    server.kill()
    server.start()
    with server.connect() as wire:
        assert (entries(wire), settings(wire)) == (before, SETTINGS)
        wire.call("XACK", "acked", "g", "6-0")
        until(lambda: wire.ask("XLEN", "acked") == 13, "the policy does not act")
    server.kill()


def test_a_start_applies_what_the_last_run_did_not(tmp_path: Path) -> None:
    """Goal: a server that is killed between an acknowledgement and its trim makes up for it."""
    server = Server("headrace", tmp_path, "--appendonly", "yes").start()
    with server.connect() as wire:
        fill(wire)
    server.kill()
    log = next((tmp_path / "appendonlydir").glob("*.incr.aof"))
    text = log.read_bytes()
    log.write_bytes(text + b"*4\r\n$4\r\nXACK\r\n$5\r\nacked\r\n$1\r\ng\r\n$3\r\n6-0\r\n")
    server.start()
    with server.connect() as wire:
        until(lambda: wire.ask("XLEN", "acked") == 13, "the policy does not act")
    server.kill()


@pytest.mark.oracle
@pytest.mark.parametrize("form", ["log", "rewritten as text", "rewritten as RDB"])
def test_redis_reads_such_a_log_and_has_the_same_entries(oracle_tools: Path, tmp_path: Path, form: str) -> None:
    preamble = "yes" if form == "rewritten as RDB" else "no"
    options = ["--appendonly", "yes", "--aof-use-rdb-preamble", preamble]
    server = Server("headrace", tmp_path / "written", *options).start()
    with server.connect() as wire:
        fill(wire)
        if form != "log":
            rewrite(wire)
            wire.call("XCFGSET", "long", "MAXLEN", "4")
            wire.call("XADD", "long", "99-0", "f", "v")
            until(lambda: wire.ask("XLEN", "long") == 4, "the policy does not act")
        ours = entries(wire)
    assert server.stop() == 0
    shutil.copytree(tmp_path / "written", tmp_path / "read", ignore=shutil.ignore_patterns("server.log"))
    oracle = Server("oracle", tmp_path / "read", *options).start()
    with oracle.connect() as wire:
        assert entries(wire) == ours
    oracle.kill()


def test_a_replica_has_the_settings_and_decides_nothing_until_it_is_promoted(start_server: StartServer) -> None:
    primary, replica = (start_server("headrace", "--appendonly", "no") for _ in range(2))
    with primary.connect() as wire, replica.connect() as other:
        wire.call("XADD", "before", "1-0", "f", "v")
        wire.call("XCFGSET", "before", "RETAIN-ACKED", "no")
        other.call("REPLICAOF", "127.0.0.1", str(primary.port))
        until(lambda: other.ask("EXISTS", "before") == 1, "the replica does not catch up")
        fill(wire)
        until(lambda: lengths(other) == LENGTHS, "the policies do not act")
        assert (entries(other), settings(other)) == (entries(wire), SETTINGS)
        assert settings_of(other, "before") == b"retain-acked no"
        assert other.call("XACK", "acked", "g", "6-0").startswith(b"-READONLY")
        other.call("REPLICAOF", "NO", "ONE")
        other.call("XACK", "acked", "g", "6-0")
        until(lambda: other.ask("XLEN", "acked") == 13, "the policy does not act")
