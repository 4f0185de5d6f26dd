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

from support.image import read_instructions
from support.inprocess import running_server
from support.packaging import ROOT
from support.ports import free_port

DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
CHECK_TIMEOUT_S = 15


async def is_healthy(port: int) -> bool:
    """What the command of HEALTHCHECK says of the server at `port`."""
    program, *words = json.loads(dict(read_instructions(DOCKERFILE))["HEALTHCHECK"].partition(" CMD ")[2])
    assert program == "python"
    environment = {**os.environ, "HEADRACE_PORT": str(port)}
    check = await asyncio.create_subprocess_exec(
        sys.executable, *words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
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
