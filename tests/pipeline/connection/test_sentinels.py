"""Servers that Sentinels name: the primary after a failover, and replicas to read from."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.pipeline.connection.client import Connection, pack
from headrace.pipeline.errors import OptionError, PipelineError, Refused, ServerGone
from headrace.pipeline.options.kinds import BatchOptions, Endpoint, WriteOptions, parse
from headrace.store.ids import make_id
from support.links import field, settle, until
from support.ports import free_port
from support.secured import Secured
from support.sentinels import NAME
from support.servers import Server
from support.watched import Lost, StartWatched, Watched, start_all

THREE = ("headrace", "headrace", "headrace")
StartServer = Callable[..., Server]


@pytest.fixture
def start_watched(oracle_tools: Path, tmp_path: Path) -> Iterator[StartWatched]:
    """Starts servers for Sentinels to watch."""
    yield from start_all(tmp_path)


def endpoint(watched: Watched, **options: object) -> Endpoint:
    """The primary of watched servers."""
    assert watched.sentinels is not None
    sentinels = tuple(("127.0.0.1", port) for port in watched.sentinels.ports)
    return Endpoint(sentinels=sentinels, master=NAME, **options)  # type: ignore[arg-type]


@contextmanager
def answering(*replies: bytes) -> Iterator[int]:
    """A Sentinel that gives each connection the next of these replies."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for reply in replies:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with client, contextlib.suppress(OSError):
                client.recv(65536)
                client.sendall(reply)
                client.recv(65536)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()


def primary_at(port: int) -> bytes:
    return b"*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%d\r\n" % (len(str(port)), port)


def named_by(*ports: int, **options: object) -> Endpoint:
    sentinels = tuple(("127.0.0.1", port) for port in ports)
    return Endpoint(sentinels=sentinels, master=NAME, retry_for=0.3, **options)  # type: ignore[arg-type]


@pytest.mark.oracle
@pytest.mark.parametrize("how", Lost, ids=lambda how: how.name)
def test_requests_continue_at_the_promoted_server(start_watched: StartWatched, how: Lost) -> None:
    check_failover(start_watched(THREE), how)


@pytest.mark.oracle
def test_requests_continue_at_the_promoted_server_over_tls(start_watched: StartWatched, tmp_path: Path) -> None:
    """The options of TLS are those of servers and Sentinels."""
    secured = Secured(tmp_path)
    names = {
        "ssl": "tls",
        "ssl_ca_certs": "tls_ca_file",
        "ssl_certfile": "tls_cert_file",
        "ssl_keyfile": "tls_key_file",
    }
    options = {names[name]: value for name, value in secured.options.items()}
    check_failover(start_watched(THREE, secured=secured), Lost.KILLED, **options)


def check_failover(watched: Watched, how: Lost, **options: object) -> None:
    """Lose the primary while a connection is open."""
    watched.watch()
    with Connection(endpoint(watched, read_timeout=2.0, **options)) as connection:
        connection.call("XADD", "s", "1-1", "f", "v")
        assert connection.call("WAIT", 2, 5000) == 2
        watched.lose(how)
        assert connection.call("XADD", "s", "2-1", "f", "v") == b"2-1"
        promoted = watched.await_failover()
        assert connection.call("INFO", "server").count(b"tcp_port:%d\r\n" % promoted.port) == 1
        assert connection.call("XLEN", "s") == 2


@pytest.mark.oracle
def test_a_demoted_server_is_left(start_watched: StartWatched) -> None:
    """Also where it has not closed the connection: READONLY leads back to the Sentinels."""
    watched = start_watched(THREE)
    sentinels = watched.watch()
    with Connection(endpoint(watched)) as connection, Connection(Endpoint(port=watched.primary.port)) as other:
        connection.call("PING")
        other.call("REPLICAOF", "127.0.0.1", watched.replicas[0].port)
        for wire in sentinels.wires:
            wire.call("SENTINEL", "REMOVE", NAME)
            wire.call("SENTINEL", "MONITOR", NAME, "127.0.0.1", watched.replicas[0].port, 2)
        with watched.replicas[0].connect() as wire:
            wire.call("REPLICAOF", "NO", "ONE")
        assert connection.call("XADD", "s", "1-1", "f", "v") == b"1-1"


