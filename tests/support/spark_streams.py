"""Streams for tests to read."""

from __future__ import annotations

from headrace.pipeline.connection import Connection
from headrace.pipeline.options import Endpoint
from support.servers import Server


def connect(server: Server) -> Connection:
    """A connection that soon gives up."""
    return Connection(Endpoint(port=server.port, retry_for=1))


def fill(server: Server, key: str, count: int, first: int = 1) -> None:
    """Entries `first-0`, .. with the fields n and user."""
    with connect(server) as connection:
        connection.call_all([("XADD", key, f"{n}-0", "n", n, "user", f"u{n % 7}") for n in range(first, first + count)])
