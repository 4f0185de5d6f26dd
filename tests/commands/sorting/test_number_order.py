"""The order of elements by numbers: both forms alike."""

from __future__ import annotations

import random

import pytest

from headrace.commands.sorting import number_order_plain

try:
    from headrace.commands.sorting import number_order
except ImportError:
    number_order = None  # type: ignore[assignment]

FORMS = [number_order_plain, *([number_order] if number_order is not None else [])]
# Elements that spell numbers in digits.
NUMBERS = [
    b"0", b"-0", b"+0", b"0.0", b"-0.0", b"7", b"07", b"7.0", b"-7", b"+7", b".5", b"5.", b"-.5", b"999999999999999",
    b"-999999999999999", b"1000000000000000", b"9007199254740993", b"9007199254740992", b"9" * 300, b"-" + b"9" * 299,
    b"0." + b"0" * 290 + b"1", b"0" * 300,
]  # fmt: skip
OTHERS = [
    b"",
    b"-",
    b"+",
    b".",
    b"1-2",
    b"1e3",
    b" 1",
    b"1 ",
    b"inf",
    b"nan",
    b"0x1",
    b"1\x00",
    b"9" * 301,
    b"--1",
    b"a",
]


@pytest.mark.parametrize("form", FORMS)
def test_equal_numbers_are_in_the_order_of_their_bytes(form: object) -> None:
    elements = [b"7.0", b"-7", b"7", b"07", b"+7", b"10", b"-0", b"0"]
    ordered = [b"-7", b"-0", b"0", b"+7", b"07", b"7", b"7.0", b"10"]
    assert form.sorted_by_numbers(elements, elements, False) == ordered  # type: ignore[attr-defined]
    assert form.sorted_by_numbers(elements, elements, True) == ordered[::-1]  # type: ignore[attr-defined]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", OTHERS)
def test_other_spellings_are_left_to_the_caller(form: object, text: bytes) -> None:
    texts = [b"1", text, b"2"]
    assert form.sorted_by_numbers(texts, texts, False) is None  # type: ignore[attr-defined]


@pytest.mark.skipif(number_order is None, reason="there is no compiled form")
@pytest.mark.parametrize("seed", range(20))
def test_both_forms_are_alike(seed: int) -> None:
    rnd = random.Random(seed)
    for _ in range(100):
        size = rnd.choice([0, 1, 2, 10, 200])
        texts = [
            rnd.choice(NUMBERS) if rnd.random() < 0.3 else b"%.*f" % (rnd.randrange(4), rnd.uniform(-50, 50))
            for _ in range(size)
        ]
        elements = rnd.choice([texts, [b"e%d" % rnd.randrange(20) for _ in texts]])
        if rnd.random() < 0.3:
            texts.sort(key=float)
        for reverse in (False, True):
            found = number_order.sorted_by_numbers(elements, texts, reverse)
            assert found == number_order_plain.sorted_by_numbers(elements, texts, reverse)
