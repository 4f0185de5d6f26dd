"""The policies of streams, which Redis does not have: entries go that all groups have acknowledged, that are too old,
or too many. The log gets XTRIM.
"""

from __future__ import annotations

import logging
import random
from time import perf_counter_ns
from typing import Any

import pytest

from headrace.commands.policies import retention
from headrace.commands.streams.retention_options import RETENTION_ARGUMENTS
from headrace.server.requests.turns import RETENTION_REST_NS
from headrace.store.ids import make_id, parse_id
from headrace.store.image import StoreImage, StreamImage
from headrace.store.policies.lines import lines_of
from headrace.store.policies.stream_policy import STREAM_SETTINGS, StreamKind
from headrace.store.stream import Stream
from support.inprocess import START_MS, Caller, Rig, running_server


@pytest.fixture
def rig() -> Rig:
    """A server with a stream of six entries, and a group that has the first four of them pending."""
    rig = Rig()
    rig.connect().call(
        *(f"XADD s {number}-0 f v" for number in range(1, 7)),
        "XGROUP CREATE s g 0",
        "XREADGROUP GROUP g a COUNT 4 STREAMS s >",
    )
    rig.log.units.clear()
    return rig


@pytest.fixture
def caller(rig: Rig) -> Caller:
    return rig.connect()


def call(caller: Caller, *lines: str) -> bytes:
    """Send a pipeline, and end the turn."""
    reply = caller.call(*lines)
    caller.rig.server.turns.retain()
    return reply


def visit(rig: Rig) -> None:
    """The periodic work looks at all streams."""
    rig.server.turns.retention.visit(rig.clock(), lambda: False, begins_round=True)
    rig.dispatcher.units.log_own()


def stream_of(rig: Rig, key: bytes = b"s", db: int = 0) -> Stream:
    found = rig.server.store.databases[db].streams[key]
    found.check()
    return found


def ids(rig: Rig, key: bytes = b"s", db: int = 0) -> list[int]:
    """The milliseconds of all IDs."""
    return [entry_id // make_id(1, 0) for entry_id in stream_of(rig, key, db).log.ids(0, parse_id(b"9999999999999999"))]


# -- RETAIN-ACKED no -------------------------------------------------------------------------------


def test_what_every_group_has_acknowledged_goes_up_to_the_first_pending_entry(rig: Rig, caller: Caller) -> None:
    call(caller, "XCFGSET s RETAIN-ACKED no")
    assert ids(rig) == [1, 2, 3, 4, 5, 6]
    call(caller, "XACK s g 1-0 3-0")
    assert ids(rig) == [2, 3, 4, 5, 6]
    call(caller, "XACK s g 2-0")
    assert ids(rig) == [4, 5, 6]
    call(caller, "XACK s g 4-0")
    assert ids(rig) == [5, 6], "5-0 and 6-0 were not delivered yet"


def test_the_slowest_group_decides(rig: Rig, caller: Caller) -> None:
    call(caller, "XGROUP CREATE s slow 0", "XCFGSET s RETAIN-ACKED no", "XACK s g 1-0 2-0 3-0 4-0")
    assert ids(rig) == [1, 2, 3, 4, 5, 6]
    call(caller, "XREADGROUP GROUP slow b COUNT 3 NOACK STREAMS s >")
    assert ids(rig) == [4, 5, 6]


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("XACK s g 1-0 2-0", [3, 4, 5, 6]),
        ("XACKDEL s g KEEPREF IDS 2 1-0 2-0", [3, 4, 5, 6]),
        ("XACKIF s g a IDS 2 1-0 2-0", [3, 4, 5, 6]),
        ("XGROUP DELCONSUMER s g a", [5, 6]),
        ("XDELEX s DELREF IDS 1 1-0", [2, 3, 4, 5, 6]),
        ("XTRIM s MINID 3-0 DELREF", [3, 4, 5, 6]),
        ("XDEL s 1-0", [2, 3, 4, 5, 6]),
        ("XNACK s g FAIL IDS 1 1-0", [1, 2, 3, 4, 5, 6]),
        ("XCLAIM s g b 0 1-0", [1, 2, 3, 4, 5, 6]),
        ("XADD s * f v", [1, 2, 3, 4, 5, 6, START_MS]),
        ("XGROUP SETID s g 6-0", [1, 2, 3, 4, 5, 6]),
        ("XGROUP DESTROY s g", [1, 2, 3, 4, 5, 6]),
    ],
)
def test_every_command_that_frees_entries_counts(line: str, left: list[int], rig: Rig, caller: Caller) -> None:
    call(caller, "XCFGSET s RETAIN-ACKED no")
    call(caller, line)
    assert ids(rig) == left


