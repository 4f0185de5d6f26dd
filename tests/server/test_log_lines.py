"""Lines of the server log that tools and the tests of Redis search for: those of Redis for the same event."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conftest import StartServer
from support.servers import Server
from support.wire import Wire, encode

NAMES = ["headrace", pytest.param("oracle", marks=pytest.mark.oracle)]

# Lines of a start, of jobs and of a stop, and then of the start that loads what was kept.
FIRST_RUN = """
Running mode=standalone, port=
Server initialized
Creating AOF base file appendonly.aof.1.base.rdb on server start
Creating AOF incr file appendonly.aof.1.incr.aof on server start
Ready to accept connections
Background saving started
DB saved on disk
Background saving terminated with success
Creating AOF incr file appendonly.aof.2.incr.aof on background rewrite
Background append only file rewriting started
Background AOF rewrite terminated with success
Background AOF rewrite finished successfully
AOF was enabled during a transaction. An AOF background was scheduled to start when possible.
Background append only file rewriting started
Background AOF rewrite finished successfully
Received SIGTERM scheduling shutdown...
User requested shutdown...
Calling fsync() on the AOF file.
Saving the final RDB snapshot before exiting.
DB saved on disk
is now ready to exit, bye bye...
""".strip().splitlines()

SECOND_RUN = """
Server initialized
Reading RDB base file on AOF loading...
Loading RDB produced by version 8.10.2
RDB age
RDB is base AOF
DB loaded from base file appendonly.aof.3.base.rdb
DB loaded from incr file appendonly.aof.3.incr.aof
DB loaded from append only file
Opening AOF incr file appendonly.aof.3.incr.aof on server start
Ready to accept connections
""".strip().splitlines()

OF_DUMP = """
Server initialized
Loading RDB produced by version 8.10.2
RDB age
Done loading RDB, keys loaded: 1, keys expired: 0
DB loaded from disk
Ready to accept connections
""".strip().splitlines()


def missing_line(log: Path, lines: list[str]) -> str | None:
    """The first of these lines that does not follow those before it; None if all are there in this order."""
    text, position = log.read_text("utf-8", "replace"), 0
    for line in lines:
        found = text.find(line, position)
        if found < 0:
            return line
        position = found + len(line)
    return None


def wait_for(wire: Wire, *fields: bytes) -> None:
    """Wait until INFO persistence has these fields."""
    while not all(field in wire.ask("INFO", "persistence") for field in fields):
        pass


NO_REWRITE = (b"aof_rewrite_in_progress:0", b"aof_rewrite_scheduled:0")


@pytest.mark.parametrize("name", NAMES)
def test_start_jobs_and_stop_are_logged_in_the_words_of_redis(name: str, start_server: StartServer) -> None:
    server = start_server(name, "--appendonly", "yes", "--aof-use-rdb-preamble", "yes", "--save", "3600 1")
    with server.connect() as wire:
        wire.call("SET", "a", "1")
        wire.call("BGSAVE")
        wait_for(wire, b"rdb_bgsave_in_progress:0")
        wire.call("BGREWRITEAOF")
        wait_for(wire, *NO_REWRITE)
        wire.call("CONFIG", "SET", "appendonly", "no")
        for line in ("MULTI", "CONFIG SET appendonly yes", "EXEC"):
            wire.call(*line.split())
        while b"aof_rewrites:2" not in wire.ask("INFO", "persistence"):
            pass
        wait_for(wire, *NO_REWRITE)
        wire.call("SET", "b", "1")
    server.stop()
    assert missing_line(server.log_path, FIRST_RUN) is None
    assert " # AOF was enabled" not in server.log_path.read_text("utf-8", "replace")
    server.log_path.write_bytes(b"")
    server.start()
    assert missing_line(server.log_path, SECOND_RUN) is None


@pytest.mark.parametrize("name", NAMES)
def test_tests_of_redis_see_that_their_server_has_started(name: str, start_server: StartServer) -> None:
    """They wait for this pattern in the output of the process that they started."""
    server = start_server(name, "--always-show-logo", "yes")
    text = server.log_path.read_text("utf-8", "replace")
    with server.connect() as wire:
        (pid,) = re.findall(rb"process_id:(\d+)", wire.ask("INFO", "server"))
    assert re.search(f" PID: {int(pid)}.*Server initialized", text, re.DOTALL)


@pytest.mark.parametrize("name", NAMES)
def test_load_of_a_snapshot_is_logged_in_the_words_of_redis(name: str, start_server: StartServer) -> None:
    server = start_server(name, "--appendonly", "no")
    with server.connect() as wire:
        wire.call("SET", "a", "1")
        wire.call("SAVE")
    server.restart()
    assert missing_line(server.log_path, OF_DUMP) is None


RECORD = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n"
TAILS = {
    "torn": (
        RECORD[:-4],
        ("!!! Warning: short read while loading the AOF file appendonly.aof.1.incr.aof!!!", "aof-load-truncated"),
    ),
    "damaged": (b"xxxxxxx", ("!!! Warning: corrupt AOF file tail!!!", "aof-load-corrupt-tail-max-size")),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("tail", TAILS)
def test_end_that_is_dropped_is_logged_in_the_words_of_redis(name: str, tail: str, tmp_path: Path) -> None:
    data, (warning, directive) = TAILS[tail]
    folder = tmp_path / "appendonlydir"
    folder.mkdir()
    (folder / "appendonly.aof.1.incr.aof").write_bytes(RECORD + data)
    (folder / "appendonly.aof.manifest").write_bytes(b"file appendonly.aof.1.incr.aof seq 1 type i\n")
    server = Server(name, tmp_path, "--appendonly", "yes", "--aof-load-corrupt-tail-max-size", "100")
    server.start()
    server.kill()
    truncated = f"appendonly.aof.1.incr.aof at offset {len(RECORD)}"
    loaded = f"loaded anyway because {directive} is enabled"
    assert missing_line(server.log_path, [warning, "!!! Truncating the AOF ", truncated, loaded]) is None


@pytest.mark.parametrize("name", NAMES)
def test_stop_that_cannot_save_is_logged_in_the_words_of_redis(name: str, start_server: StartServer) -> None:
    server = start_server(name, "--appendonly", "no", "--save", "3600 1")
    (server.folder / "dump.rdb" / "in the way").mkdir(parents=True)
    with server.connect() as wire:
        wire.call("SET", "a", "1")
        assert wire.call("SHUTDOWN") == b"-ERR Errors trying to SHUTDOWN. Check logs.\r\n"
        lines = ["User requested shutdown...", "Error trying to save the DB, can't exit."]
        assert missing_line(server.log_path, lines) is None


# By the requests that start a job and end it: what the server says about the job.
DROPPED = {
    ("BGREWRITEAOF", "CONFIG SET appendonly no"): "Killing running AOF rewrite child: ",
    ("CONFIG SET appendonly no", "CONFIG SET appendonly yes", "CONFIG SET appendonly no"): (
        "Killing running AOF rewrite child: "
    ),
    ("BGSAVE", "FLUSHALL"): "Background saving terminated by ",
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("requests", DROPPED)
def test_job_that_a_command_drops_is_logged_in_the_words_of_redis(
    name: str, requests: tuple[str, ...], start_server: StartServer
) -> None:
    # Redis' job takes ten seconds with this delay. Headrace runs all requests before the first slice of its job.
    slow = ("--rdb-key-save-delay", "100000") if name == "oracle" else ()
    server = start_server(name, "--appendonly", "yes", "--save", "3600 1000", *slow)
    with server.connect() as wire:
        wire.call("MSET", *(word for number in range(100) for word in (f"k{number}", "v")))
        wire.send_bytes(b"".join(encode(tuple(request.split())) for request in requests))
        for _ in requests:
            wire.receive()
        wait_for(wire, b"rdb_bgsave_in_progress:0", *NO_REWRITE)
    assert missing_line(server.log_path, [DROPPED[requests]]) is None


# By the command that starts a job: what a stop says that abandons the job.
ABANDONED = {
    "BGREWRITEAOF": "There is a child rewriting the AOF. Killing it!",
    "BGSAVE": "There is a child saving an .rdb. Killing it!",
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("command", ABANDONED)
def test_job_that_a_stop_abandons_is_logged_in_the_words_of_redis(
    name: str, command: str, start_server: StartServer
) -> None:
    # Redis' job takes ten seconds with this delay. Headrace runs both requests before the first slice of its job.
    slow = ("--rdb-key-save-delay", "100000") if name == "oracle" else ()
    server = start_server(name, "--appendonly", "yes", "--aof-use-rdb-preamble", "yes", "--save", "", *slow)
    with server.connect() as wire:
        wire.call("MSET", *(word for number in range(100) for word in (f"k{number}", "v")))
        wire.send_bytes(encode((command,)) + encode(("SHUTDOWN",)))
        wire.wait_for_close()
    stop = ["User requested shutdown...", ABANDONED[command], "Calling fsync() on the AOF file.", "bye bye..."]
    # Redis' last line comes after the end of its connections.
    server.stop()
    assert missing_line(server.log_path, stop) is None
    assert server.log_path.read_text().count("Killing it!") == 1
