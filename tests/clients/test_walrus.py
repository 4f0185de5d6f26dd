"""walrus: consumer groups over several streams, and its time series."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.clients import require_client
from support.servers import Server

walrus = require_client("walrus")


@pytest.fixture
def database(server: Server) -> Iterator[walrus.Database]:
    """walrus' client. It reads replies in the shapes of RESP2."""
    with walrus.Database(port=server.port, protocol=2) as connected:
        yield connected


def test_a_group_reads_several_streams_and_acknowledges(database: walrus.Database) -> None:
    group = database.consumer_group("g", ["orders", "returns"], consumer="ann")
    group.create()
    group.set_id("$")
    order = database.Stream("orders").add({"item": "tea"})
    back = database.Stream("returns").add({"item": "rum"})
    assert sorted(group.read()) == [
        [b"orders", [(order, {b"item": b"tea"})]],
        [b"returns", [(back, {b"item": b"rum"})]],
    ]
    assert group.orders.ack(order) == 1
    assert [len(stream.pending()) for stream in (group.orders, group.returns)] == [0, 1]


def test_what_one_consumer_left_another_claims(database: walrus.Database) -> None:
    ann = database.consumer_group("g", ["orders"], consumer="ann")
    ann.create()
    ann.set_id("$")
    orders = database.Stream("orders")
    ids = [orders.add({"item": item}) for item in ("tea", "rum")]
    assert len(ann.orders.read()) == 2
    bob = ann.consumer("bob")
    assert bob.orders.claim(ids[0]) == [(ids[0], {b"item": b"tea"})]
    assert [(row["message_id"], row["consumer"]) for row in ann.orders.pending()] == [
        (ids[0], b"bob"),
        (ids[1], b"ann"),
    ]
    cursor, claimed, *_ = bob.orders.autoclaim("bob", 0)
    assert (cursor, [entry[0] for entry in claimed]) == (b"0-0", ids)
    assert {row["name"]: row["pending"] for row in bob.orders.consumers_info()} == {b"ann": 0, b"bob": 2}


def test_a_stream_is_a_container_of_entries(database: walrus.Database) -> None:
    orders = database.Stream("orders")
    ids = [orders.add({"number": number}, id=f"{number}-0") for number in range(1, 5)]
    assert len(orders) == 4
    assert [entry[0] for entry in orders["2-0":"3-0"]] == ids[1:3]
    assert orders.get("4-0") == (b"4-0", {b"number": b"4"})
    del orders["1-0"]
    assert orders.trim(2, approximate=False) == 1
    assert orders.info()["length"] == 2


def test_a_time_series_reads_by_time(database: walrus.Database) -> None:
    series = database.time_series("g", ["events"])
    series.create()
    series.set_id("$")
    series.events.add({"kind": "login"}, id="1700000000000-0")
    (message,) = series.read()
    assert (message.stream, message.data, message.message_id) == ("events", {"kind": "login"}, "1700000000000-0")
    assert series.events.ack(message) == 1
    assert [found.data for found in series.events.range(message.timestamp, message.timestamp)] == [{"kind": "login"}]


def test_containers_of_other_types_keep_what_is_put_into_them(database: walrus.Database) -> None:
    tasks = database.List("tasks")
    tasks.extend(["a", "b", "c"])
    tasks.prepend("z")
    assert [*tasks[:]] == [b"z", b"a", b"b", b"c"]
    assert (tasks.pop(), tasks.popleft()) == (b"c", b"z")
    tags = database.Set("tags")
    tags.add("red", "blue")
    assert "red" in tags
    scores = database.ZSet("scores")
    scores.add({"ann": 3, "bob": 1, "eve": 2})
    assert [member for member, _ in scores.range(0, -1, with_scores=True)] == [b"bob", b"eve", b"ann"]
    user = database.Hash("user")
    user.update(name="ann", age=7)
    assert user.as_dict() == {b"name": b"ann", b"age": b"7"}


def test_a_lock_is_taken_and_released(database: walrus.Database) -> None:
    lock, other = (database.lock("packing", ttl=60_000) for _ in range(2))
    assert lock.acquire(block=False)
    assert not other.acquire(block=False)
    lock.release()
    assert other.acquire(block=False)
