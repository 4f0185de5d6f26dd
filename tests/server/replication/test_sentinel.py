"""Redis' Sentinels watch a primary with two replicas, and promote one of them when the primary is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.links import field, settle, until
from support.packaging import ROOT
from support.secured import Secured
from support.watched import FAILOVER_DEADLINE_S, Lost, Member, StartWatched, Watched, start_all
from support.wire import Wire

pytestmark = pytest.mark.oracle

THREE = ("headrace", "headrace", "headrace")
USER = "sentinel"
# What a Sentinel needs, and nothing else.
RULES = (
    "+ping +info +publish +subscribe +multi +exec +slaveof +config|rewrite +client|setname +client|kill +script|kill "
    "resetchannels &__sentinel__:hello"
)


@pytest.fixture
def start_watched(oracle_tools: Path, tmp_path: Path) -> Iterator[StartWatched]:
    """Starts servers for Sentinels to watch."""
    yield from start_all(tmp_path)


def fill(wire: Wire) -> None:
    """A stream with a group that has pending and released entries."""
    for number in range(1, 6):
        wire.call("XADD", "s", f"{number}-1", "f", "v")
    wire.call("XGROUP", "CREATE", "s", "g", 0)
    wire.call("XREADGROUP", "GROUP", "g", "ann", "COUNT", 3, "STREAMS", "s", ">")
    wire.call("XNACK", "s", "g", "FAIL", "IDS", 1, "2-1")


def pending(wire: Wire) -> list[list[bytes]]:
    """The pending entries with their owners and counts, without idle times."""
    return [[row[0], row[1], row[3]] for row in wire.ask("XPENDING", "s", "g", "-", "+", 10)]


def keeps_its_primary(node: Member, primary: Member) -> bool:
    """Whether the configuration file has the primary that it follows."""
    lines = node.path.read_text().splitlines()
    return f"replicaof 127.0.0.1 {primary.port}" in lines


def check_failover(watched: Watched, how: Lost) -> Member:
    """Lose the primary, and let it come back. Returns the new one."""
    sentinels = watched.watch()
    with watched.primary.connect() as above:
        fill(above)
        was_pending = pending(above)
        settle(above, *(replica.connect() for replica in watched.replicas))
        assert sentinels.facts()[b"runid"].decode() == field(above, "run_id", "server")
    watched.lose(how)
    promoted = watched.await_failover()
    (other,) = (replica for replica in watched.replicas if replica is not promoted)
    watched.await_follower(other, promoted)
    with promoted.connect() as above, other.connect() as below:
        assert field(above, "role") == "master"
        assert pending(above) == was_pending
        assert above.call("XADD", "s", "9-1", "f", "v") == b"$3\r\n9-1\r\n"
        settle(above, below)
        assert field(above, "sync_full", "stats") == "0", "the other replica continues"
    watched.bring_back(how)
    watched.await_follower(watched.primary, promoted)
    with promoted.connect() as above, other.connect() as below, watched.primary.connect() as former:
        settle(above, below, former)
        assert above.ask("DEBUG", "DIGEST") == below.ask("DEBUG", "DIGEST") == former.ask("DEBUG", "DIGEST")
        assert pending(above) == pending(below) == pending(former)
        assert former.call("XADD", "s", "*", "f", "v").startswith(b"-READONLY")
    for node in (other, watched.primary):
        until(lambda: keeps_its_primary(node, promoted), "the file lacks the new primary")  # noqa: B023
    assert "replicaof" not in promoted.path.read_text().replace("\n# ", "")
    return promoted


@pytest.mark.parametrize("how", Lost, ids=lambda how: how.name)
def test_a_replica_is_promoted_and_the_former_primary_follows_it(start_watched: StartWatched, how: Lost) -> None:
    check_failover(start_watched(THREE), how)


def test_a_redis_is_promoted_in_place_of_a_headrace(start_watched: StartWatched) -> None:
    watched = start_watched(("headrace", "oracle", "headrace"), ((), ("replica-priority 1",), ()))
    assert check_failover(watched, Lost.KILLED).name == "oracle"


def test_a_headrace_is_promoted_in_place_of_a_redis(start_watched: StartWatched) -> None:
    watched = start_watched(("oracle", "headrace", "oracle"), ((), ("replica-priority 1",), ()))
    assert check_failover(watched, Lost.KILLED).name == "headrace"


def test_a_former_primary_that_restarts_alone_stays_a_replica(start_watched: StartWatched) -> None:
    """What CONFIG REWRITE wrote holds also without a Sentinel."""
    watched = start_watched(THREE)
    promoted = check_failover(watched, Lost.STOPPED)
    assert watched.sentinels is not None
    watched.sentinels.stop()
    watched.primary.stop()
    watched.primary.start(watched.primary.port)
    watched.await_follower(watched.primary, promoted)


def test_sentinels_need_no_more_than_their_user_may(start_watched: StartWatched) -> None:
    """The servers have passwords, and the Sentinels' user has the rights of the documentation."""
    page = (ROOT / "docs" / "high-availability.md").read_text("utf-8")
    assert f"user {USER} on >s-password {RULES}" in page
    assert "user replica on >r-password +psync +replconf +ping" in page
    secured = (
        "requirepass p-secret",
        f"user {USER} on >s-secret {RULES}",
        "user replica on >r-secret +psync +replconf +ping",
        "masteruser replica",
        "masterauth r-secret",
    )
    lines = (f"sentinel auth-user orders {USER}", "sentinel auth-pass orders s-secret")
    watched = start_watched(THREE, (secured, secured, secured), lines=lines)
    check_failover(watched, Lost.KILLED)
    with watched.replicas[0].connect() as wire:
        assert wire.ask("ACL", "LOG") == []


