"""Streams for tests to read."""

from __future__ import annotations

from headrace.pipeline.connection import Connection
from headrace.pipeline.options import Endpoint
from headrace.protocol.packing import pack_command
from support.servers import Server

# An entry: its ID, and its fields and values in turn.
Entry = tuple[bytes, list[bytes]]


def connect(server: Server) -> Connection:
    """Returns a connection that gives up soon."""
    return Connection(Endpoint(port=server.port, retry_for=1))


def fill(server: Server, key: str, count: int, first: int = 1) -> None:
    """Adds the entries `first-0`, .. with the fields n and user."""
    with connect(server) as connection:
        connection.call_all([("XADD", key, f"{n}-0", "n", n, "user", f"u{n % 7}") for n in range(first, first + count)])


def reply_of(entries: list[Entry]) -> bytes:
    """Returns a raw reply to XRANGE."""
    parts = [b"*%d\r\n" % len(entries)]
    for entry_id, pairs in entries:
        parts.append(b"*2\r\n$%d\r\n%b\r\n" % (len(entry_id), entry_id) + pack_command(tuple(pairs)))
    return b"".join(parts)
