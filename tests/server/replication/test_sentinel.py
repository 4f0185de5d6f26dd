"""Redis' Sentinel watches a Headrace with two replicas, and promotes one of them when the primary is killed."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.links import await_link, field, follow, settle, until
from support.ports import free_port
from support.servers import Server
from support.wire import Wire

pytestmark = pytest.mark.oracle

CONFIGURATION = """\
port {port}
bind 127.0.0.1
sentinel monitor orders 127.0.0.1 {primary} 1
sentinel down-after-milliseconds orders 1000
sentinel failover-timeout orders 20000
"""


@pytest.fixture
def watch(oracle_tools: Path, tmp_path: Path) -> Iterator[Callable[[Server], Wire]]:
    """Starts a Sentinel that watches a primary. Returns a connection to it."""
    started: list[subprocess.Popen[bytes]] = []

    def start(primary: Server) -> Wire:
        port, path = free_port(), tmp_path / "sentinel.conf"
        path.write_text(CONFIGURATION.format(port=port, primary=primary.port))
        words = [oracle_tools / "redis-server", path, "--sentinel", "--logfile", tmp_path / "sentinel.log"]
        started.append(subprocess.Popen(words, cwd=tmp_path))
        found: list[Wire] = []

        def answers() -> bool:
            try:
                found.append(Wire(port))
            except ConnectionRefusedError:
                return False
            return True

        until(answers, "the Sentinel does not start")
        return found[0]

    yield start
    for process in started:
        process.kill()
        process.wait()


def _facts(sentinel: Wire) -> dict[bytes, bytes]:
    """What the Sentinel knows of the primary."""
    words = sentinel.ask("SENTINEL", "MASTER", "orders")
    return dict(zip(words[::2], words[1::2], strict=True))


def test_sentinel_promotes_a_replica_and_the_other_one_continues(
    start_server: Callable[..., Server], watch: Callable[[Server], Wire]
) -> None:
    primary, *replicas = (start_server("headrace", "--repl-diskless-sync-delay", "0") for _ in range(3))
    with primary.connect() as above:
        wires = [replica.connect() for replica in replicas]
        for wire in wires:
            follow(wire, primary)
        sentinel = watch(primary)
        until(lambda: len(sentinel.ask("SENTINEL", "REPLICAS", "orders")) == 2, "the replicas are not found")
        above.call("XADD", "s", "1-1", "f", "v")
        settle(above, *wires)
    primary.kill()

    def chosen() -> int:
        return int(sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "orders")[1])

    until(lambda: chosen() != primary.port, "no replica is promoted")
    promoted, other = sorted(replicas, key=lambda replica: replica.port != chosen())
    # While it changes the other replica, Sentinel closes the connections of clients.
    until(lambda: b"failover" not in _facts(sentinel)[b"flags"], "the failover does not end")
    with promoted.connect() as above, other.connect() as below:
        until(
            lambda: field(below, "master_port") == str(promoted.port), "the other replica is not led to the new primary"
        )
        await_link(below)
        assert field(above, "role") == "master"
        assert above.call("XADD", "s", "2-1", "f", "v") == b"$3\r\n2-1\r\n"
        settle(above, below)
        assert below.ask("XLEN", "s") == 2
        assert field(above, "sync_full", "stats") == "0"
