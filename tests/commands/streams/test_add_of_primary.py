"""XADD as a primary sends it: the short way does what the long way does."""

from __future__ import annotations

import random

import pytest

from headrace.commands.streams import add
from support.inprocess import Caller, Rig
from support.rows_scene import check, state_of

FIRST_MS = 1000


def subject() -> tuple[Rig, Caller]:
    """A server with some streams, and its primary."""
    rig = Rig()
    caller = rig.connect()
    caller.call("SET text v")
    for key in ("s", "policy"):
        caller.call(*(f"XADD {key} {number}-1 f v{number}" for number in range(1, 300)))
        caller.call(f"XGROUP CREATE {key} g 0", f"XREADGROUP GROUP g c COUNT 250 STREAMS {key} >")
    caller.call(
        "XGROUP CONFIG policy g ORDER-BY f MAX-PENDING 9", "XDEL s 5-1 6-1", "XADD low 9-9 f v", "XSETID low 5-0"
    )
    caller.client.is_primary = True
    rig.log.units.clear()
    return rig, caller


def lines(source: random.Random) -> list[str]:
    """Requests of the short forms, of ones that look like them, and wrong ones."""
    found = []
    for number in range(400):
        entry_id = source.choice(
            [f"{FIRST_MS + number}-{number % 3}", f"{FIRST_MS + number}", f"{number}-1", "0-0", "5-x"]
        )
        option = source.choice([
            "", "", "MAXLEN = 250", "MAXLEN = 0", "MAXLEN = 1", "maxlen = 200", "MAXLEN ~ 100", "MAXLEN 240",
            "MAXLEN = 99999999999999999999", "MAXLEN = x", "MAXLEN = -1", "MINID = 40", "NOMKSTREAM",
            "KEEPREF MAXLEN = 260", "MAXLEN = 230 DELREF", "IDMP p i",
        ])  # fmt: skip
        pairs = source.choice(["f v", "f v g w", "f", "", "f v g"])
        key = source.choice(["s", "s", "policy", "low", "text", "missing"])
        found.append(" ".join(filter(None, ("XADD", key, option, entry_id, pairs))))
    return found


@pytest.mark.parametrize("seed", range(8))
def test_the_short_way_does_what_the_long_way_does(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (one, by_short), (other, by_long) = subject(), subject()
    for line in lines(random.Random(seed)):
        replies = [by_short.call(line)]
        with monkeypatch.context() as patch:
            patch.setattr(by_long.client, "is_primary", False)
            replies.append(by_long.call(line))
        assert replies[0] == replies[1], line
        assert one.log.units == other.log.units, line
    assert state_of(one.server.store) == state_of(other.server.store)
    check(one.server.store)


def test_an_addition_of_a_primary_wakes_a_blocked_reader() -> None:
    rig, primary = subject()
    reader = rig.connect()
    assert reader.call("XREAD BLOCK 0 STREAMS s $") == b""
    primary.call("XADD s MAXLEN = 100 5000-1 f v")
    assert b"5000-1" in reader.output()


def test_an_entry_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(add, "ENTRY_SIZE_MAX", 10)
    rig, primary = subject()
    assert primary.call("XADD s 5000-1 f " + "v" * 20).startswith(b"-ERR")
    assert rig.server.store.databases[0].keys[b"s"].log.last_id < 5000 << 72
