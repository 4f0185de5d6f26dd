"""The random sequences of the differential machine at a primary: each replica has its data, whichever server it is.

The known exception: a Redis does not replicate all that a history read or a claim changes, so replicas of a Redis are
compared with each other, as in test_real_primary.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.differences import SENT_ALONE
from differential.duel import BATCH_STEPS_MAX
from differential.machine import draw_sequence
from differential.openings import Request, Step
from differential.payloads import make_payloads
from differential.side import Side
from differential.values import CLIENTS
from support.equality import differences
from support.lines import quote
from support.links import await_link, field, settle, until
from support.servers import Server
from support.wire import Wire

SEED = int(os.environ.get("HEADRACE_TEST_DIFFERENTIAL_SEED", "1"))
SEEDS_COUNT = 3
SEQUENCES_COUNT = int(os.environ.get("HEADRACE_TEST_DIFFERENTIAL_SEQUENCES", "100"))
# A long run may take longer than other tests.
pytestmark = [pytest.mark.oracle, pytest.mark.timeout(900 + 2 * SEQUENCES_COUNT)]
# After so many sequences the replicas get a snapshot, of the data of all types that are there.
SNAPSHOT_EVERY = 10
KINDS = {b"stream", b"string", b"hash", b"list", b"set", b"zset", b"array"}
# A client of Redis that waits for its FLUSHALL in a thread: what it has sent after it has not been run.
FLUSHING = re.compile(rb"flags=\S*b.* cmd=flush")
OPTIONS = ("--repl-diskless-sync-delay", "0", "--hz", "100")


class Group:
    """A primary, which runs the sequences, and two replicas: a Headrace and a Redis."""

    def __init__(self, primary: Server, ours: Server, theirs: Server, payloads: list[bytes]) -> None:
        self.primary, self.ours, self.theirs = primary, ours, theirs
        self.side = Side(primary)
        self.side.payloads = payloads
        self.followers = (ours.connect(), theirs.connect())
        self._sent: list[str] = []

    def follow(self) -> None:
        """Let the replicas follow, from a snapshot, until both links are up."""
        for wire in self.followers:
            assert wire.call("REPLICAOF", "NO", "ONE") == b"+OK\r\n"
        for wire in self.followers:
            assert wire.call("REPLICAOF", "127.0.0.1", self.primary.port) == b"+OK\r\n"
        for wire in self.followers:
            await_link(wire)

    def play(self, steps: list[Step]) -> None:
        """Run a sequence on the emptied primary, and wait until the replicas have everything."""
        self._sent = []
        self.side.begin(set(CLIENTS))
        for wire in self.followers:
            assert wire.call("CONFIG", "RESETSTAT") == b"+OK\r\n"
        for client, batch in batches(steps):
            requests = self.side.resolve(batch)
            self._sent += [f"{client}> {quote(words)}" for words in requests]
            self.side.send(client, requests)
            self.side.settle()
        until(lambda: not FLUSHING.search(self.side.control.ask("CLIENT", "LIST")), "a flush does not end")
        settle(self.side.control, *self.followers)

    def wrong(self) -> str:
        """What a replica has otherwise than it should, and what was sent; empty if all is equal."""
        reference = self.primary if self.primary.is_headrace else self.theirs
        replicas = [each for each in (self.ours, self.theirs) if each is not reference]
        found = [differences(reference, replica) for replica in replicas]
        servers = [self.side.control, *self.followers] if self.primary.is_headrace else self.followers
        if len({libraries(wire) for wire in servers}) > 1:
            found.append("the libraries of functions differ")
        errors = [field(wire, "unexpected_error_replies", "stats") for wire in self.followers]
        if errors[0] != errors[1] or (self.primary.is_headrace and errors[0] != "0"):
            found.append(f"commands of the primary ended in errors: {errors}, {self.ours.log_tail()[-300:]}")
        return "\n".join([*filter(None, found), *self._sent]) if any(found) else ""

    def close(self) -> None:
        """Close all connections."""
        self.side.close()
        for wire in self.followers:
            wire.close()


def libraries(wire: Wire) -> tuple[bytes, ...]:
    """The libraries of functions. Redis lists them in a random order."""
    return tuple(sorted(library[1] for library in wire.ask("FUNCTION", "LIST")))


def batches(steps: list[Step]) -> Iterator[tuple[str, list[Request]]]:
    """Consecutive steps of one client as pipelines, as the duel sends them."""
    speaker, batch = CLIENTS[0], []
    for client, request in steps:
        is_alone = request[0] in SENT_ALONE
        if batch and (client != speaker or len(batch) == BATCH_STEPS_MAX or is_alone or batch[-1][0] in SENT_ALONE):
            yield speaker, batch
            batch = []
        speaker = client
        batch.append(request)
    if batch:
        yield speaker, batch


@pytest.fixture(scope="module", params=["headrace", "oracle"])
def group(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, oracle_tools: Path
) -> Iterator[Group]:
    """A primary of each kind."""
    servers = [
        Server(name, tmp_path_factory.mktemp(folder), *OPTIONS).start()
        for name, folder in ((request.param, "primary"), ("headrace", "ours"), ("oracle", "theirs"))
    ]
    group = Group(*servers, make_payloads(servers[2]))
    group.follow()
    yield group
    group.close()
    for server in servers:
        server.stop()


@pytest.mark.parametrize("seed", range(SEED, SEED + SEEDS_COUNT))
def test_replicas_have_what_random_sequences_make(group: Group, seed: int) -> None:
    kinds: set[bytes] = set()
    for number in range(SEQUENCES_COUNT):
        group.play(draw_sequence(seed, number))
        kinds |= {group.followers[0].ask("TYPE", key) for key in group.followers[0].ask("KEYS", "*")}
        wrong = group.wrong()
        assert not wrong, f"seed {seed}, sequence {number}: {wrong}"
        if number % SNAPSHOT_EVERY == 0:
            group.follow()
            settle(group.side.control, *group.followers)
            wrong = group.wrong()
            assert not wrong, f"seed {seed}, sequence {number}, by a snapshot: {wrong}"
    assert kinds == KINDS, "the replica has had keys of all types"
