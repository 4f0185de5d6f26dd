"""The connection: error replies, and lost connections."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.pipeline.connection.client import Connection, ReplyError, pack
from headrace.pipeline.errors import OptionError, PipelineError, Refused, ServerGone
from headrace.pipeline.options.kinds import Endpoint
from support.ports import free_port
from support.servers import Server

StartServer = Callable[..., Server]
REPLY = b"+PONG\r\n"


def endpoint(port: int, **options: object) -> Endpoint:
    return Endpoint(port=port, retry_for=0.2, **options)  # type: ignore[arg-type]


@contextmanager
def scripted(*answers: bytes) -> Iterator[int]:
    """A server that answers the first read of each connection with the next one of `answers`, and closes it."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for answer in answers:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            # A client that refuses the answer resets the connection.
            with client, contextlib.suppress(OSError):
                client.recv(65536)
                client.sendall(answer)
                client.shutdown(socket.SHUT_WR)
                client.recv(65536)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()


def test_pipeline_gives_errors_as_values(server: Server) -> None:
    with Connection(endpoint(server.port)) as connection:
        replies = connection.call_all([("SET", "k", "v"), ("XLEN", "k"), ("GET", "k")])
    assert replies[0] == b"OK"
    assert isinstance(replies[1], ReplyError)
    assert replies[1].code == "WRONGTYPE"
    assert replies[2] == b"v"


def test_error_reply_is_raised_with_the_option_to_check(server: Server) -> None:
    with Connection(endpoint(server.port)) as connection:
        connection.call("SET", "k", "v")
        with pytest.raises(Refused, match="stream k: the key is not a stream: check the option stream"):
            connection.call("XLEN", "k", doing="stream k")


def test_raw_reply_is_whole_whatever_its_size(server: Server) -> None:
    value = b"\r\n$32\r\n" + b"x" * 3_000_000
    with Connection(endpoint(server.port)) as connection:
        connection.call("SET", "k", value)
        assert connection.fetch(pack(("GET", "k"))) == b"$%d\r\n%b\r\n" % (len(value), value)


def test_database_is_selected_and_password_given(start_server: StartServer) -> None:
    started = start_server("headrace")
    port = started.port
    with started.connect() as wire:
        wire.call("CONFIG", "SET", "requirepass", "sesame")
    with Connection(endpoint(port, password="sesame", db=3)) as connection:
        connection.call("SET", "k", "v")
    with Connection(endpoint(port, password="sesame")) as connection:
        assert connection.call("EXISTS", "k") == 0
    with pytest.raises(Refused, match="the server wants a password: set passwordFile or passwordEnv"):
        Connection(endpoint(port)).call("PING")
    with pytest.raises(Refused, match="refused the password") as caught:
        Connection(endpoint(port, password="wrong-one")).call("PING")
    assert "wrong-one" not in str(caught.value)


def test_missing_database_is_an_error(server: Server) -> None:
    with pytest.raises(Refused, match=r"SELECT at .*: the server has no such database: check the option db"):
        Connection(endpoint(server.port, db=1_000_000)).call("XLEN", "s")


def test_user_without_a_password_logs_in_with_an_empty_one(start_server: StartServer) -> None:
    started = start_server("headrace")
    with Connection(endpoint(started.port)) as connection:
        connection.call("ACL", "SETUSER", "ann", "on", "nopass", "~*", "+@all")
    with Connection(endpoint(started.port, username="ann", password="")) as connection:
        assert connection.call("ACL", "WHOAMI") == b"ann"


def test_error_for_an_unreachable_server_names_its_options() -> None:
    port = free_port()
    with pytest.raises(
        ServerGone, match=rf"127.0.0.1:{port} did not answer for 0.2 s \(options host, port, retryFor\)"
    ):
        Connection(endpoint(port)).call("PING")


def test_error_for_a_missing_socket_names_its_option(tmp_path: Path) -> None:
    with pytest.raises(ServerGone, match=r"none.sock did not answer .* \(options socketPath, retryFor\): No such file"):
        Connection(endpoint(1, socket_path=str(tmp_path / "none.sock"))).call("PING")


def test_request_is_repeated_on_a_new_connection_if_one_is_lost(server: Server) -> None:
    with Connection(endpoint(server.port)) as connection, Connection(endpoint(server.port)) as other:
        connection.call("PING")
        other.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        assert connection.call("ECHO", "again") == b"again"
        other.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        assert connection.fetch(pack(("ECHO", "again"))) == b"$5\r\nagain\r\n"


def test_loading_is_waited_for() -> None:
    with scripted(b"-LOADING wait\r\n", REPLY + b"$2\r\nok\r\n") as port:
        assert Connection(endpoint(port)).call("ECHO", "ok") == b"ok"


def test_server_that_is_not_redis_is_an_error() -> None:
    message = r"is not a Redis server \(options host, port\)"
    with scripted(b"HTTP/1.1 400 Bad Request\r\n", b"") as port, pytest.raises(PipelineError, match=message):
        Connection(endpoint(port)).call("PING")


def test_bad_file_of_trusted_certificates_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "no.pem").write_text("no certificate")
    with scripted(b"+PONG\r\n") as port:
        for name, message in (
            ("missing.pem", "cannot read .*missing.pem: No such file"),
            ("no.pem", "has no certificates in PEM"),
        ):
            with pytest.raises(OptionError, match=f"option tlsCaFile: .*{message}"):
                Connection(endpoint(port, tls=True, tls_ca_file=str(tmp_path / name))).call("PING")
