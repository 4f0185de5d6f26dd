"""CLIENT and its effects on other clients."""

from __future__ import annotations

import re

import pytest

from support.inprocess import Rig

SYNTAX = b"-ERR syntax error\r\n"
CASES = (
    ("CLIENT ID", b":1\r\n"),
    ("CLIENT GETNAME", b"$-1\r\n"),
    ("CLIENT SETNAME 'a b'", b"-ERR Client names cannot contain spaces, newlines or special characters.\r\n"),
    ("CLIENT SETINFO foo x", b"-ERR Unrecognized option 'foo'\r\n"),
    ("CLIENT SETINFO LIB-name 'a b'", b"-ERR LIB-name cannot contain spaces, newlines or special characters.\r\n"),
    ("CLIENT LIST TYPE foo", b"-ERR Unknown client type 'foo'\r\n"),
    ("CLIENT LIST TYPE", SYNTAX),
    ("CLIENT LIST ID", SYNTAX),
    ("CLIENT LIST foo bar", SYNTAX),
    ("CLIENT LIST TYPE normal x", SYNTAX),
    ("CLIENT LIST ID a", b"-ERR Invalid client ID\r\n"),
    ("CLIENT LIST ID 998 999", b"$0\r\n\r\n"),
    ("CLIENT LIST TYPE pubsub", b"$0\r\n\r\n"),
    ("CLIENT KILL ID a", b"-ERR client-id should be greater than 0\r\n"),
    ("CLIENT KILL ID 0", b"-ERR client-id should be greater than 0\r\n"),
    ("CLIENT KILL TYPE x", b"-ERR Unknown client type 'x'\r\n"),
    ("CLIENT KILL USER nobody", b"-ERR No such user 'nobody'\r\n"),
    ("CLIENT KILL MAXAGE a", b"-ERR maxage is not an integer or out of range\r\n"),
    ("CLIENT KILL MAXAGE 0", b"-ERR maxage should be greater than 0\r\n"),
    ("CLIENT KILL SKIPME x", SYNTAX),
    ("CLIENT KILL ID 99", b":0\r\n"),
    ("CLIENT KILL ID 99 FOO", SYNTAX),
    ("CLIENT KILL FOO bar", SYNTAX),
    ("CLIENT KILL ADDR", b"-ERR No such client\r\n"),
    ("CLIENT KILL USER default", b":0\r\n"),
    ("CLIENT UNBLOCK a", b"-ERR value is not an integer or out of range\r\n"),
    ("CLIENT UNBLOCK 1 x", b"-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR\r\n"),
    ("CLIENT UNBLOCK 1", b":0\r\n"),
    ("CLIENT UNBLOCK 999", b":0\r\n"),
    ("CLIENT PAUSE a", b"-ERR timeout is not an integer or out of range\r\n"),
    ("CLIENT PAUSE -1", b"-ERR timeout is negative\r\n"),
    ("CLIENT PAUSE 9223372036854775807", b"-ERR timeout is out of range\r\n"),
    ("CLIENT PAUSE 1 x", b"-ERR CLIENT PAUSE mode must be WRITE or ALL\r\n"),
    (
        "CLIENT PAUSE 1 ALL x",
        b"-ERR unknown subcommand or wrong number of arguments for 'PAUSE'. Try CLIENT HELP.\r\n",
    ),
    ("CLIENT REPLY x", SYNTAX),
    ("CLIENT NO-EVICT x", SYNTAX),
    ("CLIENT NO-TOUCH on", b"+OK\r\n"),
    ("CLIENT GETREDIR", b":-1\r\n"),
    ("CLIENT TRACKING x", SYNTAX),
    ("CLIENT TRACKING off", b"+OK\r\n"),
    (
        "CLIENT TRACKINGINFO",
        b"*6\r\n$5\r\nflags\r\n*1\r\n$3\r\noff\r\n$8\r\nredirect\r\n:-1\r\n$8\r\nprefixes\r\n*0\r\n",
    ),
    (
        "CLIENT CACHING yes",
        b"-ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode "
        b"enabled\r\n",
    ),
)
FIELDS = (
    "id addr laddr fd name age idle flags db sub psub ssub multi watch qbuf qbuf-free argv-mem multi-mem rbs rbp obl "
    "oll omem omem-shared omem-unshared tot-mem events cmd user redir resp lib-name lib-ver io-thread tot-net-in "
    "tot-net-out tot-cmds read-events avg-pipeline-len-sum avg-pipeline-len-cnt"
)


