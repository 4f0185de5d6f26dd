"""The container's health check, run as Docker runs it: it passes while clients can be served, and only then."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from errno import ENOSPC
from pathlib import Path
from typing import Any

import pytest

from support.certificates import Authority
from support.image import read_instructions
from support.inprocess import running_server
from support.packaging import ROOT
from support.ports import free_port

DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
CHECK_TIMEOUT_S = 15


async def is_healthy(port: int, pid: int = 0, **variables: str) -> bool:
    """What the command of HEALTHCHECK says of the server at `port`, which is in process `pid`."""
    options, _, command = dict(read_instructions(DOCKERFILE))["HEALTHCHECK"].partition("CMD ")
    assert "--start-interval=1s" in options
    program, *flags, script = json.loads(command)
    assert program == "python"
    script = ROOT / script.removeprefix("/opt/headrace/")
    environment = {**os.environ, "HEADRACE_PORT": str(port), **variables}
    check = await asyncio.create_subprocess_exec(
        sys.executable, *flags, script, str(pid), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return await asyncio.wait_for(check.wait(), CHECK_TIMEOUT_S) == 0


@pytest.mark.parametrize("directives", [{}, {"requirepass": b"secret"}])
async def test_server_is_healthy_with_or_without_a_password(directives: dict[str, Any], tmp_path: Path) -> None:
    async with running_server(dir=os.fsencode(tmp_path), **directives) as running:
        assert await is_healthy(running.port)


async def test_server_that_loads_is_not_healthy_yet(tmp_path: Path) -> None:
    async with running_server(dir=os.fsencode(tmp_path)) as running:
        running.server.context.loading = True
        running.server.dispatcher.refresh_clients()
        assert not await is_healthy(running.port)


async def test_server_that_cannot_write_its_log_is_not_healthy(tmp_path: Path) -> None:
    async with running_server(dir=os.fsencode(tmp_path), appendonly=True) as running:
        log = running.server.log
        assert log is not None
        works = log._file.append  # type: ignore[union-attr]

        def fails(_: bytes | memoryview) -> int:
            raise OSError(ENOSPC, os.strerror(ENOSPC))

        log._file.append = fails  # type: ignore[union-attr,method-assign]
        peer = await running.connect()
        peer.send("XADD", "s", "1-1", "f", "v")
        await peer.expect(b"$3\r\n1-1\r\n")
        assert not await is_healthy(running.port)
        log._file.append = works  # type: ignore[union-attr,method-assign]
        running.server.periodic.run()
        assert await is_healthy(running.port)


async def test_absent_server_is_not_healthy() -> None:
    assert not await is_healthy(free_port())


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


TLS = "--port 0 --tls-port {port} --tls-cert-file own.crt --tls-key-file own.key --tls-ca-cert-file ca.pem"


@pytest.mark.parametrize(
    "options",
    [
        "--port {port}",
        "--port {port} --bind ::1",
        "{folder}/redis.conf --port {port}",
        "--port 0 --unixsocket own.sock",
        TLS,
        TLS + " --tls-auth-clients no",
    ],
)
async def test_the_words_of_the_server_say_where_it_listens(options: str, tmp_path: Path, authority: Authority) -> None:
    """The variable names another port, on which nothing listens."""
    authority.issue("own")
    (tmp_path / "redis.conf").write_text("port 1\nbind 127.0.0.1\n")
    words = options.format(port=free_port(), folder=tmp_path).split()
    if not any("conf" in word or word == "--bind" for word in words):
        words += ["--bind", "127.0.0.1"]
    server = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("headrace"), *words, "--save", "", "--dir", tmp_path, cwd=tmp_path
    )
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            while not await is_healthy(free_port(), server.pid):
                assert server.returncode is None
    finally:
        server.kill()
        await server.wait()
