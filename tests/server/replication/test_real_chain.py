"""A chain of three servers, Redis - Headrace - Redis, and what follows when the first one is replaced."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.links import await_link, field, follow, settle, until
from support.servers import Server
from support.wire import Wire

pytestmark = pytest.mark.oracle

OPTIONS = ("--repl-diskless-sync-delay", "0")


def statistic(wire: Wire, name: str) -> int:
    """A counter of INFO stats."""
    return int(field(wire, name, "stats"))


def fill(wire: Wire, start: int) -> None:
    """Streams, groups, transactions, expiry and messages."""
    for number in range(start, start + 50):
        wire.call("XADD", "s", f"{number}-1", "f", "v" * number)
    wire.call("XGROUP", "CREATE", "s", f"g{start}", 0)
    wire.call("XREADGROUP", "GROUP", f"g{start}", "c", "COUNT", 20, "STREAMS", "s", ">")
    wire.call("XNACK", "s", f"g{start}", "FAIL", "IDS", 1, "3-1")
    for line in (["MULTI"], ["SET", "a", start], ["SELECT", 3], ["INCR", "n"], ["EXEC"], ["SELECT", 0]):
        wire.call(*line)
    wire.call("SET", "e", 1, "PX", 1)
    until(lambda: wire.ask("EXISTS", "e") == 0, "a key does not expire")
    wire.call("XADD", "i", "IDMP", "p", start, "*", "f", "v")
    wire.call("PUBLISH", "ch", "m")


def test_a_redis_follows_a_headrace_that_follows_a_redis(start_server: Callable[..., Server]) -> None:
    """The bytes of the top reach the end, and after a promotion each server continues where it was."""
    top, middle, end = (start_server(name, *OPTIONS) for name in ("oracle", "headrace", "oracle"))
    above, between, below = top.connect(), middle.connect(), end.connect()
    fill(above, 1)
    follow(between, top)
    follow(below, middle)
    fill(above, 100)
    settle(above, between, below)
    assert above.ask("DEBUG", "DIGEST") == between.ask("DEBUG", "DIGEST") == below.ask("DEBUG", "DIGEST")
    assert field(below, "master_replid") == field(above, "master_replid")

    # A cut of the upper link is not seen below.
    assert above.call("CLIENT", "KILL", "TYPE", "replica") == b":1\r\n"
    fill(above, 200)
    settle(above, between, below)
    assert statistic(above, "sync_full") == statistic(between, "sync_full") == 1

    # The middle is promoted. The others continue with what they have.
    top_id = field(above, "master_replid")
    assert between.call("REPLICAOF", "NO", "ONE") == b"+OK\r\n"
    assert field(between, "master_replid2") == top_id
    until(lambda: field(below, "master_replid") == field(between, "master_replid"), "the new ID does not arrive")
    follow(above, middle)
    fill(between, 300)
    settle(between, above, below)
    assert statistic(between, "sync_full") == 1
    assert statistic(between, "sync_partial_ok") == 2
    assert above.ask("DEBUG", "DIGEST") == between.ask("DEBUG", "DIGEST") == below.ask("DEBUG", "DIGEST")


def test_a_headrace_follows_another_end_to_end(start_server: Callable[..., Server]) -> None:
    """Three Headraces in a chain, the last of which has the primary's dataset and log."""
    top, middle, end = (start_server("headrace", *OPTIONS, "--appendonly", "yes") for _ in range(3))
    above, between, below = top.connect(), middle.connect(), end.connect()
    fill(above, 1)
    follow(between, top)
    follow(below, middle)
    fill(above, 100)
    settle(above, between, below)
    digest = above.ask("DEBUG", "DIGEST")
    assert digest == between.ask("DEBUG", "DIGEST") == below.ask("DEBUG", "DIGEST")
    above.call("SET", "last", 1)
    assert above.ask("WAITAOF", 1, 1, 5000) == [1, 1]
    digest = above.ask("DEBUG", "DIGEST")
    settle(above, between, below)
    below.close()
    end.restart()
    with end.connect() as wire:
        assert wire.ask("DEBUG", "DIGEST") == digest


def test_a_replica_that_was_restarted_continues_from_its_snapshot(start_server: Callable[..., Server]) -> None:
    primary = start_server("oracle", *OPTIONS)
    replica = start_server("headrace", "--save", "3600 1", "--replicaof", f"127.0.0.1 {primary.port}")
    above = primary.connect()
    with replica.connect() as below:
        await_link(below)
        fill(above, 1)
        settle(above, below)
    replica.stop()
    fill(above, 100)
    replica.start()
    with replica.connect() as below:
        await_link(below)
        settle(above, below)
        assert above.ask("DEBUG", "DIGEST") == below.ask("DEBUG", "DIGEST")
        assert statistic(above, "sync_full") == 1
        assert statistic(above, "sync_partial_ok") == 1


def test_rewrite_keeps_the_primary(start_server: Callable[..., Server], tmp_path) -> None:
    path = tmp_path / "replica.conf"
    path.write_text("")
    primary = start_server("oracle", *OPTIONS)
    replica = start_server("headrace", "--include", str(path))
    with replica.connect() as wire:
        follow(wire, primary)
        assert wire.ask("CONFIG", "GET", "slaveof") == [b"slaveof", b"127.0.0.1 %d" % primary.port]
        assert wire.call("MULTI") == b"+OK\r\n"
        for words in (
            ["REPLICAOF", "NO", "ONE"],
            ["SLAVEOF", "127.0.0.1", primary.port],
            ["CLIENT", "KILL", "TYPE", "normal"],
        ):
            assert wire.call(*words) == b"+QUEUED\r\n"
        assert wire.call("EXEC") == b"*3\r\n+OK\r\n+OK\r\n:0\r\n"
        await_link(wire)
