"""A dataset that arrives in pieces: what is loaded of it when, how much waits, and what ends it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from headrace.persistence.errors import RdbError
from headrace.server.replication import arrival as arrival_module
from headrace.server.replication.arrival import BLOCK_SIZE, SLICE_NS, Arrival, Progress
from support.digest import digest_of
from support.fake_primary import payload_of
from support.inprocess import START_MS, Rig

FILL = [
    "SET k v", "SET e v PXAT 1", "XADD s 1-1 f v g w", "XADD s 2-1 f v g w", "XGROUP CREATE s g 0",
    "XREADGROUP GROUP g a COUNT 1 STREAMS s >", "XNACK s g FAIL IDS 1 1-1", "SELECT 2", "SET two 2",
]  # fmt: skip


@pytest.fixture(autouse=True)
def time_that_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrival_module, "perf_counter_ns", lambda: 0)


@pytest.fixture
def source() -> Rig:
    rig = Rig()
    rig.connect().call(*FILL)
    return rig


def new_arrival() -> Arrival:
    rig = Rig()
    return Arrival(rig.config, rig.server.context, START_MS)


def pieces_of(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


@pytest.mark.parametrize("size", [1, 2, 7, 50, 1 << 20])
def test_a_dataset_arrives_in_pieces_of_any_size(size: int, source: Rig) -> None:
    arrival = new_arrival()
    for piece in pieces_of(payload_of(source.server.store), size):
        arrival.add(piece)
        assert arrival.step() is Progress.STARVED
        assert not arrival.waiting_size
    arrival.complete()
    assert arrival.step() is Progress.LOADED
    assert digest_of(arrival.store) == digest_of(source.server.store)
    assert arrival.stream_db_index == 0


def test_a_large_value_is_loaded_as_it_arrives_and_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """One stream of a megabyte: what has arrived is read, and a slice is over after some blocks of it."""
    rig = Rig(rdbcompression=False)
    caller = rig.connect()
    for number in range(1, 1001):
        caller.call(f"XADD s {number}-1 f {str(number) * 300}")
    payload = payload_of(rig.server.store) + b"more"
    monkeypatch.setattr(arrival_module, "perf_counter_ns", count(step=SLICE_NS // 4).__next__)
    arrival = new_arrival()
    steps_count = 0
    for piece in pieces_of(payload, 4 * BLOCK_SIZE):
        arrival.add(piece)
        while arrival.step() is Progress.MORE:
            steps_count += 1
        assert not arrival.waiting_size
    arrival.complete()
    while arrival.step() is not Progress.LOADED:
        steps_count += 1
    assert steps_count >= len(payload) // (4 * BLOCK_SIZE)
    assert digest_of(arrival.store) == digest_of(rig.server.store)


def test_bytes_after_the_dataset_are_dropped(source: Rig) -> None:
    arrival = new_arrival()
    arrival.add(payload_of(source.server.store))
    assert arrival.step() is Progress.STARVED
    for _ in range(10):
        arrival.add(bytes(1 << 20))
        assert arrival.step() is Progress.STARVED
        assert not arrival.waiting_size
    arrival.complete()
    assert arrival.step() is Progress.LOADED


def test_a_dataset_that_ends_too_early_is_refused(source: Rig) -> None:
    arrival = new_arrival()
    arrival.add(payload_of(source.server.store)[:-20])
    arrival.step()
    arrival.complete()
    with pytest.raises(RdbError, match="Short read"):
        arrival.step()
    arrival.drop()


def test_a_key_of_another_type_ends_it_before_the_rest_has_arrived() -> None:
    arrival = new_arrival()
    arrival.add(b"REDIS0011\xfe\x03\x07\x05queue\x01\x00")
    with pytest.raises(RdbError, match="The key 'queue' in database 3 cannot be loaded"):
        arrival.step()
    arrival.drop()


def test_an_announced_size_reserves_no_memory() -> None:
    """A string of 2^62 bytes is announced: only what arrives is kept, and it is never taken for a value."""
    arrival = new_arrival()
    arrival.add(b"REDIS0011\x00\x01k\x81" + (1 << 62).to_bytes(8, "big"))
    for _ in range(20):
        arrival.add(bytes(1000))
        assert arrival.step() is Progress.STARVED
    arrival.drop()


def test_a_dropped_dataset_takes_no_more() -> None:
    arrival = new_arrival()
    arrival.add(b"REDIS0011\x00\x01k\x01v")
    arrival.step()
    arrival.drop()
    arrival.add(b"\xff")
    assert not arrival.waiting_size
    assert not any(db.keys for db in arrival.store.databases)