@pytest.mark.oracle
def test_passwords_of_sentinels_and_server_are_given(start_watched: StartWatched) -> None:
    lines = (
        "sentinel auth-pass orders p-secret",
        "user pipeline on >u-secret +sentinel|get-master-addr-by-name +sentinel|replicas +auth",
    )
    secured = ("requirepass p-secret", "masterauth p-secret", "user low on >l-secret ~* +echo +xlen")
    watched = start_watched(("headrace", "headrace"), (secured, secured), lines=lines, password="s-secret")
    watched.watch()
    for login in (
        {"sentinel_password": "s-secret"},
        {"sentinel_username": "pipeline", "sentinel_password": "u-secret"},
    ):
        with Connection(endpoint(watched, password="p-secret", **login)) as connection:
            assert connection.call("PING") == b"PONG"
    known = {"sentinel_password": "s-secret"}
    with Connection(endpoint(watched, username="low", password="l-secret", **known)) as connection:
        assert connection.call("XLEN", "s") == 0, "the role is known without a further right"
    with pytest.raises(PipelineError, match="wants a password: set sentinelPasswordFile or sentinelPasswordEnv"):
        Connection(endpoint(watched, password="p-secret")).call("PING")
    with pytest.raises(PipelineError, match="refused the password: check sentinelUsername") as caught:
        Connection(endpoint(watched, password="p-secret", sentinel_password="wrong-one")).call("PING")
    assert "wrong-one" not in str(caught.value)


def test_a_sentinel_that_is_away_or_wrong_is_skipped(server: Server) -> None:
    with answering(primary_at(server.port)) as port:
        assert Connection(named_by(free_port(), port)).call("PING") == b"PONG"
    with answering(b"*-1\r\n") as none, answering(primary_at(server.port)) as port:
        assert Connection(named_by(none, port)).call("PING") == b"PONG"
    with answering(primary_at(free_port())) as late, answering(primary_at(server.port)) as port:
        assert Connection(named_by(late, port)).call("PING") == b"PONG"


def test_each_failure_is_one_clear_line(server: Server) -> None:
    port = free_port()
    with pytest.raises(
        ServerGone,
        match=rf"orders of the Sentinels 127.0.0.1:{port} did not answer for 0.3 s \(options sentinels, master, "
        rf"retryFor\): no Sentinel answers \(127.0.0.1:{port}: Connection refused\)",
    ):
        Connection(named_by(port)).call("PING")
    with pytest.raises(PipelineError, match=rf"127.0.0.1:{server.port} is no Sentinel \(option sentinels\)"):
        Connection(named_by(server.port)).call("PING")
    with answering(b"*-1\r\n") as port, pytest.raises(PipelineError, match=r"knows no orders \(option master\)"):
        Connection(named_by(port)).call("PING")
    with answering(b"HTTP/1.1 400\r\n") as port, pytest.raises(PipelineError, match="is no Sentinel"):
        Connection(named_by(port)).call("PING")
    refusal = b"-NOPERM User x has no permissions to run the 'sentinel|get-master-addr-by-name' command\r\n"
    with answering(refusal) as port, pytest.raises(Refused, match=r"may not run SENTINEL GET-MASTER-ADDR-BY-NAME"):
        Connection(named_by(port)).call("PING")


