"""ORDER-BY: while an entry of a value is pending, later ones of that value are not handed out."""

from __future__ import annotations

from typing import Any

import hiredis
import pytest

from support.inprocess import Caller, Rig

NEVER_MS = 2**63 - 1
READ = "XREADGROUP GROUP g w COUNT 100 STREAMS s >"


def ask(caller: Caller, line: str) -> Any:
    """The reply to a command."""
    reader = hiredis.Reader()
    reader.feed(caller.call(line))
    return reader.gets()


def ids_of(entries: list[Any]) -> list[str]:
    return [entry[0].decode() for entry in entries]


def read(caller: Caller, line: str = READ) -> list[str]:
    """The IDs that a read of one stream is given."""
    reply = ask(caller, line)
    return ids_of(reply[0][1]) if reply else []


def pending(caller: Caller) -> list[tuple[str, str, int]]:
    """ID, owner and delivery count of the pending entries."""
    return [(row[0].decode(), row[1].decode(), row[3]) for row in ask(caller, "XPENDING s g - + 99")]


@pytest.fixture
def rig() -> Rig:
    """A stream of six entries: 1, 2 and 4 are of customer a, 3 and 5 of b, and 6 has no customer."""
    rig = Rig()
    values = ("a", "a", "b", "a", "b")
    rig.connect().call(
        *(f"XADD s {number}-0 f v customer {value}" for number, value in enumerate(values, 1)),
        "XADD s 6-0 f v",
        "XGROUP CREATE s g 0",
        "XGROUP CONFIG s g ORDER-BY customer",
    )
    rig.log.units.clear()
    return rig


@pytest.fixture
def caller(rig: Rig) -> Caller:
    return rig.connect()


def logged(rig: Rig) -> list[bytes]:
    """The records since the last call."""
    records = [record for unit in rig.log.units for record in unit]
    rig.log.units.clear()
    return records


# -- reading ---------------------------------------------------------------------------------------


def test_a_read_is_given_one_entry_of_each_value_and_all_without_the_field(caller: Caller) -> None:
    assert read(caller) == ["1-0", "3-0", "6-0"]
    assert read(caller) == []


def test_what_waits_is_pending_without_an_owner_and_was_never_delivered(caller: Caller) -> None:
    read(caller)
    assert [row for row in pending(caller) if not row[1]] == [("2-0", "", 0), ("4-0", "", 0), ("5-0", "", 0)]
    assert b"last-delivered-id\r\n$3\r\n6-0" in caller.call("XINFO GROUPS s")


def test_the_next_entry_is_handed_out_by_a_plain_read_and_its_delivery_is_the_first(caller: Caller) -> None:
    read(caller)
    caller.call("XACK s g 1-0")
    assert read(caller) == ["2-0"]
    assert ("2-0", "w", 1) in pending(caller)


def test_entries_of_a_value_are_delivered_in_the_order_of_their_ids(caller: Caller) -> None:
    seen = []
    while ids := read(caller, "XREADGROUP GROUP g w COUNT 1 STREAMS s >"):
        seen += ids
        caller.call(f"XACK s g {ids[0]}")
    assert [entry_id for entry_id in seen if entry_id in ("1-0", "2-0", "4-0")] == ["1-0", "2-0", "4-0"]
    assert sorted(seen) == [f"{number}-0" for number in range(1, 7)]


@pytest.mark.parametrize(
    "line",
    [
        "XACK s g 1-0",
        "XACKIF s g w IDS 1 1-0",
        "XACKDEL s g IDS 1 1-0",
        "XDEL s 1-0",
        "XDELEX s KEEPREF IDS 1 1-0",
        "XDELEX s DELREF IDS 1 1-0",
        "XTRIM s MINID 2",
        "XTRIM s MAXLEN 5 DELREF",
        "XADD s MAXLEN = 6 7-0 f v",
        "XADD s MAXLEN = 6 DELREF 7-0 f v",
    ],
)
def test_the_next_entry_has_the_turn_at_once_and_a_reader_that_waits_is_woken(
    line: str, rig: Rig, caller: Caller
) -> None:
    read(caller)
    waiting = rig.connect()
    assert waiting.call("XREADGROUP GROUP g other COUNT 1 BLOCK 0 STREAMS s >") == b""
    caller.call(line)
    assert b"2-0" in waiting.output()
    assert ("2-0", "other", 1) in pending(caller)


