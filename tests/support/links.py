"""Real servers that follow each other: waiting until they do."""

from __future__ import annotations

import time
from collections.abc import Callable

from support.servers import Server
from support.wire import Wire

DEADLINE_S = 20.0
RETRY_S = 0.01


def field(wire: Wire, name: str, section: str = "replication") -> str:
    """A field of INFO."""
    for line in wire.ask("INFO", section).decode().splitlines():
        if line.startswith(f"{name}:"):
            return str(line.partition(":")[2])
    raise AssertionError(f"INFO has no {name}")


def until(condition: Callable[[], object], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Ask again and again until it is so."""
    deadline = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(RETRY_S)


def await_link(wire: Wire) -> None:
    """Wait until this server follows its primary."""
    until(lambda: field(wire, "master_link_status") == "up", "the link does not come up")


def follow(wire: Wire, primary: Server) -> None:
    """Let a server follow another one, until the link is up."""
    assert wire.call("REPLICAOF", "127.0.0.1", primary.port).startswith(b"+OK")
    await_link(wire)


def settle(*wires: Wire) -> None:
    """Wait until all servers have the same offset."""

    def are_equal() -> bool:
        return len({field(wire, "master_repl_offset") for wire in wires}) == 1

    until(are_equal, "the offsets stay different")
