"""Untrusted clients: slow or silent ones, many at once, password guessers, a web browser. Passwords are never shown."""

from __future__ import annotations

import contextlib
import fcntl
import resource
import socket
import termios
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.processes import resident_mib
from support.servers import Server
from support.wire import Wire, encode

PASSWORD = "correct-horse-battery-staple"
GUESS = "a-wrong-guess-nobody-may-read"
DEADLINE_S = 30.0
CROWD_COUNT = 10_000
# Number of connections before login whose memory is measured.
STRANGERS_COUNT = 500
# Resident memory that a connection may take, idle or within a request. It takes about 5 KiB, without kernel memory.
CONNECTION_KIB_MAX = 8.0
# Socket option of Linux: closing a socket that has it sends nothing to the peer.
TCP_REPAIR = 19
# Descriptors that this process and the server need in addition to those of idle connections.
OTHER_DESCRIPTORS = 500


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Server]:
    """A server with a password and the log level `debug`."""
    options = ["--requirepass", PASSWORD, "--loglevel", "debug", "--appendonly", "no"]
    server = GuardedServer("headrace", tmp_path, *options)
    server.start()
    yield server
    server.kill()


class GuardedServer(Server):
    """A server that requires a login. It is ready when it replies with NOAUTH."""

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), Wire(self.port, timeout_s=5.0) as wire:
            return wire.call("PING").startswith(b"-NOAUTH")
        return False


def logged_in(server: Server) -> Wire:
    wire = server.connect()
    assert wire.call("AUTH", PASSWORD) == b"+OK\r\n"
    return wire


def field(wire: Wire, section: str, name: str) -> int:
    """A number of INFO."""
    line = next(line for line in wire.ask("INFO", section).decode().split("\r\n") if line.startswith(f"{name}:"))
    return int(line.partition(":")[2])


def wait_for_clients(wire: Wire, count: int) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while field(wire, "clients", "connected_clients") != count:
        assert time.monotonic() < deadline, f"{field(wire, 'clients', 'connected_clients')} clients, not {count}"


def wait_for_input(wire: Wire, size: int) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while field(wire, "stats", "total_net_input_bytes") < size:
        assert time.monotonic() < deadline


def wait_until_acknowledged(wire: Wire) -> None:
    """Wait until the peer has acknowledged all bytes. A closed socket would reply to later ones with a RST."""
    deadline = time.monotonic() + DEADLINE_S
    while any(fcntl.ioctl(wire.socket, termios.TIOCOUTQ, bytes(4))):
        assert time.monotonic() < deadline


@pytest.mark.parametrize("request_bytes", [b"POST / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost: victim\r\n\r\n"])
def test_browser_is_cut_off_before_it_can_name_a_command(server: Server, request_bytes: bytes) -> None:
    with server.connect() as wire:
        wire.send_bytes(request_bytes + b"SET stolen 1\r\n")
        assert b"OK" not in wire.wait_for_close()
    with server.connect() as wire:
        assert wire.ask("EXISTS", "stolen") == 0


def test_clients_that_send_a_byte_at_a_time_delay_no_other(headrace: Server) -> None:
    request = encode(["SET", "slow", "x" * 50])
    slow = [headrace.connect() for _ in range(50)]
    try:
        with headrace.connect() as quick:
            for place in range(len(request)):
                for wire in slow:
                    wire.send_bytes(request[place : place + 1])
                assert quick.call("PING") == b"+PONG\r\n"
        assert [wire.receive() for wire in slow] == [b"+OK\r\n"] * len(slow)
    finally:
        for wire in slow:
            wire.close()


def test_half_open_connections_get_their_replies_and_are_closed(headrace: Server) -> None:
    """The peer has shut down its side. It gets the replies to complete requests, and the connection is closed."""
    with headrace.connect() as control:
        before = field(control, "clients", "connected_clients")
        for data, answer in ((b"PING\r\n", b"+PONG\r\n"), (b"*2\r\n$4\r\nECHO\r\n$100\r\nbegun", b""), (b"", b"")):
            with headrace.connect() as wire:
                wire.send_bytes(data)
                wire.socket.shutdown(socket.SHUT_WR)
                assert wire.wait_for_close() == answer
        wait_for_clients(control, before)


@pytest.mark.parametrize(("keepalive_s", "timeout_s"), [(1, 0), (0, 1)])
def test_connection_of_a_vanished_peer_is_closed(
    keepalive_s: int, timeout_s: int, start_server: Callable[..., Server]
) -> None:
    """The peer sends neither FIN nor RST, as after a power loss. A keepalive probe fails, or `timeout` passes."""
    server = start_server("headrace", "--tcp-keepalive", str(keepalive_s))
    with server.connect(3) as control:
        control.call("SUBSCRIBE", "x")  # a subscriber is never idle
        for data in (b"\r\n", b"*2\r\n$4\r\nECHO\r\n$100\r\nbegun"):
            wire = server.connect()
            began_s = time.monotonic()
            assert wire.call("PING") == b"+PONG\r\n"
            wire.send_bytes(data)
            wait_until_acknowledged(wire)
            try:
                wire.socket.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
            except PermissionError:
                wire.close()
                pytest.skip("a connection can be broken off silently with CAP_NET_ADMIN only")
            wire.close()
            is_there = field(control, "clients", "connected_clients") == 2
            may_be_probed = keepalive_s and time.monotonic() - began_s > 0.9 * keepalive_s
            assert is_there or may_be_probed
            control.call("CONFIG", "SET", "timeout", timeout_s)
            wait_for_clients(control, 1)
            control.call("CONFIG", "SET", "timeout", 0)


