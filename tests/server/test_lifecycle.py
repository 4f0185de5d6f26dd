"""From start to exit code: loading, stopping, failing; with real processes where signals are meant."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace import __version__, build_form
from headrace.persistence.errors import LogError
from headrace.persistence.files import DiskFiles
from headrace.server import lifecycle
from headrace.server.app import Server
from headrace.server.configuration.config import Config
from headrace.server.sockets.listener import ListenError
from headrace.server.sockets.metrics_endpoint import DESCRIPTORS_COUNT
from headrace.server.storage import key_walks
from headrace.store.errors import GenericError
from support.inprocess import running_server
from support.logging_server import is_locked
from support.ports import free_port
from support.wire import Wire, encode

STOP_TIMEOUT_S = 15


def start(
    tmp_path: Path, *options: str, program: tuple[str, str] = ("-m", "headrace")
) -> tuple[subprocess.Popen[bytes], int]:
    """A server process that is ready."""
    port = free_port()
    words = [
        sys.executable,
        *program,
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--dir",
        str(tmp_path),
        *options,
    ]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, cwd=tmp_path)
    assert process.stdout is not None
    while line := process.stdout.readline():
        if b"Ready to accept connections" in line:
            return process, port
    raise AssertionError("the server did not become ready")


async def test_acknowledged_writes_survive_a_restart(tmp_path: Path) -> None:
    directives = {"appendonly": True, "dir": str(tmp_path).encode()}
    async with running_server(**directives) as running:
        peer = await running.connect()
        peer.writer.write(
            encode(("XADD", "s", "1-1", "f", "v"))
            + encode(("SELECT", 3))
            + encode(("MULTI",))
            + encode(("XADD", "t", "1-1", "f", "v"))
            + encode(("XGROUP", "CREATE", "t", "g", 0))
            + encode(("EXEC",))
            + encode(("XREADGROUP", "GROUP", "g", "c", "STREAMS", "t", ">"))
        )
        assert await peer.reader.readuntil(b"$1\r\nv\r\n")
    async with running_server(**directives) as running:
        peer = await running.connect()
        peer.send("XLEN", "s")
        await peer.expect(b":1\r\n")
        peer.send("SELECT", 3)
        peer.send("XPENDING", "t", "g")
        await peer.expect(b"+OK\r\n*4\r\n:1\r\n$3\r\n1-1\r\n$3\r\n1-1\r\n*1\r\n*2\r\n$1\r\nc\r\n$1\r\n1\r\n")
        peer.send("XPENDING", "t", "g", "IDLE", 1_000_000, "-", "+", 1)
        await peer.expect(b"*0\r\n")


async def test_log_can_be_turned_on_and_off_while_running(tmp_path: Path) -> None:
    directives = {"dir": str(tmp_path).encode()}
    async with running_server(**directives) as running:
        peer = await running.connect()
        for request in (
            ("XADD", "s", "1-1", "f", "v"),
            ("CONFIG", "SET", "appendonly", "yes"),
            ("XADD", "s", "1-2", "f", "v"),
            ("CONFIG", "SET", "appendonly", "no"),
            ("XADD", "s", "1-3", "f", "v"),
        ):
            peer.send(*request)
            await peer.line()
            if request[0] == "XADD":
                await peer.line()
            while running.server.log is not None and running.server.log.is_starting:
                await asyncio.sleep(0)
    async with running_server(appendonly=True, **directives) as running:
        assert len(running.server.store.databases[0].keys[b"s"]) == 2


async def test_unknown_record_stops_the_start(tmp_path: Path) -> None:
    async with running_server(appendonly=True, dir=str(tmp_path).encode()):
        pass
    increment = next((tmp_path / "appendonlydir").glob("*.incr.aof"))
    increment.write_bytes(encode(("NOSUCH", "a")))
    config = Config()
    config.appendonly, config.dir = True, str(tmp_path).encode()
    with pytest.raises(LogError, match="NOSUCH"):
        Server(config).load_now()
    increment.write_bytes(encode(("XADD", "a")))
    with pytest.raises(LogError, match="wrong number of arguments"):
        Server(config).load_now()


async def test_failing_record_is_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running_server(appendonly=True, dir=str(tmp_path).encode()):
        pass
    increment = next((tmp_path / "appendonlydir").glob("*.incr.aof"))
    increment.write_bytes(encode(("XADD", "s", "1-1", "f", "v")) * 2 + encode(("XADD", "s", "1-2", "f", "v")))
    async with running_server(appendonly=True, dir=str(tmp_path).encode()) as running:
        assert len(running.server.store.databases[0].keys[b"s"]) == 2
    assert "== CRITICAL == This server is sending an error to its AOF-loading-client" in caplog.text


async def test_active_expiry_removes_and_logs_keys_that_no_client_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_walks, "perf_counter_ns", lambda: 0)  # a turn of it ends with its work, not with its time
    async with running_server(appendonly=True, dir=str(tmp_path).encode()) as running:
        server = running.server
        peer = await running.connect()
        for index in range(500):
            peer.send("XADD", f"s{index}", "1-1", "f", "v")
        await peer.expect(b"$3\r\n1-1\r\n" * 500)
        db = server.store.databases[0]
        for key in list(db.keys):
            db.expires[key] = server.clock() - 1
        server.periodic.run()
        assert not db.keys
        assert server.stats.expired_keys == 500
        await asyncio.sleep(0)
        increment = next((tmp_path / "appendonlydir").glob("*.incr.aof"))
        assert increment.read_bytes().count(b"\r\nDEL\r\n") == 500


async def test_broken_promise_of_always_ends_the_server_without_a_reply(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_server(appendonly=True, appendfsync=b"always", dir=str(tmp_path).encode()) as running:
        log = running.server.log
        assert log is not None

        def fails(*_: object) -> int:
            raise OSError(28, os.strerror(28))

        log._file.fsync = fails  # type: ignore[union-attr,method-assign,assignment]
        peer = await running.connect()
        peer.send("XADD", "s", "1-1", "f", "v")
        await peer.expect_end()
        assert running.server.exit_code == 1
        assert running.server.stopped.is_set()
        await running.server.stop()
    assert caplog.text.count("Exiting...") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_in_good_order(tmp_path: Path, number: signal.Signals) -> None:
    process, port = start(tmp_path, "--appendonly", "yes", "--pidfile", str(tmp_path / "pid"))
    assert (tmp_path / "pid").read_text() == f"{process.pid}\n"
    with Wire(port) as wire, Wire(port) as blocked:
        blocked.send("XREAD", "BLOCK", 0, "STREAMS", "t", "$")
        assert wire.call("XADD", "s", "1-1", "f", "v") == b"$3\r\n1-1\r\n"
        process.send_signal(signal.SIGHUP)
        assert wire.call("PING") == b"+PONG\r\n"
        process.send_signal(number)
        assert process.wait(STOP_TIMEOUT_S) == 0
        assert blocked.socket.recv(1) == b""
    assert not (tmp_path / "pid").exists()
    assert b"XADD" in next((tmp_path / "appendonlydir").glob("*.incr.aof")).read_bytes()


ENDLESS = "redis.log(redis.LOG_WARNING, 'script runs') while true do end"
WRITING = """
    redis.call('SET', 'first', '1')
    redis.log(redis.LOG_WARNING, 'script runs')
    local start = os.clock()
    while os.clock() - start < 0.3 do end
    redis.call('SET', 'second', '2')
