"""A data folder written by one server is read by the other: Headrace and Redis, both ways, all forms of persistence."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from time import monotonic

import pytest

from conftest import StartServer
from support.servers import Server
from support.wire import Wire

pytestmark = pytest.mark.oracle

WAIT_S = 240.0

# Raw replies by (database, key).
State = dict[tuple[int, bytes], list[bytes]]

SCENARIO = """
XADD s 1-1 temp 20 hum 50
XADD s 1-2 temp 21 hum 51
XADD s 2-0 temp 22 hum 52
XADD s 3-0 other x
XADD s 4-0 temp 23 hum 53
XADD s 5-0 temp 24 hum 54
XADD s 6-0 temp 25 hum 55
XDEL s 5-0
XGROUP CREATE s g 0
XGROUP CREATE s later 2-0 ENTRIESREAD 3
XGROUP CREATE s at-end $
XGROUP CREATECONSUMER s later idle
XREADGROUP GROUP g alice COUNT 2 STREAMS s >
XREADGROUP GROUP g bob COUNT 3 STREAMS s >
XCLAIM s g carol 0 2-0 RETRYCOUNT 7 JUSTID
XNACK s g FAIL IDS 1 1-1
XNACK s g SILENT IDS 1 3-0
XNACK s g FATAL IDS 1 4-0
XACK s g 1-2
XADD idem IDMP p1 i1 * a 1
XADD idem IDMP p1 i2 * a 2
XADD idem IDMPAUTO p2 * f v
XADD idem IDMP p1 i1 * a 1
XADD set 1-1 f v
XCFGSET set IDMP-DURATION 300 IDMP-MAXSIZE 50
XGROUP CREATE empty g $ MKSTREAM
XADD trimmed MAXLEN = 2 1-1 a 1
XADD trimmed MAXLEN = 2 1-2 a 2
XADD trimmed MAXLEN = 2 1-3 a 3
XSETID trimmed 9-9 ENTRIESADDED 77 MAXDELETEDID 1-1
SET plain text
SET number 12345
SET ends soon PX 100000000
SELECT 3
SET elsewhere 1
XADD s 1-1 in another
SELECT 0
"""


LIBRARY = "#!lua name=lib\nredis.register_function('one', function(keys) return redis.call('TYPE', keys[1]) end)"


def fill(server: Server) -> None:
    with server.connect() as wire:
        for line in SCENARIO.strip().splitlines():
            wire.call(*line.split())
        wire.call("FUNCTION", "LOAD", LIBRARY)
        wire.call("FUNCTION", "LOAD", LIBRARY.replace("lib", "old").replace("one", "two"))
        wire.call("FUNCTION", "DELETE", "old")


def fill_pending(server: Server, count: int) -> None:
    """Many pending entries of several consumers, delivered at several times."""
    with server.connect() as wire:
        wire.call("XGROUP", "CREATE", "many", "g", "$", "MKSTREAM")
        for number in range(count):
            wire.send("XADD", "many", f"{number + 1}-0", "f", str(number))
        for _ in range(count):
            wire.receive()
        for consumer in range(10):
            wire.call("XREADGROUP", "GROUP", "g", f"c{consumer}", "COUNT", count // 10, "STREAMS", "many", ">")
        wire.call("XAUTOCLAIM", "many", "g", "c3", 0, 0, "COUNT", 500, "JUSTID")


def wait_for(wire: Wire, field: str, value: str) -> None:
    deadline_s = monotonic() + WAIT_S
    while f"{field}:{value}\r\n" not in wire.ask("INFO", "persistence").decode():
        assert monotonic() < deadline_s, f"{field} does not become {value}"


def rewrite(server: Server) -> None:
    with server.connect() as wire:
        wire.call("BGREWRITEAOF")
        wait_for(wire, "aof_rewrite_in_progress", "0")
        wait_for(wire, "aof_last_bgrewrite_status", "ok")


def state(server: Server) -> State:
    """Everything that can be asked of every key and does not depend on when it is asked, and the functions."""
    found: State = {}
    with server.connect() as wire:
        found[0, b"functions"] = [wire.call("FUNCTION", "LIST", "WITHCODE"), wire.call("FCALL", "one", 1, "plain")]
        for db in (0, 3):
            wire.call("SELECT", db)
            for key in sorted(wire.ask("KEYS", "*")):
                found[db, key] = [wire.call("TYPE", key), wire.call("PEXPIRETIME", key)]
                if wire.call("TYPE", key) == b"+stream\r\n":
                    found[db, key] += [
                        wire.call("XINFO", "STREAM", key, "FULL", "COUNT", 0),
                        wire.call("XRANGE", key, "-", "+"),
                        wire.call("XINFO", "GROUPS", key),
                    ]
                    groups = [
                        dict(zip(g[::2], g[1::2], strict=True))[b"name"] for g in wire.ask("XINFO", "GROUPS", key)
                    ]
                    found[db, key] += [wire.call("XPENDING", key, group) for group in groups]
                else:
                    found[db, key].append(wire.call("GET", key))
    return found


# Depends on where a stream was cut into nodes.
RADIX_NODES = re.compile(rb"radix-tree-nodes\r\n:\d+")
# Times of a consumer that is created by a log's records. The records lack them, so both servers use the time of
# loading.
CONSUMER_TIMES = re.compile(rb"(?:seen|active)-time\r\n:-?\d+")


def without(found: State, *patterns: re.Pattern[bytes]) -> State:
    for pattern in patterns:
        found = {key: [pattern.sub(b"", reply) for reply in replies] for key, replies in found.items()}
    return found


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    return [tmp_path / name for name in ("written", "copy-1", "copy-2")]


def both_read(folders: list[Path], *options: str) -> list[State]:
    """What Headrace and Redis say when each is started on a copy of the first folder."""
    states = []
    for name, folder in zip(("headrace", "oracle"), folders[1:], strict=True):
        shutil.copytree(folders[0], folder, ignore=shutil.ignore_patterns("server.log"))
        server = Server(name, folder, *options).start()
        try:
            states.append(without(state(server), RADIX_NODES))
        finally:
            server.kill()
    return states


@pytest.mark.parametrize("writer", ["headrace", "oracle"])
@pytest.mark.parametrize("preamble", ["yes", "no"])
@pytest.mark.parametrize("when", ["log only", "rewritten", "rewritten and went on"])
def test_append_only_folder_says_the_same_to_both(
    oracle_tools: Path, folders: list[Path], writer: str, preamble: str, when: str
) -> None:
    options = ("--appendonly", "yes", "--aof-use-rdb-preamble", preamble)
    server = Server(writer, folders[0], *options).start()
    fill(server)
    if when != "log only":
        rewrite(server)
    if when == "rewritten and went on":
        with server.connect() as wire:
            wire.call("XADD", "s", "7-0", "after", "the rewrite")
            wire.call("XREADGROUP", "GROUP", "g", "dave", "STREAMS", "s", ">")
            wire.call("XAUTOCLAIM", "s", "g", "erin", 0, 0)
    assert server.stop() == 0
    ours, theirs = (without(each, CONSUMER_TIMES) for each in both_read(folders, *options))
    assert len(ours) == 11
    assert ours == theirs


@pytest.mark.parametrize("writer", ["headrace", "oracle"])
def test_dump_says_the_same_to_both(oracle_tools: Path, folders: list[Path], writer: str) -> None:
    server = Server(writer, folders[0], "--appendonly", "no").start()
    fill(server)
    live = without(state(server), RADIX_NODES)
    with server.connect() as wire:
        assert wire.call("SAVE") == b"+OK\r\n"
    server.kill()
    ours, theirs = both_read(folders, "--appendonly", "no")
    assert ours == theirs
    assert ours == live


@pytest.mark.parametrize("writer", ["headrace", "oracle"])
@pytest.mark.parametrize(("preamble", "count"), [("yes", 100_000), ("no", 20_000)])
def test_many_pending_entries_pass_both_ways(
    oracle_tools: Path, folders: list[Path], writer: str, preamble: str, count: int
) -> None:
    options = ("--appendonly", "yes", "--aof-use-rdb-preamble", preamble)
    server = Server(writer, folders[0], *options).start()
    fill_pending(server, count)
    rewrite(server)
    assert server.stop() == 0
    ours, theirs = (without(each, CONSUMER_TIMES) for each in both_read(folders, *options))
    assert ours == theirs
    assert b":%d\r\n" % count in ours[0, b"many"][-1]


@pytest.mark.parametrize("preamble", ["yes", "no"])
def test_new_log_has_the_files_of_redis(preamble: str, start_server: StartServer) -> None:
    seen = []
    for name in ("headrace", "oracle"):
        server = start_server(name, "--appendonly", "yes", "--aof-use-rdb-preamble", preamble)
        folder = server.folder / "appendonlydir"
        # Redis notes the replication offset at which an increment begins.
        manifest = re.sub(r" (start|end)offset \d+", "", (folder / "appendonly.aof.manifest").read_text())
        seen.append((manifest, {path.name for path in folder.iterdir()}))
    assert seen[0] == seen[1]


GOOD = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n"
GARBAGE = b"xxxxxxxxxx"


@pytest.mark.parametrize("name", ["headrace", "oracle"])
@pytest.mark.parametrize("size_max", [len(GARBAGE), len(GARBAGE) + 1])
def test_damaged_end_smaller_than_the_limit_is_dropped(name: str, size_max: int, tmp_path: Path) -> None:
    log = tmp_path / "appendonlydir"
    log.mkdir()
    (log / "appendonly.aof.1.incr.aof").write_bytes(GOOD + GARBAGE)
    (log / "appendonly.aof.manifest").write_bytes(b"file appendonly.aof.1.incr.aof seq 1 type i\n")
    options = ("--appendonly", "yes", "--aof-load-truncated", "no")
    server = Server(name, tmp_path, *options, "--aof-load-corrupt-tail-max-size", str(size_max))
    if size_max == len(GARBAGE):
        with pytest.raises(RuntimeError, match="Bad file format reading the append only file"):
            server.start()
        return
    server.start()
    with server.connect() as wire:
        assert wire.ask("GET", "k") == b"v"
    server.kill()
    assert (log / "appendonly.aof.1.incr.aof").read_bytes() == GOOD
