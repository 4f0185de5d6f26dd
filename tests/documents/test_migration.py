"""docs/migration.md: its lines move clients from a Redis to Headrace and back, while they work, without a loss.

The lines run in a shell. Ports, paths and programs are replaced. A producer and workers of a group run all the time,
and find the server that accepts writes by asking both.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.comparison.main import main
from support.documents import ROOT
from support.links import await_link, field, follow, settle, until
from support.replies import Node
from support.servers import Server, oracle_folder
from support.wire import Wire

pytestmark = pytest.mark.oracle

PAGE = ROOT / "docs" / "migration.md"
TIMEOUT_S = 120
WORKERS = ("ann", "bob")
WAYS = ("Change over in one step", "Change over step by step")
STREAM, GROUP = "orders", "billing"
# What a client gets when its server has become a replica.
MOVED = ("READONLY", "UNBLOCKED")


def sections() -> dict[str, list[str]]:
    """The command lines of each section, by its title."""
    found: dict[str, list[str]] = {}
    for part in re.split(r"^## ", PAGE.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        lines = [line for block in re.findall(r"```sh\n(.*?)```", part, re.DOTALL) for line in block.splitlines()]
        found[part.partition("\n")[0]] = [line for line in lines if not line.startswith("#")]
    return {title: lines for title, lines in found.items() if lines}


class Shell:
    """Runs the lines of the page."""

    def __init__(self, redis: Server, folder: Path, start_server: Callable[..., Server]) -> None:
        self._ports = {"6379": redis.port}
        self._folder = folder
        self._start_server = start_server
        self.headrace: Server | None = None

    def run(self, line: str) -> str:
        """The output of a line, which must succeed. `headrace` is started, and answers when this returns."""
        if line.startswith("headrace "):
            words = shlex.split(self._replaced(line))[1:]
            at = words.index("--port")
            del words[at : at + 2]
            self.headrace = self._start_server("headrace", *words)
            self._ports["7000"] = self.headrace.port
            return ""
        words = self._replaced(line)
        done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        assert not re.search(r"^(ERR|\(error\))", done.stdout, re.MULTILINE), (line, done.stdout)
        return done.stdout

    def _replaced(self, line: str) -> str:
        folder = oracle_folder()
        assert folder is not None
        line = line.replace("/var/lib/headrace", str(self._folder / "data"))
        line = re.sub(r"\bredis-cli(?! -p)", "redis-cli -p 6379", line)
        line = re.sub(r"\b(6379|7000)\b", lambda match: str(self._ports.get(match[1], match[1])), line)
        line = re.sub(r"\bredis-cli\b", str(folder / "redis-cli"), line)
        return re.sub(r"^headrace-compare\b", f"{sys.executable} -m headrace.comparison.main", line)


class Clients:
    """A producer and workers that use whichever server accepts writes, and what they were answered."""

    def __init__(self, ports: list[int]) -> None:
        self.ports = ports
        self.added: dict[bytes, int] = {}
        # Deliveries of new entries by ID, and all IDs that a worker got in any way.
        self.delivered: Counter[bytes] = Counter()
        self.received: set[bytes] = set()
        self.moved_count = 0
        self._lock = threading.Lock()
        self._has_ended = threading.Event()
        self.is_draining = threading.Event()
        self.failures: list[BaseException] = []
        self._threads = [threading.Thread(target=self._guard, args=(self._produce,))]
        self._threads += [threading.Thread(target=self._guard, args=(self._work, name)) for name in WORKERS]

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._has_ended.set()
        for thread in self._threads:
            thread.join()

    def _guard(self, work: Callable[..., None], *words: str) -> None:
        try:
            work(*words)
        except BaseException as error:
            self.failures.append(error)

    def _connect(self) -> Wire:
        """A connection to a server that says that it is a primary, the newest one first."""
        while True:
            for port in reversed(self.ports):
                try:
                    wire = Wire(port, timeout_s=90)
                except OSError:
                    continue
                if wire.ask("ROLE")[0] == b"master":
                    return wire
                wire.close()

    def _asked(self, wire: Wire, *words: object) -> object:
        """The reply, or ConnectionError if the server is no primary any more."""
        reply = wire.ask(*words)  # type: ignore[arg-type]
        if isinstance(reply, Node):
            text = str(reply)
            assert any(word in text for word in MOVED), text
            raise ConnectionError(text)
        return reply

    def _sessions(self) -> Iterator[Wire]:
        """Connections, one after the other, until the test ends."""
        while not self._has_ended.is_set():
            with self._connect() as wire:
                yield wire

    def _produce(self) -> None:
        number = 0
        for wire in self._sessions():
            try:
                while not self._has_ended.is_set():
                    if self.is_draining.is_set():
                        self._has_ended.wait(0.05)
                        continue
                    self._has_ended.wait(0.001)  # a rate that a slow machine can replicate
                    number += 1
                    entry_id = self._asked(wire, "XADD", STREAM, "*", "number", number)
                    self.added[entry_id] = number  # type: ignore[index]
            except ConnectionError:
                self.moved_count += 1

    def _work(self, name: str) -> None:
        for wire in self._sessions():
            try:
                # What was delivered when the connection was lost.
                self._take(wire, name, "0")
                while not self._has_ended.is_set():
                    self._take(wire, name, ">", "BLOCK", 200)
            except ConnectionError:
                self.moved_count += 1

    def _take(self, wire: Wire, name: str, start: str, *options: object) -> None:
        words = ("XREADGROUP", "GROUP", GROUP, name, "COUNT", 10, *options, "STREAMS", STREAM, start)
        for _, entries in self._asked(wire, *words) or ():  # type: ignore[attr-defined]
            with self._lock:
                ids = [entry_id for entry_id, _ in entries]
                self.received.update(ids)
                self.delivered.update(ids if start == ">" else ())
            for entry_id in ids:
                self._asked(wire, "XACK", STREAM, GROUP, entry_id)


def test_every_section_with_command_lines_is_tested() -> None:
    assert [*sections()] == ["Look first", "Follow", "Compare", *WAYS, "Going back"]


@pytest.mark.parametrize("way", WAYS)
def test_clients_move_to_headrace_and_back_without_a_loss(
    way: str, tmp_path: Path, start_server: Callable[..., Server]
) -> None:
    redis = start_server("oracle", "--repl-diskless-sync-delay", "0")
    lines = sections()
    shell = Shell(redis, tmp_path, start_server)
    with redis.connect() as wire:
        wire.call("XGROUP", "CREATE", STREAM, GROUP, "$", "MKSTREAM")
        wire.call("SET", "kept", 1, "EX", 10000)
    with Clients([redis.port]) as clients:
        assert "".join(map(shell.run, lines["Look first"][1:])).strip() == ""
        for line in lines["Follow"]:
            shell.run(line)
        headrace = shell.headrace
        assert headrace is not None
        clients.ports.append(headrace.port)
        for title in ("Compare", way):
            for line in lines[title]:
                output = shell.run(line)
                assert not line.startswith("headrace-compare") or output.startswith("equal ("), output
        work_for_a_while(clients)
        for line in lines["Going back"]:
            output = shell.run(line)
            assert not line.startswith("headrace-compare") or output.startswith("equal ("), output
        work_for_a_while(clients)
        clients.is_draining.set()
        with redis.connect() as wire:
            until(lambda: wire.ask("XPENDING", STREAM, GROUP)[0] == 0, "entries stay pending")
    assert clients.failures == []
    assert clients.moved_count >= 2 * 3 - 2, "some clients have not noticed the moves"
    with redis.connect() as wire:
        entries = wire.ask("XRANGE", STREAM, "-", "+")
        (group,) = wire.ask("XINFO", "GROUPS", STREAM)
    ids = {entry_id for entry_id, _ in entries}
    assert len(clients.added) > 100
    assert clients.added.keys() <= ids, "an acknowledged entry is lost"
    assert {number for _, (_, number) in entries} >= {b"%d" % number for number in clients.added.values()}
    assert ids == clients.received, "an entry was not delivered"
    assert max(clients.delivered.values()) == 1, "an entry was delivered twice"
    fields = dict(zip(group[::2], group[1::2], strict=True))
    assert (fields[b"pending"], fields[b"entries-read"], fields[b"lag"]) == (0, len(ids), 0)
    assert shell.run("headrace-compare 127.0.0.1:6379 127.0.0.1:7000").startswith("equal (")


def test_what_fails_midway_can_be_repaired(start_server: Callable[..., Server]) -> None:
    """The rows of the last section: a key of another type, and a promotion that is undone."""
    redis = start_server("oracle", "--repl-diskless-sync-delay", "0")
    headrace = start_server("headrace")
    addresses = [f"127.0.0.1:{redis.port}", f"127.0.0.1:{headrace.port}"]
    with redis.connect() as above, headrace.connect() as below:
        above.call("XADD", "s", "1-1", "f", "v")
        follow(below, redis)
        above.call("VADD", "vectors", "VALUES", "1", "1", "m")
        until(lambda: field(below, "master_link_status") == "down", "the link stays up")
        assert "'vectors'" in field(below, "master_link_error")
        above.call("XADD", "s", "2-1", "f", "v")
        above.call("DEL", "vectors")
        await_link(below)
        settle(above, below)
        assert main(addresses) == 0

        assert below.call("REPLICAOF", "NO", "ONE") == b"+OK\r\n"
        above.call("XADD", "s", "3-1", "f", "v")
        assert main([*addresses, "--rounds", "1"]) == 1
        follow(below, redis)
        settle(above, below)
        assert main(addresses) == 0


def work_for_a_while(clients: Clients) -> None:
    """Until the clients have done some more work."""
    before = len(clients.added), sum(clients.delivered.values())
    until(lambda: len(clients.added) > before[0] + 50, "nothing is added")
    until(lambda: sum(clients.delivered.values()) > before[1] + 50, "nothing is delivered")
