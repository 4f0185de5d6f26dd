"""XADD: its records in the log, and entries that are too large."""

from __future__ import annotations

import pytest

from headrace.commands.streams import add as stream_add
from headrace.store.ids import make_id
from headrace.store.stream import Stream
from support.inprocess import Caller, Rig


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
def caller(rig: Rig) -> Caller:
    caller = rig.connect()
    caller.call("XADD s 1-1 f v", "XADD s 2-1 f v", "XADD s 3-1 f v", "XGROUP CREATE s g 2-1")
    rig.log.units.clear()
    return caller


@pytest.mark.parametrize(
    ("line", "records"),
    [
        ("XADD s MAXLEN ~ 2 4-1 f v", [b"XADD s MAXLEN = 4 4-1 f v"]),
        ("XADD s MAXLEN ~ 2 * f v", [b"XADD s MAXLEN = 4 <id> f v"]),
        ("XADD s maxlen ~ 2 * f v", [b"XADD s maxlen = 4 <id> f v"]),
        ("XADD s maxlen ~ 0002 * f v", None),
        ("XADD s MAXLEN 2 4-* f v", [b"XADD s MAXLEN 2 4-0 f v"]),
        ("XADD s DELREF MINID 2 IDMP p i 4-* f v", None),
        ("XADD s IDMP p i * f v", [b"XADD s IDMP p i <id> f v"]),
        ("XADD new IDMP p i * f v", [b"XADD new IDMP p i <id> f v"]),
        ("XADD s IDMPAUTO p * f v", [b"XADD s IDMPAUTO p <id> f v"]),
        ("XADD s MAXLEN 2 IDMP p i * f v", [b"XADD s MAXLEN 2 IDMP p i <id> f v"]),
        ("XADD s DELREF MINID ~ 2 IDMP p i * f v", [b"XADD s DELREF MINID = 1-2 IDMP p i <id> f v"]),
        ("XADD s ACKED MAXLEN 1 IDMP p i * f v", [b"XADD s IDMP p i <id> f v", b"XTRIM s MINID = 2-2 ACKED"]),
        ("XADD s ACKED MAXLEN 1 4-1 f v", [b"XADD s 4-1 f v", b"XTRIM s MINID = 2-2 ACKED"]),
    ],
)
def test_record_has_the_final_id_and_repeats_the_effect(
    line: str, records: list[bytes] | None, rig: Rig, caller: Caller
) -> None:
    reply = caller.call(line)
    if records is None:
        assert reply.startswith(b"-ERR ")
        assert rig.log.units == []
        return
    entry_id = reply.split(b"\r\n")[1]
    logged = [
        record.replace(entry_id, b"<id>") if b"<id>" in records[0] else record
        for unit in rig.log.units
        for record in unit
    ]
    assert logged == records


def test_a_replayed_pair_replaces_the_remembered_one(rig: Rig, caller: Caller) -> None:
    rig.server.context.replaying = True
    caller.call("XIDMPRECORD s p i 1-1", "XIDMPRECORD s p i 2-1", "XADD s IDMP p j 4-1 f v", "XADD s IDMP p j 5-1 f v")
    stream = rig.server.store.databases[0].keys[b"s"]
    assert isinstance(stream, Stream)
    assert [stream.idempotence.find(b"p", iid) for iid in (b"i", b"j")] == [make_id(2, 1), make_id(5, 1)]
    assert stream.idempotence.pairs_count == 2
    assert len(stream) == 5


@pytest.mark.parametrize(
    "line",
    ["XADD s * f %s", "XADD s 9-9 f %s", "XADD s IDMP p i * f %s", "XADD s MAXLEN ~ 9 * f %s", "XADD new * f %s"],
)
def test_an_entry_that_is_too_large_changes_nothing(
    line: str, rig: Rig, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_add, "ENTRY_SIZE_MAX", 100)
    assert caller.call(line % ("x" * 100)) == b"-ERR Elements are too large to be stored\r\n"
    assert caller.call("XLEN s", "EXISTS new") == b":3\r\n:0\r\n"
    assert rig.log.units == []
    assert caller.call(line % ("x" * 99)).startswith(b"$")