@pytest.mark.parametrize("line", ["XGROUP DESTROY s slow", "XGROUP SETID s slow $"])
def test_a_group_that_goes_or_is_moved_holds_nothing_any_more(line: str, rig: Rig, caller: Caller) -> None:
    call(caller, "XGROUP CREATE s slow 0", "XCFGSET s RETAIN-ACKED no", "XACK s g 1-0 2-0")
    assert ids(rig) == [1, 2, 3, 4, 5, 6]
    call(caller, line)
    assert ids(rig) == [3, 4, 5, 6]


def test_a_stream_without_groups_keeps_everything(rig: Rig, caller: Caller) -> None:
    call(caller, "XGROUP DESTROY s g", "XCFGSET s RETAIN-ACKED no", "XADD s 7-0 f v")
    visit(rig)
    assert ids(rig) == [1, 2, 3, 4, 5, 6, 7]


def test_the_log_has_one_trim_after_the_acknowledgements_of_a_turn(rig: Rig, caller: Caller) -> None:
    call(caller, "XCFGSET s RETAIN-ACKED no")
    rig.log.units.clear()
    call(caller, "XACK s g 1-0", "XACK s g 2-0", "XACK s g 3-0")
    assert rig.log.units == [[b"XACK s g 1-0"], [b"XACK s g 2-0"], [b"XACK s g 3-0"], [b"XTRIM s MINID = 4-0"]]
    assert stream_of(rig).max_deleted_id == 0
    assert b"$3\r\nlag\r\n:2\r\n" in caller.call("XINFO GROUPS s")


def test_a_trim_is_a_change_to_each_removed_entry(rig: Rig, caller: Caller) -> None:
    call(caller, "XCFGSET s RETAIN-ACKED no")
    before = rig.server.changes_count
    call(caller, "XACK s g 1-0 2-0 3-0")
    assert rig.server.changes_count - before == 3 + 3


def test_a_queue_that_is_worked_off_is_empty(rig: Rig, caller: Caller) -> None:
    call(caller, "XCFGSET s RETAIN-ACKED no", "XREADGROUP GROUP g a STREAMS s >")
    call(caller, "XACK s g 1-0 2-0 3-0 4-0 5-0 6-0")
    assert ids(rig) == []
    assert caller.call("EXISTS s", "XLEN s") == b":1\r\n:0\r\n"
    assert rig.log.units[-1] == [b"XTRIM s MINID = 6-1"]


@pytest.mark.parametrize("seed", range(8))
def test_no_entry_goes_that_a_group_has_pending_or_unread_and_none_stays_before_all_of_them(seed: int) -> None:
    """Method: a random session, against what the pending lists and positions say after each turn."""
    rng, rig = random.Random(seed), Rig()
    caller = rig.connect()
    call(caller, *(f"XGROUP CREATE s {group} $ MKSTREAM" for group in "gh"), "XCFGSET s RETAIN-ACKED no")
    stream = stream_of(rig)
    added: list[int] = []
    for _ in range(300):
        group = rng.choice("gh")
        kind = rng.randrange(4)
        if kind == 0:
            call(caller, *(["XADD s * f v"] * rng.randrange(1, 9)))
            added += stream.log.ids(added[-1] + 1 if added else 0, stream.last_id)
        elif kind == 1:
            call(caller, f"XREADGROUP GROUP {group} c COUNT {rng.randrange(1, 9)} STREAMS s >")
        elif kind == 2:
            held = stream.groups[group.encode()].pending.first_ids(0, 9)
            chosen = rng.sample(held, rng.randrange(len(held) + 1)) if held else []
            if chosen:
                texts = [f"{entry_id // make_id(1, 0)}-{entry_id % make_id(1, 0)}" for entry_id in chosen]
                call(caller, f"XACK s {group} " + " ".join(texts))
        else:
            rig.clock.advance(rng.randrange(5))
        needed = min(min([*each.pending.first_ids(0, 1), each.last_id + 1]) for each in stream.groups.values())
        assert stream.log.ids(0, stream.last_id) == [entry_id for entry_id in added if entry_id >= needed]


# -- IGNORE-GROUPS-IDLE ----------------------------------------------------------------------------


def test_a_group_that_no_consumer_uses_does_not_hold_entries(rig: Rig, caller: Caller) -> None:
    call(caller, "XGROUP CREATE s idle 0", "XCFGSET s RETAIN-ACKED no IGNORE-GROUPS-IDLE 1000")
    call(caller, "XREADGROUP GROUP idle b COUNT 1 STREAMS s >", "XACK s g 1-0 2-0 3-0")
    rig.clock.advance(999)
    call(caller, "XREADGROUP GROUP g a COUNT 1 STREAMS s >")
    visit(rig)
    assert ids(rig) == [1, 2, 3, 4, 5, 6]
    rig.clock.advance(1)
    visit(rig)
    assert ids(rig) == [4, 5, 6]
    assert rig.log.units[-1] == [b"XTRIM s MINID = 4-0"]


