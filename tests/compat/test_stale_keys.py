"""Keys that have expired and are still there: which commands see and remove them, and when WATCH fails."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from differential.grammar import ROWS
from differential.plain_requests import always_waits, requests_to
from headrace.commands.core.table import Row, Trait
from support.lines import split
from support.servers import Server
from support.wire import Wire, encode

pytestmark = pytest.mark.oracle

REQUESTS_COUNT = 6
KEYS = ("s", "t", "u", "str", "num")
# The keys of database 0 and 1 that have expired, and a watched one of each database that is not there.
FIXTURE = [
    "FLUSHALL", "SET str hello PX 1", "SET num 7 PX 1", "XADD s 1-1 f v", "XADD s 2-1 f v", "XGROUP CREATE s g 0",
    "XREADGROUP GROUP g c COUNT 1 STREAMS s >", "PEXPIRE s 1", "XADD t 1-1 f v", "PEXPIRE t 1", "SET u 1",
    "SELECT 1", "SET str there PX 1", "SET other 1 PX 1", "XADD s 1-1 f v", "SELECT 0", "DEBUG SLEEP 0.002",
]  # fmt: skip
# Commands whose replies two servers do not agree on.
LEFT_OUT = {"MEMORY|USAGE", "OBJECT|IDLETIME"}
GENERATED_ID = re.compile(rb"\b1[0-9]{12}-[0-9]+\b")
# Requests that the grammar of the table draws too seldom.
ALWAYS = {
    "SWAPDB": ["SWAPDB 0 1", "SWAPDB 1 0", "SWAPDB 0 2"],
    "COPY": ["COPY u str REPLACE", "COPY u s DB 1", "COPY str u REPLACE", "COPY u other DB 1 REPLACE", "COPY u no"],
    "MOVE": ["MOVE u 1", "MOVE str 1", "MOVE num 1", "MOVE t 1"],
    "RENAME": ["RENAME u str", "RENAME str u", "RENAME s t"],
    "SCAN": ["SCAN 0 MATCH str COUNT 100", "SCAN 0 TYPE stream COUNT 100", "SCAN 0 MATCH no* COUNT 100"],
    "KEYS": ["KEYS *", "KEYS s*"],
    "FLUSHDB": ["FLUSHDB"],
    "FLUSHALL": ["FLUSHALL"],
}
DRAWN = [row for row in ROWS if row.name not in LEFT_OUT and (row.keys or row.name in ALWAYS)]


def requests_of(row: Row) -> list[tuple[bytes, ...]]:
    return requests_to(row, REQUESTS_COUNT) + [tuple(split(line)) for line in ALWAYS.get(row.name, [])]


class Scene:
    """A server with stale keys, a client that watches each of them, and a subscriber to events."""

    def __init__(self, server: Server) -> None:
        self.control = server.connect()
        self.control.call("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        self.control.call("CONFIG", "SET", "notify-keyspace-events", "KEAmnoc")
        self.ear = server.connect()
        self.ear.call("PSUBSCRIBE", "__key*")
        self.watchers = {(db, key): server.connect() for db in (0, 1) for key in (*KEYS, "no", "other")}
        for (db, _), wire in self.watchers.items():
            wire.call("SELECT", db)
        self.caller = server.connect()

    def close(self) -> None:
        """Leave the server as it was."""
        self.control.call("CONFIG", "SET", "notify-keyspace-events", "")
        self.control.call("DEBUG", "SET-ACTIVE-EXPIRE", 1)
        for wire in (self.control, self.ear, self.caller, *self.watchers.values()):
            wire.close()

    def play(self, row: Row, request: tuple[bytes, ...]) -> dict[str, object]:
        """What the request brings."""
        together(self.control, FIXTURE)
        for (_, key), wire in self.watchers.items():
            wire.send("WATCH", key)
        for wire in self.watchers.values():
            wire.receive()
        self.heard()
        found: dict[str, object] = {"reply": self.ask(row, request), "events": self.heard()}
        found["sizes"] = together(self.control, ["DBSIZE", "SELECT 1", "DBSIZE", "SELECT 0"])
        for wire in self.watchers.values():
            wire.send_bytes(encode([b"MULTI"]) + encode([b"EXEC"]))
        ends = {place: (wire.receive(), wire.receive())[1] for place, wire in self.watchers.items()}
        found["failed"] = [place for place, reply in ends.items() if reply == b"*-1\r\n"]
        return found

    def ask(self, row: Row, request: tuple[bytes, ...]) -> bytes:
        """The reply, without the ID that a server generated. A command that would wait is sent in a transaction."""
        if always_waits(row):
            return b"".join(self.caller.call(*words) for words in ((b"MULTI",), request, (b"EXEC",)))
        return GENERATED_ID.sub(b"<generated>", self.caller.call(*request))

    def heard(self) -> list[bytes]:
        """The events that have arrived, in any order: a SCAN finds keys in the order of a hash table."""
        for _ in range(2):
            self.control.call("PING")
        frames = []
        while (frame := self.ear.receive_if_arrived()) is not None:
            frames.append(frame)
        return sorted(frames)

    def play_paused(self, row: Row, request: tuple[bytes, ...]) -> dict[str, object]:
        """What a read brings during a pause, and what is there afterwards."""
        together(self.control, FIXTURE)
        self.heard()
        self.control.call("CLIENT", "PAUSE", 100_000, "WRITE")
        found: dict[str, object] = {"reply": self.ask(row, request), "events": self.heard()}
        self.control.call("CLIENT", "UNPAUSE")
        found["sizes"] = together(self.control, ["DBSIZE", "SELECT 1", "DBSIZE", "SELECT 0"])
        return found


def require_equal(row: Row, play: Callable[[Scene, Row, tuple[bytes, ...]], object], *servers: Server) -> None:
    """Each request leaves the same on both servers."""
    scenes = [Scene(server) for server in servers]
    try:
        for request in requests_of(row):
            ours, theirs = (play(scene, row, request) for scene in scenes)
            assert ours == theirs, request
    finally:
        for scene in scenes:
            scene.close()


def together(wire: Wire, lines: list[str]) -> list[bytes]:
    """The replies to a pipeline."""
    wire.send_bytes(b"".join(encode(split(line)) for line in lines))
    return [wire.receive() for _ in lines]


@pytest.mark.parametrize("row", DRAWN, ids=lambda row: row.name)
def test_each_command_sees_and_removes_stale_keys_as_in_redis(row: Row, headrace: Server, oracle: Server) -> None:
    require_equal(row, Scene.play, headrace, oracle)


READS = [row for row in DRAWN if not row.is_write and not row.traits & (Trait.RUNS_QUEUE | Trait.MAY_REPLICATE)]


@pytest.mark.parametrize("row", READS, ids=lambda row: row.name)
def test_each_read_sees_no_stale_key_during_a_pause_and_leaves_it(row: Row, headrace: Server, oracle: Server) -> None:
    require_equal(row, Scene.play_paused, headrace, oracle)
