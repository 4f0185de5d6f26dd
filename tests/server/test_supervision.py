"""What a supervisor receives: systemd by datagrams to $NOTIFY_SOCKET, upstart by a stopped process."""

from __future__ import annotations

import configparser
import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.server.supervision import Supervisor, detect
from support.ports import free_port
from support.wire import Wire

TIMEOUT_S = 30


class NotifySocket:
    """The socket of a service manager, and the messages that it received."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(TIMEOUT_S)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)

    def next(self) -> list[str]:
        """The lines of the next message."""
        return self._socket.recv(4096).decode().split("\n")

    def until(self, line: str) -> list[str]:
        """The lines of all messages up to the first with this line."""
        lines = self.next()
        while line not in lines:
            lines += self.next()
        return lines

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[NotifySocket]:
    manager = NotifySocket(str(tmp_path / "notify"))
    with contextlib.closing(manager):
        yield manager


def spawn(folder: Path, *options: str, **environment: str) -> tuple[subprocess.Popen[bytes], int]:
    """A server with these options and variables, and its port."""
    port = free_port()
    words = [sys.executable, "-m", "headrace", "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder)]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen([*words, *options], stdout=log, env={**os.environ, **environment}, cwd=folder)
    return process, port


@pytest.mark.parametrize("supervised", ["systemd", "auto"])
def test_systemd_is_notified_when_clients_are_served_and_when_the_server_ends(
    supervised: str, manager: NotifySocket, tmp_path: Path
) -> None:
    # As the unit of Debian's redis-server starts it: daemonize has no effect under supervision.
    options = ("--daemonize", "yes", "--supervised", supervised)
    process, port = spawn(tmp_path, *options, NOTIFY_SOCKET=str(tmp_path / "notify"))
    assert manager.next() == ["STATUS=Loading the dataset"]
    assert manager.next() == ["STATUS=Ready to accept connections", "READY=1"]
    with Wire(port) as wire:
        assert wire.call("PING") == b"+PONG\r\n"
        assert b"\r\nprocess_supervised:systemd\r\n" in wire.call("INFO", "server")
    process.send_signal(signal.SIGTERM)
    assert manager.next() == ["STATUS=Stopping", "STOPPING=1"]
    assert process.wait(TIMEOUT_S) == 0


def test_line_of_the_debian_unit_starts_a_server(manager: NotifySocket, tmp_path: Path) -> None:
    """`ExecStart` of redis-server.service: a file, which says `daemonize yes`, and then the options."""
    port = free_port()
    (tmp_path / "redis.conf").write_text(f"bind 127.0.0.1\nport {port}\ndaemonize yes\ndir {tmp_path}\n")
    words = [tmp_path / "redis.conf", "--supervised", "systemd", "--daemonize", "no"]
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace", *words],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")},
    )
    manager.until("READY=1")
    with Wire(port) as wire:
        assert wire.call("PING") == b"+PONG\r\n"
    process.send_signal(signal.SIGTERM)
    manager.until("STOPPING=1")
    assert process.wait(TIMEOUT_S) == 0


def test_a_name_in_the_abstract_namespace_is_a_notify_socket(tmp_path: Path) -> None:
    name = f"@headrace-test-{os.getpid()}"
    with contextlib.closing(NotifySocket(name)) as manager:
        process, _ = spawn(tmp_path, "--supervised", "systemd", NOTIFY_SOCKET=name)
        manager.until("READY=1")
        process.kill()
        process.wait(TIMEOUT_S)


def test_the_watchdog_is_answered_while_clients_are_served(manager: NotifySocket, tmp_path: Path) -> None:
    process, _ = spawn(tmp_path, "--supervised", "auto", NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="20000")
    manager.until("READY=1")
    for _ in range(3):
        manager.until("WATCHDOG=1")
    process.kill()
    process.wait(TIMEOUT_S)


async def test_a_watchdog_of_another_process_is_not_answered(manager: NotifySocket, tmp_path: Path) -> None:
    environment = {
        "NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "1", "WATCHDOG_PID": str(os.getpid() + 1)
    }  # fmt: skip
    supervisor = Supervisor(b"systemd", environment)
    supervisor.begin()
    supervisor.ready()
    supervisor.end()
    assert manager.until("READY=1") == ["STATUS=Loading the dataset", "STATUS=Ready to accept connections", "READY=1"]


async def test_long_work_asks_for_more_time_every_five_seconds(manager: NotifySocket, tmp_path: Path) -> None:
    now_s = 100.0
    supervisor = Supervisor(b"auto", {"NOTIFY_SOCKET": str(tmp_path / "notify")}, clock_s=lambda: now_s)
    supervisor.begin()
    for _ in range(40):
        now_s += 0.25
        supervisor.keep_alive()
    supervisor.end()
    assert manager.next() == ["STATUS=Loading the dataset"]
    assert [manager.next(), manager.next()] == [["EXTEND_TIMEOUT_USEC=30000000", "WATCHDOG=1"]] * 2


def test_the_save_at_a_stop_keeps_the_watchdog_content(manager: NotifySocket, tmp_path: Path) -> None:
    process, port = spawn(
        tmp_path, "--supervised", "systemd", "--save", "3600 1", "--enable-debug-command", "yes",
        NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="1000",
    )  # fmt: skip
    manager.until("READY=1")
    with Wire(port) as wire:
        # The save takes a tenth of a second, hundreds of times the interval of the watchdog.
        assert wire.call("DEBUG", "POPULATE", "500000") == b"+OK\r\n"
        wire.send("SHUTDOWN", "SAVE")
        assert "EXTEND_TIMEOUT_USEC=30000000" in manager.until("STOPPING=1"), (tmp_path / "server.log").read_text()
    assert process.wait(TIMEOUT_S) == 0


def test_upstart_finds_a_stopped_process_when_clients_are_served(tmp_path: Path) -> None:
    process, port = spawn(tmp_path, "--supervised", "upstart", UPSTART_JOB="headrace")
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    process.send_signal(signal.SIGCONT)
    with Wire(port) as wire:
        assert wire.call("PING") == b"+PONG\r\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(TIMEOUT_S) == 0


@pytest.mark.parametrize(
    ("supervised", "warning"),
    [
        ("systemd", b"# systemd supervision error: NOTIFY_SOCKET not found!"),
        ("upstart", b"# Upstart supervision requested, but UPSTART_JOB not found!"),
        ("auto", b""),
        ("no", b""),
    ],
)
def test_a_missing_supervisor_is_a_warning(
    supervised: str, warning: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NOTIFY_SOCKET", "UPSTART_JOB"):
        monkeypatch.delenv(name, raising=False)
    process, port = spawn(tmp_path, "--supervised", supervised)
    while True:
        with contextlib.suppress(ConnectionRefusedError), Wire(port) as wire:
            wire.send("SHUTDOWN", "NOSAVE")
            break
    assert process.wait(TIMEOUT_S) == 0
    log = (tmp_path / "server.log").read_bytes()
    assert warning in log
    assert (b" # " in log.partition(b"Ready")[0]) is bool(warning)


def test_the_unit_of_the_page_starts_a_server_that_reports(manager: NotifySocket, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "systemd.md").read_text("utf-8")
    (text,) = re.findall(r"```ini\n(.*?)```", page, re.DOTALL)
    unit = configparser.ConfigParser()
    unit.read_string(text)
    service = unit["Service"]
    assert service["Type"] == "notify"
    program, file, *options = shlex.split(service["ExecStart"])
    (installed, _) = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    assert f"{Path(program).parent}/pip install" in installed
    assert f" redis.conf.example {file}\n" in installed
    assert f"useradd --system --user-group --home-dir {service['WorkingDirectory']}" in installed
    assert f" {service['User']}\n" in installed
    assert f"-o {service['User']} -g {service['Group']}" in installed
    environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": service["WatchdogSec"] + "000000"}
    process, _ = spawn(tmp_path, *options, **environment)
    assert "WATCHDOG=1" in manager.until("READY=1")
    process.kill()
    process.wait(TIMEOUT_S)


def test_a_manager_that_is_gone_costs_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    supervisor = Supervisor(b"systemd", {"NOTIFY_SOCKET": str(tmp_path / "none")})
    supervisor.begin()
    supervisor.ready()
    supervisor.stopping()
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
        f"systemd supervision error: {tmp_path}/none: No such file or directory"
    ]


@pytest.mark.parametrize(
    ("supervised", "environment", "found"),
    [
        (b"auto", {"UPSTART_JOB": "j", "NOTIFY_SOCKET": "/s"}, b"upstart"),
        (b"auto", {"NOTIFY_SOCKET": "/s"}, b"systemd"),
        (b"auto", {}, b"no"),
        (b"systemd", {"UPSTART_JOB": "j"}, b"no"),
        (b"upstart", {"NOTIFY_SOCKET": "/s"}, b"no"),
        (b"no", {"UPSTART_JOB": "j", "NOTIFY_SOCKET": "/s"}, b"no"),
    ],
)
def test_the_supervisor_is_known_by_its_variable(supervised: bytes, environment: dict[str, str], found: bytes) -> None:
    assert detect(supervised, environment) == found