@pytest.mark.parametrize(("line", "reply"), CASES)
def test_reply(line: str, reply: bytes) -> None:
    assert Rig().connect().call(line) == reply


def test_line_has_every_field_in_order() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("CLIENT SETNAME me", "CLIENT SETINFO lib-name lib", "SELECT 2", "CLIENT NO-TOUCH on", "WATCH a b")
    rig.clock.advance(2500)
    header, _, line = caller.call("CLIENT INFO").partition(b"\r\n")
    text = line.removesuffix(b"\n\r\n").decode()
    assert header == b"$%d" % (len(text) + 1)
    assert re.findall(r"(?:^| )([a-z-]+)=", text) == FIELDS.split()
    for expected in (
        "id=1 ",
        " name=me ",
        " age=2 ",
        " flags=T ",
        " db=2 ",
        " watch=2 ",
        " cmd=client|info ",
        " resp=2 ",
    ):
        assert expected in text


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("GET", "get"),
        ("GET k", "get"),
        ("CONFIG GET", "config|get"),
        ("CONFIG", "config"),
        ("CONFIG NOSUCH", "NULL"),
        ("NOSUCH x", "NULL"),
    ],
)
def test_list_shows_the_last_command_also_one_that_was_refused(line: str, shown: str) -> None:
    rig = Rig()
    caller, other = rig.connect(), rig.connect()
    caller.call("PING", line)
    assert f" cmd={shown} ".encode() in other.call("CLIENT LIST ID 1")


def test_list_shows_blocked_clients_and_dirty_transactions() -> None:
    rig = Rig()
    caller, reader, watcher = rig.connect(), rig.connect(), rig.connect()
    reader.call("XREAD BLOCK 0 STREAMS s $")
    watcher.call("WATCH t", "MULTI")
    caller.call("XADD t 1-1 f v")
    lines = caller.call("CLIENT LIST").splitlines()[1:]
    assert [re.search(rb"flags=(\w+)", line)[1] for line in lines if line] == [b"N", b"b", b"xd"]  # type: ignore[index]
    assert caller.call("CLIENT LIST ID 3 2").count(b" resp=2 ") == 2


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        (["WATCH s t"], 2),
        (["WATCH s t", "SET s v"], 0),
        (["WATCH s t", "FLUSHALL"], 2),
        (["WATCH s t", "SWAPDB 0 1"], 2),
        (["WATCH s t", "FLUSHALL", "WATCH u"], 2),
        (["WATCH s t", "FLUSHALL", "SET s v"], 0),
        (["WATCH s t", "FLUSHALL", "UNWATCH", "WATCH u"], 1),
    ],
)
def test_watched_keys_are_shown_until_one_of_them_is_touched(lines: list[str], count: int) -> None:
    """A flush or a swap makes the transaction fail, but Redis keeps its watched keys."""
    caller = Rig().connect()
    caller.call("SET s v", *lines)
    assert b" watch=%d " % count in caller.call("CLIENT INFO")


def test_name_can_be_removed() -> None:
    caller = Rig().connect()
    assert caller.call("CLIENT SETNAME n", "CLIENT GETNAME", "CLIENT SETNAME ''", "CLIENT GETNAME") == (
        b"+OK\r\n$1\r\nn\r\n+OK\r\n$-1\r\n"
    )


