"""Registers are packed as in Redis, and its estimates follow from them."""

from __future__ import annotations

from random import Random

import pytest

from headrace.store.hyperloglog_form import PACKED_SIZE, REGISTERS_COUNT
from headrace.store.registers import INT64_MIN, estimate, packed, place_of, unpacked

SEED = 41


def drawn(seed: int) -> bytes:
    return bytes([byte & 63 for byte in Random(seed).randbytes(REGISTERS_COUNT)])


def test_four_registers_are_in_three_bytes_the_lowest_bits_first() -> None:
    registers = bytes((1, 2, 3, 63)) + bytes(REGISTERS_COUNT - 4)
    assert packed(registers) == bytes((0b10000001, 0b00110000, 0b11111100)) + bytes(PACKED_SIZE - 3)


def test_packed_registers_stay_the_same() -> None:
    registers = drawn(SEED)
    assert len(packed(registers)) == PACKED_SIZE
    assert unpacked(packed(registers)) == registers


@pytest.mark.parametrize(("element", "place"), [(b"a", (12711, 2)), (b"b", (15780, 1)), (b"c", (8436, 1))])
def test_an_element_has_a_register_and_a_rank(element: bytes, place: tuple[int, int]) -> None:
    assert place_of(element) == place


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        ({0: REGISTERS_COUNT}, 0),
        ({0: REGISTERS_COUNT - 1, 1: 1}, 1),
        ({0: 10000, 1: 6384}, 7698),
        ({5: REGISTERS_COUNT}, 378194),
        ({30: REGISTERS_COUNT}, 12690079782337),
        # Only a string that other commands have changed has these.
        ({51: REGISTERS_COUNT}, INT64_MIN),
        ({63: REGISTERS_COUNT}, INT64_MIN),
    ],
)
def test_estimates_are_those_of_redis(counts: dict[int, int], found: int) -> None:
    assert estimate([counts.get(value, 0) for value in range(64)]) == found
