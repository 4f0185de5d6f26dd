"""A log of one file, as Redis had before version 7: it is migrated, and Redis can continue with the result."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.servers import Server

pytestmark = pytest.mark.oracle

LINES = """
XADD s 1-1 f v
XADD s 2-1 f v
XGROUP CREATE s g 0
XREADGROUP GROUP g c COUNT 1 STREAMS s >
SET k v
""".strip().splitlines()
QUESTIONS = ("XRANGE s - +", "XPENDING s g", "XINFO GROUPS s", "GET k")


def answers(server: Server) -> list[bytes]:
    """The dataset."""
    with server.connect() as wire:
        return [wire.call(*line.split()) for line in QUESTIONS]


@pytest.mark.parametrize("preamble", ["yes", "no"])
def test_headrace_migrates_the_file_and_redis_continues(preamble: str, oracle_tools: Path, tmp_path: Path) -> None:
    options = ("--appendonly", "yes", "--aof-use-rdb-preamble", preamble)
    with_parts = Server("oracle", tmp_path / "parts", *options).start()
    with with_parts.connect() as wire:
        for line in LINES:
            wire.call(*line.split())
    expected = answers(with_parts)
    with_parts.stop()
    (tmp_path / "data").mkdir()
    with (tmp_path / "data" / "appendonly.aof").open("wb") as old_file:
        # A base and its increment in one file: what Redis wrote before it kept them apart.
        for part in ("base.rdb" if preamble == "yes" else "base.aof", "incr.aof"):
            with (tmp_path / "parts" / "appendonlydir" / f"appendonly.aof.1.{part}").open("rb") as file:
                shutil.copyfileobj(file, old_file)
    for name in ("headrace", "oracle", "headrace"):
        server = Server(name, tmp_path / "data", *options).start()
        assert answers(server) == expected, name
        assert server.stop() == 0
    assert not (tmp_path / "data" / "appendonly.aof").exists()
