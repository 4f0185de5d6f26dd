"""PING, ECHO, QUIT, RESET, HELLO, AUTH, SELECT, TIME, LASTSAVE, SHUTDOWN."""

from __future__ import annotations

import pytest

from support.inprocess import START_MS, Rig

WRONGPASS = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"
CASES = (
    ("PING", b"+PONG\r\n"),
    ("PING hello", b"$5\r\nhello\r\n"),
    ("PING a b", b"-ERR wrong number of arguments for 'ping' command\r\n"),
    ("ECHO x", b"$1\r\nx\r\n"),
    ("SELECT 15", b"+OK\r\n"),
    ("SELECT 16", b"-ERR DB index is out of range\r\n"),
    ("SELECT -1", b"-ERR DB index is out of range\r\n"),
    ("SELECT a", b"-ERR value is not an integer or out of range\r\n"),
    ("SELECT 99999999999999999999", b"-ERR value is not an integer or out of range\r\n"),
    ("TIME", b"*2\r\n$10\r\n%d\r\n$1\r\n0\r\n" % (START_MS // 1000)),
    ("LASTSAVE", b":%d\r\n" % (START_MS // 1000)),
    ("HELLO a", b"-ERR Protocol version is not an integer or out of range\r\n"),
    ("HELLO 4", b"-NOPROTO unsupported protocol version\r\n"),
    ("HELLO 3 AUTH a", b"-ERR Syntax error in HELLO option 'AUTH'\r\n"),
    ("HELLO 2 SETNAME", b"-ERR Syntax error in HELLO option 'SETNAME'\r\n"),
    ("HELLO 2 foo", b"-ERR Syntax error in HELLO option 'foo'\r\n"),
    (
        "HELLO 2 SETNAME 'a b'",
        b"-ERR Client names cannot contain spaces, newlines or special characters.\r\n",
    ),
    ("HELLO 2 AUTH nobody x", WRONGPASS),
    ("AUTH nobody x", WRONGPASS),
    ("AUTH default x", b"+OK\r\n"),
    ("AUTH a b c", b"-ERR syntax error\r\n"),
    (
        "AUTH a",
        b"-ERR AUTH <password> called without any password configured for the default user. "
        b"Are you sure your configuration is correct?\r\n",
    ),
    ("SHUTDOWN FOO", b"-ERR syntax error\r\n"),
    ("SHUTDOWN SAVE NOSAVE", b"-ERR syntax error\r\n"),
    ("SHUTDOWN ABORT NOW", b"-ERR syntax error\r\n"),
    ("SHUTDOWN ABORT", b"-ERR No shutdown in progress.\r\n"),
)


@pytest.mark.parametrize(("line", "reply"), CASES)
def test_reply(line: str, reply: bytes) -> None:
    assert Rig().connect().call(line) == reply


def test_hello_describes_the_server_in_the_new_protocol() -> None:
    caller = Rig().connect()
    pairs = (
        b"$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n8.10.2\r\n$5\r\nproto\r\n:%d\r\n$2\r\nid\r\n:1\r\n"
        b"$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"
    )
    assert caller.call("HELLO 3 SETNAME me") == b"%7\r\n" + pairs % 3
    assert caller.call("HELLO") == b"%7\r\n" + pairs % 3
    assert caller.call("HELLO 2") == b"*14\r\n" + pairs % 2
    assert caller.client.name == b"me"


def test_failed_hello_changes_nothing() -> None:
    rig = Rig(requirepass=b"pw")
    caller = rig.connect()
    assert caller.call("HELLO 3 AUTH default no SETNAME me") == WRONGPASS
    assert caller.call("HELLO 3").startswith(b"-NOAUTH HELLO must be called with the client already authenticated, ")
    assert (caller.client.protocol, caller.client.name) == (2, b"")
    assert caller.call("HELLO 3 AUTH default pw SETNAME me").startswith(b"%7\r\n")


def test_failed_auth_keeps_the_user() -> None:
    rig = Rig(requirepass=b"pw")
    caller = rig.connect()
    assert caller.call("AUTH no", "AUTH pw", "AUTH no", "XLEN s") == WRONGPASS + b"+OK\r\n" + WRONGPASS + b":0\r\n"


def test_reset_makes_a_new_connection_of_an_old_one() -> None:
    rig = Rig()
    caller, other = rig.connect(), rig.connect()
    caller.call(
        "HELLO 3 SETNAME me", "CLIENT SETINFO lib-name lib", "SELECT 2", "CLIENT NO-EVICT on", "WATCH a", "MULTI"
    )
    assert caller.call("RESET") == b"+RESET\r\n"
    client = caller.client
    assert (client.protocol, client.name, client.db.index, client.no_evict) == (2, b"", 0, False)
    assert (client.id, client.library_name) == (1, b"lib")
    assert caller.call("EXEC") == b"-ERR EXEC without MULTI\r\n"
    other.call("SELECT 2", "XADD a 1-1 f v")
    assert caller.call("MULTI", "EXEC") == b"+OK\r\n*0\r\n"


def test_reset_logs_out_where_a_password_is_set() -> None:
    caller = Rig(requirepass=b"pw").connect()
    assert caller.call("AUTH pw", "RESET", "XLEN s") == b"+OK\r\n+RESET\r\n-NOAUTH Authentication required.\r\n"


def test_nothing_is_run_after_quit_and_it_needs_no_password() -> None:
    rig = Rig(requirepass=b"pw")
    caller = rig.connect()
    assert caller.call("QUIT now please", "AUTH pw") == b"+OK\r\n"
    assert caller.client.close_after_reply
    assert not caller.client.authenticated


def test_password_set_later_binds_new_clients_only() -> None:
    rig = Rig()
    old = rig.connect()
    assert old.call("CONFIG SET requirepass pw", "XLEN s") == b"+OK\r\n:0\r\n"
    new = rig.connect()
    assert new.call("XLEN s") == b"-NOAUTH Authentication required.\r\n"
    old.call("CONFIG SET requirepass ''")
    assert new.call("XLEN s") == b":0\r\n"


def test_shutdown_answers_nothing() -> None:
    rig = Rig()
    assert rig.connect().call("SHUTDOWN NOSAVE") == b""
    assert rig.server.stopped.is_set()
