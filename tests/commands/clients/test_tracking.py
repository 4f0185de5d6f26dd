"""Client-side caching: which keys the server remembers, for which clients, and how many."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from headrace.commands.connections.tracking_commands import require_apart
from headrace.commands.core.table import TABLE
from headrace.store.errors import GenericError
from support.inprocess import Caller, Rig, running_server
from support.lines import split
from support.servers import Server
from support.wire import encode


def invalidate(*keys: bytes) -> bytes:
    """The RESP3 message that names these keys."""
    named = b"".join(b"$%d\r\n%b\r\n" % (len(key), key) for key in keys)
    return b">2\r\n$10\r\ninvalidate\r\n*%d\r\n%b" % (len(keys), named)


# The message that invalidates all keys.
VOID = b">2\r\n$10\r\ninvalidate\r\n_\r\n"


@pytest.fixture
def rig() -> Rig:
    return Rig()


def tracked(rig: Rig, options: str = "") -> Caller:
    """A RESP3 client that is tracked."""
    caller = rig.connect()
    caller.call("HELLO 3", f"CLIENT TRACKING ON {options}")
    return caller


def test_a_key_that_was_read_is_invalidated_once(rig: Rig) -> None:
    cache, writer = tracked(rig), rig.connect()
    cache.call("GET k")
    writer.call("SET k 1", "SET k 2")
    assert cache.output() == invalidate(b"k")


def test_expiry_is_a_change(rig: Rig) -> None:
    cache, writer = tracked(rig), rig.connect()
    writer.call("SET k 1 PX 10")
    cache.call("GET k")
    rig.clock.advance(20)
    rig.server.expiry.run(rig.clock())
    assert cache.output() == invalidate(b"k")


def test_a_flush_makes_everything_void(rig: Rig) -> None:
    cache, writer = tracked(rig), rig.connect()
    cache.call("GET k")
    writer.call("FLUSHALL")
    assert cache.output() == VOID
    assert not rig.server.context.tracking.table


@pytest.mark.parametrize("receiver", [2, 3])
@pytest.mark.parametrize(("protocol", "null"), [(2, b"$-1\r\n"), (3, b"_\r\n")])
def test_a_redirected_flush_has_the_null_of_the_tracked_client(
    receiver: int, protocol: int, null: bytes, rig: Rig
) -> None:
    """Redis 8.10 ignores the protocol of the receiver."""
    hearer, cache = rig.connect(), rig.connect()
    hearer.call("SUBSCRIBE __redis__:invalidate" if receiver == 2 else "HELLO 3")
    cache.call(f"HELLO {protocol}", f"CLIENT TRACKING ON REDIRECT {hearer.client.id}")
    rig.connect().call("FLUSHALL")
    head = (
        b"*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n" if receiver == 2 else b">2\r\n$10\r\ninvalidate\r\n"
    )
    assert hearer.output() == head + null


@pytest.mark.parametrize(
    ("lines", "heard"),
    [
        (["FLUSHDB", "FLUSHALL SYNC"], 2 * (VOID + b"+OK\r\n")),
        (["FLUSHDB ASYNC"], b"+OK\r\n" + VOID),
        (["GET k", "SET k 1", "FLUSHALL"], b"_\r\n+OK\r\n" + invalidate(b"k") + VOID + b"+OK\r\n"),
        (["MULTI", "FLUSHDB", "EXEC"], b"+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n" + VOID),
        (["EVAL \"return redis.call('flushdb')\" 0"], b"+OK\r\n" + VOID),
    ],
)
def test_a_client_that_flushes_and_waits_gets_the_invalidation_before_the_reply(
    lines: list[str], heard: bytes, server: Server
) -> None:
    """Redis flushes in a thread and replies at its end, except where no client may wait."""
    with server.connect(3) as wire:
        assert wire.call("CLIENT", "TRACKING", "ON") == b"+OK\r\n"
        wire.send_bytes(b"".join(encode(split(line)) for line in [*lines, "ECHO end"]))
        received = b""
        while not received.endswith(b"end\r\n"):
            received += wire.receive()
        assert received == heard + b"$3\r\nend\r\n"


def test_a_writer_gets_the_redirected_invalidation_of_a_reader_after_its_reply(rig: Rig) -> None:
    hearer, cache = rig.connect(), rig.connect()
    hearer.call("HELLO 3")
    for _ in range(2):
        cache.call(f"CLIENT TRACKING ON REDIRECT {hearer.client.id}", "GET k")
        assert not hearer.client.is_plain
        assert hearer.call("SET k 1", "SET k 2") == b"+OK\r\n" + invalidate(b"k") + b"+OK\r\n"
    cache.call("CLIENT TRACKING OFF")
    assert not rig.server.context.tracking.receivers
    assert hearer.client.is_plain


def test_a_client_that_flushes_gets_redirected_messages_before_its_reply(rig: Rig) -> None:
    hearer, cache = tracked(rig), rig.connect()
    cache.call(f"CLIENT TRACKING ON REDIRECT {hearer.client.id}")
    redirected = VOID.replace(b"_", b"$-1")
    assert hearer.call("FLUSHALL") == redirected + VOID + b"+OK\r\n"


def test_a_flush_brings_the_broadcasts_of_its_turn_before_the_reply(rig: Rig) -> None:
    cache = tracked(rig, "BCAST")
    assert cache.call("SET k 1", "FLUSHDB") == b"+OK\r\n" + VOID + invalidate(b"k") + b"+OK\r\n"


def test_own_changes_are_sent_after_the_reply_unless_noloop_is_set(rig: Rig) -> None:
    cache, deaf = tracked(rig), tracked(rig, "NOLOOP")
    assert cache.call("GET k", "SET k 1") == b"_\r\n+OK\r\n" + invalidate(b"k")
    assert deaf.call("GET k", "SET k 1") == b"$1\r\n1\r\n+OK\r\n"


def test_beyond_the_limit_the_oldest_key_is_dropped(rig: Rig) -> None:
    rig.config.tracking_table_max_keys = 2
    cache = tracked(rig)
    cache.call("MGET a b c")
    tracking = rig.server.context.tracking
    assert list(tracking.table) == [b"b", b"c"]
    assert tracking.items_count == 2
    assert tracking.keys_size == 2


def test_a_lower_limit_drops_the_oldest_keys_at_once(rig: Rig) -> None:
    cache = tracked(rig)
    cache.call("MGET a b c")
    rig.connect().call("CONFIG SET tracking-table-max-keys 1")
    assert list(rig.server.context.tracking.table) == [b"c"]
    assert cache.output() == invalidate(b"a") + invalidate(b"b")


@pytest.mark.parametrize("forgetting", [("SET a 1", "SET b 1"), ("FLUSHALL",)])
def test_what_was_read_is_remembered_until_it_changes_even_if_no_client_is_tracked(
    forgetting: tuple[str, ...], rig: Rig
) -> None:
    first, second, other = tracked(rig), tracked(rig, "BCAST PREFIX a"), rig.connect()
    first.call("MGET a b")
    second.call("RESET")
    rig.dispatcher.detach(first.session)
    tracking = rig.server.context.tracking
    assert (tracking.clients, list(tracking.table), tracking.broadcasts) == ({}, [b"a", b"b"], {})
    assert all(db.is_observed for db in rig.server.store.databases)
    other.call(*forgetting)
    assert (tracking.table, tracking.memory_size) == ({}, 0)
    assert not any(db.is_observed for db in rig.server.store.databases)
    assert second.client.is_plain


@pytest.mark.parametrize("change", ["SET k 1", "FLUSHALL"])
@pytest.mark.parametrize("mode", ["", "BCAST", "REDIRECT"])
def test_a_client_that_ends_tracking_in_a_transaction_gets_its_changes_before_that(
    mode: str, change: str, rig: Rig
) -> None:
    hearer = tracked(rig)
    cache = tracked(rig, f"REDIRECT {hearer.client.id}" if mode == "REDIRECT" else mode)
    queued = cache.call("GET k", "MULTI", change, "CLIENT TRACKING OFF")
    assert queued == b"_\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n"
    flushed = change == "FLUSHALL"
    hearer.output()
    told = VOID if flushed else invalidate(b"k")
    own = b"" if mode == "REDIRECT" or (mode == "BCAST" and not flushed) else told
    assert cache.call("EXEC", "SET k 2") == b"*2\r\n+OK\r\n+OK\r\n" + own + b"+OK\r\n"
    # The receiver is tracked itself: it gets its own message about a flush before the redirected one.
    assert hearer.output() == (VOID if flushed else b"") + (told if mode == "REDIRECT" else b"")


def test_a_caching_word_outlives_client_commands_by_whatever_name(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TABLE, b"KLI", TABLE[b"CLIENT"])
    cache = tracked(rig, "OPTIN")
    cache.call("KLI CACHING YES", "KLI ID", "GET a", "GET b")
    assert list(rig.server.context.tracking.table) == [b"a"]


def test_a_closed_reader_gets_no_message(rig: Rig) -> None:
    gone, cache, writer = tracked(rig), tracked(rig), rig.connect()
    gone.call("GET k")
    cache.call("GET k")
    rig.dispatcher.detach(gone.session)
    writer.call("SET k 1")
    assert cache.output() == invalidate(b"k")
    assert gone.output() == b""


def test_it_is_counted_and_shown(rig: Rig) -> None:
    cache, other = tracked(rig), tracked(rig, "BCAST PREFIX a PREFIX b")
    cache.call("MGET a b")
    lines = other.call("INFO everything").split(b"\r\n")
    assert b"tracking_clients:2" in lines
    assert b"tracking_total_keys:2" in lines
    assert b"tracking_total_items:2" in lines
    assert b"tracking_total_prefixes:2" in lines
    shown = other.call("CLIENT LIST").split(b"\n")
    assert b" flags=t " in shown[1]
    assert b" redir=0 " in shown[1]
    assert b" flags=tB " in shown[2]


def test_a_broken_redirection_shows(rig: Rig) -> None:
    target, cache, writer = rig.connect(), rig.connect(), rig.connect()
    cache.call("HELLO 3", f"CLIENT TRACKING ON REDIRECT {target.client.id}", "GET k")
    rig.dispatcher.detach(target.session)
    writer.call("SET k 1")
    assert cache.output() == b">2\r\n$21\r\ntracking-redir-broken\r\n:%d\r\n" % target.client.id
    assert b" flags=tR " in writer.call("CLIENT LIST")


async def test_keys_that_change_in_one_turn_are_broadcast_together() -> None:
    async with running_server() as running:
        cache, writer = await running.connect(), await running.connect()
        cache.send("HELLO", 3)
        cache.send("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "k")
        while await cache.line() != b"+OK\r\n":
            continue
        writer.send("SET", "k2", "v")
        writer.send("SET", "other", "v")
        writer.send("SET", "k1", "v")
        await writer.expect(b"+OK\r\n" * 3)
        await cache.expect(invalidate(b"k1", b"k2"))


async def test_a_client_that_is_served_runs_what_it_sent_before_it_gets_broadcasts() -> None:
    async with running_server() as running:
        cache, writer = await running.connect(), await running.connect()
        cache.send("HELLO", 3)
        cache.send("CLIENT", "TRACKING", "ON", "BCAST")
        while await cache.line() != b"+OK\r\n":
            continue
        cache.writer.write(encode(("BLPOP", "l", 0)) + encode(("PING",)))
        while running.server.blocked_count == 0:
            await asyncio.sleep(0)
        writer.send("RPUSH", "l", "v")
        await cache.expect(b"*2\r\n$1\r\nl\r\n$1\r\nv\r\n" + b"+PONG\r\n" + invalidate(b"l"))


def test_the_error_names_the_first_prefix_that_overlaps_and_the_first_it_overlaps_with() -> None:
    rnd = Random(8)
    for _ in range(3000):
        given, present = (
            [bytes(rnd.choices(b"ab", k=rnd.randint(0, 6))) for _ in range(rnd.randint(0, 6))] for _ in range(2)
        )
        pairs = [
            (index, prefix, kind, other)
            for index, prefix in enumerate(given)
            for kind, others in ((b"an existing", sorted(present)), (b"another provided", given[index + 1 :]))
            for other in others
            if prefix.startswith(other) or other.startswith(prefix)
        ]
        if not pairs:
            require_apart(given, sorted(present))
            continue
        _, prefix, kind, other = pairs[0]
        with pytest.raises(GenericError) as raised:
            require_apart(given, sorted(present))
        assert b"Prefix '%b' overlaps with %b prefix '%b'." % (prefix, kind, other) in raised.value.wire_text


def test_a_change_is_sent_to_the_clients_of_each_prefix_of_its_key(rig: Rig) -> None:
    """Prefixes are added and removed, and a change is looked up by their lengths."""
    first, second, writer = (rig.connect() for _ in range(3))
    first.call("HELLO 3", "CLIENT TRACKING ON BCAST PREFIX a PREFIX bcd")
    second.call("HELLO 3", "CLIENT TRACKING ON BCAST PREFIX ab PREFIX ''")
    assert b"overlaps" in second.call("CLIENT TRACKING ON BCAST PREFIX ab PREFIX ''")
    second.call("CLIENT TRACKING ON BCAST PREFIX ab")
    writer.call("SET abc 1", "SET bc 1", "SET bcd 1", "SET a 1")
    rig.server.context.tracking.send_broadcasts()
    assert first.output() == invalidate(b"a", b"abc") + invalidate(b"bcd")
    assert second.output() == invalidate(b"abc")
    second.call("CLIENT TRACKING OFF")
    writer.call("SET abc 1")
    first.call("CLIENT TRACKING OFF")
    rig.server.context.tracking.send_broadcasts()
    assert not rig.server.context.tracking.broadcasts
    first.call("CLIENT TRACKING ON BCAST PREFIX abc")
    writer.call("SET abc 1", "SET ab 1")
    rig.server.context.tracking.send_broadcasts()
    assert first.output() == invalidate(b"abc")
