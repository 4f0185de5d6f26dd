"""Servers with a log in a folder, driven by calls in this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from headrace.commands.clients.client import Client
from headrace.persistence.errors import LogError
from headrace.persistence.lock import FolderLock
from headrace.server.app import Server
from headrace.server.configuration.config import Config
from headrace.server.requests.session import Session
from support.digest import Digest, digest_of
from support.inprocess import Clock, finish_turns
from support.lines import split
from support.wire import encode

LOADING = b"-LOADING Redis is loading the dataset in memory\r\n"
# Entries of the stream that a LoadingServer loads.
COUNT = 1000


class LoggingServer:
    """A server with a log on a real disk, driven by calls; background slices run when the test says so."""

    def __init__(
        self,
        folder: Path,
        *,
        appendonly: bool = True,
        started_ms: int = 0,
        has_rdb_base: bool = True,
        config: Config | None = None,
    ) -> None:
        self.config = config or Config()
        self.config.dir = os.fsencode(folder)
        self.config.appendonly = appendonly
        self.config.aof_use_rdb_preamble = has_rdb_base
        self.clock = Clock()
        self.clock.advance(started_ms)
        self.server = Server(self.config, clock=self.clock)
        self.slices: list[Callable[[], None]] = []
        self.server.snapshots.runner.call_later = lambda _, call: self.slices.append(call)
        self.server.load_now()
        self.dispatcher = self.server.dispatcher
        self.session = self.connect()

    def connect(self) -> Session:
        client = Client(1, created_ms=self.clock(), last_active_ms=self.clock())
        client.db = self.server.store.databases[0]
        session = Session(client)
        self.dispatcher.attach(session)
        return session

    def call(self, *lines: str) -> bytes:
        """Run these lines as one pipeline; their effects are then written to the log."""
        self.dispatcher.execute(self.session, [split(line) for line in lines], self.clock())
        finish_turns(self.dispatcher, self.clock())
        data = b"".join(self.session.out)
        self.session.out.clear()
        assert self.server.log is None or self.server.log.flush()
        return data

    def run_slice(self) -> bool:
        """The next slice; False if there is none."""
        if not self.slices:
            return False
        self.slices.pop(0)()
        return True

    def run_slices(self) -> None:
        """All of them. The writing thread ends by itself, so this does, too."""
        while self.run_slice():
            continue

    def state(self) -> Digest:
        return digest_of(self.server.store)

    def close(self) -> None:
        self.stop()

    def stop(self) -> None:
        self.server.snapshots.stop()
        if self.server.log is not None:
            assert self.server.log.close()
        self.server.log_keeper.lock.release()


def is_locked(folder: Path) -> bool:
    """Whether a server has locked a data folder."""
    lock = FolderLock(str(folder))
    try:
        lock.acquire()
    except LogError:
        return True
    lock.release()
    return False


def restarted(folder: Path) -> Digest:
    """The state after a restart, some time later."""
    again = LoggingServer(folder, started_ms=50_000)
    try:
        return again.state()
    finally:
        again.stop()


class LoadingServer:
    """A server in the middle of loading a log of 1,000 entries and one string in database 1."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "appendonlydir"
        self.folder.mkdir()
        records = [encode(("SELECT", 1)), encode(("SET", "k", "v")), encode(("SELECT", 0))]
        records += [encode(("XADD", "s", f"{number}-1", "f", "v")) for number in range(1, COUNT + 1)]
        (self.folder / "appendonly.aof.1.incr.aof").write_bytes(b"".join(records))
        (self.folder / "appendonly.aof.manifest").write_bytes(b"file appendonly.aof.1.incr.aof seq 1 type i\n")
        config = Config()
        config.dir, config.appendonly, config.save = os.fsencode(folder), True, b""
        self.server = Server(config, clock=Clock())
        self.steps: Iterator[None] = self.server.load()
        self.session = Session(Client(1, db=self.server.store.databases[0]))
        self.server.dispatcher.attach(self.session)

    def call(self, *lines: str) -> bytes:
        self.server.dispatcher.execute(self.session, [split(line) for line in lines], self.server.clock())
        finish_turns(self.server.dispatcher, self.server.clock())
        data = b"".join(self.session.out)
        self.session.out.clear()
        return data

    def finish(self) -> None:
        for _ in self.steps:
            continue

    def close(self) -> None:
        self.steps.close()  # type: ignore[attr-defined]
        if self.server.log is not None:
            assert self.server.log.close()
        self.server.log_keeper.lock.release()