def test_a_server_that_is_no_primary_is_not_taken(start_server: StartServer) -> None:
    primary, replica = start_server("headrace"), start_server("headrace")
    with replica.connect() as wire:
        wire.call("REPLICAOF", "127.0.0.1", primary.port)
    with (
        answering(*[primary_at(replica.port)] * 9) as port,
        pytest.raises(ServerGone, match=rf"127.0.0.1:{replica.port} is no primary any more"),
    ):
        Connection(named_by(port)).call("PING")


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (
            Endpoint,
            {"sentinels": "a:1"},
            "option sentinels needs master, the name by which the Sentinels know the server",
        ),
        (Endpoint, {"master": "m"}, "option master has no effect without sentinels: leave it out"),
        (Endpoint, {"sentinels": "a"}, "option sentinels must be addresses host:port separated by commas"),
        (Endpoint, {"sentinels": "a:0"}, "option sentinels must be addresses host:port separated by commas"),
        (
            Endpoint,
            {"sentinels": "a:1", "master": "m", "port": "7"},
            "option port has no effect together with sentinels",
        ),
        (
            Endpoint,
            {"sentinels": "a:1", "master": "m", "socketPath": "/s"},
            "option socketPath has no effect together with sentinels",
        ),
        (Endpoint, {"sentinelPassword": "x"}, "option sentinelPassword has no effect without sentinels"),
        (
            Endpoint,
            {"sentinels": "a:1", "master": "m", "sentinelUsername": "x"},
            "option sentinelUsername needs a password: set sentinelPasswordFile or sentinelPasswordEnv",
        ),
        (
            Endpoint,
            {"sentinels": "a:1", "master": "m", "sentinelPassword": "x", "sentinelPasswordEnv": "y"},
            "options sentinelPassword and sentinelPasswordEnv are both given: keep one",
        ),
        (BatchOptions, {"readFrom": "replica"}, "option readFrom has no effect without sentinels: leave it out"),
        (BatchOptions, {"readFrom": "disk"}, "option readFrom must be one of primary, replica"),
        (WriteOptions, {"waitTimeout": "5s"}, "option waitTimeout has no effect without waitReplicas"),
        (
            WriteOptions,
            {"waitReplicas": "1", "idempotency": "none"},
            "option waitReplicas needs rows that can be sent again: leave idempotency=none and idMode=explicit out",
        ),
    ],
)
def test_a_wrong_combination_of_options_is_one_line(kind: type, given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        parse(kind, given)


def test_addresses_may_be_of_version_6_and_passwords_stay_hidden() -> None:
    given = {"sentinels": "[::1]:26379, ten:26380", "master": "m", "sentinelPassword": "sesame"}
    options = parse(Endpoint, given)
    assert options.sentinels == (("::1", 26379), ("ten", 26380))
    assert options.resolve_sentinel_password() == "sesame"
    assert "sesame" not in repr(options)


@pytest.mark.oracle
def test_entries_are_read_from_a_replica_that_has_them(start_watched: StartWatched) -> None:
    pages = pytest.importorskip("headrace.pipeline.reading.pages", reason="pyarrow is not installed")
    from headrace.pipeline.reading.spans import Span

    users = ("user reader on >r-secret ~s +echo +xinfo +xrange +role", "user poor on >p-secret ~s +echo +xinfo +xrange")
    watched = start_watched(THREE, (users, users, users))
    watched.watch()
    with watched.primary.connect() as above:
        above.call("XADD", "s", "5-0", "f", "v")
        settle(above, *(replica.connect() for replica in watched.replicas))

    def port_read(last: int) -> int:
        accepts = pages._replica_with(Span("s", 1, make_id(last, 0)))
        with Connection(endpoint(watched), accepts) as connection:
            found = re.search(rb"tcp_port:(\d+)", connection.call("INFO", "server"))
            assert found is not None
            return int(found[1])

    assert {port_read(5) for _ in range(30)} == {replica.port for replica in watched.replicas}
    accepts = pages._replica_with(Span("s", 1, make_id(5, 0)))
    with Connection(endpoint(watched, username="reader", password="r-secret"), accepts) as connection:
        assert connection.fetch(pack(("XRANGE", "s", "-", "+"))).tobytes().count(b"5-0") == 1
    with pytest.raises(Refused, match=r"option readFrom: this user may not run ROLE \(NOPERM\)"):
        Connection(endpoint(watched, username="poor", password="p-secret"), accepts).call("ECHO", "x")
    assert port_read(6) == watched.primary.port, "no replica has an entry of that ID yet"
    for replica in watched.replicas:
        with replica.connect() as wire:
            wire.call("REPLICAOF", "127.0.0.1", free_port())
            until(lambda: field(wire, "master_link_status") == "down", "the link stays up")
    assert port_read(5) == watched.primary.port, "a replica without its primary may have another history"
