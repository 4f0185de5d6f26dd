"""Integers in a block of memory, in both forms, compared with sets of Python."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from headrace.persistence.rdb.intset import pack_integers
from headrace.store.companions import packed_integers_plain

try:
    from headrace.store.companions import packed_integers
except ImportError:  # there was no C compiler at installation
    packed_integers = packed_integers_plain  # type: ignore[assignment]

FORMS = [packed_integers, packed_integers_plain]
SEED = 24
EDGES = [0, 1, -1, 2**15 - 1, 2**15, -(2**15), 2**31, -(2**31) - 1, 2**63 - 1, -(2**63)]
NOT_INTEGERS = [b"", b"x", b"01", b"-0", b"+1", b" 1", b"1 ", b"%d" % 2**63, b"1" * 30]


def drawn(draw: Random) -> int:
    return draw.choice([draw.randrange(-40, 40), draw.choice(EDGES)])


def made(form: Any, numbers: set[int]) -> Any:
    integers = form.PackedIntegers()
    integers.load(sorted(numbers))
    return integers


@pytest.mark.parametrize("form", FORMS)
def test_random_changes_are_those_of_a_set(form: Any) -> None:
    draw = Random(SEED)
    integers, model = form.PackedIntegers(), set[int]()
    for _ in range(4_000):
        number = drawn(draw)
        text = b"%d" % number
        texts = [draw.choice([b"%d" % drawn(draw), draw.choice(NOT_INTEGERS)]) for _ in range(draw.randrange(9))]
        present = {b"%d" % each for each in model}
        match draw.randrange(5):
            case 0 | 1:
                assert integers.add(text) == (number not in model)
                model.add(number)
            case 2:
                assert integers.discard(text) is (number in model)
                model.discard(number)
            case 3:
                assert integers.discard_all(texts) == len(present & set(texts))
                model = {int(each) for each in present - set(texts)}
            case _:
                twin = integers.copy()
                integers.add(text)
                integers = twin
        present = {b"%d" % each for each in model}
        assert len(integers) == len(model)
        assert integers.numbers() == sorted(model)
        assert integers.between(0, len(model)) == [b"%d" % each for each in sorted(model)]
        assert integers.between(2, 5) == [b"%d" % each for each in sorted(model)[2:5]]
        assert (text in integers) is (text in present)
        assert integers.has_each(texts) == [int(each in present) for each in texts]
        for wanted in (True, False):
            assert integers.having(texts, wanted) == [each for each in texts if (each in present) is wanted]
        if model:
            indexes = [draw.randrange(len(model)) for _ in range(3)]
            assert integers.at_each(indexes) == [b"%d" % sorted(model)[index] for index in indexes]
            assert integers.at(indexes[0]) == b"%d" % sorted(model)[indexes[0]]
            assert integers.intset() in (None, pack_integers(sorted(model)))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", NOT_INTEGERS)
def test_other_texts_are_not_integers(form: Any, text: bytes) -> None:
    integers = made(form, {0, 1})
    assert integers.add(text) == -1
    assert not integers.discard(text)
    assert text not in integers
    assert integers.numbers() == [0, 1]


@pytest.mark.parametrize("form", FORMS)
def test_results_are_those_of_sets(form: Any) -> None:
    draw = Random(SEED)
    for _ in range(600):
        models = [{drawn(draw) for _ in range(draw.choice([0, 1, 3, 30, 200]))} for _ in range(draw.randrange(1, 5))]
        first, *others = [made(form, model) for model in models]
        assert first.common(others).numbers() == sorted(models[0].intersection(*models[1:]))
        assert first.union(others).numbers() == sorted(models[0].union(*models[1:]))
        assert first.difference(others).numbers() == sorted(models[0].difference(*models[1:]))
        assert first.numbers() == sorted(models[0])


@pytest.mark.parametrize("form", FORMS)
def test_few_numbers_are_looked_for_in_many(form: Any) -> None:
    many = made(form, set(range(0, 100_000, 3)))
    few = made(form, {0, 1, 2, 3, 99_999, 100_000})
    assert few.common([many]).numbers() == [0, 3, 99_999]
    assert few.difference([many]).numbers() == [1, 2, 100_000]
    assert many.common([few]).numbers() == [0, 3, 99_999]


@pytest.mark.parametrize("form", FORMS)
def test_an_index_that_is_not_there_is_an_error(form: Any) -> None:
    integers = made(form, {5})
    for index in (-1, 1):
        with pytest.raises(IndexError):
            integers.at(index)
        with pytest.raises(IndexError):
            integers.at_each([0, index])


@pytest.mark.skipif(packed_integers is packed_integers_plain, reason="there was no C compiler at installation")
def test_a_number_takes_little_more_than_eight_bytes() -> None:
    integers = packed_integers.PackedIntegers()
    for number in range(10_000):
        integers.add(b"%d" % number)
    assert 80_000 <= integers.memory_size < 100_000
    assert integers.discard_all([b"%d" % number for number in range(9_000)]) == 9_000
    assert integers.memory_size < 10_000
