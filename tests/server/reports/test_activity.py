"""What `loglevel verbose` and `debug` add to the server log: the lines of Redis for the same events."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import struct
import time
from pathlib import Path

import pytest

from support.servers import Server
from support.wire import Wire

DEADLINE_S = 30
POLL_S = 0.02

# Lines that appear at each level for the events below, without their times and numbers.
DEBUG = ["0 clients connected (0 replicas), N bytes in use"]
VERBOSE = [
    "Accepted 127.0.0.1:N",
    "Client closed connection id=N addr=N.0.0.1:N",
    "Protocol error (",
    "DB 0: 1 keys (1 volatile)",
    "DB 1: 1 keys (0 volatile)",
]
WARNING = ["Closing client that reached max query buffer length: id=N addr=N.0.0.1:N"]


def without_numbers(text: str) -> str:
    return re.sub(r"(?<=[=:])\d+|\d{4,}", "N", text)


def lines_of(server: Server, mark: str) -> str:
    lines = re.findall(rf"^\S+ \d+ \w+ \d+ \S+ {re.escape(mark)} (.*)", server.log_path.read_text(), re.MULTILINE)
    return "\n".join(map(without_numbers, lines))


def wait_for(server: Server, expected: list[str], mark: str) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not all(line in lines_of(server, mark) for line in expected):
        assert time.monotonic() < deadline_s, (expected, server.log_path.read_text())
        time.sleep(POLL_S)


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["headrace", "oracle"])
def test_events_have_the_lines_of_redis(name: str, tmp_path: Path) -> None:
    server = Server(name, tmp_path, "--loglevel", "debug", "--client-query-buffer-limit", "1mb")
    server.start()
    try:
        with Wire(server.port) as wire:
            wire.call("SET", "k", "v", "PX", "1000000")
            wire.call("SELECT", "1")
            wire.call("SET", "k", "v")
        with socket.create_connection(("127.0.0.1", server.port)) as wrong:
            wrong.sendall(b"*1\r\n+x\r\n")
            assert wrong.recv(100).startswith(b"-ERR Protocol error")
        with socket.create_connection(("127.0.0.1", server.port)) as large:
            large.settimeout(DEADLINE_S)
            with contextlib.suppress(ConnectionError):
                large.sendall(b"*2\r\n$4\r\nECHO\r\n$3000000\r\n%b\r\n" % (b"x" * 3_000_000))
                assert large.recv(100) == b""
        wait_for(server, VERBOSE, "-")
        wait_for(server, DEBUG, ".")
        wait_for(server, WARNING, "#")
    finally:
        server.stop()


def test_a_broken_connection_is_a_line_of_verbose(tmp_path: Path) -> None:
    server = Server("headrace", tmp_path, "--loglevel", "verbose")
    server.start()
    try:
        broken = socket.create_connection(("127.0.0.1", server.port))
        broken.sendall(b"PING\r\n")
        assert broken.recv(7) == b"+PONG\r\n"
        broken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        broken.close()
        wait_for(server, ["Reading from client: Connection reset by peer id=N"], "-")
        assert lines_of(server, ".") == ""
    finally:
        server.stop()


def test_an_idle_client_is_a_line_of_verbose(tmp_path: Path) -> None:
    server = Server("headrace", tmp_path, "--loglevel", "verbose", "--timeout", "1")
    server.start()
    try:
        with socket.create_connection(("127.0.0.1", server.port)):
            wait_for(server, ["Closing idle client id=N"], "-")
    finally:
        server.stop()


def test_a_notice_does_not_name_each_client(tmp_path: Path) -> None:
    server = Server("headrace", tmp_path)
    server.start()
    assert server.process is not None
    with Wire(server.port) as wire:
        wire.call("PING")
    server.process.send_signal(signal.SIGHUP)
    with Wire(server.port) as wire:
        assert wire.call("PING") == b"+PONG\r\n", "SIGHUP is ignored"
    assert server.stop() == 0
    assert "Accepted" not in server.log_path.read_text()
