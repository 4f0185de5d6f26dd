"""A dataset as records: a replay restores it, including references to deleted entries."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from conftest import StartServer
from headrace.persistence.aof import record_blocks
from headrace.persistence.snapshot import snapshot
from headrace.server.storage.replay import loading
from headrace.store.image import keys_now
from support.digest import digest_of
from support.inprocess import Rig
from support.wire import Wire

REMAINS = (
    *(f"XADD s {number}-1 f {number}" for number in range(1, 400)),
    "XGROUP CREATE s g 0",
    "XGROUP CREATE s h 0",
    "XREADGROUP GROUP g ann COUNT 300 STREAMS s >",
    "XREADGROUP GROUP h bob COUNT 150 STREAMS s >",
    "XNACK s h FAIL IDS 3 20-1 120-1 130-1",
    "XADD s IDMP p one * f v",
    "XADD s IDMP p two * f v",
    "XADD s IDMP q one * f v",
    "XDEL s 50000-1 50000-2 110-1 120-1 121-1 122-1 299-1",
    "XTRIM s MAXLEN = 310",
)


def records(rig: Rig) -> bytes:
    return b"".join(record_blocks(snapshot(keys_now(rig.server.store))))


def replayed(data: bytes, rig: Rig, folder: Path) -> Rig:
    """A server that has loaded these records."""
    again = Rig()
    again.clock.now_ms = rig.clock.now_ms
    again.server.context.now_ms = rig.clock.now_ms
    log = folder / "appendonlydir"
    log.mkdir(exist_ok=True)
    (log / "appendonly.aof.1.base.aof").write_bytes(data)
    (log / "appendonly.aof.manifest").write_bytes(b"file appendonly.aof.1.base.aof seq 1 type b\n")
    again.server.config.dir = str(folder).encode()
    with loading(again.server.context) as replay:
        again.server.log_keeper.new_log().load(replay.apply, target=replay)
    for db in again.server.store.databases:
        db.check()
        for stream in db.streams.values():
            stream.check()
    return again


def early(rig: Rig) -> Rig:
    """Within the time for which idempotent pairs of the first milliseconds are remembered."""
    rig.clock.now_ms = 50_000
    return rig


@pytest.mark.parametrize("end", ["", "XTRIM s MAXLEN = 0", "XDEL s 399-1 50000-0", "XDEL s 91-1 92-1"])
def test_deleted_entries_that_are_pending_or_belong_to_a_pair_are_kept(end: str, tmp_path: Path) -> None:
    rig = early(Rig())
    caller = rig.connect()
    replies = caller.call(*REMAINS, *([end] if end else []))
    assert b"-ERR" not in replies
    data = records(rig)
    again = replayed(data, rig, tmp_path)
    assert digest_of(again.server.store) == digest_of(rig.server.store)
    assert records(again) == data
    twin = again.connect()
    for line in ("XADD s IDMP p two * f v", "XADD s IDMP q one * f v", "XPENDING s g", "XLEN s", "XINFO GROUPS s"):
        assert twin.call(line) == caller.call(line)


def test_stream_without_remains_has_no_records_for_them() -> None:
    rig = Rig()
    rig.connect().call("XADD s 1-1 f v", "XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >", "XADD s 2-1 f v")
    data = records(rig)
    assert data.index(b"XSETID") < data.index(b"XGROUP")
    assert b"\r\nXTRIM\r\n" not in data
    assert b"\r\nXDEL\r\n" not in data


@pytest.mark.parametrize("seed", range(30))
def test_random_remains_are_kept(seed: int, tmp_path: Path) -> None:
    print("seed", seed)
    rnd = random.Random(seed)
    rig = early(Rig())
    caller = rig.connect()
    top = 0
    caller.call("XGROUP CREATE s g 0 MKSTREAM", "XGROUP CREATE s h 0 MKSTREAM")
    for _ in range(300):
        some = " ".join(f"{rnd.randrange(1, top + 2)}-1" for _ in range(rnd.choice([1, 1, 5])))
        top += 1
        caller.call(
            rnd.choice(
                [
                    f"XADD s {top}-1 f v",
                    f"XADD s {top}-1 f v",
                    f"XADD s IDMP p{rnd.randrange(2)} i{rnd.randrange(20)} * f v",
                    f"XDEL s {some}",
                    f"XACK s g {some}",
                    f"XTRIM s MAXLEN = {rnd.randrange(5, 60)}",
                    f"XREADGROUP GROUP {rnd.choice('gh')} c{rnd.randrange(3)} COUNT 7 STREAMS s >",
                    f"XCLAIM s g c1 0 {some} JUSTID",
                    f"XNACK s h FAIL IDS {len(some.split())} {some}",
                ]
            )
        )
        top = max(top, int(caller.call("XINFO STREAM s").split(b"last-generated-id\r\n$")[1].split()[1].split(b"-")[0]))
    again = replayed(records(rig), rig, tmp_path)
    assert digest_of(again.server.store) == digest_of(rig.server.store)


@pytest.mark.oracle
def test_redis_reads_the_remains(start_server: StartServer, tmp_path: Path) -> None:
    rig = early(Rig())
    ours = rig.connect()
    ours.call(*REMAINS)
    log = tmp_path / "appendonlydir"
    log.mkdir()
    (log / "appendonly.aof.1.base.aof").write_bytes(records(rig))
    (log / "appendonly.aof.manifest").write_bytes(b"file appendonly.aof.1.base.aof seq 1 type b\n")
    theirs = start_server("oracle", "--appendonly", "yes", "--dir", str(tmp_path))
    with theirs.connect() as wire:
        assert isinstance(wire, Wire)
        for line in ("XRANGE s - +", "XPENDING s g", "XPENDING s h", "XINFO GROUPS s", "XLEN s"):
            assert wire.call(*line.split()) == ours.call(line), line
        for line in ("XPENDING s g - + 400 ann", "XPENDING s h - + 400"):
            ids = [row[0] for row in wire.ask(*line.split())]
            assert ids == [each for each in ids if each in ours.call(line)]
            assert len(ids) == ours.call(line).count(b"\r\n*4\r\n")
