"""The command line: what is printed, what is refused, and that a refused start creates no files."""

from __future__ import annotations

import io
import logging
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from headrace.server import main
from headrace.server.configuration.config import Config
from headrace.server.configuration.directives import DIRECTIVES
from headrace.server.reports import logs
from headrace.server.sockets.listener import ListenError


@pytest.fixture(autouse=True)
def _clean_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test in its own working directory, with the handlers of the package's logger put back after it."""
    monkeypatch.chdir(tmp_path)
    logger = logging.getLogger(logs.ROOT)
    before = logger.handlers[:]
    yield
    logger.handlers[:] = before


Serve = Callable[[Config], int]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """The configurations that reached the server, which itself does not run."""
    configs: list[Config] = []

    def serve(config: Config) -> int:
        configs.append(config)
        return 0

    install(monkeypatch, serve)
    return configs


def install(monkeypatch: pytest.MonkeyPatch, serve: Serve) -> None:
    """Put `serve` where main looks for it."""
    lifecycle = ModuleType("headrace.server.lifecycle")
    lifecycle.serve = serve  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "headrace.server.lifecycle", lifecycle)


@pytest.mark.parametrize("option", ["-v", "--version"])
def test_version_is_one_line(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([option]) == 0
    assert capsys.readouterr().out.startswith("Headrace server v=")


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_shows_usage(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([option]) == 0
    assert capsys.readouterr().out.startswith("Usage: headrace")


def test_help_lists_each_directive_in_its_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["--help"]) == 0
    shown = capsys.readouterr().out
    groups = re.split(r"^  (\w.*)$", shown.partition("Directives by group")[2], flags=re.MULTILINE)
    listed = dict(zip(groups[1::2], map(str.split, groups[2::2]), strict=True))
    assert {"--bind", "--port", "--protected-mode"} <= set(listed["Network"])
    assert "--appendfsync" in listed["Append-only file"]
    known = {f"--{row.name.decode()}" for row in DIRECTIVES}
    explained = {f"--{name}" for name in re.findall(r"^([a-z-]+)", main.EXAMPLE.read_text("utf-8"), re.MULTILINE)}
    assert {name for names in listed.values() for name in names} == explained & known
    assert max(len(line) for line in shown.splitlines() if line.strip() != str(main.EXAMPLE)) <= 120


@pytest.mark.parametrize(("mistyped", "meant"), [("--prot", "port"), ("--dri", "dir"), ("--appendonyl", "appendonly")])
def test_a_mistyped_option_gets_the_one_that_was_meant(
    mistyped: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main([mistyped, "7"]) == 1
    assert f"{meant}" in capsys.readouterr().err.splitlines()[-1]


def test_options_win_over_the_file(served: list[Config], tmp_path: Path) -> None:
    (tmp_path / "h.conf").write_text("port 7000\nhz 20\n")
    assert main.main(["h.conf", "--port", "7001", "--save", "", "--appendonly", "no"]) == 0
    (config,) = served
    assert (config.port, config.hz, config.save) == (7001, 20, b"")
    assert config.file_path == os.fsencode(tmp_path / "h.conf")
    assert config.dir == os.fsencode(tmp_path)


@pytest.mark.parametrize("words", [["-"], ["--hz", "30", "-"]])
def test_dash_reads_standard_input(words: list[str], served: list[Config], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"port 7005\n")))
    assert main.main(words) == 0
    assert served[0].port == 7005


