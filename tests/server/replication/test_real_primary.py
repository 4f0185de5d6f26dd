"""Headrace follows a real Redis, and so does a second Redis: after the scripts of all commands both replicas
show the same.

They are compared with each other, and not with the primary: Redis does not replicate everything, as the times at which
consumers were seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.links import await_link, field, settle
from support.scripts import Line, Player, Script, read_scripts
from support.servers import Server
from support.wire import Wire

pytestmark = pytest.mark.oracle

SCRIPTS = read_scripts()
FAMILIES = sorted({script.family for script in SCRIPTS})
# A script that sets a directive of the primary alone, which decides about the shape of its streams.
STREAM_DIRECTIVES = ("stream-",)


class Family:
    """A primary with two replicas: the Headrace that is tested, and the Redis that shows what it should have."""

    def __init__(self, primary: Server, replica: Server, twin: Server) -> None:
        self.primary, self.replica, self.twin = primary, replica, twin
        self.above, self.below, self.beside = primary.connect(), replica.connect(), twin.connect()
        self.followers = (self.below, self.beside)

    def follow(self) -> None:
        """Let the replicas follow, until both links are up."""
        for wire in self.followers:
            assert wire.call("REPLICAOF", "127.0.0.1", self.primary.port) == b"+OK\r\n"
        for wire in self.followers:
            await_link(wire)

    def leave(self) -> None:
        """Let the replicas follow no primary."""
        for wire in self.followers:
            assert wire.call("REPLICAOF", "NO", "ONE") == b"+OK\r\n"

    def settle(self) -> None:
        """Wait until the replicas have everything."""
        settle(self.above, *self.followers)

    def configure(self, *words: object) -> None:
        """CONFIG SET on both replicas."""
        for wire in self.followers:
            assert wire.call("CONFIG", "SET", *words) == b"+OK\r\n"


class Leader(Player):
    """Plays a script on the primary, and lets the replicas know the directives that shape streams."""

    def __init__(self, family: Family) -> None:
        super().__init__(family.primary, 2)
        self._family = family

    def _step(self, line: Line) -> None:
        super()._step(line)
        if line.mode == "@" and line.command.startswith(STREAM_DIRECTIVES):
            self._family.configure(*line.command.split())


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory, oracle_tools: Path) -> Iterator[Family]:
    """A Redis, and two servers that follow it."""
    options = ("--repl-diskless-sync-delay", "0", "--hz", "100")
    primary = Server("oracle", tmp_path_factory.mktemp("primary"), *options).start()
    twin = Server("oracle", tmp_path_factory.mktemp("twin")).start()
    replica = Server("headrace", tmp_path_factory.mktemp("replica"), "--appendonly", "yes").start()
    family = Family(primary, replica, twin)
    family.follow()
    yield family
    for server in (replica, twin, primary):
        server.stop()


def play(family: Family, script: Script) -> None:
    """Play a script on the emptied primary."""
    family.configure("stream-node-max-entries", 100, "stream-node-max-bytes", 4096)
    for wire in family.followers:
        assert wire.call("CONFIG", "RESETSTAT") == b"+OK\r\n"
    leader = Leader(family)
    leader.begin()
    try:
        leader.run(script)
    finally:
        leader.end()


def digest(wire: Wire) -> str:
    """The digest of the dataset."""
    return str(wire.ask("DEBUG", "DIGEST"))


def errors_count(wire: Wire) -> str:
    """How many commands of the primary have ended in an error. Redis has some that no replica can run."""
    return field(wire, "unexpected_error_replies", "stats")


def is_loadable(wire: Wire) -> bool:
    """Whether Redis can read its own file of the dataset: it ends at groups that have read more than was added."""
    for key in wire.ask("KEYS", "*"):
        if wire.ask("TYPE", key) == b"stream":
            added = _pairs(wire.ask("XINFO", "STREAM", key))[b"entries-added"]
            for group in wire.ask("XINFO", "GROUPS", key):
                if (_pairs(group)[b"entries-read"] or 0) > added:
                    return False
    return True


def _pairs(flat: list[Any]) -> dict[Any, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def differences(family: Family, title: str) -> list[str]:
    """What the two replicas show differently."""
    ours, theirs = (Player(server, 2).state() for server in (family.replica, family.twin))
    wrong = [f"{title}: {a} / {b}" for a, b in zip(ours, theirs, strict=False) if not a.agrees_with(b)]
    if len(ours) != len(theirs):
        wrong.append(f"{title}: {len(ours)} and {len(theirs)} facts")
    digests, errors = ({ask(wire) for wire in family.followers} for ask in (digest, errors_count))
    if len(digests) > 1:
        wrong.append(f"{title}: the digests differ")
    if len(errors) > 1:
        wrong.append(f"{title}: commands ended in errors: {errors}, {family.replica.log_tail()[-300:]}")
    return wrong


@pytest.mark.parametrize("name", FAMILIES)
def test_what_scripts_do_at_the_primary_arrives(family, name):
    wrong = []
    for script in SCRIPTS:
        if script.family == name:
            play(family, script)
            family.settle()
            wrong += differences(family, script.title)
    assert not wrong, "\n".join(wrong[:10])


@pytest.mark.parametrize("name", FAMILIES)
def test_a_dataset_arrives_as_a_whole(family, name):
    """A full synchronization after each script."""
    wrong = []
    for script in SCRIPTS:
        if script.family == name:
            family.leave()
            play(family, script)
            if not is_loadable(family.above):
                family.above.call("FLUSHALL")
            family.follow()
            family.settle()
            wrong += differences(family, script.title)
    assert not wrong, "\n".join(wrong[:10])
