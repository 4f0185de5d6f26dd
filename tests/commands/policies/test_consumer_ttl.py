"""CONSUMER-TTL: a consumer that is absent for too long is deleted. Redis does not have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.logging_server import LoggingServer
from support.policy_scene import Scene, ids

TTL = "CONSUMER-TTL 1000"


def names(scene: Scene) -> list[bytes]:
    return sorted(scene.stream.groups[b"g"].consumers)


def test_consumer_without_connection_is_deleted_when_its_time_is_over() -> None:
    scene = Scene(TTL)
    scene.read(scene.bob, "bob")
    scene.bob.session.close()
    scene.rig.pass_time(999)
    assert names(scene) == [b"bob"]
    scene.rig.pass_time(1)
    assert names(scene) == []
    assert scene.report()[b"consumers-expired"] == 1
    scene.check()


def test_what_it_has_pending_is_released_first_and_all_of_it_is_logged() -> None:
    scene = Scene(TTL)
    scene.read(scene.bob, "bob")
    scene.bob.session.close()
    scene.rig.log.units.clear()
    scene.rig.pass_time(1000)
    assert scene.pending() == [(b"1-0", b"", 1), (b"2-0", b"", 1)]
    assert scene.rig.log.units == [
        [b"XNACK s g SILENT IDS 2 1-0 2-0 RETRYCOUNT 1", b"XGROUP DELCONSUMER s g bob"],
    ]


def test_reader_that_waits_gets_what_is_released() -> None:
    scene = Scene(f"{TTL} REDELIVER 60000")
    scene.read(scene.bob, "bob")
    assert scene.alice.call("XREADGROUP GROUP g alice BLOCK 0 STREAMS s >") == b""
    scene.bob.session.close()
    scene.rig.pass_time(1000)
    assert ids(scene.alice.output()) == [b"1-0", b"2-0"]


@pytest.mark.parametrize("line", ["XREADGROUP GROUP g bob BLOCK 0 STREAMS s >", "XGROUP CREATECONSUMER s g bob"])
def test_consumer_whose_connection_is_open_stays_however_long_it_is_silent(line: str) -> None:
    scene = Scene(TTL, count=0)
    scene.bob.call(line)
    for _ in range(5):
        scene.rig.pass_time(1000)
    assert names(scene) == [b"bob"]


def test_absence_begins_when_the_connection_is_closed() -> None:
    scene = Scene(TTL, count=0)
    scene.bob.call("XREADGROUP GROUP g bob BLOCK 0 STREAMS s >")
    scene.rig.pass_time(1700)
    scene.bob.session.close()
    scene.rig.pass_time(999)
    assert names(scene) == [b"bob"]
    scene.rig.pass_time(1)
    assert names(scene) == []


@pytest.mark.parametrize("is_first_user_first", [True, False])
def test_all_connections_that_used_the_consumer_must_be_closed(*, is_first_user_first: bool) -> None:
    scene = Scene(TTL)
    users = [scene.bob, scene.rig.connect()]
    for user in users:
        scene.read(user, "worker", "COUNT 1")
    if not is_first_user_first:
        users.reverse()
    users[0].session.close()
    scene.rig.pass_time(5000)
    assert names(scene) == [b"worker"]
    users[1].session.close()
    scene.rig.pass_time(999)
    assert names(scene) == [b"worker"]
    scene.rig.pass_time(1)
    assert names(scene) == []


def test_connection_counts_that_was_given_nothing() -> None:
    scene = Scene(TTL)
    reader = scene.rig.connect()
    scene.read(reader, "bob")
    assert scene.read(scene.bob, "bob") == []
    reader.session.close()
    scene.rig.pass_time(5000)
    assert names(scene) == [b"bob"]


def test_consumer_stays_that_waits_when_the_setting_comes() -> None:
    scene = Scene(count=0)
    scene.bob.call("XREADGROUP GROUP g bob BLOCK 0 STREAMS s >")
    scene.rig.pass_time(500)
    scene.alice.call(f"XGROUP CONFIG s g {TTL}")
    for _ in range(5):
        scene.rig.pass_time(1000)
    assert names(scene) == [b"bob"]


def test_consumer_that_comes_back_in_time_stays() -> None:
    scene = Scene(TTL)
    scene.read(scene.bob, "bob")
    scene.bob.session.close()
    scene.rig.pass_time(900)
    scene.read(scene.alice, "bob")
    scene.rig.pass_time(900)
    assert names(scene) == [b"bob"]


def test_claims_are_uses_too() -> None:
    scene = Scene(TTL, count=1)
    scene.read(scene.alice, "alice")
    scene.bob.call("XCLAIM s g bob 0 1-0")
    scene.rig.pass_time(3000)
    assert names(scene) == [b"alice", b"bob"]


def test_setting_finds_consumers_that_are_there_and_taking_it_back_keeps_them() -> None:
    scene = Scene()
    scene.read(scene.bob, "bob")
    scene.bob.session.close()
    scene.rig.pass_time(500)
    scene.alice.call(f"XGROUP CONFIG s g {TTL}", "COPY s t", "XGROUP CONFIG s g CONSUMER-TTL 0")
    scene.rig.pass_time(500)
    assert names(scene) == [b"bob"]
    assert scene.alice.call("XINFO CONSUMERS t g") == b"*0\r\n"


def test_keyspace_event_tells_it() -> None:
    scene = Scene(TTL)
    scene.alice.call("CONFIG SET notify-keyspace-events Kt")
    listener = scene.rig.connect()
    listener.call("SUBSCRIBE __keyspace@0__:s")
    scene.read(scene.bob, "bob")
    scene.bob.session.close()
    listener.output()
    scene.rig.pass_time(1000)
    assert b"xgroup-delconsumer" in listener.output()


def test_seen_times_count_after_a_restart(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path)
    server.call(
        "XADD s 1-0 f v", "XGROUP CREATE s g 0", f"XGROUP CONFIG s g {TTL}", "XREADGROUP GROUP g bob STREAMS s >"
    )
    server.stop()
    again = LoggingServer(tmp_path, started_ms=2500)
    try:
        for _ in range(3):
            again.server.upkeep.run(again.clock())
            again.clock.advance(1000)
        assert again.call("XINFO CONSUMERS s g") == b"*0\r\n"
    finally:
        again.stop()
