"""The integer types of BITFIELD, and numbers that do not fit."""

from __future__ import annotations

import pytest

from headrace.commands.bits.field_types import FAIL, SAT, WRAP, FieldType, parse_type
from headrace.store.errors import GenericError


@pytest.mark.parametrize("size", range(1, 65))
def test_types_have_their_lowest_and_highest_number(size: int) -> None:
    signed = parse_type(b"i%d" % size)
    assert (signed.lowest, signed.highest) == (-(2 ** (size - 1)), 2 ** (size - 1) - 1)
    assert signed.from_bits(2**size - 1) == -1
    if size < 64:
        unsigned = parse_type(b"u%d" % size)
        assert (unsigned.lowest, unsigned.highest) == (0, 2**size - 1)
        assert unsigned.from_bits(2**size - 1) == 2**size - 1


@pytest.mark.parametrize("token", [b"", b"u", b"i", b"u0", b"i0", b"u64", b"i65", b"u-1", b"u08", b"U8", b"8", b"x8"])
def test_other_types_are_refused(token: bytes) -> None:
    with pytest.raises(GenericError, match="Invalid bitfield type"):
        parse_type(token)


U8 = FieldType(False, 8)
I8 = FieldType(True, 8)
I64 = FieldType(True, 64)
LOWEST = -(2**63)


@pytest.mark.parametrize(
    ("kind", "number", "wrapped", "saturated"),
    [
        (U8, 256, 0, 255),
        (U8, 300, 44, 255),
        (U8, -1, 255, 0),
        (I8, 128, -128, 127),
        (I8, -129, 127, -128),
        (I64, 2**63, LOWEST, 2**63 - 1),
        (I64, LOWEST - 1, 2**63 - 1, LOWEST),
    ],
)
def test_a_sum_that_does_not_fit(kind: FieldType, number: int, wrapped: int, saturated: int) -> None:
    assert kind.fitted(number, WRAP, is_set=False) == wrapped
    assert kind.fitted(number, SAT, is_set=False) == saturated
    assert kind.fitted(number, FAIL, is_set=False) is None


def test_a_negative_number_that_is_set_is_too_large_for_an_unsigned_type() -> None:
    assert U8.fitted(-1, SAT, is_set=True) == 255
    assert U8.fitted(-1, WRAP, is_set=True) == 255
    assert U8.fitted(-1, FAIL, is_set=True) is None


def test_numbers_near_the_lowest_that_are_set_become_the_highest_as_in_redis() -> None:
    assert I8.fitted(LOWEST, SAT, is_set=True) == 127
    assert I8.fitted(LOWEST + 127, SAT, is_set=True) == 127
    assert I8.fitted(LOWEST + 128, SAT, is_set=True) == -128


@pytest.mark.parametrize("overflow", [WRAP, SAT, FAIL])
def test_a_number_that_fits_stays(overflow: bytes) -> None:
    assert [I8.fitted(number, overflow, is_set=True) for number in (-128, 0, 127)] == [-128, 0, 127]
