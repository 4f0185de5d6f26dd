"""The fast path of XREADGROUP has the same effects as the path for all options."""

from __future__ import annotations

import pytest

from headrace.commands.streams.group_read_new import read_new
from support.inprocess import Caller, Rig

LINES = (
    "XREADGROUP GROUP g {} COUNT 1 STREAMS s >",
    "XREADGROUP GROUP g {} COUNT 3 BLOCK 100 STREAMS s >",
    "xreadgroup group g {} count 2 block 0 streams s >",
    "XREADGROUP GROUP g {} STREAMS s >",
    "XREADGROUP GROUP g {} BLOCK 100 STREAMS s >",
    "XREADGROUP GROUP g {} BLOCK 5 COUNT 3 COUNT 2 STREAMS s >",
    # Nothing new is left after the second of these.
    "XREADGROUP GROUP g {} COUNT 9 STREAMS s >",
    "XREADGROUP GROUP g {} CLAIM 60000 COUNT 9 STREAMS s >",
    # Entries are claimed by the fourth.
    "XREADGROUP GROUP g {} COUNT 9 CLAIM 2500 STREAMS s >",
)
FAST, GENERAL = "XREADGROUP", "XREADGROUP MAXCOUNT 1000000000"


def filled(rig: Rig, protocol: int) -> Caller:
    caller = rig.connect()
    caller.call("XGROUP CREATE s g 0 MKSTREAM", "XGROUP CREATECONSUMER s g c")
    caller.call(*(f"XADD s {number}-{number % 3} f v" for number in range(1, 21)), "XDEL s 7-1 8-2")
    caller.call(f"HELLO {protocol}")
    rig.log.units.clear()
    return caller


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("line", LINES)
def test_both_paths_have_equal_replies_records_and_states(line: str, protocol: int) -> None:
    found = []
    for form in (FAST, GENERAL):
        rig = Rig()
        caller = filled(rig, protocol)
        replies = []
        for consumer in ("c", "new", "c", "new", "c"):
            rig.pass_time(1000)
            words = line.format(consumer).split()
            replies.append(caller.call(" ".join([*form.split(), *words[1:]]) if form == GENERAL else " ".join(words)))
        db = rig.server.store.databases[0]
        replies.append(caller.call("XINFO STREAM s FULL", "XPENDING s g - + 100", "OBJECT IDLETIME s"))
        found.append((replies, rig.log.units, db.hits, db.misses))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "line",
    [
        "XREADGROUP GROUP g c COUNT 0 STREAMS s >",
        "XREADGROUP GROUP g c COUNT x STREAMS s >",
        "XREADGROUP GROUP g c COUNT -1 STREAMS s >",
        "XREADGROUP GROUP g c COUNT 1 BLOCK -1 STREAMS s >",
        "XREADGROUP GROUP g c COUNT 1 BLOCK 99999999999 STREAMS s >",
        "XREADGROUP GROUP g c NOACK STREAMS s >",
        "XREADGROUP GROUP g new STREAMS s >",
        "XREADGROUP GROUP h c STREAMS s >",
        "XREADGROUP GROUP g c STREAMS missing >",
        "XREADGROUP GROUP g c STREAMS string >",
        "XREADGROUP GROUP g c STREAMS s s > >",
        "XREADGROUP GROUP g c COUNT 1 BLOCK 5 STREAMS at-end >",
        "XREADGROUP GROUP g c CLAIM 0 STREAMS s >",
        "XREADGROUP GROUP g c CLAIM 5 STREAMS s >",
        "XREADGROUP GROUP g c COUNT 1 STREAMS ending >",
        "XREADGROUP GRUPPE g c COUNT 1 STREAMS s >",
        "XREADGROUP GROUP g c COUNT 1 STREAM s >",
    ],
)
def test_a_request_that_the_fast_path_refuses_changes_nothing(line: str) -> None:
    rig = Rig()
    caller = filled(rig, 2)
    caller.call("SET string 1", "XGROUP CREATE at-end g $ MKSTREAM", "XGROUP CREATECONSUMER at-end g c")
    caller.call("COPY s ending", "PEXPIRE ending 100000")
    rig.log.units.clear()
    state = ("XINFO STREAM s FULL", "XINFO STREAM at-end FULL", "XINFO STREAM ending FULL")
    before, db = caller.call(*state), rig.server.store.databases[0]
    hits = db.hits
    rig.server.context.db = db
    assert read_new(rig.server.context, [word.encode() for word in line.split()]) is None
    assert (db.hits, rig.log.units, rig.server.context.effects) == (hits, [], [])
    assert caller.call(*state) == before
