"""The subcommands of DEBUG."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conftest import StartServer
from support.servers import Server

SAME = """
DEBUG
DEBUG NOSUCH
DEBUG JMAP
DEBUG SLEEP
DEBUG SLEEP abc
DEBUG SLEEP 0.001
DEBUG DIGEST x
DEBUG SET-ACTIVE-EXPIRE
DEBUG SET-ACTIVE-EXPIRE 1
DEBUG SET-ACTIVE-EXPIRE x
DEBUG SET-ACTIVE-EXPIRE 1
DEBUG OBJECT nosuch
DEBUG OBJECT nosuch fast
DEBUG RELOAD X
DEBUG POPULATE
DEBUG POPULATE x
DEBUG POPULATE -1
DEBUG POPULATE 2 k x
DEBUG POPULATE 3
DEBUG POPULATE 3 siz 20
DEBUG POPULATE 3 cut 4
DEBUG POPULATE 5 siz 9
DEBUG DIGEST
DEBUG DIGEST-VALUE key:0 siz:0 cut:1 siz:4 nosuch
DEBUG DIGEST-VALUE
DEBUG ERROR hello
DEBUG ERROR ERR_foo
DEBUG ERROR
DEBUG LOG hello
DEBUG LOG
DEBUG PROTOCOL STRING
DEBUG PROTOCOL integer
DEBUG PROTOCOL DOUBLE
DEBUG PROTOCOL NULL
DEBUG PROTOCOL ARRAY
DEBUG PROTOCOL SET
DEBUG PROTOCOL MAP
DEBUG PROTOCOL VERBATIM
DEBUG PROTOCOL TRUE
DEBUG PROTOCOL FALSE
DEBUG PROTOCOL BIGNUM
DEBUG PROTOCOL ATTRIB
DEBUG PROTOCOL x
DEBUG PROTOCOL
DEBUG STRINGMATCH-LEN 10 a
DEBUG CHANGE-REPL-ID
DEBUG CHANGE-REPL-ID x
DEBUG PAUSE-CRON 1
DEBUG PAUSE-CRON 0
DEBUG PAUSE-CRON
DEBUG DICT-RESIZING 1
DEBUG DICT-RESIZING
DEBUG REPLYBUFFER
DEBUG REPLYBUFFER PEAK-RESET-TIME 1
DEBUG REPLYBUFFER PEAK-RESET-TIME NEVER
DEBUG REPLYBUFFER PEAK-RESET-TIME RESET
DEBUG REPLYBUFFER PEAK-RESET-TIME x
DEBUG REPLYBUFFER RESIZING 1
DEBUG REPLYBUFFER x 1
DEBUG QUICKLIST-PACKED-THRESHOLD 10K
DEBUG QUICKLIST-PACKED-THRESHOLD 0
DEBUG QUICKLIST-PACKED-THRESHOLD x
DEBUG AOF-FLUSH-SLEEP 0
DEBUG AOF-FLUSH-SLEEP x
DEBUG AOF-FLUSH-SLEEP
DEBUG HELP x
""".strip().splitlines()

STREAMS = """
XADD s 1-1 a 1
XADD s 2-1 a 2 b 3
XADD s 3-1 a 4
XADD s 4-1 a 5
XDEL s 3-1
XGROUP CREATE s g 0
XGROUP CREATE s h $ ENTRIESREAD 2
XGROUP CREATECONSUMER s g idle
XREADGROUP GROUP g alice COUNT 2 STREAMS s >
XREADGROUP GROUP g bob STREAMS s >
XNACK s g FAIL IDS 1 2-1
XADD e MAXLEN 0 7-7 x y
XCFGSET s IDMP-DURATION 300
""".strip().splitlines()

VIEWS = """
XRANGE s - +
XPENDING s g
XPENDING s g - + 10 alice
XINFO GROUPS s
XINFO GROUPS e
DEBUG DIGEST
DEBUG CHECK s
XLEN e
""".strip().splitlines()


@pytest.mark.oracle
@pytest.mark.parametrize("protocol", [2, 3])
def test_replies_are_those_of_redis(protocol: int, headrace: Server, oracle: Server) -> None:
    with headrace.connect(protocol) as ours, oracle.connect(protocol) as theirs:
        for line in SAME:
            argv = line.encode().split()
            assert ours.call(*argv) == theirs.call(*argv), line


@pytest.mark.oracle
def test_streams_digest_as_in_redis(start_server: StartServer) -> None:
    digests = []
    for name in ("headrace", "oracle"):
        with start_server(name).connect() as wire:
            for line in [*STREAMS, "SELECT 3", "XADD other 1-1 f v", "DEBUG POPULATE 2", "SELECT 0"]:
                wire.call(*line.split())
            digests.append(wire.ask("DEBUG", "DIGEST"))
    assert digests[0] == digests[1] != b"0" * 40


@pytest.mark.parametrize("name", ["headrace", pytest.param("oracle", marks=pytest.mark.oracle)])
def test_reload_saves_the_dataset_first(name: str, start_server: StartServer) -> None:
    server = start_server(name, "--appendonly", "no", "--save", "", "--enable-debug-command", "yes")
    dump = server.folder / "dump.rdb"
    with server.connect() as wire:
        wire.call("SET", "a", "1")
        assert wire.call("DEBUG", "RELOAD") == b"+OK\r\n"
        assert {b"rdb_changes_since_last_save:0", b"rdb_saves:0"} <= set(wire.ask("INFO", "persistence").split())
        assert dump.read_bytes().startswith(b"REDIS")
        wire.call("SET", "b", "1")
        assert wire.call("DEBUG", "RELOAD", "NOSAVE") == b"+OK\r\n"
        assert b"rdb_changes_since_last_save:1" in wire.ask("INFO", "persistence")
        assert wire.call("KEYS", "*") == b"*1\r\n$1\r\na\r\n"
        dump.unlink()
        (dump / "in the way").mkdir(parents=True)
        assert wire.call("DEBUG", "RELOAD") == wire.call("SAVE")
        assert wire.call("KEYS", "*") == b"*1\r\n$1\r\na\r\n"


def test_reload_keeps_the_dataset(start_server: StartServer) -> None:
    with start_server("headrace").connect() as wire:
        for line in STREAMS:
            wire.call(*line.split())
        before = [wire.call(*line.split()) for line in VIEWS[:2]] + [wire.call("XINFO", "GROUPS", "s")]
        digest = wire.ask("DEBUG", "DIGEST")
        assert wire.call("DEBUG", "RELOAD") == b"+OK\r\n"
        after = [wire.call(*line.split()) for line in VIEWS[:2]] + [wire.call("XINFO", "GROUPS", "s")]
        assert after == before
        assert wire.ask("DEBUG", "DIGEST") == digest
        assert wire.call("DEBUG", "CHECK", "s") == b"+OK\r\n"
        assert wire.ask("XLEN", "e") == 0


RELOADS = """
SET a 2 PX 100000
SELECT 3
XADD s 1-1 f v
XGROUP CREATE s g 0
SET short 1 PX 1
SELECT 0
SAVE
SET a 3
SET b 4
DEBUG RELOAD NOSAVE
GET a
PEXPIRETIME b
EXISTS b
SET b 5 EX 1000
DEL a
DEBUG RELOAD nosave NOFLUSH MERGE
GET a
GET b
DBSIZE
DEBUG RELOAD NOFLUSH MERGE
DEBUG RELOAD MERGE
DEBUG RELOAD
DBSIZE
FLUSHDB
DEBUG RELOAD NOSAVE MERGE
GET a
SELECT 3
XINFO GROUPS s
EXISTS short
""".strip().splitlines()


@pytest.mark.oracle
def test_reload_options_do_what_they_do_in_redis(start_server: StartServer) -> None:
    ours, theirs = (start_server(name).connect() for name in ("headrace", "oracle"))
    with ours, theirs:
        for line in RELOADS:
            argv = line.encode().split()
            assert ours.call(*argv) == theirs.call(*argv), line


def test_reload_without_a_file_keeps_the_dataset(start_server: StartServer) -> None:
    with start_server("headrace").connect() as wire:
        wire.call("SET", "a", "1")
        refusal = b"-ERR Error trying to load the RDB dump, check server logs.\r\n"
        assert wire.call("DEBUG", "RELOAD", "NOSAVE") == refusal
        wire.call("SAVE")
        assert wire.call("DEBUG", "RELOAD", "NOSAVE", "NOFLUSH") == refusal
        assert wire.ask("GET", "a") == b"1"


def test_dataset_that_was_loaded_from_a_file_is_in_the_log(start_server: StartServer) -> None:
    server = start_server("headrace", "--appendonly", "yes")
    with server.connect() as wire:
        wire.call("SET", "a", "1")
        wire.call("SAVE")
        wire.call("SET", "a", "2")
        assert wire.call("DEBUG", "RELOAD", "NOSAVE") == b"+OK\r\n"
        while b"aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0" not in wire.ask("INFO", "persistence"):
            pass
    with server.restart().connect() as wire:
        assert wire.ask("GET", "a") == b"1"


def test_loadaof_replays_what_was_appended(start_server: StartServer) -> None:
    server = start_server("headrace", "--appendonly", "yes", "--appendfsync", "no")
    with server.connect() as wire:
        for line in STREAMS:
            wire.call(*line.split())
        before = [wire.call(*line.split()) for line in VIEWS if not line.startswith("XPENDING s g -")]
        assert wire.call("DEBUG", "LOADAOF") == b"+OK\r\n"
        assert [wire.call(*line.split()) for line in VIEWS if not line.startswith("XPENDING s g -")] == before


@pytest.mark.oracle
def test_redis_reads_our_log(start_server: StartServer) -> None:
    ours = start_server("headrace", "--appendonly", "yes")
    with ours.connect() as wire:
        for line in STREAMS:
            wire.call(*line.split())
        digest, pending = wire.ask("DEBUG", "DIGEST"), wire.call("XPENDING", "s", "g")
    assert ours.stop() == 0
    theirs = start_server("oracle", "--appendonly", "yes", "--dir", str(ours.folder))
    with theirs.connect() as wire:
        assert wire.ask("DEBUG", "DIGEST") == digest
        assert wire.call("XPENDING", "s", "g") == pending


def test_check_requires_a_stream(headrace: Server) -> None:
    with headrace.connect() as wire:
        assert wire.call("DEBUG", "CHECK", "nosuch") == b"-ERR no such key\r\n"
        wire.call("DEBUG", "POPULATE", 1)
        assert wire.call("DEBUG", "CHECK", "key:0").startswith(b"-WRONGTYPE")


def test_object_shows_encoding_and_size(headrace: Server) -> None:
    with headrace.connect() as wire:
        wire.call("XADD", "s", "1-1", "f", "v")
        wire.call("DEBUG", "POPULATE", 1, "short")
        wire.call("DEBUG", "POPULATE", 1, "long", 45)
        assert b"encoding:stream" in wire.ask("DEBUG", "OBJECT", "s")
        assert b"encoding:embstr" in wire.ask("DEBUG", "OBJECT", "short:0")
        assert b"encoding:raw" in wire.ask("DEBUG", "OBJECT", "long:0")


VALUES = """
SET k 5
SET k 12345
SET k hello
APPEND k world
SET k xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
XADD s 1-1 f v
XADD s 1-2 f v g w
XGROUP CREATE s g 0
XADD s NOMKSTREAM IDMP p i 1-3 f v
""".strip().splitlines()


@pytest.mark.oracle
def test_object_shows_the_size_that_redis_shows(headrace: Server, oracle: Server) -> None:
    shown = re.compile(rb"refcount:\d+ encoding:\S+ serializedlength:\d+ lru:\d+ lru_seconds_idle:\d+$")
    with headrace.connect() as ours, oracle.connect() as theirs:
        for line in VALUES:
            argv = line.encode().split()
            assert ours.call(*argv) == theirs.call(*argv)
            key = "k" if b"k" in argv else "s"
            here, there = (shown.search(wire.ask("DEBUG", "OBJECT", key)) for wire in (ours, theirs))
            assert here, line
            assert there, line
            assert here[0].split(b" lru")[0] == there[0].split(b" lru")[0], line
            assert b"lru:0 " not in here[0]


@pytest.mark.parametrize(("setting", "is_allowed"), [("no", False), ("local", True), ("yes", True)])
def test_setting_decides_which_clients_may_use_debug(setting: str, is_allowed: bool, start_server: StartServer) -> None:
    server = start_server("headrace", "--enable-debug-command", setting)
    with server.connect() as wire:
        reply = wire.call("DEBUG", "DIGEST")
    assert reply.startswith(b"+" if is_allowed else b"-ERR DEBUG command not allowed.")


def test_log_writes_a_line(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server("headrace")
    with server.connect() as wire:
        wire.call("DEBUG", "LOG", "hello there")
    assert "DEBUG LOG: hello there" in server.log_path.read_text()