def test_an_entry_that_the_policy_of_the_stream_removes_ends_its_turn(rig: Rig, caller: Caller) -> None:
    read(caller)
    waiting = rig.connect()
    waiting.call("XREADGROUP GROUP g other BLOCK 0 STREAMS s >")
    logged(rig)
    caller.call("XCFGSET s MAXLEN 5 FORCE")
    rig.server.turns.retain()
    assert b"2-0" in waiting.output()
    assert b"#HR DUE s g %d 2-0" % rig.clock() in logged(rig)


def test_a_deleted_consumer_ends_its_turns(caller: Caller) -> None:
    read(caller)
    caller.call("XGROUP DELCONSUMER s g w")
    assert read(caller) == ["2-0", "5-0"]


def test_a_dead_letter_ends_its_turn(caller: Caller) -> None:
    caller.call("XGROUP CONFIG s g MAX-DELIVERIES 1 DEADLETTER dead")
    read(caller)
    caller.call("XNACK s g FAIL IDS 1 1-0")
    assert caller.call("XLEN dead") == b":1\r\n"
    assert read(caller) == ["2-0"]


def test_of_many_readers_that_wait_one_is_given_the_next_entry(rig: Rig, caller: Caller) -> None:
    read(caller)
    readers = [rig.connect() for _ in range(5)]
    for number, reader in enumerate(readers):
        assert reader.call(f"XREADGROUP GROUP g r{number} COUNT 1 BLOCK 0 STREAMS s >") == b""
    caller.call("XADD s 7-0 customer b")
    assert [reader.output() for reader in readers] == [b""] * 5
    caller.call("XACK s g 3-0")
    outputs = [reader.output() for reader in readers]
    assert b"5-0" in outputs[0]
    assert outputs[1:] == [b""] * 4
    caller.call("XACK s g 1-0 5-0")
    outputs = [reader.output() for reader in readers[1:]]
    assert b"2-0" in outputs[0]
    assert b"7-0" in outputs[1]
    assert outputs[2:] == [b""] * 2


def test_a_new_entry_waits_for_those_that_wait(caller: Caller) -> None:
    read(caller)
    caller.call("XADD s 7-0 customer b", "XACK s g 3-0")
    assert read(caller) == ["5-0"]
    caller.call("XACK s g 5-0")
    assert read(caller) == ["7-0"]


def test_a_read_with_noack_lets_no_entry_wait(caller: Caller) -> None:
    assert read(caller, "XREADGROUP GROUP g w NOACK STREAMS s >") == [f"{number}-0" for number in range(1, 7)]
    assert pending(caller) == []


def test_a_read_with_noack_passes_what_waits_for_a_pending_entry(caller: Caller) -> None:
    assert read(caller, "XREADGROUP GROUP g w COUNT 1 STREAMS s >") == ["1-0"]
    assert read(caller, "XREADGROUP GROUP g w NOACK STREAMS s >") == ["3-0", "5-0", "6-0"]
    caller.call("XACK s g 1-0")
    assert read(caller, "XREADGROUP GROUP g w NOACK STREAMS s >") == ["2-0"]
    assert read(caller, "XREADGROUP GROUP g w NOACK STREAMS s >") == ["4-0"]
    assert pending(caller) == []


def test_a_limit_of_the_reply_loses_no_entry(caller: Caller) -> None:
    seen = []
    for _ in range(20):
        for entry_id in read(caller, "XREADGROUP GROUP g w MAXSIZE 1 STREAMS s >"):
            seen.append(entry_id)
            caller.call(f"XACK s g {entry_id}")
    assert sorted(seen) == [f"{number}-0" for number in range(1, 7)]