"""


@pytest.mark.parametrize(("script", "is_ended"), [(ENDLESS, True), (WRITING, False)])
def test_signal_ends_a_script_that_has_written_nothing_and_waits_for_one_that_has(
    script: str, is_ended: bool, tmp_path: Path
) -> None:
    pytest.importorskip("lupa")
    process, port = start(tmp_path, "--appendonly", "yes", "--busy-reply-threshold", "0")
    assert process.stdout is not None
    with Wire(port) as wire:
        wire.send("EVAL", script, "0")
        while b"script runs" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_TIMEOUT_S) == 0
    log = next((tmp_path / "appendonlydir").glob("*.incr.aof")).read_bytes()
    assert (b"first" in log, b"second" in log) == ((False, False) if is_ended else (True, True))


def test_data_folder_changes_while_there_is_no_log(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    process, port = start(tmp_path, "--dir", str(first), "--enable-protected-configs", "yes", "--save", "3600 1")
    with Wire(port) as wire:
        failed = b"-ERR CONFIG SET failed (possibly related to argument 'dir') - "
        assert wire.call("CONFIG", "SET", "dir", "/nosuch") == failed + b"No such file or directory\r\n"
        assert wire.call("CONFIG", "SET", "dir", "../second") == b"+OK\r\n"
        assert wire.ask("CONFIG", "GET", "dir") == [b"dir", os.fsencode(second)]
        assert wire.call("CONFIG", "SET", "dir", str(first), "port", "-1").startswith(b"-ERR")
        assert wire.call("SAVE") == b"+OK\r\n"
        assert wire.call("CONFIG", "SET", "appendonly", "yes") == b"+OK\r\n"
        reply = wire.call("CONFIG", "SET", "dir", str(first))
        assert reply == failed + b"the append-only file cannot be moved: turn it off first (appendonly no)\r\n"
    process.terminate()
    assert process.wait(STOP_TIMEOUT_S) == 0
    assert (second / "dump.rdb").exists()
    assert (second / "appendonlydir").exists()
    assert list(first.iterdir()) == []


def test_data_folder_of_another_server_is_refused(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.mkdir()
    other.mkdir()
    first, first_port = start(tmp_path, "--dir", str(other), "--appendonly", "yes")
    second, second_port = start(tmp_path, "--dir", str(mine), "--enable-protected-configs", "yes", "--save", "3600 1")
    with Wire(second_port) as wire:
        assert b"Another server uses the data folder" in wire.call("CONFIG", "SET", "dir", str(other))
        assert wire.ask("CONFIG", "GET", "dir") == [b"dir", os.fsencode(mine)]
    for process in (first, second):
        process.terminate()
        assert process.wait(STOP_TIMEOUT_S) == 0
    assert first_port != second_port


def test_data_folder_that_was_moved_and_made_again_is_locked(tmp_path: Path) -> None:
    folder, moved = tmp_path / "data", tmp_path / "moved"
    folder.mkdir()
    process, port = start(tmp_path, "--dir", str(folder), "--enable-protected-configs", "yes", "--save", "3600 1")
    folder.rename(moved)
    folder.mkdir()
    with Wire(port) as wire:
        for present, other in ((folder, moved), (moved, folder), (folder, moved)):
            assert wire.call("CONFIG", "SET", "dir", str(present)) == b"+OK\r\n"
            assert (is_locked(present), is_locked(other)) == (True, False)
    process.terminate()
    assert process.wait(STOP_TIMEOUT_S) == 0
    assert not is_locked(folder)


def test_log_stays_in_its_folder_when_that_is_named_again(tmp_path: Path) -> None:
    folder, moved = tmp_path / "data", tmp_path / "moved"
    folder.mkdir()
    process, port = start(tmp_path, "--dir", str(folder), "--enable-protected-configs", "yes", "--appendonly", "yes")
    with Wire(port) as wire:
        for path in (str(folder), "."):
            assert wire.call("CONFIG", "SET", "dir", path) == b"+OK\r\n"
        folder.rename(moved)
        folder.mkdir()
        assert b"cannot be moved" in wire.call("CONFIG", "SET", "dir", str(folder))
        assert wire.call("CONFIG", "SET", "dir", str(moved)) == b"+OK\r\n"
        assert (is_locked(folder), is_locked(moved)) == (False, True)
    process.terminate()
    assert process.wait(STOP_TIMEOUT_S) == 0


def test_server_may_be_given_its_own_folder_under_another_name(tmp_path: Path) -> None:
    folder, link = tmp_path / "data", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    process, port = start(tmp_path, "--dir", str(link), "--enable-protected-configs", "yes", "--save", "3600 1")
    with Wire(port) as wire:
        for path in (folder, link, tmp_path / "data" / ".." / "data"):
            assert wire.call("CONFIG", "SET", "dir", str(path)) == b"+OK\r\n"
            assert is_locked(folder)
    process.terminate()
    assert process.wait(STOP_TIMEOUT_S) == 0


@pytest.mark.parametrize(
    ("options", "is_written"),
    [
        (("--save", "", "--shutdown-on-sigterm", "save"), True),
        (("--save", "3600 1", "--shutdown-on-sigterm", "nosave"), False),
        (("--save", "3600 1", "--shutdown-on-sigint", "nosave"), True),
        (("--save", "3600 1", "--shutdown-on-sigterm", "now", "force"), True),
    ],
)
def test_signal_saves_as_its_directive_says(options: tuple[str, ...], is_written: bool, tmp_path: Path) -> None:
    process, port = start(tmp_path, *options)
    with Wire(port) as wire:
        wire.call("SET", "k", "v")
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_TIMEOUT_S) == 0
    assert (tmp_path / "dump.rdb").exists() == is_written


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the disk is made full by way of Linux' prlimit")
def test_forced_stop_ends_although_it_cannot_save(tmp_path: Path) -> None:
    process, port = start(tmp_path, "--save", "3600 1", "--shutdown-on-sigterm", "force")
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, 0))
    with Wire(port) as wire:
        wire.call("SET", "k", "v")
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_TIMEOUT_S) == 1


def test_shutdown_command_ends_the_process_with_code_zero(tmp_path: Path) -> None:
    process, port = start(tmp_path)
    with Wire(port) as wire:
        wire.send("SHUTDOWN", "NOSAVE")
        assert process.wait(STOP_TIMEOUT_S) == 0
        assert wire.socket.recv(1) == b""


@pytest.mark.parametrize("first", lifecycle.STOP_SIGNALS)
def test_second_signal_ends_the_server_at_once_only_if_it_is_sigint(
    first: signal.Signals, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    codes: list[int] = []
    handlers: dict[int, Any] = {}
    monkeypatch.setattr(lifecycle.os, "_exit", codes.append)
    monkeypatch.setattr(lifecycle.signal, "signal", handlers.__setitem__)
    config = Config()
    config.save = b""
    server = Server(config)
    lifecycle.on_stop_signal(server, first)
    assert (codes, server.stopped.is_set(), set(handlers)) == ([], True, {signal.SIGTERM, signal.SIGINT})
    handlers[signal.SIGTERM](signal.SIGTERM, None)
    assert (codes, caplog.messages[-1]) == ([], "Received SIGTERM scheduling shutdown...")
    handlers[signal.SIGINT](signal.SIGINT, None)
    assert codes == [1]
    assert "You insist... exiting now." in caplog.messages


def test_two_signals_in_one_turn_save_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle.signal, "signal", lambda number, handler: None)
    server = Server(Config())
    saves: list[bool | None] = []
    monkeypatch.setattr(server, "prepare_stop", lambda save: not saves.append(save))
    lifecycle.on_stop_signal(server, signal.SIGTERM)
    lifecycle.on_stop_signal(server, signal.SIGTERM)
    assert saves == [None]


def test_second_sigint_does_not_wait_for_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    to_loop: list[int] = []
    monkeypatch.setattr(lifecycle.os, "_exit", codes.append)
    server = Server(Config())

    def receive(number: int) -> None:
        lifecycle._end_script(server, lambda number, _: to_loop.append(number), number, None)

    receive(signal.SIGINT)
    receive(signal.SIGTERM)
    assert (to_loop, codes) == ([signal.SIGINT, signal.SIGTERM], [])
    receive(signal.SIGINT)
    assert codes == [1]


# A server that sends itself signals while its first snapshot is written.
SIGNALLED_WHILE_SAVING = """
import os, sys
from headrace.__main__ import main
from {module} import DiskFiles
numbers, failures, without = {numbers}, {failures}, {without}
sys.modules.update(dict.fromkeys(without))
replace = DiskFiles.replace
def signalled(blocks):
    for block in blocks:
        yield block
        while numbers:
            os.kill(os.getpid(), numbers.pop())
        if failures:
            raise failures.pop()
