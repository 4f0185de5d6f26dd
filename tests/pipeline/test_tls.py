"""TLS to a real server: certificates on both sides, and a plain line for each way in which it goes wrong."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.pipeline.connection import Connection, pack
from headrace.pipeline.errors import OptionError, PipelineError, ServerGone
from headrace.pipeline.options import Endpoint, parse
from headrace.pipeline.tls import client_context
from support.certificates import Authority
from support.ports import free_port
from support.servers import Server

StartServer = Callable[..., Server]
RETRY_S = 20.0
"""Longer than a test may take: what can be told at once must not be tried again."""


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def secured(authority: Authority, start_server: StartServer) -> Callable[..., int]:
    """Starts a server that also listens for TLS, with these directives; the port for TLS."""

    def start(*directives: str) -> int:
        certificate, key = authority.issue("server")
        port = free_port()
        words = ["--tls-port", str(port), "--tls-cert-file", str(certificate), "--tls-key-file", str(key)]
        start_server("headrace", *words, "--tls-ca-cert-file", str(authority.file), *directives)
        return port

    return start


def told(endpoint: Endpoint) -> str:
    """The error of a connection, which comes at once."""
    started = time.monotonic()
    with pytest.raises(PipelineError) as caught, Connection(endpoint) as connection:
        connection.call("ECHO", "x")
    assert not isinstance(caught.value, ServerGone)
    assert time.monotonic() - started < RETRY_S / 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


def own_options(authority: Authority, *, name: str = "client") -> dict[str, str]:
    certificate, key = authority.issue(name)
    return {"tls_cert_file": str(certificate), "tls_key_file": str(key)}


def test_client_shows_its_certificate_to_a_server_that_wants_one(
    authority: Authority, secured: Callable[..., int]
) -> None:
    port = secured("--tls-auth-clients", "yes")
    trusting = {"port": port, "tls": True, "tls_ca_file": str(authority.file), "retry_for": RETRY_S}
    with Connection(Endpoint(**trusting, **own_options(authority))) as connection:  # type: ignore[arg-type]
        connection.call("XADD", "s", "1-0", "n", "x" * 3_000_000)
        assert len(connection.fetch(pack(("XRANGE", "s", "-", "+")))) > 3_000_000
    one_file = Path(own_options(authority)["tls_cert_file"])
    one_file.write_bytes(one_file.read_bytes() + one_file.with_suffix(".key").read_bytes())
    with Connection(Endpoint(**trusting, tls_cert_file=str(one_file))) as connection:  # type: ignore[arg-type]
        assert connection.call("XLEN", "s") == 1


@pytest.mark.parametrize("versions", ["TLSv1.2", "TLSv1.3"])
def test_certificate_that_may_be_missing_or_refused_is_hinted_at(
    versions: str, authority: Authority, tmp_path: Path, secured: Callable[..., int]
) -> None:
    port = secured("--tls-auth-clients", "yes", "--tls-protocols", versions)
    trusting = {"port": port, "tls": True, "tls_ca_file": str(authority.file), "retry_for": 0.1}
    foreign = own_options(Authority(tmp_path, "other"), name="foreign")
    for files, hint in (
        ({}, "it may want a certificate: set tlsCertFile and tlsKeyFile"),
        (foreign, "it may refuse the certificate of the option tlsCertFile"),
    ):
        with pytest.raises(ServerGone, match=hint):
            Connection(Endpoint(**trusting, **files)).call("PING")  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_server_that_says_why_it_refuses_is_believed_at_once(
    version: ssl.TLSVersion, authority: Authority, tmp_path: Path
) -> None:
    certificate, key = authority.issue("server")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.file))
    context.load_cert_chain(certificate, key)
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = context.maximum_version = version
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        """As OpenSSL does by itself, and Redis: an alert says why."""
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with client, contextlib.suppress(OSError), context.wrap_socket(client, server_side=True):
                pass

    threading.Thread(target=serve, daemon=True).start()
    trusting = {"tls": True, "tls_ca_file": str(authority.file), "retry_for": RETRY_S}
    trusting |= {"port": listener.getsockname()[1]}
    foreign = own_options(Authority(tmp_path, "other"), name="foreign")
    with listener:
        assert "wants a certificate: set tlsCertFile and tlsKeyFile" in told(Endpoint(**trusting))  # type: ignore[arg-type]
        refused = told(Endpoint(**trusting, **foreign))  # type: ignore[arg-type]
        assert "refuses the certificate of the option tlsCertFile" in refused


def test_plain_client_at_a_tls_port_is_told_to_set_tls(secured: Callable[..., int]) -> None:
    for directives in (("--tls-auth-clients", "no"), ("--tls-auth-clients", "yes", "--tls-protocols", "TLSv1.2")):
        port = secured(*directives)
        assert told(Endpoint(port=port, retry_for=RETRY_S)) == f"127.0.0.1:{port} speaks TLS: set tls=true"


def test_tls_client_at_a_plain_port_is_told_so(server: Server) -> None:
    endpoint = Endpoint(port=server.port, tls=True, retry_for=RETRY_S, connect_timeout=0.5)
    assert "does not speak TLS (option tls)" in told(endpoint)


def test_certificate_of_the_server_that_is_not_trusted_is_told(secured: Callable[..., int]) -> None:
    port = secured("--tls-auth-clients", "no")
    message = told(Endpoint(port=port, tls=True, retry_for=RETRY_S))
    assert "shows a certificate that is not trusted (option tlsCaFile)" in message


def test_files_that_are_no_certificate_and_key_are_told(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.issue("one")
    _, other = authority.issue("other")
    locked = authority.issue("locked", password=b"sesame")
    for files, message in (
        ((tmp_path / "none.crt", key), "option tlsCertFile: cannot read .*none.crt: No such file"),
        ((certificate, tmp_path / "none.key"), "option tlsKeyFile: cannot read .*none.key: No such file"),
        ((certificate, other), "options tlsCertFile and tlsKeyFile must be a certificate and its key"),
        (locked, "option tlsKeyFile: the key is encrypted"),
    ):
        with pytest.raises(OptionError, match=message):
            client_context(Endpoint(tls=True, tls_cert_file=str(files[0]), tls_key_file=str(files[1])))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tls": "true", "tlsKeyFile": "k"}, "option tlsKeyFile needs tlsCertFile"),
        ({"tlsCertFile": "c"}, "options tlsCaFile and tlsCertFile need tls=true"),
        ({"tlsCaFile": "c", "tls": "false"}, "options tlsCaFile and tlsCertFile need tls=true"),
    ],
)
def test_options_that_would_go_without_effect_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse(Endpoint, given)
