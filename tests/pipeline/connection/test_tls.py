"""TLS to a real server: certificates on both sides, and a one-line error for each failure."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.pipeline.connection.client import Connection, pack
from headrace.pipeline.connection.tls import client_context
from headrace.pipeline.errors import OptionError, PipelineError, ServerGone
from headrace.pipeline.options.kinds import Endpoint, parse
from support.certificates import Authority
from support.ports import free_port
from support.servers import Server

StartServer = Callable[..., Server]
# Longer than a test may take: an error that is known at once must not be tried again.
RETRY_S = 20.0


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def secured(authority: Authority, start_server: StartServer) -> Callable[..., int]:
    """Starts a server with these directives that also listens for TLS; returns the TLS port."""

    def start(*directives: str) -> int:
        certificate, key = authority.issue("server")
        port = free_port()
        words = ["--tls-port", str(port), "--tls-cert-file", str(certificate), "--tls-key-file", str(key)]
        start_server("headrace", *words, "--tls-ca-cert-file", str(authority.file), *directives)
        return port

    return start


def error_of(endpoint: Endpoint) -> str:
    """Returns the error of a connection, which is raised at once."""
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


def test_client_sends_its_certificate_if_the_server_requires_one(
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
def test_error_hints_at_a_missing_or_refused_certificate(
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
def test_tls_alert_of_the_server_is_an_error_at_once(
    version: ssl.TLSVersion, authority: Authority, tmp_path: Path
) -> None:
    certificate, key = authority.issue("server")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.file))
    context.load_cert_chain(certificate, key)
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = context.maximum_version = version
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        """Refuses as OpenSSL and Redis do, with an alert that says why."""
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
        assert "wants a certificate: set tlsCertFile and tlsKeyFile" in error_of(Endpoint(**trusting))  # type: ignore[arg-type]
        refused = error_of(Endpoint(**trusting, **foreign))  # type: ignore[arg-type]
        assert "refuses the certificate of the option tlsCertFile" in refused


def test_client_without_tls_at_a_tls_port_gets_the_option_to_set(secured: Callable[..., int]) -> None:
    for directives in (("--tls-auth-clients", "no"), ("--tls-auth-clients", "yes", "--tls-protocols", "TLSv1.2")):
        port = secured(*directives)
        assert error_of(Endpoint(port=port, retry_for=RETRY_S)) == f"127.0.0.1:{port} speaks TLS: set tls=true"


def test_tls_client_at_a_port_without_tls_is_an_error(server: Server) -> None:
    endpoint = Endpoint(port=server.port, tls=True, retry_for=RETRY_S, connect_timeout=0.5)
    assert "does not speak TLS (option tls)" in error_of(endpoint)


def test_untrusted_certificate_of_the_server_is_an_error(secured: Callable[..., int]) -> None:
    port = secured("--tls-auth-clients", "no")
    message = error_of(Endpoint(port=port, tls=True, retry_for=RETRY_S))
    assert "has a certificate that is not trusted (option tlsCaFile)" in message


def test_files_that_are_not_a_certificate_and_key_are_errors(authority: Authority, tmp_path: Path) -> None:
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
def test_options_without_effect_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse(Endpoint, given)