def test_a_group_that_is_used_again_holds_entries_again(rig: Rig, caller: Caller) -> None:
    call(caller, "XGROUP CREATE s idle 0", "XCFGSET s RETAIN-ACKED no IGNORE-GROUPS-IDLE 1000")
    rig.clock.advance(5000)
    call(caller, "XREADGROUP GROUP g a COUNT 1 STREAMS s >", "XREADGROUP GROUP idle b COUNT 2 STREAMS s >")
    call(caller, "XACK s g 1-0 2-0 3-0", "XACK s idle 1-0")
    assert ids(rig) == [2, 3, 4, 5, 6]


def test_a_new_group_without_consumers_holds_entries_until_it_has_been_idle_for_so_long(
    rig: Rig, caller: Caller
) -> None:
    call(caller, "XCFGSET s RETAIN-ACKED no IGNORE-GROUPS-IDLE 1000")
    rig.clock.advance(5000)
    call(caller, "XREADGROUP GROUP g a STREAMS s 0", "XGROUP CREATE s new 0")
    call(caller, "XACK s g 1-0 2-0")
    rig.clock.advance(999)
    call(caller, "XREADGROUP GROUP g a STREAMS s 0")
    assert ids(rig) == [1, 2, 3, 4, 5, 6]
    rig.clock.advance(1)
    visit(rig)
    assert ids(rig) == [3, 4, 5, 6]


def test_a_stream_all_of_whose_groups_are_idle_keeps_everything(rig: Rig, caller: Caller) -> None:
    call(caller, "XCFGSET s RETAIN-ACKED no IGNORE-GROUPS-IDLE 1000")
    rig.clock.advance(100_000)
    visit(rig)
    assert ids(rig) == [1, 2, 3, 4, 5, 6]


def test_idle_time_from_before_this_server_began_to_decide_does_not_count(rig: Rig, caller: Caller) -> None:
    """Goal: after a start, consumers have time to come back. A log does not have each time at which one was seen."""
    call(caller, "XGROUP CREATE s idle 0", "XREADGROUP GROUP idle b COUNT 1 STREAMS s >")
    call(caller, "XCFGSET s RETAIN-ACKED no IGNORE-GROUPS-IDLE 1000", "XACK s g 1-0 2-0")
    rig.server.store.keep_expired(True)
    rig.clock.advance(5000)
    visit(rig)
    rig.server.store.keep_expired(False)
    call(caller, "XREADGROUP GROUP g a STREAMS s 0")
    visit(rig)
    assert ids(rig) == [1, 2, 3, 4, 5, 6]
    rig.clock.advance(1000)
    call(caller, "XREADGROUP GROUP g a STREAMS s 0")
    visit(rig)
    assert ids(rig) == [3, 4, 5, 6]


# -- limits ----------------------------------------------------------------------------------------


def test_a_length_holds_after_each_turn_and_keeps_what_is_pending(rig: Rig, caller: Caller) -> None:
    call(caller, "XCFGSET s MAXLEN 3")
    assert ids(rig) == [1, 2, 3, 4, 5, 6], "1-0 is pending"
    call(caller, "XACK s g 1-0 2-0")
    assert ids(rig) == [3, 4, 5, 6]
    call(caller, "XACK s g 3-0 4-0")
    assert ids(rig) == [4, 5, 6]
    call(caller, "XADD s 7-0 f v", "XADD s 8-0 f v", "XADD s 9-0 f v")
    assert ids(rig) == [7, 8, 9], "what no group has read is not pending"
    assert rig.log.units[-1] == [b"XTRIM s MINID = 7-0"]


def test_a_forced_length_takes_what_is_pending(rig: Rig, caller: Caller) -> None:
    call(caller, "XCFGSET s MAXLEN 4 FORCE")
    assert ids(rig) == [3, 4, 5, 6]
    assert b":4\r\n" in caller.call("XPENDING s g"), "as XTRIM, it leaves references"


def test_of_two_limits_each_keeps_its_own_rule_about_pending_entries(rig: Rig, caller: Caller) -> None:
    call(caller, "XCFGSET s MAXLEN 1 MAXAGE 100 FORCE")
    call(caller, f"XADD s {START_MS}-0 f v")
    assert ids(rig) == [START_MS], "the others are too old"
    call(caller, "XREADGROUP GROUP g a STREAMS s >", f"XADD s {START_MS}-1 f v")
    assert ids(rig) == [START_MS, START_MS]
    rig.clock.advance(101)
    visit(rig)
    assert ids(rig) == []


