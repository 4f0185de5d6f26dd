"""Real server processes: Headrace, and the Redis it is compared with (the oracle)."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from support.ports import free_port
from support.wire import Wire

ORACLE_VERSION = "8.10.2"
START_DEADLINE_S = 120.0
STOP_DEADLINE_S = 15.0
RETRY_S = 0.02


def oracle_folder() -> Path | None:
    """Where redis-server and redis-cli are: $HEADRACE_ORACLE, else what `make oracle` made. None if nowhere."""
    named = os.environ.get("HEADRACE_ORACLE")
    if named:
        folder = Path(named) if Path(named).is_dir() else Path(named).parent
    else:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = Path(os.environ.get("HEADRACE_ORACLE_CACHE") or cache / "headrace-oracle") / "venv" / "bin"
    return folder if (folder / "redis-server").exists() else None


def oracle_version(folder: Path) -> str:
    """The version redis-server reports, e.g. `8.10.2`."""
    line = subprocess.run([folder / "redis-server", "--version"], capture_output=True, text=True, check=True).stdout
    return next((word[2:] for word in line.split() if word.startswith("v=")), line.strip())


def is_oracle_required() -> bool:
    """In CI an absent oracle is a failure, not a skip."""
    return os.environ.get("HEADRACE_REQUIRE_ORACLE", "") not in ("", "0")


def is_subject_oracle() -> bool:
    """Whether HEADRACE_SUBJECT=oracle replaces Headrace by a second Redis, which checks the tests themselves."""
    return os.environ.get("HEADRACE_SUBJECT") == "oracle"


class Server:
    """One server process on its own port and folder. `options` are `--name value` words."""

    def __init__(self, name: str, folder: Path, *options: str, start_deadline_s: float = START_DEADLINE_S) -> None:
        self.start_deadline_s = start_deadline_s
        self.name = name
        self.folder = folder
        self.options = options
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.log_path = folder / "server.log"

    @property
    def is_headrace(self) -> bool:
        """Whether the known differences from Redis are to be expected."""
        return self.name == "headrace" and not is_subject_oracle()

    @property
    def pid(self) -> int:
        """Process ID of the running server."""
        assert self.process is not None
        return self.process.pid

    def program(self) -> list[str]:
        """The words that start this kind of server."""
        if self.is_headrace:
            return [sys.executable, "-m", "headrace"]
        folder = oracle_folder()
        assert folder is not None
        return [str(folder / "redis-server")]

    def ports(self) -> list[str]:
        """The words that name the port on which it listens."""
        return ["--port", str(self.port)]

    def start(self, port: int = 0) -> Server:
        """Start, on this port or a free one, and wait until it answers. Raises RuntimeError with the end of its log."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = port or free_port()
        words = [*self.program(), *self.ports(), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        words += ["--save", "", "--enable-debug-command", "yes", *self.options]
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder)
        deadline = time.monotonic() + self.start_deadline_s
        while not self._answers():
            if self._has_ended() or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"{' '.join(words)} does not answer:\n{self.log_tail()}")
        return self

    def _answers(self) -> bool:
        try:
            with Wire(self.port, timeout_s=5.0) as wire:
                return wire.call("PING") == b"+PONG\r\n"
        except OSError:
            return False

    def _has_ended(self) -> bool:
        """Whether the process ends within a short time."""
        assert self.process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(RETRY_S)
        return self.process.returncode is not None

    def log_tail(self) -> str:
        """The last lines the server wrote."""
        return self.log_path.read_text("utf-8", "replace")[-3000:]

    def connect(self, protocol: int = 2) -> Wire:
        """A new raw connection."""
        return Wire(self.port, protocol=protocol)

    def stop(self) -> int:
        """Stop in order (SIGTERM) and return the exit code; kill a server that does not stop."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL

    def kill(self) -> None:
        """Kill the server (SIGKILL)."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def restart(self) -> Server:
        """Stop, and start again on the same folder, on another port."""
        self.stop()
        return self.start()

    def reset(self) -> None:
        """An empty database with default stream settings."""
        with self.connect() as wire:
            directives = ["stream-node-max-entries", 100, "stream-node-max-bytes", 4096]
            directives += ["stream-idmp-duration", 100, "stream-idmp-maxsize", 100, "hz", 10]
            replies = [wire.call("FLUSHALL"), wire.call("CONFIG", "SET", *directives)]
            assert replies == [b"+OK\r\n"] * 2, replies


def redis_cli() -> Path | None:
    """redis-cli of the oracle, else one on the PATH."""
    folder = oracle_folder()
    if folder is not None:
        return folder / "redis-cli"
    found = shutil.which("redis-cli")
    return Path(found) if found else None
