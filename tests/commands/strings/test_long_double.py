"""Extended-precision numbers: parsing, rounding of sums, and printing."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from headrace.commands.strings.long_double import EXPONENT_MIN, LARGEST, LongDouble, add, parse, text_of


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (b"0.5", Fraction(1, 2)),
        (b"-1.e1", Fraction(-10)),
        (b"+.5", Fraction(1, 2)),
        (b"0x1.8p1", Fraction(3)),
        (b"-0X10", Fraction(-16)),
        (b"0e99999999999999999999", Fraction(0)),
        (b"0x0p99999999999999999999", Fraction(0)),
        (b"-inf", -math.inf),
        (b"Infinity", math.inf),
        (b"18446744073709551617", Fraction(2**64)),
        (b"18446744073709551619", Fraction(2**64 + 4)),
        (b"1.18973149535723176502e4932", LARGEST),
        (b"3.7e-4951", Fraction(2) ** EXPONENT_MIN),
    ],
)
def test_number_is_parsed_to_the_nearest_long_double(text: bytes, number: LongDouble) -> None:
    assert parse(text) == number


@pytest.mark.parametrize(
    "text",
    [
        b"", b" 1", b"1 ", b"1_0", b"1e", b".", b"-", b"0x", b"0xg", b"nan", b"nan(1)", b"1\0", b"1e4933", b"1e-4960",
        b"1.18973149535723176509e4932", b"1e99999999999999999999", b"1e-99999999999999999999", b"0x1p99999999999",
        b"0x1p-99999999999", b"1" * 5120,
    ],
)  # fmt: skip
def test_invalid_number_is_refused(text: bytes) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    ("left", "right", "text"),
    [
        (b"0.1", b"0.2", b"0.3"),
        (b"10.6", b"5.0e3", b"5010.60000000000000009"),
        (b"100000000000000000", b"0.1", b"100000000000000000.1015625"),
        (b"-1e-30", b"0", b"0"),
        (b"18446744073709551616", b"1", b"18446744073709551616"),
        (b"-7", b"6.5", b"-0.5"),
    ],
)
def test_sum_has_64_significant_bits_and_17_digits_after_the_point(left: bytes, right: bytes, text: bytes) -> None:
    numbers = parse(left), parse(right)
    assert isinstance(numbers[0], Fraction)
    assert isinstance(numbers[1], Fraction)
    total = add(*numbers)
    assert isinstance(total, Fraction)
    assert text_of(total) == text


def test_sum_beyond_the_largest_is_an_infinity_and_infinities_may_cancel_out() -> None:
    assert (add(LARGEST, LARGEST), add(-LARGEST, -LARGEST)) == (math.inf, -math.inf)
    assert add(Fraction(1), -math.inf) == -math.inf
    cancelled = add(math.inf, -math.inf)
    assert cancelled != cancelled


def test_longest_number_is_printed_with_all_its_digits() -> None:
    assert len(text_of(LARGEST)) == 4933
