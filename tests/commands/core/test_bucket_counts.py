"""Counts of a histogram are added up and searched alike by both forms."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from headrace.commands.core import bucket_counts_plain

try:
    from headrace.commands.core import bucket_counts
except ImportError:  # there was no C compiler at installation
    bucket_counts = bucket_counts_plain  # type: ignore[assignment]

FORMS = [bucket_counts, bucket_counts_plain]
SEED = 31


@pytest.mark.parametrize("form", FORMS)
def test_a_value_counts_as_the_middle_of_its_bucket(form: Any) -> None:
    assert form.summed([], 32) == (0, 0)
    assert form.summed([0, 0], 32) == (0, 0)
    assert form.summed([1, 0, 2], 32) == (3, 16 + 2 * 80)
    assert form.summed([2**40], 32) == (2**40, 2**44)


@pytest.mark.parametrize("form", FORMS)
def test_a_rank_is_found_in_the_bucket_with_so_many_values_up_to_it(form: Any) -> None:
    assert form.ranked([2, 0, 3], [1, 2, 3, 5]) == [0, 0, 2, 2]
    assert form.ranked([2, 0, 3], [5, 1, 3, 2]) == [2, 0, 2, 0]
    assert form.ranked([2, 0, 3], [6, 5, 7]) == [3, 2, 3]
    assert form.ranked([], [1]) == [0]
    assert form.ranked([1], []) == []


def test_both_forms_agree_on_random_histograms() -> None:
    random = Random(SEED)
    for _ in range(300):
        counts = [random.choice([0, 0, 1, random.randrange(1000)]) for _ in range(random.randrange(40))]
        ranks = [random.randrange(1, 2 + 2 * sum(counts)) for _ in range(random.randrange(6))]
        assert bucket_counts.summed(counts, 32) == bucket_counts_plain.summed(counts, 32)
        assert bucket_counts.ranked(counts, ranks) == bucket_counts_plain.ranked(counts, ranks)
