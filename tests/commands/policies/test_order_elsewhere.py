"""ORDER-BY where data goes: Redis reads the log, a replica becomes the primary, a log is rewritten."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from conftest import StartServer
from support.links import field, until
from support.servers import Server
from support.wire import Wire

READ = ("XREADGROUP", "GROUP", "g", "w", "STREAMS", "s", ">")


def fill(wire: Wire) -> None:
    """A stream with entries of a few values, and a group that has read it all."""
    source = random.Random(1)
    wire.ask("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
    wire.ask("XGROUP", "CONFIG", "s", "g", "ORDER-BY", "k", "REDELIVER", "600000")
    for number in range(1, 101):
        wire.ask("XADD", "s", f"{number}-0", "k", source.choice("abcdefgh"))
    wire.ask(*READ)
    for _ in range(20):
        ids = [row[0] for row in wire.ask("XPENDING", "s", "g", "-", "+", 99) if row[1]]
        wire.ask("XACK", "s", "g", *ids[:3])
        wire.ask("XNACK", "s", "g", "FAIL", "IDS", 1, ids[3])
        wire.ask(*READ)
    wire.ask("XDEL", "s", "90-0")


def held(wire: Wire) -> list[Any]:
    """Entries, and the pending list without idle times. Nothing if there is no stream."""
    if not wire.ask("EXISTS", "s"):
        return []
    rows = [[entry_id, owner, count] for entry_id, owner, _, count in wire.ask("XPENDING", "s", "g", "-", "+", 999)]
    return [wire.ask("XRANGE", "s", "-", "+"), rows]


def next_ids(wire: Wire) -> list[bytes]:
    """What is delivered after all that is owned was acknowledged, by ID: there is no order among values."""
    ids = [row[0] for row in wire.ask("XPENDING", "s", "g", "-", "+", 99) if row[1]]
    wire.ask("XACK", "s", "g", *ids)
    reply = wire.ask(*READ)
    return sorted([entry[0] for entry in reply[0][1]])


def wait_until_equal(one: Wire, other: Wire) -> None:
    until(lambda: held(one) == held(other), "the replica does not catch up")


@pytest.mark.oracle
@pytest.mark.parametrize("is_rewritten", [False, True])
def test_redis_reads_the_log_and_holds_the_same_data(is_rewritten: bool, oracle_tools: Path, tmp_path: Path) -> None:
    server = Server("headrace", tmp_path / "written", "--appendonly", "yes").start()
    with server.connect() as wire:
        fill(wire)
        if is_rewritten:
            wire.ask("BGREWRITEAOF")
            until(lambda: field(wire, "aof_rewrite_in_progress", "persistence") == "0", "the rewrite does not end")
            wire.ask("XACK", "s", "g", "1-0")
        expected = held(wire)
    assert server.stop() == 0
    for name in ("oracle", "headrace"):
        shutil.copytree(tmp_path / "written", tmp_path / name, ignore=shutil.ignore_patterns("server.log"))
        reader = Server(name, tmp_path / name, "--appendonly", "yes").start()
        try:
            with reader.connect() as wire:
                assert held(wire) == expected
        finally:
            reader.kill()


def test_a_replica_that_becomes_the_primary_keeps_the_order(start_server: StartServer) -> None:
    primary, replica = start_server("headrace"), start_server("headrace")
    with primary.connect() as wire, replica.connect() as other:
        fill(wire)
        other.ask("REPLICAOF", "127.0.0.1", primary.port)
        wait_until_equal(wire, other)
        wire.ask("XADD", "s", "101-0", "k", "a")
        wire.ask("XADD", "s", "102-0", "k", "a")
        wire.ask(*READ)
        # A policy of the stream removes entries that have the turn.
        wire.ask("XCFGSET", "s", "MAXLEN", 60, "FORCE")
        until(lambda: wire.ask("XLEN", "s") == 60, "the policy removes nothing")
        wait_until_equal(wire, other)
        other.ask("REPLICAOF", "NO", "ONE")
        assert next_ids(other) == next_ids(wire)
        assert next_ids(other) == next_ids(wire)
        assert held(other) == held(wire)
