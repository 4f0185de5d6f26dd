"""The life of an entry that was delivered and not acknowledged, told as its users tell it."""

from __future__ import annotations

import pytest

from support.replies import Node
from support.servers import Server
from support.wire import Wire

DELIVERY_COUNT_MAX = 2**63 - 1


def deliver_orders(wire: Wire) -> None:
    """Ten orders; consumer A reads six of them, and then disappears."""
    wire.call("XGROUP", "CREATE", "orders", "workers", "$", "MKSTREAM")
    for number in range(1, 11):
        wire.call("XADD", "orders", f"{number}-0", "order", number)
    wire.call("XREADGROUP", "GROUP", "workers", "A", "COUNT", 6, "STREAMS", "orders", ">")


def ids(entries: list) -> list[bytes]:
    """The IDs of entries or of pending rows."""
    return [entry[0] for entry in entries]


def test_what_a_dead_consumer_left_is_found_claimed_and_finished(server: Server) -> None:
    with server.connect() as a:
        deliver_orders(a)
    with server.connect() as b:
        total, first, last, owners = b.ask("XPENDING", "orders", "workers")
        assert (total, first, last, owners) == (6, b"1-0", b"6-0", [[b"A", b"6"]])
        rows = b.ask("XPENDING", "orders", "workers", "-", "+", 10, "A")
        assert [(row[0], row[3]) for row in rows] == [(b"%d-0" % number, 1) for number in range(1, 7)]

        claimed = b.ask("XCLAIM", "orders", "workers", "B", 0, "1-0", "2-0")
        assert ids(claimed) == [b"1-0", b"2-0"]
        cursor, entries, deleted = b.ask("XAUTOCLAIM", "orders", "workers", "B", 0, "3-0", "COUNT", 3)
        assert (cursor, ids(entries), deleted) == (b"6-0", [b"3-0", b"4-0", b"5-0"], [])
        cursor, entries, deleted = b.ask("XAUTOCLAIM", "orders", "workers", "B", 0, cursor, "COUNT", 3)
        assert (cursor, ids(entries), deleted) == (b"0-0", [b"6-0"], [])

        rows = b.ask("XPENDING", "orders", "workers", "-", "+", 10)
        assert {row[1] for row in rows} == {b"B"}
        assert {row[3] for row in rows} == {2}
        assert b.ask("XACK", "orders", "workers", *ids(rows)) == 6
        assert b.ask("XPENDING", "orders", "workers")[0] == 0


def test_an_entry_that_is_not_idle_long_enough_stays_with_its_consumer(server: Server) -> None:
    with server.connect() as wire:
        deliver_orders(wire)
        assert wire.ask("XCLAIM", "orders", "workers", "B", 3_600_000, "1-0") == []
        assert wire.ask("XAUTOCLAIM", "orders", "workers", "B", 3_600_000, "0") == [b"0-0", [], []]
        assert {row[1] for row in wire.ask("XPENDING", "orders", "workers", "-", "+", 10)} == {b"A"}


def test_a_poison_entry_is_marked_and_found_by_its_count(server: Server) -> None:
    with server.connect() as wire:
        deliver_orders(wire)
        assert wire.ask("XNACK", "orders", "workers", "FATAL", "IDS", 1, "3-0") == 1
        assert wire.ask("XNACK", "orders", "workers", "FAIL", "IDS", 1, "4-0") == 1

        # Released entries are claimable at once, the one released first comes first.
        read = ["XREADGROUP", "GROUP", "workers", "B", "COUNT", 2, "CLAIM", 3_600_000, "STREAMS", "orders", ">"]
        ((_, entries),) = wire.ask(*read)
        assert [(entry[0], entry[3]) for entry in entries] == [(b"3-0", DELIVERY_COUNT_MAX), (b"4-0", 1)]

        # The count does not wrap, so a reader of the counts recognises the poison entry and removes it.
        rows = wire.ask("XPENDING", "orders", "workers", "-", "+", 10)
        poison = [row[0] for row in rows if row[3] == DELIVERY_COUNT_MAX]
        assert poison == [b"3-0"]
        ((_, fields),) = wire.ask("XRANGE", "orders", "3-0", "3-0")
        wire.call("XADD", "orders:dead", "*", *fields)
        assert wire.ask("XACKDEL", "orders", "workers", "IDS", 1, "3-0") == [1]
        assert wire.ask("XLEN", "orders") == 9
        assert wire.ask("XLEN", "orders:dead") == 1


