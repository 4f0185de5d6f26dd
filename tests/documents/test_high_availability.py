"""docs/high-availability.md: its files and command lines set up servers with Sentinels, and change the primary."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.documents import ROOT
from support.links import settle, until
from support.replies import Node
from support.sentinels import NAME
from support.watched import FAILOVER_DEADLINE_S, Member, StartWatched, Watched, start_all

PAGE = (ROOT / "docs" / "high-availability.md").read_text("utf-8")
ADDRESS = "10.0.0.1 6379"

pytestmark = pytest.mark.oracle


def block(language: str) -> list[str]:
    """The lines of the first block in a language."""
    (text, *_) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def lines(section: str) -> list[str]:
    """The command lines of a section."""
    text = PAGE.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    return [
        line for part in re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE) for line in part.splitlines()
    ]


@pytest.fixture
def watched(oracle_tools: Path, tmp_path: Path) -> Iterator[Watched]:
    """Servers and Sentinels with the files of the page."""
    sentinel = [line.replace("mymaster", NAME) for line in block("ini")]
    assert f"sentinel monitor {NAME} {ADDRESS} 2" in sentinel
    assert f"replicaof {ADDRESS}" in PAGE
    kept = tuple(line for line in sentinel if not line.startswith(("port ", "sentinel monitor ")))
    for start in start_all(tmp_path):
        own: StartWatched = start
        watched = own(("headrace",) * 3, (tuple(block("")),) * 3, lines=kept)
        watched.watch()
        yield watched


def run(watched: Watched, cli: Path, line: str) -> str:
    """The output of a line, which must succeed."""
    assert watched.sentinels is not None
    words = shlex.split(line.replace("mymaster", NAME))
    assert words.pop(0) == "redis-cli"
    port = watched.primary.port
    if words[0] == "-p":
        assert words[1] == "26379"
        port, words = watched.sentinels.ports[0], words[2:]
    done = subprocess.run([cli, "-p", str(port), *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (line, done.stdout, done.stderr)
    return done.stdout


def ids(server: Member) -> list[bytes]:
    with server.connect() as wire:
        return [row[0] for row in wire.ask("XRANGE", "s", "-", "+")]


def test_the_lines_show_what_the_sentinels_know(watched: Watched, cli: Path) -> None:
    quorum, primary, replicas, sentinels = (run(watched, cli, line) for line in lines("Set up"))
    assert quorum.startswith("OK 3 usable Sentinels")
    assert str(watched.link.port) in primary
    assert all(str(replica.port) in replicas for replica in watched.replicas)
    assert sentinels.count("runid") == 2


def test_a_primary_that_is_stopped_in_order_loses_nothing(watched: Watched, cli: Path) -> None:
    (line,) = lines("Change the primary on purpose")
    answered: list[bytes] = []
    wire = watched.primary.connect()
    with watched.primary.connect() as above:
        settle(above, *(replica.connect() for replica in watched.replicas))
    for _ in range(1000):
        wire.send("XADD", "s", "*", "f", "v")
    run(watched, cli, line)
    try:
        while True:
            reply = wire.receive()
            if reply.startswith(b"$"):
                answered.append(reply.split(b"\r\n")[1])
    except ConnectionError:
        pass
    assert answered
    promoted = watched.await_failover()
    assert set(answered) <= set(ids(promoted))

    def writes() -> bool:
        with promoted.connect() as above:
            return not isinstance(above.ask("XADD", "s", "*", "f", "v"), Node)

    until(writes, "the promoted server takes no writes", FAILOVER_DEADLINE_S)
    watched.primary.start(watched.primary.port)
    watched.await_follower(watched.primary, promoted)
