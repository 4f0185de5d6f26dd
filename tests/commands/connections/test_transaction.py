"""MULTI, EXEC, DISCARD, WATCH, UNWATCH."""

from __future__ import annotations

import pytest

from support.inprocess import Rig

ABORTED = b"-EXECABORT Transaction discarded because of previous errors.\r\n"


def test_replies_come_as_one_array_with_errors_as_elements() -> None:
    caller = Rig().connect()
    assert caller.call("MULTI", "XADD s 1-1 f v", "XADD s 1-1 f v", "XLEN s", "EXEC") == (
        b"+OK\r\n" + b"+QUEUED\r\n" * 3 + b"*3\r\n$3\r\n1-1\r\n"
        b"-ERR The ID specified in XADD is equal or smaller than the target stream top item\r\n:1\r\n"
    )
    assert caller.call("MULTI", "EXEC") == b"+OK\r\n*0\r\n"


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("EXEC", b"-ERR EXEC without MULTI\r\n"),
        ("DISCARD", b"-ERR DISCARD without MULTI\r\n"),
        ("EXEC x", b"-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command\r\n"),
        ("MULTI x", b"-ERR wrong number of arguments for 'multi' command\r\n"),
        ("UNWATCH", b"+OK\r\n"),
    ],
)
def test_outside_of_multi(line: str, reply: bytes) -> None:
    assert Rig().connect().call(line) == reply


@pytest.mark.parametrize("line", ["FOO", "CLIENT foo", "XLEN", "SHUTDOWN", "DISCARD x"])
def test_refused_command_aborts_the_transaction(line: str) -> None:
    caller = Rig().connect()
    caller.call("MULTI", line)
    assert caller.call("EXEC", "EXEC") == ABORTED + b"-ERR EXEC without MULTI\r\n"


def test_nested_multi_and_watch_inside_do_not_abort() -> None:
    caller = Rig().connect()
    assert caller.call("MULTI", "MULTI", "WATCH a", "PING", "EXEC") == (
        b"+OK\r\n-ERR MULTI calls can not be nested\r\n-ERR WATCH inside MULTI is not allowed\r\n"
        b"+QUEUED\r\n*1\r\n+PONG\r\n"
    )


def test_discard_forgets_queue_and_watches() -> None:
    rig = Rig()
    caller, other = rig.connect(), rig.connect()
    assert caller.call("WATCH s", "MULTI", "XADD s 1-1 f v", "DISCARD") == b"+OK\r\n+OK\r\n+QUEUED\r\n+OK\r\n"
    other.call("XADD s 1-1 f v")
    assert caller.call("MULTI", "EXEC") == b"+OK\r\n*0\r\n"
    assert rig.server.store.databases[0].watchers == {}


def test_watched_key_that_changed_makes_exec_null() -> None:
    rig = Rig()
    caller, other = rig.connect(), rig.connect()
    caller.call("WATCH s t")
    other.call("XADD s 1-1 f v")
    assert caller.call("MULTI", "PING", "EXEC") == b"+OK\r\n+QUEUED\r\n*-1\r\n"
    assert caller.call("MULTI", "PING", "EXEC") == b"+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n"


def test_own_change_counts_too() -> None:
    assert Rig().connect().call("WATCH s", "XADD s 1-1 f v", "MULTI", "EXEC")[-5:] == b"*-1\r\n"


def test_unwatch_and_another_database_do_not_count() -> None:
    rig = Rig()
    caller, other = rig.connect(), rig.connect()
    caller.call("WATCH s")
    other.call("SELECT 1", "XADD s 1-1 f v")
    assert caller.call("MULTI", "EXEC") == b"+OK\r\n*0\r\n"
    caller.call("WATCH s", "UNWATCH")
    other.call("SELECT 0", "XADD s 1-1 f v")
    assert caller.call("MULTI", "EXEC") == b"+OK\r\n*0\r\n"


def test_errors_while_queueing_outweigh_a_changed_key() -> None:
    caller = Rig().connect()
    caller.call("WATCH s", "XADD s 1-1 f v", "MULTI", "FOO")
    assert caller.call("EXEC") == ABORTED


def test_watched_key_that_expires_makes_exec_null_before_it_is_removed() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("XADD s 1-1 f v")
    rig.server.store.databases[0].expires[b"s"] = rig.clock() + 10
    caller.call("WATCH s")
    rig.clock.advance(11)
    assert caller.call("MULTI", "EXEC") == b"+OK\r\n*-1\r\n"


def test_key_already_expired_when_watched_does_not_count() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("XADD s 1-1 f v")
    rig.server.store.databases[0].expires[b"s"] = rig.clock() + 10
    rig.clock.advance(11)
    assert caller.call("WATCH s", "XLEN s", "MULTI", "EXEC") == b"+OK\r\n:0\r\n+OK\r\n*0\r\n"


def test_select_and_hello_inside_take_effect_at_once() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("MULTI", "SELECT 3", "XADD s 1-1 f v", "CLIENT GETNAME", "HELLO 3", "CLIENT GETNAME")
    reply = caller.call("EXEC", "XLEN s")
    assert reply.startswith(b"*5\r\n+OK\r\n$3\r\n1-1\r\n$-1\r\n%7\r\n")
    assert reply.endswith(b"_\r\n:1\r\n")
    assert b"s" in rig.server.store.databases[3].keys


def test_reply_off_inside_silences_the_rest() -> None:
    caller = Rig().connect()
    assert caller.call("MULTI", "PING", "CLIENT REPLY OFF", "PING", "EXEC", "PING", "CLIENT REPLY ON") == (
        b"+OK\r\n" + b"+QUEUED\r\n" * 3 + b"*3\r\n+PONG\r\n+OK\r\n"
    )


def test_exec_of_a_stranger_names_the_reason() -> None:
    rig = Rig(requirepass=b"pw")
    caller = rig.connect()
    assert caller.call("MULTI", "EXEC") == (
        b"-NOAUTH Authentication required.\r\n"
        b"-EXECABORT Transaction discarded because of: NOAUTH Authentication required.\r\n"
    )


def test_queue_counts_in_client_info() -> None:
    caller = Rig().connect()
    caller.call("MULTI", "PING")
    assert caller.client.transaction.queue_size == 4
    reply = caller.call("CLIENT INFO", "EXEC")
    assert b" flags=x " in reply
    assert b" multi=2 " in reply