def test_help_is_an_array_of_status_lines() -> None:
    reply = Rig().connect().call("CLIENT HELP")
    assert b"\r\n+CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:\r\n" in reply
    assert reply.endswith(b"+HELP\r\n+    Print this help.\r\n")


@pytest.mark.parametrize(
    ("reason", "reply"),
    [("", b"*-1\r\n"), (" TIMEOUT", b"*-1\r\n"), (" ERROR", b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n")],
)
def test_unblock_ends_the_wait(reason: str, reply: bytes) -> None:
    rig = Rig()
    reader, caller = rig.connect(), rig.connect()
    reader.call("XREAD BLOCK 0 STREAMS s $", "PING")
    assert caller.call("CLIENT UNBLOCK 1" + reason, "CLIENT UNBLOCK 1" + reason) == b":1\r\n:0\r\n"
    assert reader.output() == reply + b"+PONG\r\n"


def test_reply_modes() -> None:
    caller = Rig().connect()
    assert caller.call("CLIENT REPLY SKIP", "PING", "PING x") == b"$1\r\nx\r\n"
    assert caller.call("CLIENT REPLY SKIP", "CLIENT REPLY ON", "PING x") == b"+OK\r\n$1\r\nx\r\n"
    assert caller.call("CLIENT REPLY SKIP", "CLIENT REPLY SKIP", "PING", "PING x") == b"$1\r\nx\r\n"
    assert caller.call("CLIENT REPLY OFF", "PING", "FOO", "CLIENT REPLY SKIP", "PING", "CLIENT REPLY ON") == b"+OK\r\n"
    assert caller.call("CLIENT REPLY SKIP", "FOO", "PING") == b"+PONG\r\n"


def test_blocked_read_without_replies_stays_silent() -> None:
    rig = Rig()
    reader, writer = rig.connect(), rig.connect()
    reader.call("CLIENT REPLY SKIP", "XREAD BLOCK 0 STREAMS s $", "PING")
    writer.call("XADD s 1-1 f v")
    assert reader.output() == b"+PONG\r\n"


def test_pause_holds_everything_even_unpause_until_its_end() -> None:
    rig = Rig()
    caller, other = rig.connect(), rig.connect()
    assert caller.call("CLIENT PAUSE 100", "PING") == b"+OK\r\n"
    assert other.call("CLIENT UNPAUSE", "PING") == b""
    assert other.client.is_held
    rig.clock.advance(100)
    rig.dispatcher.end_pause()
    assert caller.output() == b"+PONG\r\n"
    assert other.output() == b"+OK\r\n+PONG\r\n"


def test_pause_of_writes_lets_reads_through_and_holds_a_queued_write() -> None:
    rig = Rig()
    caller, other = rig.connect(), rig.connect()
    caller.call("CLIENT PAUSE 100 WRITE")
    assert other.call("XLEN s", "MULTI", "XADD s 1-1 f v", "EXEC") == b":0\r\n+OK\r\n"
    assert b" flags=xb " in caller.call("CLIENT LIST ID 2")
    assert caller.call("CLIENT UNPAUSE") == b"+OK\r\n"
    assert other.output() == b"+QUEUED\r\n*1\r\n$3\r\n1-1\r\n"


def test_a_pause_of_no_time_is_none_unless_another_one_is_in_force() -> None:
    rig = Rig()
    caller = rig.connect()
    rows = caller.client.rows
    assert caller.call("CLIENT PAUSE 0", "CLIENT UNPAUSE", "PING") == b"+OK\r\n+OK\r\n+PONG\r\n"
    assert rig.dispatcher.pause.end_ms is None
    assert caller.client.rows is rows
    caller.call("CLIENT PAUSE 100 WRITE", "CLIENT PAUSE 0 ALL")
    assert rig.dispatcher.pause.end_ms == rig.clock() + 100
    assert not rig.dispatcher.pause.writes_only


def test_the_last_of_repeated_filters_decides_who_is_killed() -> None:
    rig = Rig()
    caller, other = rig.connect(), rig.connect()
    assert caller.call("CLIENT KILL ID 1 ID 2 TYPE pubsub") == b":0\r\n"
    assert caller.call("CLIENT KILL ID 1 SKIPME no SKIPME yes") == b":0\r\n"
    assert caller.call("CLIENT KILL ID 1 ID 2 TYPE pubsub TYPE normal") == b":1\r\n"
    assert other.client.killed


def test_held_client_is_not_unblockable() -> None:
    rig = Rig()
    caller, other = rig.connect(), rig.connect()
    caller.call("CLIENT PAUSE 100 WRITE")
    other.call("XADD s 1-1 f v")
    assert caller.call("CLIENT UNBLOCK 2") == b":0\r\n"


def test_second_pause_keeps_the_later_end_and_the_stricter_mode() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("CLIENT PAUSE 1000 WRITE", "CLIENT PAUSE 10 ALL")
    assert rig.dispatcher.pause.end_ms == rig.clock() + 1000
    assert not rig.dispatcher.pause.writes_only


def test_expired_key_is_gone_for_readers_during_a_pause_and_is_removed_after_it() -> None:
    rig = Rig()
    caller = rig.connect()
    caller.call("XADD s 1-1 f v", "CLIENT PAUSE 1000 WRITE")
    rig.server.store.databases[0].expires[b"s"] = rig.clock() + 10
    rig.clock.advance(20)
    assert caller.call("XLEN s", "DBSIZE", "INFO keyspace")[:8] == b":0\r\n:1\r\n"
    assert rig.log.units == [[b"XADD s 1-1 f v"]]
    assert caller.call("CLIENT UNPAUSE", "XLEN s", "DBSIZE") == b"+OK\r\n:0\r\n:0\r\n"
    assert rig.log.units[1:] == [[b"DEL s"]]


def test_held_client_is_a_blocked_client() -> None:
    rig = Rig()
    pausing, held = rig.connect(), rig.connect()
    pausing.call("CLIENT PAUSE 1000 WRITE")
    assert held.call("SET k v") == b""
    assert b"\r\nblocked_clients:1\r\n" in pausing.call("INFO clients")
    assert pausing.call("CLIENT UNPAUSE") == b"+OK\r\n"
    assert held.output() == b"+OK\r\n"
    assert b"\r\nblocked_clients:0\r\n" in pausing.call("INFO clients")


def test_client_that_kills_itself_gets_its_reply() -> None:
    rig = Rig()
    caller = rig.connect()
    assert caller.call("CLIENT KILL ID 1 SKIPME no", "PING") == b":1\r\n"
    assert caller.client.close_after_reply
    caller = rig.connect()
    assert caller.call("CLIENT KILL 127.0.0.1:50002") == b"+OK\r\n"
    assert caller.client.close_after_reply


@pytest.mark.parametrize(
    ("line", "size_min"),
    [
        ("WATCH {}", 100_000),
        ("WATCH a b c", 3 * 400),
        ("CLIENT SETNAME {}", 100_000),
        ("CLIENT SETINFO LIB-NAME {}", 100_000),
        ("CLIENT SETINFO LIB-VER {}", 100_000),
        ("CLIENT TRACKING ON BCAST PREFIX {}", 100_000),
        ("CLIENT TRACKING ON BCAST PREFIX a PREFIX b", 2 * 400),
        ("PSUBSCRIBE {}", 100_000),
    ],
)
def test_what_a_client_has_the_server_keep_counts_as_its_memory(line: str, size_min: int) -> None:
    caller = Rig().connect()
    caller.call("HELLO 3")
    before = caller.client.memory_size
    caller.call(line.format("x" * 100_000))
    assert size_min <= caller.client.memory_size - before <= size_min + 2_000
    caller.call("UNWATCH", "RESET", "CLIENT SETNAME ''", "CLIENT SETINFO LIB-NAME ''", "CLIENT SETINFO LIB-VER ''")
    assert caller.client.memory_size == before
