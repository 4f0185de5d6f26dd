"""redis-cli: one command, RESP3, mass insertion, its modes that watch a server, and the interactive prompt."""

from __future__ import annotations

import os
import pty
import select
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.servers import Server
from support.wire import encode

DEADLINE_S = 30

StartServer = Callable[..., Server]


def run(cli: Path, server: Server, *words: str, stdin: bytes = b"") -> str:
    """What redis-cli prints."""
    command = [str(cli), "-p", str(server.port), *words]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=DEADLINE_S, check=True)
    return done.stdout.decode()


class Terminal:
    """redis-cli at a terminal, ended on leaving."""

    def __init__(self, cli: Path, server: Server, *words: str) -> None:
        self._terminal, slave = pty.openpty()
        self._unread = b""
        environment = {**os.environ, "TERM": "dumb", "HOME": str(server.folder)}
        command = [str(cli), "-p", str(server.port), *words]
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment)
        os.close(slave)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._terminal)

    def write(self, data: bytes) -> None:
        """Type."""
        os.write(self._terminal, data)

    def read_until(self, mark: bytes) -> bytes:
        """What is shown up to the end of `mark`."""
        while mark not in self._unread:
            readable, _, _ = select.select([self._terminal], [], [], DEADLINE_S)
            assert readable, f"the terminal shows no {mark!r}: {self._unread!r}"
            self._unread += os.read(self._terminal, 4096)
        end = self._unread.index(mark) + len(mark)
        seen, self._unread = self._unread[:end], self._unread[end:]
        return seen


def test_one_command_per_call(cli: Path, server: Server) -> None:
    assert run(cli, server, "XADD", "s", "1-1", "f", "v") == "1-1\n"
    assert run(cli, server, "XLEN", "s") == "1\n"
    assert run(cli, server, "--json", "-3", "XREAD", "STREAMS", "s", "0") == '{"s":[["1-1",["f","v"]]]}\n'


def test_a_user_a_password_and_a_database_can_be_given(cli: Path, server: Server) -> None:
    assert run(cli, server, "-n", "3", "SET", "k", "v") == "OK\n"
    assert run(cli, server, "-n", "3", "DBSIZE") == "1\n"
    assert run(cli, server, "--user", "default", "--pass", "x", "--no-auth-warning", "PING") == "PONG\n"


def test_resp3_shows_maps(cli: Path, server: Server) -> None:
    run(cli, server, "XADD", "s", "1-1", "f", "v")
    assert run(cli, server, "-3", "--no-raw", "XREAD", "STREAMS", "s", "0") == (
        '1# "s" => \n   1) 1) "1-1"\n      2) 1) "f"\n         2) "v"\n'
    )


def test_commands_from_a_file_are_run_in_order(cli: Path, server: Server) -> None:
    lines = b'XADD s 1-1 f "a b"\nXADD s 1-1 f v\nXLEN s\n'
    assert run(cli, server, stdin=lines).splitlines() == [
        "1-1",
        "ERR The ID specified in XADD is equal or smaller than the target stream top item",
        "",
        "1",
    ]


def test_pipe_mode_inserts_a_thousand_entries(cli: Path, server: Server) -> None:
    requests = b"".join(encode(["XADD", "s", f"{number}-1", "n", number]) for number in range(1, 1001))
    assert "errors: 0, replies: 1000" in run(cli, server, "--pipe", stdin=requests)
    with server.connect() as wire:
        assert wire.ask("XLEN", "s") == 1000


@pytest.fixture
def filled(server: Server) -> Server:
    """A server with two streams and three strings."""
    with server.connect() as wire:
        for number in (1, 2, 3):
            assert wire.ask("SET", f"string:{number}", "v" * number) == b"OK"
            assert wire.ask("XADD", "stream:1", f"{number}-0", "f", "v") == b"%d-0" % number
        assert wire.ask("XADD", "stream:2", "1-0", "f", "v") == b"1-0"
    return server


def test_a_scan_lists_the_keys(cli: Path, filled: Server) -> None:
    assert sorted(run(cli, filled, "--scan").split()) == ["stream:1", "stream:2", "string:1", "string:2", "string:3"]
    assert sorted(run(cli, filled, "--scan", "--pattern", "stream:*").split()) == ["stream:1", "stream:2"]


