"""A stable sort in steps equals the one of Python."""

from __future__ import annotations

import random

import pytest

from headrace.commands.core.sorted_runs import RUN_COUNT, sort_in_steps
from headrace.commands.execution.slices import STEP_COUNT, result_of
from headrace.commands.sorting.order import (
    sort_by_numbers,
    sort_by_own_texts,
    sort_few_by_numbers,
    sort_few_by_own_texts,
)

SIZES = [0, 1, RUN_COUNT, RUN_COUNT + 1, 3 * RUN_COUNT - 1, 10 * RUN_COUNT]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kinds_count", [1, 2, 100, 10_000_000])
def test_the_order_is_that_of_a_sort_at_once(size: int, kinds_count: int, reverse: bool) -> None:
    draw = random.Random(size + kinds_count)
    keys = [draw.randrange(kinds_count) for _ in range(size)]
    places = list(range(size))
    expected = sorted(places, key=keys.__getitem__, reverse=reverse)
    assert result_of(sort_in_steps(places, keys.__getitem__, reverse=reverse)) == expected
    assert result_of(sort_in_steps(keys, None, reverse=reverse)) == sorted(keys, reverse=reverse)


@pytest.mark.parametrize("order", [1, -1])
def test_sorted_items_stay_so(order: int) -> None:
    items = list(range(5 * RUN_COUNT))[::order]
    assert result_of(sort_in_steps(items, None, reverse=False)) == list(range(5 * RUN_COUNT))


def test_no_step_sorts_everything() -> None:
    items = [0] * (4 * RUN_COUNT)
    assert sum(1 for _ in sort_in_steps(items, None, reverse=False)) >= 4


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kinds_count", [1, 3, STEP_COUNT, 10_000_000])
def test_elements_of_one_number_are_in_the_order_of_their_bytes(kinds_count: int, reverse: bool) -> None:
    draw = random.Random(kinds_count)
    elements = [b"%d%b" % (draw.randrange(kinds_count), draw.choice([b"", b".0", b".00"])) for _ in range(20_000)]
    expected = sorted(elements, key=lambda element: (float(element), element), reverse=reverse)
    assert result_of(sort_by_numbers(elements, None, reverse=reverse)) == expected


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kinds_count", [1, 3, 1000])
def test_few_elements_are_in_the_order_of_many(kinds_count: int, reverse: bool) -> None:
    draw = random.Random(kinds_count)
    elements = [b"%d%b" % (draw.randrange(kinds_count), draw.choice([b"", b".0", b".00"])) for _ in range(200)]
    weights = [draw.choice([None, b"0", b"-1", b"2.5"]) for _ in elements]
    for each in (None, weights):
        few = sort_few_by_numbers(elements, each, reverse=reverse)
        assert few == result_of(sort_by_numbers(elements, each, reverse=reverse))
    texts = [element + draw.choice([b"", b"\0", b"\0x"]) for element in elements]
    for is_stored in (False, True):
        few = sort_few_by_own_texts(texts, reverse=reverse, is_stored=is_stored)
        assert few == result_of(sort_by_own_texts(texts, reverse=reverse, is_stored=is_stored))
