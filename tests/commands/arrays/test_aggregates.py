"""AROP: numbers that C's `long double` holds have the same results with it as without it."""

from __future__ import annotations

from random import Random

import pytest

from headrace.commands.arrays import aggregates
from headrace.protocol.scalars import shortest_text
from headrace.store.companions.array_value import ArrayValue
from headrace.store.limits import Limits

OPERATIONS = [b"SUM", b"MIN", b"MAX", b"AND", b"OR", b"XOR"]
# Texts that are numbers, and texts that are nearly numbers.
TEXTS = [
    b"0", b"-0", b"007", b"-12", b"+5", b"1.5", b"-0.0", b"0.1", b".5", b"5.", b"-.25", b"0.30000000000000004",
    b"123456789012345678.901", b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808",
    b"-9223372036854775808.5", b"-9223372036854775809", b"18446744073709551615.5", b"0.000000000000000000000000000001",
    b"99999999999999999999999999999999", b"4.4", b"-8.2", b"1.10", b"12345.678",
    b"0.300", b"1234567.1234567", b"", b"-", b".", b"-.", b"1.2.3", b"12-5", b"a", b"beef",
    b"item", b"1a", b"127.0.0.1", b"2024-01-01", b"in", b"+i", b"e5", b"word and word",
]  # fmt: skip
# Numbers in other forms, and texts that could be one.
OTHERS = [b"1e5", b"-1.5e-7", b"0x1f", b"0x1.8p3", b"inf", b"-Infinity", b"1e", b"0x", b"ink", b"1" * 40]


def array_of(texts: list[bytes]) -> ArrayValue:
    value = ArrayValue(Limits())
    value.put_all(5, texts)
    return value


@pytest.mark.parametrize("seed", range(30))
def test_both_ways_have_one_result(seed: int) -> None:
    random = Random(seed)
    for _ in range(20):
        texts = random.choices(TEXTS, k=random.randrange(1, 7))
        value = array_of(texts)
        for place, name in enumerate(OPERATIONS):
            found = value.slices.decimals(0, 99, place, shortest_text)
            assert found in (None, (aggregates.combined(name, texts),)), (texts, name)


@pytest.mark.parametrize("text", OTHERS)
def test_an_uncommon_form_is_left_to_the_long_way(text: bytes) -> None:
    value = array_of([b"1.5", text])
    for place, name in enumerate(OPERATIONS):
        found = value.slices.decimals(0, 99, place, shortest_text)
        assert found in (None, (aggregates.combined(name, [b"1.5", text]),))