def test_directory_is_entered(served: list[Config], tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    assert main.main(["--dir", "data", "--logfile", "h.log"]) == 0
    assert served[0].dir == os.fsencode(tmp_path / "data")
    assert (tmp_path / "data" / "h.log").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--port", "abc"],
            "\n*** FATAL CONFIG FILE ERROR (Headrace 0.1.0) ***\nReading option --port\n"
            ">>> '--port \"abc\"'\nargument couldn't be parsed into an integer\n",
        ),
        (["nosuch.conf"], "Fatal error, can't open config file '{here}/nosuch.conf': No such file or directory\n"),
        (
            ["--dir", "/nosuch"],
            "Can't chdir to '/nosuch': No such file or directory; create that folder, or choose another (dir)\n",
        ),
        (
            ["--logfile", "/nosuch/h.log"],
            "Can't open the log file '/nosuch/h.log': No such file or directory; create its folder, or choose another "
            "file (logfile)\n",
        ),
        (
            ["--maxmemory", "5", "gb"],
            "\n*** FATAL CONFIG FILE ERROR (Headrace 0.1.0) ***\nReading option --maxmemory\n"
            '>>> \'--maxmemory "5" "gb"\'\nwrong number of arguments: write it without a blank, maxmemory 5gb\n',
        ),
        (["--port", "0"], "Configured to not listen anywhere, exiting.\n"),
        (["--bind", "", "--port", "7000"], "Configured to not listen anywhere, exiting.\n"),
        (
            ["-", "extra", "--port", "1"],
            "'extra' is neither a configuration file nor an option: options start with --, as in --port 7000\n",
        ),
    ],
)
def test_refused_start_says_why_and_leaves_nothing(
    words: list[str],
    message: str,
    served: list[Config],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"")))
    assert main.main([*words, "--pidfile", "h.pid"] if words[0].startswith("--") else words) == 1
    assert capsys.readouterr().err == message.format(here=tmp_path)
    assert served == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["--prot", "1"], "option --prot\n>>> '--prot \"1\"'"),
        (["h.conf", "--prot", "1"], "option --prot\n"),
        (["bad.conf", "--port", "1"], "the configuration file {here}/bad.conf, at line 2\n>>> 'prot 1'"),
        (["include.conf"], "the configuration file bad.conf, at line 2\n"),
        (["h.conf", "-"], "standard input, at line 1\n>>> 'prot 2'"),
    ],
)
def test_error_of_a_bad_directive_has_its_place(
    words: list[str], place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "h.conf").write_text("port 7000\n")
    (tmp_path / "bad.conf").write_text("port 7000\nprot 1\n")
    (tmp_path / "include.conf").write_text("\n\n\ninclude bad.conf\n")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"prot 2\n")))
    assert main.main(words) == 1
    assert f"Reading {place.format(here=tmp_path)}" in capsys.readouterr().err


def test_data_directory_must_be_writable_when_it_is_used(
    served: list[Config], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert main.main(["--appendonly", "yes"]) == 1
    assert capsys.readouterr().err == (
        "Can't write to the data directory './': Permission denied; give the user that runs the server the right to "
        "write there, or choose another folder (dir)\n"
    )
    assert main.main([]) == 0


@pytest.mark.parametrize("logfile", ["", "h.log"])
def test_taken_port_is_one_line_for_the_user_and_in_the_log(
    logfile: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "Failed listening on port 7000 (tcp) of *, aborting: Address already in use"

    def serve(_: Config) -> int:
        raise ListenError(line)

    install(monkeypatch, serve)
    assert main.main(["--port", "7000", "--logfile", logfile]) == 1
    logged = Path(logfile).read_text() if logfile else capsys.readouterr().out
    assert logged.endswith(f" # {line}\n")
    assert logged.count("\n") == 1
    assert capsys.readouterr().err == (f"{line}\n" if logfile else "")


def test_daemon_logs_that_the_port_is_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = [sys.executable, "-m", "headrace", "--daemonize", "yes", "--logfile", "h.log", "--bind", "127.0.0.1"]
        held_by_daemon, end = os.pipe()
        subprocess.run([*words, "--port", str(port)], cwd=tmp_path, check=True, pass_fds=[end])
        os.close(end)
        with open(held_by_daemon, "rb") as until_the_daemon_ends:
            assert until_the_daemon_ends.read() == b""
    (line,) = (tmp_path / "h.log").read_text().splitlines()
    assert f"Failed listening on port {port} (tcp) of 127.0.0.1, aborting: Address already in use" in line


def test_exit_code_is_that_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, lambda _: 3)
    assert main.main([]) == 3


def test_loglevel_can_be_changed_while_the_server_runs(served: list[Config]) -> None:
    assert main.main([]) == 0
    served[0].set_many([(b"loglevel", b"debug")])
    assert logging.getLogger(logs.ROOT).level == logging.DEBUG
