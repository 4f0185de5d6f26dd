"""The longest common subsequence: its length, Redis' choice among equally long ones, and speed for long strings."""

from __future__ import annotations

import random
import time
from types import ModuleType

import pytest

from headrace.commands.strings import subsequence_plain
from headrace.commands.strings.subsequence_plain import Match, common_matches

try:
    from headrace.commands.strings import subsequence
except ImportError:  # there was no C compiler at installation
    subsequence = subsequence_plain  # type: ignore[assignment]

FORMS = [subsequence_plain, *([subsequence] if subsequence is not subsequence_plain else [])]
in_both_forms = pytest.mark.parametrize("form", FORMS)


def walk_back(a: bytes, b: bytes) -> list[tuple[int, int]]:
    """Returns pairs of indexes by a walk through the full table of lengths, as in Redis."""
    sizes = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            grown = sizes[i - 1][j - 1] + 1
            sizes[i][j] = grown if a[i - 1] == b[j - 1] else max(sizes[i - 1][j], sizes[i][j - 1])
    pairs = []
    i, j = len(a), len(b)
    while i and j:
        if a[i - 1] == b[j - 1]:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif sizes[i - 1][j] > sizes[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return pairs


def ranges_of(pairs: list[tuple[int, int]]) -> list[list[list[int]]]:
    """Returns the pairs in ranges of adjacent ones."""
    ranges: list[list[list[int]]] = []
    for i, j in pairs:
        if ranges and [ranges[-1][0][0], ranges[-1][1][0]] == [i + 1, j + 1]:
            ranges[-1][0][0], ranges[-1][1][0] = i, j
        else:
            ranges.append([[i, i], [j, j]])
    return ranges


@in_both_forms
@pytest.mark.parametrize("size_max", [40, 200])
@pytest.mark.parametrize("seed", range(4))
def test_matches_are_those_of_a_walk_through_the_full_table(form: ModuleType, seed: int, size_max: int) -> None:
    source = random.Random(seed)
    for _ in range(2_400 // size_max):
        letters = b"abcdefgh"[: source.randint(1, 8)]
        a, b = (bytes(source.choices(letters, k=source.randint(0, size_max))) for _ in range(2))
        pairs = walk_back(a, b)
        ranges = ranges_of(pairs)
        assert form.common_ranges(a, b, 0, False) == (ranges, len(pairs)), (seed, a, b)
        longer = [[*each, each[0][1] - each[0][0] + 1] for each in ranges if each[0][1] > each[0][0]]
        assert form.common_ranges(a, b, 2, True) == (longer, len(pairs)), (seed, a, b)
        assert form.common_text(a, b) == bytes([a[i] for i, _ in reversed(pairs)]), (seed, a, b)
        assert form.common_size(a, b) == len(pairs), (seed, a, b)


@in_both_forms
def test_lengths_around_those_of_words_of_bits(form: ModuleType) -> None:
    for size in (0, 1, 63, 64, 65, 127, 128, 129):
        for other in (0, 1, 63, 64, 65, 128):
            assert form.common_size(b"x" * size, b"x" * other) == min(size, other)
            assert form.common_text(b"x" * size, b"x" * other) == b"x" * min(size, other)
            assert form.common_ranges(b"x" * size, b"y" * other, 0, False) == ([], 0)


def test_adjacent_matches_form_one_range() -> None:
    assert common_matches(b"ohmytext", b"mynewtext") == [Match(4, 5, 4), Match(2, 0, 2)]
    assert common_matches(b"same", b"same") == [Match(0, 0, 4)]
    assert common_matches(b"", b"x") == []


@in_both_forms
@pytest.mark.parametrize("swapped", [False, True])
def test_largest_strings_that_redis_takes_need_no_table(form: ModuleType, swapped: bool) -> None:
    """Goal: no stall. Method: the steps of a table of 128 million numbers would take this process many seconds."""
    a, b = b"ab" * 5_600, b"ba" * 5_600
    c, d = b"a", b"ab" * 20_000_000
    if swapped:
        a, b, c, d = b, a, d, c
    began = time.process_time()
    assert form.common_size(a, b) == 11_199
    assert form.common_ranges(a, b, 0, False)[1] == 11_199
    assert form.common_ranges(c, d, 0, False)[1] == 1
    assert time.process_time() - began < 10
