"""CONFIG SET port and bind: clients reach the server at its new address; an address that cannot be used changes
nothing.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.ports import free_port
from support.servers import Server
from support.wire import Wire

PONG = b"+PONG\r\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    started = Server("headrace", tmp_path)
    yield started.start()
    started.stop()


def answers(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a new client is accepted at this address."""
    try:
        with socket.create_connection((host, port), 5) as peer:
            peer.sendall(b"PING\r\n")
            return peer.recv(len(PONG)) == PONG
    except ConnectionRefusedError:
        return False


def test_port_changes_while_connections_stay(server: Server) -> None:
    port = free_port()
    with Wire(server.port) as wire:
        assert wire.call("CONFIG", "SET", "port", port) == b"+OK\r\n"
        assert answers(port)
        assert not answers(server.port)
        assert wire.call("PING") == PONG
        assert wire.ask("CONFIG", "GET", "port") == [b"port", b"%d" % port]
        assert wire.call("CONFIG", "SET", "port", 0) == b"+OK\r\n"
        assert not answers(port)
        assert wire.call("CONFIG", "SET", "port", server.port) == b"+OK\r\n"
        assert answers(server.port)


def test_bind_takes_addresses_that_were_among_the_old_ones(server: Server) -> None:
    with Wire(server.port) as wire:
        for addresses, others in (("*", True), ("127.0.0.1", False), ("127.0.0.1 127.0.0.2", True)):
            assert wire.call("CONFIG", "SET", "bind", addresses) == b"+OK\r\n"
            assert answers(server.port)
            assert answers(server.port, "127.0.0.2") is others


def test_port_and_bind_change_together(server: Server) -> None:
    port = free_port()
    with Wire(server.port) as wire:
        assert wire.call("CONFIG", "SET", "port", port, "bind", "127.0.0.2") == b"+OK\r\n"
        assert answers(port, "127.0.0.2")
        assert not answers(port)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("port", None, b"Unable to listen on this port. Check server logs."),
        ("bind", "203.0.113.1", b"Failed to bind to specified addresses."),
    ],
)
def test_place_that_cannot_be_had_undoes_the_whole_command(
    name: str, value: str | None, why: bytes, server: Server
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, Wire(server.port) as wire:
        wanted = value or other.getsockname()[1]
        reply = wire.call("CONFIG", "SET", "hz", 20, name, wanted)
        assert reply == b"-ERR CONFIG SET failed (possibly related to argument '%b') - %b\r\n" % (name.encode(), why)
        assert wire.ask("CONFIG", "GET", "hz", "port", "bind") == [
            b"hz", b"10", b"port", b"%d" % server.port, b"bind", b"127.0.0.1",
        ]  # fmt: skip
        assert answers(server.port)
