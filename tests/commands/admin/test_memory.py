"""MEMORY: statistics and reports. tests/store/test_memory.py covers the sizes of keys."""

from __future__ import annotations

import pytest

from headrace.server.reports import memory_report
from headrace.store.chunk import drop_unpacked
from support.inprocess import Rig
from support.servers import Server


@pytest.mark.oracle
def test_usage_accepts_and_refuses_the_options_of_redis(headrace: Server, oracle: Server) -> None:
    lines = ("", "SAMPLES", "SAMPLES 0", "SAMPLES -1", "SAMPLES x", "FOO 1", "SAMPLES 1 samples 2", "SAMPLES 1 x")
    with headrace.connect() as ours, oracle.connect() as theirs:
        for wire in (ours, theirs):
            wire.call("XADD", "s", "*", "f", "v")
            assert 200 < wire.ask("MEMORY", "USAGE", "s") < 4000
        for line in lines:
            for key in ("s", "none"):
                replies = [wire.call("MEMORY", "USAGE", key, *line.split()) for wire in (ours, theirs)]
                assert replies[0] == replies[1] or {reply[:1] for reply in replies} == {b":"}, (key, line)


def test_changed_compression_applies_to_chunks_filled_later(headrace: Server) -> None:
    with headrace.connect() as wire:
        sizes = []
        for value in ("no", "zstd"):
            assert wire.call("CONFIG", "SET", "stream-chunk-compression", value) == b"+OK\r\n"
            for number in range(3_000):
                wire.send("XADD", value, f"1-{number + 1}", "field", "value")
            for _ in range(3_000):
                wire.receive()
            wire.call("XINFO", "STREAM", value)  # counts its nodes, as the server does by itself a little later
            sizes.append(wire.ask("MEMORY", "USAGE", value))
        assert wire.call("XRANGE", "no", "-", "+") == wire.call("XRANGE", "zstd", "-", "+")
        plain, packed = sizes
        assert plain > 2 * packed
        assert wire.ask("MEMORY", "USAGE", "no") == plain
        assert wire.call("CONFIG", "SET", "stream-chunk-compression", "lz4").startswith(b"-ERR CONFIG SET failed")


@pytest.mark.oracle
def test_stats_have_the_names_of_redis_and_their_types(headrace: Server, oracle: Server) -> None:
    found = []
    for server in (headrace, oracle):
        with server.connect(3) as wire:
            wire.call("SET", "k", "v", "EX", "100")
            found.append(wire.ask("MEMORY", "STATS"))
            assert wire.call("MEMORY", "PURGE") == b"+OK\r\n"
            assert wire.ask("MEMORY", "MALLOC-STATS") == b"Stats not supported for the current allocator"
    ours, theirs = found
    assert list(ours) == list(theirs)
    assert {name: type(value) for name, value in ours.items()} == {name: type(value) for name, value in theirs.items()}
    assert ours[b"db.0"].keys() == theirs[b"db.0"].keys()
    assert ours[b"keys.count"] == 1
    assert ours[b"dataset.bytes"] < ours[b"total.allocated"] <= ours[b"peak.allocated"]
    assert ours[b"allocator.resident"] > 1 << 20


def test_report_finds_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    drop_unpacked()  # they are the process's: other tests may have left some
    rig = Rig()
    caller = rig.connect()
    assert b"hardly any data" in caller.call("MEMORY DOCTOR")
    resident_size = 16 << 20
    monkeypatch.setattr(memory_report, "resident_size", lambda: resident_size)
    caller.call(*(f"SET key:{number} {'v' * 1_000_000}" for number in range(12)))
    assert b"nothing remarkable" in caller.call("MEMORY DOCTOR")
    resident_size = 256 << 20
    rig.config.maxmemory = 13 << 20
    caller.client.query_buffer_size = 1 << 20
    text = caller.call("MEMORY DOCTOR")
    assert all(word in text for word in (b" * Resident:", b" * Clients:", b" * Limit:"))
    assert b"Peak:" not in text
    caller.call(*(f"DEL key:{number}" for number in range(6)))
    assert b" * Peak:" in caller.call("MEMORY DOCTOR")
