"""The place of pushes: after the reply that caused them, in order, and encoded once for all."""

from __future__ import annotations

from headrace.protocol.replies import Push
from support.inprocess import Rig


def test_pushes_of_a_transaction_are_sent_after_all_of_its_replies() -> None:
    caller = Rig().connect()
    caller.call("HELLO 3", "SUBSCRIBE c", "MULTI", "PUBLISH c 1", "PING", "PUBLISH c 2")
    message = b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n%d\r\n"
    assert caller.call("EXEC", "PING") == b"*3\r\n:1\r\n+PONG\r\n:1\r\n" + message % 1 + message % 2 + b"+PONG\r\n"


def test_pushes_before_a_command_stay_before_its_reply() -> None:
    rig = Rig()
    listener, speaker = rig.connect(), rig.connect()
    listener.call("HELLO 3", "SUBSCRIBE c")
    speaker.call("PUBLISH c 1")
    assert listener.call("PING").endswith(b"$1\r\n1\r\n+PONG\r\n")


def test_a_client_that_waits_gets_at_once_the_pushes_of_its_command() -> None:
    rig = Rig(notify_keyspace_events=b"tE")
    reader = rig.connect()
    reader.call("XGROUP CREATE s g $ MKSTREAM", "HELLO 3", "SUBSCRIBE __keyevent@0__:xgroup-createconsumer")
    heard = reader.call("XREADGROUP GROUP g c BLOCK 0 STREAMS s >")
    assert heard == b">3\r\n$7\r\nmessage\r\n$36\r\n__keyevent@0__:xgroup-createconsumer\r\n$1\r\ns\r\n"
    assert reader.client.blocked is not None


def test_a_client_that_is_about_to_be_closed_gets_no_more_pushes() -> None:
    rig = Rig()
    listener = rig.connect()
    listener.call("SUBSCRIBE c")
    assert listener.call("QUIT") == b"+OK\r\n"
    rig.dispatcher.pushes.deliver([listener.client], Push([b"message", b"c", b"late"]))
    assert listener.output() == b""


def test_no_client_is_running_after_a_refused_command() -> None:
    rig = Rig()
    caller = rig.connect()
    for line in ("NOSUCH", "GET", "MULTI", "NOSUCH", "EXEC", "GET k"):
        caller.call(line)
        assert rig.dispatcher.pushes.running is None


def test_a_message_is_encoded_once_for_each_protocol() -> None:
    rig = Rig()
    callers = [rig.connect() for _ in range(4)]
    for caller in callers[2:]:
        caller.call("HELLO 3")
    rig.dispatcher.pushes.deliver([caller.client for caller in callers], Push([b"x"]))
    pieces = [caller.session.out[-1] for caller in callers]
    assert pieces[0] is pieces[1]
    assert pieces[2] is pieces[3]
    assert pieces[0] is not pieces[2]


def test_size_of_what_is_kept_for_the_running_client_is_that_of_its_messages() -> None:
    rig = Rig()
    running, other = rig.connect(), rig.connect()
    pushes = rig.dispatcher.pushes
    pushes.running = running.client
    for count in (1, 2):
        pushes.deliver([running.client, other.client], Push([b"x"]))
        assert pushes.kept_size(running.client) == count * len(b"*1\r\n$1\r\nx\r\n")
        assert pushes.kept_size(other.client) == 0
    pushes.hand_over(running.session)
    assert pushes.kept_size(running.client) == 0
    assert running.output() == b"*1\r\n$1\r\nx\r\n" * 2