@pytest.mark.parametrize(
    ("begun", "error"),
    [
        (b"*2\r\n$4\r\nAUTH\r\n$1000000\r\n", b"unauthenticated bulk length"),
        (b"*1000\r\n", b"unauthenticated multibulk length"),
    ],
)
def test_large_announcement_before_login_closes_the_connection(begun: bytes, error: bytes, guarded: Server) -> None:
    """Before login, requests must be short. A connection that announces a longer one is closed at once."""
    with guarded.connect() as wire:
        wire.send_bytes(begun)
        assert error in wire.wait_for_close()


@pytest.mark.parametrize("begun", [b"*10\r\n$16384\r\nbegun", b"*2\r\n$4\r\nAUTH\r\n$16384\r\nbegun"])
def test_incomplete_requests_before_login_take_little_memory(begun: bytes, guarded: Server) -> None:
    """The requests announce as much as is allowed before login. No memory is reserved for it."""
    with logged_in(guarded) as wire:
        input_size = field(wire, "stats", "total_net_input_bytes")
        resident_before = resident_mib(guarded.pid)
        with contextlib.ExitStack() as stack:
            for _ in range(STRANGERS_COUNT):
                stack.enter_context(guarded.connect()).send_bytes(begun)
            wait_for_clients(wire, STRANGERS_COUNT + 1)
            wait_for_input(wire, input_size + STRANGERS_COUNT * len(begun))
            each_kib = (resident_mib(guarded.pid) - resident_before) * 1024 / STRANGERS_COUNT
            print(f"\n{each_kib:.1f} KiB each")
            assert each_kib <= CONNECTION_KIB_MAX
        wait_for_clients(wire, 1)


@pytest.fixture
def crowd_count() -> Iterator[int]:
    """How many connections to open: ten thousand, or as many as the machine allows, with a warning."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CROWD_COUNT + OTHER_DESCRIPTORS
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, allowed), hard))
    if allowed < wanted:
        warnings.warn(f"{allowed - OTHER_DESCRIPTORS} connections, not {CROWD_COUNT}: {hard} descriptors", stacklevel=1)
    yield allowed - OTHER_DESCRIPTORS
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    "begun", [pytest.param(b"", id="idle"), pytest.param(b"*2\r\n$4\r\nECHO\r\n$1000\r\nbegun", id="within a request")]
)
def test_ten_thousand_connections_delay_no_other_and_take_little(
    begun: bytes, crowd_count: int, start_server: Callable[..., Server]
) -> None:
    server = start_server("headrace", "--maxclients", str(crowd_count + 100))
    crowd: list[socket.socket] = []
    try:
        with server.connect() as wire:
            resident_before = resident_mib(server.pid)
            for _ in range(crowd_count):
                crowd.append(socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S))
                crowd[-1].sendall(begun)
            wait_for_clients(wire, crowd_count + 1)
            wait_for_input(wire, crowd_count * len(begun))
            each_kib = (resident_mib(server.pid) - resident_before) * 1024 / crowd_count
            print(f"\n{crowd_count} connections, {each_kib:.1f} KiB each")
            assert each_kib <= CONNECTION_KIB_MAX
            assert wire.call("PING") == b"+PONG\r\n"
            while crowd:
                crowd.pop().close()
            wait_for_clients(wire, 1)
    finally:
        for each in crowd:
            each.close()


def test_guessing_passwords_is_counted_and_logged(guarded: Server) -> None:
    with guarded.connect() as stranger:
        for _ in range(20):
            assert stranger.call("AUTH", GUESS).startswith(b"-WRONGPASS")
        assert stranger.call("GET", "k").startswith(b"-NOAUTH")
    with logged_in(guarded) as wire:
        assert field(wire, "stats", "acl_access_denied_auth") == 20
        newest = wire.ask("ACL", "LOG", 1)[0]
        entry = dict(zip(newest[::2], newest[1::2], strict=True))
        assert (entry[b"count"], entry[b"reason"], entry[b"username"]) == (20, b"auth", b"default")


def test_no_secret_is_shown(guarded: Server) -> None:
    """AUTH, HELLO, ACL SETUSER and CONFIG SET get right and wrong passwords, in correct and incorrect requests."""
    shown = b""
    with logged_in(guarded) as wire, logged_in(guarded) as monitor:
        assert wire.call("CONFIG", "SET", "slowlog-log-slower-than", 0) == b"+OK\r\n"
        assert monitor.call("MONITOR") == b"+OK\r\n"
        for request in (
            ["AUTH", GUESS], ["AUTH", "nobody", GUESS], ["AUTH", PASSWORD], ["AUTH", "default", PASSWORD],
            ["HELLO", 3, "AUTH", "default", PASSWORD], ["HELLO", 2, "AUTH", "default", GUESS],
            ["AUTH", "default", PASSWORD, "x"], ["HELLO", 3, "AUTH", PASSWORD],
            ["ACL", "SETUSER", "bob", "on", f">{PASSWORD}"], ["ACL", "SETUSER", "bob", "nosuchrule", f">{GUESS}"],
            ["CONFIG", "SET", "requirepass", PASSWORD], ["CONFIG", "SET", "requirepass", PASSWORD, "hz", "x"],
            ["MULTI"], ["AUTH", PASSWORD], ["EXEC"],
        ):  # fmt: skip
            wire.call(*request)
        shown += wire.call("SLOWLOG", "GET", -1) + wire.call("ACL", "LOG") + wire.call("ACL", "LIST")
        shown += wire.call("CLIENT", "LIST") + wire.call("INFO", "everything") + wire.call("ECHO", "the end")
        monitored = b""
        while b"the end" not in monitored:
            monitored += monitor.receive()
    shown += monitored + guarded.log_path.read_bytes()
    assert PASSWORD.encode() not in shown
    assert GUESS.encode() not in shown
