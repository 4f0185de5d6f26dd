"""Hashes that HIMPORT made, by Redis or by Headrace, reach the other one."""

from __future__ import annotations

import pytest

from conftest import StartServer
from headrace.comparison.main import main
from support.links import follow, settle
from support.wire import Argument, Wire

pytestmark = pytest.mark.oracle

PREPARED: list[list[Argument]] = [
    ["HIMPORT", "PREPARE", "fields", "c", "b", "long"],
    ["HIMPORT", "PREPARE", "names", "c", "n" * 70],
    ["HIMPORT", "PREPARE", "many", *range(600)],
]


def make(wire: Wire, prefix: str) -> None:
    """Hashes in both encodings, some of them changed afterwards, also in a transaction and from a script."""
    script = "redis.call('HIMPORT','PREPARE','s','x','y') return redis.call('HIMPORT','SET',KEYS[1],'s','1','2')"
    requests: list[list[Argument]] = [
        *PREPARED,
        ["HIMPORT", "SET", f"{prefix}:short", "fields", 1, "two", ""],
        ["HIMPORT", "SET", f"{prefix}:long", "fields", 1, "two", "x" * 70],
        ["HIMPORT", "SET", f"{prefix}:names", "names", 1, 2],
        ["HIMPORT", "SET", f"{prefix}:many", "many", *range(600)],
        ["HIMPORT", "SET", f"{prefix}:changed", "fields", 5, 6, 7],
        ["HSET", f"{prefix}:changed", "new", 1, "c", 8],
        ["HDEL", f"{prefix}:changed", "b"],
        ["HIMPORT", "SET", f"{prefix}:timed", "fields", 5, 6, 7],
        ["HPEXPIREAT", f"{prefix}:timed", 4102444800000, "FIELDS", 1, "c"],
        ["SET", f"{prefix}:replaced", "v"],
        ["DEL", f"{prefix}:replaced"],
        ["HSET", f"{prefix}:replaced", "old", 1],
        ["PEXPIREAT", f"{prefix}:replaced", 4102444800000],
        ["HIMPORT", "SET", f"{prefix}:replaced", "fields", 1, 2, 3],
        ["MULTI"],
        ["HIMPORT", "PREPARE", "queued", "a"],
        ["HIMPORT", "SET", f"{prefix}:queued", "queued", 1],
        ["EXEC"],
        ["EVAL", script, 1, f"{prefix}:script"],
    ]
    for request in requests:
        assert not wire.call(*request).startswith(b"-"), request


@pytest.mark.parametrize(("above", "below"), [("oracle", "headrace"), ("headrace", "oracle")])
def test_they_arrive_by_snapshot_and_by_stream(
    start_server: StartServer, above: str, below: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--repl-diskless-sync-delay", "0", "--appendonly", "yes")
    primary, replica = start_server(above, *options), start_server(below, *options)
    with primary.connect() as maker, replica.connect() as taker:
        make(maker, "snapshot")
        follow(taker, primary)
        make(maker, "stream")
        settle(maker, taker)
        assert maker.ask("DEBUG", "DIGEST") == taker.ask("DEBUG", "DIGEST")
        for key in maker.ask("KEYS", "*"):
            for question in (["OBJECT", "ENCODING", key], ["PEXPIRETIME", key], ["HGETALL", key]):
                assert maker.call(*question) == taker.call(*question), question
        assert main([f"127.0.0.1:{primary.port}", f"127.0.0.1:{replica.port}"]) == 0, capsys.readouterr().out
        # A replica that was promoted has no fieldsets.
        taker.call("REPLICAOF", "NO", "ONE")
        assert taker.call("HIMPORT", "SET", "h", "fields", 1, 2, 3) == b"-ERR no such fieldset\r\n"
        digest = taker.ask("DEBUG", "DIGEST")
    replica.restart()
    with replica.connect() as taker:
        assert taker.ask("DEBUG", "DIGEST") == digest
