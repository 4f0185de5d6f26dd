"""The commands that docs/security.md shows make certificates with which the server and its clients work."""

from __future__ import annotations

import shlex
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.documents import ROOT, Block, blocks, commands
from support.ports import free_port
from support.servers import Server, redis_cli

StartServer = Callable[..., Server]

PAGE = ROOT / "docs" / "security.md"
TIMEOUT_S = 60


def shown() -> tuple[list[list[str]], Block]:
    """The command lines that make and try certificates, and the configuration that uses the files."""
    found = list(blocks(PAGE))
    lines = next(block for block in found if block.language == "sh" and block.first.startswith("openssl req"))
    directives = next(block for block in found if block.language in ("", "conf") and "tls-cert-file" in block.text)
    return [shlex.split(line) for line, _ in commands(lines)], directives


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_shown_commands_make_certificates_that_the_shown_configuration_serves(
    start_server: StartServer, tmp_path: Path
) -> None:
    (*making, trying), directives = shown()
    assert [words[0] for words in making] == ["openssl"] * 3
    for words in making:
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S)
        assert done.returncode == 0, done.stderr
    port = str(free_port())
    own = directives.text.replace("/etc/headrace/", f"{tmp_path}/").replace("tls-port 6380", f"tls-port {port}")
    options = [word for line in own.splitlines() if not line.startswith("port ") for word in f"--{line}".split()]
    start_server("headrace", *options)
    assert ping(tmp_path, int(port)) == b"+PONG\r\n"
    program = client_with_tls()
    if program is not None:
        words = [port if word == "6380" else word for word in trying[1:]]
        done = subprocess.run([program, *words], cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S)
        assert done.stdout == "PONG\n", done.stderr


def ping(folder: Path, port: int) -> bytes:
    """The reply to a client with the shown certificate, which checks the server's strictly, as Python 3.13 does."""
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_cert_chain(str(folder / "worker.crt"), str(folder / "worker.key"))
    with (
        socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as client,
    ):
        client.sendall(b"PING\r\n")
        return client.recv(100)


def client_with_tls() -> str | None:
    """A redis-cli that was built with TLS; None if there is none."""
    for program in filter(None, (redis_cli(), shutil.which("redis-cli"))):
        done = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=TIMEOUT_S)
        if "--tls" in done.stdout + done.stderr:
            return str(program)
    return None