def test_other_groups_of_the_stream_have_no_order(caller: Caller) -> None:
    caller.call("XGROUP CREATE s h 0")
    assert len(read(caller, "XREADGROUP GROUP h w STREAMS s >")) == 6


# -- releasing and claiming ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line", ["XNACK s g FAIL IDS 1 1-0", "XNACK s g FAIL IDS 1 1-0 DELAY 100", "XGROUP DELCONSUMER s g w RELEASE"]
)
def test_an_entry_that_is_released_keeps_its_turn(line: str, rig: Rig, caller: Caller) -> None:
    caller.call("XGROUP CONFIG s g REDELIVER 60000")
    assert read(caller, "XREADGROUP GROUP g w COUNT 1 STREAMS s >") == ["1-0"]
    caller.call(line)
    rig.pass_time(100)
    assert read(caller) == ["1-0", "3-0", "6-0"]


@pytest.mark.parametrize(
    ("line", "claimed"),
    [
        ("XAUTOCLAIM s g c 1 0", [b"0-0", [], []]),
        ("XCLAIM s g c 1 2-0 4-0", []),
        ("XREADGROUP GROUP g c CLAIM 1 STREAMS s >", None),
    ],
)
def test_a_claim_of_idle_entries_is_not_given_what_waits(line: str, claimed: object, caller: Caller) -> None:
    read(caller)
    assert ask(caller, line) == claimed


def test_a_claim_of_idle_entries_is_given_what_has_the_turn(caller: Caller) -> None:
    read(caller)
    caller.call("XACK s g 1-0 3-0")
    assert ids_of(ask(caller, "XAUTOCLAIM s g c 1 0")[1]) == ["2-0", "5-0"]


def test_a_claim_without_an_idle_time_takes_what_waits(caller: Caller) -> None:
    read(caller)
    assert ids_of(ask(caller, "XCLAIM s g c 0 4-0")) == ["4-0"]
    caller.call("XNACK s g FAIL IDS 1 4-0")
    assert ask(caller, "XCLAIM s g c 1 4-0") == [], "it waits again"


def test_an_earlier_entry_takes_the_turn_of_one_that_no_consumer_has(rig: Rig, caller: Caller) -> None:
    read(caller)
    caller.call("XACK s g 1-0", "XGROUP SETID s g 0")
    logged(rig)
    assert read(caller, "XREADGROUP GROUP g w COUNT 1 STREAMS s >") == ["2-0"]
    caller.call("XNACK s g FAIL IDS 1 2-0", "XNACK s g FAIL IDS 1 1-0 FORCE")
    assert b"#HR DUE s g %d 2-0" % NEVER_MS in logged(rig)
    assert ids_of(ask(caller, "XAUTOCLAIM s g c 1 0")[1]) == ["1-0"]


def test_a_delay_is_kept_by_an_entry_that_waits(rig: Rig, caller: Caller) -> None:
    read(caller)
    caller.call("XCLAIM s g c 0 2-0", "XNACK s g FAIL IDS 1 2-0 DELAY 500", "XACK s g 1-0")
    assert ids_of(ask(caller, "XAUTOCLAIM s g c 1000 0")[1]) == []
    rig.pass_time(500)
    assert ids_of(ask(caller, "XAUTOCLAIM s g c 1000 0")[1]) == ["2-0"]


def test_a_delay_that_ends_before_the_turn_gives_no_turn(rig: Rig, caller: Caller) -> None:
    read(caller)
    caller.call("XCLAIM s g c 0 2-0", "XNACK s g FAIL IDS 1 2-0 DELAY 500")
    rig.pass_time(500)
    assert ids_of(ask(caller, "XAUTOCLAIM s g c 1000 0")[1]) == []
    caller.call("XACK s g 1-0")
    assert ids_of(ask(caller, "XAUTOCLAIM s g c 1000 0")[1]) == ["2-0"]


# -- settings --------------------------------------------------------------------------------------


