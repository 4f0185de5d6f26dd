"""TLS: which clients are accepted, which are refused and why, and changes while the server runs."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headrace.server.configuration.config import Config
from headrace.server.sockets.listener import open_tcp_sockets
from headrace.server.sockets.tls import TlsError, build_context, common_name
from headrace.server.sockets.tls_listener import TlsListener
from headrace.store.errors import GenericError
from support.certificates import Authority
from support.inprocess import Peer, Running, running_server

PONG = b"+PONG\r\n"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def directives(authority: Authority, **others: bytes) -> dict[str, bytes]:
    """The directives of a server with a certificate of this authority."""
    certificate, key = authority.issue("server")
    return {
        "tls_cert_file": bytes(certificate),
        "tls_key_file": bytes(key),
        "tls_ca_cert_file": bytes(authority.file),
        **others,
    }


class Secured:
    """A running server, and its TLS port."""

    def __init__(self, running: Running, port: int) -> None:
        self.server = running.server
        self.plain_port = running.port
        self.port = port

    async def connect(self, context: ssl.SSLContext) -> Peer:
        """A new connection."""
        return Peer(*await asyncio.open_connection("127.0.0.1", self.port, ssl=context))

    async def answers(self, context: ssl.SSLContext) -> bool:
        """Whether a client is accepted: with TLS 1.3 it sees a refusal only when it reads."""
        try:
            peer = await self.connect(context)
            peer.send("PING")
            answer = await peer.line()
            peer.writer.close()
        except (ssl.SSLError, ConnectionError):
            return False
        return answer == PONG


@asynccontextmanager
async def secured_server(**values: bytes) -> AsyncIterator[Secured]:
    """A server that listens for TLS in addition to its ordinary port."""
    async with running_server(**values) as running:
        server = running.server
        tls = TlsListener(
            server.config, server.stats, server.acceptor.new_connection, lambda: len(server.dispatcher.sessions)
        )
        listening = open_tcp_sockets(["127.0.0.1"], 0, 128)[0]
        tls.add(listening)
        port = listening.getsockname()[1]
        tls.start()
        try:
            yield Secured(running, port)
        finally:
            tls.stop()


# -- getting in ----------------------------------------------------------------------------------


async def test_clients_use_both_protocols_over_tls(authority: Authority) -> None:
    async with secured_server(**directives(authority, tls_auth_clients=b"no")) as server:
        peer = await server.connect(authority.client_context())
        for request, reply in (("SET", b"+OK\r\n"), ("GET", b"$300000\r\n" + b"x" * 300_000 + b"\r\n")):
            peer.send(request, "k", *(["x" * 300_000] if request == "SET" else []))
            await peer.expect(reply)
        peer.send("CLIENT", "LIST")
        await peer.line()
        line = await peer.line()
        assert b"addr=127.0.0.1:" in line
        assert b"laddr=127.0.0.1:%d " % server.port in line
        peer.send("QUIT")


@pytest.mark.parametrize(
    ("demand", "with_own", "with_foreign", "with_none"),
    [(b"yes", True, False, False), (b"optional", True, False, True), (b"no", True, True, True)],
)
async def test_who_must_show_a_certificate(
    demand: bytes, with_own: bool, with_foreign: bool, with_none: bool, authority: Authority, tmp_path: Path
) -> None:
    own, foreign = authority.issue("own"), Authority(tmp_path, "other").issue("foreign")
    async with secured_server(**directives(authority, tls_auth_clients=demand)) as server:
        assert await server.answers(authority.client_context(*own)) is with_own
        assert await server.answers(authority.client_context(*foreign)) is with_foreign
        assert await server.answers(authority.client_context()) is with_none


async def test_a_client_without_tls_is_refused_and_logged(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with secured_server(**directives(authority, tls_auth_clients=b"no")) as server:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", server.port))
        peer.writer.write(b"PING\r\n")
        await peer.expect_end()
        assert "Error accepting a client connection: " in caplog.text
        assert await server.answers(authority.client_context())


async def test_maxclients_counts_clients_in_their_handshake(authority: Authority) -> None:
    async with secured_server(**directives(authority, tls_auth_clients=b"no", maxclients=1)) as server:  # type: ignore[arg-type]
        silent = Peer(*await asyncio.open_connection("127.0.0.1", server.port))
        late = Peer(*await asyncio.open_connection("127.0.0.1", server.port))
        await late.expect_end()
        assert server.server.stats.connections_rejected == 1
        silent.writer.close()


async def test_only_the_wanted_versions_are_spoken(authority: Authority) -> None:
    def only(version: ssl.TLSVersion) -> ssl.SSLContext:
        context = authority.client_context()
        context.minimum_version = context.maximum_version = version
        return context

    async with secured_server(**directives(authority, tls_auth_clients=b"no", tls_protocols=b"TLSv1.2")) as server:
        assert await server.answers(only(ssl.TLSVersion.TLSv1_2))
        assert not await server.answers(only(ssl.TLSVersion.TLSv1_3))
        server.server.config.set_many([(b"tls-protocols", b"TLSv1.3")])
        assert not await server.answers(only(ssl.TLSVersion.TLSv1_2))
        assert await server.answers(only(ssl.TLSVersion.TLSv1_3))


async def test_the_wanted_cipher_is_used(authority: Authority) -> None:
    cipher = b"ECDHE-ECDSA-AES256-GCM-SHA384"
    values = directives(authority, tls_auth_clients=b"no", tls_protocols=b"TLSv1.2", tls_ciphers=cipher)
    async with secured_server(**values) as server:
        peer = await server.connect(authority.client_context())
        assert peer.writer.get_extra_info("cipher")[0] == cipher.decode()


# -- users by certificate ------------------------------------------------------------------------


async def test_a_certificate_logs_its_user_in(authority: Authority) -> None:
    files = authority.issue("client", common_name="al")
    async with secured_server(**directives(authority, tls_auth_clients_user=b"CN", requirepass=b"pw")) as server:
        server.server.accounts.users.set(b"al", [b"on", b"+acl|whoami"])
        peer = await server.connect(authority.client_context(*files))
        peer.send("ACL", "WHOAMI")
        await peer.expect(b"$2\r\nal\r\n")
        peer.send("PING")
        await peer.expect(b"-NOPERM User al has no permissions to run the 'ping' command\r\n")


@pytest.mark.parametrize("rules", [None, [b"off"]])
async def test_a_certificate_of_an_unknown_user_stays_the_default_user_and_is_logged(
    rules: list[bytes] | None, authority: Authority
) -> None:
    files = authority.issue("client", common_name="al")
    async with secured_server(**directives(authority, tls_auth_clients_user=b"CN", requirepass=b"pw")) as server:
        if rules is not None:
            server.server.accounts.users.set(b"al", rules)
        peer = await server.connect(authority.client_context(*files))
        peer.send("PING")
        await peer.expect(b"-NOAUTH Authentication required.\r\n")
        (entry,) = server.server.accounts.acl_log.entries
        assert (entry.reason, entry.user, server.server.stats.acl_denied_certificate) == ("tls-cert", b"al", 1)


def test_common_name_is_found_among_the_names() -> None:
    subject = ((("organizationName", "o"),), (("commonName", "al"),))
    assert common_name({"subject": subject}) == b"al"
    assert common_name({"subject": subject[:1]}) is None
    assert common_name({}) is None
    assert common_name(None) is None


# -- changes -------------------------------------------------------------------------------------


async def test_new_certificates_serve_only_new_connections(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    certificate, key = other.issue("renewed")
    async with secured_server(**directives(authority, tls_auth_clients=b"no")) as server:
        old = await server.connect(authority.client_context())
        changes = [(b"tls-cert-file", bytes(certificate)), (b"tls-key-file", bytes(key))]
        server.server.config.set_many(changes)
        assert await server.answers(other.client_context())
        assert not await server.answers(authority.client_context())
        old.send("PING")
        await old.expect(PONG)


async def test_the_same_path_is_read_again(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    values = directives(authority, tls_auth_clients=b"no")
    async with secured_server(**values) as server:
        other.issue("server")  # over the files in use
        assert await server.answers(authority.client_context())
        server.server.config.set_many([(b"tls-cert-file", values["tls_cert_file"])])
        assert await server.answers(other.client_context())


async def test_broken_files_are_refused_and_those_before_stay(authority: Authority, tmp_path: Path) -> None:
    certificate, _ = authority.issue("another")
    values = directives(authority, tls_auth_clients=b"no")
    async with secured_server(**values) as server:
        config = server.server.config
        with pytest.raises(GenericError, match=r"'tls-cert-file'\) - Unable to update TLS configuration\. .* mismatch"):
            config.set_many([(b"maxclients", b"77"), (b"tls-cert-file", bytes(certificate))])
        assert (config.maxclients, config.tls_cert_file) == (10000, values["tls_cert_file"])
        with pytest.raises(GenericError, match="No such file or directory"):
            config.set_many([(b"tls-key-file", b"/nosuch")])
        with pytest.raises(GenericError, match="Invalid tls-protocols"):
            config.set_many([(b"tls-protocols", b"SSLv3")])
        assert await server.answers(authority.client_context())


async def test_demanding_certificates_needs_an_authority(authority: Authority) -> None:
    values = directives(authority, tls_auth_clients=b"no", tls_ca_cert_file=b"")
    async with secured_server(**values) as server:
        with pytest.raises(GenericError, match="Either tls-ca-cert-file or tls-ca-cert-dir must be specified"):
            server.server.config.set_many([(b"tls-auth-clients", b"yes")])
        assert await server.answers(authority.client_context())


async def test_the_port_stays_what_it_is(authority: Authority) -> None:
    async with secured_server(**directives(authority)) as server:
        with pytest.raises(GenericError, match="cannot be changed while the server runs"):
            server.server.config.set_many([(b"tls-port", b"7000")])


# -- refusals ------------------------------------------------------------------------------------

Spoil = Callable[[dict[str, bytes], Path], None]


def no_certificate(values: dict[str, bytes], folder: Path) -> None:
    values["tls_cert_file"] = b""


def no_key(values: dict[str, bytes], folder: Path) -> None:
    values["tls_key_file"] = b""


def no_authority(values: dict[str, bytes], folder: Path) -> None:
    values["tls_ca_cert_file"] = b""


def missing_file(values: dict[str, bytes], folder: Path) -> None:
    values["tls_cert_file"] = b"/nosuch.pem"


def empty_file(values: dict[str, bytes], folder: Path) -> None:
    (folder / "empty").touch()
    values["tls_cert_file"] = bytes(folder / "empty")


def wrong_authority(values: dict[str, bytes], folder: Path) -> None:
    values["tls_ca_cert_file"] = b"/nosuch.pem"


def wrong_folder(values: dict[str, bytes], folder: Path) -> None:
    values["tls_ca_cert_dir"] = b"/nosuch"


def wrong_parameters(values: dict[str, bytes], folder: Path) -> None:
    values["tls_dh_params_file"] = b"/nosuch.pem"


def wrong_ciphers(values: dict[str, bytes], folder: Path) -> None:
    values["tls_ciphers"] = b"NOSUCH"


def wrong_suites(values: dict[str, bytes], folder: Path) -> None:
    values["tls_ciphersuites"] = b"NOSUCH"


def no_pem(values: dict[str, bytes], folder: Path) -> None:
    path = folder / "server.crt"
    path.write_text("not a certificate\n")
    values["tls_cert_file"] = bytes(path)


def wrong_versions(values: dict[str, bytes], folder: Path) -> None:
    values["tls_protocols"] = b"TLSv1.2 TLSv9"


def locked_key(values: dict[str, bytes], folder: Path) -> None:
    certificate, key = Authority(folder, "locked").issue("locked", password=b"secret")
    values.update(tls_cert_file=bytes(certificate), tls_key_file=bytes(key), tls_key_file_pass=b"wrong")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (no_certificate, "No tls-cert-file configured!"),
        (no_key, "No tls-key-file configured!"),
        (no_authority, "Either tls-ca-cert-file or tls-ca-cert-dir must be specified"),
        (missing_file, "Failed to load certificate: /nosuch.pem: No such file or directory"),
        (empty_file, "Failed to load certificate and private key: "),
        (no_pem, ": it is not in PEM, or damaged"),
        (wrong_authority, "Failed to configure CA certificate(s) file/directory: /nosuch.pem: No such file"),
        (wrong_folder, "Failed to configure CA certificate(s) directory: /nosuch: it is not a directory"),
        (wrong_parameters, "Failed to load DH params file: /nosuch.pem: No such file"),
        (wrong_ciphers, "Failed to configure tls-ciphers: NOSUCH"),
        (wrong_suites, "tls-ciphersuites"),
        (wrong_versions, "Invalid tls-protocols specified."),
        (locked_key, "Failed to load certificate and private key: "),
    ],
)
def test_what_does_not_work_is_named(spoil: Spoil, why: str, authority: Authority, tmp_path: Path) -> None:
    values = directives(authority)
    spoil(values, tmp_path)
    config = Config()
    for name, value in values.items():
        setattr(config, name, value)
    with pytest.raises(TlsError) as caught:
        build_context(config)
    assert str(caught.value).startswith(why) or why in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_locked_key_opens_with_its_password(authority: Authority) -> None:
    config = Config()
    certificate, key = authority.issue("server", password=b"secret")
    config.tls_cert_file, config.tls_key_file, config.tls_key_file_pass = bytes(certificate), bytes(key), b"secret"
    config.tls_auth_clients = b"no"
    assert build_context(config).verify_mode is ssl.CERT_NONE


def test_tickets_are_given_out_unless_session_caching_is_off(authority: Authority) -> None:
    config = Config()
    for name, value in directives(authority).items():
        setattr(config, name, value)
    assert build_context(config).num_tickets == 2
    config.tls_session_caching = False
    assert build_context(config).num_tickets == 0


def test_a_refused_start_is_one_line_and_exit_code_one(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "headrace", "--port", "0", "--tls-port", "7", "--dir", str(tmp_path)]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 1
    lines = (ended.stdout + ended.stderr).splitlines()
    assert [line for line in lines if "Failed to configure TLS, aborting: No tls-cert-file configured!" in line]
    assert "Traceback" not in ended.stdout + ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_taken_tls_port_is_named_by_its_directive(authority: Authority, tmp_path: Path) -> None:
    files = {name.replace("_", "-"): value.decode() for name, value in directives(authority).items()}
    options = [word for name, value in files.items() for word in (f"--{name}", value)]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = ["--port", "0", "--bind", "127.0.0.1", "--tls-port", str(taken.getsockname()[1]), *options]
        command = [sys.executable, "-m", "headrace", *words]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 1
    assert "(--tls-port)" in ended.stdout + ended.stderr
