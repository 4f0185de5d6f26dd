"""kill -9 of a primary or a replica in each state of their link, in pairs of a Headrace and a Redis: after a restart
the replica has the data of the primary.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.equality import differences
from support.every_state import fill_all
from support.held_link import HeldLink
from support.links import field, until
from support.servers import Server
from support.wire import Wire

pytestmark = pytest.mark.oracle

# What a server sends before its first answer to REPLCONF: +PONG.
FIRST_REPLY_SIZE = 7
# Some of the snapshot, whose large values do not fit into the buffers of the connection.
PASSED_SIZE = 200_000
LARGE_COUNT, LARGE_SIZE = 16, 1 << 20
# A snapshot or a load of the small keys takes two seconds: longer than it takes to notice it. Then the child of a Redis
# that was killed ends, too.
SMALL_COUNT, SMALL_SIZE, DELAY_US = 100, 2000, 20_000
WRITES_COUNT = 3000
UNLIMITED = 1 << 62
DEADLINE_S = 30.0
# How the primary shows a replica whose snapshot is made or sent. The servers differ in when it is which.
GETS_SNAPSHOT = "state=(wait_bgsave|send_bulk)"
# A base in text has no count of the idempotent IDs that were added, and a replica that was killed after it had
# written its base continues from there.
LOG = ("--appendonly", "yes", "--aof-use-rdb-preamble", "yes")
OPTIONS = (*LOG, "--repl-diskless-sync-delay", "0", "--rdbcompression", "no")


class Scene:
    """A primary with data of all types, and a replica that follows through a link that can be held."""

    def __init__(self, folder: Path, primary_name: str) -> None:
        self.folder = folder
        self.names = (primary_name, "oracle" if primary_name == "headrace" else "headrace")
        self.link: HeldLink | None = None
        self.servers: list[Server] = []

    def begin(
        self,
        *primary_options: str,
        replica_options: tuple[str, ...] = (),
        passed_max: int = UNLIMITED,
        is_large: bool = False,
    ) -> None:
        """Start both. The replica begins to follow."""
        self.primary = Server(self.names[0], self.folder / "primary", *OPTIONS, *primary_options)
        self.servers.append(self.primary.start())
        with self.primary.connect() as wire:
            fill(wire, is_large=is_large)
        self.link = HeldLink(self.primary.port, passed_max)
        options = (*OPTIONS, "--replicaof", f"127.0.0.1 {self.link.port}", *replica_options)
        self.replica = Server(self.names[1], self.folder / "replica", *options)
        self.servers.append(self.replica.start())

    def when(self, server: Server, pattern: str, section: str) -> None:
        """Wait until INFO of a server matches a pattern."""
        with server.connect() as wire:
            until(lambda: re.search(pattern, wire.ask("INFO", section).decode()), f"no {pattern}", DEADLINE_S)

    def converge(self) -> None:
        """Write more, and wait until the replica has the data of the primary."""
        assert self.link is not None
        self.link.release()
        with self.primary.connect() as above, self.replica.connect() as below:
            for wire in (above, below):
                wire.call("CONFIG", "SET", "rdb-key-save-delay", 0, "key-load-delay", 0)
            assert above.ask("STRLEN", f"small:{SMALL_COUNT - 1}") == SMALL_SIZE
            for number in range(20):
                above.call("XADD", "after", "*", "number", number)
            until(
                lambda: field(below, "master_link_status") == "up" and place(above) == place(below),
                "no link",
                DEADLINE_S,
            )
        wrong = differences(self.primary, self.replica)
        assert not wrong, wrong

    def end(self) -> None:
        """End all."""
        for server in self.servers:
            server.kill()
        if self.link is not None:
            self.link.close()


def fill(wire: Wire, *, is_large: bool) -> None:
    """Data of all types."""
    rnd = random.Random(1)
    fill_all(wire, 1)
    wire.call("RPUSH", "list", *range(300))
    wire.call("SADD", "set", *range(300), "word")
    wire.call("ZADD", "ranks", *(number for pair in zip(range(300), range(300), strict=True) for number in pair))
    wire.call("HSET", "hash", "f", "v", "g", "w")
    wire.call("HPEXPIRE", "hash", 100_000_000, "FIELDS", 1, "f")
    wire.call("ARSET", "array", 7, "x")
    for number in range(SMALL_COUNT):
        wire.call("SET", f"small:{number}", rnd.randbytes(SMALL_SIZE))
    for number in range(LARGE_COUNT if is_large else 0):
        wire.call("SET", f"large:{number}", rnd.randbytes(LARGE_SIZE))


def place(wire: Wire) -> tuple[str, str]:
    """The history and the offset in it."""
    return field(wire, "master_replid"), field(wire, "master_repl_offset")


def role(wire: Wire) -> bytes:
    """The state of the link, as the replica has it."""
    return bytes(wire.ask("ROLE")[3])


# -- the states ------------------------------------------------------------------------------------


def in_handshake(scene: Scene) -> None:
    """The primary has answered PING, and its answers to REPLCONF do not arrive."""
    scene.begin(passed_max=FIRST_REPLY_SIZE)
    with scene.primary.connect() as above, scene.replica.connect() as below:
        until(lambda: b"cmd=replconf" in above.ask("CLIENT", "LIST"), "no REPLCONF", DEADLINE_S)
        until(lambda: role(below) == b"handshake", "no handshake", DEADLINE_S)


def while_the_snapshot_is_made(scene: Scene) -> None:
    """A file is written, a slow key after the other."""
    scene.begin("--repl-diskless-sync", "no", "--rdb-key-save-delay", str(DELAY_US))
    scene.when(scene.primary, GETS_SNAPSHOT, "replication")
    scene.when(scene.replica, "master_sync_in_progress:1", "replication")


def while_the_snapshot_is_made_and_sent(scene: Scene) -> None:
    """Without a file, a slow key after the other."""
    scene.begin("--repl-diskless-sync", "yes", "--rdb-key-save-delay", str(DELAY_US))
    scene.when(scene.primary, GETS_SNAPSHOT, "replication")
    scene.when(scene.replica, "master_sync_in_progress:1", "replication")


def in_the_middle_of_a_snapshot(scene: Scene) -> None:
    """A part of it has arrived, and the rest waits in the network."""
    scene.begin(passed_max=PASSED_SIZE, is_large=True)
    scene.when(scene.primary, GETS_SNAPSHOT, "replication")
    scene.when(scene.replica, "master_sync_in_progress:1", "replication")
    assert scene.link is not None
    link = scene.link
    until(lambda: link.is_holding, "the snapshot does not begin", DEADLINE_S)


def while_loading(scene: Scene) -> None:
    """The replica loads, a slow key after the other."""
    options = ("--key-load-delay", str(DELAY_US))
    if scene.names[1] == "oracle":
        options += ("--loading-process-events-interval-bytes", "1024")
    scene.begin(replica_options=options)
    scene.when(scene.replica, "loading:1", "persistence")
    scene.replica.options = scene.replica.options[: -len(options)]


def in_the_stream(scene: Scene) -> None:
    """The replica follows, and the primary has not run all that it was sent."""
    scene.begin()
    scene.when(scene.replica, "master_link_status:up", "replication")
    with scene.primary.connect() as wire:
        for number in range(WRITES_COUNT):
            wire.send("XADD", "load", "*", "n", number)
        for _ in range(WRITES_COUNT // 2):
            wire.receive()


STATES = [
    in_handshake,
    while_the_snapshot_is_made,
    while_the_snapshot_is_made_and_sent,
    in_the_middle_of_a_snapshot,
    while_loading,
    in_the_stream,
]


@pytest.fixture
def scene(tmp_path: Path, request: pytest.FixtureRequest, oracle_tools: Path) -> Iterator[Scene]:
    """A pair of servers that has not begun."""
    scene = Scene(tmp_path, request.param)
    yield scene
    scene.end()


@pytest.mark.parametrize("scene", ["headrace", "oracle"], indirect=True, ids=["of a headrace", "of a redis"])
@pytest.mark.parametrize("killed", ["primary", "replica"])
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_the_data_are_equal_after_a_kill(scene: Scene, killed: str, state: Callable[[Scene], None]) -> None:
    state(scene)
    server: Server = getattr(scene, killed)
    server.kill()
    if killed == "replica":
        with scene.primary.connect() as wire:
            for number in range(20):
                wire.call("XADD", "meanwhile", "*", "number", number)
    server.start(server.port)
    scene.converge()