def test_an_age_holds_without_any_command(rig: Rig, caller: Caller) -> None:
    call(caller, "XACK s g 1-0 2-0 3-0 4-0", "XCFGSET s MAXAGE 1000")
    assert ids(rig) == []
    for _ in range(5):
        call(caller, "XADD s * f v")
        rig.clock.advance(300)
    rig.log.units.clear()
    visit(rig)
    assert ids(rig) == [START_MS + after for after in (600, 900, 1200)]
    assert rig.log.units == [[b"XTRIM s MINID = %d-0" % (rig.clock() - 1000)]]
    visit(rig)
    assert len(rig.log.units) == 1


def test_an_age_keeps_what_is_pending(rig: Rig, caller: Caller) -> None:
    call(caller, "XACK s g 1-0", "XCFGSET s MAXAGE 1000")
    assert ids(rig) == [2, 3, 4, 5, 6]


def test_an_age_beyond_the_epoch_takes_nothing(rig: Rig, caller: Caller) -> None:
    call(caller, f"XCFGSET s MAXAGE {2**63 - 1} FORCE")
    visit(rig)
    assert ids(rig) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("value_size", [10, 500, 5000])
def test_bytes_hold_about_and_leave_the_last_entry(value_size: int) -> None:
    rng, rig = random.Random(value_size), Rig()
    caller = rig.connect()
    call(caller, "XADD s * f v", "XCFGSET s MAXBYTES 100000")
    for _ in range(100):
        call(caller, *(f"XADD s * f {rng.randbytes(value_size // 2).hex()}" for _ in range(100)))
    stream = stream_of(rig)
    assert 40_000 < stream.log.memory_size < 230_000
    assert len(stream) < 10_001
    call(caller, "XCFGSET s MAXBYTES 1")
    assert len(stream) == 1
    call(caller, "XADD s * f v")
    assert stream.log.last_id == stream.log.first_id == stream.last_id


def test_a_limit_on_bytes_that_is_kept_trims_no_further(rig: Rig, caller: Caller) -> None:
    call(caller, "XCFGSET s MAXBYTES 100000 FORCE")
    visit(rig)
    assert ids(rig) == [1, 2, 3, 4, 5, 6]


def test_much_to_remove_is_removed_in_parts(rig: Rig, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "REMOVED_COUNT_MAX", 2)
    caller.call("XACK s g 1-0 2-0 3-0 4-0", *(f"XADD t {number}-0 f v" for number in range(1, 7)))
    caller.call("XCFGSET s MAXLEN 1", "XCFGSET t MAXLEN 5")
    lengths = []
    for _ in range(5):
        rig.server.turns.retain()
        lengths.append((len(ids(rig)), len(ids(rig, b"t"))))
    assert lengths == [(4, 6), (2, 5), (1, 5), (1, 5), (1, 5)]
    assert not rig.server.store.used_governed


# -- when --------------------------------------------------------------------------------------------


def test_nothing_goes_after_the_last_snapshot(rig: Rig, caller: Caller) -> None:
    """SHUTDOWN in one read with what makes entries go: the data on disk are those that were served last."""
    caller.call("XACK s g 1-0", "XCFGSET s RETAIN-ACKED no")
    rig.dispatcher.runner.is_over = True
    rig.server.turns.retain()
    assert ids(rig) == [1, 2, 3, 4, 5, 6]
    rig.dispatcher.runner.is_over = False
    rig.server.turns.retain()
    assert ids(rig) == [2, 3, 4, 5, 6]


def test_a_turn_applies_policies_before_its_replies_are_sent_and_then_rests(rig: Rig, caller: Caller) -> None:
    """Goal: a client that gets the reply to its XACK finds the entry gone. On a busy server, it is gone a moment later,
    so that many entries go at once.
    """
    turns: Any = rig.server.turns
    turns._is_flush_scheduled = True  # there is no loop here
    caller.call("XCFGSET s RETAIN-ACKED no", "XACK s g 1-0")
    turns.finish()
    assert ids(rig) == [2, 3, 4, 5, 6]
    before_ns = perf_counter_ns()
    assert 0 < turns.retention_due_ns < before_ns + RETENTION_REST_NS
    turns.retention_due_ns = before_ns + 3_600_000_000_000
    for line in ("XACK s g 2-0", "XACK s g 3-0"):
        caller.call(line)
        turns.finish()
        assert ids(rig) == [2, 3, 4, 5, 6]
    turns.retention_due_ns = before_ns
    turns.finish()
    assert ids(rig) == [4, 5, 6]


