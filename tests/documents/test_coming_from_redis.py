"""docs/coming-from-redis.md: each section's command lines run against a Redis with data, and nothing is lost unsaid.

Paths, ports and programs are replaced: /var/lib is a folder of the test, redis-server and redis-cli are the oracle's.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support.documents import ROOT
from support.ports import free_port
from support.servers import oracle_folder
from support.wire import Wire

PAGE = ROOT / "docs" / "coming-from-redis.md"
TIMEOUT_S = 60
POLL_S = 0.02

OURS = [
    ("SET", "k", "v"), ("XADD", "s", "1-1", "f", "v"), ("XADD", "s", "2-1", "f", "w"),
    ("XGROUP", "CREATE", "s", "g", "0"), ("XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "STREAMS", "s", ">"),
    ("SET", "l", "w", "PX", "100000000"),
]  # fmt: skip
FOREIGN = [
    ("VADD", "a", "VALUES", "1", "1", "m"),
    ("VADD", "h", "VALUES", "1", "1", "m"),
    ("SET", "z", "old"),
    ("VADD", "y", "VALUES", "1", "1", "m"),
    ("RENAME", "y", "z"),
]


def sections() -> dict[str, list[str]]:
    """The command lines of each section, by its title."""
    found: dict[str, list[str]] = {}
    for part in re.split(r"^## ", PAGE.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        title = part.partition("\n")[0]
        found[title] = [
            line
            for block in re.findall(r"```sh\n(.*?)```", part, re.DOTALL)
            for line in block.replace("\\\n", " ").splitlines()
            if not line.startswith("#")
        ]
    return {title: lines for title, lines in found.items() if lines}


class Machine:
    """Runs the command lines of a section."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = {"6379": free_port(), "7000": free_port()}
        self.stack = ExitStack()
        self.outputs: list[Path] = []
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        (folder / "var" / "lib" / "redis").mkdir(parents=True)
        (folder / "etc" / "redis").mkdir(parents=True)
        (folder / "etc" / "redis" / "redis.conf").write_text(
            "bind 127.0.0.1 -::1\nport 6379\ndaemonize yes\nlogfile /var/log/redis.log\ndir /var/lib/redis\n"
            "list-max-listpack-size -2\nactiverehashing yes\naof-use-rdb-preamble yes\nsave 3600 1\n"
        )

    def run(self, line: str) -> None:
        line = re.sub(r"(?<=[ ])/(?=var/|etc/|backup)", f"{self.folder}/", line)
        program, *words = shlex.split(line)
        if program in ("headrace", "redis-server"):
            self.start(program, words)
        elif program == "redis-cli":
            self.ask(words)
        elif program == "systemctl":
            # As systemd does: with a signal, and until the process has ended.
            assert words == ["stop", "redis-server"]
            self.processes["redis-server"].terminate()
            self.processes["redis-server"].wait(TIMEOUT_S)
        elif program == "while":
            self.wait(line)
        elif program in ("cp", "mv", "mkdir"):
            subprocess.run([program, *words], check=True, timeout=TIMEOUT_S)
        else:
            # tests/container/test_engine.py runs the lines of Docker.
            assert program == "docker", f"no test knows how to run {program!r}"

    def start(self, program: str, words: list[str]) -> None:
        """A server, which must serve."""
        at = words.index("--port") + 1
        words[at] = str(self.ports[words[at]])
        started = [sys.executable, "-m", "headrace"] if program == "headrace" else [str(oracle() / "redis-server")]
        output = self.folder / f"output.{len(self.outputs)}"
        self.outputs.append(output)
        with output.open("wb") as log:
            process = subprocess.Popen(
                [*started, *words, "--bind", "127.0.0.1"], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log,
            )  # fmt: skip
        self.processes[program] = process
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        deadline_s = time.monotonic() + TIMEOUT_S
        while b"Ready to accept" not in output.read_bytes():
            assert process.poll() is None, output.read_text()
            assert time.monotonic() < deadline_s, output.read_text()

    def wait(self, line: str) -> None:
        """A loop of the shell, as it is on the page."""
        client = oracle() / "redis-cli"
        line = re.sub(r"redis-cli(?: -p (\d+))?", lambda match: f"{client} -p {self.ports[match[1] or '6379']}", line)
        subprocess.run(["sh", "-c", line], check=True, timeout=TIMEOUT_S)

    def ask(self, words: list[str]) -> None:
        """A request with redis-cli. Work in the background is not awaited: the page has to."""
        port = self.ports["6379"]
        if words[:1] == ["-p"]:
            port = self.ports[words[1]]
            words = words[2:]
        command = [str(oracle() / "redis-cli"), "-p", str(port), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
        assert not re.match(r"ERR|\(error\)", done.stdout), done.stdout
        deadline_s = time.monotonic() + TIMEOUT_S
        while words == ["shutdown"] and is_listening(port):
            assert time.monotonic() < deadline_s
            time.sleep(POLL_S)

    def keys(self, port: str) -> dict[bytes, object]:
        """The keys of a server, with the content of streams and strings."""
        with Wire(self.ports[port]) as wire:
            found: dict[bytes, object] = {}
            for key in wire.ask("KEYS", "*"):
                kind = wire.ask("TYPE", key)
                if kind == b"stream":
                    found[key] = (wire.ask("XRANGE", key, "-", "+"), wire.ask("XPENDING", key, "g"))
                else:
                    found[key] = wire.ask("GET", key) if kind == b"string" else kind
            return found


def is_listening(port: int) -> bool:
    try:
        with Wire(port) as wire:
            wire.call("PING")
    except OSError:
        return False
    return True


def oracle() -> Path:
    folder = oracle_folder()
    assert folder is not None
    return folder


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    with machine.stack:
        yield machine


def serve_redis(machine: Machine, *options: str, foreign: bool = False) -> dict[bytes, object]:
    """Start a Redis with data. Returns its keys without those of other types."""
    folder = str(machine.folder / "var" / "lib" / "redis")
    machine.start("redis-server", ["--port", "6379", "--dir", folder, *options])
    with Wire(machine.ports["6379"]) as wire:
        for words in (*OURS, *(FOREIGN if foreign else ())):
            assert not wire.call(*words).startswith(b"-"), words
    return {key: value for key, value in machine.keys("6379").items() if key in (b"k", b"l", b"s")}


def serve_headrace(machine: Machine, appendonly: str = "yes") -> dict[bytes, object]:
    """Start a Headrace with data, and a log if nothing else is said. Returns its keys."""
    folder = machine.folder / "var" / "lib" / "headrace"
    folder.mkdir(parents=True)
    machine.start("headrace", ["--port", "7000", "--dir", str(folder), "--appendonly", appendonly])
    with Wire(machine.ports["7000"]) as wire:
        for words in OURS:
            assert not wire.call(*words).startswith(b"-"), words
    return machine.keys("7000")


def test_every_section_with_command_lines_is_tested() -> None:
    assert sections().keys() == {
        "With a snapshot", "With an append-only file", "The configuration", "A volume of Docker",
        "Going back to Redis", "Backups",
    }  # fmt: skip


@pytest.mark.oracle
def test_a_snapshot_is_loaded_and_becomes_a_log(oracle: Any, machine: Machine) -> None:
    kept = serve_redis(machine)
    for line in sections()["With a snapshot"]:
        machine.run(line)
    assert machine.keys("7000") == kept
    assert "DB loaded from append only file" in machine.outputs[-1].read_text()


@pytest.mark.oracle
@pytest.mark.parametrize("rewritten", [True, False])
def test_a_log_is_loaded_with_other_types_and_without(oracle: Any, rewritten: bool, machine: Machine) -> None:
    kept = serve_redis(machine, "--appendonly", "yes", foreign=True)
    lines = sections()["With an append-only file"]
    if not rewritten:
        lines.remove("redis-cli bgrewriteaof")
    refused = lines.index("headrace --port 7000 --dir /var/lib/headrace --appendonly yes")
    for line in lines[:refused]:
        machine.run(line)
    with pytest.raises(AssertionError) as caught:
        machine.run(lines[refused])
    assert ("rdb-skip-foreign-types yes" if rewritten else "aof-skip-foreign-commands yes") in str(caught.value)
    without_directives = lines.index(lines[refused], refused + 1)
    # The line after the refused start asks it, so it is left out.
    for line in lines[refused + 2 : without_directives]:
        machine.run(line)
        if line.startswith("while"):
            assert machine.keys("7000") == kept
            assert rewritten or "left out, because they concern types" in machine.outputs[-1].read_text()
    for line in lines[without_directives:]:
        machine.run(line)
    assert machine.keys("7000") == kept, "after the rewrite no directive is needed"


@pytest.mark.oracle
def test_a_configuration_is_taken_as_it_is(oracle: Any, machine: Machine) -> None:
    serve_headrace(machine)
    machine.run("redis-cli -p 7000 save")
    machine.run("redis-cli -p 7000 set later v")
    kept = machine.keys("7000")
    machine.processes["headrace"].kill()
    machine.processes["headrace"].wait()
    for line in sections()["The configuration"]:
        machine.run(line)
    assert machine.keys("7000") == kept, "the log is served, not the older snapshot"
    assert "activerehashing" in machine.outputs[-1].read_text()


@pytest.mark.oracle
def test_a_configuration_serves_a_snapshot_without_a_log(oracle: Any, machine: Machine) -> None:
    kept = serve_headrace(machine, appendonly="no")
    machine.run("redis-cli -p 7000 shutdown")
    for line in sections()["The configuration"]:
        machine.run(line)
    assert machine.keys("7000") == kept


@pytest.mark.oracle
def test_redis_serves_the_data_again(oracle: Any, machine: Machine) -> None:
    kept = serve_headrace(machine)
    for line in sections()["Going back to Redis"]:
        machine.run(line)
    assert machine.keys("6379") == kept


@pytest.mark.oracle
def test_own_directives_are_named_where_redis_would_refuse_them(oracle: Any) -> None:
    from compat.differences import OWN_DIRECTIVES

    text = PAGE.read_text("utf-8")
    for name in OWN_DIRECTIVES:
        assert f"`{name.decode()}`" in text or name.startswith(b"metrics-"), name


@pytest.mark.oracle
def test_a_backup_is_restored(oracle: Any, machine: Machine) -> None:
    kept = serve_headrace(machine)
    lines = sections()["Backups"]
    restored = lines.index("redis-cli -p 7000 shutdown")
    for line in lines[:restored]:
        machine.run(line)
    with Wire(machine.ports["7000"]) as wire:
        wire.call("FLUSHALL")
    for line in lines[restored:]:
        machine.run(line)
    assert machine.keys("7000") == kept
    assert (machine.folder / "backup" / "dump.rdb").exists()


def test_a_volume_is_given_to_the_image() -> None:
    """tests/container runs the image; here the variable names a directive."""
    from headrace.server.configuration.environment import environment_lines

    (line,) = sections()["A volume of Docker"]
    (variable,) = re.findall(r"-e (\S+?)=(\S+)", line)
    assert list(environment_lines({variable[0].encode(): variable[1].encode()})) == [
        ("HEADRACE_RDB_SKIP_FOREIGN_TYPES", b'rdb-skip-foreign-types "yes"')
    ]
