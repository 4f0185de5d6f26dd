"""A sample of the crossing on real files and sockets: processes that load, rewrite and are killed, and clients that
write to them meanwhile.

What the simulator cannot show is here: a load that takes seconds, sockets that are really closed, files of a real disk.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from crossing.acts import Act, all_acts
from crossing.test_crossing import MINUTES, SEED, is_likely
from differential.plain_requests import always_waits
from headrace.commands.core.table import all_rows
from support.killable import Writer
from support.replies import Node, parse
from support.servers import Server
from support.wire import Wire, encode

KEYS_COUNT = 60_000
"""Records of a log that takes a good part of a second to load."""
ACTS_COUNT = 40 if MINUTES < 1 else 400
"""Acts that are sampled for each state."""
POLL_COUNT = 2_000
DEADLINE_S = 60.0
WAITING = {row.name.encode() for row in all_rows() if always_waits(row)}
"""Commands that are sent in a transaction, where they do not wait."""

ELSEWHERE = (
    "ACL|", "AUTH", "CLIENT|KILL", "CLIENT|REPLY", "CONFIG|SET appendonly no", "CONFIG|SET bind", "CONFIG|SET client",
    "CONFIG|SET dir", "CONFIG|SET maxclients", "CONFIG|SET maxmemory", "CONFIG|SET port", "CONFIG|SET proto",
    "CONFIG|SET requirepass", "CONFIG|SET timeout", "CONFIG|SET tls", "DEBUG SLEEP", "FLUSH", "HELLO", "MONITOR",
    "MULTI", "PSUBSCRIBE", "PSYNC", "QUIT", "RESET", "SHUTDOWN", "SSUBSCRIBE", "SUBSCRIBE", "SWAPDB", "SELECT", "SYNC",
)  # fmt: skip
"""What acts begin with that would end the clients of this test, remove what they wrote, or turn the log off."""


def sampled(rnd: Random) -> list[Act]:
    """Requests that may be sent to a server that continues."""
    acts = [
        act
        for act in all_acts()
        if act.request and is_likely(act) and (act.name.endswith("bind refused") or not act.name.startswith(ELSEWHERE))
    ]
    return rnd.sample(acts, min(ACTS_COUNT, len(acts)))


def large_log(folder: Path, *, tail: bytes = b"") -> None:
    """A log that was left by a server which ended in good order; `tail` follows its last record."""
    log = folder / "appendonlydir"
    log.mkdir(parents=True)
    records = [encode([b"SELECT", b"0"]), encode([b"SET", b"lifted", b"x", b"PXAT", b"1000"])]
    records += [encode([b"SET", b"key:%d" % number, b"x" * 20]) for number in range(KEYS_COUNT)]
    records += [encode([b"PERSIST", b"lifted"]), tail]
    (log / "appendonly.aof.1.incr.aof").write_bytes(b"".join(records))
    (log / "appendonly.aof.manifest").write_bytes(b"file appendonly.aof.1.incr.aof seq 1 type i\n")


def begin(server: Server) -> Wire:
    """Start the process, and connect to it while it loads."""
    waiting = threading.Thread(target=_start, args=(server,), daemon=True)
    waiting.start()
    for _ in range(POLL_COUNT):
        try:
            wire = Wire(server.port)
        except (ConnectionRefusedError, OSError):
            waiting.join(0.01)
            continue
        return wire
    raise AssertionError("the server does not listen")


def _start(server: Server) -> None:
    try:
        server.start()
    except (RuntimeError, OSError):
        return  # it has ended, as the test wanted


def loading(wire: Wire) -> bool:
    """Whether the server still loads."""
    info = parse(wire.call("INFO", "persistence")).value
    return b"\r\nloading:1" in info or info.startswith(b"# Persistence\r\nloading:1")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    own = Server("headrace", tmp_path / "data", "--appendonly", "yes", "--appendfsync", "always")
    yield own
    own.kill()


WHILE_LOADING: dict[str, list[tuple[str, ...]]] = {
    "turning the log on": [("CONFIG", "SET", "appendonly", "yes")],
    "turning it on beside a refusal": [("CONFIG", "SET", "appendonly", "yes", "bind", "192.0.2.1")],
    "a transaction and the log": [("MULTI",), ("EXEC",), ("CONFIG", "SET", "appendonly", "yes")],
    "the end of a pause": [("CLIENT", "PAUSE", "10"), ("CLIENT", "UNPAUSE")],
    "reloads": [("DEBUG", "RELOAD"), ("DEBUG", "LOADAOF")],
    "rewrites": [("BGREWRITEAOF",), ("BGSAVE",), ("SAVE",)],
}


@pytest.mark.parametrize("name", WHILE_LOADING)
def test_nothing_that_is_asked_while_a_large_log_loads_costs_a_key(name: str, server: Server) -> None:
    large_log(server.folder)
    with begin(server) as wire:
        seen_loading = loading(wire)
        for request in WHILE_LOADING[name]:
            wire.call(*request)
        while loading(wire):
            continue
        assert seen_loading, "the load was over before the first request"
        assert wire.call("DBSIZE") == b":%d\r\n" % (KEYS_COUNT + 1)
        assert wire.call("SET", "acknowledged", "1") == b"+OK\r\n"
        assert wire.call("WAITAOF", "1", "0", "5000") == b"*2\r\n:1\r\n:0\r\n"
    server.kill()
    server.start()
    with server.connect() as wire:
        assert wire.call("DBSIZE") == b":%d\r\n" % (KEYS_COUNT + 2)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_load_that_is_ended_leaves_the_log_as_it_was(number: int, server: Server) -> None:
    large_log(server.folder)
    with begin(server) as wire:
        wire.send("CONFIG", "SET", "appendonly", "yes")
        assert server.process is not None
        os.kill(server.pid, number)
        server.process.wait(DEADLINE_S)
    server.start()
    with server.connect() as wire:
        assert wire.call("DBSIZE") == b":%d\r\n" % (KEYS_COUNT + 1)


def test_no_client_is_served_by_a_server_whose_load_has_failed(server: Server) -> None:
    large_log(server.folder, tail=b"*1\r\n$6\r\nNOSUCH\r\n")
    replies: list[bytes] = []
    with begin(server) as wire:
        try:
            while True:
                replies.append(wire.call("XADD", "s", "*", "f", "v"))
        except OSError:
            pass
    assert replies, "no request was answered"
    assert all(reply.startswith(b"-LOADING") for reply in replies), replies[-1]


@pytest.mark.parametrize("state", ["serving", "rewriting", "snapshot running", "paused"])
def test_acts_next_to_writers_lose_nothing_to_kill_9(state: str, server: Server) -> None:
    rnd = Random(f"{SEED} {state}")
    server.start()
    writers = [Writer(server.port, rnd.randrange(1000), lambda count: None, f"~s{index}", 0) for index in range(2)]
    for writer in writers:
        writer.start()
    with server.connect() as wire:
        for number, act in enumerate(sampled(rnd)):
            bring_into(state, wire)
            cross(wire, act, number)
    server.kill()
    for writer in writers:
        writer.join(DEADLINE_S)
        assert writer.error is None, writer.error
    log = server.log_path.read_text("utf-8", "replace")
    assert "internal error" not in log
    assert "Traceback" not in log
    server.start()
    with server.connect() as wire:
        for writer in writers:
            found = {entry_id: int(fields[1]) for entry_id, fields in wire.ask("XRANGE", writer.key, "-", "+")}
            lost = [number for entry_id, number in writer.answered.items() if found.get(entry_id) != number]
            assert writer.answered, "the writer has written nothing"
            assert not lost, f"answered and lost from {writer.key}: {lost[:10]}"
    print(f"{state}: {sum(len(writer.answered) for writer in writers)} answered writes")


def bring_into(state: str, wire: Wire) -> None:
    """Ask for what makes the state; that it lasts already is fine."""
    request = {"rewriting": ("BGREWRITEAOF",), "snapshot running": ("BGSAVE",), "paused": ("CLIENT", "PAUSE", "20")}
    if state in request:
        wire.call(*request[state])


def cross(wire: Wire, act: Act, number: int) -> None:
    """Send an act between two fences; the replies come in order. One that would wait is sent in a transaction."""
    fences = [b"before %d" % number, b"behind %d" % number]
    identity = int(parse(wire.call("CLIENT", "ID")).value)
    request = [b"0" if word in (b"<actor>", b"<reader>", b"<waiter>") else word for word in act.request]
    requests = [[b"MULTI"], request, [b"EXEC"]] if request[0].upper() in WAITING else [request]
    wire.send_bytes(b"".join(map(encode, ([b"ECHO", fences[0]], *requests, [b"ECHO", fences[1]]))))
    assert parse(wire.receive()) == Node(b"$", fences[0]), act.name
    replies = [parse(wire.receive())]
    while replies[-1] != Node(b"$", fences[1]):
        assert b"internal error" not in (replies[-1].value or b""), act.name
        replies.append(parse(wire.receive()))
    assert int(parse(wire.call("CLIENT", "ID")).value) == identity, act.name
