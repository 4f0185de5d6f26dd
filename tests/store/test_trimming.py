"""Trimming with DELREF: which references go."""

from __future__ import annotations

import random

import pytest

from headrace.store.ids import make_id
from support.inprocess import Rig


@pytest.mark.parametrize("seed", range(20))
def test_delref_drops_the_references_of_what_it_trims_and_of_nothing_else(seed: int) -> None:
    """A pending entry that was deleted before keeps its reference, as do those that stay."""
    rnd = random.Random(seed)
    caller = Rig().connect()
    caller.call(*(f"XADD s {ms}-1 f v" for ms in range(1, 301)), "XGROUP CREATE s g 0", "XGROUP CREATE s h 0")
    caller.call("XREADGROUP GROUP g c COUNT 250 STREAMS s >", "XREADGROUP GROUP h c COUNT 90 STREAMS s >")
    deleted = set(rnd.sample(range(1, 301), 40))
    caller.call("XDEL s " + " ".join(f"{ms}-1" for ms in deleted))
    stream = caller.client.db.streams[b"s"]
    ids = {group: [entry_id for entry_id, _ in stream.groups[group].pending.walk()] for group in (b"g", b"h")}
    live = [make_id(ms, 1) for ms in range(1, 301) if ms not in deleted]
    kept = rnd.randrange(len(live))
    approximate = "~" if rnd.random() < 0.5 else "="
    caller.call(f"XTRIM s MAXLEN {approximate} {kept} DELREF")
    gone = set(live[: len(live) - len(stream)])
    assert approximate == "~" or len(stream) == kept
    for group, before in ids.items():
        after = [entry_id for entry_id, _ in stream.groups[group].pending.walk()]
        assert after == [entry_id for entry_id in before if entry_id not in gone]
    stream.check()