def test_work_given_back_in_good_order_does_not_count_as_an_attempt(server: Server) -> None:
    with server.connect() as wire:
        deliver_orders(wire)
        rows = wire.ask("XPENDING", "orders", "workers", "-", "+", 10, "A")
        assert wire.ask("XNACK", "orders", "workers", "SILENT", "IDS", 6, *ids(rows)) == 6
        rows = wire.ask("XPENDING", "orders", "workers", "-", "+", 10)
        assert [row[1:] for row in rows] == [[b"", -1, 0]] * 6


def pending_state(wire: Wire) -> dict[str, object]:
    """Everything about pending entries that must outlive a restart: owners, counts and absolute delivery times."""
    full = wire.ask("XINFO", "STREAM", "orders", "FULL", "COUNT", 0)
    (group,) = full[b"groups"]
    assert not isinstance(group, Node)
    return {
        "entries": full[b"entries"],
        "last delivered": group[b"last-delivered-id"],
        "entries read": group[b"entries-read"],
        "lag": group[b"lag"],
        "pending": group[b"pending"],
        "released": group[b"nacked-count"],
        "consumers": [(consumer[b"name"], consumer[b"pending"]) for consumer in group[b"consumers"]],
        "summary": wire.ask("XPENDING", "orders", "workers"),
        "rows": [[row[0], row[1], row[3]] for row in wire.ask("XPENDING", "orders", "workers", "-", "+", 100)],
    }


def make_pending_entries_of_every_kind(wire: Wire) -> None:
    """New, claimed, counted up, released and marked ones, and a consumer with nothing."""
    deliver_orders(wire)
    wire.call("XCLAIM", "orders", "workers", "B", 0, "1-0", "IDLE", 60_000)
    wire.call("XCLAIM", "orders", "workers", "B", 0, "2-0", "RETRYCOUNT", 7)
    wire.call("XAUTOCLAIM", "orders", "workers", "C", 0, "3-0", "COUNT", 1)
    wire.call("XNACK", "orders", "workers", "FAIL", "IDS", 1, "4-0")
    wire.call("XNACK", "orders", "workers", "FATAL", "IDS", 1, "5-0")
    wire.call("XREADGROUP", "GROUP", "workers", "D", "COUNT", 1, "STREAMS", "orders", ">")
    wire.call("XGROUP", "CREATECONSUMER", "orders", "workers", "idle")
    wire.call("XACK", "orders", "workers", "6-0")


@pytest.mark.parametrize("name", ["headrace", pytest.param("oracle", marks=pytest.mark.oracle)])
def test_the_pending_list_outlives_a_restart(name: str, start_server) -> None:
    server = start_server(name, "--appendonly", "yes", "--appendfsync", "always")
    with server.connect(3) as wire:
        make_pending_entries_of_every_kind(wire)
        before = pending_state(wire)
    server.restart()
    with server.connect(3) as wire:
        assert pending_state(wire) == before


@pytest.mark.parametrize("name", ["headrace", pytest.param("oracle", marks=pytest.mark.oracle)])
def test_the_pending_list_outlives_a_crash(name: str, start_server) -> None:
    server = start_server(name, "--appendonly", "yes", "--appendfsync", "always")
    with server.connect(3) as wire:
        make_pending_entries_of_every_kind(wire)
        before = pending_state(wire)
    server.kill()
    server.start()
    with server.connect(3) as wire:
        assert pending_state(wire) == before