async def test_the_reply_comes_when_the_entry_is_gone() -> None:
    async with running_server() as running:
        peer = await running.connect()
        peer.send("XADD", "s", "1-0", "f", "v")
        peer.send("XGROUP", "CREATE", "s", "g", "0")
        peer.send("XREADGROUP", "GROUP", "g", "c", "NOACK", "STREAMS", "s", ">")
        peer.send("XCFGSET", "s", "RETAIN-ACKED", "no")
        await peer.expect(
            b"$3\r\n1-0\r\n+OK\r\n*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n1-0\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n+OK\r\n"
        )
        peer.send("XLEN", "s")
        await peer.expect(b":0\r\n")


async def test_the_periodic_work_applies_what_a_turn_has_left_and_finds_what_became_too_old() -> None:
    clock = Rig().clock
    async with running_server(clock=clock) as running:
        peer, server = await running.connect(), running.server
        server.turns.retention_due_ns = perf_counter_ns() + 3_600_000_000_000
        for key in ("s", "t"):
            peer.send("XADD", key, "*", "f", "v")
        peer.send("XADD", "t", "*", "f", "v")
        peer.send("XCFGSET", "s", "MAXAGE", "500")
        peer.send("XCFGSET", "t", "MAXLEN", "1")
        await peer.expect(b"$15\r\n%d-0\r\n" % START_MS * 2 + b"$15\r\n%d-1\r\n+OK\r\n+OK\r\n" % START_MS)
        server.periodic.run()
        peer.send("XLEN", "t")
        await peer.expect(b":1\r\n")
        clock.advance(501)
        for _ in range(server.config.hz):
            server.periodic.run()
        peer.send("XLEN", "s")
        await peer.expect(b":0\r\n")


def test_only_a_primary_that_serves_decides(rig: Rig, caller: Caller) -> None:
    store = rig.server.store
    caller.call("XCFGSET s MAXLEN 1 FORCE")
    for begin, end in (
        (lambda: store.keep_expired(True), lambda: store.keep_expired(False)),  # a replica, or a pause
        (store.freeze, store.thaw),  # a dataset is loaded, or what a primary sent is applied
    ):
        begin()
        call(caller, "XADD s * f v")
        visit(rig)
        assert len(ids(rig)) > 6
        end()
    assert [b"XTRIM" in unit[0] for unit in rig.log.units].count(True) == 0
    visit(rig)
    assert len(ids(rig)) == 1


def test_a_snapshot_that_is_read_has_what_was_removed_meanwhile(rig: Rig, caller: Caller) -> None:
    call(caller, "XCFGSET s MAXAGE 2000000000000 FORCE")
    image = rig.server.context.image = StoreImage(rig.server.store)
    rig.clock.advance(1_000_000_000_000)
    visit(rig)
    assert ids(rig) == []
    (image_of_key,) = image
    assert isinstance(image_of_key.value, StreamImage)
    assert len(image_of_key.value) == 6
    assert list(lines_of(b"s", image_of_key.value)) == [[b"XCFGSET", b"s", b"MAXAGE", b"2000000000000", b"FORCE"]]


def test_an_expired_key_is_left_to_expiry(rig: Rig, caller: Caller) -> None:
    call(caller, "XCFGSET s MAXAGE 2000000000000 FORCE", "PEXPIRE s 100")
    rig.clock.advance(1_000_000_000_000)
    rig.log.units.clear()
    visit(rig)
    assert rig.log.units == []


def test_a_visit_ends_with_its_time_and_the_next_one_continues(rig: Rig, caller: Caller) -> None:
    for number in range(40):
        caller.call(f"XADD k{number} 1-0 f v", f"XCFGSET k{number} MAXAGE 1")
    rig.server.store.used_governed.clear()
    turns = rig.server.turns
    for left in (41 - retention.STREAM_COUNT_AT_ONCE, 41 - 2 * retention.STREAM_COUNT_AT_ONCE, 1):
        looks = iter((False, True))
        turns.retention.visit(rig.clock(), lambda looks=looks: next(looks), begins_round=left == 25)
        lengths = [len(ids(rig, b"k%d" % number)) for number in range(40)]
        assert sum(lengths) == left - 1
    rig.dispatcher.units.log_own()


def test_claim_that_drops_deleted_entries_frees_those_after_them(rig: Rig, caller: Caller) -> None:
    for line in ("XAUTOCLAIM s g b 0 0 COUNT 1", "XCLAIM s g b 0 2-0"):
        call(caller, "XCFGSET s RETAIN-ACKED no", "XACK s g 1-0 3-0 4-0", "XDEL s 2-0")
        assert ids(rig) in ([3, 4, 5, 6], [5, 6])
        call(caller, line)
        assert ids(rig) == [5, 6]