def test_the_biggest_keys_are_found_by_elements(cli: Path, filled: Server) -> None:
    lines = run(cli, filled, "--bigkeys").splitlines()
    assert 'Biggest stream found "stream:1" has 3 entries' in lines
    assert 'Biggest string found "string:3" has 3 bytes' in lines
    assert "2 streams with 4 entries (40.00% of keys, avg size 2.00)" in lines


def test_the_biggest_keys_are_found_by_memory(cli: Path, filled: Server) -> None:
    with filled.connect() as wire:
        size = wire.ask("MEMORY", "USAGE", "stream:1", "SAMPLES", 0)
    lines = run(cli, filled, "--memkeys", "--memkeys-samples", "0").splitlines()
    assert f'Biggest stream found "stream:1" has {size} bytes' in lines


def test_latency_is_measured(cli: Path, server: Server) -> None:
    low, high, average, count = run(cli, server, "--latency", "-i", "0.1").split()
    assert 0 < float(low) <= float(average) <= float(high)
    assert int(count) > 0


def test_a_command_repeats(cli: Path, server: Server) -> None:
    assert run(cli, server, "-r", "3", "-i", "0.001", "INCR", "k").split() == ["1", "2", "3"]


def test_a_value_comes_from_standard_input(cli: Path, server: Server) -> None:
    assert run(cli, server, "-x", "XADD", "s", "1-1", "f", stdin=b"a\0b") == "1-1\n"
    with server.connect() as wire:
        assert wire.ask("XRANGE", "s", "-", "+") == [[b"1-1", [b"f", b"a\0b"]]]


def test_an_address_may_be_a_url_or_a_socket(cli: Path, start_server: StartServer) -> None:
    server = start_server("headrace", "--unixsocket", "redis.sock")
    with server.connect() as wire:
        assert wire.ask("CONFIG", "SET", "requirepass", "secret") == b"OK"
    url = ["-u", f"redis://default:secret@127.0.0.1:{server.port}/2", "SET", "k", "v"]
    socket = ["-s", str(server.folder / "redis.sock"), "-a", "secret", "-n", "2", "DBSIZE"]
    shown = [
        subprocess.run([cli, "--no-auth-warning", *words], capture_output=True, timeout=DEADLINE_S, check=True).stdout
        for words in (url, socket)
    ]
    assert shown == [b"OK\n", b"1\n"]


def test_statistics_come_line_by_line(cli: Path, filled: Server) -> None:
    with Terminal(cli, filled, "--stat", "-i", "0.01") as terminal:
        header, columns = terminal.read_until(b"\r\n5 ").decode().splitlines()[:2]
    assert header.startswith("------- data ------ --------------------- load")
    assert columns.split() == ["keys", "mem", "clients", "blocked", "requests", "connections"]


def test_a_monitor_shows_what_others_do(cli: Path, server: Server) -> None:
    with Terminal(cli, server, "MONITOR") as terminal, server.connect() as wire:
        terminal.read_until(b"OK\r\n")
        wire.ask("XADD", "s", "1-1", "f", "a b")
        assert terminal.read_until(b'"a b"').endswith(b'"XADD" "s" "1-1" "f" "a b"')


def test_a_subscriber_shows_what_is_published(cli: Path, server: Server) -> None:
    with Terminal(cli, server, "SUBSCRIBE", "news") as terminal, server.connect() as wire:
        terminal.read_until(b"(integer) 1")
        assert wire.ask("PUBLISH", "news", "hello") == 1
        assert terminal.read_until(b'"hello"').endswith(b'1) "message"\r\n2) "news"\r\n3) "hello"')


def test_the_prompt_comes_up_and_answers(cli: Path, server: Server) -> None:
    """An interactive start asks COMMAND DOCS for its hints; a broken answer would show before the prompt."""
    with Terminal(cli, server) as terminal:
        seen = terminal.read_until(b"> ")
        terminal.write(b"XADD s 1-1 f v\n")
        seen += terminal.read_until(b'"1-1"\r\n')
        terminal.write(b"HELP XADD\n")
        seen += terminal.read_until(b"5.0.0")
        terminal.write(b"QUIT\n")
        assert terminal.process.wait(DEADLINE_S) == 0
    assert b"rror" not in seen
