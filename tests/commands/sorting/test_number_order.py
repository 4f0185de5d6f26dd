"""The order of elements by numbers: both forms alike."""

from __future__ import annotations

import random
from types import ModuleType

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


def sorted_by_numbers(
    form: ModuleType, elements: list[bytes], texts: list[bytes], reverse: bool, step: int = 4096
) -> list[bytes] | None:
    order = form.NumberOrder(elements, reverse)
    for start in range(0, len(texts), step):
        if not order.add(texts[start : start + step]):
            return None
    while order.merge(step):
        pass
    return [each for start in range(0, len(elements), step) for each in order.take(start, start + step)]


@pytest.mark.parametrize("form", FORMS)
def test_equal_numbers_are_in_the_order_of_their_bytes(form: ModuleType) -> None:
    elements = [b"7.0", b"-7", b"7", b"07", b"+7", b"10", b"-0", b"0"]
    ordered = [b"-7", b"-0", b"0", b"+7", b"07", b"7", b"7.0", b"10"]
    assert sorted_by_numbers(form, elements, elements, False) == ordered
    assert sorted_by_numbers(form, elements, elements, True) == ordered[::-1]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", OTHERS)
def test_other_spellings_are_left_to_the_caller(form: ModuleType, text: bytes) -> None:
    texts = [b"1", text, b"2"]
    assert sorted_by_numbers(form, texts, texts, False) is None


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
            expected = sorted_by_numbers(number_order_plain, elements, texts, reverse)
            assert expected is not None
            assert sorted(expected) == sorted(elements)
            for step in (1, 2, 3, 7, 4096):
                assert sorted_by_numbers(number_order, elements, texts, reverse, step) == expected


@pytest.mark.skipif(number_order is None, reason="there is no compiled form")
def test_an_order_refuses_what_it_cannot_put_in_order() -> None:
    elements = [b"3", b"1", b"2"]
    order = number_order.NumberOrder(elements, False)
    for texts in (elements * 2, [b"1"] * 4):
        with pytest.raises(ValueError, match="more elements"):
            order.add(texts)
    assert order.add(elements[:1])
    with pytest.raises(ValueError, match="more texts"):
        order.add(elements[1:])
    assert order.add(elements[1:2])
    with pytest.raises(IndexError, match="not in order yet"):
        order.take(0, 2)
    assert order.merge(9)
    with pytest.raises(ValueError, match="after the merge began"):
        order.add(elements[2:])
    assert not order.merge(9)
    assert order.take(0, 9) == [b"1", b"3"]
    for start, stop in ((-1, 2), (3, 4), (2, 1)):
        with pytest.raises(IndexError, match="no such elements"):
            order.take(start, stop)
    with pytest.raises(TypeError, match="bytes"):
        number_order.NumberOrder(["text"], False).add([b"1"])
