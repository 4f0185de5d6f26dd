"""The server log of a primary and of its replica has the lines that Redis' own tests wait for.

The logs of two Headraces and of two Redis are compared, as far as both have the same steps.
"""

from __future__ import annotations

import re

import pytest

from conftest import StartServer
from support.links import await_link, field, follow, until
from support.servers import Server

pytestmark = pytest.mark.oracle

FAST = ("--repl-diskless-sync-delay", "0", "--repl-rdb-channel", "no", "--repl-timeout", "60")
# Lines of steps that only one of both has: a forked child, a file on the replica's side, and how Redis frees memory.
OTHER_STEPS = re.compile(
    r"BGSAVE|Diskless|Background|child|Fork CoW|receiving|Loading|RDB|Flushing|Discarding|oO0|Streaming|streaming|"
    r"Headrace|User requested|Redis |Configuration|monotonic|Running mode|Server initialized|Ready to|WARNING|Fork|"
    r"DB saved|Done|Successfully streamed|Opening AOF|sub-replicas|unbind|BIO|Increased maximum|Starting to|DB loaded"
)
# A Redis that follows for the first time asks with a history of its own; a Headrace has none then.
FIRST = (
    "Partial resynchronization not accepted: Replication ID mismatch (Replica asked for '~', my replication IDs are "
    "'~' and '~')",
    "Full resync requested by replica 127.0.0.1:PORT1 ",
    "Partial resynchronization not possible (no cached master)",
    "Before turning into a replica, using my own master parameters to synthesize a cached master: I may be able to "
    "synchronize with the new master with just a partial transfer.",
)
OWN = re.compile(
    r"[0-9a-f]{40}|id=\d+ addr=.*?'|\d+ bytes of backlog|from offset \d+|:\d+\)|up to offset: \d+|byte \d+"
)


def lines(server: Server, *ports: int) -> list[str]:
    """The lines of a log, without what differs between two runs."""
    found = re.findall(r"^\d+:\w (?:\S+ ){4}[*#-] (.*)$", server.log_path.read_text("utf-8", "replace"), re.MULTILINE)
    shown = []
    for line in found:
        if not OTHER_STEPS.search(line):
            for number, port in enumerate(ports):
                line = line.replace(str(port), f"PORT{number}")
            shown.append(OWN.sub("~", line))
    return shown


def logs(start_server: StartServer, name: str) -> tuple[list[str], list[str]]:
    """A first synchronization, a lost link, a wrong request, the same primary again, and a promotion."""
    primary, replica = start_server(name, *FAST), start_server(name, *FAST)
    with primary.connect() as above, replica.connect() as below:
        above.call("SET", "k", 1)
        with primary.connect() as wire:
            wire.call("REPLCONF", "listening-port", 9)
            assert wire.call("PSYNC", "?", "x") == b"-ERR value is not an integer or out of range\r\n"
        below.call("SLAVEOF", "127.0.0.1", primary.port)
        await_link(below)
        until(lambda: b"state=online" in above.ask("INFO", "replication"), "the replica is not online")
        assert below.call("REPLICAOF", "127.0.0.1", primary.port).startswith(b"+OK Already")
        above.call("CLIENT", "KILL", "TYPE", "replica")
        until(lambda: field(above, "sync_partial_ok", "stats") == "1", "the replica does not come back")
        below.call("REPLICAOF", "NO", "ONE")
        follow(above, replica)
        with replica.connect() as wire:
            wire.send("PSYNC", "a" * 40, 1)
            wire.wait()
        with replica.connect() as wire:
            wire.send("PSYNC", field(below, "master_replid"), 10**6)
            wire.wait()
        until(lambda: field(below, "connected_slaves") == "1", "the others do not leave")
    ports = primary.port, replica.port
    return lines(primary, *ports), lines(replica, *ports)


def test_both_sides_log_the_steps_in_the_words_of_redis(start_server: StartServer) -> None:
    ours, theirs = logs(start_server, "headrace"), logs(start_server, "oracle")
    for mine, their in zip(ours, theirs, strict=True):
        # Which of two steps at one moment is logged first does not matter.
        assert sorted({*mine, *FIRST}) == sorted({*their, *FIRST})
    assert FIRST[0] in ours[1], "another server than the first asks with another history"
