"""Decimal numbers are read alike by both forms."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from headrace.commands.core import decimals_plain, long_double

try:
    from headrace.commands.core import decimals
except ImportError:  # there was no C compiler at installation
    decimals = decimals_plain  # type: ignore[assignment]

FORMS = [decimals, decimals_plain]
SEED = 24
NUMBERS = {
    b"1": 1.0, b"-1.5": -1.5, b"+2": 2.0, b"1.": 1.0, b".5": 0.5, b"0001": 1.0, b"1e3": 1000.0, b"1E-3": 0.001,
    b"1.7976931348623157e308": 1.7976931348623157e308, b"5e-324": 5e-324, b"0e999": 0.0, b"9" * 400 + b"e-399": 10.0,
}  # fmt: skip
NO_NUMBERS = [
    b"", b"+", b".", b"e5", b"1e", b"1e+", b" 1", b"1 ", b"1\0", b"1_0", b"0x10", b"inf", b"nan", b"1e400", b"-1e400",
    b"1e-400", b"1.2.3", b"--1", b"9" * 400, b"1,5", b"\xd9\xa1",
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_number_in_digits_is_read_as_c_reads_it(form: Any) -> None:
    assert {token: form.parse_decimal(token) for token in NUMBERS} == NUMBERS
    assert str(form.parse_decimal(b"-0")) == "-0.0"


@pytest.mark.parametrize("form", FORMS)
def test_other_spellings_and_numbers_out_of_range_are_none(form: Any) -> None:
    assert [token for token in NO_NUMBERS if form.parse_decimal(token) is not None] == []


def test_both_forms_agree_on_random_texts() -> None:
    draw = Random(SEED)
    for _ in range(50_000):
        token = bytes(draw.choices(b"0019.eE+-", k=draw.randrange(8)))
        assert repr(decimals.parse_decimal(token)) == repr(decimals_plain.parse_decimal(token)), token


@pytest.mark.parametrize("form", FORMS)
def test_short_decimals_are_added_as_long_doubles(form: Any) -> None:
    if not form.is_short_decimal(b"1"):
        pytest.skip("a long double is of another size here")
    for left, right, text in (
        (b"0", b"0", b"0"),
        (b"-0", b"-0.0", b"0"),
        (b"10.50", b"0.1", b"10.6"),
        (b"5.", b"+.5", b"5.5"),
        (b"3", b"-5", b"-2"),
        (b"-0.000000000000000001", b"0", b"0"),
        (b"9" * 20, b"1", b"100000000000000000000"),
    ):
        assert form.add_decimals(left, right) == form.add_decimals(right, left) == text


@pytest.mark.parametrize("form", FORMS)
def test_other_spellings_are_not_added(form: Any) -> None:
    for token in (b"", b"-", b".", b"1e3", b" 1", b"1 ", b"1\n", b"1\0", b"1.2.3", b"inf", b"nan", b"0x1", b"1" * 33):
        assert not form.is_short_decimal(token)
        assert form.add_decimals(token, b"1") is form.add_decimals(b"1", token) is None


def test_random_sums_are_those_of_long_doubles() -> None:
    draw = Random(SEED)
    for _ in range(20_000):
        left, right = (bytes(draw.choices(b"00123456789.-", k=draw.randrange(1, 33))) for _ in range(2))
        found = decimals.add_decimals(left, right)
        if found is not None:
            one, other = long_double.parse(left), long_double.parse(right)
            assert one is not None
            assert other is not None
            total = long_double.add(one, other)
            assert isinstance(total, int)
            assert found == long_double.text_of(total), (left, right)