def test_time_of_an_idle_group_passes_while_another_one_keeps_the_first_entry(rig: Rig, caller: Caller) -> None:
    call(caller, "XGROUP CREATE s idle 0", "XCFGSET s RETAIN-ACKED no IGNORE-GROUPS-IDLE 5000")
    for _ in range(6):
        rig.clock.advance(1000)
        call(caller, "XREADGROUP GROUP g a COUNT 1 CLAIM 0 STREAMS s >")
        visit(rig)
    call(caller, "XACK s g 1-0 2-0 3-0 4-0")
    assert ids(rig) == [5, 6]


# -- options -----------------------------------------------------------------------------------------

VALUES = {StreamKind.FLAG: ("no",), StreamKind.TIME: ("1", "5000"), StreamKind.LIMIT: ("1", "5000", "77 FORCE")}
TAKING_BACK = {StreamKind.FLAG: ("yes", '""'), StreamKind.TIME: ("0", "no", '""'), StreamKind.LIMIT: ("0", "NO", '""')}
BAD_VALUES = {
    StreamKind.FLAG: ("maybe", "1"),
    StreamKind.TIME: ("-1", "x", "1.5", "yes", "9223372036854775808", "01"),
    StreamKind.LIMIT: ("-1", "x", "1.5", "yes", "9223372036854775808", "01"),
}
ALL = " ".join(f"{setting.name.decode()} {VALUES[setting.kind][-1]}" for setting in STREAM_SETTINGS)


def policy_words(rig: Rig) -> str:
    policy = stream_of(rig).policy
    return "" if policy is None else b" ".join(policy.words()).decode()


@pytest.mark.parametrize(
    ("name", "value"),
    [(setting.name.decode(), value) for setting in STREAM_SETTINGS for value in VALUES[setting.kind]],
)
def test_each_option_is_set_shown_and_taken_back(name: str, value: str, rig: Rig, caller: Caller) -> None:
    setting = next(each for each in STREAM_SETTINGS if each.name.decode() == name)
    before = caller.call("XINFO STREAM s", "XINFO STREAM s FULL")
    assert caller.call(f"XCFGSET s {name.lower()} {value}") == b"+OK\r\n"
    assert policy_words(rig) == f"{name} {value}"
    for line in ("XINFO STREAM s", "XINFO STREAM s FULL"):
        number = value.split()[0]
        shown = f"${len(setting.field)}\r\n{setting.field.decode()}\r\n"
        shown += f"$2\r\n{value}\r\n" if setting.kind is StreamKind.FLAG else f":{number}\r\n"
        if "FORCE" in value:
            shown += f"${len(setting.field) + 6}\r\n{setting.field.decode()}-force\r\n$3\r\nyes\r\n"
        assert caller.call(line).endswith(shown.encode())
    for taking_back in TAKING_BACK[setting.kind]:
        caller.call(f"XCFGSET s {name} {value}")
        assert caller.call(f"XCFGSET s {name} {taking_back}") == b"+OK\r\n"
        assert stream_of(rig).policy is None
        assert caller.call("XINFO STREAM s", "XINFO STREAM s FULL") == before


@pytest.mark.parametrize("protocol", [2, 3])
def test_the_reply_of_xinfo_counts_its_fields(protocol: int, rig: Rig, caller: Caller) -> None:
    caller.call(f"HELLO {protocol}", f"XCFGSET s {ALL}", "XCFGSET s MAXLEN 1000", "XGROUP DESTROY s g")
    fields = 13 + 3 + len(STREAM_SETTINGS) + 2
    head = b"*%d\r\n" % (2 * fields) if protocol == 2 else b"%%%d\r\n" % fields
    assert caller.call("XINFO STREAM s").startswith(head)
    full_fields = fields - 1
    head = b"*%d\r\n" % (2 * full_fields) if protocol == 2 else b"%%%d\r\n" % full_fields
    assert caller.call("XINFO STREAM s FULL").startswith(head)


def test_an_option_changes_only_itself(rig: Rig, caller: Caller) -> None:
    caller.call(f"XCFGSET s {ALL}", "XCFGSET s MAXLEN 1000", "XCFGSET s MAXAGE 0 RETAIN-ACKED yes")
    assert policy_words(rig) == "MAXLEN 1000 MAXBYTES 77 FORCE IGNORE-GROUPS-IDLE 5000"


def test_redis_own_options_and_these_go_together(rig: Rig, caller: Caller) -> None:
    assert caller.call("XCFGSET s MAXLEN 1000 IDMP-MAXSIZE 7 RETAIN-ACKED no IDMP-DURATION 9") == b"+OK\r\n"
    assert policy_words(rig) == "RETAIN-ACKED no MAXLEN 1000"
    assert (stream_of(rig).idempotence.entries_max, stream_of(rig).idempotence.duration_s) == (7, 9)
    assert rig.log.units[0][0] == b"XCFGSET s IDMP-MAXSIZE 7 IDMP-DURATION 9"


