"""redis-cli: one command, RESP3, mass insertion, and the interactive prompt."""

from __future__ import annotations

import os
import pty
import select
import subprocess
from pathlib import Path

from support.servers import Server
from support.wire import encode

DEADLINE_S = 30


def run(cli: Path, server: Server, *words: str, stdin: bytes = b"") -> str:
    """What redis-cli prints."""
    command = [str(cli), "-p", str(server.port), *words]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=DEADLINE_S, check=True)
    return done.stdout.decode()


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


def test_the_prompt_comes_up_and_answers(cli: Path, server: Server) -> None:
    """An interactive start asks COMMAND DOCS for its hints; a broken answer would show before the prompt."""
    terminal, slave = pty.openpty()
    environment = {**os.environ, "TERM": "dumb", "HOME": str(server.folder)}
    words = [str(cli), "-p", str(server.port)]
    with subprocess.Popen(words, stdin=slave, stdout=slave, stderr=slave, env=environment) as process:
        os.close(slave)
        seen = read_until(terminal, b"> ")
        os.write(terminal, b"XADD s 1-1 f v\n")
        seen += read_until(terminal, b'"1-1"\r\n')
        os.write(terminal, b"HELP XADD\n")
        seen += read_until(terminal, b"5.0.0")
        os.write(terminal, b"QUIT\n")
        assert process.wait(DEADLINE_S) == 0
    os.close(terminal)
    assert b"rror" not in seen


def read_until(terminal: int, mark: bytes) -> bytes:
    """What the terminal shows up to `mark`."""
    seen = b""
    while mark not in seen:
        readable, _, _ = select.select([terminal], [], [], DEADLINE_S)
        assert readable, f"the terminal shows no {mark!r}: {seen!r}"
        seen += os.read(terminal, 4096)
    return seen
