"""RDB data goes between Headrace and Redis both ways, as files and as payloads of DUMP, and nothing is lost.

One end does random things to streams; the other end gets the result as a file or as a payload, and all that XINFO,
XPENDING and XRANGE show of it must be the same. The seeds are fixed, so a failure comes again.
"""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest

from conftest import StartServer
from headrace import REDIS_VERSION, __version__
from headrace.persistence.rdb.file import FileReader, redis_aux, write_file
from headrace.server.storage.replay import loading
from headrace.store.image import StoreImage
from headrace.store.limits import Limits
from support.every_state import fill_all
from support.inprocess import Rig
from support.servers import Server
from support.wire import Argument, Wire

pytestmark = pytest.mark.oracle


class InProcess(Wire):
    """Headrace inside the test, spoken to like a server."""

    def __init__(self) -> None:
        self.rig = Rig()
        self.rig.clock.now_ms = int(time.time() * 1000)
        self.caller = self.rig.connect()

    def call(self, *arguments: Argument) -> bytes:
        """Run one command."""
        argv = [each if isinstance(each, bytes) else str(each).encode() for each in arguments]
        self.rig.dispatcher.execute(self.caller.session, [argv], self.rig.clock())
        return self.caller.output()

    def close(self) -> None:
        """There is no socket."""


def told(wire: Wire, key: bytes, *, has_holes: bool) -> list[bytes]:
    """What the server reports about a stream, without idle times."""
    replies = [
        wire.call("XINFO", "STREAM", key, "FULL", "COUNT", 0),
        wire.call("XPENDING", key, "g"),
        wire.call("XPENDING", key, "g", "-", "+", 1000),
        wire.call("XRANGE", key, "-", "+"),
        wire.call("PEXPIRETIME", key),
    ]
    replies[0] = re.sub(rb"(seen-idle|inactive|idle)\r\n:\d+", rb"\1", replies[0])
    # The third number of a pending entry is its age.
    replies[2] = re.sub(rb"\r\n:\d+\r\n(:\d+\r\n)", rb"\r\n\1", replies[2])
    if has_holes:
        # Deleted entries are left out of what Headrace writes.
        replies[0] = re.sub(rb"(radix-tree-keys|radix-tree-nodes)\r\n:\d+", rb"\1", replies[0])
    return replies


def image_of(wire: Wire) -> dict[tuple[int, bytes], list[bytes]]:
    """What the server reports about all keys."""
    image = {}
    for db_index in (0, 3):
        wire.call("SELECT", db_index)
        for key in wire.ask("KEYS", "*"):
            is_stream = wire.call("TYPE", key) == b"+stream\r\n"
            shown = told(wire, key, has_holes=key.startswith(b"holes")) if is_stream else [wire.call("GET", key)]
            image[db_index, key] = shown
    wire.call("SELECT", 0)
    return image


def claim_order(wire: Wire, key: bytes) -> list[bytes]:
    """Pending entries in the order in which a reader takes them over."""
    reply = wire.call("XREADGROUP", "GROUP", "g", "new", "COUNT", 1000, "CLAIM", 0, "STREAMS", key, ">")
    return re.findall(rb"\r\n(\d+-\d+)\r\n", reply)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("from_redis", [True, False])
def test_payloads_carry_everything(from_redis: bool, seed: int, headrace: Server, oracle: Server) -> None:
    sender, receiver = (oracle, headrace) if from_redis else (headrace, oracle)
    with sender.connect() as ours, receiver.connect() as theirs:
        fill_all(ours, seed)
        for db_index in (0, 3):
            ours.call("SELECT", db_index), theirs.call("SELECT", db_index)
            for key in ours.ask("KEYS", "*"):
                dumped, expires_ms = ours.ask("DUMP", key), max(ours.ask("PEXPIRETIME", key), 0)
                assert theirs.call("RESTORE", key, expires_ms, dumped, "ABSTTL") == b"+OK\r\n"
                if not key.startswith(b"holes"):
                    assert theirs.ask("DUMP", key) == dumped
        assert image_of(theirs) == image_of(ours)
        for key in ours.ask("KEYS", "s*"):
            assert claim_order(theirs, key) == claim_order(ours, key)


@pytest.mark.parametrize("compression", ["yes", "no"])
def test_a_file_of_redis_is_read(compression: str, start_server: StartServer) -> None:
    server = start_server("oracle", "--appendonly", "no", "--rdbcompression", compression)
    with server.connect() as wire, InProcess() as ours:
        fill_all(wire, 10)
        assert wire.call("SAVE") == b"+OK\r\n"
        data = (server.folder / "dump.rdb").read_bytes()
        reader = FileReader((data,), Limits(), now_ms=ours.rig.clock())
        with loading(ours.rig.server.context) as replay:
            for key in reader:
                replay.put(key)
        for db in ours.rig.server.store.databases:
            for stream in db.streams.values():
                stream.check()
        assert image_of(ours) == image_of(wire)
        ours.rig.clock.advance(60_000)  # the last deliveries were made after its clock had stopped
        for key in ours.ask("KEYS", "s*"):
            assert claim_order(ours, key) == claim_order(wire, key)
    assert reader.aux[b"redis-ver"] == b"8.10.2"
    assert reader.offset == len(data)


@pytest.mark.parametrize("compress", [True, False])
def test_redis_reads_our_file(compress: bool, start_server: StartServer) -> None:
    server = start_server("oracle", "--appendonly", "no")
    server.stop()
    with InProcess() as ours:
        fill_all(ours, 11)
        store, now_ms = ours.rig.server.store, ours.rig.clock()
        aux = redis_aux("8.10.2", now_ms=now_ms, used_memory=0, is_aof_base=False)
        data = b"".join(write_file(StoreImage(store), aux, now_ms=now_ms, compress=compress))
        (server.folder / "dump.rdb").write_bytes(data)
        server.start()
        with server.connect() as wire:
            assert image_of(wire) == image_of(ours)
            for key in ours.ask("KEYS", "s*"):
                assert claim_order(wire, key) == claim_order(ours, key)


