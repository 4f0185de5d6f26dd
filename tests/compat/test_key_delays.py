"""`rdb-key-save-delay` and `key-load-delay` make snapshots and loads slow, so that tests can look at what happens
meanwhile.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from conftest import StartServer
from support.links import await_link, field, until
from support.servers import Server
from support.wire import Wire

KEYS = 20
DELAY_US = 20_000
LONGEST = 30_000_000


def fill(wire: Wire) -> None:
    for number in range(KEYS):
        wire.call("SET", f"k{number}", "v" * 1000)


@pytest.mark.parametrize("diskless", ["yes", "no"])
def test_a_snapshot_for_replicas_takes_as_long_as_its_keys_cost(start_server: StartServer, diskless: str) -> None:
    options = ("--repl-diskless-sync-delay", "0", "--repl-diskless-sync", diskless)
    primary, replica = start_server("headrace", *options), start_server("headrace")
    with primary.connect() as above, replica.connect() as below:
        fill(above)
        assert above.call("CONFIG", "SET", "rdb-key-save-delay", DELAY_US) == b"+OK\r\n"
        began_s = time.monotonic()
        below.call("REPLICAOF", "127.0.0.1", primary.port)
        until(lambda: b"state=send_bulk" in above.ask("INFO", "replication"), "no snapshot begins")
        assert above.call("PING") == b"+PONG\r\n"
        await_link(below)
        assert time.monotonic() - began_s >= (KEYS - 1) * DELAY_US / 1e6


def test_a_slow_bgsave_lets_clients_work_and_can_be_hurried(start_server: StartServer) -> None:
    server = start_server("headrace")
    with server.connect() as wire:
        fill(wire)
        assert wire.call("CONFIG", "SET", "rdb-key-save-delay", LONGEST) == b"+OK\r\n"
        assert wire.call("BGSAVE") == b"+Background saving started\r\n"
        assert field(wire, "rdb_bgsave_in_progress", "persistence") == "1"
        assert wire.call("SET", "k", 1) == b"+OK\r\n"
        assert field(wire, "rdb_bgsave_in_progress", "persistence") == "1"


def test_a_load_from_the_primary_takes_as_long_as_its_keys_cost(start_server: StartServer) -> None:
    primary = start_server("headrace", "--repl-diskless-sync-delay", "0")
    replica = start_server("headrace", "--key-load-delay", str(LONGEST))
    with primary.connect() as above, replica.connect() as below:
        fill(above)
        below.call("SET", "old", 1)
        below.call("REPLICAOF", "127.0.0.1", primary.port)
        until(lambda: field(below, "async_loading", "persistence") == "1", "nothing is loaded")
        assert below.ask("GET", "old") == b"1"
        assert field(below, "master_link_status") == "down"
        # A change counts at once.
        assert below.call("CONFIG", "SET", "key-load-delay", 0) == b"+OK\r\n"
        await_link(below)
        assert field(below, "async_loading", "persistence") == "0"
        assert below.ask("DBSIZE") == KEYS


def test_a_start_takes_as_long_as_its_keys_cost(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server("headrace", "--save", "3600 1")
    with server.connect() as wire:
        fill(wire)
    server.stop()
    slow = SlowServer("headrace", server.folder, "--save", "3600 1", "--key-load-delay", str(LONGEST)).start()
    try:
        with slow.connect() as wire:
            assert wire.call("GET", "k1").startswith(b"-LOADING")
            assert field(wire, "loading", "persistence") == "1"
            assert wire.call("CONFIG", "SET", "key-load-delay", 0) == b"+OK\r\n"
            until(lambda: wire.call("PING") == b"+PONG\r\n", "the load does not end")
            assert wire.ask("DBSIZE") == KEYS
    finally:
        slow.stop()


class SlowServer(Server):
    """A server that answers before it has loaded its dataset."""

    def _answers(self) -> bool:
        try:
            with Wire(self.port, timeout_s=5.0) as wire:
                return wire.call("PING").startswith((b"+PONG", b"-LOADING"))
        except OSError:
            return False
