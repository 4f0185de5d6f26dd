"""Keys that clients let expire on a writable replica."""

from __future__ import annotations

import pytest

from support.inprocess import Rig


@pytest.fixture
def rig() -> Rig:
    rig = Rig(replica_read_only=False)
    rig.server.following.follow(b"127.0.0.1", 1)
    return rig


def pass_time(rig: Rig, ms: int) -> None:
    rig.pass_time(ms)
    rig.server._expire(rig.clock())


def test_only_keys_of_clients_expire_and_they_are_logged(rig):
    client = rig.connect()
    rig.server.store.databases[0].put(b"theirs", b"v")
    rig.server.store.databases[0].expires[b"theirs"] = rig.clock() + 10
    client.call("SET own v PX 10", "SELECT 2", "SET other v PX 10")
    rig.log.units.clear()
    pass_time(rig, 11)
    assert client.call("DBSIZE", "SELECT 0", "DBSIZE") == b":0\r\n+OK\r\n:1\r\n"
    assert rig.log.units == [[b"DEL own"], [b"DEL other"]]
    assert rig.server.stats.expired_keys == 2


def test_a_new_expiry_time_counts(rig):
    client = rig.connect()
    client.call("SET own v PX 10", "PEXPIRE own 100")
    pass_time(rig, 11)
    assert client.call("DBSIZE") == b":1\r\n"
    pass_time(rig, 90)
    assert client.call("DBSIZE") == b":0\r\n"


@pytest.mark.parametrize("line", ["PERSIST own", "DEL own", "SET own v"])
def test_a_key_without_an_expiry_time_is_forgotten(rig, line):
    client = rig.connect()
    client.call("SET own v PX 10", line)
    pass_time(rig, 0)
    assert not len(rig.server.context.own_keys)


def test_reads_keep_the_fast_path_and_remove_nothing(rig):
    client = rig.connect()
    client.call("SET own v PX 10", "GET own")
    assert client.client.rows
    rig.pass_time(11)
    assert client.call("GET own", "EXISTS own", "DBSIZE") == b"$-1\r\n:0\r\n:1\r\n"


def test_after_a_promotion_all_keys_expire_alike(rig):
    client = rig.connect()
    client.call("SET own v PX 10")
    rig.server.following.promote()
    assert not len(rig.server.context.own_keys)
    client.call("SET another v PX 10")
    assert not len(rig.server.context.own_keys)
    pass_time(rig, 11)
    assert client.call("DBSIZE") == b":0\r\n"


def test_many_keys_are_looked_at_in_turn(rig):
    client = rig.connect()
    client.call(*[f"SET k{number} v PX {10 if number % 2 else 1000}" for number in range(100)])
    rig.clock.advance(11)
    own_keys = rig.server.context.own_keys
    for _ in range(100):
        own_keys.expire(rig.clock(), lambda: True)
    assert len(own_keys) == 50
