"""Blocked commands and those of other clients: each client's requests run as that client, in units of their own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.commands.core.table import TABLE, Flag
from headrace.persistence.aof import AppendOnlyLog
from headrace.persistence.folder import LogSettings
from support.inprocess import Caller, Clock, Rig

# A way to block for each command that can.
BLOCKING_LINES = {
    "XREAD": "XREAD BLOCK 0 STREAMS s $",
    "XREADGROUP": "XREADGROUP GROUP g c BLOCK 0 STREAMS s >",
    "WAIT": "WAIT 1 0",
    "WAITAOF": "WAITAOF 0 1 0",
    "BLPOP": "BLPOP no 0",
    "BRPOP": "BRPOP no 0",
    "BLMPOP": "BLMPOP 0 1 no LEFT",
    "BLMOVE": "BLMOVE no to LEFT LEFT 0",
    "BLMOVEM": "BLMOVEM no to LEFT LEFT 0",
    "BRPOPLPUSH": "BRPOPLPUSH no to 0",
    "BZPOPMIN": "BZPOPMIN no 0",
    "BZPOPMAX": "BZPOPMAX no 0",
    "BZMPOP": "BZMPOP 0 1 no MIN",
}

# The reply to a wait that is ended early; the others get the null array.
END_REPLIES = {"WAIT": b":0\r\n", "WAITAOF": b"*2\r\n:0\r\n:0\r\n"}


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    # Nothing of this log is synced, since it is not open.
    rig.server.log_keeper.log = AppendOnlyLog(LogSettings("nowhere", "appendonly.aof"), b"no")
    return rig


def block(rig: Rig, name: str) -> Caller:
    """A client in database 3 that waits."""
    blocked = rig.connect()
    assert blocked.call("SELECT 3", "XGROUP CREATE s g $ MKSTREAM", BLOCKING_LINES[name]) == b"+OK\r\n+OK\r\n"
    rig.log.units.clear()
    rig.log.databases.clear()
    return blocked


def test_every_command_that_can_block_is_known_here() -> None:
    assert set(BLOCKING_LINES) == {row.name for row in TABLE.values() if row.flags & Flag.BLOCKING}


@pytest.mark.parametrize("name", BLOCKING_LINES)
@pytest.mark.parametrize("reason", ["TIMEOUT", "ERROR"])
def test_rest_of_a_transaction_that_ends_a_wait_runs_as_its_own_client(rig: Rig, name: str, reason: str) -> None:
    blocked, caller = block(rig, name), rig.connect()
    target = blocked.client.id
    replies = caller.call(
        "MULTI",
        "SET a 1",
        f"CLIENT UNBLOCK {target} {reason}",
        "CLIENT ID",
        "CLIENT SETNAME mine",
        "SET b 2",
        "XREAD BLOCK 0 STREAMS s $",
        "SUBSCRIBE channel",
        "SELECT 5",
        "SET c 3",
        f"CLIENT KILL ID {target}",
        "EXEC",
    )
    assert replies.endswith(
        b"*10\r\n+OK\r\n:1\r\n:%d\r\n+OK\r\n+OK\r\n*-1\r\n" % caller.client.id
        + b"*3\r\n$9\r\nsubscribe\r\n$7\r\nchannel\r\n:1\r\n+OK\r\n+OK\r\n:1\r\n"
    )
    assert rig.log.units == [[b"SET a 1", b"SET b 2", b"SET c 3"]]
    assert rig.log.databases == [0, 0, 5]
    assert caller.client.name == b"mine"
    assert blocked.client.name == b""
    assert blocked.client.killed
    assert caller.client.is_subscriber
    assert not blocked.client.is_subscriber


@pytest.mark.parametrize("name", BLOCKING_LINES)
def test_rest_of_a_pipeline_that_ends_a_wait_runs_as_its_own_client(rig: Rig, name: str) -> None:
    blocked, caller = block(rig, name), rig.connect()
    replies = caller.call(f"CLIENT UNBLOCK {blocked.client.id}", "SET a 1", "SELECT 5", "SET b 2", "CLIENT ID")
    assert replies == b":1\r\n+OK\r\n+OK\r\n+OK\r\n:%d\r\n" % caller.client.id
    assert rig.log.databases == [0, 5]
    assert blocked.output() == END_REPLIES.get(name, b"*-1\r\n")
    assert blocked.call("GET a", "CLIENT ID") == b"$-1\r\n:%d\r\n" % blocked.client.id, "it is in database 3"


def feed(rig: Rig) -> None:
    rig.connect().call("SELECT 3", "XADD s 1-1 f v")


def pass_time(rig: Rig) -> None:
    rig.pass_time(10_000)


def sync(rig: Rig) -> None:
    rig.dispatcher.serving.serve_progress()


@pytest.mark.parametrize("name", BLOCKING_LINES)
@pytest.mark.parametrize("end", [feed, pass_time, sync])
def test_end_of_a_wait_leaves_the_running_state_as_it_was(rig: Rig, name: str, end: Callable[[Rig], None]) -> None:
    block(rig, name)
    context, last = rig.server.context, rig.connect()
    assert last.call("SELECT 7") == b"+OK\r\n"
    if end is not feed:
        before = (context.client, context.db, context.may_block, rig.dispatcher.pushes.running)
        end(rig)
        assert (context.client, context.db, context.may_block, rig.dispatcher.pushes.running) == before
        return
    assert last.call("SELECT 3", "XADD s 1-1 f v", "CLIENT ID").endswith(b":%d\r\n" % last.client.id)
    assert context.client is last.client


def test_an_ended_wait_counts_once(rig: Rig) -> None:
    blocked = block(rig, "WAIT")
    before = blocked.client.commands_count
    rig.connect().call(f"CLIENT UNBLOCK {blocked.client.id}")
    assert blocked.client.commands_count == before + 1


def drained(caller: Caller) -> bytes:
    """All output of a client, the parts included that are made while they are sent."""
    pieces = [piece if type(piece) is bytes else b"".join(piece) for piece in caller.session.out]
    caller.session.out.clear()
    return b"".join(pieces)


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("way", ["EXEC", "RENAME"])
def test_readers_of_one_key_share_what_is_too_long_to_be_built(rig: Rig, protocol: int, way: str) -> None:
    readers, writer = [rig.connect() for _ in range(3)], rig.connect()
    for reader in readers:
        reader.call(f"HELLO {protocol}", "XREAD BLOCK 0 STREAMS s 0")
    count, value = 200, "v" * 10_000
    key = "s" if way == "EXEC" else "other"
    writer.call("MULTI", *[f"XADD {key} 1-{number} f {value}" for number in range(1, count + 1)], "EXEC")
    if way == "RENAME":
        assert writer.call("RENAME other s") == b"+OK\r\n"
    assert any(type(piece) is not bytes for piece in readers[0].session.out), "it is long enough"
    answered = [drained(reader) for reader in readers]
    assert answered[0].count(value.encode()) == count
    assert answered == [answered[0]] * len(readers)


def claimer(rig: Rig, block_ms: int) -> Caller:
    """A client that waits to claim an entry, and may after 500 ms."""
    owner, claiming = rig.connect(), rig.connect()
    owner.call("XGROUP CREATE s g 0 MKSTREAM", "XADD s 1-1 f v", "XREADGROUP GROUP g owner STREAMS s >")
    claiming.call(f"XREADGROUP GROUP g claiming BLOCK {block_ms} CLAIM 500 STREAMS s >")
    return claiming


@pytest.mark.parametrize("mode", ["WRITE", "ALL"])
def test_a_claim_whose_time_comes_in_a_pause_waits_for_its_end(rig: Rig, mode: str) -> None:
    claiming, other = claimer(rig, 1000), rig.connect()
    other.call(f"CLIENT PAUSE 2000 {mode}")
    rig.log.units.clear()
    rig.pass_time(600)
    rig.pass_time(900)
    assert claiming.output() == b"", "its deadline belongs to the wait that has ended"
    assert claiming.client.is_held
    assert rig.log.units == []
    rig.clock.advance(501)
    rig.dispatcher.end_pause()
    assert claiming.output().endswith(b":2001\r\n:1\r\n")


@pytest.mark.parametrize("line", ["XREADGROUP GROUP g c BLOCK 1500 STREAMS s >", "XREAD BLOCK 1500 STREAMS s $"])
def test_wait_of_a_reader_that_was_woken_in_a_pause_begins_again_after_it(rig: Rig, line: str) -> None:
    reader, other = rig.connect(), rig.connect()
    reader.call("XGROUP CREATE s g $ MKSTREAM", line)
    other.call("MULTI", "CLIENT PAUSE 1000 ALL", "XADD s 5-5 f v", "XDEL s 5-5", "XGROUP SETID s g $", "EXEC")
    assert reader.client.is_held
    rig.pass_time(1001)
    rig.dispatcher.end_pause()
    assert reader.output() == b""
    rig.pass_time(1500)
    assert reader.output() == b""
    rig.pass_time(1)
    assert reader.output() == b"*-1\r\n"


def test_a_wait_without_data_ends_at_its_deadline_in_a_pause(rig: Rig) -> None:
    reader, other = rig.connect(), rig.connect()
    reader.call("XGROUP CREATE s g $ MKSTREAM", "XREADGROUP GROUP g c BLOCK 500 STREAMS s >")
    other.call("CLIENT PAUSE 2000 ALL")
    rig.pass_time(501)
    assert reader.output() == b"*-1\r\n"


@pytest.mark.parametrize("name", BLOCKING_LINES)
@pytest.mark.parametrize("leap_ms", [-3_600_000, 3_600_000])
def test_a_change_of_the_clock_does_not_change_a_wait(name: str, leap_ms: int) -> None:
    monotonic = Clock()
    rig = Rig(monotonic=monotonic)
    rig.server.log_keeper.log = AppendOnlyLog(LogSettings("nowhere", "appendonly.aof"), b"no")
    blocked = rig.connect()
    line = BLOCKING_LINES[name]
    if name.startswith("WAIT"):
        line = f"{line[:-2]} 1500"
    elif name.startswith("X"):
        line = line.replace("BLOCK 0", "BLOCK 1500")
    else:
        line = line.replace(" 0", " 1.5")
    blocked.call("XGROUP CREATE s g $ MKSTREAM", line)
    rig.clock.advance(leap_ms)
    monotonic.advance(1500)
    rig.pass_time(0)
    assert blocked.output() == b""
    monotonic.advance(1)
    rig.pass_time(0)
    assert blocked.output() == END_REPLIES.get(name, b"*-1\r\n")


@pytest.mark.parametrize("leap_ms", [-3_600_000, 3_600_000])
def test_a_change_of_the_clock_does_not_change_a_pause(leap_ms: int) -> None:
    monotonic = Clock()
    rig = Rig(monotonic=monotonic)
    caller = rig.connect()
    caller.call("CLIENT PAUSE 1000", "PING")
    rig.clock.advance(leap_ms)
    monotonic.advance(999)
    assert not rig.dispatcher.pause.is_over
    monotonic.advance(1)
    assert rig.dispatcher.pause.is_over
    assert rig.connect().call("PING") == b"+PONG\r\n"


def test_a_claim_is_tried_again_until_the_entry_is_idle_by_the_clock_that_was_set_back() -> None:
    monotonic = Clock()
    rig = Rig(monotonic=monotonic)
    claiming = claimer(rig, 5000)
    rig.clock.advance(-200)
    monotonic.advance(501)
    rig.pass_time(0)
    assert claiming.output() == b""
    rig.clock.advance(701)
    monotonic.advance(701)
    rig.pass_time(0)
    assert claiming.output().endswith(b":501\r\n:1\r\n")


def test_a_key_that_was_emptied_by_the_first_client_wakes_no_other() -> None:
    """As in Redis: a second client would get an error for another key of its request."""
    rig = Rig()
    first, second, writer = rig.connect(), rig.connect(), rig.connect()
    first.call("BZPOPMIN z 0")
    second.call("BZPOPMIN no z 0")
    writer.call("SET no v", "ZADD z 1 m")
    assert first.output() == b"*3\r\n$1\r\nz\r\n$1\r\nm\r\n$1\r\n1\r\n"
    assert second.output() == b""
    writer.call("DEL no", "ZADD z 2 n")
    assert second.output() == b"*3\r\n$1\r\nz\r\n$1\r\nn\r\n$1\r\n2\r\n"


@pytest.mark.parametrize(("wait", "push"), [("BLPOP q 0", "RPUSH q {}"), ("BZPOPMIN q 0", "ZADD q 1 {}")])
def test_clients_get_elements_in_the_order_of_their_waits(wait: str, push: str) -> None:
    """Those that found nothing to take keep their places; one that was served joins at the end."""
    rig = Rig()
    clients = [rig.connect() for _ in range(4)]
    writer = rig.connect()
    for client in clients:
        client.call(wait)
    turn = 0
    for count in (1, 1, 2, 1, 3, 4, 1):
        letters = "abcdefghijklm"[turn : turn + count]
        writer.call(push.format((" 1 " if "ZADD" in push else " ").join(letters)))
        for letter in letters:
            assert f"\r\n{letter}\r\n".encode() in clients[turn % 4].output()
            turn += 1
        assert not any(client.output() for client in clients)
        for index in range(turn - count, turn):
            clients[index % 4].call(wait)
