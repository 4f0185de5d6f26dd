"""TIME and the replication offset, which no script compares."""

from __future__ import annotations

import pytest

from conftest import StartServer
from support.servers import Server


def test_time_has_microseconds(server: Server) -> None:
    with server.connect() as wire:
        fractions = [int(wire.ask("TIME")[1]) % 1000 for _ in range(20)]
    assert any(fractions)


def test_transaction_has_one_time(server: Server) -> None:
    with server.connect() as wire:
        wire.call("MULTI")
        for _ in range(3):
            wire.call("TIME")
        first, *others = wire.ask("EXEC")
    assert others == [first, first]


LOGGED = """
SET a 1
SET a 2
GET a
SELECT 3
SET b 1
MULTI
SET a 1
SET b 2
EXEC
MULTI
SET a 3
EXEC
MULTI
GET a
EXEC
MSET a 1 b 2 c 3
DEL a b c
DEL a
XADD s 1-1 a b
XGROUP CREATE s g 0
XREADGROUP GROUP g c STREAMS s >
XADD s 1-2 a b
XADD s 1-3 a b
XREADGROUP GROUP g c COUNT 1 STREAMS s >
XACK s g 1-1 1-2
FLUSHALL
FLUSHALL
PUBLISH a b
INCRBYFLOAT x 1.5
SWAPDB 0 1
CONFIG RESETSTAT
CONFIG SET appendonly no
SET a 1
""".strip().splitlines()


@pytest.mark.oracle
def test_offset_counts_the_records_of_the_log(start_server: StartServer) -> None:
    ours, theirs = (start_server(name, "--appendonly", "yes").connect() for name in ("headrace", "oracle"))
    with ours, theirs:
        for line in LOGGED:
            is_queued = False
            for wire in (ours, theirs):
                is_queued = wire.call(*line.split()) == b"+QUEUED\r\n"
            if not is_queued and line != "MULTI":
                assert ours.call("ROLE") == theirs.call("ROLE"), line
        assert b"master_repl_offset:%d\r\n" % ours.ask("ROLE")[1] in ours.ask("INFO", "replication")
