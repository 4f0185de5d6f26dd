"""Random numbers below a size, in both forms: different ones, and each with the same chance."""

from __future__ import annotations

import random
from collections import Counter
from types import ModuleType

import pytest

from headrace.commands.core import random_indexes_plain

try:
    from headrace.commands.core import random_indexes
except ImportError:
    random_indexes = random_indexes_plain  # type: ignore[assignment]

FORMS = [random_indexes, random_indexes_plain]
DRAWS = 12_000


@pytest.fixture(autouse=True)
def seeded() -> None:
    random.seed(1)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1, 2, 3, 10, 128, 1_000, 100_000])
def test_numbers_are_different_and_below_the_size(form: ModuleType, size: int) -> None:
    for count in {0, 1, 2, size // 4, size // 3, size // 2, size - 1, size}:
        if count <= size:
            found = form.distinct_indexes(size, count)
            assert len(set(found)) == len(found) == count
            assert all(0 <= index < size for index in found)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("size", "count"), [(12, 1), (12, 3), (12, 4), (12, 11)])
def test_each_number_is_drawn_equally_often(form: ModuleType, size: int, count: int) -> None:
    """Within six standard deviations, by a seed that makes the same draws each time."""
    counts = Counter(index for _ in range(DRAWS) for index in form.distinct_indexes(size, count))
    share = count / size
    deviation = (DRAWS * share * (1 - share)) ** 0.5
    assert all(abs(counts[index] - DRAWS * share) < 6 * deviation for index in range(size))


@pytest.mark.parametrize("form", FORMS)
def test_numbers_may_repeat_and_each_is_drawn_equally_often(form: ModuleType) -> None:
    counts = Counter(form.repeated_indexes(12, DRAWS))
    assert all(abs(counts[index] - DRAWS / 12) < 6 * (DRAWS * 11 / 144) ** 0.5 for index in range(12))


@pytest.mark.parametrize("form", FORMS)
def test_a_seed_decides_what_is_drawn(form: ModuleType) -> None:
    first = form.distinct_indexes(1_000, 20), form.repeated_indexes(1_000, 20)
    random.seed(1)
    assert (form.distinct_indexes(1_000, 20), form.repeated_indexes(1_000, 20)) == first
    assert form.distinct_indexes(1_000, 20) != first[0]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", [-1, 11])
def test_more_numbers_than_there_are_is_an_error(form: ModuleType, count: int) -> None:
    with pytest.raises(ValueError, match=str(count)):
        form.distinct_indexes(10, count)