DiskFiles.replace = lambda self, path, blocks: replace(self, path, signalled(blocks))
sys.exit(main())
"""


def start_signalled(
    folder: Path, *numbers: int, failures: str = "[]", without: tuple[str, ...] = ()
) -> tuple[subprocess.Popen[bytes], int]:
    """A server that receives these signals while it saves; that save and the next ones may fail."""
    program = SIGNALLED_WHILE_SAVING.format(
        module=DiskFiles.__module__, numbers=[int(each) for each in numbers], failures=failures, without=without
    )
    return start(folder, "--save", "3600 1", program=("-c", program))


@pytest.mark.parametrize("without", [(), ("uvloop",)])
@pytest.mark.parametrize("first", lifecycle.STOP_SIGNALS)
def test_second_sigterm_while_the_dataset_is_saved_changes_nothing(
    first: signal.Signals, without: tuple[str, ...], tmp_path: Path
) -> None:
    process, port = start_signalled(tmp_path, signal.SIGTERM, signal.SIGTERM, without=without)
    assert process.stdout is not None
    with Wire(port) as wire:
        wire.call("SET", "k", "v")
        process.send_signal(first)
        assert process.wait(STOP_TIMEOUT_S) == 0
    told = process.stdout.read()
    assert told.count(b"Received SIGTERM scheduling shutdown...") == 2 + (first == signal.SIGTERM)
    assert told.count(b"DB saved on disk") == 1
    assert sorted(os.listdir(tmp_path)) == ["dump.rdb"]


@pytest.mark.parametrize("first", lifecycle.STOP_SIGNALS)
def test_second_sigint_while_the_dataset_is_saved_ends_the_server_and_removes_the_part_that_is_written(
    first: signal.Signals, tmp_path: Path
) -> None:
    process, port = start_signalled(tmp_path, signal.SIGINT)
    assert process.stdout is not None
    with Wire(port) as wire:
        wire.call("SET", "k", "v")
        process.send_signal(first)
        assert process.wait(STOP_TIMEOUT_S) == 1
    assert b"You insist... exiting now." in process.stdout.read()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("without", [(), ("uvloop",)])
def test_signal_that_arrives_before_a_stop_fails_does_not_end_the_server(
    without: tuple[str, ...], tmp_path: Path
) -> None:
    failures = "[OSError(28, 'No space left on device')]"
    process, port = start_signalled(tmp_path, signal.SIGTERM, failures=failures, without=without)
    assert process.stdout is not None
    with Wire(port) as wire:
        wire.call("SET", "k", "v")
        process.send_signal(signal.SIGTERM)
        while b"Errors trying to shut down the server, so it continues" not in process.stdout.readline():
            pass
        assert wire.call("GET", "k") == b"$1\r\nv\r\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_TIMEOUT_S) == 0
    assert os.listdir(tmp_path) == ["dump.rdb"]


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the disk is made full by way of Linux' prlimit")
@pytest.mark.parametrize("options", [("--save", "3600 1"), ("--save", "", "--appendonly", "yes")])
def test_stop_that_cannot_save_says_why_and_continues_until_a_second_signal(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    process, port = start(tmp_path, *options)
    assert process.stdout is not None
    # From here on no file grows: writes fail with EFBIG, as they would with ENOSPC on a full disk.
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, 0))
    with Wire(port) as wire:
        wire.call("XADD", "s", "1-1", "f", "v")
        process.send_signal(signal.SIGTERM)
        lines = [process.stdout.readline()]
        while b"Errors trying to shut down the server, so it continues" not in lines[-1]:
            lines.append(process.stdout.readline())
        before = [line for line in lines[:-1] if b"can't exit" not in line]
        assert b"File too large" in before[-1], "the line before says why"
        assert b"ERR Errors trying to SHUTDOWN. Check logs." in wire.call("SHUTDOWN")
        lines = [process.stdout.readline()]
        while b"File too large" not in lines[-1]:
            lines.append(process.stdout.readline())
        assert wire.call("XLEN", "s") == b":1\r\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(STOP_TIMEOUT_S) == 1
    assert b"Exiting without saving the dataset." in process.stdout.read()


async def test_taken_port_fails_before_the_log_is_touched(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = Config()
        config.port, config.bind = taken.getsockname()[1], b"127.0.0.1"
        config.appendonly, config.dir = True, str(tmp_path).encode()
        with pytest.raises(ListenError, match="in use"):
            await lifecycle.run(Server(config))
    assert list(tmp_path.iterdir()) == []


def test_unusable_log_folder_is_one_line_before_anything_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "appendonlydir").touch()
    words = ["--port", str(free_port()), "--bind", "127.0.0.1", "--appendonly", "yes", "--dir", str(tmp_path)]
    command = [sys.executable, "-m", "headrace", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=STOP_TIMEOUT_S)
    assert done.returncode == 1
    start, _, initialized, line = done.stdout.splitlines()
    assert start.endswith(f"* Headrace {__version__} starts, in the {build_form()} form")
    assert initialized.endswith("* Server initialized")
    assert line.endswith(
        f"# {tmp_path}/appendonlydir: Not a directory; a file is in the place of a folder: move it away"
    )


Limits = list[tuple[int, int]]


@pytest.fixture
def file_limits(monkeypatch: pytest.MonkeyPatch) -> Limits:
    """The (soft, hard) limits on open files that were set, the last one in force. Raising the hard one is refused."""
    limits = [(1000, 5000)]

    def set_limit(_: int, wanted: tuple[int, int]) -> None:
        if wanted[1] > limits[-1][1]:
            raise ValueError("not allowed to raise maximum limit")
        limits.append(wanted)

    monkeypatch.setattr(lifecycle.resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(lifecycle.resource, "setrlimit", set_limit)
    return limits


@pytest.mark.parametrize(
    ("wanted", "allowed", "limit"), [(900, 900, 1000), (968, 968, 1000), (969, 969, 1001), (10_000, 4968, 5000)]
)
def test_clients_are_as_many_as_files_may_be_opened(wanted: int, allowed: int, limit: int, file_limits: Limits) -> None:
    assert lifecycle.allow_clients(wanted) == allowed
    assert file_limits[-1] == (limit, 5000)


@pytest.mark.parametrize("limits", [(-1, -1), (1000, -1)])
def test_limit_without_end_lets_any_number_in(limits: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    changes: Limits = []
    monkeypatch.setattr(lifecycle.resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(lifecycle.resource, "setrlimit", lambda _, wanted: changes.append(wanted))
    assert lifecycle.allow_clients(10_000) == 10_000
    assert changes == ([] if limits[0] == -1 else [(10_032, -1)])


def test_too_many_clients_are_one_warning_at_the_start_and_an_error_later(
    file_limits: Limits, caplog: pytest.LogCaptureFixture
) -> None:
    config = Config()
    lifecycle.limit_clients(config)
    assert config.maxclients == 4968
    (line,) = caplog.messages
    assert line.startswith("Current maximum open files is 5000. maxclients has been reduced from 10000 to 4968 to ")
    with pytest.raises(GenericError, match="not able to handle the specified number of clients, try with 4968"):
        config.set_many([(b"maxclients", b"4969")])
    config.set_many([(b"maxclients", b"100")])
    assert config.maxclients == 100


def test_pid_file_is_not_written_through_a_link(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "pid").symlink_to(victim)
    config = Config()
    config.pidfile = os.fsencode(tmp_path / "pid")
    assert lifecycle.write_pid_file(Server(config)) is None
    assert victim.read_text() == "precious"
    assert "Failed to write the pid file" in caplog.text


def test_metrics_have_open_files_of_their_own(file_limits: Limits) -> None:
    config = Config()
    config.metrics_port = 9121
    lifecycle.limit_clients(config)
    assert config.maxclients == 4968 - DESCRIPTORS_COUNT


async def test_server_without_any_address_does_not_start() -> None:
    config = Config()
    config.bind = b"-192.0.2.1"
    with pytest.raises(ListenError, match=r"not listen anywhere, exiting: this machine has none of -192\.0\.2\.1"):
        await lifecycle.run(Server(config))


async def test_unix_socket_serves_with_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    config = Config()
    config.port, config.unixsocket, config.unixsocketperm = 0, str(path).encode(), 0o600
    for _ in range(2):  # the second start replaces the socket that the first has left
        server = Server(config)
        assert lifecycle.listen(server) == [str(path)]
        await server.start_accepting()
        assert path.stat().st_mode & 0o777 == 0o600
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(b"PING\r\n")
        assert await reader.readline() == b"+PONG\r\n"
        writer.write(b"CLIENT INFO\r\n")
        await reader.readline()
        assert b" flags=U " in await reader.readline()
        await server.stop()


@pytest.mark.parametrize(
    ("save", "appendonly", "is_writable", "is_told"),
    [
        (b"3600 1", False, False, True),
        (b"3600 1", False, True, False),
        (b"", False, False, False),
        (b"3600 1", True, False, False),
    ],
)
def test_folder_that_takes_no_snapshot_is_reported_at_the_start(
    save: bytes,
    appendonly: bool,
    is_writable: bool,
    is_told: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: is_writable)
    config = Config()
    config.save, config.appendonly, config.dir = save, appendonly, b"/data"
    lifecycle.warn_of_folder(config)
    assert ("Snapshots cannot be written to /data: choose another folder (--dir)" in caplog.text) is is_told


def test_stop_during_a_load_ends_without_a_word_of_being_ready(tmp_path: Path) -> None:
    folder = tmp_path / "appendonlydir"
    folder.mkdir()
    (folder / "appendonly.aof.1.incr.aof").write_bytes(b"".join(encode(("SET", n, "v" * 50)) for n in range(200_000)))
    (folder / "appendonly.aof.manifest").write_bytes(b"file appendonly.aof.1.incr.aof seq 1 type i\n")
    port = free_port()
    words = [sys.executable, "-m", "headrace", "--port", str(port), "--bind", "127.0.0.1", "--appendonly", "yes"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, cwd=tmp_path)
    while True:
        with contextlib.suppress(ConnectionRefusedError), Wire(port) as wire:
            if wire.call("PING").startswith(b"-LOADING"):
                wire.send("SHUTDOWN")
                break
    errors, _ = process.communicate(timeout=STOP_TIMEOUT_S)
    assert process.returncode == 0
    assert b"Ready to accept connections" not in errors
    assert not (tmp_path / "dump.rdb").exists(), "half a dataset is not saved"


def test_a_reader_that_closes_standard_output_costs_nothing_but_the_lines(tmp_path: Path) -> None:
    port = free_port()
    words = [sys.executable, "-m", "headrace", "--port", str(port), "--bind", "127.0.0.1", "--loglevel", "debug"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path)
    assert process.stdout is not None
    while b"Ready to accept connections" not in process.stdout.readline():
        pass
    process.stdout.close()
    for _ in range(3):
        with Wire(port) as wire:
            assert wire.call("PING") == b"+PONG\r\n"
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    with process.stderr as errors:
        assert errors.read() == b""
    assert process.wait(STOP_TIMEOUT_S) == 0
