"""A Redis of version 7: Headrace follows it, and refuses it as a replica, which could not read the snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.comparison.main import main
from support.links import field, follow, settle, until
from support.redis7 import OldRedis
from support.servers import Server

REFUSAL = "NOMASTERLINK This replica has not read its last snapshots: RDB version 15 needs Redis 8.10"


@pytest.fixture
def old(tmp_path: Path) -> Iterator[Server]:
    server = OldRedis("redis 7", tmp_path / "old").start()
    yield server
    server.stop()


def test_an_old_redis_is_refused_with_a_line_on_both_sides(old: Server, start_server: Callable[..., Server]) -> None:
    primary = start_server("headrace", "--repl-diskless-sync-delay", "0")
    with primary.connect() as above, old.connect() as below:
        above.call("XADD", "s", "1-1", "f", "v")
        assert below.call("REPLICAOF", "127.0.0.1", primary.port) == b"+OK\r\n"
        until(lambda: REFUSAL in old.log_path.read_text(), "the old Redis does not log the refusal")
        lines = [line for line in primary.log_path.read_text().splitlines() if "whole snapshots" in line]
        assert 1 <= len(lines) <= 2
        assert f"127.0.0.1:{old.port} has closed the connection after 2 whole snapshots, and has read none" in lines[0]
        assert int(field(above, "sync_full", "stats")) <= 4
        assert above.call("XADD", "s", "2-1", "f", "v") == b"$3\r\n2-1\r\n"


def test_an_old_redis_is_followed_and_compared(
    old: Server, start_server: Callable[..., Server], capsys: pytest.CaptureFixture[str]
) -> None:
    replica = start_server("headrace", "--appendonly", "yes")
    with old.connect() as above, replica.connect() as below:
        above.call("CONFIG", "SET", "repl-diskless-sync-delay", 0)
        for start in (1, 100):
            for number in range(start, start + 50):
                above.call("XADD", "s", f"{number}-1", "f", "v")
            above.call("XGROUP", "CREATE", "s", f"g{start}", 0)
            above.call("XREADGROUP", "GROUP", f"g{start}", "ann", "COUNT", 20, "STREAMS", "s", ">")
            above.call("XAUTOCLAIM", "s", f"g{start}", "bob", 0, 0, "COUNT", 5)
            above.call("XACK", "s", f"g{start}", f"{start}-1", "3-1")
            above.call("XDEL", "s", f"{start + 7}-1")
            above.call("SET", f"text{start}", "v", "PX", 100_000_000)
            above.call("RPUSH", "list", *range(start, start + 300))
            above.call("SADD", "set", *range(start, start + 700))
            above.call("ZADD", "ranks", 0.1, f"m{start}", 1e300, "last", "-inf", "first")
            above.call("HSET", "hash", *range(start, start + 600))
            follow(below, old)
        settle(above, below)
        assert main([f"127.0.0.1:{old.port}", f"127.0.0.1:{replica.port}"]) == 0, capsys.readouterr().out
        assert capsys.readouterr().out.startswith("equal (7 keys, 98 entries, ")
        below.call("REPLICAOF", "NO", "ONE")
        below.call("HPEXPIRE", "hash", 100_000_000, "FIELDS", 1, 1)
        below.call("ZINCRBY", "ranks", 1, "m1")
        addresses = [f"127.0.0.1:{each.port}" for each in (replica, old)]
        assert main([*addresses, "--rounds", "1"]) == 1
        (line, _) = capsys.readouterr().out.splitlines()
        assert line == ("db 0 'ranks' rank 1: member 'm100' with score 0.1 on A, member 'm1' with score 0.1 on B")
        assert below.call("XADD", "s", "1000-1", "f", "v") == b"$6\r\n1000-1\r\n"