def test_files_name_the_redis_whose_format_they_have(oracle_tools: Path, start_server: StartServer) -> None:
    server = start_server("headrace", "--appendonly", "yes", "--aof-use-rdb-preamble", "yes")
    with server.connect() as wire:
        wire.call("XADD", "s", "1-1", "f", "v")
        assert wire.call("SAVE") == b"+OK\r\n"
        wire.call("BGREWRITEAOF")
        while b"aof_rewrite_in_progress:1" in wire.ask("INFO", "persistence"):
            pass
    server.stop()
    check = server.folder / "redis-check-rdb"
    check.symlink_to(oracle_tools / "redis-server")
    (base,) = server.folder.glob("appendonlydir/*.base.rdb")
    for path in (server.folder / "dump.rdb", base):
        reader = FileReader((path.read_bytes(),), Limits(), now_ms=0)
        assert [key.key for key in reader] == [b"s"]
        assert reader.aux[b"redis-ver"] == REDIS_VERSION.encode()
        assert reader.aux[b"headrace-ver"] == __version__.encode()
        checked = subprocess.run([check, path], capture_output=True, text=True, check=True).stdout
        assert f"AUX FIELD redis-ver = '{REDIS_VERSION}'" in checked
        assert "RDB looks OK!" in checked
    theirs = start_server("oracle", "--appendonly", "yes", "--dir", str(server.folder))
    with theirs.connect() as wire:
        assert wire.ask("XLEN", "s") == 1
    assert f"Loading RDB produced by version {REDIS_VERSION}" in theirs.log_tail()


def test_values_of_other_types_are_stepped_over(start_server: StartServer) -> None:
    server = start_server("oracle", "--appendonly", "no", "--list-max-listpack-size", "2")
    with server.connect() as wire:
        makers: list[list[Argument]] = [
            ["RPUSH", "list", "a", "b", "c", "x" * 9000], ["SADD", "integers", 1, 2], ["SADD", "set", "a"],
            ["SADD", "large-set", "x" * 70], ["ZADD", "sorted", 1, "a"], ["ZADD", "large-sorted", 1.5, "x" * 70],
            ["HSET", "hash", "a", 1], ["HSET", "large-hash", "a", "x" * 70], ["PFADD", "log", "a"],
            ["HSETEX", "expiring", "EX", 1000, "FIELDS", 1, "a", 1],
            ["HSETEX", "large-expiring", "EX", 1000, "FIELDS", 1, "a", "x" * 70],
            ["ARMSET", "array", 0, "a", 3, 12, 70000, 1.5, 70001, "x" * 70], ["ARINSERT", "growing", "a"],
            ["VADD", "vector", "VALUES", 3, 1, 2, 3, "e1"],
            ["FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function() return 1 end)"],
            ["XADD", "s", "1-1", "f", "v"],
        ]  # fmt: skip
        for maker in makers:
            assert not wire.call(*maker).startswith(b"-"), maker
        assert wire.call("SAVE") == b"+OK\r\n"
    data = (server.folder / "dump.rdb").read_bytes()
    reader = FileReader((data,), Limits(), now_ms=0, skips_foreign=True)
    kept = "s log integers set large-set hash large-hash expiring large-expiring list sorted large-sorted array growing"
    assert {each.key for each in reader} == set(kept.encode().split())
    assert reader.foreign_count == 1
    assert reader.offset == len(data)


@pytest.mark.parametrize(("maker", "taker"), [("oracle", "headrace"), ("headrace", "oracle")])
@pytest.mark.parametrize("kept_in", ["dump.rdb", "the log", "the base of the log"])
def test_imported_hashes_pass_from_server_to_server(
    start_server: StartServer, maker: str, taker: str, kept_in: str
) -> None:
    options = ["--appendonly", "no" if kept_in == "dump.rdb" else "yes", "--aof-use-rdb-preamble", "no"]
    server = start_server(maker, *options)
    with server.connect() as wire:
        requests: list[list[Argument]] = [
            ["HIMPORT", "PREPARE", "fields", "c", "b", "long"], ["HIMPORT", "SET", "short", "fields", 1, "two", ""],
            ["HIMPORT", "SET", "same", "fields", 5, 6, 7], ["HIMPORT", "SET", "long", "fields", 1, "two", "x" * 70],
            ["HIMPORT", "PREPARE", "names", "c", "n" * 70], ["HIMPORT", "SET", "long-names", "names", 1, 2],
            ["EXPIRE", "long", 1000], ["HSET", "same", "new", 1],
        ]  # fmt: skip
        for request in requests:
            assert not wire.call(*request).startswith(b"-"), request
        if kept_in == "dump.rdb":
            assert wire.call("SAVE") == b"+OK\r\n"
        elif kept_in == "the base of the log":
            wire.call("BGREWRITEAOF")
            while b"aof_rewrite_in_progress:1" in wire.ask("INFO", "persistence"):
                pass
        keys = ("short", "same", "long", "long-names")
        made = [(wire.ask("HGETALL", key), wire.ask("OBJECT", "ENCODING", key)) for key in keys]
    server.stop()
    other = start_server(taker, *options, "--dir", str(server.folder))
    with other.connect() as wire:
        assert [(wire.ask("HGETALL", key), wire.ask("OBJECT", "ENCODING", key)) for key in keys] == made
        assert 0 < wire.ask("TTL", "long") <= 1000
