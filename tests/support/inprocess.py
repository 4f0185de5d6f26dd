"""A server inside the test: driven by calls with the test's clock, or over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from headrace.commands.clients.client import Client
from headrace.persistence.lock import FolderLock
from headrace.server.app import Server
from headrace.server.configuration.config import Config
from headrace.server.requests.dispatch import Dispatcher
from headrace.server.requests.session import Session
from headrace.server.sockets.listener import open_tcp_sockets
from support.lines import split
from support.wire import Argument, encode

START_MS = 1_700_000_000_000
REPLY_TIMEOUT_S = 10.0


class Clock:
    """Unix ms, moved by the test."""

    def __init__(self) -> None:
        self.now_ms = START_MS

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, ms: int) -> None:
        """Let time pass."""
        self.now_ms += ms


def _shown(record: bytes) -> bytes:
    """A record as its words, and a line that Redis skips as it is."""
    return record.rstrip() if record.startswith(b"#") else b" ".join(record.split(b"\r\n")[2::2])


class RecordingLog:
    """Records every unit that the dispatcher logs."""

    def __init__(self) -> None:
        self.units: list[list[bytes]] = []
        # Of every record.
        self.databases: list[int] = []
        self.mark = 0

    def clear(self) -> None:
        """Forget all records."""
        self.units.clear()
        self.databases.clear()

    def append(self, effects: list[tuple[int, bytes]], grouped: bool) -> None:
        """A group is one unit, the others are one each; records are kept as text, as `words joined by blanks`."""
        self.mark += 1
        self.databases += [index for index, _ in effects]
        records = [_shown(record) for _, record in effects]
        self.units += [records] if grouped else [[record] for record in records]


class RigSession(Session):
    """A connection without a socket."""

    def __init__(self, client: Client, dispatcher: Dispatcher) -> None:
        super().__init__(client)
        self._dispatcher = dispatcher

        self.is_closed = False
        self.follower: Any = None

    @property
    def has_output(self) -> bool:
        """Whether the caller has not taken all replies yet."""
        return bool(self.out)

    def unsent_size(self) -> int:
        """The caller takes everything at once."""
        return 0

    def write_stream(self, data: bytes | memoryview) -> None:
        """What a replica gets."""
        self.out.append(bytes(data))

    def close(self) -> None:
        """Close when everything is sent."""
        self.abort()

    def abort(self) -> None:
        """CLIENT KILL."""
        self.is_closed = True
        self._dispatcher.detach(self)


class Caller:
    """A client without a socket."""

    def __init__(self, rig: Rig, session: Session) -> None:
        self.rig = rig
        self.session = session
        self.client: Client = session.client

    def call(self, *lines: str) -> bytes:
        """Send these lines as one pipeline, and take all output there is now."""
        self.rig.dispatcher.execute(self.session, [split(line) for line in lines], self.rig.clock())
        return self.output()

    def output(self) -> bytes:
        """The replies since the last call, after all clients that can have continued with their backlog."""
        finish_turns(self.rig.dispatcher, self.rig.clock())
        data = b"".join(self.session.out)
        self.session.out.clear()
        return data


def finish_turns(dispatcher: Dispatcher, now_ms: int) -> None:
    """Let all clients that can continue with their backlog, until it is empty."""
    while dispatcher.resumable:
        session, _ = dispatcher.resumable.popitem()
        requests = list(session.backlog)
        session.backlog.clear()
        dispatcher.execute(session, requests, now_ms)


class OwnFolder(FolderLock):
    """A data folder that no other server uses: rigs of several test processes share the present folder."""

    def acquire(self) -> None:
        """Needs no lock."""


class Rig:
    """A server whose dispatcher is called directly: no loop, no sockets."""

    def __init__(self, *, monotonic: Clock | None = None, **directives: Any) -> None:
        """`monotonic` times waits, in place of `clock`."""
        self.clock = Clock()
        self.config = Config()
        self.config.save = b""  # or FLUSHALL would write dump.rdb into the present folder
        for name, value in directives.items():
            setattr(self.config, name, value)
        self.server = Server(self.config, clock=self.clock, monotonic=monotonic)
        self.server.log_keeper.lock = OwnFolder(".")
        self.dispatcher = self.server.dispatcher
        self.log = RecordingLog()
        self.dispatcher.units.log_to(self.log)
        self.dispatcher.serving.send_early = lambda sessions: None  # callers take their output themselves
        self._ids = count(1)

    def connect(self) -> Caller:
        """A new client."""
        client = Client(next(self._ids), created_ms=self.clock(), last_active_ms=self.clock())
        client.db = self.server.store.databases[0]
        client.address = b"127.0.0.1:%d" % (50000 + client.id)
        session = RigSession(client, self.dispatcher)
        self.dispatcher.attach(session)
        return Caller(self, session)

    def pass_time(self, ms: int) -> None:
        """Let time pass, and run what is due."""
        self.clock.advance(ms)
        self.dispatcher.serving.run_timers(self.clock())
        self.server.upkeep.run(self.clock())


class Peer:
    """An asyncio client that shows the bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, *arguments: Argument) -> None:
        """Send one request."""
        self.writer.write(encode(arguments))

    async def expect(self, data: bytes) -> None:
        """Read as many bytes as these, which must be these."""
        async with asyncio.timeout(REPLY_TIMEOUT_S):
            assert await self.reader.readexactly(len(data)) == data

    async def expect_end(self) -> None:
        """Check that the server has closed the connection and sends no more."""
        async with asyncio.timeout(REPLY_TIMEOUT_S):
            try:
                assert await self.reader.read() == b""
            except ConnectionResetError:
                return

    async def line(self) -> bytes:
        """One line."""
        async with asyncio.timeout(REPLY_TIMEOUT_S):
            return await self.reader.readline()


class Running:
    """A server on a port of the running loop."""

    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self.port = port

    async def connect(self) -> Peer:
        """A new connection."""
        return Peer(*await asyncio.open_connection("127.0.0.1", self.port))


@asynccontextmanager
async def running_server(
    config: Config | None = None, clock: Any = None, monotonic: Any = None, **directives: Any
) -> AsyncIterator[Running]:
    """Start a server on 127.0.0.1, and stop it at the end. Without `dir` it saves nothing."""
    config = config or Config()
    if "dir" not in directives:
        config.save = b""  # or it would take the present folder, and keep out those of other processes
    for name, value in directives.items():
        setattr(config, name, value)
    server = Server(config, clock=clock, monotonic=monotonic) if clock is not None else Server(config)
    server.load_now()
    listening = open_tcp_sockets(["127.0.0.1"], 0, 128)[0]
    # Snapshots for replicas are named by it: those of other processes are in the same folder.
    config.port = listening.getsockname()[1]
    server.acceptor.add(listening)
    await server.start_accepting()
    try:
        yield Running(server, listening.getsockname()[1])
    finally:
        await server.stop()
