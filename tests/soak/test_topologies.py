"""Five servers, Headrace and Redis mixed, follow each other in trees that change again and again, while clients write.

Goal: after each change all have the same data, and no server needs a new snapshot: what it missed is enough. Method, as
in the test psync2 of Redis: a random server becomes the primary, the others follow it or each other at random, links
are cut, and then all must come to the same offset. `headrace-compare` compares every server with the primary.

make soak MINUTES=30
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from headrace.comparison.main import main
from support.links import field, follow, until
from support.servers import Server
from support.wire import Wire

MINUTES = float(os.environ.get("HEADRACE_TEST_SOAK_MINUTES", "0.2"))
# A long run may take longer than other tests.
pytestmark = [pytest.mark.oracle, pytest.mark.timeout(900 + 120 * MINUTES)]
NAMES = ("headrace", "headrace", "headrace", "oracle", "oracle")
# A primary that was replaced, and has not been notified yet, must write nothing of its own: no signs of life.
OPTIONS = ("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "3600", "--repl-backlog-size", "10mb")
WRITES_COUNT = 40
SETTLE_DEADLINE_S = 30.0
KEYS = ("a", "b", "c")
DATABASES = (0, 0, 0, 3)
# The last digits of INFO stats.
FULL, PARTIAL = "sync_full", "sync_partial_ok"


class Writer:
    """Random writes: streams with groups, idempotent producers, strings, transactions, messages."""

    def __init__(self, choices: random.Random) -> None:
        self._choices = choices
        self._numbers = count(1)

    def write(self, wire: Wire) -> None:
        """One write. It may change nothing, or be an error that changes nothing."""
        wire.call("SELECT", self._choices.choice(DATABASES))
        for words in self._choices.choice(self._acts())(self._choices.choice(KEYS), next(self._numbers)):
            wire.call(*words)

    def _acts(self) -> list[Callable[[str, int], list[tuple[object, ...]]]]:
        draw = self._choices.randrange
        group, consumer = f"g{draw(2)}", f"c{draw(3)}"
        return [
            lambda key, number: [("XADD", key, "MAXLEN", "~", 200, "*", "n", number)],
            lambda key, number: [("XADD", key, "*", "n", "v" * draw(2000))],
            lambda key, number: [("XADD", key, "IDMP", "p", number - draw(3), "*", "n", number)],
            lambda key, number: [("XGROUP", "CREATE", key, group, "0", "MKSTREAM")],
            lambda key, number: [("XREADGROUP", "GROUP", group, consumer, "COUNT", 5, "STREAMS", key, ">")],
            # Redis does not replicate a consumer that a claim of nothing has made.
            lambda key, number: [
                ("XGROUP", "CREATECONSUMER", key, group, consumer),
                ("XAUTOCLAIM", key, group, consumer, 0, "-", "COUNT", 3),
            ],
            lambda key, number: [("XNACK", key, group, "FAIL", "IDS", 1, "1-1", "FORCE")],
            lambda key, number: [("XTRIM", key, "MAXLEN", 150)],
            lambda key, number: [("XACKDEL", key, group, "ACKED", "IDS", 1, "1-1")],
            lambda key, number: [("INCR", f"n{key}")],
            lambda key, number: [("SET", f"t{key}", "v" * draw(100), "PX", 100_000_000 + number)],
            lambda key, number: [("DEL", f"t{key}")],
            lambda key, number: [("MULTI",), ("INCR", "m"), ("XADD", key, "*", "n", number), ("EXEC",)],
            lambda key, number: [("PUBLISH", "channel", number)],
            # Expired at once: the primary sends DEL.
            lambda key, number: [("SET", "short", number, "PX", 1), ("GET", "short")],
        ]


class Servers:
    """The five servers, and a connection to each. `primary` is the index of the one that takes writes."""

    def __init__(self, servers: list[Server]) -> None:
        self.servers = servers
        self.wires = [server.connect() for server in servers]
        self.primary = 0

    def total(self, name: str) -> int:
        """A counter of INFO stats, of all servers together."""
        return sum(int(field(wire, name, "stats")) for wire in self.wires)

    def settle(self) -> None:
        """Wait until all follow in one history and have the same offset."""
        # A primary that was replaced and has not been notified must delete nothing of its own.
        above = self.wires[self.primary]
        for index in set(DATABASES):
            above.call("SELECT", index)
            until(lambda: above.ask("EXISTS", "short") == 0, "a key does not expire")
        deadline_s = time.monotonic() + SETTLE_DEADLINE_S
        while time.monotonic() < deadline_s:
            states = [self._state(wire) for wire in self.wires]
            links = [state[2] for index, state in enumerate(states) if index != self.primary]
            if links == ["up"] * len(links) and len({state[:2] for state in states}) == 1:
                return
        shown = [
            f"{index} {server.name} {server.port}: {self._state(wire)}"
            for index, (server, wire) in enumerate(zip(self.servers, self.wires, strict=True))
        ]
        raise AssertionError("\n".join(["the servers do not come to one place", *shown]))

    def _is_below_primary(self, index: int) -> bool:
        """Whether a server has the history of the primary, over links that are up."""
        state, above = self._state(self.wires[index]), self._state(self.wires[self.primary])
        return state[0] == above[0] and state[2] == "up"

    @staticmethod
    def _state(wire: Wire) -> tuple[str, str, str, str]:
        """The place in the stream, the state of the link, and whom the server follows."""
        lines = wire.ask("INFO", "replication").decode().splitlines()
        fields = dict(line.partition(":")[::2] for line in lines)
        names = ("master_replid", "master_repl_offset", "master_link_status", "master_port")
        return tuple(fields.get(name, "") for name in names)

    def rearrange(self, choices: random.Random, write: Callable[[Wire], None] | None) -> str:
        """Make another server the primary, and let the others follow in a random tree, one after the other. Returns the
        tree. `write` is called for the new primary meanwhile, and the servers do not wait for each other.
        """
        self.primary = choices.randrange(len(self.servers))
        assert self.wires[self.primary].call("REPLICAOF", "NO", "ONE") == b"+OK\r\n"
        tree, placed = [f"primary {self.primary}"], [self.primary]
        others = [index for index in range(len(self.servers)) if index != self.primary]
        for index in choices.sample(others, len(others)):
            above = choices.choice(placed)
            reply = self.wires[index].call("REPLICAOF", "127.0.0.1", self.servers[above].port)
            assert reply.startswith(b"+OK"), reply
            placed.append(index)
            tree.append(f"{index} of {above}")
            if write is None:
                until(lambda: self._is_below_primary(index), "a server does not follow")  # noqa: B023
                continue
            for _ in range(choices.randrange(10)):
                write(self.wires[self.primary])
        return ", ".join(tree)

    def cut(self, choices: random.Random) -> None:
        """Cut links of one server, upward or downward."""
        kind = choices.choice(("MASTER", "REPLICA"))
        choices.choice(self.wires).call("CLIENT", "KILL", "TYPE", kind)

    def differences(self, capsys: pytest.CaptureFixture[str]) -> list[str]:
        """What the servers show differently from the primary."""
        found = []
        above = f"127.0.0.1:{self.servers[self.primary].port}"
        for index, server in enumerate(self.servers):
            if index != self.primary and main([above, f"127.0.0.1:{server.port}", "--rounds", "3"]):
                found += [f"{index}: {line}" for line in capsys.readouterr().out.splitlines()]
        capsys.readouterr()
        digests = {wire.ask("DEBUG", "DIGEST") for wire in self.wires}
        return found + ([] if len(digests) == 1 else [f"digests {digests}"])


@pytest.fixture
def servers(start_server: Callable[..., Server]) -> Iterator[Servers]:
    servers = Servers([start_server(name, *OPTIONS) for name in NAMES])
    yield servers
    for wire in servers.wires:
        wire.close()


def test_servers_in_changing_trees_stay_equal_without_new_snapshots(
    servers: Servers, capsys: pytest.CaptureFixture[str], record_property: Callable[[str, object], None]
) -> None:
    seed = int(os.environ.get("HEADRACE_TEST_SOAK_SEED") or random.randrange(1 << 32))
    choices = random.Random(seed)
    print("seed", seed)
    writer = Writer(choices)
    for wire in servers.wires[1:]:
        follow(wire, servers.servers[0])
    servers.settle()
    full_count, partial_count = servers.total(FULL), servers.total(PARTIAL)
    assert full_count == len(NAMES) - 1
    deadline_s = time.monotonic() + MINUTES * 60
    trees: list[str] = []
    snapshots_count = 0
    while time.monotonic() < deadline_s or len(trees) < 2:
        # Without waiting, a server may have more than the one that it shall follow, or the ID of a newer history. Then
        # it needs a snapshot, in trees of Redis alone too. That is rare.
        is_quiet = choices.random() < 0.7
        trees.append(servers.rearrange(choices, None if is_quiet else writer.write))
        if is_quiet:
            servers.settle()
        for _ in range(WRITES_COUNT):
            writer.write(servers.wires[servers.primary])
            if choices.random() < 0.1:
                servers.cut(choices)
        servers.settle()
        where = f"seed {seed}, trees: {'; '.join(trees[-3:])}"
        found = servers.differences(capsys)
        assert not found, "\n".join([where, *found[:10]])
        new_count = servers.total(FULL) - full_count
        full_count += new_count
        assert not (is_quiet and new_count), f"a snapshot was sent: {where}"
        snapshots_count += new_count
    record_property("topologies", len(trees))
    partial_count = servers.total(PARTIAL) - partial_count
    record_property("partial resynchronizations", partial_count)
    with capsys.disabled():
        print(
            f"\nseed {seed}: {len(trees)} topologies, {partial_count} partial resynchronizations, "
            f"{snapshots_count} snapshots"
        )
    assert snapshots_count <= 1 + len(trees) // 20
    assert partial_count >= len(trees)