def test_without_an_order_all_that_waited_is_handed_out(caller: Caller) -> None:
    read(caller)
    caller.call('XGROUP CONFIG s g ORDER-BY ""')
    assert read(caller) == ["2-0", "4-0", "5-0"]


def test_an_order_that_is_set_later_holds_for_pending_entries(caller: Caller) -> None:
    caller.call('XGROUP CONFIG s g ORDER-BY ""')
    assert read(caller, "XREADGROUP GROUP g w COUNT 4 STREAMS s >") == ["1-0", "2-0", "3-0", "4-0"]
    caller.call("XNACK s g SILENT IDS 2 2-0 4-0", "XGROUP CONFIG s g ORDER-BY customer")
    assert read(caller) == ["6-0"]
    assert ask(caller, "XCLAIM s g c 1 2-0 4-0") == []
    caller.call("XACK s g 1-0")
    assert read(caller) == ["2-0"]


def test_another_field_makes_another_order(caller: Caller) -> None:
    read(caller)
    caller.call("XGROUP CONFIG s g ORDER-BY f")
    assert read(caller) == []
    caller.call("XACK s g 1-0")
    assert read(caller) == ["2-0"]


def test_max_parked_bounds_what_waits(caller: Caller) -> None:
    caller.call("XGROUP CONFIG s g MAX-PARKED 1")
    assert read(caller) == ["1-0", "3-0"]
    assert pending(caller) == [("1-0", "w", 1), ("2-0", "", 0), ("3-0", "w", 1)]
    caller.call("XACK s g 3-0")
    assert read(caller) == [], "4-0 has no place"
    caller.call("XACK s g 1-0")
    assert read(caller) == ["2-0", "5-0", "6-0"]


@pytest.mark.parametrize(
    "lines",
    [["RENAME s t"], ["COPY s t"], ["MOVE s 1", "SELECT 1", "RENAME s t"], ["SWAPDB 0 1", "SELECT 1", "RENAME s t"]],
)
def test_the_order_goes_with_the_stream(lines: list[str], caller: Caller) -> None:
    read(caller)
    caller.call(*lines)
    again = "XREADGROUP GROUP g w STREAMS t >"
    assert read(caller, again) == []
    caller.call("XACK t g 1-0 3-0")
    assert read(caller, again) == ["2-0", "5-0"]


def test_a_copy_has_an_order_of_its_own(caller: Caller) -> None:
    read(caller)
    caller.call("COPY s t", "XACK t g 1-0")
    assert read(caller) == []
    assert read(caller, "XREADGROUP GROUP g w STREAMS t >") == ["2-0"]


# -- the log ---------------------------------------------------------------------------------------


def test_what_waits_is_logged_as_released_and_due_never(rig: Rig, caller: Caller) -> None:
    read(caller)
    assert logged(rig) == [
        b"XNACK s g FAIL IDS 3 2-0 4-0 5-0 RETRYCOUNT 0 FORCE",
        b"#HR DUE s g %d 2-0 4-0 5-0" % NEVER_MS,
        b"XCLAIM s g w 0 1-0 3-0 6-0 TIME %d RETRYCOUNT 1 FORCE JUSTID LASTID 0-0" % rig.clock(),
        b"XGROUP SETID s g 6-0 ENTRIESREAD 6",
    ]


def test_a_turn_is_logged_as_due_now(rig: Rig, caller: Caller) -> None:
    read(caller)
    logged(rig)
    caller.call("XACK s g 1-0 3-0")
    assert logged(rig) == [b"XACK s g 1-0 3-0", b"#HR DUE s g %d 2-0 5-0" % rig.clock()]


def test_the_number_of_entries_that_wait_is_shown(caller: Caller) -> None:
    read(caller)
    report = ask(caller, "XINFO POLICY s g")
    shown = dict(zip(report[::2], report[1::2], strict=True))
    assert (shown[b"parked"], shown[b"delayed"], shown[b"next-due"]) == (3, 0, None)
