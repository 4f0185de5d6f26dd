"""Extended-precision numbers: parsing, rounding of sums, and printing."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random
from time import process_time

import pytest

from headrace.commands.core.long_double import LARGEST, ONE, add, parse, text_of
from support.servers import Server

SEED = 6
NUMBERS_COUNT = 3000


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
        (b"1.18973149535723176502e4932", Fraction(LARGEST, ONE)),
        (b"3.7e-4951", Fraction(1, ONE)),
        (b"1.9e-4951", Fraction(1, ONE)),
        (b"1e00000000000001", Fraction(10)),
        (b"0" * 5000 + b"7", Fraction(7)),
        (b"1" + b"0" * 5000 + b"e-5000", Fraction(1)),
        (b"." + b"0" * 5000 + b"1e5001", Fraction(1)),
        (b"0x" + b"0" * 5000 + b"1", Fraction(1)),
    ],
)
def test_number_is_parsed_to_the_nearest_long_double(text: bytes, number: Fraction | float) -> None:
    parsed = parse(text)
    assert (Fraction(parsed, ONE) if isinstance(parsed, int) else parsed) == number


@pytest.mark.parametrize(
    "text",
    [
        b"", b" 1", b"1 ", b"1_0", b"1e", b".", b"-", b"0x", b"0xg", b"nan", b"nan(1)", b"1\0", b"1e4933", b"1e-4960",
        b"1.18973149535723176509e4932", b"1e99999999999999999999", b"1e-99999999999999999999", b"0x1p99999999999",
        b"0x1p-99999999999", b"1" * 5120, b"1.8e-4951", b"1" * 4934, b"0x.8p-16445",
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
    assert isinstance(numbers[0], int)
    assert isinstance(numbers[1], int)
    total = add(*numbers)
    assert isinstance(total, int)
    assert text_of(total) == text


def test_sum_beyond_the_largest_is_an_infinity_and_infinities_may_cancel_out() -> None:
    assert (add(LARGEST, LARGEST), add(-LARGEST, -LARGEST)) == (math.inf, -math.inf)
    assert add(ONE, -math.inf) == -math.inf
    cancelled = add(math.inf, -math.inf)
    assert cancelled != cancelled


def test_longest_number_is_printed_with_all_its_digits() -> None:
    assert len(text_of(LARGEST)) == 4933


@pytest.mark.parametrize(
    "text",
    [
        b"7" * 5000 + b"e19000", b"7" * 5000 + b"e-9900", b"." + b"7" * 5000, b"7" * 4932,
        b"0x" + b"f" * 5000 + b"p-19000", b"0x" + b"f" * 5000,
        b"0." + b"0" * 4900 + b"7" * 100, b"9" * 5000, b"1e-4951",
    ],
)  # fmt: skip
def test_longest_numbers_take_little_time(text: bytes) -> None:
    """Some microseconds each for Redis; 8.6 ms here while the sums were fractions."""

    def cost_s() -> float:
        started_s = process_time()
        number = parse(text)
        if isinstance(number, int):
            total = add(number, ONE // 3)
            assert isinstance(total, int)
            text_of(total)
        return process_time() - started_s

    assert min(cost_s() for _ in range(20)) < 0.0006


def long_number(rnd: Random) -> str:
    sign = rnd.choice(["", "-", "+"])
    if rnd.random() < 0.2:
        whole = f"{rnd.getrandbits(rnd.choice([1, 64, 65, 70, 200, 9000])):x}"
        part = rnd.choice(["", ".", ".8", ".00001"])
        exponent = rnd.choice([3, -3, 16_319, 16_383, -16_380, -16_445, rnd.randint(-17_000, 17_000)])
        return f"{sign}0x{whole}{part}{rnd.choice(['', f'p{exponent}'])}"
    digits = "".join(rnd.choices("0123456789", k=rnd.choice([1, 3, 19, 20, 21, 25, 60, 400, 4000])))
    point = rnd.choice([0, len(digits), rnd.randrange(len(digits) + 1)])
    exponent = rnd.choice([0, 5, -5, 4930 - point, -4950 - point, rnd.randint(-5500, 5500)])
    return f"{sign}{digits[:point]}.{digits[point:]}{rnd.choice(['', f'e{exponent}'])}"


# Numbers at the limits, and halfway between two long doubles.
EDGES = (
    "18446744073709551615.5", "18446744073709551617", "36893488147419103233", "36893488147419103235",
    "9223372036854775808.5", "1.18973149535723176502e4932", "1.18973149535723176508e4932", "1.82259976594123730e-4951",
    "1.8e-4951", "3.6e-4951", "1e-17", "5e-18", "1.5e-17", "0x1.00000000000000010p0", "0x1.00000000000000018p0",
)  # fmt: skip


@pytest.mark.oracle
def test_long_numbers_are_added_as_by_redis(headrace: Server, oracle: Server) -> None:
    rnd = Random(SEED)
    numbers = [rnd.choice(EDGES) if rnd.random() < 0.1 else long_number(rnd) for _ in range(NUMBERS_COUNT)]
    with headrace.connect() as ours, oracle.connect() as theirs:
        for old, increment in zip(numbers, [*numbers[1:], "0"], strict=True):
            for words in (("SET", "n", old), ("INCRBYFLOAT", "n", increment), ("INCREX", "n", "BYFLOAT", increment)):
                assert ours.call(*words) == theirs.call(*words), (old, words)
