"""A server for a test run: a process of its own, on a free port of this machine.

    with ServerProcess(folder) as server:
        client = redis.Redis.from_url(server.url)

A process and not a thread, because a server owns its process: it takes the signals, configures the logging and tunes
the garbage collector, and a thread of it would compete with the code under test for the interpreter.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote

from ..protocol.packing import pack_command

HOST: Final = "127.0.0.1"

# How long a start may take, on a busy machine.
START_TIMEOUT_S: Final = 30.0

# How long an ordered stop may take before the process is killed.
STOP_TIMEOUT_S: Final = 10.0

RETRY_S: Final = 0.01

REPLY_TIMEOUT_S: Final = 10.0

# Number of ports that are tried: between finding one free and listening on it, another process may take it.
ATTEMPTS_COUNT: Final = 5

# Nothing is saved unless a test requests it.
DEFAULTS: Final = ("--save", "", "--appendonly", "no")

# The text in the server log: see `headrace.server.sockets.listener`.
PORT_IS_TAKEN: Final = "another process has the port"

LOG_TAIL_LENGTH: Final = 2000


class ServerError(Exception):
    """The server did not start, or has ended. The text ends with the last lines of its server log."""


class ServerProcess:
    """One Headrace process. `arguments` are words of its command line, e.g. `("--maxmemory", "1mb")`.

    The first may be a configuration file. Address, port and data folder are chosen here and cannot be given.
    """

    def __init__(self, folder: Path, arguments: Sequence[str] = ()) -> None:
        self.host = HOST
        # The port it listens on; 0 until it is started.
        self.port = 0
        # Data and log of the server.
        self.folder = folder
        self.arguments = tuple(arguments)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<ServerProcess {self.host}:{self.port}>"

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self.host, self.port

    @property
    def password(self) -> str:
        """The value of `--requirepass` among the arguments; empty without it."""
        pairs = zip(self.arguments, self.arguments[1:], strict=False)
        return next((value for name, value in reversed(list(pairs)) if name == "--requirepass"), "")

    @property
    def url(self) -> str:
        """The address in the form that clients read, e.g. `redis://127.0.0.1:40123/0`."""
        credentials = f":{quote(self.password, safe='')}@" if self.password else ""
        return f"redis://{credentials}{self.host}:{self.port}/0"

    @property
    def log(self) -> str:
        """The last lines that the server wrote."""
        return self._log_path.read_text("utf-8", "replace")[-LOG_TAIL_LENGTH:]

    @property
    def _log_path(self) -> Path:
        return self.folder / "headrace.log"

    def start(self) -> None:
        """Start the server and wait until it answers. Raises ServerError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for _ in range(ATTEMPTS_COUNT):
            self.port = find_free_port()
            self._spawn()
            if self._wait_until_ready():
                return
            if PORT_IS_TAKEN not in self.log:
                break
        raise ServerError(f"Headrace did not start:\n{self.log}")

    def _spawn(self) -> None:
        arguments = list(self.arguments)
        file = arguments[:1] if arguments and not arguments[0].startswith("-") else []
        options = [*DEFAULTS, *arguments[len(file) :]]
        place = ["--bind", HOST, "--port", str(self.port), "--dir", str(self.folder)]
        # Variables that configure another Headrace, such as that of a container, are not for this one.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
        words = [sys.executable, "-m", __package__.partition(".")[0], *file, *options, *place]
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
            )

    def _wait_until_ready(self) -> bool:
        """Whether the server replies in time; a server that does not is ended."""
        assert self._process is not None
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while self._process.poll() is None and time.monotonic() < deadline_s:
            try:
                if not self._ask("PING").startswith("-LOADING") and self._is_own():
                    return True
            except OSError:
                time.sleep(RETRY_S)
        self.stop()
        return False

    def _is_own(self) -> bool:
        """Whether it is our process that answers, and not one that took the port before it. Raises OSError."""
        assert self._process is not None
        return f"process_id:{self._process.pid}\r\n" in self._ask("INFO server")

    def flush(self) -> None:
        """Delete every key of every database. Raises ServerError if the server is gone or refuses."""
        try:
            reply = self._ask("FLUSHALL")
        except OSError as error:
            raise ServerError(f"Headrace is gone ({error}):\n{self.log}") from error
        if reply != "+OK":
            raise ServerError(f"Headrace cannot be emptied: {reply[1:]}")

    def _ask(self, command: str) -> str:
        """The reply, a single line or string. Raises OSError."""
        with socket.create_connection(self.address, REPLY_TIMEOUT_S) as connection:
            replies = connection.makefile("rb")
            if self.password:
                connection.sendall(pack_command((b"AUTH", os.fsencode(self.password))))
                replies.readline()
            connection.sendall(pack_command(tuple(command.encode().split())))
            reply = replies.readline()
            if reply.startswith(b"$"):
                reply = replies.read(int(reply[1:]))
        if not reply:
            raise ConnectionResetError("it closed the connection")
        return reply.decode().rstrip(" \r\n")

    def stop(self) -> None:
        """Stop the server in order, or kill it if that takes too long. Does nothing if it has ended."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def find_free_port() -> int:
    """A port that no process listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
