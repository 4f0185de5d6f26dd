"""A primary of the test: it answers a replica as Redis does, in pieces of any size, and can cut the link anywhere."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from headrace.persistence.rdb.file import write_file
from headrace.protocol.reader import RequestReader
from headrace.store.database import Store
from headrace.store.image import parts_now
from support.inprocess import START_MS
from support.lines import split
from support.wire import encode

ID = b"1234567890" * 4
DEADLINE_S = 10.0


def payload_of(store: Store) -> bytes:
    """The dataset as an RDB file."""
    return b"".join(write_file(parts_now(store), {b"repl-stream-db": b"0"}, now_ms=START_MS))


def stream_of(*lines: str) -> bytes:
    """The bytes of these commands."""
    return b"".join(encode(split(line)) for line in lines)


async def until(condition: Callable[[], object]) -> None:
    """Let the loop run until this is true."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0)


class Cut(Exception):
    """The connection has sent as much as it may."""


class FakePrimary:
    """One history: a dataset at an offset, and the stream after it. `budgets` says how many bytes each connection sends
    before it is cut; further connections are not cut. `step` is the size of a piece.
    """

    def __init__(self, payload: bytes, stream: bytes, *, start: int = 100) -> None:
        self.payload = payload
        self.stream = stream
        self.start = start
        self.replid = ID
        self.budgets: list[int] = []
        self.step = 1 << 20
        # Sent in place of the answer, by command name.
        self.answers: dict[bytes, bytes] = {}
        # The frame of the dataset.
        self.mark = b""
        self.port = 0
        # Everything that replicas have sent, besides confirmations.
        self.requests: list[list[bytes]] = []
        self.confirmed: list[tuple[int, int | None]] = []
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def end(self) -> int:
        """The offset after the stream."""
        return self.start + len(self.stream)

    @property
    def whole_size(self) -> int:
        """Bytes of all answers to a replica that has nothing, with the stream."""
        return len(b"+PONG\r\n+OK\r\n+OK\r\n") + len(self._full_sync())

    @property
    def connections_count(self) -> int:
        """How many replicas have begun a handshake."""
        return self.requests.count([b"PING"])

    def append(self, *lines: str) -> None:
        """Send all replicas more of the stream."""
        self.append_bytes(stream_of(*lines))

    def append_bytes(self, data: bytes) -> None:
        """Send all replicas these bytes, which need not be commands."""
        self.stream += data
        for writer in self._writers:
            writer.write(data)

    def cut_all(self) -> None:
        """Close all connections."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one replica until the connection is cut."""
        budget = self.budgets.pop(0) if self.budgets else None
        requests = RequestReader()
        try:
            while data := await reader.read(65536):
                for request in requests.feed(data):
                    answer = self._answer(request, writer)
                    while answer:
                        size = self.step if budget is None else min(self.step, budget)
                        writer.write(answer[:size])
                        await writer.drain()
                        await asyncio.sleep(0)
                        answer = answer[size:]
                        if budget is not None:
                            budget -= size
                            if not budget:
                                raise Cut
        except (Cut, ConnectionError, asyncio.CancelledError):
            pass  # the test has ended, or continues without this connection
        finally:
            self._writers.discard(writer)
            writer.close()

    def _answer(self, request: list[bytes], writer: asyncio.StreamWriter) -> bytes:
        name = request[0].upper()
        if name == b"REPLCONF" and request[1].upper() == b"ACK":
            self.confirmed.append((int(request[2]), int(request[4]) if len(request) > 4 else None))
            return b""
        self.requests.append(request)
        if name in self.answers:
            return self.answers[name]
        if name == b"PING":
            return b"+PONG\r\n"
        if name != b"PSYNC":
            return b"+OK\r\n"
        self._writers.add(writer)
        wanted = int(request[2])
        if request[1] == self.replid and self.start < wanted <= self.end + 1:
            return b"+CONTINUE %b\r\n" % self.replid + self.stream[wanted - 1 - self.start :]
        return self._full_sync()

    def _full_sync(self) -> bytes:
        header = b"$EOF:%b\r\n" % self.mark if self.mark else b"$%d\r\n" % len(self.payload)
        answer = b"+FULLRESYNC %b %d\r\n" % (self.replid, self.start) + b"\n" + header + self.payload + self.mark
        return answer if self.mark else answer + self.stream


@asynccontextmanager
async def listening(primary: FakePrimary, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[FakePrimary]:
    """The primary, on a port of the running loop."""
    server = await asyncio.start_server(primary.serve, "127.0.0.1", 0, ssl=tls)
    primary.port = server.sockets[0].getsockname()[1]
    try:
        yield primary
    finally:
        server.close()
        primary.cut_all()
