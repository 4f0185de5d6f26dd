"""Trimming with DELREF and ACKED: which references and which entries go."""

from __future__ import annotations

import random

import pytest

from headrace.store.ids import StreamID, make_id
from headrace.store.limits import Limits
from headrace.store.stream import References, Stream
from headrace.store.trimming import Trim, trim
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


def trim_acked_entry_by_entry(stream: Stream, request: Trim) -> list[StreamID]:
    """What ACKED does, every group asked about every entry."""
    removed: list[StreamID] = []
    for node in list(stream.nodes.nodes):
        if request.length_max is not None and len(stream) <= request.length_max:
            break
        if request.limit and len(removed) + node.live > request.limit:
            break
        if request.length_max is not None:
            is_whole = len(stream) - node.live >= request.length_max
        else:
            assert request.id_min is not None
            is_whole = node.last_id < request.id_min
        for entry_id in stream.log.ids(node.first_id, node.last_id):
            if request.length_max is not None and len(stream) <= request.length_max:
                break
            if request.id_min is not None and entry_id >= request.id_min:
                break
            if not stream.is_referenced(entry_id):
                stream.remove(entry_id, keep_node=True)
                removed.append(entry_id)
        if not is_whole:
            break
        index = stream.nodes.index_of(node.first_id)
        if not stream.nodes.nodes[index].live:
            stream.nodes.drop(index, 1)
    return removed


@pytest.mark.parametrize("seed", range(60))
def test_acked_removes_what_every_group_has_read_and_acknowledged(seed: int) -> None:
    rnd = random.Random(seed)
    caller = Rig().connect()
    caller.client.db.put(b"s", Stream(Limits(node_entries_max=10)))
    caller.call(*(f"XADD s {ms}-1 f v" for ms in range(1, 301)))
    for group in ("g", "h", "i")[: rnd.randrange(4)]:
        count = rnd.choice((300, 300, rnd.randrange(1, 300)))
        caller.call(f"XGROUP CREATE s {group} 0", f"XREADGROUP GROUP {group} c COUNT {count} STREAMS s >")
        pending = rnd.sample(range(1, count + 1), rnd.choice((0, 0, min(count, 5))))
        done = [f"{ms}-1" for ms in range(1, count + 1) if ms not in pending]
        caller.call(f"XACK s {group} {' '.join(done)} 999-1")
    deleted = rnd.sample(range(1, 301), rnd.choice((0, 30, 100)))
    caller.call("XDEL s 999-1 " + " ".join(f"{ms}-1" for ms in deleted))
    stream = caller.client.db.streams[b"s"]
    stream.settle_nodes()
    twin = stream.copy()
    for _ in range(3):
        request = Trim(approximate=rnd.random() < 0.5, limit=rnd.choice((0, 0, 45)), references=References.ACKED)
        if rnd.random() < 0.5:
            request.length_max = rnd.choice((0, rnd.randrange(len(stream) + 1)))
        else:
            request.id_min = make_id(rnd.randrange(1, 302), rnd.randrange(2))
        # The length is looked at before any entry is.
        is_over = request.length_max is not None and len(twin) <= request.length_max
        expected = [] if is_over else trim_acked_entry_by_entry(twin, request)
        assert trim(stream, request) == (len(expected), expected[-1] if expected else 0)
        assert list(stream.log.ids(0, make_id(999, 0))) == list(twin.log.ids(0, make_id(999, 0)))
        assert [(each.first_id, each.live, each.total, each.size) for each in stream.nodes.nodes] == [
            (each.first_id, each.live, each.total, each.size) for each in twin.nodes.nodes
        ]
        stream.check()