def test_servers_and_sentinels_use_tls_alone(start_watched: StartWatched, tmp_path: Path) -> None:
    """With the lines of the documentation, so that each connection shows a certificate."""
    watched = start_watched(THREE, secured=Secured(tmp_path))
    check_failover(watched, Lost.KILLED)
    for node in watched.nodes:
        with node.connect() as wire:
            assert wire.ask("CONFIG", "GET", "port") == [b"port", b"0"]
            assert wire.ask("CONFIG", "GET", "tls-auth-clients") == [b"tls-auth-clients", b"yes"]


def test_a_failover_by_hand_closes_clients_of_the_former_primary(start_watched: StartWatched) -> None:
    watched = start_watched(THREE)
    sentinels = watched.watch()
    reader, idle = watched.primary.connect(), watched.primary.connect()
    assert idle.call("PING") == b"+PONG\r\n"
    reader.call("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
    reader.send("XREADGROUP", "GROUP", "g", "ann", "BLOCK", 0, "STREAMS", "s", ">")
    assert sentinels.wires[0].call("SENTINEL", "FAILOVER", "orders") == b"+OK\r\n"
    promoted = watched.await_failover()
    watched.await_follower(watched.primary, promoted)
    reader.socket.settimeout(FAILOVER_DEADLINE_S)
    assert reader.wait_for_close() == idle.wait_for_close() == b""


def test_what_a_replica_announces_decides_whether_it_is_chosen(start_watched: StartWatched) -> None:
    watched = start_watched(THREE, ((), ("replica-priority 0",), ("replica-priority 0", "replica-announced no")))
    sentinels = watched.watch()
    (row,) = sentinels.replicas()
    assert (row[b"slave-priority"], row[b"port"]) == (b"0", b"%d" % watched.replicas[0].port)
    reply = sentinels.wires[0].call("SENTINEL", "FAILOVER", "orders")
    assert reply == b"-NOGOODSLAVE No suitable replica to promote\r\n"


def test_a_script_that_does_not_end_costs_no_failover(start_watched: StartWatched) -> None:
    """The server ends it before a Sentinel could send SCRIPT KILL, which has nothing to end then."""
    watched = start_watched(THREE, ((("busy-reply-threshold 300",),) * 3))
    sentinels = watched.watch()
    with watched.primary.connect() as wire:
        assert b"it ran for more than 300 ms" in wire.call("EVAL", "while true do end", 0)
        assert wire.call("SCRIPT", "KILL").startswith(b"-NOTBUSY")
    assert sentinels.primary_port() == watched.link.port
    assert "+sdown master" not in sentinels.log_text()
