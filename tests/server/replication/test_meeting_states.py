"""Two states that meet: a role, a link or a snapshot of replication, and something else that the server does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.replica import StreamReader, take_records
from support.servers import Server


@pytest.fixture
def primary(tmp_path: Path) -> Iterator[Server]:
    """A server with save points, which begins a snapshot as soon as a replica asks."""
    server = Server("headrace", tmp_path, "--save", "3600 1", "--repl-diskless-sync-delay", "0").start()
    yield server
    server.kill()


@pytest.mark.parametrize("middle", [["FLUSHALL"], ["DEBUG", "RELOAD"]], ids=" ".join)
def test_a_snapshot_within_a_transaction_does_not_split_it(primary: Server, middle: list[str]) -> None:
    with StreamReader(primary.port) as stream, primary.connect() as wire:
        for words in (["MULTI"], ["SET", "a", "1"], middle, ["SET", "b", "1"]):
            wire.call(*words)
        assert wire.call("EXEC") == b"*3\r\n+OK\r\n+OK\r\n+OK\r\n"
        records = take_records(stream, wire, b"end")
        assert records[0] == [b"MULTI"]
        assert records[-1] == [b"EXEC"]
