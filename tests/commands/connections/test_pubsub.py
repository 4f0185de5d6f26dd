"""Messages to subscribers, commands that they may send, and their entries in INFO and CLIENT LIST."""

from __future__ import annotations

import pytest

from support.inprocess import Caller, Rig, running_server
from support.replies import frame_end

NOT_WHILE_LISTENING = (
    b"-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this "
    b"context\r\n"
)
MESSAGE = b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n"


@pytest.fixture
def rig() -> Rig:
    return Rig()


def info(caller: Caller, name: bytes) -> int:
    """One number of INFO."""
    lines = caller.call("INFO everything").split(b"\r\n")
    return next(int(line.partition(b":")[2]) for line in lines if line.startswith(name + b":"))


def test_a_message_reaches_each_listener_in_its_protocol(rig: Rig) -> None:
    old, new, speaker = rig.connect(), rig.connect(), rig.connect()
    new.call("HELLO 3")
    old.call("SUBSCRIBE news")
    new.call("SUBSCRIBE news")
    assert speaker.call("PUBLISH news hi") == b":2\r\n"
    assert old.output() == MESSAGE
    assert new.output() == b">" + MESSAGE[1:]


def test_channel_comes_before_pattern(rig: Rig) -> None:
    listener, speaker = rig.connect(), rig.connect()
    listener.call("PSUBSCRIBE n*", "SUBSCRIBE news")
    assert speaker.call("PUBLISH news hi") == b":2\r\n"
    assert listener.output() == MESSAGE + b"*4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n$4\r\nnews\r\n$2\r\nhi\r\n"


def test_resp2_listener_may_only_listen(rig: Rig) -> None:
    listener = rig.connect()
    listener.call("SUBSCRIBE news")
    assert listener.call("GET k") == NOT_WHILE_LISTENING
    assert listener.call("PING") == b"*2\r\n$4\r\npong\r\n$0\r\n\r\n"
    listener.call("UNSUBSCRIBE")
    assert listener.call("GET k") == b"$-1\r\n"


def test_resp3_subscriber_gets_its_own_message_after_its_reply(rig: Rig) -> None:
    listener = rig.connect()
    listener.call("HELLO 3", "SUBSCRIBE news")
    assert listener.call("PUBLISH news hi", "PING") == b":1\r\n>" + MESSAGE[1:] + b"+PONG\r\n"


def test_reset_and_the_end_of_a_connection_end_subscriptions(rig: Rig) -> None:
    first, second, speaker = rig.connect(), rig.connect(), rig.connect()
    first.call("SUBSCRIBE news", "PSUBSCRIBE n*", "SSUBSCRIBE news")
    second.call("SUBSCRIBE news", "PSUBSCRIBE n*", "SSUBSCRIBE news")
    assert first.call("RESET") == b"+RESET\r\n"
    assert speaker.call("PUBLISH news hi", "SPUBLISH news hi") == b":2\r\n:1\r\n"
    rig.dispatcher.detach(second.session)
    assert speaker.call("PUBLISH news hi", "SPUBLISH news hi") == b":0\r\n:0\r\n"
    subscriptions = rig.server.context.subscriptions
    assert not subscriptions.channels.by_name
    assert not subscriptions.patterns.by_name
    assert not subscriptions.shard_channels.by_name
    assert not subscriptions.patterns.matching(b"news")


def test_listeners_are_counted_and_shown(rig: Rig) -> None:
    listener, other = rig.connect(), rig.connect()
    listener.call("SUBSCRIBE a b", "PSUBSCRIBE c*", "SSUBSCRIBE d")
    shown = other.call("CLIENT LIST TYPE pubsub")
    assert shown.count(b"id=") == 1
    assert b" flags=P " in shown
    assert b" sub=2 psub=1 ssub=1 " in shown
    assert b" flags=N " in other.call("CLIENT LIST TYPE normal")
    assert info(other, b"pubsub_clients") == 1
    assert info(other, b"pubsub_channels") == 2
    assert info(other, b"pubsub_patterns") == 1
    assert info(other, b"pubsubshard_channels") == 1


def test_a_client_that_is_no_listener_any_more_is_plain_again(rig: Rig) -> None:
    listener = rig.connect()
    listener.call("SUBSCRIBE a")
    assert sorted({found.row.name for found in listener.client.rows.values()}) == [
        "PING", "PSUBSCRIBE", "PUNSUBSCRIBE", "QUIT", "RESET", "SSUBSCRIBE", "SUBSCRIBE", "SUNSUBSCRIBE", "UNSUBSCRIBE",
    ]  # fmt: skip
    listener.call("UNSUBSCRIBE a")
    assert listener.client.rows


async def test_messages_arrive_while_the_listener_is_silent() -> None:
    async with running_server() as running:
        listener, speaker = await running.connect(), await running.connect()
        listener.send("SUBSCRIBE", "news")
        await listener.expect(b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n")
        speaker.send("PUBLISH", "news", "hi")
        await speaker.expect(b":1\r\n")
        await listener.expect(MESSAGE)


async def test_a_listener_is_not_closed_for_being_silent() -> None:
    now_ms = 1_700_000_000_000
    async with running_server(clock=lambda: now_ms, timeout=1) as running:
        listener, silent = await running.connect(), await running.connect()
        listener.send("SUBSCRIBE", "news")
        await listener.expect(b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n")
        silent.send("PING")
        await silent.expect(b"+PONG\r\n")
        now_ms += 5000
        for _ in range(running.server.config.hz):
            running.server.periodic.run()
        await silent.expect_end()
        assert len(running.server.clients) == 1


def test_subscriptions_are_counted_as_memory_of_the_client(rig: Rig) -> None:
    listener = rig.connect()
    before = listener.client.memory_size
    listener.call("SUBSCRIBE aaaa b", "SUBSCRIBE b", "PSUBSCRIBE b", "SSUBSCRIBE b")
    assert listener.client.memory_size - before > 4 * 300
    listener.call("UNSUBSCRIBE x", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE", "SUNSUBSCRIBE")
    assert listener.client.memory_size == before


def test_confirmations_are_whole_frames(rig: Rig) -> None:
    listener = rig.connect()
    heard = listener.call("SUBSCRIBE a b c")
    ends = [0]
    while ends[-1] < len(heard):
        ends.append(frame_end(heard, ends[-1]))
    assert len(ends) == 4
