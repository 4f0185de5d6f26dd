"""HyperLogLogs have the runs of Redis, and the registers of a list of numbers."""

from __future__ import annotations

from random import Random

import pytest

from headrace.store.errors import CorruptHyperLogLog
from headrace.store.hyperloglog import (
    DENSE_SIZE,
    EMPTY,
    HyperLogLog,
    cached_estimate,
    estimate_of,
    estimate_registers,
    is_dense,
    is_hyperloglog,
    registers_of,
    shown_runs,
    with_estimate,
)
from headrace.store.hyperloglog_form import HEADER_SIZE, REGISTERS_COUNT

SEED = 43
LIMIT = 3000
HEADER = EMPTY[:HEADER_SIZE]


def after(*changes: tuple[int, int], text: bytes = EMPTY, limit: int = LIMIT) -> bytes:
    value = HyperLogLog(text, limit)
    for register, rank in changes:
        value.raise_register(register, rank)
    return bytes(value.data)


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ([], b"Z:16384"),
        ([(0, 1)], b"v:1,1 Z:16383"),
        ([(16383, 1)], b"Z:16383 v:1,1"),
        ([(64, 3)], b"z:64 v:3,1 Z:16319"),
        ([(65, 3)], b"Z:65 v:3,1 Z:16318"),
        ([(0, 1), (1, 1), (2, 1)], b"v:1,3 Z:16381"),
        ([(0, 1), (2, 1), (1, 1)], b"v:1,3 Z:16381"),
        # A run has four registers at most.
        ([(register, 2) for register in range(6)], b"v:2,4 v:2,2 Z:16378"),
        ([(register, 2) for register in range(4)] + [(1, 5)], b"v:2,1 v:5,1 v:2,2 Z:16380"),
        ([(0, 1), (0, 32), (0, 4)], b"v:32,1 Z:16383"),
    ],
)
def test_runs_are_split_and_joined(changes: list[tuple[int, int]], shown: bytes) -> None:
    assert shown_runs(after(*changes)) == shown


@pytest.mark.parametrize(
    ("changes", "limit"), [([(3, 33)], LIMIT), ([(3, 1)], 0), ([(3, 1)], 18), ([(100, 1), (200, 1)], 23)]
)
def test_a_large_value_and_a_large_string_make_registers_dense(changes: list[tuple[int, int]], limit: int) -> None:
    text = after(*changes, limit=limit)
    assert is_dense(text)
    assert len(text) == DENSE_SIZE
    registers = registers_of(text)
    assert [registers[register] for register, _ in changes] == [rank for _, rank in changes]


@pytest.mark.parametrize("limit", [100, 600, 3000, 20000])
@pytest.mark.parametrize("is_ascending", [False, True])
def test_random_registers_are_those_of_a_list(limit: int, is_ascending: bool) -> None:
    rnd = Random(SEED)
    numbers = [0] * REGISTERS_COUNT
    value = HyperLogLog(EMPTY, limit)
    changes = [
        (rnd.randrange(rnd.choice((50, 2000, REGISTERS_COUNT))), rnd.choice((1, 1, 2, 3, 9))) for _ in range(2000)
    ]
    for register, rank in sorted(changes) if is_ascending else changes:
        before = bytes(value.data)
        assert value.raise_register(register, rank) == (numbers[register] < rank)
        numbers[register] = max(numbers[register], rank)
        # Where the search begins does not change the runs.
        assert bytes(value.data) == after((register, rank), text=before, limit=limit)
    text = bytes(value.data)
    assert registers_of(text) == bytes(numbers)
    assert estimate_of(text) == estimate_registers(bytes(numbers))
    value.make_dense()
    assert registers_of(bytes(value.data)) == bytes(numbers)
    assert estimate_of(bytes(value.data)) == estimate_of(text)


@pytest.mark.parametrize("limit", [0, 300, LIMIT])
def test_raising_all_is_raising_each(limit: int) -> None:
    rnd = Random(SEED)
    numbers = [rnd.choice((1, 2, 5)) if rnd.random() < 0.02 else 0 for _ in range(REGISTERS_COUNT)]
    value = HyperLogLog(EMPTY, limit)
    value.raise_all(bytes(numbers))
    each = after(*[(register, rank) for register, rank in enumerate(numbers) if rank], limit=limit)
    assert value.data[HEADER_SIZE:] == each[HEADER_SIZE:]
    assert registers_of(bytes(value.data)) == bytes(numbers)


@pytest.mark.parametrize(
    "data", [b"", b"\x3f", b"\x7f\xff\x00", b"\x7f", b"\x7f\xff\x80", b"\x7f\xff" * 40000], ids=range(6)
)
def test_runs_that_do_not_fit_are_found(data: bytes) -> None:
    text = HEADER + data
    for call in (registers_of, estimate_of):
        with pytest.raises(CorruptHyperLogLog):
            call(text)
    with pytest.raises(CorruptHyperLogLog):
        HyperLogLog(text, LIMIT).make_dense()


def test_a_register_beyond_the_runs_is_found() -> None:
    with pytest.raises(CorruptHyperLogLog):
        after((64, 1), text=HEADER + b"\x3f")


def test_a_cut_run_is_read_as_if_a_zero_followed() -> None:
    assert shown_runs(HEADER + b"\x41") == b"Z:257"
    assert after((256, 1), text=HEADER + b"\x41")[HEADER_SIZE:] == b"\x40\xff"


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (EMPTY, True),
        (HEADER, True),
        (HEADER[:-1], False),
        (b"hYLL" + EMPTY[4:], False),
        (b"HYLL\x02" + EMPTY[5:], False),
        (b"HYLL\x00" + EMPTY[5:], False),
        (b"HYLL" + bytes(DENSE_SIZE - 4), True),
        (b"HYLL" + bytes(DENSE_SIZE - 3), False),
        (b"", False),
    ],
)
def test_a_hyperloglog_is_known_by_its_header(text: bytes, is_one: bool) -> None:
    assert is_hyperloglog(text) == is_one


def test_the_estimate_is_cached_in_the_string() -> None:
    assert cached_estimate(EMPTY) == 0
    text = after((5, 1))
    assert cached_estimate(text) is None
    counted = with_estimate(text, 300)
    assert cached_estimate(counted) == 300
    assert counted[:8] + counted[HEADER_SIZE:] == text[:8] + text[HEADER_SIZE:]
    # An estimate that is too large makes itself stale.
    assert cached_estimate(with_estimate(text, -(1 << 63))) is None