def test_the_server_log_says_who_set_what(caller: Caller, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        caller.call("XCFGSET s MAXLEN 1000 FORCE", "XCFGSET s MAXLEN 1000 FORCE", "XCFGSET s MAXLEN 0")
    lines = [record.message for record in caplog.records if "policy" in record.message]
    assert [line.rpartition(": ")[2] for line in lines] == ["MAXLEN 1000 FORCE", "none"]
    assert all("stream b's' set by user b'default' from 127.0.0.1:" in line for line in lines)


def test_what_changes_nothing_is_not_logged(rig: Rig, caller: Caller) -> None:
    caller.call("XCFGSET s MAXLEN 1000")
    rig.log.units.clear()
    caller.call("XCFGSET s MAXLEN 1000", "XCFGSET s MAXAGE 0 RETAIN-ACKED yes")
    assert rig.log.units == []


SYNTAX = b"-ERR syntax error\r\n"
NOT_A_NUMBER = b"-ERR value is not an integer or out of range\r\n"
BAD = [
    *(
        (f"{setting.name.decode()} {value}", SYNTAX if setting.kind is StreamKind.FLAG else NOT_A_NUMBER)
        for setting in STREAM_SETTINGS
        for value in BAD_VALUES[setting.kind]
    ),
    *((setting.name.decode(), SYNTAX) for setting in STREAM_SETTINGS),
    *(
        (
            f"{setting.name.decode()} {VALUES[setting.kind][0]} {setting.name.decode()} {VALUES[setting.kind][0]}",
            b"-ERR %b specified multiple times\r\n" % setting.name,
        )
        for setting in STREAM_SETTINGS
    ),
    *(
        (f"{setting.name.decode()} {VALUES[setting.kind][0]} FORCE", SYNTAX)
        for setting in STREAM_SETTINGS
        if setting.kind is not StreamKind.LIMIT
    ),
    *(
        (f"{setting.name.decode()} {value} FORCE", b"-ERR FORCE needs a value of %b\r\n" % setting.name)
        for setting in STREAM_SETTINGS
        if setting.kind is StreamKind.LIMIT
        for value in TAKING_BACK[setting.kind]
    ),
    *(
        (f"{setting.name.decode()} 5 FORCE FORCE", SYNTAX)
        for setting in STREAM_SETTINGS
        if setting.kind is StreamKind.LIMIT
    ),
    ("FORCE", SYNTAX),
    ("FORCE MAXLEN 5", SYNTAX),
    ("MAXLEN 5 IDMP-MAXSIZE 0", b"-ERR IDMP-MAXSIZE must be between 1 and 10000 entries\r\n"),
    ("IDMP-MAXSIZE 5 MAXLEN", SYNTAX),
]


@pytest.mark.parametrize(("options", "error"), BAD)
def test_a_wrong_option_changes_nothing(options: str, error: bytes, rig: Rig, caller: Caller) -> None:
    caller.call(f"XCFGSET s {ALL}")
    before, unlogged = caller.call("XINFO STREAM s"), len(rig.log.units)
    for line in (f"XCFGSET s {options}", f"XCFGSET s IDMP-DURATION 9 {options}"):
        assert caller.call(line) == error
    assert caller.call("XINFO STREAM s") == before
    assert len(rig.log.units) == unlogged


def test_a_missing_key_and_one_of_another_type_are_refused(caller: Caller) -> None:
    caller.call("SET t x")
    assert caller.call(f"XCFGSET none {ALL}") == b"-ERR no such key\r\n"
    assert caller.call(f"XCFGSET t {ALL}").startswith(b"-WRONGTYPE ")
    assert caller.call("XCFGSET s") == b"-ERR At least one parameter must be specified\r\n"


def test_each_setting_is_an_argument_of_the_command() -> None:
    tokens = [each.token or each.arguments[0].token for each in RETENTION_ARGUMENTS]
    assert tokens == [setting.name.decode() for setting in STREAM_SETTINGS]
    assert all(each.is_own for each in RETENTION_ARGUMENTS)


# -- everywhere --------------------------------------------------------------------------------------


def test_it_acts_in_transactions_and_scripts_after_them(rig: Rig, caller: Caller) -> None:
    pytest.importorskip("lupa")
    call(caller, "MULTI", "XCFGSET s RETAIN-ACKED no", "XACK s g 1-0", "XLEN s", "EXEC")
    assert ids(rig) == [2, 3, 4, 5, 6]
    assert [b" ".join(unit) for unit in rig.log.units[-2:]][1] == b"XTRIM s MINID = 2-0"
    call(caller, "EVAL \"redis.call('XACK', KEYS[1], 'g', '2-0') return redis.call('XLEN', KEYS[1])\" 1 s")
    assert ids(rig) == [3, 4, 5, 6]
    assert rig.log.units[-1] == [b"XTRIM s MINID = 3-0"]
    assert call(caller, "EVAL \"return redis.call('XCFGSET', KEYS[1], 'MAXLEN', '2', 'FORCE')\" 1 s") == b"+OK\r\n"
    assert ids(rig) == [5, 6]


def test_a_user_who_may_not_trim_sets_entries_free(rig: Rig, caller: Caller) -> None:
    caller.call("XCFGSET s RETAIN-ACKED no", "ACL SETUSER worker on >pw ~s +xack +auth")
    worker = rig.connect()
    assert call(worker, "AUTH worker pw", "XTRIM s MAXLEN 0", "XCFGSET s MAXLEN 1", "XACK s g 1-0").split(b"\r\n")[
        -2:
    ] == [b":1", b""]
    assert policy_words(rig) == "RETAIN-ACKED no"
    assert ids(rig) == [2, 3, 4, 5, 6]


def test_a_transaction_that_watches_the_key_fails_and_subscribers_get_xtrim(rig: Rig, caller: Caller) -> None:
    listener, watcher = rig.connect(), rig.connect()
    caller.call("XCFGSET s MAXAGE 1 FORCE", 'CONFIG SET notify-keyspace-events "Et"')
    listener.call("PSUBSCRIBE __key*")
    watcher.call("WATCH s", "MULTI", "PING")
    visit(rig)
    assert watcher.call("EXEC") == b"*-1\r\n"
    assert listener.output().endswith(b"$21\r\n__keyevent@0__:xtrim\r\n$1\r\ns\r\n".replace(b"$21", b"$20"))


@pytest.mark.parametrize(
    ("lines", "db", "key", "stays"),
    [
        (("RENAME s t",), 0, b"t", False),
        (("COPY s t",), 0, b"t", True),
        (("COPY s t DB 3",), 3, b"t", True),
        (("MOVE s 3",), 3, b"s", False),
        (("SWAPDB 0 3",), 3, b"s", False),
        (("XADD t 1-0 f v", "RENAME s t"), 0, b"t", False),
        (("SET s2 x", "RENAME s2 t", "RENAME s t"), 0, b"t", False),
    ],
)
def test_a_policy_goes_where_the_stream_goes(
    lines: tuple[str, ...], db: int, key: bytes, stays: bool, rig: Rig, caller: Caller
) -> None:
    call(caller, "XCFGSET s RETAIN-ACKED no MAXLEN 100", *lines)
    caller.call(f"SELECT {db}")
    call(caller, f"XACK {key.decode()} g 1-0")
    assert ids(rig, key, db) == [2, 3, 4, 5, 6]
    if stays:
        assert ids(rig) == [1, 2, 3, 4, 5, 6]
    for each in rig.server.store.databases:
        each.check()


def test_a_copy_has_a_policy_of_its_own(rig: Rig, caller: Caller) -> None:
    call(caller, "XCFGSET s MAXLEN 100", "COPY s t", "XCFGSET s MAXLEN 1 FORCE", "XCFGSET t RETAIN-ACKED no")
    assert ids(rig, b"t") == [1, 2, 3, 4, 5, 6]
    assert ids(rig) == [6]


@pytest.mark.parametrize(
    "line",
    ["DEL s", "UNLINK s", "SET s x", "FLUSHALL", "FLUSHDB ASYNC", "RESTORE s 0 PAYLOAD REPLACE", "PEXPIRE s -1"],
)
def test_a_policy_dies_with_its_stream(line: str, rig: Rig, caller: Caller) -> None:
    db = rig.server.store.databases[0]
    caller.call("XCFGSET s RETAIN-ACKED no MAXLEN 1 FORCE", "XADD other 1-0 f v")
    if "PAYLOAD" in line:
        payload = caller.call("DUMP other").split(b"\r\n", 1)[1][:-2]
        caller.rig.dispatcher.execute(caller.session, [[b"RESTORE", b"s", b"0", payload, b"REPLACE"]], rig.clock())
        assert caller.output() == b"+OK\r\n"
    else:
        call(caller, line)
    assert not db.governed
    db.check()
    call(caller, "DEL s", "XADD s 1-0 f v", "XADD s 2-0 f v")
    assert ids(rig) == [1, 2]


def test_a_dump_carries_no_policy(rig: Rig, caller: Caller) -> None:
    before = caller.call("DUMP s")
    caller.call("XCFGSET s RETAIN-ACKED no")
    assert caller.call("DUMP s") == before
