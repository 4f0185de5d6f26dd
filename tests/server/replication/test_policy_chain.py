"""Policies that were set with commands, on their way through real servers: logs, snapshots, replicas, and a Redis."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.persistence.rdb.file import FilePolicy, FileReader
from headrace.store.limits import Limits
from support.links import field, follow, settle, until
from support.servers import Server
from support.wire import Wire

pytestmark = pytest.mark.oracle

OPTIONS = ("--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes")
# Keys that look like parts of a log, in two databases.
KEYS = [(0, b"s"), (0, b'a "b" \r\n*1\r\n\x00\xff'), (3, b"\n#HR DUE x"), (3, b"k" * 2000)]
SETTINGS = [b"MAXLEN", 50, b"MAXAGE", 10_000_000_000_000, b"FORCE", b"IGNORE-GROUPS-IDLE", 9_000_000]
GROUP_SETTINGS = [b"REDELIVER", b"100000000,200000000", b"MAX-DELIVERIES", 9, b"DEADLETTER", b"dead \r\n"]
DELAY_MS = 10**12

State = dict[tuple[int, bytes], bytes]


def fill(wire: Wire) -> None:
    """Streams with settings, some made in transactions, and one whose settings were taken back."""
    for number, (index, key) in enumerate(KEYS):
        wire.call("SELECT", index)
        wire.call("XADD", key, "1-1", "f", "v")
        wire.call("XGROUP", "CREATE", key, "g", 0)
        if number % 2:
            wire.call("MULTI")
        assert wire.call("XCFGSET", key, *SETTINGS) in (b"+OK\r\n", b"+QUEUED\r\n")
        wire.call("XADD", key, "2-1", "f", "v")
        wire.call("XGROUP", "CONFIG", key, "g", *GROUP_SETTINGS)
        wire.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", key, ">")
        wire.call("XNACK", key, "g", "FAIL", "IDS", 1, "1-1", "DELAY", DELAY_MS)
        if number % 2:
            wire.call("EXEC")
    wire.call("SELECT", 0)
    wire.call("XADD", "plain", "1-1", "f", "v")
    wire.call("XCFGSET", "plain", "MAXLEN", 7)
    wire.call("XCFGSET", "plain", "MAXLEN", 0)


def state(wire: Wire) -> State:
    """The replies that show settings, and the number of entries."""
    found = {}
    for index, key in [*KEYS, (0, b"plain")]:
        wire.call("SELECT", index)
        reply = wire.call("XINFO", "STREAM", key)
        found[index, key] = reply[reply.index(b"groups") :]
    wire.call("SELECT", 0)
    return found


def lines_of(server: Server, wire: Wire) -> list[tuple[int, list[bytes]]]:
    """The policy lines of a snapshot that the server writes now, with the databases."""
    assert wire.call("SAVE") == b"+OK\r\n"
    reader = FileReader(((server.folder / "dump.rdb").read_bytes(),), Limits(), now_ms=0)
    return sorted((part.db_index, part.words) for part in reader.parts() if isinstance(part, FilePolicy))


def await_rewrite(wire: Wire) -> None:
    until(lambda: field(wire, "aof_rewrite_in_progress", "persistence") == "0", "a rewrite does not end")


def has_settings(found: State) -> bool:
    return [b"maxlen" in reply for reply in found.values()] == [True] * len(KEYS) + [False]


@pytest.mark.parametrize("preamble", ["yes", "no"])
def test_settings_survive_a_kill_a_rewrite_and_a_reload(start_server: Callable[..., Server], preamble: str) -> None:
    server = start_server("headrace", *OPTIONS, "--appendonly", "yes", "--aof-use-rdb-preamble", preamble)
    with server.connect() as wire:
        fill(wire)
        expected, expected_lines = state(wire), lines_of(server, wire)
        assert has_settings(expected)
        assert [words[0] for _, words in expected_lines].count(b"DUE") == len(KEYS)
        assert wire.call("DEBUG", "LOADAOF") == b"+OK\r\n"
        assert state(wire) == expected
    server.kill()
    server.start()
    with server.connect() as wire:
        assert state(wire) == expected
        wire.call("BGREWRITEAOF")
        await_rewrite(wire)
        assert wire.call("DEBUG", "LOADAOF") == b"+OK\r\n"
        assert state(wire) == expected
        assert wire.call("DEBUG", "RELOAD") == b"+OK\r\n"
        assert state(wire) == expected
    server.restart()
    with server.connect() as wire:
        assert state(wire) == expected
        assert lines_of(server, wire) == expected_lines


def test_settings_survive_in_a_snapshot(start_server: Callable[..., Server]) -> None:
    server = start_server("headrace", *OPTIONS)
    with server.connect() as wire:
        fill(wire)
        expected = state(wire)
        assert wire.call("SAVE") == b"+OK\r\n"
    server.kill()
    server.start()
    with server.connect() as wire:
        assert state(wire) == expected
        assert has_settings(expected)


@pytest.mark.parametrize("preamble", ["yes", "no"])
@pytest.mark.parametrize("is_rewritten", [True, False])
def test_a_redis_loads_such_a_folder(
    start_server: Callable[..., Server], tmp_path: Path, preamble: str, is_rewritten: bool
) -> None:
    """It has the entries and the groups."""
    server = start_server("headrace", *OPTIONS, "--appendonly", "yes", "--aof-use-rdb-preamble", preamble)
    with server.connect() as wire:
        fill(wire)
        if is_rewritten:
            wire.call("BGREWRITEAOF")
            await_rewrite(wire)
        digest = wire.ask("DEBUG", "DIGEST")
    server.stop()
    theirs = start_server("oracle", "--appendonly", "yes", "--dir", str(server.folder), "--enable-debug-command", "yes")
    with theirs.connect() as wire:
        assert wire.ask("DEBUG", "DIGEST") == digest


def test_replicas_have_them_from_the_snapshot_and_from_the_stream(start_server: Callable[..., Server]) -> None:
    """A chain of two Headraces, with a Redis at each. A cut link continues with equal offsets."""
    top, middle = (start_server("headrace", *OPTIONS, "--appendonly", "yes") for _ in range(2))
    redis, end = (start_server("oracle", *OPTIONS) for _ in range(2))
    above, between, aside, below = top.connect(), middle.connect(), redis.connect(), end.connect()
    wires = above, between, aside, below
    above.call("XADD", "first", "1-1", "f", "v")
    above.call("XCFGSET", "first", "MAXLEN", 5)
    follow(between, top)
    follow(aside, top)
    follow(below, middle)
    fill(above)
    above.call("XADD", "first", "2-1", "f", "v")
    settle(*wires)
    expected = state(above)
    assert has_settings(expected)
    assert state(between) == expected
    assert lines_of(middle, between) == lines_of(top, above)
    assert b"maxlen" in between.call("XINFO", "STREAM", "first")
    assert len({wire.ask("DEBUG", "DIGEST") for wire in wires}) == 1
    above.call("CLIENT", "KILL", "TYPE", "replica")
    above.call("XCFGSET", "first", "MAXLEN", 6)
    settle(*wires)
    assert int(field(above, "sync_full", "stats")) == 2
    assert b"maxlen\r\n:6" in between.call("XINFO", "STREAM", "first")

    # The log of a replica has them.
    middle.kill()
    middle.start()
    between = middle.connect()
    follow(between, top)
    settle(above, between, aside)
    assert state(between) == expected
    assert lines_of(middle, between) == lines_of(top, above)
    assert len({wire.ask("DEBUG", "DIGEST") for wire in (above, between, aside)}) == 1
